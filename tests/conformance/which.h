// Which backend computes in this process.
#pragma once

namespace kvasir::conformance {

// Lets the backend of KVASIR_BACKEND compute one product and prints its name and the product's bits. Returns the exit
// code: 0, or 2 with the reason on stderr.
int which();

}  // namespace kvasir::conformance
