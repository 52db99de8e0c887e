// matmul on extreme blocks: every byte in every place, scales that are zero, negative, subnormal or as large as f16
// goes, and activations of every kind that the law has an opinion on.
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <vector>

#include "kernels/reference/reference.h"
#include "tests/conformance/check.h"
#include "tests/conformance/suite.h"

namespace kvasir::conformance {
namespace {

bool is_quantised(const QuantTypeInfo& type) {
  return type.act != ActType::f32;
}

// Rows of the same byte reach every code, every sub-block scale and minimum (0, 63, 127, -128, ...), all alike.
void every_byte(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    if (!is_quantised(type)) continue;
    Random random(5000 + uint64_t(type.type));
    const Matrix w(type.type, 256, 3 * type.block);
    for (int64_t r = 0; r < 256; ++r)
      for (int64_t b = 0; b < 3; ++b) {
        std::memset(w.block(r, b), int(b == 1 ? ~r : r) & 255, type.block_bytes);
        set_scales(type.type, w.block(r, b), b == 2 ? -0.02F : 0.01F, 0.03F);
      }
    check_product(backend, w, every_kind_of_activations(type.type, 30, w.n_cols, random));
  }
}

// Counting bytes: each place of a block holds another value than its neighbours, so that a swapped place shows.
void counting_bytes(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    if (!is_quantised(type)) continue;
    Random random(5500 + uint64_t(type.type));
    const Matrix w(type.type, 67, 9 * type.block);
    for (int64_t i = 0; i < w.bytes.size(); ++i) w.bytes[i] = std::byte(i * 37 + i / 251);
    for (int64_t r = 0; r < w.n_rows; ++r)
      for (int64_t b = 0; b < 9; ++b) set_scales(type.type, w.block(r, b), 0.01F, 0.03F);
    check_product(backend, w, every_kind_of_activations(type.type, 15, w.n_cols, random));
  }
}

constexpr std::array kScales = {0.0F,     -0.0F,     0x1p-24F, -0x1p-24F, 0x1.ff8p-15F, 0x1p-14F,
                                65504.0F, -65504.0F, 0.01F,    -0.01F,    1.0F};
constexpr std::array<uint8_t, 10> kFills = {0x00, 0xff, 0x7f, 0x80, 0x55, 0xaa, 0x0f, 0xf0, 0x3f, 0xc0};

// Each pair of a scale and a fill (the last fill is random) in a row, each scale of minima in turn along it.
void extreme_scales(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    if (!is_quantised(type)) continue;
    Random random(6000 + uint64_t(type.type));
    const Matrix w(type.type, kScales.size() * (kFills.size() + 1), 9 * type.block);
    for (int64_t r = 0; r < w.n_rows; ++r)
      for (int64_t b = 0; b < 9; ++b) {
        const size_t fill = r / kScales.size();
        for (int i = 0; i < type.block_bytes; ++i)
          w.block(r, b)[i] = std::byte(fill < kFills.size() ? kFills[fill] : random.next());
        set_scales(type.type, w.block(r, b), kScales[r % kScales.size()], kScales[(r + b) % kScales.size()]);
      }
    for (const int64_t n_rows : {1, 14, 28})
      check_product(backend, w, every_kind_of_activations(type.type, n_rows, w.n_cols, random));
  }
}

// The largest activations meet the smallest scales: finite throughout.
void largest_activations(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    if (!is_quantised(type)) continue;
    Random random(6500 + uint64_t(type.type));
    Matrix w = ordinary_weights(type.type, 17, 3 * type.block, random);
    for (int64_t r = 0; r < w.n_rows; ++r)
      for (int64_t b = 0; b < 3; ++b) set_scales(type.type, w.block(r, b), 0x1p-24F, -0x1p-24F);
    Activations x(type.type, 9, w.n_cols);
    std::vector<float> row(w.n_cols);
    for (int64_t t = 0; t < 9; ++t) {
      for (float& v : row) v = 0x1.fffffep127F * random.uniform(-1, 1);
      row[t] = 0x1.fffffep127F;
      x.set_row(t, row.data(), reference_backend());
    }
    check_product(backend, w, x);
  }
}

// Every exponent of MXFP4. Small activations go with large ones: infinities that cancel would leave a NaN, whose bits
// the law does not fix.
void every_mxfp4_exponent(const CpuBackend& backend) {
  Random random(7000);
  for (const bool large : {false, true}) {
    Matrix w = ordinary_weights(QuantType::mxfp4, 160, 96, random);
    for (int64_t r = 0; r < w.n_rows; ++r)
      for (int64_t b = 0; b < 3; ++b) w.block(r, b)[0] = std::byte(large ? 96 + r : r);
    Activations x(QuantType::mxfp4, 17, w.n_cols);
    std::vector<float> row(w.n_cols);
    for (int64_t t = 0; t < x.n_rows; ++t) {
      for (float& v : row) v = (large ? 0x1p-50F : 1.0F) * random.normal();
      x.set_row(t, row.data(), reference_backend());
    }
    check_product(backend, w, x);
  }
}

void every_f16_weight(const CpuBackend& backend) {
  Random random(8000);
  const Matrix w(QuantType::f16, 62, 1024);  // 2 signs of 31 exponents of 1,024 fractions
  for (int64_t i = 0; i < 62 * 1024; ++i) {
    const auto bits = uint16_t(i / (31 * 1024) << 15 | i % (31 * 1024));
    std::memcpy(w.bytes.data() + 2 * i, &bits, 2);
  }
  for (const int64_t n_rows : {1, 14, 28})
    check_product(backend, w, every_kind_of_activations(QuantType::f16, n_rows, w.n_cols, random));
}

// Weights on both sides of 2^-40, zeros of both signs, subnormals, and sizes up to 1e15.
void float_weights_at_the_edges(const CpuBackend& backend) {
  constexpr std::array kValues = {
      0.0F,      -0.0F,      0x1p-40F, -0x1p-40F, 0x0.ffp-40F, -0x0.ffp-40F, 0x0.ffffffp-40F, 0x1.000002p-40F,
      0x1p-140F, -0x1p-130F, 1e15F,    -1e15F,    1.0F};
  for (const QuantType type : {QuantType::f32, QuantType::bf16})
    for (const int64_t n_cols : {1, 13, 16, 40, 257}) {
      Random random(9000 + uint64_t(n_cols));
      const Matrix w(type, 33, n_cols);
      for (int64_t i = 0; i < w.n_rows * n_cols; ++i) {
        const auto bits = std::bit_cast<uint32_t>(kValues[random.below(kValues.size())]);
        const int n_bytes = info(type).block_bytes;
        std::memcpy(w.bytes.data() + i * n_bytes, reinterpret_cast<const std::byte*>(&bits) + 4 - n_bytes, n_bytes);
      }
      check_product(backend, w, every_kind_of_activations(type, 28, n_cols, random));
    }
}

constexpr std::array kTests = {
    BackendTest{"matmul on blocks of one byte repeated, for every byte, has the reference's bytes", every_byte},
    BackendTest{"matmul on blocks of counting bytes has the reference's bytes", counting_bytes},
    BackendTest{"matmul on zero, negative, tiny and huge scales has the reference's bytes", extreme_scales},
    BackendTest{"matmul of the largest activations has the reference's bytes", largest_activations},
    BackendTest{"matmul on every exponent of MXFP4 has the reference's bytes", every_mxfp4_exponent},
    BackendTest{"matmul on every finite f16 weight has the reference's bytes", every_f16_weight},
    BackendTest{"matmul on float weights around 2^-40 has the reference's bytes", float_weights_at_the_edges},
};

}  // namespace

std::span<const BackendTest> adversarial_tests() {
  return kTests;
}

}  // namespace kvasir::conformance
