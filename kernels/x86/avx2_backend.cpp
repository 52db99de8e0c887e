// The AVX2 target's table: the oldest x86-64 machines that kvasir is fast on.
//
// What is peculiar about it: 16 registers of 32 bytes, so 8 of a line's 16 rows at a time; no dot-product instruction,
// so bytes are multiplied and added to 16 bits (which saturates: avx2_types.h says why it never does), then to 32.
#include "kernels/x86/avx2_ops.h"
#include "kernels/x86/layout.h"
#include "kernels/x86/targets.h"

namespace kvasir {
namespace avx2 {

void matmul(const Weights& w, int64_t row_begin, int64_t row_end, const ActRows& x, float* out, int64_t out_stride) {
  switch (info(w.type).act) {
    case ActType::f32:
      return matmul_float(w, row_begin, row_end, x, out, out_stride);
    case ActType::a8_32:
      return matmul_32(w, row_begin, row_end, x, out, out_stride);
    case ActType::a8_256:
      return matmul_256(w, row_begin, row_end, x, out, out_stride);
  }
}

}  // namespace avx2

const CpuBackend& avx2_backend() {
  static constexpr CpuBackend kBackend = {
      .name = "avx2",
      .row_group = x86::kGroupRows,
      .packed_bytes = x86::packed_bytes,
      .pack = x86::pack,
      .quantize_a8 = avx2::quantize_a8,
      .flush_f32 = avx2::flush_f32,
      .matmul = avx2::matmul,
      .silu_mul = avx2::silu_mul,
      .add_fixed = avx2::add_fixed,
      .fixed_to_f32 = avx2::fixed_to_f32,
  };
  return kBackend;
}

}  // namespace kvasir
