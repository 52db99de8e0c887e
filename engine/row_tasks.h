// Cuts the weight rows of several matrices into tasks for one parallel loop.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvasir {

// Results never depend on the cut (kernels/ops.h), so it follows speed alone: a task is big enough to hide what handing
// it out costs (about 0.1 us) and small enough that no thread waits long for the last one.
class RowTasks {
 public:
  struct Piece {
    int64_t job, row_begin, row_end;
  };

  void reserve(int64_t max_jobs) { jobs_.reserve(size_t(max_jobs)); }
  void clear() { jobs_.clear(); }
  // n_rows rows in pieces of rows_per_task, a multiple of the backend's row_group.
  void add(int64_t n_rows, int64_t rows_per_task) {
    jobs_.push_back({size(), n_rows, rows_per_task});
    n_tasks_ = jobs_.back().task_begin + (n_rows + rows_per_task - 1) / rows_per_task;
  }
  int64_t size() const { return jobs_.empty() ? 0 : n_tasks_; }
  Piece at(int64_t task) const {
    const auto next = std::upper_bound(jobs_.begin(), jobs_.end(), task,
                                       [](int64_t t, const Job& job) { return t < job.task_begin; });
    const Job& job = *(next - 1);
    const int64_t begin = (task - job.task_begin) * job.rows_per_task;
    return {next - 1 - jobs_.begin(), begin, std::min(begin + job.rows_per_task, job.n_rows)};
  }

  // Rows for a task of about n_bytes, a multiple of group, at least one group.
  static int64_t rows_for(int64_t n_bytes, int64_t row_bytes, int64_t group) {
    return std::max(n_bytes / std::max<int64_t>(row_bytes, 1) / group, int64_t(1)) * group;
  }
  // Bytes for a task when n_threads read n_bytes of weights: four tasks a thread at least, but not above 1 MiB. The
  // kernels ask for weights 6 KiB ahead, so a task's first ones are waited for: 3 % of 256 KiB.
  static int64_t task_bytes(int64_t n_bytes, int n_threads) {
    return std::clamp<int64_t>(n_bytes / (4 * n_threads), 16 << 10, 1 << 20);
  }

 private:
  struct Job {
    int64_t task_begin, n_rows, rows_per_task;
  };
  std::vector<Job> jobs_;
  int64_t n_tasks_ = 0;
};

}  // namespace kvasir
