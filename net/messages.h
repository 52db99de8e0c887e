// The bodies of frames: written from and read into what the programs work with. Every read checks before it believes.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/digest.h"
#include "core/worker.h"
#include "net/frame.h"

namespace kvasir::net {

// The first 8 bytes of the root of a model's hash tree, little endian.
uint64_t model_tag(const Digest& digest);

// What a model's experts look like: the same for every holder of any part of it.
struct ModelShape {
  Digest digest{};
  int32_t n_layers = 0, n_experts = 0;
  int32_t n_experts_used = 0;
  int32_t n_embd = 0, n_ff = 0;
  bool operator==(const ModelShape&) const = default;
};

struct Hello {
  uint16_t version_min = kProtocolVersion, version_max = kProtocolVersion;
  uint16_t numerics = kNumericsVersion;
  Digest digest{};   // all zero: only status and ping will be asked
  std::string name;  // for the worker's log; at most 64 bytes of printable ASCII
};

struct Welcome {
  uint16_t version = kProtocolVersion;
  uint16_t numerics = kNumericsVersion;
  ModelShape shape;
  uint32_t max_rows = 0, max_pairs = 0, max_in_flight = 0;  // of one request; requests open at once
  uint64_t memory_bytes = 0;                                // that the experts take
  std::string backend;                                      // as "avx512"; at most 64 bytes of printable ASCII
  std::vector<ExpertRange> holdings;                        // sorted, not overlapping; at most kMaxHoldings
};

// Which form of its rows a layer's gate and up take; part of what a worker needs to know to check a request.
struct Request {
  int32_t layer = 0;
  int64_t n_rows = 0, n_embd = 0;
  uint16_t forms = 0;
  // Views into the body (or, when writing, into the sender's rows); null if the form is absent.
  const float* f32 = nullptr;
  const int8_t* codes_32 = nullptr;
  const float* scales_32 = nullptr;
  const int8_t* codes_256 = nullptr;
  const float* scales_256 = nullptr;
  std::vector<ExpertPair> pairs;  // by row, then in any order; every row has at least one
};

struct Sums {
  uint32_t queue_us = 0, compute_us = 0;  // at the worker: waiting, computing
  uint32_t n_waiting = 0;                 // requests that wait there now
};

enum class WireError : uint16_t {
  malformed = 1,    // a field or a body is not as the protocol says; the connection closes where framing is lost
  version = 2,      // no common version of protocol or numerics
  wrong_model = 3,  // another digest
  not_held = 4,     // layer or expert
  limit = 5,        // more rows, pairs or open requests than the worker takes
  numeric = 6,      // an output is not finite
  deadline = 7,     // its time was over before it was computed
  draining = 8,     // the worker is about to stop
  not_allowed = 9,  // this key may not ask
  busy = 10,        // too many connections
  internal = 11,    // the worker failed
};
struct ErrorReply {
  WireError code = WireError::internal;
  std::string text;  // UTF-8, at most 1024 bytes
};
std::string_view to_string(WireError code);

struct Pong {
  uint32_t n_waiting = 0, n_in_flight = 0;
  int32_t temperature_mc = INT32_MIN;  // thousandths of a degree Celsius; INT32_MIN: unknown
  int32_t battery_percent = -1;        // -1: unknown or none
};

// Whole frames, appended to `frame` (cleared first; its memory is kept and reused).
void write_hello(const Hello& hello, std::vector<std::byte>& frame);
void write_welcome(const Welcome& welcome, std::vector<std::byte>& frame);
void write_error(uint64_t request_id, const ErrorReply& error, std::vector<std::byte>& frame);
void write_empty(Kind kind, uint64_t request_id, std::vector<std::byte>& frame);  // cancel, ping, drain, status
void write_pong(uint64_t request_id, const Pong& pong, std::vector<std::byte>& frame);
void write_status_reply(uint64_t request_id, std::string_view json, std::vector<std::byte>& frame);

// A request for the rows row_ids of batch.rows (ascending, each with at least one pair) in the given forms; pairs' rows
// are indices into batch.rows and are renumbered. deadline_us as in Header.
struct RequestArgs {
  uint64_t request_id = 0, model_tag = 0;
  uint32_t deadline_us = 0;
  uint16_t forms = 0;  // which forms of the rows the layer's experts take; the others are not sent
};
void write_experts(const RequestArgs& args, const ExpertBatch& batch, std::span<const int32_t> row_ids,
                   std::span<const ExpertPair> pairs, std::vector<std::byte>& frame);

// sums [n_rows][n_embd], each row in the narrowest of 4, 5, 6, 8 bytes an element that holds it (docs/NUMERICS.md).
void write_sums(uint64_t request_id, uint64_t tag, int32_t layer, const Sums& info, std::span<const int64_t> sums,
                int64_t n_rows, std::vector<std::byte>& frame);

Expected<Hello> read_hello(std::span<const std::byte> body);
Expected<Welcome> read_welcome(std::span<const std::byte> body);
Expected<ErrorReply> read_error(std::span<const std::byte> body);
Expected<Pong> read_pong(std::span<const std::byte> body);

// Largest bodies of experts and sums for a model and a number of rows.
uint64_t max_experts_body(const ModelShape& shape, int64_t max_rows, int64_t max_pairs);
uint64_t max_sums_body(const ModelShape& shape, int64_t max_rows);

// Checks everything that does not need to know what is held: 1 <= rows <= max_rows, rows <= pairs <= max_pairs, exact
// body length, known forms, codes above -128, scales 0 or in [2^-68, 2^120] and finite f32 values, weights finite,
// row indices in range, every row used, expert ids below n_experts, no expert twice in a row. to's pairs are reused.
// Fails with malformed, or limit where a count passes a limit.
Expected<void> read_experts(const Header& header, std::span<const std::byte> body, const ModelShape& shape,
                            int64_t max_rows, int64_t max_pairs, Request& to);

// Checks rows, widths and exact length, then adds row i into sums row row_ids[i] (wrapping). sums: [..][n_embd];
// nothing is added if anything is wrong.
Expected<Sums> read_sums(const Header& header, std::span<const std::byte> body, int64_t n_embd,
                         std::span<const int32_t> row_ids, std::span<int64_t> sums);

}  // namespace kvasir::net
