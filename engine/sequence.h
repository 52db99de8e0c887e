// What one sequence remembers.
#pragma once
#include <vector>

#include "engine/memory.h"
#include "engine/model.h"
#include "kernels/backbone/backbone.h"

namespace kvasir {

// Where the parts of a sequence's memory lie: the same for all sequences of a model.
struct SequenceLayout {
  struct Layer {
    int64_t kv = -1;       // which of the KV caches; -1: none
    int64_t state = -1;    // floats into RecurrentState::values: delta rule, all heads
    int64_t history = -1;  // and the convolution's inputs [conv_kernel - 1][channels]
  };
  std::vector<Layer> layers;
  int64_t n_kv = 0;          // attention layers
  int64_t n_recurrent = 0;   // floats of all recurrent state
  int64_t tiles_floats = 0;  // of one tile of all key/value heads of a layer
  int64_t capacity = 0;      // positions
  static SequenceLayout of(const ModelConfig& config, int64_t capacity);
  int64_t n_tiles() const { return (capacity + kTilePositions - 1) / kTilePositions; }
};

// All that depends on the past beside the KV cache, whose positions stay as they were written: to copy this and
// n_tokens is to be able to come back.
struct RecurrentState {
  std::vector<float> values;
};

struct Sequence::Impl {
  const void* model = nullptr;  // whose layout this is
  const SequenceLayout* layout = nullptr;
  int64_t n_tokens = 0;
  bool broken = false;  // a forward pass failed half way
  RecurrentState recurrent;
  Memory kv;  // [n_kv][n_tiles][n_kv_heads][tile of kernels/backbone/backbone.h]

  // The first tile of an attention layer.
  float* tiles(const SequenceLayout::Layer& layer) const {
    return kv.as<float>() + layer.kv * layout->n_tiles() * layout->tiles_floats;
  }
};

// The tokens of one sequence in a forward pass: rows [row_begin, row_begin + n_rows), the first at `position`.
struct BatchSlice {
  Sequence::Impl* sequence = nullptr;
  int64_t row_begin = 0, n_rows = 0, position = 0;
};

}  // namespace kvasir
