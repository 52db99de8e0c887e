// The ops around matmul: A8, flushing, SiLU, and the fixed-point combine.
#include <array>
#include <catch2/catch.hpp>
#include <cfloat>
#include <limits>
#include <vector>

#include "kernels/reference/reference.h"
#include "tests/conformance/check.h"
#include "tests/conformance/suite.h"

namespace kvasir::conformance {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::array kNotFinite = {kInf, -kInf, kNaN, -kNaN};

template <class T>
bool same_bytes(const Guarded<T>& a, const Guarded<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

struct A8 {
  A8(int64_t n, int block) : codes(n), scales(n / block), sums(n / 16) {}
  bool make(const CpuBackend& backend, const Guarded<float>& x, int block) {
    return backend.quantize_a8(x.data(), x.size(), block, codes.data(), scales.data(), sums.data());
  }
  Guarded<int8_t> codes;
  Guarded<float> scales;
  Guarded<int16_t> sums;
};

void check_a8(const CpuBackend& backend, const Guarded<float>& x, int block) {
  A8 found(x.size(), block), expected(x.size(), block);
  REQUIRE(found.make(backend, x, block));
  REQUIRE(expected.make(reference_backend(), x, block));
  REQUIRE(same_bytes(found.codes, expected.codes));
  REQUIRE(same_bytes(found.scales, expected.scales));
  REQUIRE(same_bytes(found.sums, expected.sums));
  REQUIRE((found.codes.intact() && found.scales.intact() && found.sums.intact() && x.intact()));
}

void a8_of_every_kind(const CpuBackend& backend) {
  Random random(10);
  for (const int block : {32, 256})
    for (const int64_t n_blocks : {1, 2, 3, 7, 8, 9, 24})
      for (const RowKind& kind : row_kinds()) {
        const Guarded<float> x(n_blocks * block);
        kind.fill(x.data(), x.size(), random);
        INFO(kind.name << ", " << n_blocks << " blocks of " << block);
        check_a8(backend, x, block);
      }
}

// Every size that an amax can have, from where blocks vanish to FLT_MAX; the largest value in any place.
void a8_of_every_size(const CpuBackend& backend) {
  Random random(11);
  for (const int block : {32, 256})
    for (int exponent = -64; exponent < 128; ++exponent) {
      const Guarded<float> x(2 * block);
      for (float& v : x) v = std::ldexp(random.uniform(-1, 1), exponent);
      x[random.below(block)] = std::ldexp(exponent % 2 ? -0x1.fffffep0F : 0x1.fffffep0F, exponent);
      x[block + random.below(block)] = std::ldexp(1.0F, exponent);
      INFO("amax about 2^" << exponent << ", blocks of " << block);
      check_a8(backend, x, block);
    }
}

void a8_refuses(const CpuBackend& backend) {
  Random random(12);
  for (const int block : {32, 256})
    for (const float bad : kNotFinite)
      for (int64_t at = 0; at < 512; ++at) {
        const Guarded<float> x(512);
        for (float& v : x) v = at % 2 ? random.normal() : 0.0F;
        x[at] = bad;
        A8 found(512, block);
        INFO(bad << " at " << at << " in blocks of " << block);
        REQUIRE_FALSE(found.make(backend, x, block));
        REQUIRE((found.codes.intact() && found.scales.intact() && found.sums.intact()));
      }
}

void flush(const CpuBackend& backend) {
  Random random(13);
  for (const RowKind& kind : row_kinds())
    for (int64_t n = 1; n < 70; ++n) {
      const Guarded<float> x(n), found(n), expected(n);
      kind.fill(x.data(), n, random);
      INFO(kind.name << ", " << n << " values");
      REQUIRE(backend.flush_f32(x.data(), n, found.data()));
      REQUIRE(reference_backend().flush_f32(x.data(), n, expected.data()));
      REQUIRE(first_difference(found.data(), expected.data(), n) == "");
      REQUIRE(found.intact());
    }
}

void flush_refuses(const CpuBackend& backend) {
  for (const float bad : kNotFinite)
    for (const int64_t n : {1, 7, 8, 16, 33, 100})
      for (int64_t at = 0; at < n; ++at) {
        const Guarded<float> x(n), found(n);
        for (float& v : x) v = 1;
        x[at] = bad;
        INFO(bad << " at " << at << " of " << n);
        REQUIRE_FALSE(backend.flush_f32(x.data(), n, found.data()));
        REQUIRE(found.intact());
      }
}

void silu_mul(const CpuBackend& backend) {
  Random random(14);
  constexpr std::array kGates = {0.0F,   -0.0F,       1e-30F, -1e-30F, 39.999996F, 40.0F,   40.000004F, -39.999996F,
                                 -40.0F, -40.000004F, 88.0F,  -88.0F,  104.0F,     -104.0F, 1e30F,      -1e30F};
  for (int64_t n = 1; n < 300; n = n < 70 ? n + 1 : n * 3) {
    const Guarded<float> gate(n), up(n), found(n), expected(n);
    for (int64_t i = 0; i < n; ++i) gate[i] = i % 3 ? 12 * random.normal() : kGates[random.below(kGates.size())];
    for (float& v : up) v = random.heavy_tailed();
    INFO(n << " values");
    reference_backend().silu_mul(gate.data(), up.data(), n, expected.data());
    backend.silu_mul(gate.data(), up.data(), n, found.data());
    REQUIRE(first_difference(found.data(), expected.data(), n) == "");
    REQUIRE(found.intact());
    const Guarded<float> h_is_gate(n), h_is_up(n);
    std::copy(gate.begin(), gate.end(), h_is_gate.begin());
    std::copy(up.begin(), up.end(), h_is_up.begin());
    backend.silu_mul(h_is_gate.data(), up.data(), n, h_is_gate.data());
    backend.silu_mul(gate.data(), h_is_up.data(), n, h_is_up.data());
    REQUIRE(first_difference(h_is_gate.data(), expected.data(), n) == "");
    REQUIRE(first_difference(h_is_up.data(), expected.data(), n) == "");
  }
}

// What is not finite must not become finite on the way through: quantize_a8 refuses it afterwards.
void silu_keeps_what_is_not_finite(const CpuBackend& backend) {
  for (int64_t at = 0; at < 37; ++at)
    for (const bool in_gate : {true, false})
      for (const float bad : kNotFinite) {
        const Guarded<float> gate(37), up(37), h(37);
        for (float& v : gate) v = 2;
        for (float& v : up) v = 3;
        (in_gate ? gate : up)[at] = bad;
        backend.silu_mul(gate.data(), up.data(), 37, h.data());
        INFO(bad << " at " << at << (in_gate ? " of gate" : " of up"));
        REQUIRE_FALSE(std::isfinite(h[at]));
      }
}

// v, and c = int64(rint(v * 2^24)) worked out by hand.
struct FixedCase {
  float v;
  int64_t c;
};
constexpr std::array kFixedCases = {
    FixedCase{0.0F, 0},
    FixedCase{-0.0F, 0},
    FixedCase{1.0F, 1 << 24},
    FixedCase{-1.5F, -3 << 23},
    FixedCase{0x1p-24F, 1},
    FixedCase{0x1p-25F, 0},  // a tie goes to the even 0
    FixedCase{0x3p-25F, 2},  // 1.5 goes to 2
    FixedCase{0x5p-25F, 2},  // 2.5 goes to 2
    FixedCase{-0x3p-25F, -2},
    FixedCase{0x1.000002p-25F, 1},
    FixedCase{0x1.fffffep37F, int64_t(0xffffff) << 38},
    FixedCase{-0x1.fffffep37F, -(int64_t(0xffffff) << 38)},
    FixedCase{0x1p-149F, 0},
};

void add_fixed(const CpuBackend& backend) {
  for (const auto& [v, c] : kFixedCases) {
    int64_t sum = 1000;
    REQUIRE(backend.add_fixed(1.0F, &v, 1, &sum));
    INFO("v = " << v);
    REQUIRE(sum == 1000 + c);
  }
  Random random(15);
  for (int64_t n = 1; n < 70; ++n) {
    const Guarded<float> y(n);
    const Guarded<int64_t> found(n), expected(n);
    // From sizes that round to 0 up to nearly 2^38.
    for (float& v : y) v = std::ldexp(random.uniform(-1, 1), int(random.below(66)) - 27);
    for (int64_t i = 0; i < n; ++i) found[i] = expected[i] = int64_t(random.next()) >> 2;
    for (const float weight : {1.0F, 0.37F, 0.0F, -0.25F}) {
      REQUIRE(backend.add_fixed(weight, y.data(), n, found.data()));
      REQUIRE(reference_backend().add_fixed(weight, y.data(), n, expected.data()));
      REQUIRE(same_bytes(found, expected));
      REQUIRE(found.intact());
    }
  }
}

void add_fixed_refuses(const CpuBackend& backend) {
  for (const float bad : {0x1p38F, -0x1p38F, 0x1p60F, FLT_MAX, -FLT_MAX, kInf, -kInf, kNaN, -kNaN})
    for (const int64_t n : {1, 8, 16, 37})
      for (int64_t at = 0; at < n; ++at) {
        const Guarded<float> y(n);
        const Guarded<int64_t> sums(n);
        for (float& v : y) v = 0.5F;
        for (int64_t& s : sums) s = 0;
        y[at] = bad;
        INFO(bad << " at " << at << " of " << n);
        REQUIRE_FALSE(backend.add_fixed(1.0F, y.data(), n, sums.data()));
        REQUIRE(sums.intact());
      }
  // It is the weighted value that counts.
  const float y = 0x1p30F;
  int64_t sum = 0;
  REQUIRE_FALSE(backend.add_fixed(256.0F, &y, 1, &sum));
  sum = 0;
  REQUIRE(backend.add_fixed(255.0F, &y, 1, &sum));
  REQUIRE(sum == int64_t(255) << 54);
}

void fixed_to_f32(const CpuBackend& backend) {
  struct Case {
    int64_t sum;
    float out;
  };
  constexpr std::array kCases = {
      Case{0, 0.0F},
      Case{1, 0x1p-24F},
      Case{-1, -0x1p-24F},
      Case{(1 << 24) + 1, 1.0F},           // a tie goes to the even fraction
      Case{(1 << 24) + 3, 0x1.000004p0F},  // and here that is the larger
      Case{(1 << 25) + 3, 0x1.000002p1F},
      Case{std::numeric_limits<int64_t>::max(), 0x1p39F},
      Case{std::numeric_limits<int64_t>::min(), -0x1p39F},
      Case{(int64_t(1) << 53) + 1, 0x1p29F},
      // Just above a tie of f32, and a tie in f64: rounding twice would go down.
      Case{(int64_t(1) << 60) + (int64_t(1) << 36) + 1, 0x1.000002p36F},
  };
  for (const auto& [sum, out] : kCases) {
    float found;
    backend.fixed_to_f32(&sum, 1, &found);
    INFO("sum = " << sum);
    REQUIRE(first_difference(&found, &out, 1) == "");
  }
  Random random(16);
  for (int64_t n = 1; n < 70; ++n) {
    const Guarded<int64_t> sums(n);
    const Guarded<float> found(n), expected(n);
    for (int64_t& s : sums) s = int64_t(random.next()) >> random.below(64);
    backend.fixed_to_f32(sums.data(), n, found.data());
    reference_backend().fixed_to_f32(sums.data(), n, expected.data());
    INFO(n << " values");
    REQUIRE(first_difference(found.data(), expected.data(), n) == "");
    REQUIRE(found.intact());
  }
}

constexpr std::array kTests = {
    BackendTest{"quantize_a8 has the reference's bytes for every kind of row", a8_of_every_kind},
    BackendTest{"quantize_a8 has the reference's bytes at every size of amax", a8_of_every_size},
    BackendTest{"quantize_a8 refuses NaN and infinity in any position", a8_refuses},
    BackendTest{"flush_f32 reads below 2^-40 as +0", flush},
    BackendTest{"flush_f32 refuses NaN and infinity in any position", flush_refuses},
    BackendTest{"silu_mul has the reference's bytes, also in place", silu_mul},
    BackendTest{"silu_mul never makes NaN or infinity finite", silu_keeps_what_is_not_finite},
    BackendTest{"add_fixed rounds to 2^-24, ties to even", add_fixed},
    BackendTest{"add_fixed refuses 2^38 and beyond in any position", add_fixed_refuses},
    BackendTest{"fixed_to_f32 rounds once, ties to even", fixed_to_f32},
};

}  // namespace

std::span<const BackendTest> activation_tests() {
  return kTests;
}

}  // namespace kvasir::conformance
