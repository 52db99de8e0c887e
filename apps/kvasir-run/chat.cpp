// kvasir-run chat: a conversation at a terminal, or line by line from a pipe.
#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <editline/readline.h>
#include <fmt/format.h>
#include <iostream>
#include <langinfo.h>
#include <optional>
#include <unistd.h>

#include "apps/kvasir-run/commands.h"
#include "apps/kvasir-run/session.h"
#include "apps/kvasir-run/terminal.h"
#include "engine/chat_template.h"
#include "engine/generation.h"

namespace kvasir {
namespace {

struct Flags {
  ModelFlags model;
  SamplerFlags sampler;
  GenerationOptions options;
  std::string system;
};

constexpr std::string_view kHelp =
    "/clear         forget the conversation\n"
    "/system TEXT   forget it and begin with this system message\n"
    "/help          this list\n"
    "/exit          leave (so does Ctrl-D)\n"
    "Ctrl-C stops a reply.\n";

// libedit reads characters: outside a UTF-8 locale it drops every byte above 127.
void use_utf8() {
  if (!std::setlocale(LC_CTYPE, "") || std::string_view(nl_langinfo(CODESET)) != "UTF-8")
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

// The next line a person types, with editing and history on a terminal; nullopt at the end of input.
std::optional<std::string> read_line() {
  if (!isatty(STDIN_FILENO)) {
    std::string line;
    return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
  }
  for (;;) {
    InterruptGuard::clear();
    char* typed = readline("> ");
    if (typed) {
      std::string line(typed);
      std::free(typed);
      if (!line.empty()) add_history(line.c_str());
      return line;
    }
    if (!InterruptGuard::interrupted()) return std::nullopt;
    put("\n");  // Ctrl-C at the prompt only drops the line
  }
}

// One conversation: a sequence that is never run twice, and the tokens of all of it.
class Chat {
 public:
  Chat(Session& session, ChatTemplate chat_template, Sampler sampler, const Flags& flags)
      : session_(session), template_(std::move(chat_template)), sampler_(std::move(sampler)), flags_(flags) {}

  Expected<void> start() {
    KV_TRY(sequence_, session_.model->new_sequence());
    begin(flags_.system);
    return {};
  }

  // False to leave.
  Expected<bool> handle(const std::string& line) {
    if (line == "/exit" || line == "/quit") return false;
    if (line == "/help")
      put(kHelp);
    else if (line == "/clear")
      begin(system_);
    else if (line == "/system" || line.starts_with("/system "))
      begin(line.substr(std::min<size_t>(line.size(), 8)));
    else if (line.starts_with("/"))
      put(fmt::format("{} is no command; /help lists them\n", line));
    else if (!line.empty())
      return reply(line);
    return true;
  }

 private:
  void begin(const std::string& system) {
    system_ = system;
    sequence_->clear();
    history_.clear();
    if (!system.empty()) append(template_.message({"system", system}));
  }
  void append(const std::vector<int32_t>& ids) { history_.insert(history_.end(), ids.begin(), ids.end()); }

  Expected<bool> reply(const std::string& text) {
    const auto before = history_.size();
    append(template_.message({"user", text}));
    append(template_.before_reply());
    if (int64_t(history_.size()) > sequence_->capacity()) {
      put(fmt::format("the conversation would have {} tokens, the context has {}; /clear begins anew\n",
                      history_.size(), sequence_->capacity()));
      history_.resize(before);
      return true;
    }
    bool read = true;
    GenerationEvents events;
    InterruptGuard::clear();
    events.prefill = [](int64_t, int64_t) { return !InterruptGuard::interrupted(); };
    events.text = [&](std::string_view piece) {
      read = read && (piece.empty() || put(piece));
      return read && !InterruptGuard::interrupted();
    };
    KV_TRY(const auto g,
           generate(*session_.model, *sequence_, *session_.tokenizer, sampler_, history_, flags_.options, events));
    append(template_.after_reply(session_.tokenizer->piece(history_.back(), true) == "<|im_end|>"));
    read = read && put(g.finish == FinishReason::cancelled ? " [stopped]\n" : "\n");
    return read;
  }

  Session& session_;
  ChatTemplate template_;
  Sampler sampler_;
  const Flags& flags_;
  std::string system_;
  std::unique_ptr<Sequence> sequence_;
  std::vector<int32_t> history_;
};

Expected<int> run(const Flags& flags) {
  const InterruptGuard guard;
  use_utf8();
  KV_TRY(auto session, open_session(flags.model));
  KV_TRY(auto chat_template, ChatTemplate::create(*session.tokenizer));
  KV_TRY(auto sampler, flags.sampler.sampler(session.model->config().n_vocab));
  Chat chat(session, std::move(chat_template), std::move(sampler), flags);
  KV_TRY_VOID(chat.start());
  if (isatty(STDIN_FILENO)) put(fmt::format("{}  (/help, Ctrl-D leaves)\n", session.model->config().name));
  for (;;) {
    const auto line = read_line();
    if (!line) break;
    KV_TRY(const bool goes_on, chat.handle(*line));
    if (!goes_on) return kExitFine;
  }
  if (isatty(STDIN_FILENO)) put("\n");
  return kExitFine;
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("chat", "Talk with a chat model");
  auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  command->add_option("-n,--max-tokens", flags->options.max_tokens, "tokens of a reply; -1: to the end of the context")
      ->check(CLI::Range(int64_t(-1), int64_t(1) << 40))
      ->capture_default_str();
  command->add_option("--system", flags->system, "the system message");
  flags->sampler.add_to(*command);
  command->footer(
      "Examples:\n"
      "  kvasir-run chat -m model.gguf --temperature 0.7\n"
      "  echo \"What is the capital of Canada?\" | kvasir-run chat -m model.gguf");
  command->callback([flags, &exit_code] {
    const auto code = run(*flags);
    exit_code = code ? *code : report(code.error());
  });
}

}  // namespace kvasir
