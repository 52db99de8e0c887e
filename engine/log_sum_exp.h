// The normaliser of a softmax over a vocabulary, exact enough for reported log-probabilities and fast enough for every
// token.
#pragma once
#include <optional>
#include <span>

namespace kvasir {

// The largest of x, or nullopt if x holds a NaN or +inf, is empty or holds nothing but -inf.
std::optional<float> finite_max(std::span<const float> x);

// exp(x) for x <= 0: to 2 units in the last place from -87 up, 0 from -89 down (so for -inf), small between.
float exp_below_zero(float x);

// log(sum(exp(x))). max must be finite_max(x). Relative error of the sum below 1e-6.
double log_sum_exp(std::span<const float> x, float max);

}  // namespace kvasir
