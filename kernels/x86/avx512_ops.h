// The AVX-512 VNNI target's functions, file by file; avx512_backend.cpp makes them one table.
#pragma once
#include "kernels/ops.h"

namespace kvasir::avx512 {

// The ops of kernels/ops.h (avx512_activations.cpp); flush_f32 is AVX2's, which waits for memory already.
bool quantize_a8(const float* x, int64_t n, int block, int8_t* codes, float* scales, int16_t* sums);
void silu_mul(const float* gate, const float* up, int64_t n, float* h);
bool add_fixed(float weight, const float* y, int64_t n, int64_t* sums);
void fixed_to_f32(const int64_t* sums, int64_t n, float* out);

// As CpuBackend::matmul; the last three for float weights, for blocks of 32 and for blocks of 256.
void matmul(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t out_stride);
void matmul_float(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride);
void matmul_32(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride);
void matmul_256(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride);

}  // namespace kvasir::avx512
