// A borrowed tensor: where its bytes are, of which type and shape.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/quant_type.h"

namespace kvasir {

// Shape is [n_matrices][n_rows][n_cols], the last dimension contiguous: GGUF's ne[0] is n_cols, ne[1] n_rows,
// ne[2] n_matrices (the experts of a stacked tensor). A vector has n_rows = n_matrices = 1.
// Borrows data until the mapping or buffer behind it goes.
struct TensorView {
  QuantType type = QuantType::f32;
  int64_t n_cols = 0;
  int64_t n_rows = 1;
  int64_t n_matrices = 1;
  const std::byte* data = nullptr;

  int64_t matrix_bytes() const { return n_rows * row_bytes(type, n_cols); }
  int64_t bytes() const { return n_matrices * matrix_bytes(); }
  int64_t n_elements() const { return n_matrices * n_rows * n_cols; }
  // Matrix i (one expert) of a stacked tensor; 0 <= i < n_matrices.
  TensorView matrix(int64_t i) const { return {type, n_cols, n_rows, 1, data + i * matrix_bytes()}; }
};

}  // namespace kvasir
