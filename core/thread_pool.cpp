// The pool: an epoch starts a run, a counter hands out tasks, another tells when the last helper is done.
#include "core/thread_pool.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/limits.h"

namespace kvasir {
namespace {

// How long a waiting thread stays awake: a token's serial parts take up to some hundred microseconds, and waking from a
// park takes 50 or more in a virtual machine. First it only pauses (some microseconds), then it offers its core to
// whoever is runnable, which is what keeps more threads than cores from waiting for each other's time slices: 1,000 us
// a run without it, 4 threads on 2 cores.
constexpr int kPauses = 200;
constexpr auto kAwake = std::chrono::milliseconds(2);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kPauses; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  for (const auto start = Clock::now(); Clock::now() - start < kAwake; std::this_thread::yield())
    if (value.load(std::memory_order_acquire) != old) return;
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads) {
  KV_CHECK(n_threads >= 1 && n_threads <= kMaxThreads, "thread count out of range");
  for (int i = 1; i < n_threads; ++i) threads_.emplace_back([this, i] { loop(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (auto& t : threads_) t.join();
}

void ThreadPool::run_erased(int64_t n_tasks, void* body, Call call) {
  if (n_tasks <= 0) return;
  if (n_threads_ == 1 || n_tasks == 1) {
    for (int64_t i = 0; i < n_tasks; ++i) call(body, i, 0);
    return;
  }
  body_ = body;
  call_ = call;
  n_tasks_ = n_tasks;
  next_task_.store(0, std::memory_order_relaxed);
  n_running_.store(n_threads_ - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  work(0);
  for (int32_t n; (n = n_running_.load(std::memory_order_acquire)) != 0;) wait_while(n_running_, n);
}

void ThreadPool::work(int thread) {
  for (int64_t i; (i = next_task_.fetch_add(1, std::memory_order_relaxed)) < n_tasks_;) call_(body_, i, thread);
}

void ThreadPool::loop(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    wait_while(epoch_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    work(thread);
    if (n_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) n_running_.notify_one();
  }
}

}  // namespace kvasir
