// Blocks of random bytes whose scale fields are then set to sane values.
#include "bench/synth/random_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"

namespace kvasir {
namespace {

// splitmix64: https://prng.di.unimi.it/splitmix64.c (public domain algorithm, written anew)
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  float uniform(float lo, float hi) { return lo + (hi - lo) * float(next() >> 40) * 0x1p-24F; }
};

// Round to nearest even is not needed for random scales: the mantissa is cut. 0 <= x < 65504.
uint16_t to_f16(float x) {
  if (x < 0x1p-14F) return uint16_t(x * 0x1p24F);
  const auto bits = std::bit_cast<uint32_t>(x);
  return uint16_t(((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
}

// Where a type keeps its f16 scales, and the size of a weight for a scale of 1 when all other bits are random.
struct ScaleField {
  QuantType type;
  int offset;        // of d
  int min_offset;    // of dmin or m; -1: none
  float weight_rms;  // of (code * sub-block scale) about its mean
  float mean;        // that the minimum takes away, in units of d (and of a random 6- or 4-bit minimum for K-quants)
};
constexpr std::array kScaleFields = {
    ScaleField{QuantType::q4_0, 0, -1, 4.6F, 0},      ScaleField{QuantType::q4_1, 0, 2, 4.6F, 7.5F},
    ScaleField{QuantType::q5_0, 0, -1, 9.2F, 0},      ScaleField{QuantType::q5_1, 0, 2, 9.2F, 15.5F},
    ScaleField{QuantType::q8_0, 0, -1, 74.0F, 0},     ScaleField{QuantType::q2_k, 80, 82, 14.0F, 1.5F},
    ScaleField{QuantType::q3_k, 108, -1, 42.0F, 0},   ScaleField{QuantType::q4_k, 0, 2, 250.0F, 7.5F},
    ScaleField{QuantType::q5_k, 0, 2, 500.0F, 15.5F}, ScaleField{QuantType::q6_k, 208, -1, 1370.0F, 0},
    ScaleField{QuantType::iq4_nl, 0, -1, 70.0F, 0},   ScaleField{QuantType::iq4_xs, 0, -1, 1300.0F, 0},
};

void put_f16(std::byte* at, float x) {
  const uint16_t bits = to_f16(x);
  std::memcpy(at, &bits, 2);
}

void fill_block(QuantType type, int64_t n_cols, Random& random, std::byte* block) {
  const int n_bytes = info(type).block_bytes;
  const float size = 1.0F / std::sqrt(float(n_cols));
  if (type == QuantType::f32 || type == QuantType::bf16) {
    const float x = random.uniform(-1.7F, 1.7F) * size;
    std::memcpy(block, reinterpret_cast<const std::byte*>(&x) + (4 - n_bytes), n_bytes);
    return;
  }
  if (type == QuantType::f16) {
    const auto bits = uint16_t(to_f16(random.uniform(0, 1.7F) * size) | (random.next() >> 63 << 15));
    std::memcpy(block, &bits, 2);
    return;
  }
  for (int i = 0; i < n_bytes; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(block + i, &word, std::min(8, n_bytes - i));
  }
  if (type == QuantType::mxfp4) {  // codes are +-6 at most (doubled: 12), rms 3.3; the scale a power of two
    block[0] = std::byte(127 + int(std::lround(std::log2(size / 3.3F))));
    return;
  }
  const auto* field = std::ranges::find(kScaleFields, type, &ScaleField::type);
  KV_CHECK(field != kScaleFields.end(), "a quantised type without a scale field");
  const float d = size / field->weight_rms * random.uniform(0.8F, 1.2F);
  put_f16(block + field->offset, d);
  if (field->min_offset < 0) return;
  put_f16(block + field->min_offset, d * field->mean);
  // Q4_1 and Q5_1 add their minimum, K-quants subtract it.
  if (info(type).block == 32) block[field->min_offset + 1] |= std::byte(0x80);
}

// Hands out a stream of blocks in pieces of any size.
struct BlockStream {
  QuantType type;
  int64_t n_cols;
  Random random;
  std::array<std::byte, 256> block{};
  int used = 0;  // bytes of block that are already out; 0: a new one is due

  void read(std::byte* out, uint64_t n) {
    const int n_bytes = info(type).block_bytes;
    while (n > 0) {
      if (used == 0) fill_block(type, n_cols, random, block.data());
      const auto part = std::min(n, uint64_t(n_bytes - used));
      std::memcpy(out, block.data() + used, part);
      used = int(used + part) % n_bytes;
      out += part;
      n -= part;
    }
  }
};

}  // namespace

GgufWriter::Source random_rows(QuantType type, int64_t n_cols, uint64_t seed) {
  auto stream = std::make_shared<BlockStream>(BlockStream{type, n_cols, Random{seed}});
  return [stream](uint64_t, std::byte* out, uint64_t n) { stream->read(out, n); };
}

GgufWriter::Source uniform_f32(float lo, float hi, uint64_t seed) {
  auto random = std::make_shared<Random>(Random{seed});
  return [=](uint64_t, std::byte* out, uint64_t n) {
    for (uint64_t i = 0; i + 4 <= n; i += 4) {
      const float x = random->uniform(lo, hi);
      std::memcpy(out + i, &x, 4);
    }
  };
}

GgufWriter::Source constant_f32(float value) {
  return uniform_f32(value, value, 0);
}

}  // namespace kvasir
