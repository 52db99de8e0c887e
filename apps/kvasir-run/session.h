// A loaded model with all that belongs to it, and the flags that every command which loads one has.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "core/thread_pool.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/tokenizer/tokenizer.h"

namespace kvasir {

struct ModelFlags {
  std::string path;
  int n_threads = 0;      // set to the cores we may use by add_to
  int64_t n_context = 0;  // 0: the model's own, but at most kDefaultContext
  void add_to(CLI::App& command);
};

struct SamplerFlags {
  SamplerConfig config;
  std::vector<std::string> bias;  // "ID=VALUE"
  void add_to(CLI::App& command);
  Expected<Sampler> sampler(int64_t n_vocab) const;
};

// A prompt from the command line, a file, or standard input.
struct PromptFlags {
  std::string text, file;
  CLI::Option* text_option = nullptr;
  void add_to(CLI::App& command);
  Expected<std::string> read() const;
};

struct Session {
  std::string path;
  std::unique_ptr<Gguf> gguf;  // behind pointers: the model borrows them
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::string_view backend;
  double load_s = 0;
};

// Loads with progress on a terminal; Ctrl-C cancels if an InterruptGuard is in force. Warnings go to stderr.
Expected<Session> open_session(const ModelFlags& flags);

// A whole file, or standard input for "-".
Expected<std::string> read_text(const std::string& path);

}  // namespace kvasir
