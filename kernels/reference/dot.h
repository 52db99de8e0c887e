// The dot product table of docs/NUMERICS.md: the f32 term of one weight block and one A8 block.
#pragma once
#include "kernels/reference/blocks.h"

namespace kvasir {

// One block of an A8 row.
struct A8Block {
  const int8_t* codes;  // [block]
  const int16_t* sums;  // [block/16]
  float dx;             // the block's scale
};

using Term = float (*)(const DecodedBlock& w, const A8Block& x);

// The row of the table that a quantised type takes.
Term term(QuantType type);

}  // namespace kvasir
