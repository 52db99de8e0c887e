// The reference target: docs/NUMERICS.md line by line in plain C++. Slow; every other target is held to it.
#pragma once
#include "kernels/ops.h"

namespace kvasir {

// Computes from GGUF bytes as they are (packed_bytes is 0, row_group 1).
const CpuBackend& reference_backend();

// The functions of docs/NUMERICS.md, "Arithmetic". There is no division and no library function behind them.
float exact_recip(float d);    // d normal and positive
float exact_exp(float x);      // |x| <= 40
float exact_sigmoid(float g);  // any g that is not NaN
float exact_silu(float g);     // any g; NaN and infinities come out as they go in

// The value of a stored IEEE binary16, subnormals, infinities and NaN included.
float f16_to_f32(uint16_t bits);

}  // namespace kvasir
