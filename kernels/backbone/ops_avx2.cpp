// The backbone's ops for AVX2; compiled with its flags (CMakeLists.txt).
#if defined(__x86_64__)
#include "kernels/backbone/table.h"

namespace kvasir {

const BackboneOps& backbone_avx2() {
  static constexpr BackboneOps kTable = make_table("avx2");
  return kTable;
}

}  // namespace kvasir
#endif
