// Sixteen f32 lanes and the functions of docs/NUMERICS.md on them. Included by the ops_*.cpp only, each compiled for
// one instruction set; no standard header, so that no inline function of theirs is compiled for the wrong machine.
#pragma once
#include <cstdint>

namespace kvasir {
namespace {

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t IntLanes __attribute__((vector_size(64)));
inline constexpr int64_t kLanes = 16;
inline constexpr IntLanes kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

[[gnu::always_inline]] inline Lanes load(const float* p) {
  Lanes v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void store(float* p, Lanes v) {
  __builtin_memcpy(p, &v, sizeof v);
}
// The first n of 16; the rest reads as 0 and stays unwritten.
[[gnu::always_inline]] inline Lanes load_part(const float* p, int64_t n) {
  Lanes v = {};
  __builtin_memcpy(&v, p, size_t(n) * 4);
  return v;
}
[[gnu::always_inline]] inline void store_part(float* p, Lanes v, int64_t n) {
  __builtin_memcpy(p, &v, size_t(n) * 4);
}
// x + 0 would turn -0 into 0.
[[gnu::always_inline]] inline Lanes splat(float x) {
  return x - Lanes{};
}
[[gnu::always_inline]] inline IntLanes bits_of(Lanes v) {
  return reinterpret_cast<IntLanes>(v);
}
[[gnu::always_inline]] inline Lanes from_bits(IntLanes v) {
  return reinterpret_cast<Lanes>(v);
}

// One order for every sum over lanes: halves, quarters, pairs.
[[gnu::always_inline]] inline float sum(Lanes v) {
  float a[kLanes];
  store(a, v);
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) a[i] = a[i] + a[i + step];
  return a[0];
}
[[gnu::always_inline]] inline Lanes max(Lanes a, Lanes b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] inline float max_of(Lanes v) {
  float a[kLanes];
  store(a, v);
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) a[i] = a[i] > a[i + step] ? a[i] : a[i + step];
  return a[0];
}

// exp of docs/NUMERICS.md for -87 <= x <= 88. Adding and taking away 1.5 * 2^23 rounds half to even.
[[gnu::always_inline]] inline Lanes exp(Lanes x) {
  const Lanes n = (x * 1.44269504F + 12582912.0F) - 12582912.0F;
  Lanes r = x - n * 0.693359375F;
  r = r - n * -2.12194440e-4F;
  Lanes p = splat(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const Lanes e = (p * (r * r) + r) + 1.0F;
  return e * from_bits((__builtin_convertvector(n, IntLanes) + 127) << 23);
}
// exp(x) for x <= 0; what would be below 2^-126 is 0. Comparisons are written so that NaN passes.
[[gnu::always_inline]] inline Lanes exp_negative(Lanes x) {
  const Lanes c = x < -87.0F ? splat(-87.0F) : x;
  return x < -87.0F ? Lanes{} : exp(c);
}
[[gnu::always_inline]] inline Lanes recip(Lanes d) {
  Lanes y = from_bits(0x7EF311C7 - bits_of(d));
  for (int i = 0; i < 3; ++i) y = y * (2.0F - d * y);
  return y;
}
[[gnu::always_inline]] inline Lanes sigmoid(Lanes g) {
  const Lanes low = g < -40.0F ? splat(-40.0F) : g;
  const Lanes c = low > 40.0F ? splat(40.0F) : low;
  return recip(1.0F + exp(0.0F - c));
}
[[gnu::always_inline]] inline Lanes silu(Lanes g) {
  return g * sigmoid(g);
}

// f(offset, load, store) over n floats by 16, the last piece partly.
template <class F>
[[gnu::always_inline]] inline void for_lanes(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    f([i](const float* p) { return load(p + i); }, [i](float* p, Lanes v) { store(p + i, v); });
  if (i < n)
    f([i, n](const float* p) { return load_part(p + i, n - i); },
      [i, n](float* p, Lanes v) { store_part(p + i, v, n - i); });
}

}  // namespace
}  // namespace kvasir
