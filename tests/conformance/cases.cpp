// Weights and activations of the suite.
#include "tests/conformance/cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <vector>

#include "core/error.h"
#include "kernels/reference/reference.h"

namespace kvasir::conformance {
namespace {

// The nearest f16 to x, ties to even; beyond 65504 is the caller's mistake. A search, since the bits of positive f16
// are in the order of their values.
uint16_t to_f16(float x) {
  const float size = std::fabs(x);
  uint16_t low = 0, high = 0x7bff;  // f16(low) <= size <= f16(high)
  while (high - low > 1) {
    const auto middle = uint16_t((low + high) / 2);
    (f16_to_f32(middle) <= size ? low : high) = middle;
  }
  const float below = size - f16_to_f32(low), above = f16_to_f32(high) - size;
  const bool up = above < below || (above == below && high % 2 == 0);
  return uint16_t((up ? high : low) | (std::signbit(x) ? 0x8000 : 0));
}

// Where a block keeps its f16 scales, and a range for d that gives weights of about 0.04.
struct ScaleFields {
  QuantType type;
  int d_offset;
  int m_offset;  // -1: none
  float d;
  float m;
};
constexpr std::array kScaleFields = {
    ScaleFields{QuantType::q4_0, 0, -1, 0.01F, 0},       ScaleFields{QuantType::q4_1, 0, 2, 0.01F, -0.08F},
    ScaleFields{QuantType::q5_0, 0, -1, 0.005F, 0},      ScaleFields{QuantType::q5_1, 0, 2, 0.005F, -0.08F},
    ScaleFields{QuantType::q8_0, 0, -1, 0.0005F, 0},     ScaleFields{QuantType::q2_k, 80, 82, 0.004F, 0.004F},
    ScaleFields{QuantType::q3_k, 108, -1, 0.0006F, 0},   ScaleFields{QuantType::q4_k, 0, 2, 0.0002F, 0.001F},
    ScaleFields{QuantType::q5_k, 0, 2, 0.0001F, 0.001F}, ScaleFields{QuantType::q6_k, 208, -1, 0.00003F, 0},
    ScaleFields{QuantType::iq4_nl, 0, -1, 0.0006F, 0},   ScaleFields{QuantType::iq4_xs, 0, -1, 0.00003F, 0},
};

const ScaleFields& scale_fields(QuantType type) {
  const auto* found = std::ranges::find(kScaleFields, type, &ScaleFields::type);
  KV_CHECK(found != kScaleFields.end(), "a type without f16 scales");
  return *found;
}

void put_f16(std::byte* at, float x) {
  const uint16_t bits = to_f16(x);
  std::memcpy(at, &bits, 2);
}

void put_float_weight(QuantType type, std::byte* at, float x) {
  if (type == QuantType::f16) return put_f16(at, x);
  const auto bits = std::bit_cast<uint32_t>(x);
  if (type == QuantType::f32) std::memcpy(at, &bits, 4);
  if (type == QuantType::bf16) {
    const auto high = uint16_t(bits >> 16);
    std::memcpy(at, &high, 2);
  }
}

// Bits of a random f16 in size 2^-9 .. 2^-3, of either sign.
uint16_t random_f16(Random& random) {
  return uint16_t((6 + random.below(6)) << 10 | random.below(1024) | random.below(2) << 15);
}

void fill_zero(float* x, int64_t n, Random&) {
  std::fill_n(x, n, 0.0F);
}
void fill_minus_zero(float* x, int64_t n, Random&) {
  std::fill_n(x, n, -0.0F);
}
void fill_normal(float* x, int64_t n, Random& random) {
  std::generate_n(x, n, [&] { return random.normal(); });
}
void fill_heavy_tailed(float* x, int64_t n, Random& random) {
  std::generate_n(x, n, [&] { return random.heavy_tailed(); });
}
void fill_largest_code(float* x, int64_t n, Random&) {
  std::fill_n(x, n, 3.7F);
}
void fill_smallest_code(float* x, int64_t n, Random&) {
  std::fill_n(x, n, -3.7F);
}
void fill_alternating(float* x, int64_t n, Random&) {
  for (int64_t i = 0; i < n; ++i) x[i] = i % 2 ? -1.25F : 1.25F;
}
// A block whose amax is 127 has d = 1 and codes x: every other value lies half way between two codes.
void fill_ties(float* x, int64_t n, Random& random) {
  for (int64_t i = 0; i < n; ++i) x[i] = i % 32 == 0 ? 127.0F : float(random.below(253) - 126) + 0.5F;
}
// Each 32 a different step around 2^-60, where blocks vanish.
void fill_around_2_60(float* x, int64_t n, Random& random) {
  constexpr std::array kPeaks = {0x1p-60F, 0x0.ffffffp-60F, 0x1.000002p-60F, -0x1p-60F, -0x0.ffffffp-60F, 0x1p-61F};
  for (int64_t i = 0; i < n; ++i) x[i] = 0x1p-64F * random.uniform(-1, 1);
  for (int64_t i = 7; i < n; i += 32) x[i] = kPeaks[i / 32 % kPeaks.size()];
}
// Values around 2^-40, where float activations vanish.
void fill_around_2_40(float* x, int64_t n, Random&) {
  constexpr std::array kValues = {0x1p-40F, -0x1p-40F, 0x0.ffffffp-40F, -0x0.ffffffp-40F, 0x1.000002p-40F, 0x1p-41F};
  for (int64_t i = 0; i < n; ++i) x[i] = kValues[i % kValues.size()];
}
// Blocks of 32 that are empty, next to others that are not.
void fill_sparse(float* x, int64_t n, Random& random) {
  for (int64_t i = 0; i < n; ++i) x[i] = i / 32 % 3 == 1 ? random.normal() : 0.0F;
}
void fill_one_outlier(float* x, int64_t n, Random& random) {
  for (int64_t i = 0; i < n; ++i) x[i] = random.normal();
  x[random.below(n)] = 1e6F;
}
void fill_subnormal_and_one(float* x, int64_t n, Random&) {
  for (int64_t i = 0; i < n; ++i) x[i] = i % 16 == 3 ? 1.0F : i % 2 ? 0x1p-140F : -0x1p-130F;
}
void fill_huge(float* x, int64_t n, Random& random) {
  for (int64_t i = 0; i < n; ++i) x[i] = random.uniform(-1e20F, 1e20F);
}

constexpr std::array kRowKinds = {
    RowKind{"normal", fill_normal},
    RowKind{"heavy tailed", fill_heavy_tailed},
    RowKind{"zero", fill_zero},
    RowKind{"minus zero", fill_minus_zero},
    RowKind{"largest code", fill_largest_code},
    RowKind{"smallest code", fill_smallest_code},
    RowKind{"alternating extremes", fill_alternating},
    RowKind{"ties", fill_ties},
    RowKind{"around 2^-60", fill_around_2_60},
    RowKind{"around 2^-40", fill_around_2_40},
    RowKind{"sparse", fill_sparse},
    RowKind{"one outlier", fill_one_outlier},
    RowKind{"subnormals", fill_subnormal_and_one},
    RowKind{"huge", fill_huge},
};

}  // namespace

Matrix::Matrix(QuantType weight_type, int64_t rows, int64_t cols)
    : type(weight_type), n_rows(rows), n_cols(cols), bytes(rows * row_bytes(weight_type, cols)) {}

std::byte* Matrix::block(int64_t row, int64_t b) const {
  return bytes.data() + row * row_bytes(type, n_cols) + b * info(type).block_bytes;
}

void set_scales(QuantType type, std::byte* block, float d, float m) {
  if (type == QuantType::mxfp4) {
    int exponent;
    std::frexp(d, &exponent);
    block[0] = std::byte(std::clamp(exponent - 1 + 128, 0, 255));
    return;
  }
  const ScaleFields& fields = scale_fields(type);
  put_f16(block + fields.d_offset, d);
  if (fields.m_offset >= 0) put_f16(block + fields.m_offset, m);
}

Matrix ordinary_weights(QuantType type, int64_t n_rows, int64_t n_cols, Random& random) {
  Matrix w(type, n_rows, n_cols);
  if (info(type).act == ActType::f32) {
    for (int64_t r = 0; r < n_rows; ++r)
      for (int64_t i = 0; i < n_cols; ++i) {
        const uint16_t half = random_f16(random);
        if (type == QuantType::f16)
          std::memcpy(w.block(r, i), &half, 2);
        else
          put_float_weight(type, w.block(r, i), 0.04F * random.normal());
      }
    return w;
  }
  for (std::byte& b : w.bytes) b = std::byte(random.next());
  for (int64_t r = 0; r < n_rows; ++r)
    for (int64_t b = 0; b < n_cols / info(type).block; ++b) {
      std::byte* block = w.block(r, b);
      if (type == QuantType::mxfp4) {
        block[0] = std::byte(118 + random.below(5));
        continue;
      }
      // Random bits of fraction in a fixed exponent: a search for the nearest f16 in each block would take seconds.
      const ScaleFields& fields = scale_fields(type);
      const auto vary = [&](std::byte* at, uint16_t like) {
        const auto bits = uint16_t((like & 0xfc00) | random.below(1024));
        std::memcpy(at, &bits, 2);
      };
      static const auto kNear = [] {
        std::array<std::array<uint16_t, 2>, kScaleFields.size()> near{};
        for (size_t i = 0; i < near.size(); ++i) near[i] = {to_f16(kScaleFields[i].d), to_f16(kScaleFields[i].m)};
        return near;
      }();
      const auto& near = kNear[&fields - kScaleFields.data()];
      vary(block + fields.d_offset, near[0]);
      if (fields.m_offset >= 0) vary(block + fields.m_offset, near[1]);
    }
  return w;
}

std::span<const RowKind> row_kinds() {
  return kRowKinds;
}

Activations::Activations(QuantType type, int64_t rows, int64_t cols)
    : act(info(type).act),
      n_rows(rows),
      n_cols(cols),
      f32(act == ActType::f32 ? rows * cols : 0),
      codes(act == ActType::f32 ? 0 : rows * cols),
      scales(act == ActType::f32 ? 0 : rows * (cols / act_block(act))),
      sums(act == ActType::f32 ? 0 : rows * (cols / 16)) {}

void Activations::set_row(int64_t t, const float* x, const CpuBackend& maker) {
  const int block = act_block(act);
  const bool finite = act == ActType::f32
                          ? maker.flush_f32(x, n_cols, f32.data() + t * n_cols)
                          : maker.quantize_a8(x, n_cols, block, codes.data() + t * n_cols,
                                              scales.data() + t * (n_cols / block), sums.data() + t * (n_cols / 16));
  KV_CHECK(finite, "a test's activations are finite");
}

ActRows Activations::view() const {
  const A8Rows a8{codes.data(), scales.data(), sums.data(), act_block(act)};
  ActRows rows{n_rows, n_cols, nullptr, {}, {}};
  if (act == ActType::f32) rows.f32 = f32.data();
  if (act == ActType::a8_32) rows.a8_32 = a8;
  if (act == ActType::a8_256) rows.a8_256 = a8;
  return rows;
}

Activations ordinary_activations(QuantType type, int64_t n_rows, int64_t n_cols, Random& random) {
  Activations x(type, n_rows, n_cols);
  std::vector<float> row(n_cols);
  for (int64_t t = 0; t < n_rows; ++t) {
    fill_heavy_tailed(row.data(), n_cols, random);
    x.set_row(t, row.data(), reference_backend());
  }
  return x;
}

Activations every_kind_of_activations(QuantType type, int64_t n_rows, int64_t n_cols, Random& random) {
  Activations x(type, n_rows, n_cols);
  std::vector<float> row(n_cols);
  for (int64_t t = 0; t < n_rows; ++t) {
    kRowKinds[t % kRowKinds.size()].fill(row.data(), n_cols, random);
    x.set_row(t, row.data(), reference_backend());
  }
  return x;
}

}  // namespace kvasir::conformance
