// The tables of the x86 targets, each made by its own <target>_backend.cpp.
#pragma once
#include "kernels/ops.h"

namespace kvasir {

const CpuBackend& amx_backend();
const CpuBackend& avx512_backend();
const CpuBackend& avx2_backend();

}  // namespace kvasir
