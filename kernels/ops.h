// The contract of the exact kernels: each op once, with shapes, and the table that a CPU target fills.
//
// Every op here is bit-exact by docs/NUMERICS.md: any target, any number of rows, any split of the rows gives the same
// bytes. The conformance suite (tests/conformance) holds each table to that, forced by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/activations.h"
#include "core/tensor_view.h"

namespace kvasir {

// A weight matrix [n_rows][n_cols] in the layout of one backend. Borrows data: packed memory made by pack, or, where
// packed_bytes is 0, the GGUF bytes as they are.
struct Weights {
  QuantType type = QuantType::f32;
  int64_t n_rows = 0;
  int64_t n_cols = 0;
  const std::byte* data = nullptr;
};

// Row functions of one CPU target. Pure: no state, no allocation, callable from any thread; at most 64 KiB of stack.
// No pointer has to be aligned unless said. Outputs never overlap inputs.
struct CpuBackend {
  std::string_view name;  // what KVASIR_BACKEND takes: "reference", "avx2", "avx512", "amx"

  // Row ranges of matmul and pack begin at multiples of this; they end at one or at n_rows.
  int64_t row_group;

  // Bytes of a packed matrix, or 0 where the target computes from GGUF bytes as they are and pack is not called.
  // Never more than the GGUF bytes of n_rows rounded up to row_group rows.
  int64_t (*packed_bytes)(QuantType type, int64_t n_rows, int64_t n_cols);

  // Packs rows [row_begin, row_end) of the GGUF matrix src (n_matrices = 1) into dst, the start of the whole packed
  // matrix (64-byte aligned). Disjoint ranges may be packed by several threads. Float weights below 2^-40 become 0.
  void (*pack)(const TensorView& src, int64_t row_begin, int64_t row_end, std::byte* dst);

  // One row of A8: codes [n], scales [n/block], sums [n/16] of x [n]. block is 32 or 256 and divides n. False, with
  // outputs unspecified, if any x is not finite.
  bool (*quantize_a8)(const float* x, int64_t n, int block, int8_t* codes, float* scales, int16_t* sums);

  // out [n] = x [n] with |x| < 2^-40 read as 0: the form in which float weights take activations. False if any x is not
  // finite.
  bool (*flush_f32)(const float* x, int64_t n, float* out);

  // out[t * out_stride + r] = dot(weight row r, activation row t) for r in [row_begin, row_end), t in [0, x.n_rows).
  // x must hold the form that info(w.type).act names; its f32 form must have gone through flush_f32.
  // 1 <= x.n_rows <= kMaxBatchRows, x.n_cols == w.n_cols, out_stride >= row_end.
  void (*matmul)(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out,
                 int64_t out_stride);

  // h [n] = silu(gate [n]) * up [n]. h may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* h);

  // sums [n] += int64(rint((weight * y [n]) * 2^24)). False, with sums unspecified, if any |weight * y| is not below
  // 2^38.
  bool (*add_fixed)(float weight, const float* y, int64_t n, int64_t* sums);

  // out [n] = f32(sums [n]) * 2^-24.
  void (*fixed_to_f32)(const int64_t* sums, int64_t n, float* out);
};

// sums [n/16] from codes [n]: for rows that came over the wire without them.
void a8_sums(const int8_t* codes, int64_t n, int16_t* sums);

}  // namespace kvasir
