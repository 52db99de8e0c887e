// The proof that KVASIR_BACKEND is honoured.
#include "tests/conformance/which.h"

#include <bit>
#include <cstdio>

#include "kernels/select.h"
#include "tests/conformance/check.h"

namespace kvasir::conformance {

int which() {
  const Expected<const CpuBackend*> backend = select_cpu_backend_from_environment();
  if (!backend) {
    if (backend.error().code == ErrorCode::unsupported)
      std::printf("conformance: skipped, it is not for this machine\n");
    std::fprintf(stderr, "%s\n", backend.error().message.c_str());
    return 2;
  }
  Random random(1);
  const Matrix w = ordinary_weights(QuantType::q4_k, 1, 512, random);
  const BackendWeights packed(**backend, w.view());
  const Activations x = ordinary_activations(QuantType::q4_k, 1, 512, random);
  float out;
  (*backend)->matmul(packed.weights(), 0, 1, x.view(), &out, 1);
  std::printf("%s answered: %08x\n", std::string((*backend)->name).c_str(), std::bit_cast<uint32_t>(out));
  return 0;
}

}  // namespace kvasir::conformance
