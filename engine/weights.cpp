// Two walks over the table of tensors: one checks and measures, one packs.
#include "engine/weights.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unistd.h>

#include "engine/tensor_table.h"
#include "kernels/dequantize.h"

namespace kvasir {
namespace {

constexpr uint64_t kAlignment = 64;  // of a packed matrix, by kernels/ops.h
uint64_t aligned(uint64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// Finds every tensor, collects what is wrong, adds up what packing takes.
class Check final : public TensorVisitor {
 public:
  Check(const Gguf& gguf, const CpuBackend& backend) : gguf_(gguf), backend_(backend) {}

  void floats(const std::string& name, int64_t n, int64_t n_cols, std::vector<float>&) override {
    if (find(name, n / n_cols, n_cols, 1)) total_ += uint64_t(n) * 4;
  }
  void matrix(const std::string& name, int64_t n_rows, int64_t n_cols, int64_t n_matrices, Matrix&) override {
    const auto view = find(name, n_rows, n_cols, n_matrices);
    if (!view) return;
    total_ += uint64_t(view->bytes());
    packed_ += uint64_t(n_matrices) * aligned(uint64_t(backend_.packed_bytes(view->type, n_rows, n_cols)));
  }
  void mapped(const std::string& name, int64_t n_rows, int64_t n_cols, TensorView&) override {
    find(name, n_rows, n_cols, 1);
  }

  // Tensors that the architecture does not have: a bias or a scale that is passed over would make answers wrong in
  // silence. Blocks behind the decoder's own (prediction of further tokens) may hold anything.
  void refuse_unknown(int64_t n_layers) {
    for (const GgufTensor& t : gguf_.tensors()) {
      int64_t layer = -1;
      if (t.name.starts_with("blk.")) std::from_chars(t.name.data() + 4, t.name.data() + t.name.size(), layer);
      if (layer >= n_layers || found_.contains(t.name)) continue;
      if (faults_.empty()) code_ = ErrorCode::unsupported;
      faults_.push_back(fmt::format("tensor {} is not known to this architecture", t.name));
    }
  }

  // One error for all that is wrong.
  Expected<void> result() const {
    if (faults_.empty()) return {};
    constexpr size_t kListed = 64;  // a message, not a flood: a file of the wrong kind misses thousands
    std::string text;
    for (size_t i = 0; i < std::min(faults_.size(), kListed); ++i)
      text += fmt::format("{}{}", text.empty() ? "" : "; ", faults_[i]);
    if (faults_.size() > kListed) text += fmt::format("; and {} more", faults_.size() - kListed);
    return fail(code_, "{} tensors do not fit the model: {}", faults_.size(), text);
  }
  uint64_t total() const { return total_; }
  uint64_t packed() const { return packed_; }

 private:
  std::optional<TensorView> find(const std::string& name, int64_t n_rows, int64_t n_cols, int64_t n_matrices) {
    if (const auto* tensor = gguf_.find_tensor(name)) found_.insert(tensor->name);
    auto view = gguf_.tensor(name, n_cols, n_rows, n_matrices);
    if (view) return *view;
    if (faults_.empty()) code_ = view.error().code;
    faults_.push_back(std::move(view.error().message));
    return std::nullopt;
  }
  const Gguf& gguf_;
  const CpuBackend& backend_;
  std::set<std::string_view> found_;
  std::vector<std::string> faults_;
  ErrorCode code_ = ErrorCode::not_found;
  uint64_t total_ = 0, packed_ = 0;
};

// Packs every matrix into one arena, all threads on one tensor at a time, and lets go of the file's pages behind
// itself: never more than one tensor is resident twice.
class Pack final : public TensorVisitor {
 public:
  Pack(const Gguf& gguf, ThreadPool& pool, const ModelWeights::Options& options, uint64_t total, const Memory& arena)
      : gguf_(gguf), pool_(pool), options_(options), total_(total), next_(arena.data()) {}

  void floats(const std::string& name, int64_t n, int64_t n_cols, std::vector<float>& to) override {
    if (cancelled_) return;
    const GgufTensor& tensor = found(name);
    to.resize(size_t(n));
    for (int64_t r = 0; r < n / n_cols; ++r)
      dequantize_row(tensor.view.type, tensor.view.data + r * row_bytes(tensor.view.type, n_cols), n_cols,
                     to.data() + r * n_cols);
    finish(tensor);
  }

  void matrix(const std::string& name, int64_t n_rows, int64_t n_cols, int64_t n_matrices, Matrix& to) override {
    if (cancelled_) return;
    const GgufTensor& tensor = found(name);
    const TensorView view = {tensor.view.type, n_cols, n_rows, n_matrices, tensor.view.data};
    const auto packed = uint64_t(options_.backend->packed_bytes(view.type, n_rows, n_cols));
    to.first = {view.type, n_rows, n_cols, packed ? next_ : view.data};
    to.n_matrices = n_matrices;
    to.stride = packed ? int64_t(aligned(packed)) : view.matrix_bytes();
    to.stored_bytes = uint64_t(view.bytes());
    if (packed) {
      pack(view, to);
      next_ += n_matrices * to.stride;
      finish(tensor);
    } else {
      report(to.stored_bytes);
    }
  }

  void mapped(const std::string& name, int64_t n_rows, int64_t n_cols, TensorView& to) override {
    to = {found(name).view.type, n_cols, n_rows, 1, found(name).view.data};
  }

  bool cancelled() const { return cancelled_; }

 private:
  const GgufTensor& found(const std::string& name) const {
    const auto* tensor = gguf_.find_tensor(name);
    KV_CHECK(tensor, "a tensor that was checked is gone");
    return *tensor;
  }

  void pack(const TensorView& view, const Matrix& to) {
    constexpr int64_t kTaskBytes = 1 << 20;  // some hundred microseconds
    const int64_t group = options_.backend->row_group;
    const int64_t n_groups = std::max<int64_t>(kTaskBytes / (group * row_bytes(view.type, view.n_cols)), 1);
    const int64_t n_rows = n_groups * group;
    const int64_t n_pieces = (view.n_rows + n_rows - 1) / n_rows;
    pool_.run(view.n_matrices * n_pieces, [&](int64_t task, int) {
      const int64_t i = task / n_pieces, begin = task % n_pieces * n_rows;
      auto* at = next_ + i * to.stride;
      options_.backend->pack(view.matrix(i), begin, std::min(begin + n_rows, view.n_rows), at);
    });
  }

  void finish(const GgufTensor& tensor) {
    gguf_.drop(tensor);
    report(uint64_t(tensor.view.bytes()));
  }
  void report(uint64_t n_bytes) {
    done_ += n_bytes;
    if (options_.progress && !options_.progress(done_, total_)) cancelled_ = true;
  }

  const Gguf& gguf_;
  ThreadPool& pool_;
  const ModelWeights::Options& options_;
  uint64_t total_, done_ = 0;
  std::byte* next_;
  bool cancelled_ = false;
};

// conv1d from the file's [channels][taps] to [taps][channels]: a lane is a channel.
void transpose(std::vector<float>& conv, int64_t n_taps) {
  const int64_t n_channels = int64_t(conv.size()) / n_taps;
  std::vector<float> turned(conv.size());
  for (int64_t c = 0; c < n_channels; ++c)
    for (int64_t t = 0; t < n_taps; ++t) turned[size_t(t * n_channels + c)] = conv[size_t(c * n_taps + t)];
  conv = std::move(turned);
}

}  // namespace

Expected<ModelWeights> ModelWeights::load(const Gguf& gguf, const ModelConfig& config, ThreadPool& pool,
                                          const Options& options) {
  ModelWeights w;
  w.layers.resize(size_t(config.n_layers));
  const bool tied = gguf.find_tensor("output.weight") == nullptr;
  Check check(gguf, *options.backend);
  visit_tensors(config, tied, w, check);
  check.refuse_unknown(config.n_layers);
  KV_TRY_VOID(check.result());
  // The mapping itself would succeed, and the system would end the program half way.
  const uint64_t machine = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  if (check.packed() > machine)
    return fail(ErrorCode::limit, "the packed weights take {} MB, this machine has {} MB of memory",
                check.packed() >> 20, machine >> 20);
  KV_TRY(w.packed, Memory::reserve(check.packed(), Memory::Pages::huge, "packed weights"));
  Pack pack(gguf, pool, options, check.total(), w.packed);
  visit_tensors(config, tied, w, pack);
  if (pack.cancelled()) return fail(ErrorCode::cancelled, "loading was cancelled");
  for (auto& layer : w.layers)
    if (!layer.delta_net.conv.empty()) transpose(layer.delta_net.conv, config.conv_kernel);
  return w;
}

}  // namespace kvasir
