// Pages for the watched arrays.
#include "tests/conformance/guarded.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"

namespace kvasir::conformance {

GuardedBytes::GuardedBytes(int64_t n_bytes, int64_t align) : n_bytes_(n_bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t slack = (align - n_bytes % align) % align;  // keeps the start aligned
  readable_ = (n_bytes + slack + page - 1) / page * page + page;
  void* map = mmap(nullptr, readable_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KV_CHECK(map != MAP_FAILED, "no memory for a test array");
  map_ = {static_cast<std::byte*>(map), Unmap{readable_ + page}};
  KV_CHECK(mprotect(map_.get() + readable_, page, PROT_NONE) == 0, "the guard page cannot be protected");
  std::memset(map_.get(), kCanary, readable_);
  data_ = map_.get() + readable_ - slack - n_bytes;
}

bool GuardedBytes::intact() const {
  const auto is_canary = [](std::byte b) { return b == std::byte(kCanary); };
  return std::all_of(map_.get(), data_, is_canary) && std::all_of(data_ + n_bytes_, map_.get() + readable_, is_canary);
}

void GuardedBytes::Unmap::operator()(std::byte* begin) const {
  munmap(begin, n_bytes);
}

}  // namespace kvasir::conformance
