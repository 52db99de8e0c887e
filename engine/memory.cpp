// mmap, madvise, munmap.
#include "engine/memory.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace kvasir {

Expected<Memory> Memory::reserve(uint64_t n_bytes, Pages pages, std::string_view what) {
  constexpr uint64_t kHuge = uint64_t(1) << 21;
  Memory m;
  if (n_bytes == 0) return m;
  m.size_ = n_bytes;
  m.mapped_ = n_bytes + (pages == Pages::huge ? kHuge : 0);
  m.mapping_ = mmap(nullptr, m.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m.mapping_ == MAP_FAILED) {
    m.mapping_ = nullptr;
    return fail(ErrorCode::limit, "{}: no {} MB of memory to be had: {}", what, n_bytes >> 20, std::strerror(errno));
  }
  auto begin = reinterpret_cast<uintptr_t>(m.mapping_);
  if (pages == Pages::huge) begin = (begin + kHuge - 1) & ~uintptr_t(kHuge - 1);
  m.data_ = reinterpret_cast<std::byte*>(begin);
  // Advice only: where the system offers no huge pages, small ones do.
  if (pages == Pages::huge) madvise(m.data_, m.size_, MADV_HUGEPAGE);
  return m;
}

Memory::~Memory() {
  if (mapping_) munmap(mapping_, mapped_);
}

void Memory::clear() {
  if (!data_) return;
  if (madvise(data_, size_, MADV_DONTNEED) != 0) std::memset(data_, 0, size_);
}

}  // namespace kvasir
