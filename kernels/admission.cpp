// Small golden cases: each weight type, a matrix whose rows fill no group, at rows that reach every form of a product.
#include "kernels/admission.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <span>
#include <vector>

#include "kernels/reference/reference.h"

namespace kvasir {
namespace {

constexpr int64_t kWeightRows = 50;  // three groups of 16 and two more rows
constexpr int64_t kCols = 512;       // two blocks of 256
constexpr std::array<int64_t, 2> kActRows = {1, 17};

// xorshift64 (Marsaglia, Journal of Statistical Software 8, 2003).
struct Random {
  uint64_t state = 88172645463325252;
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
};

// Where a type keeps its f16 scales in a block; -1: nowhere.
struct ScaleOffsets {
  QuantType type;
  int d, m;
};
constexpr std::array kScaleOffsets = {
    ScaleOffsets{QuantType::q4_0, 0, -1},   ScaleOffsets{QuantType::q4_1, 0, 2},
    ScaleOffsets{QuantType::q5_0, 0, -1},   ScaleOffsets{QuantType::q5_1, 0, 2},
    ScaleOffsets{QuantType::q8_0, 0, -1},   ScaleOffsets{QuantType::q2_k, 80, 82},
    ScaleOffsets{QuantType::q3_k, 108, -1}, ScaleOffsets{QuantType::q4_k, 0, 2},
    ScaleOffsets{QuantType::q5_k, 0, 2},    ScaleOffsets{QuantType::q6_k, 208, -1},
    ScaleOffsets{QuantType::iq4_nl, 0, -1}, ScaleOffsets{QuantType::iq4_xs, 0, -1},
    ScaleOffsets{QuantType::mxfp4, -1, -1},
};

// Random blocks whose scales are f16 numbers around 2^-7 of both signs, so that nothing overflows.
std::vector<std::byte> random_weights(QuantType type, Random& random) {
  const auto& t = info(type);
  std::vector<std::byte> data(size_t(kWeightRows * row_bytes(type, kCols)));
  for (auto& b : data) b = std::byte(random.next() >> 32);
  const auto small_f16 = [&](std::byte* at) { at[1] = (at[1] & std::byte(0x83)) | std::byte(0x20); };
  const auto* offsets = std::ranges::find(kScaleOffsets, type, &ScaleOffsets::type);
  for (auto* block = data.data(); block < data.data() + data.size(); block += t.block_bytes) {
    if (type == QuantType::f16) small_f16(block);
    if (type == QuantType::bf16) block[1] = (block[1] & std::byte(0x80)) | std::byte(0x3c);
    if (type == QuantType::f32) block[3] = (block[3] & std::byte(0x80)) | std::byte(0x3c);
    if (type == QuantType::mxfp4) block[0] = std::byte(110 + (random.next() & 15));
    if (offsets == kScaleOffsets.end()) continue;
    if (offsets->d >= 0) small_f16(block + offsets->d);
    if (offsets->m >= 0) small_f16(block + offsets->m);
  }
  return data;
}

// Activation rows in the form that a type takes.
struct Activations {
  std::vector<float> f32;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int16_t> sums;
  ActRows rows;

  Activations(const CpuBackend& backend, ActType act, int64_t n_rows, Random random) {
    const auto n = size_t(n_rows * kCols);
    for (size_t i = 0; i < n; ++i) f32.push_back(float(int64_t(random.next() >> 40) - (1 << 23)) * 0x1p-21F);
    rows = {.n_rows = n_rows, .n_cols = kCols, .f32 = f32.data(), .a8_32 = {}, .a8_256 = {}};
    const int block = act_block(act);
    if (block == 0) return;
    codes.resize(n);
    scales.resize(n / size_t(block));
    sums.resize(n / 16);
    backend.quantize_a8(f32.data(), int64_t(n), block, codes.data(), scales.data(), sums.data());
    (block == 32 ? rows.a8_32 : rows.a8_256) = {codes.data(), scales.data(), sums.data(), block};
  }
};

std::vector<float> product(const CpuBackend& backend, const TensorView& weights, const Activations& x) {
  const int64_t n_bytes = backend.packed_bytes(weights.type, kWeightRows, kCols);
  constexpr size_t kAlignment = 64;
  std::vector<std::byte> memory(size_t(n_bytes) + kAlignment);
  auto* packed = memory.data() + (kAlignment - uintptr_t(memory.data()) % kAlignment) % kAlignment;
  if (n_bytes) backend.pack(weights, 0, kWeightRows, packed);
  std::vector<float> out(size_t(x.rows.n_rows * kWeightRows));
  backend.matmul({weights.type, kWeightRows, kCols, n_bytes ? packed : weights.data}, 0, kWeightRows, x.rows,
                 out.data(), kWeightRows);
  return out;
}

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

}  // namespace

std::string admission_fault(const CpuBackend& backend) {
  const auto& reference = reference_backend();
  if (&backend == &reference) return "";
  Random random;
  for (const auto& type : quant_types()) {
    const auto data = random_weights(type.type, random);
    const TensorView weights{type.type, kCols, kWeightRows, 1, data.data()};
    for (const int64_t n_rows : kActRows) {
      const Activations x(backend, type.act, n_rows, random), y(reference, type.act, n_rows, random);
      if (!same_bytes(x.codes, y.codes) || !same_bytes(x.scales, y.scales) || !same_bytes(x.sums, y.sums))
        return fmt::format("the activations of {}", type.name);
      if (!same_bytes(product(backend, weights, x), product(reference, weights, y)))
        return fmt::format("{} with {} rows", type.name, n_rows);
    }
  }
  return "";
}

}  // namespace kvasir
