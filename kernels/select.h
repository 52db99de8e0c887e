// Which CPU target computes: the best this machine has, or the one that is forced.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "kernels/ops.h"

namespace kvasir {

// A target that this build contains, and why it cannot run here ("" if it can).
struct BackendChoice {
  const CpuBackend* backend;
  std::string_view missing;  // as "the CPU has no AVX-512 VNNI"
};

// Every target of this build, best first; the last is always "reference".
std::span<const BackendChoice> cpu_backends();

// The first of cpu_backends() that runs here and is admitted (kernels/admission.h), or the one called `name` if name is
// not empty. Fails with unsupported if that one is missing here or not admitted, with invalid_argument if no target has
// that name; both list what there is. Targets that were passed over because they gave wrong bytes are told in rejected
// (if not null), one sentence each, for the program to print.
Expected<const CpuBackend*> select_cpu_backend(std::string_view name = {},
                                               std::vector<std::string>* rejected = nullptr);

// select_cpu_backend with the value of the environment variable KVASIR_BACKEND.
Expected<const CpuBackend*> select_cpu_backend_from_environment(std::vector<std::string>* rejected = nullptr);

}  // namespace kvasir
