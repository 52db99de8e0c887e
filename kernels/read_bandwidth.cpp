// A sum over a large buffer, with the widest loads there are: 16-byte loads reach only three quarters of what a Zen 5
// core can read (31 of 42 GB/s), and a yardstick that is too short flatters.
#include "kernels/read_bandwidth.h"

#include <cstring>
#include <sys/mman.h>
#include <utility>

#include "core/clock.h"

namespace kvasir {
namespace {

constexpr uint64_t kHugePage = uint64_t(2) << 20;

using Line = uint64_t __attribute__((vector_size(64), aligned(64)));

[[gnu::always_inline]] inline uint64_t sum_lines(const std::byte* begin, uint64_t n_bytes) {
  const auto* lines = reinterpret_cast<const Line*>(begin);
  Line a{}, b{}, c{}, d{};
  for (uint64_t i = 0; i < n_bytes / sizeof(Line); i += 4) {
    a += lines[i];
    b += lines[i + 1];
    c += lines[i + 2];
    d += lines[i + 3];
  }
  a += b + c + d;
  uint64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += a[i];
  return sum;
}

using Sum = uint64_t (*)(const std::byte*, uint64_t);

uint64_t sum_baseline(const std::byte* begin, uint64_t n_bytes) {
  return sum_lines(begin, n_bytes);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] uint64_t sum_avx2(const std::byte* begin, uint64_t n_bytes) {
  return sum_lines(begin, n_bytes);
}
[[gnu::target("avx512f")]] uint64_t sum_avx512(const std::byte* begin, uint64_t n_bytes) {
  return sum_lines(begin, n_bytes);
}

Sum widest_sum() {
  if (__builtin_cpu_supports("avx512f")) return sum_avx512;
  if (__builtin_cpu_supports("avx2")) return sum_avx2;
  return sum_baseline;
}
#else
Sum widest_sum() {
  return sum_baseline;
}
#endif

}  // namespace

Expected<ReadBandwidth> ReadBandwidth::create(uint64_t n_bytes) {
  n_bytes = (n_bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* data = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return fail(ErrorCode::limit, "no memory for a {} MiB buffer to measure the read bandwidth", n_bytes >> 20);
  madvise(data, n_bytes, MADV_HUGEPAGE);
  std::memset(data, 1, n_bytes);  // untouched pages would all be the one zero page
  return ReadBandwidth(static_cast<std::byte*>(data), n_bytes);
}

ReadBandwidth::ReadBandwidth(ReadBandwidth&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), n_bytes_(other.n_bytes_) {}

ReadBandwidth::~ReadBandwidth() {
  if (data_) munmap(data_, n_bytes_);
}

double ReadBandwidth::measure(ThreadPool& pool) const {
  const auto n_blocks = int64_t(n_bytes_ / kHugePage);
  std::atomic<uint64_t> sum{0};  // keeps the reads from being optimised away
  const Sum sum_block = widest_sum();
  const auto start = Clock::now();
  pool.run(n_blocks, [&](int64_t block, int) {
    sum.fetch_add(sum_block(data_ + uint64_t(block) * kHugePage, kHugePage), std::memory_order_relaxed);
  });
  const double seconds = seconds_since(start);
  KV_CHECK(sum.load() == n_bytes_ / 8 * 0x0101010101010101U, "the buffer holds what was written");
  return double(n_bytes_) / seconds;
}

}  // namespace kvasir
