// The local worker: experts to the byte of docs/NUMERICS.md, whatever the split; the block around it (MO-02).
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/limits.h"
#include "engine/moe.h"
#include "formats/safetensors.h"
#include "tests/engine/cases.h"

namespace kvasir::testing {
namespace {

// A stack of matrices packed for a backend; owns what it packs.
class PackedStack {
 public:
  PackedStack(const CpuBackend& cpu, QuantType type, int64_t n_matrices, int64_t n_rows, int64_t n_cols,
              const std::byte* data) {
    const TensorView view{type, n_cols, n_rows, n_matrices, data};
    const int64_t n_bytes = (cpu.packed_bytes(type, n_rows, n_cols) + 63) / 64 * 64;
    matrix = {
        {type, n_rows, n_cols, data}, n_matrices, n_bytes ? n_bytes : view.matrix_bytes(), uint64_t(view.bytes())};
    if (!n_bytes) return;
    memory_ = Memory::reserve(uint64_t(n_matrices * n_bytes), Memory::Pages::small, "test").value();
    for (int64_t i = 0; i < n_matrices; ++i) cpu.pack(view.matrix(i), 0, n_rows, memory_.data() + i * n_bytes);
    matrix.first.data = memory_.data();
  }
  Matrix matrix;

 private:
  Memory memory_;
};

// One file of vectors as a layer of its own.
class VectorLayer {
 public:
  VectorLayer(const std::string& file, const CpuBackend& cpu, int n_threads)
      : file_(open(file)), cpu_(cpu), pool_(n_threads), compute_{&cpu, &backbone_ops(cpu.name), &pool_} {
    n_rows = dim("x", 0);
    config.n_layers = 1;
    config.n_embd = dim("x", 1);
    config.n_ff = dim("gate", 1);
    config.n_experts = dim("gate", 0);
    config.n_experts_used = dim("ids", 1);
    layers_.resize(1);
    MoeWeights& w = layers_[0].moe;
    w.gate = add("gate", config.n_ff, config.n_embd);
    w.up = add("up", config.n_ff, config.n_embd);
    w.down = add("down", config.n_embd, config.n_ff);
    worker = LocalWorker::create(compute_, config, layers_, kMaxBatchRows).value();
    acts_ = ActBuffer::create(n_rows, config.n_embd).value();
    acts_.shape(config.n_embd, MoeBlock::input_forms(w));
    for (int64_t i = 0; i < n_rows; ++i) REQUIRE(acts_.write(cpu_, i, get<float>("x") + i * config.n_embd));
  }

  ActRows rows() const { return acts_.rows(0, n_rows); }
  std::vector<ExpertPair> pairs() const {
    std::vector<ExpertPair> list;
    for (int64_t i = 0; i < n_rows * config.n_experts_used; ++i)
      list.push_back({int32_t(i / config.n_experts_used), get<int32_t>("ids")[i], get<float>("weights")[i]});
    return list;
  }
  std::vector<int64_t> expected() const {
    const auto* sums = get<int64_t>("routed_sum");
    return {sums, sums + n_rows * config.n_embd};
  }
  // submit and collect into sums.
  Expected<void> compute(const std::vector<ExpertPair>& pairs, std::vector<int64_t>& sums) const {
    KV_TRY(const Ticket ticket, worker->submit({0, rows(), pairs}));
    return worker->collect(ticket, TimePoint::max(), sums);
  }

  int64_t n_rows = 0;
  ModelConfig config;
  std::unique_ptr<LocalWorker> worker;

 private:
  static SafetensorsFile open(const std::string& name) {
    auto file = SafetensorsFile::open(data_path("vectors/" + name));
    if (!file) FAIL(file.error().message);
    return std::move(*file);
  }
  template <class T>
  const T* get(std::string_view name) const {
    return reinterpret_cast<const T*>(file_.find(name)->data);
  }
  int64_t dim(std::string_view name, size_t i) const { return int64_t(file_.find(name)->shape.at(i)); }
  Matrix add(const std::string& name, int64_t n_rows_of, int64_t n_cols) {
    const auto type = quant_type_from_name(file_.metadata().at(name + "_type")).value();
    return stacks_.emplace_back(cpu_, type, config.n_experts, n_rows_of, n_cols, file_.find(name)->data).matrix;
  }

  SafetensorsFile file_;
  const CpuBackend& cpu_;
  ThreadPool pool_;
  Compute compute_;
  std::vector<PackedStack> stacks_;
  std::vector<LayerWeights> layers_;
  ActBuffer acts_;
};

constexpr const char* kFiles[] = {
    "ffn_f32",  "ffn_f16",    "ffn_bf16",   "ffn_q4_0",  "ffn_q4_1",           "ffn_q5_0",
    "ffn_q5_1", "ffn_q8_0",   "ffn_q2_k",   "ffn_q3_k",  "ffn_q4_k",           "ffn_q5_k",
    "ffn_q6_k", "ffn_iq4_nl", "ffn_iq4_xs", "ffn_mxfp4", "ffn_q4_k_q6_k_3072", "ffn_combine_48_of_64"};

std::vector<const CpuBackend*> backends() {
  std::vector<const CpuBackend*> list;
  for (const auto& choice : cpu_backends())
    if (choice.missing.empty()) list.push_back(choice.backend);
  return list;
}

}  // namespace

TEST_CASE("worker: sums are those of the vectors to the bit, for every type, backend and thread count") {
  for (const std::string file : kFiles)
    for (const auto* cpu : backends())
      for (const int n_threads : {1, 3}) {
        INFO(file << " by " << cpu->name << ", " << n_threads << " threads");
        const VectorLayer layer(file + ".safetensors", *cpu, n_threads);
        std::vector<int64_t> sums(size_t(layer.n_rows * layer.config.n_embd));
        REQUIRE(layer.compute(layer.pairs(), sums));
        REQUIRE(sums == layer.expected());
      }
}

TEST_CASE("worker: any order and any split of the pairs over batches gives the same sums") {
  const VectorLayer layer("ffn_combine_48_of_64.safetensors", *select_cpu_backend().value(), 2);
  auto pairs = layer.pairs();
  std::ranges::reverse(pairs);
  for (const size_t n_batches : {1, 2, 3, 45}) {
    std::vector<int64_t> sums(size_t(layer.n_rows * layer.config.n_embd));
    std::vector<Ticket> tickets;
    std::vector<std::vector<ExpertPair>> parts(n_batches);
    for (size_t i = 0; i < pairs.size(); ++i) parts[i % n_batches].push_back(pairs[i]);
    for (const auto& part : parts) tickets.push_back(layer.worker->submit({0, layer.rows(), part}).value());
    for (const Ticket t : tickets) REQUIRE(layer.worker->collect(t, TimePoint::max(), sums));
    REQUIRE(sums == layer.expected());
  }
}

TEST_CASE("worker: what it does not hold is refused before any work") {
  const VectorLayer layer("ffn_q8_0.safetensors", *select_cpu_backend().value(), 1);
  std::vector<int64_t> sums(size_t(layer.n_rows * layer.config.n_embd), 7);
  const auto untouched = sums;
  for (const ExpertPair bad : {ExpertPair{0, 2, 1}, {0, -1, 1}, {-1, 0, 1}, {4, 0, 1}, {0, INT32_MAX, 1}}) {
    const auto done = layer.compute({{0, 0, 1}, bad}, sums);
    REQUIRE(!done);
    REQUIRE(done.error().code == ErrorCode::invalid_argument);
    REQUIRE(sums == untouched);
  }
  const std::vector<ExpertPair> one{{0, 0, 1}};
  for (const int32_t l : {-1, 1}) REQUIRE(!layer.worker->submit({l, layer.rows(), one}));
  ActRows empty = layer.rows();
  empty.a8_32 = {};
  REQUIRE(!layer.worker->submit({0, empty, one}));
  REQUIRE(layer.worker->holdings().front().holds(0, 1));
  REQUIRE_FALSE(layer.worker->holdings().front().holds(0, 2));
}

TEST_CASE("worker: a sum that leaves the range is refused with layer and expert, and changes nothing") {
  const VectorLayer layer("ffn_q8_0.safetensors", *select_cpu_backend().value(), 1);
  std::vector<int64_t> sums(size_t(layer.n_rows * layer.config.n_embd), 7);
  const auto untouched = sums;
  for (const float weight : {1e30F, std::nanf("")}) {
    const auto done = layer.compute({{0, 0, 1}, {3, 1, weight}}, sums);
    REQUIRE(!done);
    REQUIRE(done.error().code == ErrorCode::numeric);
    REQUIRE(done.error().message.find("layer 0: expert 1") != std::string::npos);
    REQUIRE(sums == untouched);
  }
  const auto ticket = layer.worker->submit({0, layer.rows(), layer.pairs()});
  REQUIRE(layer.worker->collect(*ticket, TimePoint::min(), sums).error().code == ErrorCode::deadline);
  REQUIRE(sums == untouched);
}

TEST_CASE("worker: the same pair twice counts twice, and more pairs than fit are refused") {
  const VectorLayer layer("ffn_q8_0.safetensors", *select_cpu_backend().value(), 2);
  const auto n = size_t(layer.n_rows * layer.config.n_embd);
  std::vector<int64_t> once(n), often(n);
  REQUIRE(layer.compute({{1, 1, 0.5F}}, once));
  REQUIRE(layer.compute(std::vector<ExpertPair>(1000, {1, 1, 0.5F}), often));
  for (size_t i = 0; i < n; ++i) REQUIRE(often[i] == 1000 * once[i]);
  const auto done = layer.compute(std::vector<ExpertPair>(1025, {1, 1, 0.5F}), often);
  REQUIRE(done.error().code == ErrorCode::limit);
}

// MO-02: out = routed + sigmoid(gate . x) * shared(x)
TEST_CASE("experts: MO-02, the shared expert's gate touches the shared expert alone") {
  for (const Json& v : read_case("MO-02", "shared.json")) {
    std::vector<std::vector<float>> kept;  // views borrow from it
    kept.reserve(64);
    const auto matrix = [&](const Json& matrices, int64_t n_rows, int64_t n_cols) {
      auto& all = kept.emplace_back();
      for (const auto& m : matrices)
        for (const auto& row : m)
          for (const auto& x : row) all.push_back(x.get<float>());
      const TensorView view{QuantType::f32, n_cols, n_rows, int64_t(matrices.size()), nullptr};
      return Matrix{{QuantType::f32, n_rows, n_cols, reinterpret_cast<const std::byte*>(all.data())},
                    int64_t(matrices.size()),
                    view.matrix_bytes(),
                    uint64_t(view.bytes())};
    };
    const auto part = [&](const char* name) {
      Json list = Json::array();
      for (const auto& e : v["experts"]) list.push_back(e[name]);
      return list;
    };
    ModelConfig c;
    c.n_layers = 1;
    c.n_embd = int64_t(v["x"].size());
    c.n_experts = int64_t(v["experts"].size());
    c.n_experts_used = v["top_k"];
    c.n_ff = c.n_ff_shared = int64_t(v["shared"]["gate"].size());
    std::vector<LayerWeights> layers(1);
    MoeWeights& w = layers[0].moe;
    w.router = matrix(Json::array({v["router"]}), c.n_experts, c.n_embd);
    w.gate = matrix(part("gate"), c.n_ff, c.n_embd);
    w.up = matrix(part("up"), c.n_ff, c.n_embd);
    w.down = matrix(part("down"), c.n_embd, c.n_ff);
    w.shared_router = matrix(Json::array({Json::array({v["shared_gate"]})}), 1, c.n_embd);
    w.shared_gate = matrix(Json::array({v["shared"]["gate"]}), c.n_ff, c.n_embd);
    w.shared_up = matrix(Json::array({v["shared"]["up"]}), c.n_ff, c.n_embd);
    w.shared_down = matrix(Json::array({v["shared"]["down"]}), c.n_embd, c.n_ff);
    ThreadPool pool(2);
    const auto* cpu = select_cpu_backend("reference").value();  // computes from the file's layout: nothing to pack
    auto block = MoeBlock::create({cpu, &backbone_ops(cpu->name), &pool}, c, layers, 4);
    REQUIRE(block);
    auto acts = ActBuffer::create(1, c.n_embd);
    acts->shape(c.n_embd, MoeBlock::input_forms(w));
    const std::vector<float> x = v["x"];
    REQUIRE(acts->write(*cpu, 0, x.data()));
    std::vector<float> out(x.size());
    REQUIRE(block->forward(0, acts->rows(0, 1), x.data(), out.data(), [&](const MoeTrace& t) {
      REQUIRE(std::vector<int32_t>(t.experts, t.experts + t.n_used) == ids_of(v["chosen"]));
      for (size_t i = 0; i < x.size(); ++i)
        REQUIRE(std::fabs(double(t.routed[i]) - v["routed"][i].get<double>()) <= 1e-6);
    }));
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(std::fabs(double(out[i]) - v["out"][i].get<double>()) <= 1e-6);
  }
}

}  // namespace kvasir::testing
