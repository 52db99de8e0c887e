// Rates from times, memory from /proc.
#include "apps/kvasir-run/statistics.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>

#include "kernels/read_bandwidth.h"

namespace kvasir {
namespace {

// A "VmRSS:  123 kB" line of /proc/self/status, in bytes; 0 where there is none.
uint64_t memory_line(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  return 0;
}

double rate(double n, double seconds) {
  return n > 0 && seconds > 0 ? n / seconds : 0;
}

}  // namespace

Expected<Statistics> statistics(const Session& session, const Generation& g, bool measure_bandwidth) {
  Statistics s;
  s.backend = session.backend;
  s.n_threads = session.pool->n_threads();
  s.load_s = session.load_s;
  s.n_prompt = g.n_prompt;
  s.n_generated = int64_t(g.steps.size());
  s.prompt_tok_s = rate(double(g.n_prompt), g.prefill_s);
  // The first token comes from the prompt's logits: only the others are decoding.
  s.decode_tok_s = rate(double(s.n_generated - 1), g.decode_s);
  s.bytes_per_token = double(session.model->bytes_per_token().total());
  s.decode_bytes_s = s.decode_tok_s * s.bytes_per_token;
  s.rss = memory_line("VmRSS");
  s.rss_peak = memory_line("VmHWM");
  if (measure_bandwidth) {
    KV_TRY(const auto bandwidth, ReadBandwidth::create());
    for (int i = 0; i < 5; ++i) s.read_bytes_s = std::max(s.read_bytes_s, bandwidth.measure(*session.pool));
  }
  return s;
}

std::string to_text(const Statistics& s) {
  std::string text = fmt::format("load     {:10.2f} s\n", s.load_s);
  if (s.n_prompt) text += fmt::format("prompt   {:10.1f} tok/s  ({} tokens)\n", s.prompt_tok_s, s.n_prompt);
  if (s.decode_tok_s > 0)
    text += fmt::format("decode   {:10.1f} tok/s  ({} tokens, {:.1f} MB of weights each, {:.1f} GB/s)\n",
                        s.decode_tok_s, s.n_generated, s.bytes_per_token / 1e6, s.decode_bytes_s / 1e9);
  if (s.read_bytes_s > 0)
    text += fmt::format("memory   {:10.1f} GB/s   plain reading; decoding has {:.0f} % of it\n", s.read_bytes_s / 1e9,
                        s.decode_bytes_s / s.read_bytes_s * 100);
  text += fmt::format("resident {:10.1f} MB     (peak {:.1f})\n", double(s.rss) / 1e6, double(s.rss_peak) / 1e6);
  text += fmt::format("backend  {:>10}        ({} threads)\n", s.backend, s.n_threads);
  return text;
}

nlohmann::ordered_json to_json(const Statistics& s) {
  nlohmann::ordered_json j{{"backend", s.backend},
                           {"threads", s.n_threads},
                           {"load_s", s.load_s},
                           {"prompt_tokens", s.n_prompt},
                           {"generated_tokens", s.n_generated},
                           {"prompt_tok_s", s.prompt_tok_s},
                           {"decode_tok_s", s.decode_tok_s},
                           {"weight_bytes_per_token", s.bytes_per_token},
                           {"decode_bytes_s", s.decode_bytes_s}};
  if (s.read_bytes_s > 0) {
    j["read_bytes_s"] = s.read_bytes_s;
    j["decode_share"] = s.decode_bytes_s / s.read_bytes_s;
  }
  j["rss_bytes"] = s.rss;
  j["rss_peak_bytes"] = s.rss_peak;
  return j;
}

}  // namespace kvasir
