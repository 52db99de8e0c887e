// The bit layouts of the GGUF block types, each written down once.
#include "kernels/reference/blocks.h"

#include <bit>
#include <cstring>

#include "core/error.h"
#include "kernels/reference/reference.h"

namespace kvasir {
namespace {

// IQ4_NL and IQ4_XS: a code is an index into this table.
constexpr std::array<int8_t, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// MXFP4: the E2M1 values doubled, so that they are integers.
constexpr std::array<int8_t, 16> kFp4 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float f16_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return f16_to_f32(bits);
}

// 32 codes of 4 bits: the low halves of 16 bytes, then the high halves.
int nibble(const uint8_t* qs, int i) {
  return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

// The fifth bit of code i of Q5_0 and Q5_1, in its place.
int fifth_bit(const uint8_t* qh, int i) {
  return (qh[i / 8] >> (i % 8) & 1) << 4;
}

void decode_q4_0(const uint8_t* raw, DecodedBlock& block) {  // d, qs[16]
  block.d = f16_at(raw);
  for (int i = 0; i < 32; ++i) block.codes[i] = int8_t(nibble(raw + 2, i) - 8);
}

void decode_q4_1(const uint8_t* raw, DecodedBlock& block) {  // d, m, qs[16]
  block.d = f16_at(raw);
  block.m = f16_at(raw + 2);
  for (int i = 0; i < 32; ++i) block.codes[i] = int8_t(nibble(raw + 4, i));
}

void decode_q5_0(const uint8_t* raw, DecodedBlock& block) {  // d, qh[4], qs[16]
  block.d = f16_at(raw);
  for (int i = 0; i < 32; ++i) block.codes[i] = int8_t((nibble(raw + 6, i) | fifth_bit(raw + 2, i)) - 16);
}

void decode_q5_1(const uint8_t* raw, DecodedBlock& block) {  // d, m, qh[4], qs[16]
  block.d = f16_at(raw);
  block.m = f16_at(raw + 2);
  for (int i = 0; i < 32; ++i) block.codes[i] = int8_t(nibble(raw + 8, i) | fifth_bit(raw + 4, i));
}

void decode_q8_0(const uint8_t* raw, DecodedBlock& block) {  // d, qs[32]
  block.d = f16_at(raw);
  std::memcpy(block.codes.data(), raw + 2, 32);
}

void decode_iq4_nl(const uint8_t* raw, DecodedBlock& block) {  // d, qs[16]
  block.d = f16_at(raw);
  for (int i = 0; i < 32; ++i) block.codes[i] = kIq4[nibble(raw + 2, i)];
}

void decode_mxfp4(const uint8_t* raw, DecodedBlock& block) {  // e, qs[16]
  const uint32_t e = raw[0];
  block.d = e < 64 ? 0.0F : std::bit_cast<float>((e - 1) << 23);  // 2^(e-128): the codes are doubled
  for (int i = 0; i < 32; ++i) block.codes[i] = kFp4[nibble(raw + 1, i)];
}

// Code i of Q2_K and of Q3_K's low part: 2 halves of 128, in each the 4 bit pairs of 32 bytes one after the other.
int bit_pair(const uint8_t* qs, int i) {
  return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void decode_q2_k(const uint8_t* raw, DecodedBlock& block) {  // scales[16], qs[64], d, dmin
  block.d = f16_at(raw + 80);
  block.m = f16_at(raw + 82);
  for (int j = 0; j < 16; ++j) {
    block.sub_scale[j] = raw[j] & 15;
    block.sub_min[j] = raw[j] >> 4;
  }
  for (int i = 0; i < 256; ++i) block.codes[i] = int8_t(bit_pair(raw + 16, i));
}

void decode_q3_k(const uint8_t* raw, DecodedBlock& block) {  // hmask[32], qs[64], scales[12], d
  block.d = f16_at(raw + 108);
  const uint8_t* scales = raw + 96;
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
    const int high = scales[8 + j % 4] >> (j / 4 * 2) & 3;
    block.sub_scale[j] = (low | high << 4) - 32;
  }
  for (int i = 0; i < 256; ++i) {
    const int high = raw[i % 32] >> (i / 32) & 1;
    block.codes[i] = int8_t((bit_pair(raw + 32, i) | high << 2) - 4);
  }
}

// The 8 scales and 8 minima of 6 bits of Q4_K and Q5_K in 12 bytes.
void decode_scales6(const uint8_t* raw, DecodedBlock& block) {
  for (int j = 0; j < 4; ++j) {
    block.sub_scale[j] = raw[j] & 63;
    block.sub_min[j] = raw[4 + j] & 63;
    block.sub_scale[4 + j] = (raw[8 + j] & 15) | (raw[j] >> 6) << 4;
    block.sub_min[4 + j] = raw[8 + j] >> 4 | (raw[4 + j] >> 6) << 4;
  }
}

// Code i of Q4_K and of Q5_K's low part: 4 groups of 32 bytes, in each the low halves, then the high halves.
int nibble_of_64(const uint8_t* qs, int i) {
  return qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

void decode_q4_k(const uint8_t* raw, DecodedBlock& block) {  // d, dmin, scales[12], qs[128]
  block.d = f16_at(raw);
  block.m = f16_at(raw + 2);
  decode_scales6(raw + 4, block);
  for (int i = 0; i < 256; ++i) block.codes[i] = int8_t(nibble_of_64(raw + 16, i));
}

void decode_q5_k(const uint8_t* raw, DecodedBlock& block) {  // d, dmin, scales[12], qh[32], qs[128]
  block.d = f16_at(raw);
  block.m = f16_at(raw + 2);
  decode_scales6(raw + 4, block);
  for (int i = 0; i < 256; ++i) {
    const int high = raw[16 + i % 32] >> (i / 32) & 1;
    block.codes[i] = int8_t(nibble_of_64(raw + 48, i) | high << 4);
  }
}

void decode_q6_k(const uint8_t* raw, DecodedBlock& block) {  // ql[128], qh[64], scales[16], d
  block.d = f16_at(raw + 208);
  for (int j = 0; j < 16; ++j) block.sub_scale[j] = int8_t(raw[192 + j]);
  for (int i = 0; i < 256; ++i) {
    const int low = raw[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    const int high = bit_pair(raw + 128, i);
    block.codes[i] = int8_t((low | high << 4) - 32);
  }
}

void decode_iq4_xs(const uint8_t* raw, DecodedBlock& block) {  // d, scales_h (16 bits), scales_l[4], qs[128]
  block.d = f16_at(raw);
  const int scales_h = raw[2] | raw[3] << 8;
  for (int j = 0; j < 8; ++j) {
    const int low = raw[4 + j / 2] >> (j % 2 * 4) & 15;
    const int high = scales_h >> (2 * j) & 3;
    block.sub_scale[j] = (low | high << 4) - 32;
  }
  for (int i = 0; i < 256; ++i) block.codes[i] = kIq4[nibble(raw + 8 + i / 32 * 16, i % 32)];
}

}  // namespace

DecodeBlock decoder(QuantType type) {
  switch (type) {
    case QuantType::q4_0:
      return decode_q4_0;
    case QuantType::q4_1:
      return decode_q4_1;
    case QuantType::q5_0:
      return decode_q5_0;
    case QuantType::q5_1:
      return decode_q5_1;
    case QuantType::q8_0:
      return decode_q8_0;
    case QuantType::q2_k:
      return decode_q2_k;
    case QuantType::q3_k:
      return decode_q3_k;
    case QuantType::q4_k:
      return decode_q4_k;
    case QuantType::q5_k:
      return decode_q5_k;
    case QuantType::q6_k:
      return decode_q6_k;
    case QuantType::iq4_nl:
      return decode_iq4_nl;
    case QuantType::iq4_xs:
      return decode_iq4_xs;
    case QuantType::mxfp4:
      return decode_mxfp4;
    case QuantType::f32:
    case QuantType::f16:
    case QuantType::bf16:
      break;
  }
  KV_CHECK(false, "a float type has no blocks");
}

}  // namespace kvasir
