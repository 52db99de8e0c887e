// Integer sums are exact in any order; the float operations are those of the table, bracketed as there.
#include "kernels/reference/dot.h"

#include "core/error.h"

namespace kvasir {
namespace {

// Sum of codes i * x.codes i over [begin, begin + n).
int32_t dot_codes(const DecodedBlock& w, const A8Block& x, int begin, int n) {
  int32_t sum = 0;
  for (int i = begin; i < begin + n; ++i) sum += w.codes[i] * x.codes[i];
  return sum;
}

// isum = sum over sub-blocks j of sub_scale_j * (codes . q).
template <int sub_block>
int32_t scaled_sum(const DecodedBlock& w, const A8Block& x) {
  int32_t isum = 0;
  for (int j = 0; j < 256 / sub_block; ++j) isum += w.sub_scale[j] * dot_codes(w, x, j * sub_block, sub_block);
  return isum;
}

// msum = sum over sub-blocks j of sub_min_j * s_j, where s_j sums q over the sub-block.
template <int sub_block>
int32_t min_sum(const DecodedBlock& w, const A8Block& x) {
  int32_t msum = 0;
  for (int i = 0; i < 16; ++i) msum += w.sub_min[i * 16 / sub_block] * x.sums[i];
  return msum;
}

// Q8_0, Q4_0, Q5_0, IQ4_NL, MXFP4: (d*dx)*isum.
float term_scale(const DecodedBlock& w, const A8Block& x) {
  return (w.d * x.dx) * float(dot_codes(w, x, 0, 32));
}

// Q4_1, Q5_1: (d*dx)*isum + (m*dx)*s.
float term_scale_and_min(const DecodedBlock& w, const A8Block& x) {
  const int32_t s = x.sums[0] + x.sums[1];
  return (w.d * x.dx) * float(dot_codes(w, x, 0, 32)) + (w.m * x.dx) * float(s);
}

// Q6_K and Q3_K (sub-blocks of 16), IQ4_XS (of 32): (d*dx)*isum.
template <int sub_block>
float term_sub_scales(const DecodedBlock& w, const A8Block& x) {
  return (w.d * x.dx) * float(scaled_sum<sub_block>(w, x));
}

// Q4_K and Q5_K (sub-blocks of 32), Q2_K (of 16): (d*dx)*isum - (dmin*dx)*msum.
template <int sub_block>
float term_sub_scales_and_mins(const DecodedBlock& w, const A8Block& x) {
  return (w.d * x.dx) * float(scaled_sum<sub_block>(w, x)) - (w.m * x.dx) * float(min_sum<sub_block>(w, x));
}

}  // namespace

Term term(QuantType type) {
  switch (type) {
    case QuantType::q8_0:
    case QuantType::q4_0:
    case QuantType::q5_0:
    case QuantType::iq4_nl:
    case QuantType::mxfp4:
      return term_scale;
    case QuantType::q4_1:
    case QuantType::q5_1:
      return term_scale_and_min;
    case QuantType::q4_k:
    case QuantType::q5_k:
      return term_sub_scales_and_mins<32>;
    case QuantType::q2_k:
      return term_sub_scales_and_mins<16>;
    case QuantType::q6_k:
    case QuantType::q3_k:
      return term_sub_scales<16>;
    case QuantType::iq4_xs:
      return term_sub_scales<32>;
    case QuantType::f32:
    case QuantType::f16:
    case QuantType::bf16:
      break;
  }
  KV_CHECK(false, "a float type has no terms");
}

}  // namespace kvasir
