// Random weights that behave: any type's blocks, scaled so that a row of n_cols keeps the size of its input.
#pragma once
#include <cstdint>

#include "core/quant_type.h"
#include "formats/gguf_writer.h"

namespace kvasir {

// A source for GgufWriter::add_tensor: rows of type, each weight about 1/sqrt(n_cols) in size, the same bytes for the
// same seed. One source serves one tensor, once, in order.
GgufWriter::Source random_rows(QuantType type, int64_t n_cols, uint64_t seed);

// All elements f32 and equal to value, or in [lo, hi] at random.
GgufWriter::Source constant_f32(float value);
GgufWriter::Source uniform_f32(float lo, float hi, uint64_t seed);

}  // namespace kvasir
