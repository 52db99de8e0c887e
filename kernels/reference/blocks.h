// GGUF blocks taken apart into the integers and scales that the dot product table of docs/NUMERICS.md speaks of.
#pragma once
#include <array>
#include <cstdint>

#include "core/quant_type.h"

namespace kvasir {

// One block of any quantised type. What a type does not have stays as it was.
struct DecodedBlock {
  float d;                            // the block's scale, widened from f16 (MXFP4: 2^(e-128), 0 if e < 64)
  float m;                            // Q4_1, Q5_1: m; Q2_K, Q4_K, Q5_K: dmin
  std::array<int8_t, 256> codes;      // with the type's offset or table already applied: w-8, table[w], ...
  std::array<int32_t, 16> sub_scale;  // of each sub-block, offset applied: sc_j, sc_j-32, ls_j-32
  std::array<int32_t, 16> sub_min;    // m_j
};

// Reads block_bytes bytes at raw; any bytes are a valid block.
using DecodeBlock = void (*)(const uint8_t* raw, DecodedBlock& block);

// The decoder of a quantised type.
DecodeBlock decoder(QuantType type);

}  // namespace kvasir
