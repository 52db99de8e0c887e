// One matrix product of a backend, watched and held to the reference.
#pragma once
#include <optional>
#include <string>

#include "tests/conformance/cases.h"

namespace kvasir::conformance {

// A matrix in a backend's own layout.
class BackendWeights {
 public:
  BackendWeights(const CpuBackend& backend, const TensorView& matrix);
  const Weights& weights() const { return weights_; }
  bool intact() const { return !packed_ || packed_->intact(); }

 private:
  std::optional<Guarded<std::byte>> packed_;
  Weights weights_;
};

// Out matrices [n_rows][out_stride] are kPad wider than the weights have rows, to see what a kernel writes there.
inline constexpr int64_t kPad = 3;

// All rows of the product by the reference: [x.n_rows][w.n_rows + kPad].
Guarded<float> reference_product(const Matrix& w, const Activations& x);

// Fails the current test unless the backend's rows [row_begin, row_end) are the reference's bytes and everything
// around them is untouched.
void check_rows(const CpuBackend& backend, const BackendWeights& w, const Activations& x, int64_t row_begin,
                int64_t row_end, const Guarded<float>& expected);

// Packs w and checks all its rows at once.
void check_product(const CpuBackend& backend, const Matrix& w, const Activations& x);

// "" if the n elements are equal in every byte, else where and how they first differ.
std::string first_difference(const float* found, const float* expected, int64_t n);

}  // namespace kvasir::conformance
