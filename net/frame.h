// The 64-byte header of every frame, and the checks that come before its body is believed (docs/PROTOCOL.md).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/error.h"

namespace kvasir::net {

inline constexpr uint32_t kMagic = 0x5253564b;  // "KVSR"
inline constexpr uint16_t kProtocolVersion = 1;
inline constexpr uint16_t kNumericsVersion = 1;  // docs/NUMERICS.md
inline constexpr size_t kHeaderBytes = 64;

enum class Kind : uint16_t {
  hello = 1,         // backbone -> worker, first
  welcome = 2,       // worker -> backbone, the answer
  experts = 3,       // rows and pairs to compute
  sums = 4,          // the answer
  error = 5,         // the answer that is none; request id 0: about the connection
  cancel = 6,        // forget the request; nothing answers
  ping = 7,          // either way
  pong = 8,          // the answer, with load
  drain = 9,         // worker -> backbone: send no more, open requests are still answered
  status = 10,       // anybody -> worker
  status_reply = 11  // JSON
};
std::string_view to_string(Kind kind);

// The fields in the order in which they lie, little endian, from offset 0 of the frame:
//   u32 magic  u16 version  u16 kind  u64 request_id  u32 body_bytes  i32 layer  u32 n_rows  u32 n_pairs
//   u32 deadline_us  u16 forms  u16 zero  u64 model_tag  u64 body_hash  u64 header_hash
struct Header {
  uint16_t version = kProtocolVersion;
  Kind kind = Kind::error;
  uint64_t request_id = 0;
  uint32_t body_bytes = 0;
  int32_t layer = 0;
  uint32_t n_rows = 0;
  uint32_t n_pairs = 0;
  uint32_t deadline_us = 0;  // of experts: time that the sender will wait; 0: none
  uint16_t forms = 0;        // of experts: which forms of the rows follow, kFormF32 | kFormA8_32 | kFormA8_256
  uint64_t model_tag = 0;    // first 8 bytes of the model's digest
  uint64_t body_hash = 0;    // XXH3-64 of the body
};
inline constexpr uint16_t kFormF32 = 1, kFormA8_32 = 2, kFormA8_256 = 4;

// Writes the header for this body; sets body_bytes and body_hash, computes header_hash (XXH3-64 of the 56 bytes
// before it).
void write_header(Header header, std::span<const std::byte> body, std::span<std::byte, kHeaderBytes> to);

// Magic, header hash, zeros, version, kind, in this order; then body_bytes against the bound of its kind
// (max_body_bytes for experts and sums, which depend on the model) and fields that must be 0 for the kind. Fails with
// malformed, or unsupported for a version or kind that this build does not know.
Expected<Header> read_header(std::span<const std::byte, kHeaderBytes> from, uint32_t max_body_bytes);

// malformed if the hash does not fit.
Expected<void> check_body(const Header& header, std::span<const std::byte> body);

}  // namespace kvasir::net
