// core/: checked arithmetic, the type table, errors, the thread pool.
#include <atomic>
#include <catch2/catch.hpp>
#include <ctime>
#include <vector>

#include "core/checked.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/quant_type.h"
#include "core/tensor_view.h"
#include "core/thread_pool.h"

using namespace kvasir;

TEST_CASE("checked: results that fit are right, others are refused") {
  constexpr uint64_t max = ~uint64_t(0);
  CHECK(checked_add(max - 1, 1) == max);
  CHECK_FALSE(checked_add(max, 1));
  CHECK(checked_mul(1ull << 32, (1ull << 32) - 1) == 0xffffffff00000000);
  CHECK_FALSE(checked_mul(1ull << 32, 1ull << 32));
  CHECK(checked_align(33, 32) == 64);
  CHECK(checked_align(64, 32) == 64);
  CHECK_FALSE(checked_align(max, 32));
}

TEST_CASE("quant types: names, numbers and row sizes agree") {
  for (const auto& t : quant_types()) {
    CHECK(quant_type_from_gguf(uint32_t(t.type)) == t.type);
    CHECK(quant_type_from_name(t.name) == t.type);
    CHECK(row_bytes(t.type, 512) == 512 / t.block * t.block_bytes);
  }
  CHECK(quant_type_from_name("q4_k") == QuantType::q4_k);
  CHECK_FALSE(quant_type_from_name("Q9_9"));
  CHECK_FALSE(quant_type_from_gguf(4));           // Q4_2, removed
  CHECK_FALSE(quant_type_from_gguf(0xffffffff));  // negative
  CHECK(row_bytes(QuantType::q4_k, 256) == 144);
}

TEST_CASE("tensor view: expert i of a stack begins i matrices in") {
  TensorView v{QuantType::q8_0, 64, 3, 5, nullptr};
  CHECK(v.matrix_bytes() == 3 * 68);
  CHECK(v.bytes() == 5 * 3 * 68);
  CHECK(v.matrix(2).data - v.data == 2 * 3 * 68);
}

namespace {
Expected<int> half(int x) {
  if (x % 2) return fail(ErrorCode::invalid_argument, "{} is odd", x);
  return x / 2;
}
Expected<int> quarter(int x) {
  KV_TRY(int h, half(x));
  return half(h);
}
}  // namespace

TEST_CASE("errors: KV_TRY passes the value or the first error") {
  CHECK(quarter(8) == 2);
  CHECK(quarter(6).error().message == "3 is odd");
  auto e = in_context("file.gguf", half(3).error());
  CHECK(e.value().message == "file.gguf: 3 is odd");
  CHECK(e.value().code == ErrorCode::invalid_argument);
}

TEST_CASE("thread pool: every task runs once, for any thread and task count") {
  for (int n_threads : {1, 2, 3, 7}) {
    ThreadPool pool(n_threads);
    for (int n_tasks : {0, 1, 2, 5, 1000}) {
      std::vector<std::atomic<int>> ran(size_t(n_tasks) + 1);
      pool.run(n_tasks,
               [&](int64_t task, int thread) { ran[size_t(task)] += thread >= 0 && thread < n_threads ? 1 : 1000; });
      for (int i = 0; i < n_tasks; ++i) REQUIRE(ran[size_t(i)] == 1);
      REQUIRE(ran[size_t(n_tasks)] == 0);
    }
  }
}

TEST_CASE("thread pool: many short runs in a row lose nothing") {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  for (int run = 0; run < 20'000; ++run) pool.run(3, [&](int64_t task, int) { sum += task; });
  CHECK(sum == 20'000 * 3);
}

TEST_CASE("thread pool: idle helpers take no CPU") {
  ThreadPool pool(4);
  pool.run(4, [](int64_t, int) {});
  auto cpu_s = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
  };
  // Bounded: helpers spin for well under a second before they park; then a second costs (almost) nothing.
  for (auto start = Clock::now(); seconds_since(start) < 0.5;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  double before = cpu_s();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  CHECK(cpu_s() - before < 0.1);
}
