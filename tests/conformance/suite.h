// The conformance suite's parts: each test is a sentence and a body that is run once for each backend, forced by name.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "kernels/select.h"

namespace kvasir::conformance {

struct BackendTest {
  std::string_view sentence;
  void (*body)(const CpuBackend&);
};

std::span<const BackendTest> activation_tests();   // everything but matmul
std::span<const BackendTest> matmul_tests();       // shapes against the reference
std::span<const BackendTest> adversarial_tests();  // extreme blocks and activations against the reference
std::span<const BackendTest> vector_tests();       // tests/data/vectors, the output of the law's executable form

// Every backend of this build, and software models of hardware that this machine may not have.
std::vector<BackendChoice> tested_backends();

}  // namespace kvasir::conformance
