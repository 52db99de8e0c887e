// The AMX kernels over tiles in software.
#pragma once
#include "kernels/select.h"

namespace kvasir::conformance {

// "amx-model": the kernels of kernels/x86/amx_matmul.h, which here need AVX-512 VNNI but no AMX.
BackendChoice amx_model_backend();

}  // namespace kvasir::conformance
