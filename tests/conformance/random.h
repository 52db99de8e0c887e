// A fixed stream of random numbers, the same on every machine and standard library.
#pragma once
#include <cmath>
#include <cstdint>

namespace kvasir::conformance {

// splitmix64: https://prng.di.unimi.it/splitmix64.c (public domain algorithm, written anew)
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  float uniform(float lo, float hi) { return lo + (hi - lo) * float(next() >> 40) * 0x1p-24F; }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  // Near enough to normal: the sum of 4 uniforms, of variance 1.
  float normal() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += uniform(-1, 1);
    return sum * 0.8660254F;
  }
  // Magnitudes over many powers of two, as hidden states have them.
  float heavy_tailed() { return normal() * std::exp2(2 * normal()); }

 private:
  uint64_t state_;
};

}  // namespace kvasir::conformance
