// recip, exp, sigmoid and silu: sequences of single rounded operations, never fused (-ffp-contract=off).
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/reference/reference.h"

namespace kvasir {

float exact_recip(float d) {
  float y = std::bit_cast<float>(0x7EF311C7U - std::bit_cast<uint32_t>(d));
  for (int i = 0; i < 3; ++i) y = y * (2.0F - d * y);
  return y;
}

float exact_exp(float x) {
  const float n = std::rint(x * 1.44269504F);
  float r = x - n * 0.693359375F;
  r = r - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = (p * (r * r) + r) + 1.0F;
  return e * std::bit_cast<float>(uint32_t(int32_t(n) + 127) << 23);
}

float exact_sigmoid(float g) {
  const float c = std::min(std::max(g, -40.0F), 40.0F);
  return exact_recip(1.0F + exact_exp(0.0F - c));
}

float exact_silu(float g) {
  // With g on the left, max and min would keep a NaN, and exp would convert it to an integer: undefined.
  return std::isnan(g) ? g : g * exact_sigmoid(g);
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24 is exact
    const float magnitude = float(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

}  // namespace kvasir
