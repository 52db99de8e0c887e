// Makes model files with the scripts of the repository and with the project's own writer.
#include "tests/engine/models.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "formats/gguf_writer.h"
#include "kernels/dequantize.h"

namespace kvasir::testing {
namespace {

Gguf open(const std::string& path) {
  auto gguf = Gguf::open(path);
  if (!gguf) FAIL(gguf.error().message);
  return std::move(*gguf);
}

// Makes a file under a name of this process, then renames it: test programs run side by side.
template <class Make>
std::string make_once(const std::string& name, Make make) {
  const std::string path = made_path(name);
  if (std::filesystem::exists(path)) return path;
  const std::string part = fmt::format("{}.{}", path, getpid());
  make(part);
  std::filesystem::rename(part, path);
  return path;
}

void copy_entry(const GgufEntry& e, const std::string& key, GgufWriter& to) {
  const auto integers = [](const GgufArray& a) { return std::vector<int32_t>(a.integers.begin(), a.integers.end()); };
  switch (e.type) {
    case GgufType::u32:
      return to.add_u32(key, uint32_t(std::get<uint64_t>(e.value)));
    case GgufType::f32:
      return to.add_f32(key, float(std::get<double>(e.value)));
    case GgufType::boolean:
      return to.add_bool(key, std::get<bool>(e.value));
    case GgufType::string:
      return to.add_string(key, std::get<std::string_view>(e.value));
    case GgufType::array: {
      const auto& a = std::get<GgufArray>(e.value);
      if (a.type == GgufType::string)
        return to.add_strings(key, std::vector<std::string>(a.strings.begin(), a.strings.end()));
      REQUIRE(a.type == GgufType::i32);
      return to.add_i32s(key, integers(a));
    }
    default:
      FAIL("the tests' files have no key of this type: " << key);
  }
}

void copy_keys(const Gguf& from, const GgufEdit& edit, GgufWriter& to) {
  const std::string old_name(from.string("general.architecture").value());
  for (const auto& e : from.entries()) {
    std::string key(e.key);
    if (key == "general.architecture" || key == "general.alignment" ||
        std::ranges::find(edit.drop_keys, key) != edit.drop_keys.end())
      continue;
    const auto is_key = [&](const auto& change) { return change.first == key; };
    if (std::ranges::any_of(edit.set_u32, is_key) || std::ranges::any_of(edit.set_string, is_key)) continue;
    if (!edit.architecture.empty() && key.starts_with(old_name + "."))
      key = edit.architecture + key.substr(old_name.size());
    copy_entry(e, key, to);
  }
  for (const auto& [key, value] : edit.set_u32) to.add_u32(key, value);
  for (const auto& [key, value] : edit.set_string) to.add_string(key, value);
}

float f16_at(const std::byte* row, int64_t i) {
  float value;
  dequantize_row(QuantType::f16, row + 2 * i, 1, &value);
  return value;
}

// Round to nearest even; the scales here are normal f16 numbers or 0.
uint16_t to_f16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (x == 0) return 0;
  const uint32_t kept = bits >> 13, rest = bits & 0x1fff;
  return uint16_t(kept - (112U << 10) + (rest > 0x1000 || (rest == 0x1000 && (kept & 1))));
}

// One block as GGUF's quantisers do it: the largest magnitude becomes 127.
void quantize_q8_0(const std::byte* f16, std::byte* block) {
  float amax = 0;
  for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(f16_at(f16, i)));
  const float d = amax / 127.0F, inverse = d > 0 ? 1.0F / d : 0.0F;
  const uint16_t scale = to_f16(d);
  std::memcpy(block, &scale, 2);
  for (int i = 0; i < 32; ++i) block[2 + i] = std::byte(int8_t(std::round(f16_at(f16, i) * inverse)));
}

// Writes the file with each tensor passed through convert, which returns the new view over bytes that it keeps.
template <class Convert>
void convert_tensors(const std::string& from, const std::string& to, Convert convert) {
  const Gguf gguf = open(from);
  GgufWriter writer(gguf.string("general.architecture").value());
  copy_keys(gguf, {}, writer);
  std::vector<std::vector<std::byte>> kept(gguf.tensors().size());
  for (size_t i = 0; i < kept.size(); ++i) {
    const GgufTensor& t = gguf.tensors()[i];
    writer.add_tensor(t.name, convert(t.view, kept[i]), {}, t.n_dims);
  }
  const auto written = writer.write(to);
  if (!written) FAIL(written.error().message);
}

}  // namespace

std::string data_path(const std::string& name) {
  return KVASIR_SOURCE_DIR "/tests/data/" + name;
}

std::string made_path(const std::string& name) {
  const std::string folder = KVASIR_BUILD_DIR "/test_models";
  std::filesystem::create_directories(folder);
  return folder + "/" + name;
}

Json read_json(const std::string& path) {
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file.good());
  return Json::parse(file);
}

std::vector<int32_t> ids_of(const Json& array) {
  return array.get<std::vector<int32_t>>();
}

std::optional<std::string> f16_model(const std::string& name) {
  std::string folder = data_path("nano/" + name);
  if (name == "kvasir-tiny") {
    const char* shared = std::getenv("KVASIR_SHARED");
    if (!shared) {
      WARN("skipped: " << name << " in F16 needs its weights; set KVASIR_SHARED to the folder that holds tiny/");
      return std::nullopt;
    }
    folder = std::string(shared) + "/tiny/" + name;
  }
  return make_once(name + "-f16.gguf", [&](const std::string& out) {
    const std::string command =
        fmt::format("/usr/bin/python3 {} '{}' '{}'", data_path("nano/make_f16.py"), folder, out);
    REQUIRE(std::system(command.c_str()) == 0);
  });
}

std::string q8_0_model(const std::string& name) {
  const std::string f16 = f16_model(name).value();
  return make_once(name + "-q8_0.gguf", [&](const std::string& out) {
    convert_tensors(f16, out, [](TensorView view, std::vector<std::byte>& kept) {
      if (view.type != QuantType::f16) return view;
      kept.resize(size_t(view.n_elements() / 32 * 34));
      for (int64_t b = 0; b < view.n_elements() / 32; ++b) quantize_q8_0(view.data + 64 * b, kept.data() + 34 * b);
      view.type = QuantType::q8_0;
      view.data = kept.data();
      return view;
    });
  });
}

std::string dequantised(const std::string& path, const std::string& name) {
  return make_once(name, [&](const std::string& out) {
    convert_tensors(path, out, [](TensorView view, std::vector<std::byte>& kept) {
      kept.resize(size_t(view.n_elements()) * 4);
      auto* floats = reinterpret_cast<float*>(kept.data());
      const int64_t n_rows = view.n_rows * view.n_matrices;
      for (int64_t r = 0; r < n_rows; ++r)
        dequantize_row(view.type, view.data + r * row_bytes(view.type, view.n_cols), view.n_cols,
                       floats + r * view.n_cols);
      view.type = QuantType::f32;
      view.data = kept.data();
      return view;
    });
  });
}

TestModel::TestModel(const std::string& path, Options options) : pool_(options.n_threads), gguf_(open(path)) {
  const auto backend =
      options.backend.empty() ? select_cpu_backend_from_environment() : select_cpu_backend(options.backend);
  if (!backend) FAIL(backend.error().message);
  auto model = Model::load(*gguf_, pool_, {.backend = *backend, .context = options.context, .progress = {}});
  if (!model) FAIL(model.error().message);
  model_ = std::move(*model);
}

std::unique_ptr<Sequence> TestModel::sequence() {
  auto s = model_->new_sequence();
  if (!s) FAIL(s.error().message);
  return std::move(*s);
}

std::vector<float> TestModel::all_logits(Sequence& sequence, const std::vector<int32_t>& tokens, int64_t chunk) {
  std::vector<float> logits(tokens.size() * size_t(n_vocab()));
  for (size_t i = 0; i < tokens.size(); i += size_t(chunk)) {
    const auto part = std::span(tokens).subspan(i, std::min(size_t(chunk), tokens.size() - i));
    const SequenceTokens entry{&sequence, part, SequenceTokens::Logits::all};
    const auto done = model_->forward({&entry, 1}, std::span(logits).subspan(i * size_t(n_vocab())));
    if (!done) FAIL(done.error().message);
  }
  return logits;
}

std::vector<float> TestModel::all_logits(const std::vector<int32_t>& tokens, int64_t chunk) {
  const auto s = sequence();
  return all_logits(*s, tokens, chunk);
}

std::vector<float> TestModel::last_logits(Sequence& sequence, const std::vector<int32_t>& tokens) {
  std::vector<float> logits(static_cast<size_t>(n_vocab()));
  const SequenceTokens entry{&sequence, tokens, SequenceTokens::Logits::last};
  const auto done = model_->forward({&entry, 1}, logits);
  if (!done) FAIL(done.error().message);
  return logits;
}

void Choices::listen(Model& model) {
  model.set_moe_trace([this](const MoeTrace& t) {
    if (layer >= 0 && t.layer != layer) return;
    for (int64_t i = 0; i < t.n_rows; ++i) {
      experts.emplace_back(t.experts + i * t.n_used, t.experts + (i + 1) * t.n_used);
      weights.emplace_back(t.weights + i * t.n_used, t.weights + (i + 1) * t.n_used);
    }
  });
}

int32_t arg_max(const float* logits, int64_t n) {
  return int32_t(std::max_element(logits, logits + n) - logits);
}

void write_edited(const std::string& from, const std::string& to, const GgufEdit& edit) {
  const Gguf gguf = open(from);
  const auto architecture = gguf.string("general.architecture").value();
  GgufWriter writer(edit.architecture.empty() ? architecture : std::string_view(edit.architecture));
  copy_keys(gguf, edit, writer);
  const auto replaced = [&](std::string_view name) {
    return std::ranges::find_if(edit.set_tensors, [&](const auto& t) { return t.first == name; });
  };
  for (const GgufTensor& t : gguf.tensors()) {
    if (replaced(t.name) != edit.set_tensors.end() ||
        std::ranges::find(edit.drop_tensors, t.name) != edit.drop_tensors.end())
      continue;
    writer.add_tensor(t.name, t.view, {}, t.n_dims);
  }
  for (const auto& [name, view] : edit.set_tensors) writer.add_tensor(name, view);
  const auto written = writer.write(to);
  if (!written) FAIL(written.error().message);
}

}  // namespace kvasir::testing
