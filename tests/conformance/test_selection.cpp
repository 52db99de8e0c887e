// The choice of a backend: by name, by the environment, and its refusals.
#include <bit>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "kernels/admission.h"
#include "kernels/reference/reference.h"
#include "kernels/select.h"

namespace kvasir::conformance {

TEST_CASE("selection: every backend of this build is chosen by its name or says why it is missing") {
  for (const auto& [backend, missing] : cpu_backends()) {
    const auto chosen = select_cpu_backend(backend->name);
    INFO(backend->name);
    REQUIRE(chosen.has_value() == missing.empty());
    if (chosen) {
      REQUIRE(*chosen == backend);
    } else {
      REQUIRE(chosen.error().code == ErrorCode::unsupported);
      REQUIRE(chosen.error().message.find(missing) != std::string::npos);
    }
  }
}

TEST_CASE("selection: without a name the first backend that runs here is chosen") {
  const auto chosen = select_cpu_backend();
  REQUIRE(chosen.has_value());
  for (const auto& [backend, missing] : cpu_backends())
    if (missing.empty()) {
      REQUIRE(*chosen == backend);
      break;
    }
}

TEST_CASE("admission: every backend that runs here is admitted") {
  for (const auto& [backend, missing] : cpu_backends())
    if (missing.empty()) REQUIRE(admission_fault(*backend) == "");
}

TEST_CASE("admission: a kernel that is wrong in one bit of one type at many rows is found") {
  CpuBackend wrong = reference_backend();
  wrong.matmul = [](const Weights& w, int64_t begin, int64_t end, const ActRows& x, float* out, int64_t stride) {
    reference_backend().matmul(w, begin, end, x, out, stride);
    if (w.type == QuantType::q6_k && x.n_rows > 8) {
      float& last = out[(x.n_rows - 1) * stride + end - 1];
      last = std::bit_cast<float>(std::bit_cast<uint32_t>(last) ^ 1);
    }
  };
  REQUIRE(admission_fault(wrong) == "Q6_K with 17 rows");
  CpuBackend wrong_codes = reference_backend();
  wrong_codes.quantize_a8 = [](const float* x, int64_t n, int block, int8_t* codes, float* scales, int16_t* sums) {
    const bool finite = reference_backend().quantize_a8(x, n, block, codes, scales, sums);
    codes[0] = int8_t(codes[0] + 1);
    return finite;
  };
  REQUIRE(admission_fault(wrong_codes) == "the activations of Q4_0");
}

TEST_CASE("selection: an unknown name is refused with the names that there are") {
  const auto chosen = select_cpu_backend("abacus");
  REQUIRE_FALSE(chosen.has_value());
  REQUIRE(chosen.error().code == ErrorCode::invalid_argument);
  for (const auto& [backend, missing] : cpu_backends())
    REQUIRE(chosen.error().message.find(backend->name) != std::string::npos);
}

TEST_CASE("selection: KVASIR_BACKEND forces a backend and an unknown one fails") {
  const char* before = std::getenv("KVASIR_BACKEND");
  const std::string restore = before ? before : "";
  setenv("KVASIR_BACKEND", "reference", 1);
  const auto forced = select_cpu_backend_from_environment();
  setenv("KVASIR_BACKEND", "abacus", 1);
  const auto unknown = select_cpu_backend_from_environment();
  unsetenv("KVASIR_BACKEND");
  if (before) setenv("KVASIR_BACKEND", restore.c_str(), 1);
  REQUIRE(forced.has_value());
  REQUIRE((*forced)->name == "reference");
  REQUIRE_FALSE(unknown.has_value());
}

}  // namespace kvasir::conformance
