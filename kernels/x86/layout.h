// The packed layout of all x86 targets: 16 weight rows side by side, as many bytes as the GGUF rows have.
//
// A dot-product instruction (vpdpbusd, vpmaddubsw, tdpbusd) takes 4 neighbouring int8 per 32-bit lane. If the 16 lanes
// of a 64-byte line are 16 weight rows, an activation quad is broadcast to all of them, nothing is ever summed across
// lanes, and one line is also one row of an AMX B tile. So, for each group of 16 rows (the last one padded with zero
// rows), block after block, each block of 16 x block_bytes bytes:
//
//   a *half field* (an f16, 2 bytes) of the 16 rows is 32 bytes, row after row;
//   a *byte field* (MXFP4's exponent) is 16 bytes, row after row;
//   a *word field* (4n bytes: scales, codes, high bits) is n lines; line i holds bytes 4i ... 4i+3 of row 0, then of
//   row 1, ...: byte 4r + j of the line is byte 4i + j of row r. So lines are plain transpositions of GGUF's 32-bit
//   words, with two exceptions: Q8_0 codes are stored + 128 (as unsigned), and the 32 fifth bits of Q5_0 and Q5_1
//   become a line whose byte 4r + j holds, in bit c, the fifth bit of weight 4c + j.
//
// Order of the fields in a packed block: halves first, then words, in the order of `fields` below. A *quad* is 4
// neighbouring weights; quad c of a sub-block of 32 is weights 4c ... 4c+3.
//
//   type     halves    lines
//   Q4_0     d         4 codes: low nibbles quad i, high nibbles quad i + 4
//   Q4_1     d m       4 codes, the same
//   Q5_0     d         1 fifth bits, 4 codes
//   Q5_1     d m       1 fifth bits, 4 codes
//   Q8_0     d         8 codes + 128
//   IQ4_NL   d         4 codes (table indices)
//   MXFP4    e (byte)  4 codes (table indices)
//   Q4_K     d dmin    3 scales (GGUF's 12 bytes), 32 codes: line 8c + q: low nibbles sub-block 2c, high 2c + 1, quad q
//   Q5_K     d dmin    3 scales, 8 fifth bits: line q, bit j: sub-block j, quad q; 32 codes as Q4_K
//   Q6_K     d         4 scales, 32 low: line 16h + 8s + q: low nibbles sub-block 4h + s, high 4h + s + 2 (of 32);
//                      16 high: line 8h + q, bits 2s and 2s + 1: sub-block 4h + s
//   Q2_K     d dmin    4 scales and minima, 16 codes: line 8h + q, bits 2s and 2s + 1: sub-block 4h + s (of 32)
//   Q3_K     d         3 scales, 16 codes as Q2_K, 8 third bits: line q, bit j: sub-block j (of 32)
//   IQ4_XS   d sh      1 low scales (nibble j: sub-block j), 32 codes: line 4j + q: low quad q, high quad q + 4
//
// Float rows stay row after row; F32 and BF16 are copied with |w| < 2^-40 as 0, F16 (never that small) stays mapped.
#pragma once
#include <array>
#include <cstdint>

#include "core/tensor_view.h"

namespace kvasir::x86 {

inline constexpr int kGroupRows = 16;
inline constexpr int kLineBytes = 64;

enum class FieldKind : uint8_t { none, half, byte, words, words_plus_128, fifth_bits };

struct Field {
  FieldKind kind = FieldKind::none;
  uint8_t gguf_offset = 0;  // in the GGUF block
  uint8_t n_bytes = 0;      // of one row
};

// The fields of a quantised type's packed block, in packed order; unused ones at the end are none.
using Fields = std::array<Field, 5>;
const Fields& fields(QuantType type);

// The two functions of CpuBackend for every x86 target.
int64_t packed_bytes(QuantType type, int64_t n_rows, int64_t n_cols);
void pack(const TensorView& src, int64_t row_begin, int64_t row_end, std::byte* dst);

}  // namespace kvasir::x86
