// One block at a time through the reference's decoders.
#include "kernels/dequantize.h"

#include <bit>
#include <cstring>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace kvasir {
namespace {

// How a block's codes become weights: which sub-block scales and minima there are.
struct Form {
  int sub_block;  // weights per sub-block; 0: the block's scale alone
  float min;      // sign of the minimum: Q4_1 and Q5_1 add it, K-quants subtract it, 0: none
};

Form form(QuantType type) {
  switch (type) {
    case QuantType::q4_1:
    case QuantType::q5_1:
      return {0, 1.0F};
    case QuantType::q2_k:
      return {16, -1.0F};
    case QuantType::q4_k:
    case QuantType::q5_k:
      return {32, -1.0F};
    case QuantType::q3_k:
    case QuantType::q6_k:
      return {16, 0.0F};
    case QuantType::iq4_xs:
      return {32, 0.0F};
    default:
      return {0, 0.0F};
  }
}

void dequantize_float(QuantType type, const std::byte* row, int64_t n_cols, float* out) {
  if (type == QuantType::f32) {
    std::memcpy(out, row, size_t(n_cols) * 4);
    return;
  }
  for (int64_t i = 0; i < n_cols; ++i) {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * i, 2);
    out[i] = type == QuantType::f16 ? f16_to_f32(bits) : std::bit_cast<float>(uint32_t(bits) << 16);
  }
}

}  // namespace

void dequantize_row(QuantType type, const std::byte* row, int64_t n_cols, float* out) {
  const auto& t = info(type);
  if (t.act == ActType::f32) return dequantize_float(type, row, n_cols, out);
  const auto decode = decoder(type);
  const auto f = form(type);
  DecodedBlock block;
  for (int64_t b = 0; b < n_cols / t.block; ++b) {
    decode(reinterpret_cast<const uint8_t*>(row) + b * t.block_bytes, block);
    for (int i = 0; i < t.block; ++i) {
      const int j = f.sub_block ? i / f.sub_block : 0;
      const float scale = f.sub_block ? block.d * float(block.sub_scale[j]) : block.d;
      float w = scale * float(block.codes[i]);
      if (f.min != 0) w = w + f.min * (f.sub_block ? block.m * float(block.sub_min[j]) : block.m);
      out[b * t.block + i] = w;
    }
  }
}

}  // namespace kvasir
