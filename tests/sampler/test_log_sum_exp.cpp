// The softmax's normaliser against the standard library in double precision.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/log_sum_exp.h"

using namespace kvasir;

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST_CASE("log_sum_exp: exp_below_zero is exp to 2 units in the last place, and 0 far down") {
  double worst = 0;
  for (float x = 0; x > -87.0F; x = std::nextafter(x * 1.0001F - 1e-6F, -kInf)) {
    const double exact = std::exp(double(x)), got = double(exp_below_zero(x));
    worst = std::max(worst, std::fabs(got - exact) / exact);
  }
  CHECK(worst < 2 * 0x1p-23);
  CHECK(exp_below_zero(0.0F) == 1.0F);
  CHECK(exp_below_zero(-0.0F) == 1.0F);
  for (const float x : {-89.0F, -1000.0F, -std::numeric_limits<float>::max(), -kInf}) CHECK(exp_below_zero(x) == 0.0F);
}

TEST_CASE("log_sum_exp: the sum is right for every length around a block, with -inf among the logits") {
  for (const size_t n : {1, 2, 15, 16, 17, 1023, 1024, 1025, 4097}) {
    std::vector<float> x(n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) {
      x[i] = i % 7 == 3 ? -kInf : float(std::sin(double(i)) * 9);
      sum += std::exp(double(x[i]));
    }
    const auto max = finite_max(x);
    REQUIRE(max.has_value());
    CHECK(std::fabs(log_sum_exp(x, *max) - std::log(sum)) < 1e-6);
  }
}

TEST_CASE("log_sum_exp: finite_max refuses NaN and +inf anywhere, and nothing but -inf") {
  for (const size_t n : {1, 16, 17, 40})
    for (size_t at = 0; at < n; ++at)
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
        std::vector<float> x(n, 0.5F);
        x[at] = bad;
        CHECK_FALSE(finite_max(x).has_value());
      }
  CHECK_FALSE(finite_max(std::vector<float>(20, -kInf)).has_value());
  CHECK_FALSE(finite_max({}).has_value());
}
