// Model files that tests run, made where needed, and models loaded from them.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/model.h"
#include "kernels/select.h"

namespace kvasir::testing {

using Json = nlohmann::json;

std::string data_path(const std::string& name);  // under tests/data
std::string made_path(const std::string& name);  // under the build folder; the folder exists
Json read_json(const std::string& path);
std::vector<int32_t> ids_of(const Json& array);

// The F16 file of a model, made on first use; nullopt (after saying why) where its weights are not at hand.
std::optional<std::string> f16_model(const std::string& name);
// The Q8_0 file of a nano model: each F16 tensor of the F16 file quantised.
std::string q8_0_model(const std::string& name);
// Every quantised tensor of a file as F32: what the golden data of quantised files was computed from.
std::string dequantised(const std::string& path, const std::string& name);

// Everything a forward pass needs, in the order of their lives.
class TestModel {
 public:
  struct Options {
    int n_threads = 2;
    int64_t context = 0;
    std::string backend;  // "": KVASIR_BACKEND, or the best of this machine
  };
  TestModel(const std::string& path, Options options);
  explicit TestModel(const std::string& path) : TestModel(path, Options{}) {}

  Model& operator*() { return *model_; }
  Model* operator->() { return model_.get(); }
  int64_t n_vocab() const { return model_->config().n_vocab; }
  std::unique_ptr<Sequence> sequence();

  // Logits of every token [tokens.size() * n_vocab], the tokens going in by `chunk` at a time.
  std::vector<float> all_logits(Sequence& sequence, const std::vector<int32_t>& tokens, int64_t chunk = 512);
  // The same, from a new sequence.
  std::vector<float> all_logits(const std::vector<int32_t>& tokens, int64_t chunk = 512);
  // Logits of the last token alone.
  std::vector<float> last_logits(Sequence& sequence, const std::vector<int32_t>& tokens);

 private:
  ThreadPool pool_;
  std::optional<Gguf> gguf_;
  std::unique_ptr<Model> model_;
};

// The choice of experts of one layer, collected by a trace: [row] -> ids by descending weight.
struct Choices {
  int64_t layer = -1;  // -1: all layers, one after the other
  std::vector<std::vector<int32_t>> experts;
  std::vector<std::vector<float>> weights;
  void listen(Model& model);
};

int32_t arg_max(const float* logits, int64_t n);

// Copies a GGUF file with changes, for tests of refusals.
struct GgufEdit {
  std::string architecture;  // "": as it was; keys move to the new name
  std::vector<std::string> drop_keys, drop_tensors;
  std::vector<std::pair<std::string, uint32_t>> set_u32;
  std::vector<std::pair<std::string, std::string>> set_string;
  std::vector<std::pair<std::string, TensorView>> set_tensors;  // replaces, or adds
};
void write_edited(const std::string& from, const std::string& to, const GgufEdit& edit);

}  // namespace kvasir::testing
