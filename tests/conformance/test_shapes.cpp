// matmul against the reference over shapes: activation rows, weight rows, columns, and how the rows are split.
#include <array>
#include <catch2/catch.hpp>

#include "tests/conformance/check.h"
#include "tests/conformance/suite.h"

namespace kvasir::conformance {
namespace {

// Around every width at which a kernel may change its way: pairs, 8, 16, and groups of weight rows.
constexpr std::array<int64_t, 8> kFewRows = {1, 2, 7, 8, 9, 15, 16, 17};
constexpr std::array<int64_t, 7> kManyRows = {31, 33, 64, 255, 256, 511, 512};
constexpr std::array<int64_t, 7> kWeightRows = {1, 3, 15, 16, 17, 33, 50};
// Blocks per row: also not multiples of the 8 accumulators, nor of the 2 or 4 blocks of 32 that a kernel may join.
constexpr std::array<int64_t, 9> kBlocks = {1, 2, 3, 5, 7, 8, 9, 12, 17};
constexpr std::array<int64_t, 9> kFloatCols = {1, 2, 15, 16, 17, 31, 33, 100, 384};

int64_t columns(const QuantTypeInfo& type, size_t i) {
  return type.act == ActType::f32 ? kFloatCols[i] : kBlocks[i] * type.block;
}

void few_rows(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    Random random(1000 + uint64_t(type.type));
    for (size_t i = 0; i < kBlocks.size(); ++i)
      for (const int64_t n_weight_rows : kWeightRows) {
        const Matrix w = ordinary_weights(type.type, n_weight_rows, columns(type, i), random);
        const BackendWeights packed(backend, w.view());
        for (const int64_t n_rows : kFewRows) {
          const Activations x = ordinary_activations(type.type, n_rows, w.n_cols, random);
          check_rows(backend, packed, x, 0, n_weight_rows, reference_product(w, x));
        }
      }
  }
}

void many_rows(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    Random random(2000 + uint64_t(type.type));
    for (size_t i = 0; i < kManyRows.size(); ++i) {
      // Shapes rotate so that each count of rows meets several widths without a full product.
      const int64_t n_weight_rows = kWeightRows[(i + size_t(type.type)) % kWeightRows.size()];
      const Matrix w = ordinary_weights(type.type, n_weight_rows, columns(type, (2 * i + 1) % 7), random);
      check_product(backend, w, ordinary_activations(type.type, kManyRows[i], w.n_cols, random));
    }
  }
}

void any_split(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    Random random(3000 + uint64_t(type.type));
    const Matrix w = ordinary_weights(type.type, 50, columns(type, 6), random);
    const BackendWeights packed(backend, w.view());
    const int64_t group = std::max<int64_t>(backend.row_group, 7);  // groups of 1 would only be slow
    const int64_t step = (group + backend.row_group - 1) / backend.row_group * backend.row_group;
    for (const int64_t n_rows : {1, 5, 33}) {
      const Activations x = ordinary_activations(type.type, n_rows, w.n_cols, random);
      const Guarded<float> expected = reference_product(w, x);
      for (int64_t begin = 0; begin < w.n_rows; begin += step)
        for (int64_t end = begin + step; end < w.n_rows + step; end += step)
          check_rows(backend, packed, x, begin, std::min(end, w.n_rows), expected);
    }
  }
}

// A real width: 3,072 columns are 12 blocks of 256 or 96 of 32.
void wide(const CpuBackend& backend) {
  for (const QuantTypeInfo& type : quant_types()) {
    Random random(4000 + uint64_t(type.type));
    const Matrix w = ordinary_weights(type.type, 64, 3072, random);
    for (const int64_t n_rows : {1, 3, 4, 24})
      check_product(backend, w, ordinary_activations(type.type, n_rows, 3072, random));
  }
}

constexpr std::array kTests = {
    BackendTest{"matmul of 1 to 17 rows has the reference's bytes at every shape", few_rows},
    BackendTest{"matmul of 31 to 512 rows has the reference's bytes", many_rows},
    BackendTest{"matmul of any range of weight rows writes that range and nothing else", any_split},
    BackendTest{"matmul of 3072 columns has the reference's bytes", wide},
};

}  // namespace

std::span<const BackendTest> matmul_tests() {
  return kTests;
}

}  // namespace kvasir::conformance
