// Whether a target computes the law's bytes on this very machine: asked once, before it is used.
#pragma once
#include <string>

#include "kernels/ops.h"

namespace kvasir {

// "" if the target's A8 codes and matrix products of every weight type have the reference's bytes, for few and for many
// activation rows; else what differs, as "Q4_K with 17 rows". Takes some milliseconds; the reference passes at once.
std::string admission_fault(const CpuBackend& backend);

}  // namespace kvasir
