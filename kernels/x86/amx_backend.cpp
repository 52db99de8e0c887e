// The AMX-INT8 target's table.
//
// What is peculiar about it: tiles of 16 x 64 bytes are multiplied at 16 times the rate of vectors, but only a block of
// many activation rows fills them, and the kernel must permit the 8 KiB of state (cpu_features.cpp asks). With few rows
// and for everything but matmul it is the AVX-512 target.
#include "kernels/x86/amx_matmul.h"
#include "kernels/x86/targets.h"

namespace kvasir {

const CpuBackend& amx_backend() {
  static const CpuBackend backend = amx::backend_over<amx::Tiles>("amx", avx512_backend());
  return backend;
}

}  // namespace kvasir
