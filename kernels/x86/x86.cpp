// The list of x86 targets.
#include "kernels/x86/x86.h"

#include <array>

#include "kernels/x86/cpu_features.h"
#include "kernels/x86/targets.h"

namespace kvasir {

std::span<const BackendChoice> x86_backends() {
  static const std::array choices = {
      BackendChoice{&amx_backend(), x86::missing_for_amx()},
      BackendChoice{&avx512_backend(), x86::missing_for_avx512()},
      BackendChoice{&avx2_backend(), x86::missing_for_avx2()},
  };
  return choices;
}

}  // namespace kvasir
