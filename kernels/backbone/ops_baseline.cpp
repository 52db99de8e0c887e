// The backbone's ops for any machine of this architecture.
#include "kernels/backbone/table.h"

namespace kvasir {

const BackboneOps& backbone_baseline() {
  static constexpr BackboneOps kTable = make_table("baseline");
  return kTable;
}

}  // namespace kvasir
