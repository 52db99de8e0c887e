// The end of a program with a bug.
#include "core/error.h"

#include <cstdio>
#include <cstdlib>

namespace kvasir {

void check_failed(const char* condition, const char* file, int line, std::string_view what) {
  fmt::print(stderr, "kvasir: bug: {} ({}) at {}:{}\n", what, condition, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace kvasir
