// Compiled with the flags of the AVX-512 target, for x86-64 only.
#include "tests/conformance/amx_model_matmul.h"

#include "kernels/x86/amx_matmul.h"
#include "tests/conformance/amx_model.h"

namespace kvasir::conformance {

void amx_model_matmul(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out,
                      int64_t out_stride) {
  amx::matmul<ModelTiles>(w, row_begin, row_end, x, out, out_stride);
}

}  // namespace kvasir::conformance
