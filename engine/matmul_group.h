// Several matrices times the same or different rows in one parallel loop: one barrier for all of them.
#pragma once
#include <vector>

#include "engine/compute.h"
#include "engine/row_tasks.h"
#include "engine/weights.h"

namespace kvasir {

class MatmulGroup {
 public:
  MatmulGroup(const Compute& compute, int64_t max_jobs) : compute_(compute) {
    jobs_.reserve(size_t(max_jobs));
    tasks_.reserve(max_jobs);
  }
  // out [x.n_rows][out_stride] = x times w; borrowed until run returns. Allocates nothing up to max_jobs.
  void add(const Weights& w, const ActRows& x, float* out, int64_t out_stride) {
    jobs_.push_back({w, x, out, out_stride});
  }
  // Computes what was added and forgets it.
  void run() {
    int64_t n_bytes = 0;
    for (const Job& job : jobs_) n_bytes += job.w.n_rows * row_bytes(job.w.type, job.w.n_cols);
    const int64_t task_bytes = RowTasks::task_bytes(n_bytes, compute_.pool->n_threads());
    tasks_.clear();
    for (const Job& job : jobs_)
      tasks_.add(job.w.n_rows,
                 RowTasks::rows_for(task_bytes, row_bytes(job.w.type, job.w.n_cols), compute_.cpu->row_group));
    compute_.pool->run(tasks_.size(), [this](int64_t task, int) {
      const auto piece = tasks_.at(task);
      const Job& job = jobs_[size_t(piece.job)];
      compute_.cpu->matmul(job.w, piece.row_begin, piece.row_end, job.x, job.out, job.out_stride);
    });
    jobs_.clear();
  }

 private:
  struct Job {
    Weights w;
    ActRows x;
    float* out;
    int64_t out_stride;
  };
  Compute compute_;
  std::vector<Job> jobs_;
  RowTasks tasks_;
};

}  // namespace kvasir
