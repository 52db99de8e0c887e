// Flags and loading.
#include "apps/kvasir-run/session.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <sched.h>
#include <unistd.h>

#include "apps/kvasir-run/terminal.h"
#include "core/clock.h"
#include "core/limits.h"
#include "kernels/select.h"

namespace kvasir {
namespace {

// Models say up to 262,144 positions; a cache for all of them is rarely meant. It is only reserved, but a limit that
// nobody asked for should be one that fits a machine.
constexpr int64_t kDefaultContext = 32768;

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

}  // namespace

void ModelFlags::add_to(CLI::App& command) {
  n_threads = usable_cores();
  command.add_option("-m,--model", path, "GGUF file, or any part of a split one")->required();
  command.add_option("-t,--threads", n_threads, "threads that compute")
      ->check(CLI::Range(1, int(kMaxThreads)))
      ->capture_default_str();
  command.add_option("-c,--ctx", n_context, "positions of the context (default: the model's, at most 32768)")
      ->check(CLI::Range(int64_t(1), kMaxContext));
}

void SamplerFlags::add_to(CLI::App& command) {
  auto& c = config;
  const auto add = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->capture_default_str()->group("Sampling");
  };
  add("--temperature,--temp", c.temperature, "0: the likeliest token, always");
  add("--top-k", c.top_k, "keep the k likeliest; 0: off");
  add("--top-p", c.top_p, "keep the likeliest that reach this mass; 1: off");
  add("--min-p", c.min_p, "keep what has this share of the likeliest; 0: off");
  add("--repetition-penalty", c.repetition_penalty, "1: off");
  add("--presence-penalty", c.presence_penalty, "0: off");
  add("--frequency-penalty", c.frequency_penalty, "0: off");
  add("--penalty-window", c.penalty_window, "last tokens that penalties look at; -1: all");
  add("--seed", c.seed, "the same seed gives the same text");
  command.add_option("--logit-bias", bias, "ID=VALUE: add to a token's logit; -inf bans it; repeatable")
      ->group("Sampling")
      ->take_all()
      ->allow_extra_args(false);
}

Expected<Sampler> SamplerFlags::sampler(int64_t n_vocab) const {
  auto full = config;
  for (const auto& b : bias) {
    const auto equals = b.find('=');
    int32_t id = 0;
    const auto parsed = std::from_chars(b.data(), b.data() + std::min(equals, b.size()), id);
    char* end = nullptr;
    const float value = equals == std::string::npos ? 0.0F : std::strtof(b.c_str() + equals + 1, &end);
    if (equals == std::string::npos || parsed.ptr != b.data() + equals || parsed.ec != std::errc() ||
        end == b.c_str() + equals + 1 || *end != '\0')
      return fail(ErrorCode::invalid_argument, "--logit-bias {}: ID=VALUE is expected, as 42=-inf", b);
    full.logit_bias.emplace_back(id, value);
  }
  return Sampler::create(std::move(full), n_vocab);
}

void PromptFlags::add_to(CLI::App& command) {
  text_option = command.add_option("prompt", text, "the prompt; without it and -f, standard input");
  command.add_option("-f,--file", file, "read the prompt from a file (- for standard input)")->excludes(text_option);
}

Expected<std::string> PromptFlags::read() const {
  if (text_option->count() > 0) return text;
  if (file.empty() && isatty(STDIN_FILENO)) warn("type the prompt; Ctrl-D ends it");
  return read_text(file.empty() ? "-" : file);
}

Expected<std::string> read_text(const std::string& path) {
  const bool is_stdin = path == "-";
  std::FILE* f = is_stdin ? stdin : std::fopen(path.c_str(), "rb");
  if (!f) return fail(ErrorCode::io, "{}: cannot be opened: {}", path, std::strerror(errno));
  std::string text;
  char buffer[65536];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) > 0;) text.append(buffer, n);
  const int reason = std::ferror(f) ? errno : 0;
  if (!is_stdin) std::fclose(f);
  if (reason) return fail(ErrorCode::io, "{}: cannot be read: {}", path, std::strerror(reason));
  return text;
}

Expected<Session> open_session(const ModelFlags& flags) {
  const auto start = Clock::now();
  Session s;
  s.path = flags.path;
  std::vector<std::string> rejected;
  KV_TRY(const auto* backend, select_cpu_backend_from_environment(&rejected));
  for (const auto& r : rejected) warn(r);
  s.backend = backend->name;
  KV_TRY(auto gguf, Gguf::open(flags.path));
  s.gguf = std::make_unique<Gguf>(std::move(gguf));
  KV_TRY(const auto config, ModelConfig::from_gguf(*s.gguf));
  KV_TRY(auto tokenizer, Tokenizer::load(*s.gguf));
  for (const auto& w : tokenizer.warnings()) warn(w);
  s.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  if (flags.n_context > config.n_context)
    warn(fmt::format("--ctx {}: the model was made for {} positions; text beyond them may be nonsense", flags.n_context,
                     config.n_context));
  s.pool = std::make_unique<ThreadPool>(flags.n_threads);
  Progress progress("loading");
  LoadOptions options;
  options.backend = backend;
  options.context = flags.n_context ? flags.n_context : std::min(kDefaultContext, config.n_context);
  options.progress = [&](uint64_t done, uint64_t total) {
    progress.update(double(done), double(total));
    return !InterruptGuard::interrupted();
  };
  KV_TRY(s.model, Model::load(*s.gguf, *s.pool, options));
  if (s.tokenizer->n_vocab() > s.model->config().n_vocab)
    return fail(ErrorCode::malformed, "{}: the vocabulary has {} tokens, the model's head {}", flags.path,
                s.tokenizer->n_vocab(), s.model->config().n_vocab);
  s.load_s = seconds_since(start);
  return s;
}

}  // namespace kvasir
