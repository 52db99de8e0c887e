// Packing: 16 rows of GGUF blocks to one packed block, field by field.
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/x86/layout.h"

namespace kvasir::x86 {
namespace {

using enum FieldKind;

struct TypeFields {
  QuantType type;
  Fields fields;
};

constexpr std::array<TypeFields, 13> kFields = {{
    {QuantType::q4_0, {{{half, 0, 2}, {words, 2, 16}}}},
    {QuantType::q4_1, {{{half, 0, 2}, {half, 2, 2}, {words, 4, 16}}}},
    {QuantType::q5_0, {{{half, 0, 2}, {fifth_bits, 2, 4}, {words, 6, 16}}}},
    {QuantType::q5_1, {{{half, 0, 2}, {half, 2, 2}, {fifth_bits, 4, 4}, {words, 8, 16}}}},
    {QuantType::q8_0, {{{half, 0, 2}, {words_plus_128, 2, 32}}}},
    {QuantType::iq4_nl, {{{half, 0, 2}, {words, 2, 16}}}},
    {QuantType::mxfp4, {{{byte, 0, 1}, {words, 1, 16}}}},
    {QuantType::q4_k, {{{half, 0, 2}, {half, 2, 2}, {words, 4, 12}, {words, 16, 128}}}},
    {QuantType::q5_k, {{{half, 0, 2}, {half, 2, 2}, {words, 4, 12}, {words, 16, 32}, {words, 48, 128}}}},
    {QuantType::q6_k, {{{half, 208, 2}, {words, 192, 16}, {words, 0, 128}, {words, 128, 64}}}},
    {QuantType::q2_k, {{{half, 80, 2}, {half, 82, 2}, {words, 0, 16}, {words, 16, 64}}}},
    {QuantType::q3_k, {{{half, 108, 2}, {words, 96, 12}, {words, 32, 64}, {words, 0, 32}}}},
    {QuantType::iq4_xs, {{{half, 0, 2}, {half, 2, 2}, {words, 4, 4}, {words, 8, 128}}}},
}};

uint32_t load_word(const std::byte* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// Bit 4c + j of the word goes to bit c of byte j.
uint32_t spread_fifth_bits(uint32_t bits) {
  uint32_t out = 0;
  for (int c = 0; c < 8; ++c)
    for (int j = 0; j < 4; ++j) out |= (bits >> (4 * c + j) & 1) << (8 * j + c);
  return out;
}

// One field of row r (0 ... 15) of a packed block; returns the field's bytes for all 16 rows.
int64_t pack_field(const Field& field, const std::byte* gguf_block, int r, std::byte* dst) {
  const std::byte* src = gguf_block + field.gguf_offset;
  switch (field.kind) {
    case none:
      return 0;
    case half:
      std::memcpy(dst + 2 * r, src, 2);
      break;
    case byte:
      dst[r] = *src;
      break;
    case words:
      for (int i = 0; i < field.n_bytes / 4; ++i) std::memcpy(dst + i * kLineBytes + 4 * r, src + 4 * i, 4);
      break;
    case words_plus_128:
      for (int i = 0; i < field.n_bytes / 4; ++i) {
        const uint32_t word = load_word(src + 4 * i) ^ 0x80808080;
        std::memcpy(dst + i * kLineBytes + 4 * r, &word, 4);
      }
      break;
    case fifth_bits: {
      const uint32_t word = spread_fifth_bits(load_word(src));
      std::memcpy(dst + 4 * r, &word, 4);
      break;
    }
  }
  return int64_t(field.n_bytes) * kGroupRows;
}

void pack_quantised(const TensorView& src, int64_t row_begin, int64_t row_end, std::byte* dst) {
  const auto& type = info(src.type);
  const auto& layout = fields(src.type);
  const int64_t gguf_row = row_bytes(src.type, src.n_cols), packed_block = int64_t(type.block_bytes) * kGroupRows;
  const int64_t n_blocks = src.n_cols / type.block;
  for (int64_t group = row_begin / kGroupRows; group * kGroupRows < row_end; ++group) {
    const int n = int(std::min<int64_t>(kGroupRows, src.n_rows - group * kGroupRows));
    std::byte* out = dst + group * kGroupRows * gguf_row;
    const std::byte* in = src.data + group * kGroupRows * gguf_row;
    if (n < kGroupRows) std::memset(out, 0, size_t(gguf_row * kGroupRows));
    for (int64_t b = 0; b < n_blocks; ++b)
      for (int r = 0; r < n; ++r) {
        std::byte* at = out + b * packed_block;
        for (const auto& field : layout) at += pack_field(field, in + r * gguf_row + b * type.block_bytes, r, at);
      }
  }
}

template <class Bits, class Widen>
void flush_copy(const std::byte* src, int64_t n, std::byte* dst, Widen widen) {
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, src + i * int64_t(sizeof bits), sizeof bits);
    if (std::fabs(widen(bits)) < 0x1p-40F) bits = 0;
    std::memcpy(dst + i * int64_t(sizeof bits), &bits, sizeof bits);
  }
}

}  // namespace

const Fields& fields(QuantType type) {
  for (const auto& t : kFields)
    if (t.type == type) return t.fields;
  KV_CHECK(false, "a float type has no packed blocks");
}

int64_t packed_bytes(QuantType type, int64_t n_rows, int64_t n_cols) {
  if (type == QuantType::f16) return 0;
  const int64_t padded =
      type == QuantType::f32 || type == QuantType::bf16 ? n_rows : (n_rows + kGroupRows - 1) / kGroupRows * kGroupRows;
  return padded * row_bytes(type, n_cols);
}

void pack(const TensorView& src, int64_t row_begin, int64_t row_end, std::byte* dst) {
  const int64_t begin = row_begin * row_bytes(src.type, src.n_cols), n = (row_end - row_begin) * src.n_cols;
  if (src.type == QuantType::f32)
    flush_copy<uint32_t>(src.data + begin, n, dst + begin, [](uint32_t b) { return std::bit_cast<float>(b); });
  else if (src.type == QuantType::bf16)
    flush_copy<uint16_t>(src.data + begin, n, dst + begin,
                         [](uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); });
  else
    pack_quantised(src, row_begin, row_end, dst);
}

}  // namespace kvasir::x86
