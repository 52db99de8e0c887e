// The AVX-512 VNNI target's table.
//
// What is peculiar about it: vpdpbusd takes 64 products an instruction, with the activations broadcast from memory for
// free, so decoding waits for memory and prefill for two multiplier ports. It converts between float and 64-bit
// integers, which AVX2 cannot: the combine takes a quarter of AVX2's time.
#include "kernels/x86/avx2_ops.h"
#include "kernels/x86/avx512_ops.h"
#include "kernels/x86/layout.h"
#include "kernels/x86/targets.h"

namespace kvasir {
namespace avx512 {

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

}  // namespace avx512

const CpuBackend& avx512_backend() {
  static constexpr CpuBackend kBackend = {
      .name = "avx512",
      .row_group = x86::kGroupRows,
      .packed_bytes = x86::packed_bytes,
      .pack = x86::pack,
      .quantize_a8 = avx512::quantize_a8,
      .flush_f32 = avx2::flush_f32,
      .matmul = avx512::matmul,
      .silu_mul = avx512::silu_mul,
      .add_fixed = avx512::add_fixed,
      .fixed_to_f32 = avx512::fixed_to_f32,
  };
  return kBackend;
}

}  // namespace kvasir
