// A fixed set of threads for loops over tasks: spins briefly between loops, parks when idle.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace kvasir {

class ThreadPool {
 public:
  // n_threads counts the caller: 1 means no thread is made. 1 <= n_threads <= kMaxThreads.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls body(task, thread) once for each task in [0, n_tasks), 0 <= thread < n_threads(), in no given order, and
  // returns when all are done. The caller works too. One run at a time per pool; body must not call run and must not
  // throw. Allocates nothing.
  template <class Body>
  void run(int64_t n_tasks, Body&& body) {
    run_erased(n_tasks, &body, [](void* b, int64_t task, int thread) {
      (*static_cast<std::remove_reference_t<Body>*>(b))(task, thread);
    });
  }

 private:
  using Call = void (*)(void* body, int64_t task, int thread);
  void run_erased(int64_t n_tasks, void* body, Call call);
  void work(int thread);
  void loop(int thread);

  int n_threads_;
  std::vector<std::thread> threads_;
  void* body_ = nullptr;
  Call call_ = nullptr;
  int64_t n_tasks_ = 0;
  alignas(64) std::atomic<int64_t> next_task_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};     // grows with each run; threads wait for it to change
  alignas(64) std::atomic<int32_t> n_running_{0};  // helpers that have not finished the current run
  std::atomic<bool> stop_{false};
};

}  // namespace kvasir
