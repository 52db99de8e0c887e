// tps: tokens per second of prefill and decode, as shares of what the machine's memory delivers in the same run.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/tps/measure.h"
#include "core/clock.h"
#include "kernels/select.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, baseline;
  std::vector<int64_t> prompts{512}, batches{1};
  std::vector<int> threads;
  int64_t n_decode = 32;
  int n_repeats = 5;
  double max_regression = 0.05;
  bool json = false;
};

Json to_json(const Spread& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

Json to_json(const Measurement& m) {
  return {{"threads", m.setting.n_threads},
          {"sequences", m.setting.n_sequences},
          {"prompt_tokens", m.setting.n_prompt},
          {"prefill_tok_s", to_json(m.prefill_tok_s)},
          {"decode_tok_s", to_json(m.decode_tok_s)},
          {"prefill_over_decode", m.prefill_tok_s.median / m.decode_tok_s.median},
          {"bytes_per_step", m.bytes_per_step},
          {"decode_bytes_s", to_json(m.decode_bytes_s)},
          {"read_bytes_s", to_json(m.read_bytes_s)},
          {"decode_share", to_json(m.decode_share)},
          {"logits_hash", fmt::format("{:016x}", m.logits_hash)}};
}

void print_header() {
  fmt::print("{:>7} {:>4} {:>7} | {:>24} | {:>22} {:>7} | {:>8} {:>6} {:>6} {:>19} | {}\n", "threads", "seqs", "prompt",
             "prefill tok/s", "decode tok/s", "x", "MB/step", "GB/s", "read", "share of read", "logits");
}

void print(const Measurement& m) {
  const auto spread = [](const Spread& s, double unit, int digits) {
    return fmt::format("{:.{}f} [{:.{}f} .. {:.{}f}]", s.median / unit, digits, s.min / unit, digits, s.max / unit,
                       digits);
  };
  fmt::print("{:>7} {:>4} {:>7} | {:>24} | {:>22} {:>6.1f}x | {:>8.1f} {:>6.1f} {:>6.1f} {:>19} | {:016x}\n",
             m.setting.n_threads, m.setting.n_sequences, m.setting.n_prompt, spread(m.prefill_tok_s, 1, 0),
             spread(m.decode_tok_s, 1, 1), m.prefill_tok_s.median / m.decode_tok_s.median, m.bytes_per_step / 1e6,
             m.decode_bytes_s.median / 1e9, m.read_bytes_s.median / 1e9, spread(m.decode_share, 0.01, 0) + " %",
             m.logits_hash);
  std::fflush(stdout);
}

// Compares what does not depend on how fast the memory happened to be: decode as share of it, prefill in tok/s.
// Returns the number of regressions beyond the allowed share.
Expected<int> compare(const Json& now, const Options& o) {
  std::ifstream file(o.baseline);
  const auto then = Json::parse(file, nullptr, false);
  if (then.is_discarded() || !then.contains("results"))
    return fail(ErrorCode::invalid_argument, "{}: no baseline; make one with --json > FILE", o.baseline);
  int n_worse = 0, n_compared = 0;
  for (const auto& a : then["results"])
    for (const auto& b : now["results"]) {
      bool same = true;
      for (const auto* key : {"threads", "sequences", "prompt_tokens"})
        same = same && a.value(key, -1) == b.value(key, -2);
      if (!same) continue;
      ++n_compared;
      for (const auto* what : {"prefill_tok_s", "decode_share"}) {
        const double before = a[what].value("median", 0.0), after = b[what].value("median", 0.0);
        const bool worse = after < before * (1 - o.max_regression);
        n_worse += worse;
        fmt::print(stderr, "{} threads, {} sequences, {} tokens: {} {:.4g} -> {:.4g} ({:+.1f} %){}\n",
                   b.value("threads", 0), b.value("sequences", 0), b.value("prompt_tokens", 0), what, before, after,
                   (after / before - 1) * 100, worse ? "  REGRESSION" : "");
      }
    }
  if (n_compared == 0)
    return fail(ErrorCode::invalid_argument, "{}: holds none of these threads, sequences and prompts", o.baseline);
  return n_worse;
}

Expected<int> run(const Options& o) {
  KV_TRY(const auto gguf, Gguf::open(o.model));
  KV_TRY(const auto* backend, select_cpu_backend_from_environment());
  KV_TRY(const auto bandwidth, ReadBandwidth::create());
  int64_t n_context = 0;
  for (const auto n : o.prompts) n_context = std::max(n_context, n + o.n_decode + 2);
  Json report{{"model", o.model}, {"backend", backend->name}, {"results", Json::array()}};
  if (!o.json) fmt::print("{}: backend {}\n", o.model, backend->name);
  for (const int n_threads : o.threads) {
    ThreadPool pool(n_threads);
    const auto start = Clock::now();
    KV_TRY(const auto model, Model::load(gguf, pool, {.backend = backend, .context = n_context, .progress = {}}));
    if (!o.json) {
      fmt::print("loaded by {} threads in {:.1f} s, {:.0f} MB repacked\n", n_threads, seconds_since(start),
                 double(model->packed_bytes()) / 1e6);
      print_header();
    }
    for (const auto n_prompt : o.prompts)
      for (const auto n_sequences : o.batches) {
        KV_TRY(const auto m,
               measure(*model, pool, bandwidth, {n_threads, n_sequences, n_prompt, o.n_decode, o.n_repeats}));
        report["results"].push_back(to_json(m));
        if (!o.json) print(m);
      }
  }
  if (o.json) fmt::print("{}\n", report.dump(1));
  if (o.baseline.empty()) return 0;
  KV_TRY(const int n_worse, compare(report, o));
  return n_worse ? 1 : 0;
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  CLI::App app{"Tokens per second of prefill and decode, with the share of the read bandwidth of the same run.", "tps"};
  kvasir::Options o;
  o.threads = {int(std::max(1U, std::thread::hardware_concurrency()))};
  app.add_option("model", o.model, "GGUF file")->required();
  app.add_option("-p,--prompt", o.prompts, "prompt lengths, tokens")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("-b,--sequences", o.batches, "sequences decoded together")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  app.add_option("-t,--threads", o.threads, "thread counts")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("-n,--decode", o.n_decode, "decode steps a repeat")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("-r,--repeats", o.n_repeats, "repeats of each setting")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", o.json, "print one JSON object");
  app.add_option("--baseline", o.baseline,
                 "JSON of an earlier run: exit 1 if a median is worse by more than --max-regression");
  app.add_option("--max-regression", o.max_regression, "allowed share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.footer(
      "KVASIR_BACKEND forces a kernel target.\n"
      "Examples:\n  tps model.gguf\n  tps model.gguf -t 1,2 -p 64,512 -b 1,4,16\n"
      "  tps model.gguf --json > before.json; tps model.gguf --baseline before.json");
  CLI11_PARSE(app, argc, argv);
  const auto code = kvasir::run(o);
  if (!code) {
    fmt::print(stderr, "tps: {}\n", code.error().message);
    return 2;
  }
  return *code;
}
