// The AVX2 target's functions, file by file; avx2_backend.cpp makes them one table.
#pragma once
#include "kernels/ops.h"

namespace kvasir::avx2 {

// The ops of kernels/ops.h (avx2_activations.cpp).
bool quantize_a8(const float* x, int64_t n, int block, int8_t* codes, float* scales, int16_t* sums);
bool flush_f32(const float* x, int64_t n, float* out);
void silu_mul(const float* gate, const float* up, int64_t n, float* h);
bool add_fixed(float weight, const float* y, int64_t n, int64_t* sums);
void fixed_to_f32(const int64_t* sums, int64_t n, float* out);

}  // namespace kvasir::avx2
