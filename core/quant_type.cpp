// The table of weight types.
#include "core/quant_type.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace kvasir {
namespace {

constexpr std::array kTypes = {
    QuantTypeInfo{QuantType::f32, "F32", 1, 4, ActType::f32},
    QuantTypeInfo{QuantType::f16, "F16", 1, 2, ActType::f32},
    QuantTypeInfo{QuantType::q4_0, "Q4_0", 32, 18, ActType::a8_32},
    QuantTypeInfo{QuantType::q4_1, "Q4_1", 32, 20, ActType::a8_32},
    QuantTypeInfo{QuantType::q5_0, "Q5_0", 32, 22, ActType::a8_32},
    QuantTypeInfo{QuantType::q5_1, "Q5_1", 32, 24, ActType::a8_32},
    QuantTypeInfo{QuantType::q8_0, "Q8_0", 32, 34, ActType::a8_32},
    QuantTypeInfo{QuantType::q2_k, "Q2_K", 256, 84, ActType::a8_256},
    QuantTypeInfo{QuantType::q3_k, "Q3_K", 256, 110, ActType::a8_256},
    QuantTypeInfo{QuantType::q4_k, "Q4_K", 256, 144, ActType::a8_256},
    QuantTypeInfo{QuantType::q5_k, "Q5_K", 256, 176, ActType::a8_256},
    QuantTypeInfo{QuantType::q6_k, "Q6_K", 256, 210, ActType::a8_256},
    QuantTypeInfo{QuantType::iq4_nl, "IQ4_NL", 32, 18, ActType::a8_32},
    QuantTypeInfo{QuantType::iq4_xs, "IQ4_XS", 256, 136, ActType::a8_256},
    QuantTypeInfo{QuantType::bf16, "BF16", 1, 2, ActType::f32},
    QuantTypeInfo{QuantType::mxfp4, "MXFP4", 32, 17, ActType::a8_32},
};

constexpr char upper(char c) {
  return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
}

}  // namespace

std::span<const QuantTypeInfo> quant_types() {
  return kTypes;
}

const QuantTypeInfo& info(QuantType type) {
  const auto* found = std::ranges::find(kTypes, type, &QuantTypeInfo::type);
  KV_CHECK(found != kTypes.end(), "a QuantType that is not in the table");
  return *found;
}

std::optional<QuantType> quant_type_from_gguf(uint32_t number) {
  for (const auto& t : kTypes)
    if (uint32_t(t.type) == number) return t.type;
  return std::nullopt;
}

std::optional<QuantType> quant_type_from_name(std::string_view name) {
  for (const auto& t : kTypes)
    if (std::ranges::equal(name, t.name, {}, upper)) return t.type;
  return std::nullopt;
}

int64_t row_bytes(QuantType type, int64_t n_cols) {
  const auto& t = info(type);
  KV_CHECK(n_cols >= 0 && n_cols % t.block == 0, "a row is a whole number of blocks");
  return n_cols / t.block * t.block_bytes;
}

}  // namespace kvasir
