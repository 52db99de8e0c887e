// Detection and choice of the CPU target.
#include "kernels/select.h"

#include <cstdlib>
#include <string>

#include "kernels/admission.h"
#include "kernels/reference/reference.h"
#ifdef KVASIR_HAVE_X86
#include "kernels/x86/x86.h"
#endif

namespace kvasir {

void a8_sums(const int8_t* codes, int64_t n, int16_t* sums) {
  for (int64_t i = 0; i < n / 16; ++i) {
    int sum = 0;
    for (int j = 0; j < 16; ++j) sum += codes[i * 16 + j];
    sums[i] = int16_t(sum);
  }
}

std::span<const BackendChoice> cpu_backends() {
  static const std::vector<BackendChoice> choices = [] {
    std::vector<BackendChoice> list;
#ifdef KVASIR_HAVE_X86
    for (const auto& choice : x86_backends()) list.push_back(choice);
#endif
    list.push_back({&reference_backend(), ""});
    return list;
  }();
  return choices;
}

Expected<const CpuBackend*> select_cpu_backend(std::string_view name, std::vector<std::string>* rejected) {
  std::string there;
  for (const auto& c : cpu_backends()) {
    there += fmt::format("{}{}", there.empty() ? "" : ", ", c.backend->name);
    if (name.empty() ? !c.missing.empty() : c.backend->name != name) continue;
    if (!c.missing.empty())
      return fail(ErrorCode::unsupported, "backend {} cannot run here: {}; leave KVASIR_BACKEND unset to choose", name,
                  c.missing);
    const auto fault = admission_fault(*c.backend);
    if (fault.empty()) return c.backend;
    const auto why = fmt::format("backend {} is not used: on this machine {} has other bytes than the reference",
                                 c.backend->name, fault);
    if (!name.empty()) return fail(ErrorCode::unsupported, "{}", why);
    if (rejected) rejected->push_back(why);
  }
  return fail(ErrorCode::invalid_argument, "no backend is called \"{}\"; this build has {}", name, there);
}

Expected<const CpuBackend*> select_cpu_backend_from_environment(std::vector<std::string>* rejected) {
  const char* name = std::getenv("KVASIR_BACKEND");
  return select_cpu_backend(name ? name : "", rejected);
}

}  // namespace kvasir
