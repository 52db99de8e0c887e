// The x86-64 targets, best first.
//
// What is peculiar about these machines: int8 dot products multiply unsigned by signed bytes (vpdpbusd, and vpmaddubsw,
// which saturates), so weights are kept unsigned with a bias that exact sums of the activations take away again; a core
// reads 10 to 40 GB/s, which is a few hundred instructions per kilobyte of weights, so unpacking must cost little; AMX
// needs the CPU's, the system's and the kernel's consent. Intel's and AMD's manuals:
// https://www.intel.com/sdm, https://docs.amd.com (AMD64 Architecture Programmer's Manual)
#pragma once
#include <span>

#include "kernels/select.h"

namespace kvasir {

// amx, avx512, avx2; each with the reason why it cannot run here, if so.
std::span<const BackendChoice> x86_backends();

}  // namespace kvasir
