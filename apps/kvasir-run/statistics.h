// What a run cost, for people (one block on stderr) and for machines.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "apps/kvasir-run/session.h"
#include "engine/generation.h"

namespace kvasir {

struct Statistics {
  std::string backend;
  int n_threads = 0;
  double load_s = 0;
  int64_t n_prompt = 0, n_generated = 0;
  double prompt_tok_s = 0, decode_tok_s = 0;  // 0 where nothing ran
  double bytes_per_token = 0;                 // of weights, read by one decoded token
  double decode_bytes_s = 0;
  double read_bytes_s = 0;  // plain reading by as many threads; 0 if it was not measured
  uint64_t rss = 0, rss_peak = 0;
};

// measure_bandwidth takes about half a second and half a gigabyte.
Expected<Statistics> statistics(const Session& session, const Generation& generation, bool measure_bandwidth);

std::string to_text(const Statistics& s);
nlohmann::ordered_json to_json(const Statistics& s);

}  // namespace kvasir
