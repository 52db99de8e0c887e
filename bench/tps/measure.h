// Runs a model for the clock: prefill and decode at one setting, with the read bandwidth measured in between.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/model.h"
#include "kernels/read_bandwidth.h"

namespace kvasir {

struct Setting {
  int n_threads = 1;
  int64_t n_sequences = 1;
  int64_t n_prompt = 512;  // tokens of each sequence
  int64_t n_decode = 16;   // steps after it, each of one token per sequence
  int n_repeats = 5;
};

// Of the repeats of one measurement.
struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread_of(std::vector<double> values);

struct Measurement {
  Setting setting;
  Spread prefill_tok_s;       // prompt tokens of all sequences per second
  Spread decode_tok_s;        // generated tokens of all sequences per second
  double bytes_per_step = 0;  // of weights, that one decode step reads; experts chosen twice count once
  Spread decode_bytes_s;      // bytes_per_step by time
  Spread read_bytes_s;        // plain reading by as many threads, measured between the repeats
  Spread decode_share;        // decode_bytes_s over read_bytes_s, repeat by repeat
  uint64_t logits_hash = 0;   // of the last logits of the last repeat: speeds of different results do not compare
};

// pool has setting.n_threads threads and is the model's.
Expected<Measurement> measure(Model& model, ThreadPool& pool, const ReadBandwidth& bandwidth, const Setting& setting);

}  // namespace kvasir
