// The AVX-512 VNNI target's matmul, by the kind of weights.
#pragma once
#include "kernels/ops.h"

namespace kvasir::avx512 {

// As CpuBackend::matmul; the last three for float weights, for blocks of 32 and for blocks of 256.
void matmul(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t out_stride);
void matmul_float(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride);
void matmul_32(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride);
void matmul_256(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t stride);

}  // namespace kvasir::avx512
