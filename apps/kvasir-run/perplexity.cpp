// kvasir-run perplexity: how well a model predicts a text.
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/kvasir-run/commands.h"
#include "apps/kvasir-run/session.h"
#include "apps/kvasir-run/terminal.h"
#include "core/clock.h"
#include "core/limits.h"
#include "engine/log_sum_exp.h"

namespace kvasir {
namespace {

struct Flags {
  ModelFlags model;
  std::string file;
  int64_t window = 512;
  bool json = false;
};

// Running mean and variance (Welford, Technometrics 4, 1962).
struct Mean {
  int64_t n = 0;
  double mean = 0, squares = 0;
  void add(double x) {
    ++n;
    const double delta = x - mean;
    mean += delta / double(n);
    squares += delta * (x - mean);
  }
  double standard_error() const { return n > 1 ? std::sqrt(squares / double(n - 1) / double(n)) : 0; }
};

// -log p of the token that follows each position of a window; windows do not see each other.
Expected<void> window_nll(Session& session, Sequence& sequence, std::span<const int32_t> ids,
                          std::vector<float>& logits, Mean& nll) {
  const int64_t n_vocab = session.model->config().n_vocab;
  sequence.clear();
  for (size_t done = 0; done + 1 < ids.size();) {
    const auto n = std::min<size_t>(64, ids.size() - 1 - done);  // logits of 64 rows are at most 64 MB
    const SequenceTokens entry{&sequence, ids.subspan(done, n), SequenceTokens::Logits::all};
    KV_TRY_VOID(session.model->forward({&entry, 1}, std::span(logits).first(n * size_t(n_vocab))));
    for (size_t i = 0; i < n; ++i) {
      const auto row = std::span<const float>(logits).subspan(i * size_t(n_vocab), size_t(n_vocab));
      const auto max = finite_max(row);
      if (!max) return fail(ErrorCode::numeric, "the logits hold a NaN or infinity");
      nll.add(log_sum_exp(row, *max) - double(row[size_t(ids[done + i + 1])]));
    }
    done += n;
  }
  return {};
}

Expected<int> run(const Flags& flags) {
  const InterruptGuard guard;
  KV_TRY(const auto text, read_text(flags.file));
  auto model_flags = flags.model;
  if (model_flags.n_context == 0) model_flags.n_context = flags.window;
  KV_TRY(auto session, open_session(model_flags));
  KV_TRY(const auto sequence, session.model->new_sequence());
  if (flags.window > sequence->capacity())
    return fail(ErrorCode::limit, "--window {} is longer than the context {}", flags.window, sequence->capacity());
  const auto ids = session.tokenizer->encode(text, {.add_bos = false, .parse_control = true});
  if (ids.size() < 2)
    return fail(ErrorCode::invalid_argument, "{}: has {} tokens; at least 2 are needed", flags.file, ids.size());

  std::vector<float> logits(64 * size_t(session.model->config().n_vocab));
  Mean nll;
  const auto start = Clock::now();
  {
    Progress progress("reading the text");
    for (size_t at = 0; at + 1 < ids.size(); at += size_t(flags.window)) {
      if (InterruptGuard::interrupted()) return kExitInterrupted;
      progress.update(double(at), double(ids.size()));
      const auto n = std::min(size_t(flags.window), ids.size() - at);
      KV_TRY_VOID(window_nll(session, *sequence, std::span(ids).subspan(at, n), logits, nll));
    }
  }
  const double seconds = seconds_since(start), perplexity = std::exp(nll.mean);
  if (flags.json) {
    const nlohmann::ordered_json j{{"tokens", ids.size()},       {"predicted", nll.n},
                                   {"nats_per_token", nll.mean}, {"standard_error", nll.standard_error()},
                                   {"perplexity", perplexity},   {"window", flags.window},
                                   {"backend", session.backend}, {"tok_s", double(nll.n) / seconds}};
    put(j.dump(1) + "\n");
  } else {
    put(fmt::format(
        "perplexity {:.4f} +- {:.4f}  ({:.5f} nats per token over {} of {} tokens, windows of {}, {:.1f} tok/s)\n",
        perplexity, perplexity * nll.standard_error(), nll.mean, nll.n, ids.size(), flags.window,
        double(nll.n) / seconds));
  }
  return kExitFine;
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("perplexity", "Measure how well the model predicts a text");
  auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  command->add_option("file", flags->file, "the text (- for standard input)")->required();
  command->add_option("--window", flags->window, "tokens that are predicted from each other; windows are independent")
      ->check(CLI::Range(int64_t(2), kMaxContext))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->footer("Example:\n  kvasir-run perplexity -m model.gguf book.txt");
  command->callback([flags, &exit_code] {
    const auto code = run(*flags);
    exit_code = code ? *code : report(code.error());
  });
}

}  // namespace kvasir
