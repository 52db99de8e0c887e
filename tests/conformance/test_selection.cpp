// The choice of a backend: by name, by the environment, and its refusals.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

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
