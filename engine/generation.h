// From a prompt to a reply: prefill, then one token after the other until something says stop.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/tokenizer/tokenizer.h"

namespace kvasir {

enum class FinishReason {
  stop,       // an end token or a stop string
  length,     // max_tokens, or the context is full
  cancelled,  // a callback said so
};
std::string_view to_string(FinishReason reason);

struct GenerationOptions {
  int64_t max_tokens = -1;        // tokens to generate; -1: until the context is full
  std::vector<std::string> stop;  // the reply ends before the one that is complete first; none is empty
  bool ignore_end = false;        // go on after end tokens
};

// Both may be empty; returning false cancels.
struct GenerationEvents {
  std::function<bool(int64_t done, int64_t total)> prefill;  // prompt tokens, before and after each chunk
  std::function<bool(std::string_view text)> text;  // whole UTF-8 characters; called for each token, also with ""
};

struct Generation {
  std::string text;            // all that was passed to events.text
  std::vector<Sampled> steps;  // one for each token that was generated, the ending one included
  FinishReason finish = FinishReason::length;
  int64_t n_prompt = 0;  // tokens that the prefill ran
  double prefill_s = 0, decode_s = 0;
};

// Splits off what must not be shown yet: text that holds a stop string is cut before it, and an end that could still
// become one is held back.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stop) : stop_(std::move(stop)) {}
  // The text that can be shown now. After stopped() nothing more comes.
  std::string push(std::string_view text);
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

// Runs the tokens of history that sequence has not seen yet (at least one), then generates, appending to history; the
// last token that was generated is in history but not yet in the sequence. Fails with invalid_argument if there is
// nothing to run, with limit if history is longer than the sequence's capacity (both numbers are named), and with
// whatever Model::forward and Sampler::sample say.
Expected<Generation> generate(Model& model, Sequence& sequence, const Tokenizer& tokenizer, Sampler& sampler,
                              std::vector<int32_t>& history, const GenerationOptions& options,
                              const GenerationEvents& events);

}  // namespace kvasir
