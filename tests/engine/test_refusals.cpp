// What does not fit is refused with a reason: architectures, tensors, hyper-parameters, tokens, values.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include "tests/engine/models.h"

namespace kvasir::testing {
namespace {

std::string tiny(const std::string& name) {
  return data_path("tinymoe/" + name + ".gguf");
}

// Loads an edited tiny model; returns the error, or no message if it loads.
Error load_edited(const std::string& name, const GgufEdit& edit,
                  const std::function<bool(uint64_t, uint64_t)>& progress = {}) {
  static int n = 0;
  const std::string path = made_path(fmt::format("edited-{}-{}.gguf", getpid(), n++));
  write_edited(tiny(name), path, edit);
  const auto gguf = Gguf::open(path);
  std::filesystem::remove(path);
  if (!gguf) return gguf.error();
  ThreadPool pool(1);
  const auto* cpu = select_cpu_backend_from_environment().value();
  const auto model = Model::load(*gguf, pool, {.backend = cpu, .context = 0, .progress = progress});
  return model ? Error{ErrorCode::cancelled, ""} : model.error();
}

void refused(const Error& error, ErrorCode code, const std::vector<std::string>& words) {
  INFO(error.message);
  REQUIRE(error.code == code);
  for (const auto& word : words) {
    INFO(word);
    REQUIRE(error.message.find(word) != std::string::npos);
  }
}

// Copies of a tensor's floats, changed.
struct Changed {
  std::vector<float> floats;
  TensorView view;
};
Changed changed(const std::string& path, const std::string& tensor, const std::function<void(std::vector<float>&)>& f) {
  const auto gguf = Gguf::open(path);
  const auto* t = gguf->find_tensor(tensor);
  REQUIRE(t);
  Changed c{std::vector<float>(size_t(t->view.n_elements())), t->view};
  std::memcpy(c.floats.data(), t->view.data, c.floats.size() * 4);
  f(c.floats);
  c.view.data = reinterpret_cast<const std::byte*>(c.floats.data());
  return c;
}

// The error of running ten tokens through a tiny model with one tensor changed.
Expected<std::vector<float>> run_changed(const std::string& name, const Changed& change, const std::string& tensor) {
  const std::string path = made_path(fmt::format("changed-{}.gguf", getpid()));
  GgufEdit edit;
  edit.set_tensors = {{tensor, change.view}};
  write_edited(tiny(name), path, edit);
  TestModel model(path);
  std::filesystem::remove(path);
  const auto sequence = model.sequence();
  std::vector<float> logits(10 * size_t(model.n_vocab()));
  const std::vector<int32_t> tokens{84, 104, 101, 32, 113, 117, 105, 99, 107, 32};
  const SequenceTokens entry{sequence.get(), tokens, SequenceTokens::Logits::all};
  auto done = model->forward({&entry, 1}, logits);
  if (done) return logits;
  // Then the sequence says so until it is cleared, and works again if the fault was in its values alone.
  const auto again = model->forward({&entry, 1}, logits);
  REQUIRE(!again);
  REQUIRE(again.error().code == ErrorCode::invalid_argument);
  return tl::unexpected(done.error());
}

}  // namespace

TEST_CASE("loading: MO-10, an unknown architecture is said to be unknown and the known are listed") {
  GgufEdit unknown;
  unknown.architecture = "mamba9";
  refused(load_edited("qwen3moe", unknown), ErrorCode::unsupported, {"mamba9", "unknown", "qwen35moe", "qwen3moe"});
}

TEST_CASE("loading: MO-10, every missing tensor is named") {
  GgufEdit edit;
  edit.drop_tensors = {"blk.0.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight", "output_norm.weight"};
  refused(load_edited("qwen3moe", edit), ErrorCode::not_found, edit.drop_tensors);
  edit.drop_tensors = {"token_embd.weight", "blk.1.ssm_a", "blk.3.attn_q_norm.weight"};
  refused(load_edited("qwen35moe", edit), ErrorCode::not_found, edit.drop_tensors);
}

TEST_CASE("loading: a dense file of a known architecture names the expert tensors that it lacks") {
  GgufEdit edit;
  for (const char* part : {"gate_exps", "up_exps", "down_exps", "gate_inp"})
    for (int i = 0; i < 2; ++i) edit.drop_tensors.push_back(fmt::format("blk.{}.ffn_{}.weight", i, part));
  refused(load_edited("qwen3moe", edit), ErrorCode::not_found, edit.drop_tensors);
}

TEST_CASE("loading: a tensor that the architecture does not have is refused, not passed over") {
  const auto bias = changed(tiny("qwen3moe"), "blk.0.attn_norm.weight", [](auto&) {});
  GgufEdit edit;
  for (const char* name : {"blk.0.attn_q.bias", "rope_freqs.weight"}) {
    edit.set_tensors = {{name, bias.view}};
    refused(load_edited("qwen3moe", edit), ErrorCode::unsupported, {name});
  }
  edit.set_tensors = {{"blk.2.nextn.eh_proj.weight", bias.view}};
  REQUIRE(load_edited("qwen3moe", edit).message.empty());
}

TEST_CASE("loading: a misshapen tensor is named with both shapes") {
  const auto change = changed(tiny("qwen3moe"), "blk.1.ffn_up_exps.weight", [](auto&) {});
  GgufEdit edit;
  TensorView view = change.view;
  std::swap(view.n_rows, view.n_cols);
  edit.set_tensors = {{"blk.1.ffn_up_exps.weight", view}};
  const Error error = load_edited("qwen3moe", edit);
  INFO(error.message);
  REQUIRE(error.message.find("blk.1.ffn_up_exps.weight") != std::string::npos);
  REQUIRE(error.message.find("16") != std::string::npos);
  REQUIRE(error.message.find("32") != std::string::npos);
}

TEST_CASE("loading: hyper-parameters out of bounds are refused by key") {
  const std::pair<const char*, uint32_t> bad[] = {
      {"block_count", 0},
      {"block_count", 1U << 31},
      {"embedding_length", 0},
      {"attention.head_count", 0},
      {"attention.head_count_kv", 0},
      {"attention.head_count_kv", 3},
      {"attention.key_length", 15},
      {"attention.key_length", UINT32_MAX},
      {"attention.value_length", 8},
      {"rope.dimension_count", 7},
      {"rope.dimension_count", 18},
      {"expert_count", 0},
      {"expert_count", 1U << 30},
      {"expert_used_count", 0},
      {"expert_used_count", 9},
      {"expert_feed_forward_length", 0},
      {"expert_gating_func", 2},
      {"ssm.conv_kernel", 0},
      {"ssm.state_size", 7},
      {"ssm.group_count", 3},
      {"ssm.inner_size", 31},
      {"ssm.time_step_rank", 0},
      {"full_attention_interval", 0},
      {"nextn_predict_layers", 4},
      {"context_length", 0},
  };
  for (const auto& [key, value] : bad) {
    INFO(key << " = " << value);
    GgufEdit edit;
    edit.set_u32 = {{fmt::format("qwen35moe.{}", key), value}};
    const Error error = load_edited("qwen35moe", edit);
    INFO(error.message);
    // value_length is only wrong beside key_length, and inner_size beside what it is a product of.
    REQUIRE(error.message.find("qwen35moe." + std::string(key)) != std::string::npos);
  }
  GgufEdit yarn;
  yarn.set_string = {{"qwen35moe.rope.scaling.type", "yarn"}};
  refused(load_edited("qwen35moe", yarn), ErrorCode::unsupported, {"rope.scaling.type", "yarn"});
}

TEST_CASE("loading: required keys that are missing are named") {
  for (const char* key :
       {"block_count", "embedding_length", "context_length", "attention.head_count", "expert_count",
        "expert_used_count", "expert_feed_forward_length", "attention.layer_norm_rms_epsilon", "ssm.state_size"}) {
    GgufEdit edit;
    edit.drop_keys = {fmt::format("qwen35moe.{}", key)};
    refused(load_edited("qwen35moe", edit), ErrorCode::not_found, {edit.drop_keys.front()});
  }
}

// HY-08: block_count includes the blocks that predict further tokens.
TEST_CASE("loading: HY-08, prediction blocks are no layers, rotation is partial and by halves") {
  const auto plain = TestModel(tiny("qwen35moe")).all_logits({72, 69, 76, 76, 79});
  GgufEdit edit;
  edit.set_u32 = {{"qwen35moe.block_count", 5}, {"qwen35moe.nextn_predict_layers", 1}};
  const std::string path = made_path(fmt::format("nextn-{}.gguf", getpid()));
  write_edited(tiny("qwen35moe"), path, edit);
  TestModel model(path);
  std::filesystem::remove(path);
  REQUIRE(model->config().n_layers == 4);
  REQUIRE(model->config().rope_dim == 8);
  REQUIRE(model->config().head_dim == 16);
  REQUIRE(model.all_logits({72, 69, 76, 76, 79}) == plain);
}

TEST_CASE("loading: without output.weight the embedding is the head") {
  const auto embedding = changed(tiny("qwen3moe"), "token_embd.weight", [](auto&) {});
  const std::string path = made_path(fmt::format("tied-{}.gguf", getpid()));
  GgufEdit edit;
  edit.set_tensors = {{"output.weight", embedding.view}};
  write_edited(tiny("qwen3moe"), path, edit);
  const auto expected = TestModel(path).all_logits({72, 69});
  edit.set_tensors.clear();
  edit.drop_tensors = {"output.weight"};
  write_edited(tiny("qwen3moe"), path, edit);
  REQUIRE(TestModel(path).all_logits({72, 69}) == expected);
  std::filesystem::remove(path);
}

TEST_CASE("loading: progress reaches the end, and may cancel") {
  uint64_t last = 0, all = 0;
  REQUIRE(load_edited("qwen35moe", {}, [&](uint64_t done, uint64_t total) {
            REQUIRE(done > last);
            REQUIRE(done <= total);
            last = done;
            all = total;
            return true;
          }).message.empty());
  REQUIRE(last == all);
  refused(load_edited("qwen35moe", {}, [](uint64_t, uint64_t) { return false; }), ErrorCode::cancelled, {"cancelled"});
}

TEST_CASE("forward: token ids, contexts and rooms that do not fit are refused and change nothing") {
  TestModel model(tiny("qwen35moe"), {.n_threads = 1, .context = 8, .backend = {}});
  const auto s = model.sequence();
  std::vector<float> logits(size_t(model.n_vocab()));
  const auto run = [&](const std::vector<int32_t>& tokens, std::span<float> room) {
    const SequenceTokens entry{s.get(), tokens};
    return model->forward({&entry, 1}, room);
  };
  REQUIRE(s->capacity() == 8);
  for (const int32_t bad : {-1, 288, INT32_MAX}) {
    const auto done = run({72, bad}, logits);
    REQUIRE(!done);
    refused(done.error(), ErrorCode::invalid_argument, {std::to_string(bad), "288"});
  }
  refused(run(std::vector<int32_t>(9, 72), logits).error(), ErrorCode::limit, {"9", "8"});
  refused(run({72}, std::span(logits).first(287)).error(), ErrorCode::invalid_argument, {"287", "288"});
  refused(run({}, logits).error(), ErrorCode::invalid_argument, {"no tokens"});
  REQUIRE(s->n_tokens() == 0);
  REQUIRE(run(std::vector<int32_t>(8, 72), logits));
  refused(run({72}, logits).error(), ErrorCode::limit, {"1", "8"});
  REQUIRE(s->n_tokens() == 8);
  const std::vector<int32_t> one{72};
  const SequenceTokens twice[] = {{s.get(), one}, {s.get(), one}};
  s->clear();
  std::vector<float> two(2 * logits.size());
  REQUIRE(!model->forward(twice, two));
}

// MO-06: activations beyond half precision are no fault; what is not finite is, and says where.
TEST_CASE("forward: MO-06, an expert with weights times 1000 computes finite logits") {
  for (const std::string name : {"qwen3moe", "qwen35moe"}) {
    const auto change = changed(tiny(name), "blk.1.ffn_down_exps.weight", [](auto& x) {
      for (size_t i = 0; i < x.size() / 8; ++i) x[i] *= 1000;
    });
    REQUIRE(run_changed(name, change, "blk.1.ffn_down_exps.weight"));
    const auto gate = changed(tiny(name), "blk.1.ffn_gate_exps.weight", [](auto& x) {
      for (float& v : x) v *= 1e6F;
    });
    REQUIRE(run_changed(name, gate, "blk.1.ffn_gate_exps.weight"));
  }
}

TEST_CASE("forward: MO-06, values that are not finite are reported with layer and expert") {
  const auto spoil = [](float value) {
    return [value](std::vector<float>& x) { std::fill(x.begin(), x.begin() + int64_t(x.size() / 2), value); };
  };
  const struct {
    const char *tensor, *words;
    float value;
  } cases[] = {
      {"blk.1.ffn_down_exps.weight", "layer 1: expert", 1e30F},
      {"blk.1.ffn_up_exps.weight", "layer 1: expert", 3e38F},
      {"blk.2.ffn_down_shexp.weight", "layer 3: its input", INFINITY},
      {"blk.0.ffn_gate_shexp.weight", "layer 0: the shared expert", INFINITY},
      {"blk.2.ffn_gate_inp.weight", "layer 2: the router", std::nanf("")},
      {"blk.3.attn_v.weight", "layer 3: attention", std::nanf("")},
      {"blk.1.ssm_a", "layer 1: the delta rule", std::nanf("")},
      {"blk.1.attn_qkv.weight", "layer 1: the delta rule", INFINITY},
      {"token_embd.weight", "layer 0: its input", std::nanf("")},
      {"output_norm.weight", "output", std::nanf("")},
      {"output.weight", "output head", 3e38F},
  };
  for (const auto& c : cases) {
    INFO(c.tensor);
    const auto done = run_changed("qwen35moe", changed(tiny("qwen35moe"), c.tensor, spoil(c.value)), c.tensor);
    REQUIRE(!done);
    refused(done.error(), ErrorCode::numeric, {c.words});
  }
}

}  // namespace kvasir::testing
