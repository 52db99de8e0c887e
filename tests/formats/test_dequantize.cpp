// dequantize_row: for every type, a weight row's dot product with a unit vector is the weight.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/dequantize.h"
#include "kernels/select.h"

using namespace kvasir;

TEST_CASE("dequantize: every weight is what the reference kernel computes with") {
  std::mt19937 random(7);
  const auto* reference = *select_cpu_backend("reference");
  for (const auto& t : quant_types()) {
    INFO(t.name);
    const int64_t n = 512;
    std::vector<std::byte> row(size_t(row_bytes(t.type, n)));
    for (auto& b : row) b = std::byte(random() & 0x3b);  // exponents stay far from infinity
    std::vector<float> weights(static_cast<size_t>(n));
    dequantize_row(t.type, row.data(), n, weights.data());

    std::vector<float> x(size_t(n) * 16), expected(16);
    for (int k = 0; k < 16; ++k) x[size_t(k * n + k * 31)] = 1.0F;
    std::vector<int8_t> codes(x.size());
    std::vector<float> scales(x.size() / 32);
    std::vector<int16_t> sums(x.size() / 16);
    ActRows rows{.n_rows = 16, .n_cols = n, .f32 = x.data(), .a8_32 = {}, .a8_256 = {}};
    if (const int block = act_block(t.act)) {
      REQUIRE(reference->quantize_a8(x.data(), int64_t(x.size()), block, codes.data(), scales.data(), sums.data()));
      (block == 32 ? rows.a8_32 : rows.a8_256) = {codes.data(), scales.data(), sums.data(), block};
    }
    reference->matmul({t.type, 1, n, row.data()}, 0, 1, rows, expected.data(), 1);
    for (int k = 0; k < 16; ++k) {
      const float w = weights[size_t(k * 31)];
      CHECK(std::fabs(w - expected[size_t(k)]) <= 1e-5F * std::fabs(w) + 1e-12F);
    }
  }
}
