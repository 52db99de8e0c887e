// test_conformance: the suite for each backend, --which and --bench. See --help-conformance.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

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
  Invoker(BackendChoice choice, void (*body)(const CpuBackend&)) : choice_(choice), body_(body) {}
  void invoke() const override {
    if (choice_.missing.empty()) return body_(*choice_.backend);
    // ctest counts a test that prints this as skipped.
    std::printf("conformance: skipped, backend %s cannot run here: %s\n", std::string(choice_.backend->name).c_str(),
                std::string(choice_.missing).c_str());
    SUCCEED("skipped");
  }

 private:
  BackendChoice choice_;
  void (*body_)(const CpuBackend&);
};

void register_tests(std::span<const BackendTest> tests) {
  for (const BackendChoice& choice : tested_backends())
    for (const BackendTest& test : tests) {
      const std::string sentence = fmt::format("{}: {}", choice.backend->name, test.sentence);
      const std::string tag = fmt::format("[{}]", choice.backend->name);
      // What TEST_CASE does, with a name made at run time.
      Catch::AutoReg(new Invoker(choice, test.body), CATCH_INTERNAL_LINEINFO, Catch::StringRef(),
                     Catch::NameAndTags(sentence, tag));
    }
}

}  // namespace

std::vector<BackendChoice> tested_backends() {
  return {cpu_backends().begin(), cpu_backends().end()};
}

int run(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--help-conformance") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (first == "--which") return which();
  if (first == "--bench") return bench(std::span(argv + 2, size_t(argc) - 2));
  register_tests(activation_tests());
  register_tests(vector_tests());
  register_tests(adversarial_tests());
  register_tests(matmul_tests());
  return Catch::Session().run(argc, argv);
}

}  // namespace kvasir::conformance

int main(int argc, char** argv) {
  return kvasir::conformance::run(argc, argv);
}
