// The subcommands of kvasir-run. Each adds itself to the command line; what it does sets exit_code.
#pragma once
#include <CLI/CLI.hpp>

namespace kvasir {

// What kvasir-run ends with. 130 is what a shell expects of an interrupted program (128 + SIGINT).
enum ExitCode : int { kExitFine = 0, kExitFailed = 1, kExitBadInput = 2, kExitInterrupted = 130 };

void add_generate(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_perplexity(CLI::App& app, int& exit_code);
void add_logits(CLI::App& app, int& exit_code);

}  // namespace kvasir
