// Room for rows of activations in the forms that the matrices behind them take.
#pragma once
#include "core/activations.h"
#include "engine/memory.h"
#include "kernels/ops.h"

namespace kvasir {

// Which forms of a row somebody needs.
struct ActForms {
  bool f32 = false, a8_32 = false, a8_256 = false;

  void need(ActType act) {
    f32 |= act == ActType::f32;
    a8_32 |= act == ActType::a8_32;
    a8_256 |= act == ActType::a8_256;
  }
  void need(const ActForms& other) {
    f32 |= other.f32;
    a8_32 |= other.a8_32;
    a8_256 |= other.a8_256;
  }
};

// Sized once for max_rows rows of up to max_cols in all forms; only what is written is touched. Rows of one use share
// their number of columns and their forms.
class ActBuffer {
 public:
  static Expected<ActBuffer> create(int64_t max_rows, int64_t max_cols);

  // Rows written from here on have n_cols columns (at most max_cols) and these forms.
  void shape(int64_t n_cols, ActForms forms) {
    n_cols_ = n_cols;
    forms_ = forms;
  }
  // Writes row i of x [n_cols] in every form; false if any x is not finite. Different rows may be written at once.
  bool write(const CpuBackend& backend, int64_t i, const float* x);
  // Copies row i of `from` (which has these forms) to row `to`.
  void copy(const ActRows& from, int64_t i, int64_t to);

  // Rows [begin, begin + n).
  ActRows rows(int64_t begin, int64_t n) const;

 private:
  struct Codes {
    int8_t* codes = nullptr;
    float* scales = nullptr;
    int16_t* sums = nullptr;
  };
  A8Rows a8_rows(const Codes& at, int block, int64_t begin) const;
  Memory memory_;
  float* f32_ = nullptr;
  Codes a8_32_, a8_256_;
  int64_t n_cols_ = 0;
  ActForms forms_;
};

// One row of many.
ActRows act_row(const ActRows& rows, int64_t i);

}  // namespace kvasir
