// The table of one instruction set, made of the ops beside it. Included by the ops_*.cpp only.
#pragma once
#include "kernels/backbone/attend.h"
#include "kernels/backbone/backbone.h"
#include "kernels/backbone/delta.h"
#include "kernels/backbone/rows.h"
#include "kernels/backbone/tables.h"

namespace kvasir {
namespace {

constexpr BackboneOps make_table(std::string_view name) {
  return {
      .name = name,
      .rms_norm = rms_norm,
      .l2_norm = l2_norm,
      .rotate = rotate,
      .silu_mul = silu_mul,
      .sigmoid_mul = sigmoid_mul,
      .add = add,
      .add_scaled = add_scaled,
      .softmax = softmax,
      .attend = attend,
      .delta = delta,
      .conv = conv,
  };
}

}  // namespace

}  // namespace kvasir
