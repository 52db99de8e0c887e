// kvasir-run: loads a model and decodes.
#include <csignal>
#include <string>

#include "apps/kvasir-run/commands.h"

int main(int argc, char** argv) {
  // A reader that goes away (| head) ends us by a failed write, quietly, and not by a signal.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app{"Runs Mixture-of-Experts language models from GGUF files, exactly and fast.", "kvasir-run"};
  app.set_version_flag("--version", "kvasir-run " KVASIR_VERSION);
  app.require_subcommand(1);
  app.fallthrough(false);
  app.footer(
      "Examples:\n"
      "  kvasir-run generate -m model.gguf \"The capital of France is\"\n"
      "  kvasir-run chat -m model.gguf\n"
      "  kvasir-run inspect model.gguf\n"
      "Each command has a --help of its own. KVASIR_BACKEND=reference|avx2|avx512|amx forces a kernel target.\n"
      "Exit codes: 0 fine, 1 failed while running, 2 bad input or usage, 130 interrupted.");

  int exit_code = kvasir::kExitFine;
  kvasir::add_generate(app, exit_code);
  kvasir::add_chat(app, exit_code);
  kvasir::add_inspect(app, exit_code);
  kvasir::add_perplexity(app, exit_code);
  kvasir::add_logits(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {  // CLI11's way to say "--help" and "bad flag"
    return app.exit(e) == 0 ? kvasir::kExitFine : kvasir::kExitBadInput;
  }
  return exit_code;
}
