// What the suite feeds to the kernels: weights and activations, ordinary and extreme, made from fixed seeds.
#pragma once
#include <string_view>

#include "core/tensor_view.h"
#include "kernels/ops.h"
#include "tests/conformance/guarded.h"
#include "tests/conformance/random.h"

namespace kvasir::conformance {

// A weight matrix in GGUF bytes.
struct Matrix {
  Matrix(QuantType type, int64_t n_rows, int64_t n_cols);
  TensorView view() const { return {type, n_cols, n_rows, 1, bytes.data()}; }
  std::byte* block(int64_t row, int64_t b) const;  // block b of a row; for float types, element b

  QuantType type;
  int64_t n_rows, n_cols;
  Guarded<std::byte> bytes;
};

// Random codes and sub-block scales, f16 scales of an ordinary size; float weights about 0.04 in size.
Matrix ordinary_weights(QuantType type, int64_t n_rows, int64_t n_cols, Random& random);

// Writes the block's own scale(s): d, and m or dmin (ignored where the type has none). MXFP4 takes the power of two.
void set_scales(QuantType type, std::byte* block, float d, float m);

// n values of a kind: a row of activations.
using FillRow = void (*)(float* x, int64_t n, Random& random);

// How to make each kind of row that the law has an opinion on, none of it so large that an ordinary weight row
// overflows.
struct RowKind {
  std::string_view name;
  FillRow fill;
};
std::span<const RowKind> row_kinds();

// Rows of activations in the one form that a type takes.
struct Activations {
  Activations(QuantType type, int64_t n_rows, int64_t n_cols);
  void set_row(int64_t t, const float* x, const CpuBackend& maker);  // x [n_cols], finite
  ActRows view() const;

  ActType act;
  int64_t n_rows, n_cols;
  Guarded<float> f32;     // empty for A8
  Guarded<int8_t> codes;  // these three empty for f32
  Guarded<float> scales;
  Guarded<int16_t> sums;
};

// Made by the reference.
Activations ordinary_activations(QuantType type, int64_t n_rows, int64_t n_cols, Random& random);

// Made by the reference. Row t is of kind t mod the number of kinds.
Activations every_kind_of_activations(QuantType type, int64_t n_rows, int64_t n_cols, Random& random);

}  // namespace kvasir::conformance
