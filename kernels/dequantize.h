// Weights as plain floats: for embedding rows, and for tests.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/quant_type.h"

namespace kvasir {

// out [n_cols] = one GGUF row of n_cols weights (row_bytes(type, n_cols) bytes at row), each rounded to f32 as the type
// defines it: scale * code, less the minimum. n_cols is a multiple of the type's block.
void dequantize_row(QuantType type, const std::byte* row, int64_t n_cols, float* out);

}  // namespace kvasir
