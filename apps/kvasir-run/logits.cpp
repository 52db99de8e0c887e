// kvasir-run logits: the numbers themselves, for comparing two builds, machines or engines.
#include <charconv>
#include <cstdio>

#include "apps/kvasir-run/commands.h"
#include "apps/kvasir-run/session.h"
#include "apps/kvasir-run/terminal.h"

namespace kvasir {
namespace {

struct Flags {
  ModelFlags model;
  PromptFlags prompt;
  std::string ids, output;
  bool all = false;
};

// "1,2,3"
Expected<std::vector<int32_t>> parse_ids(std::string_view list) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at <= list.size();) {
    const auto end = std::min(list.find(',', at), list.size());
    int32_t id = 0;
    const auto [parsed, error] = std::from_chars(list.data() + at, list.data() + end, id);
    if (error != std::errc() || parsed != list.data() + end)
      return fail(ErrorCode::invalid_argument, "--ids {}: token ids separated by commas are expected", list);
    ids.push_back(id);
    at = end + 1;
  }
  return ids;
}

// NumPy's format 1.0: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
Expected<void> write_npy(const std::string& path, std::span<const float> values, int64_t n_rows, int64_t n_cols) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", n_rows, n_cols);
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  const auto n = uint16_t(header.size());
  std::string head("\x93NUMPY\x01\x00", 8);
  head += char(n & 0xff);
  head += char(n >> 8);
  head += header;
  std::FILE* f = std::fopen(path.c_str(), "wb");
  const bool written = f && std::fwrite(head.data(), 1, head.size(), f) == head.size() &&
                       std::fwrite(values.data(), sizeof(float), values.size(), f) == values.size();
  const bool closed = f && std::fclose(f) == 0;
  if (!written || !closed) return fail(ErrorCode::io, "{}: cannot be written: {}", path, std::strerror(errno));
  return {};
}

Expected<int> run(const Flags& flags) {
  const InterruptGuard guard;
  std::vector<int32_t> ids;
  std::string prompt;
  if (flags.ids.empty()) {
    KV_TRY(prompt, flags.prompt.read());
  } else {
    KV_TRY(ids, parse_ids(flags.ids));
  }
  KV_TRY(const auto session, open_session(flags.model));
  if (flags.ids.empty()) ids = session.tokenizer->encode(prompt, {.add_bos = session.tokenizer->add_bos()});
  if (ids.empty()) return fail(ErrorCode::invalid_argument, "the prompt is empty; give some text or --ids");
  KV_TRY(const auto sequence, session.model->new_sequence());
  if (int64_t(ids.size()) > sequence->capacity())
    return fail(ErrorCode::limit, "the prompt has {} tokens, the context {}; raise it with --ctx", ids.size(),
                sequence->capacity());
  const int64_t n_rows = flags.all ? int64_t(ids.size()) : 1, n_vocab = session.model->config().n_vocab;
  std::vector<float> logits(size_t(n_rows * n_vocab));
  const SequenceTokens entry{sequence.get(), ids,
                             flags.all ? SequenceTokens::Logits::all : SequenceTokens::Logits::last};
  KV_TRY_VOID(session.model->forward({&entry, 1}, logits));
  KV_TRY_VOID(write_npy(flags.output, logits, n_rows, n_vocab));
  return kExitFine;
}

}  // namespace

void add_logits(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("logits", "Write a prompt's logits as a NumPy file");
  auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  flags->prompt.add_to(*command);
  command->add_option("--ids", flags->ids, "token ids instead of text: 1,2,3");
  command->add_option("-o,--output", flags->output, ".npy file, float32 [positions][vocabulary]")->required();
  command->add_flag("--all", flags->all, "of every position, not only the last");
  command->footer(
      "Examples:\n"
      "  kvasir-run logits -m model.gguf \"The capital of France is\" -o logits.npy\n"
      "  kvasir-run logits -m model.gguf --ids 785,6722,315 --all -o logits.npy");
  command->callback([flags, &exit_code] {
    const auto code = run(*flags);
    exit_code = code ? *code : report(code.error());
  });
}

}  // namespace kvasir
