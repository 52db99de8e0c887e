// Times the kernels that the suite tests.
#pragma once
#include <span>

namespace kvasir::conformance {

// --bench: matmul on expert matrices of a real model, as GB/s of weights, share of the read bandwidth measured in the
// same run, GMAC/s, and a hash of the output. arguments: what follows --bench. Returns the exit code.
int bench(std::span<char*> arguments);

}  // namespace kvasir::conformance
