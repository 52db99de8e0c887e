// Rows of activations as the kernels take them: f32, and A8 codes with their scales (docs/NUMERICS.md).
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvasir {

// n_rows rows of n_cols int8 codes with one f32 scale per block of 32 or 256.
//   codes  [n_rows][n_cols]          64-byte aligned rows are not required
//   scales [n_rows][n_cols / block]
//   sums   [n_rows][n_cols / 16]     the sum of each 16 codes: what types with offsets and minima need
// Borrowed. codes and scales travel on the wire; sums are made again by whoever receives them.
struct A8Rows {
  const int8_t* codes = nullptr;
  const float* scales = nullptr;
  const int16_t* sums = nullptr;
  int block = 0;
};

// The same rows in every form that somebody needs; a form that nobody needs is null.
struct ActRows {
  int64_t n_rows = 0;
  int64_t n_cols = 0;
  const float* f32 = nullptr;  // [n_rows][n_cols]
  A8Rows a8_32;
  A8Rows a8_256;
};

}  // namespace kvasir
