// The reference target: docs/NUMERICS.md line by line in plain C++. Slow; every other target is held to it.
#pragma once
#include "kernels/ops.h"

namespace kvasir {

// Computes from GGUF bytes as they are (packed_bytes is 0, row_group 1).
const CpuBackend& reference_backend();

}  // namespace kvasir
