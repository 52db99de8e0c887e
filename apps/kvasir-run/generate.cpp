// kvasir-run generate: a prompt in, a text out as it comes.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/kvasir-run/commands.h"
#include "apps/kvasir-run/session.h"
#include "apps/kvasir-run/statistics.h"
#include "apps/kvasir-run/terminal.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  ModelFlags model;
  SamplerFlags sampler;
  PromptFlags prompt;
  GenerationOptions options;
  std::string stats = "brief";
  bool json = false, quiet = false, control_tokens = false;
};

// The tokens of a prompt; an empty one is the beginning-of-text token, if the model has one.
std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view prompt, bool control_tokens) {
  auto ids = tokenizer.encode(prompt, {.add_bos = tokenizer.add_bos(), .parse_control = control_tokens});
  if (ids.empty() && tokenizer.bos() >= 0) ids.push_back(tokenizer.bos());
  return ids;
}

Json to_json(const Tokenizer& tokenizer, const std::vector<TokenLogprob>& top) {
  Json list = Json::array();
  for (const auto& t : top)
    list.push_back({{"id", t.id}, {"token", tokenizer.piece(t.id, true)}, {"logprob", t.logprob}});
  return list;
}

Json to_json(const Session& session, const Generation& g, const Statistics& stats, bool logprobs) {
  Json ids = Json::array(), probs = Json::array();
  for (const auto& step : g.steps) {
    ids.push_back(step.id);
    if (logprobs)
      probs.push_back({{"id", step.id}, {"logprob", step.logprob}, {"top", to_json(*session.tokenizer, step.top)}});
  }
  Json j{{"text", g.text}, {"ids", ids}, {"finish_reason", to_string(g.finish)}};
  if (logprobs) j["logprobs"] = probs;
  j["statistics"] = to_json(stats);
  return j;
}

Expected<int> run(const Flags& flags) {
  const InterruptGuard guard;
  KV_TRY(const auto prompt, flags.prompt.read());
  KV_TRY(const auto session, open_session(flags.model));
  KV_TRY(auto sampler, flags.sampler.sampler(session.model->config().n_vocab));
  KV_TRY(const auto sequence, session.model->new_sequence());
  auto history = encode(*session.tokenizer, prompt, flags.control_tokens);

  bool read = true;  // whether somebody reads our output
  Progress progress("reading the prompt");
  GenerationEvents events;
  events.prefill = [&](int64_t done, int64_t total) {
    progress.update(double(done), double(total));
    return !InterruptGuard::interrupted();
  };
  events.text = [&](std::string_view text) {
    if (!flags.json && !text.empty()) read = read && put(text);
    return read && !InterruptGuard::interrupted();
  };
  KV_TRY(const auto g,
         generate(*session.model, *sequence, *session.tokenizer, sampler, history, flags.options, events));

  if (!flags.json && read) read = put("\n");
  if (!read) return kExitFine;
  const bool measure = flags.stats == "full" && !InterruptGuard::interrupted();
  KV_TRY(const auto stats, statistics(session, g, measure));
  if (flags.json) {
    const auto j = to_json(session, g, stats, flags.sampler.config.n_logprobs > 0);
    // A token can be part of a character; such bytes become U+FFFD.
    put(j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  } else if (!flags.quiet) {
    fmt::print(stderr, "\n{}", to_text(stats));
  }
  return g.finish == FinishReason::cancelled ? kExitInterrupted : kExitFine;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("generate", "Continue a prompt");
  auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  flags->prompt.add_to(*command);
  command->add_option("-n,--max-tokens", flags->options.max_tokens, "tokens to generate; -1: to the end of the context")
      ->check(CLI::Range(int64_t(-1), int64_t(1) << 40))
      ->capture_default_str();
  command->add_option("--stop", flags->options.stop, "end before this text; repeatable")
      ->take_all()
      ->allow_extra_args(false)
      ->check([](const std::string& s) {
        return s.empty() ? std::string("a stop string cannot be empty") : std::string();
      });
  command->add_flag("--ignore-eos", flags->options.ignore_end, "go on after the model's end tokens");
  command->add_flag("--control-tokens", flags->control_tokens,
                    "text like <|im_start|> in the prompt becomes the control token (never with text of others)");
  command->add_flag("--json", flags->json, "print one JSON object at the end instead of text as it comes");
  command
      ->add_option("--logprobs", flags->sampler.config.n_logprobs, "with --json: the N likeliest tokens at each step")
      ->needs("--json");
  command->add_option("--stats", flags->stats, "brief, or full: also measure the memory's read bandwidth (0.5 s)")
      ->check(CLI::IsMember({"brief", "full"}))
      ->capture_default_str();
  command->add_flag("-q,--quiet", flags->quiet, "no statistics on stderr");
  flags->sampler.add_to(*command);
  command->footer(
      "Examples:\n"
      "  kvasir-run generate -m model.gguf \"The capital of France is\"\n"
      "  kvasir-run generate -m model.gguf -f prompt.txt -n 200 --temperature 0.7 --top-p 0.95 --seed 1\n"
      "  echo \"Dear Sir,\" | kvasir-run generate -m model.gguf --stop Yours --json --logprobs 5");
  command->callback([flags, &exit_code] {
    const auto code = run(*flags);
    exit_code = code ? *code : report(code.error());
  });
}

}  // namespace kvasir
