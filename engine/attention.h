// Attention of a full_attention layer: projections, norms per head, rotation, softmax over the past, gate, output.
#pragma once
#include <span>
#include <vector>

#include "engine/act_buffer.h"
#include "engine/matmul_group.h"
#include "engine/sequence.h"

namespace kvasir {

class AttentionBlock {
 public:
  static Expected<AttentionBlock> create(const Compute& compute, const ModelConfig& config, int64_t max_rows);
  static ActForms input_forms(const AttentionWeights& w);

  // Angles of every row's position, for all layers of this pass.
  void set_positions(std::span<const BatchSlice> slices);

  // out [n_rows][n_embd] for rows (normalised). Writes keys and values of these positions into the sequences. mixed is
  // scratch for the output projection's input. False if a value is not finite.
  bool forward(const AttentionWeights& w, const SequenceLayout::Layer& at, std::span<const BatchSlice> slices,
               const ActRows& rows, ActBuffer& mixed, float* out);

 private:
  AttentionBlock(const Compute& compute, const ModelConfig& config);
  void prepare(const AttentionWeights& w, const SequenceLayout::Layer& at, const BatchSlice& slice, int64_t row);
  void store_key_value(float* tiles, int64_t position, int64_t head, const float* key, const float* value);
  void attend(const SequenceLayout::Layer& at, const BatchSlice& slice, int64_t task, int thread);
  // Cuts a slice's rows into tiles of query rows.
  int64_t n_tasks(const BatchSlice& slice) const;

  Compute compute_;
  const ModelConfig* config_;
  MatmulGroup matmuls_;
  int64_t max_rows_ = 0;
  int64_t q_cols_ = 0;                        // of the query projection, gates included
  int64_t n_group_ = 0;                       // query heads that share a key/value head
  int64_t query_rows_ = 0;                    // rows of a task
  int64_t thread_floats_ = 0;                 // of scratch_
  std::vector<double> frequencies_;           // [rope_dim / 2]
  std::vector<float> cos_, sin_;              // [max_rows][rope_dim / 2]
  std::vector<const BatchSlice*> row_slice_;  // [max_rows]
  std::vector<int64_t> task_begin_;           // of each slice
  std::vector<int64_t> n_keys_;               // per thread, [query_rows * n_group]
  Memory projections_;                        // q [max_rows][q_cols], then k and v [max_rows][n_kv_heads * head_dim]
  Memory queries_;                            // [n_kv_heads][max_rows][n_group][head_dim], normalised, rotated, scaled
  Memory heads_out_;                          // [max_rows][n_heads * head_dim]
  Memory scratch_;                            // per thread: state and out of AttendArgs
};

}  // namespace kvasir
