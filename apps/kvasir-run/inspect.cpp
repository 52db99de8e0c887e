// kvasir-run inspect: what a GGUF file holds, and what decoding it costs.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/kvasir-run/commands.h"
#include "apps/kvasir-run/terminal.h"
#include "formats/gguf.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string path;
  bool json = false, metadata = false, tensors = false;
};

enum class Role { experts, shared_expert, feed_forward, attention, delta_net, router, norms, embedding, head, other };
constexpr std::array kRoleNames = {"experts", "shared expert", "feed forward", "attention", "delta net",
                                   "router",  "norms",         "embedding",    "head",      "other"};

// "blk.7" of "blk.7.attn_q.weight"; empty for a tensor of no layer.
std::string_view layer_of(std::string_view name) {
  return name.starts_with("blk.") ? name.substr(0, name.find('.', 4)) : std::string_view();
}

// By the names that GGUF files use: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
// Where a layer is recurrent, its attn_qkv and attn_gate feed the recurrence; elsewhere attn_qkv is attention's.
Role role_of(std::string_view name, bool is_recurrent) {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("_exps.")) return Role::experts;
  if (has("ffn_gate_inp") || has("exp_probs_b")) return Role::router;
  if (has("_shexp.")) return Role::shared_expert;
  if (has("_norm.") || name.ends_with("_norm")) return Role::norms;
  if (has("ssm_") || (is_recurrent && (has("attn_qkv.") || has("attn_gate.")))) return Role::delta_net;
  if (has("attn_")) return Role::attention;
  if (has("ffn_")) return Role::feed_forward;
  if (has("token_embd")) return Role::embedding;
  if (name.starts_with("output.")) return Role::head;
  return Role::other;
}

std::string human(uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", double(bytes) / 1e3);
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", double(bytes) / 1e6);
  return fmt::format("{:.2f} GB", double(bytes) / 1e9);
}

std::string shape(const GgufTensor& t) {
  const std::array<int64_t, 3> dims = {t.view.n_cols, t.view.n_rows, t.view.n_matrices};
  std::string text;
  for (int i = 0; i < std::min(t.n_dims, 3); ++i) text += fmt::format("{}{}", i ? " x " : "", dims[size_t(i)]);
  return text;
}

// What one file adds up to.
struct Summary {
  std::string architecture, name;
  std::array<uint64_t, kRoleNames.size()> bytes{};
  int64_t n_experts = 0, n_used = 0, n_expert_layers = 0;
  uint64_t min_expert_bytes = 0, max_expert_bytes = 0;  // gate, up and down of one expert, over the layers
  // All but the experts that are not chosen and the embedding's other rows (read whole where it is the head too).
  uint64_t read_per_token = 0;
};

int64_t hyper_parameter(const Gguf& g, std::string_view architecture, std::string_view key) {
  const auto value = g.optional_integer(fmt::format("{}.{}", architecture, key), 0, INT64_MAX);
  return value && *value ? **value : 0;
}

Summary summarise(const Gguf& g) {
  Summary s;
  s.architecture = g.string("general.architecture").value_or("unknown");
  s.name = g.string("general.name").value_or("");
  s.n_experts = hyper_parameter(g, s.architecture, "expert_count");
  s.n_used = std::min(s.n_experts, hyper_parameter(g, s.architecture, "expert_used_count"));
  const bool tied_head = !g.find_tensor("output.weight");
  std::set<std::string_view> recurrent;
  for (const auto& t : g.tensors())
    if (t.name.find(".ssm_") != std::string_view::npos) recurrent.insert(layer_of(t.name));
  std::map<std::string_view, uint64_t> expert_bytes;  // by layer
  for (const auto& t : g.tensors()) {
    const auto layer = layer_of(t.name);
    const auto role = role_of(t.name, recurrent.contains(layer));
    const auto bytes = uint64_t(t.view.bytes());
    s.bytes[size_t(role)] += bytes;
    if (role == Role::experts && s.n_experts > 0)
      expert_bytes[layer] += bytes / uint64_t(s.n_experts);
    else if (role == Role::embedding && !tied_head)
      s.read_per_token += uint64_t(row_bytes(t.view.type, t.view.n_cols));  // of one token
    else
      s.read_per_token += bytes;
  }
  s.n_expert_layers = int64_t(expert_bytes.size());
  for (const auto& [layer, bytes] : expert_bytes) {
    s.min_expert_bytes = s.min_expert_bytes ? std::min(s.min_expert_bytes, bytes) : bytes;
    s.max_expert_bytes = std::max(s.max_expert_bytes, bytes);
    s.read_per_token += bytes * uint64_t(s.n_used);
  }
  return s;
}

std::string element(const GgufArray& a, size_t i) {
  if (!a.strings.empty()) return fmt::format("\"{}\"", a.strings[i]);
  if (!a.reals.empty()) return fmt::format("{}", a.reals[i]);
  return a.type == GgufType::u64 ? fmt::format("{}", a.integers[i]) : fmt::format("{}", int64_t(a.integers[i]));
}

// Control characters would play with the terminal; long text fills it.
std::string printable(std::string_view text, size_t limit) {
  std::string out;
  size_t end = std::min(limit, text.size());
  while (end < text.size() && end > 0 && (text[end] & 0xc0) == 0x80) --end;  // not inside a character
  for (const char c : text.substr(0, end)) {
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += '?';
    else
      out += c;
  }
  return text.size() > limit ? out + fmt::format(" ... ({} bytes)", text.size()) : out;
}

std::string value_text(const GgufValue& value) {
  constexpr size_t kShown = 6, kText = 70;
  if (const auto* u = std::get_if<uint64_t>(&value)) return fmt::format("{}", *u);
  if (const auto* i = std::get_if<int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{:g}", *d);
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* s = std::get_if<std::string_view>(&value)) return printable(*s, kText);
  const auto& a = std::get<GgufArray>(value);
  std::string text = "[";
  for (size_t i = 0; i < std::min(kShown, a.size()); ++i) text += (i ? ", " : "") + element(a, i);
  return printable(text, kText) + (a.size() > kShown ? fmt::format(", ...] ({} elements)", a.size()) : "]");
}

std::string report_text(const Gguf& g, const Summary& s, const Flags& flags) {
  const bool all = !flags.metadata && !flags.tensors;
  std::string out = fmt::format("{}: GGUF version {}, {} file{}, {}\n", flags.path, g.version(), g.files().size(),
                                g.files().size() == 1 ? "" : "s", human(g.file_bytes()));
  if (all || flags.metadata) {
    out += fmt::format("\nmetadata ({} keys)\n", g.entries().size());
    for (const auto& e : g.entries()) out += fmt::format("  {:<46} {}\n", printable(e.key, 60), value_text(e.value));
  }
  if (all || flags.tensors) {
    out += fmt::format("\ntensors ({})\n  {:<38} {:<7} {:<22} {:>14} {:>16}\n", g.tensors().size(), "name", "type",
                       "shape", "bytes", "offset");
    for (const auto& t : g.tensors())
      out += fmt::format("  {:<38} {:<7} {:<22} {:>14} {:>16}{}\n", t.name, info(t.view.type).name, shape(t),
                         t.view.bytes(), t.offset,
                         g.files().size() > 1 ? fmt::format(" in file {}", t.file + 1) : std::string());
  }
  if (!all) return out;
  out += "\nsize by role\n";
  for (size_t i = 0; i < kRoleNames.size(); ++i)
    if (s.bytes[i]) out += fmt::format("  {:<14} {:>10}\n", kRoleNames[i], human(s.bytes[i]));
  if (s.n_expert_layers)
    out += fmt::format("\nexperts: {} in each of {} layers, {} used per token; one is {}{}\n", s.n_experts,
                       s.n_expert_layers, s.n_used, human(s.min_expert_bytes),
                       s.max_expert_bytes == s.min_expert_bytes ? "" : " to " + human(s.max_expert_bytes));
  out +=
      fmt::format("{}decoding one token reads {} of weights\n", s.n_expert_layers ? "" : "\n", human(s.read_per_token));
  return out;
}

Json to_json(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, GgufArray>) {
          if (!v.strings.empty()) return v.strings;
          if (!v.reals.empty()) return v.reals;
          Json list = Json::array();
          for (const auto i : v.integers) v.type == GgufType::u64 ? list.push_back(i) : list.push_back(int64_t(i));
          return list;
        } else {
          return v;
        }
      },
      value);
}

Json report_json(const Gguf& g, const Summary& s) {
  Json metadata = Json::object(), tensors = Json::array(), roles = Json::object();
  for (const auto& e : g.entries()) metadata[std::string(e.key)] = to_json(e.value);
  for (const auto& t : g.tensors())
    tensors.push_back({{"name", t.name},
                       {"type", info(t.view.type).name},
                       {"shape", {t.view.n_cols, t.view.n_rows, t.view.n_matrices}},
                       {"bytes", t.view.bytes()},
                       {"file", t.file},
                       {"offset", t.offset}});
  for (size_t i = 0; i < kRoleNames.size(); ++i) roles[kRoleNames[i]] = s.bytes[i];
  return {{"version", g.version()},
          {"files", g.files().size()},
          {"file_bytes", g.file_bytes()},
          {"architecture", s.architecture},
          {"name", s.name},
          {"bytes_by_role", roles},
          {"experts",
           {{"count", s.n_experts},
            {"used", s.n_used},
            {"layers", s.n_expert_layers},
            {"min_bytes", s.min_expert_bytes},
            {"max_bytes", s.max_expert_bytes}}},
          {"weight_bytes_per_token", s.read_per_token},
          {"metadata", metadata},
          {"tensors", tensors}};
}

Expected<int> run(const Flags& flags) {
  KV_TRY(const auto g, Gguf::open(flags.path));
  const auto s = summarise(g);
  put(flags.json ? report_json(g, s).dump(1, ' ', false, Json::error_handler_t::replace) + "\n"
                 : report_text(g, s, flags));
  return kExitFine;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("inspect", "Show what a GGUF file holds and what decoding it reads");
  auto flags = std::make_shared<Flags>();
  command->add_option("file", flags->path, "GGUF file, or any part of a split one")->required();
  command->add_flag("--metadata", flags->metadata, "only the metadata");
  command->add_flag("--tensors", flags->tensors, "only the tensors");
  command->add_flag("--json", flags->json, "print one JSON object, with whole arrays");
  command->footer("Examples:\n  kvasir-run inspect model.gguf\n  kvasir-run inspect model-00001-of-00003.gguf --json");
  command->callback([flags, &exit_code] {
    const auto code = run(*flags);
    exit_code = code ? *code : report(code.error());
  });
}

}  // namespace kvasir
