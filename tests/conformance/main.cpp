// test_conformance: the suite for each backend, --which and --bench. See --help-conformance.
#define CATCH_CONFIG_RUNNER
#include <algorithm>
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <string>

#ifdef KVASIR_HAVE_X86
#include "tests/conformance/amx_model_matmul.h"
#endif
#include "tests/conformance/bench.h"
#include "tests/conformance/suite.h"
#include "tests/conformance/which.h"

namespace kvasir::conformance {
namespace {

constexpr const char* kUsage =
    "test_conformance [Catch2 options]       run the suite; tags: [reference] [avx2] [avx512] [amx] ...\n"
    "test_conformance --which                say which backend answers; KVASIR_BACKEND forces one\n"
    "test_conformance --bench [options]      time matmul on shapes of real models\n"
    "    --type NAME      one weight type instead of Q4_K Q6_K Q8_0; \"all\" for all of them\n"
    "    --rows N         one count of activation rows instead of 1 4 16 64 512\n"
    "    --threads N      1 unless given\n"
    "    --backend NAME   one backend instead of all that run here\n"
    "    --tiny           small shapes, no figures worth reading: shows that it runs\n"
    "    --json           one JSON document instead of the table\n";

// One test for one backend, as Catch2 wants to call it.
class Invoker final : public Catch::ITestInvoker {
 public:
  Invoker(const CpuBackend& backend, void (*body)(const CpuBackend&)) : backend_(backend), body_(body) {}
  void invoke() const override { body_(backend_); }

 private:
  const CpuBackend& backend_;
  void (*body_)(const CpuBackend&);
};

// Stands for all tests of a backend that cannot run here. ctest counts what prints this as skipped.
class Skip final : public Catch::ITestInvoker {
 public:
  explicit Skip(BackendChoice choice) : choice_(choice) {}
  void invoke() const override {
    fmt::print("conformance: skipped, backend {} cannot run here: {}\n", choice_.backend->name, choice_.missing);
    SUCCEED("skipped");
  }

 private:
  BackendChoice choice_;
};

// What TEST_CASE does, with a name made at run time. Catch2 owns the invoker.
void register_test(Catch::ITestInvoker* invoker, std::string_view backend, std::string_view sentence) {
  const std::string name = fmt::format("{}: {}", backend, sentence), tag = fmt::format("[{}]", backend);
  Catch::AutoReg(invoker, CATCH_INTERNAL_LINEINFO, Catch::StringRef(), Catch::NameAndTags(name, tag));
}

void register_tests() {
  for (const BackendChoice& choice : tested_backends()) {
    const CpuBackend& backend = *choice.backend;
    if (!choice.missing.empty()) {
      register_test(new Skip(choice), backend.name, "the whole suite");
      continue;
    }
    for (const auto tests : {activation_tests(), vector_tests(), adversarial_tests(), matmul_tests()})
      for (const BackendTest& test : tests) register_test(new Invoker(backend, test.body), backend.name, test.sentence);
  }
}

}  // namespace

std::vector<BackendChoice> tested_backends() {
  std::vector<BackendChoice> all(cpu_backends().begin(), cpu_backends().end());
#ifdef KVASIR_HAVE_X86
  // The AMX kernels over tiles in software, wherever the rest of them runs.
  const auto avx512 = std::ranges::find(all, "avx512", [](const BackendChoice& c) { return c.backend->name; });
  static CpuBackend model = *avx512->backend;
  model.name = "amx-model";
  model.matmul = amx_model_matmul;
  all.push_back({&model, avx512->missing});
#endif
  return all;
}

int run(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--help-conformance") {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (first == "--which") return which();
  if (first == "--bench") return bench(std::span(argv + 2, size_t(argc) - 2));
  register_tests();
  return Catch::Session().run(argc, argv);
}

}  // namespace kvasir::conformance

int main(int argc, char** argv) {
  return kvasir::conformance::run(argc, argv);
}
