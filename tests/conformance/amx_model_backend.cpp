// Compiled with the flags of the AVX-512 target, for x86-64 only.
#include "tests/conformance/amx_model_backend.h"

#include "kernels/x86/amx_matmul.h"
#include "tests/conformance/amx_model.h"

namespace kvasir::conformance {

BackendChoice amx_model_backend() {
  static const BackendChoice choice = [] {
    for (const auto& [backend, missing] : cpu_backends()) {
      if (backend->name != "avx512") continue;
      static const CpuBackend model = amx::backend_over<ModelTiles>("amx-model", *backend);
      return BackendChoice{&model, missing};
    }
    check_failed("avx512 is in the list", __FILE__, __LINE__, "an x86-64 build without AVX-512");
  }();
  return choice;
}

}  // namespace kvasir::conformance
