// The element types of weights, with their GGUF numbers and block geometry.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvasir {

// Values are the type numbers that GGUF files store.
enum class QuantType : uint8_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  bf16 = 30,
  mxfp4 = 39,
};

// How a row of activations meets a weight row (docs/NUMERICS.md, "Activations: A8").
enum class ActType : uint8_t {
  f32,     // float weights: unquantised
  a8_32,   // int8 codes, one scale per 32
  a8_256,  // int8 codes, one scale per 256
};

struct QuantTypeInfo {
  QuantType type;
  std::string_view name;  // as GGUF tools print it: "Q4_K"
  int block;              // weights per block; a row is a whole number of blocks
  int block_bytes;
  ActType act;
};

// Every type that kvasir computes with, in the order of their numbers.
std::span<const QuantTypeInfo> quant_types();

// The entry of a type; every enumerator has one.
const QuantTypeInfo& info(QuantType type);

// nullopt for a number that is no type of ours. name is matched without regard to case.
std::optional<QuantType> quant_type_from_gguf(uint32_t number);
std::optional<QuantType> quant_type_from_name(std::string_view name);

// Bytes of one row of n_cols weights. n_cols must be a multiple of the block (the caller's duty, checked by KV_CHECK)
// and small enough not to overflow, which holds for any shape that a reader has let in.
int64_t row_bytes(QuantType type, int64_t n_cols);

// Activations per A8 scale: 32 or 256; 0 for ActType::f32.
constexpr int act_block(ActType act) {
  return act == ActType::f32 ? 0 : act == ActType::a8_32 ? 32 : 256;
}

}  // namespace kvasir
