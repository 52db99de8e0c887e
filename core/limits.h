// Every bound on what the outside may ask for, each with its reason.
#pragma once
#include <cstdint>

namespace kvasir {

// GGUF. Bounds by the bytes left in the file come first; these only keep honest nonsense from taking memory.
inline constexpr uint64_t kMaxTensors = 1 << 20;    // the largest known split model has about 10^5
inline constexpr uint64_t kMaxMetadata = 1 << 16;   // real files have under 100 keys
inline constexpr uint64_t kMaxTensorName = 64;      // ggml's own limit, terminator excluded
inline constexpr uint64_t kMaxMetadataKey = 65535;  // the GGUF specification's limit
inline constexpr uint64_t kMaxSplitFiles = 1000;    // file names carry five digits; 1,000 parts of 4 GB are 4 TB
inline constexpr uint64_t kMinAlignment = 8;        // the GGUF specification asks for a multiple of 8
inline constexpr uint64_t kMaxAlignment = 1 << 20;  // huge pages are 2^21, nobody aligns tensors to more
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // the reference implementation's limit

// Model shapes: what the kernels' int32 and int16 sums and the buffers are laid out for.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxExperts = 4096;  // the largest known model has 896
inline constexpr int64_t kMaxExpertsUsed = 64;
inline constexpr int64_t kMaxDim = 1 << 20;  // hidden, feed-forward and projection widths
inline constexpr int64_t kMaxHeadDim = 1024;
inline constexpr int64_t kMaxVocab = 1 << 22;
inline constexpr int64_t kMaxContext = 1 << 24;

// Scheduling.
inline constexpr int64_t kMaxBatchRows = 512;  // rows of one forward pass; longer prompts go in chunks
inline constexpr int64_t kMaxThreads = 1024;

// The wire (docs/PROTOCOL.md). Each kind of frame has a bound of its own below kMaxFrameBody.
inline constexpr int64_t kMaxRequestRows = kMaxBatchRows;                       // rows of one request
inline constexpr int64_t kMaxRequestPairs = kMaxRequestRows * kMaxExpertsUsed;  // as many as a batch can have
inline constexpr uint32_t kMaxSmallBody = 4096;      // HELLO, PING, ERROR, ...: all but rows, sums, holdings, status
inline constexpr uint32_t kMaxStatusBody = 1 << 20;  // JSON; a worker of 1,000 slices has about 100 KB
inline constexpr uint32_t kMaxHoldings = 4096;       // ranges that a worker announces
inline constexpr uint32_t kMaxFrameBody = 1U << 30;  // no frame is larger, whatever a model's shapes say
inline constexpr int64_t kMaxInFlight = 64;          // requests that one connection may have open
inline constexpr int64_t kMaxConnections = 512;      // of a server; more are told so and closed
inline constexpr int64_t kMaxWorkers = 1024;         // that one backbone dials
inline constexpr int64_t kMaxPasses = 16;            // forward passes that wait for the network at once

}  // namespace kvasir
