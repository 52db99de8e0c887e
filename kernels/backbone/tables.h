// The tables that exist, one per ops_*.cpp.
#pragma once
#include "kernels/backbone/backbone.h"

namespace kvasir {

const BackboneOps& backbone_baseline();
const BackboneOps& backbone_avx2();    // x86 alone
const BackboneOps& backbone_avx512();  // x86 alone

}  // namespace kvasir
