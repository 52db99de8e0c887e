// The AMX kernels over tiles in software.
#pragma once
#include "kernels/ops.h"

namespace kvasir::conformance {

// CpuBackend::matmul by kernels/x86/amx_matmul.h. Needs AVX-512 VNNI, but no AMX.
void amx_model_matmul(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out,
                      int64_t out_stride);

}  // namespace kvasir::conformance
