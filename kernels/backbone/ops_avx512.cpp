// The backbone's ops for AVX-512; compiled with its flags (CMakeLists.txt).
#if defined(__x86_64__)
#include "kernels/backbone/table.h"

namespace kvasir {

const BackboneOps& backbone_avx512() {
  static constexpr BackboneOps kTable = make_table("avx512");
  return kTable;
}

}  // namespace kvasir
#endif
