// The AMX-INT8 target's table.
//
// What is peculiar about it: tiles of 16 x 64 bytes are multiplied at 16 times the rate of vectors, but only a block of
// many activation rows fills them, and the kernel must permit the 8 KiB of state (cpu_features.cpp asks). With few rows
// and for everything but matmul it is the AVX-512 target. The table is constant: listing it runs no instruction of it.
#include "kernels/x86/amx_matmul.h"
#include "kernels/x86/avx2_ops.h"
#include "kernels/x86/layout.h"
#include "kernels/x86/targets.h"

namespace kvasir {

const CpuBackend& amx_backend() {
  static constexpr CpuBackend kBackend = {
      .name = "amx",
      .row_group = x86::kGroupRows,
      .packed_bytes = x86::packed_bytes,
      .pack = x86::pack,
      .quantize_a8 = avx512::quantize_a8,
      .flush_f32 = avx2::flush_f32,
      .matmul = amx::matmul<amx::Tiles>,
      .silu_mul = avx512::silu_mul,
      .add_fixed = avx512::add_fixed,
      .fixed_to_f32 = avx512::fixed_to_f32,
  };
  return kBackend;
}

}  // namespace kvasir
