// Layout of a sequence's memory, and forgetting it.
#include "engine/sequence.h"

namespace kvasir {

SequenceLayout SequenceLayout::of(const ModelConfig& c, int64_t capacity) {
  SequenceLayout l;
  l.capacity = capacity;
  l.tiles_floats = c.n_kv_heads * tile_floats(c.head_dim);
  const int64_t channels = (2 * c.n_key_heads + c.n_value_heads) * c.state_dim;
  for (const LayerKind kind : c.layers) {
    Layer layer;
    if (kind == LayerKind::full_attention) {
      layer.kv = l.n_kv++;
    } else {
      layer.state = l.n_recurrent;
      layer.history = layer.state + c.n_value_heads * delta_state_floats(c.state_dim);
      l.n_recurrent = layer.history + (c.conv_kernel - 1) * channels;
    }
    l.layers.push_back(layer);
  }
  return l;
}

Sequence::Sequence(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sequence::~Sequence() = default;

int64_t Sequence::n_tokens() const {
  return impl_->n_tokens;
}

int64_t Sequence::capacity() const {
  return impl_->layout->capacity;
}

void Sequence::clear() {
  impl_->n_tokens = 0;
  impl_->broken = false;
  std::fill(impl_->recurrent.values.begin(), impl_->recurrent.values.end(), 0.0F);
  impl_->kv.clear();
}

}  // namespace kvasir
