// Packing, multiplying and comparing, with canaries around everything that a backend writes.
#include "tests/conformance/check.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <fmt/format.h>

#include "core/error.h"
#include "kernels/reference/reference.h"

namespace kvasir::conformance {

BackendWeights::BackendWeights(const CpuBackend& backend, const TensorView& matrix)
    : weights_{matrix.type, matrix.n_rows, matrix.n_cols, matrix.data} {
  const int64_t n_bytes = backend.packed_bytes(matrix.type, matrix.n_rows, matrix.n_cols);
  if (n_bytes == 0) return;
  const int64_t group = backend.row_group;
  const int64_t n_groups = (matrix.n_rows + group - 1) / group;
  KV_CHECK(n_bytes <= n_groups * group * row_bytes(matrix.type, matrix.n_cols), "packing makes a matrix larger");
  packed_.emplace(n_bytes, 64);
  // Group by group from the last to the first: any disjoint ranges in any order make the whole.
  for (int64_t g = n_groups - 1; g >= 0; --g)
    backend.pack(matrix, g * group, std::min((g + 1) * group, matrix.n_rows), packed_->data());
  weights_.data = packed_->data();
}

Guarded<float> reference_product(const Matrix& w, const Activations& x) {
  Guarded<float> out(x.n_rows * (w.n_rows + kPad));
  const Weights weights{w.type, w.n_rows, w.n_cols, w.bytes.data()};
  reference_backend().matmul(weights, 0, w.n_rows, x.view(), out.data(), w.n_rows + kPad);
  // The law fixes no bits for NaN, and a NaN would hide whatever else is wrong with an element.
  bool has_nan = false;
  for (int64_t t = 0; t < x.n_rows; ++t)
    for (int64_t r = 0; r < w.n_rows; ++r) has_nan = has_nan || std::isnan(out[t * (w.n_rows + kPad) + r]);
  REQUIRE_FALSE(has_nan);
  return out;
}

std::string first_difference(const float* found, const float* expected, int64_t n) {
  if (std::memcmp(found, expected, n * sizeof(float)) == 0) return "";
  for (int64_t i = 0; i < n; ++i)
    if (std::bit_cast<uint32_t>(found[i]) != std::bit_cast<uint32_t>(expected[i]))
      return fmt::format("element {} of {}: found {} ({:#010x}), expected {} ({:#010x})", i, n, found[i],
                         std::bit_cast<uint32_t>(found[i]), expected[i], std::bit_cast<uint32_t>(expected[i]));
  return "";
}

void check_rows(const CpuBackend& backend, const BackendWeights& w, const Activations& x, int64_t row_begin,
                int64_t row_end, const Guarded<float>& expected) {
  const int64_t stride = w.weights().n_rows + kPad;
  Guarded<float> out(x.n_rows * stride);
  backend.matmul(w.weights(), row_begin, row_end, x.view(), out.data(), stride);
  INFO(backend.name << " " << info(w.weights().type).name << ": " << x.n_rows << " activation rows, weight rows ["
                    << row_begin << ", " << row_end << ") of " << w.weights().n_rows << ", " << x.n_cols << " columns");
  std::string difference;
  bool outside_untouched = true;
  for (int64_t t = 0; t < x.n_rows; ++t) {
    if (difference.empty()) {
      difference = first_difference(out.data() + t * stride + row_begin, expected.data() + t * stride + row_begin,
                                    row_end - row_begin);
      if (!difference.empty()) difference = fmt::format("activation row {}: {}", t, difference);
    }
    for (int64_t r = 0; r < stride; ++r)
      if (r < row_begin || r >= row_end) outside_untouched = outside_untouched && out.untouched(t * stride + r);
  }
  REQUIRE(difference == "");
  REQUIRE(outside_untouched);
  REQUIRE(out.intact());
  REQUIRE(w.intact());
}

void check_product(const CpuBackend& backend, const Matrix& w, const Activations& x) {
  check_rows(backend, BackendWeights(backend, w.view()), x, 0, w.n_rows, reference_product(w, x));
}

}  // namespace kvasir::conformance
