// The loop of one sequence.
#include "engine/generation.h"

#include <algorithm>

#include "core/clock.h"
#include "core/limits.h"

namespace kvasir {
namespace {

// The longest end of text that is the beginning of s.
size_t overlap(std::string_view text, std::string_view s) {
  for (size_t n = std::min(text.size(), s.size() - 1); n > 0; --n)
    if (text.ends_with(s.substr(0, n))) return n;
  return 0;
}

// Runs tokens in chunks; the logits of the last are left in logits. False if a callback cancelled.
Expected<bool> prefill(Model& model, Sequence& sequence, std::span<const int32_t> tokens, std::span<float> logits,
                       const GenerationEvents& events) {
  const auto n = int64_t(tokens.size());
  for (int64_t done = 0; done < n;) {
    if (events.prefill && !events.prefill(done, n)) return false;
    const auto chunk = std::min(kMaxBatchRows, n - done);
    const bool last = done + chunk == n;
    const SequenceTokens entry{&sequence, tokens.subspan(size_t(done), size_t(chunk)),
                               last ? SequenceTokens::Logits::last : SequenceTokens::Logits::none};
    KV_TRY_VOID(model.forward({&entry, 1}, last ? logits : std::span<float>()));
    done += chunk;
  }
  return !events.prefill || events.prefill(n, n);
}

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "";
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return "";
  held_ += text;
  // Of several, the one that is complete first: the same however the text is cut into pieces.
  size_t cut = std::string::npos, end = std::string::npos, hold = 0;
  for (const auto& s : stop_) {
    hold = std::max(hold, overlap(held_, s));
    const auto at = held_.find(s);
    if (at == std::string::npos || std::pair(at + s.size(), at) >= std::pair(end, cut)) continue;
    cut = at;
    end = at + s.size();
  }
  stopped_ = cut != std::string::npos;
  std::string out = held_.substr(0, stopped_ ? cut : held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::finish() {
  return stopped_ ? "" : std::exchange(held_, "");
}

Expected<Generation> generate(Model& model, Sequence& sequence, const Tokenizer& tokenizer, Sampler& sampler,
                              std::vector<int32_t>& history, const GenerationOptions& options,
                              const GenerationEvents& events) {
  const int64_t n_seen = sequence.n_tokens(), n_context = sequence.capacity();
  if (int64_t(history.size()) <= n_seen)
    return fail(ErrorCode::invalid_argument,
                "the prompt is empty and the model has no beginning-of-text token; give some text");
  if (int64_t(history.size()) > n_context)
    return fail(ErrorCode::limit, "the prompt has {} tokens, the context {}; shorten the prompt or raise the context",
                history.size(), n_context);

  Generation g;
  StreamDecoder decoder(tokenizer);
  StopStrings stop(options.stop);
  const auto show = [&](std::string text) {
    g.text += text;
    return !events.text || events.text(text);
  };
  std::vector<float> logits(size_t(model.config().n_vocab));

  const auto start = Clock::now();
  g.n_prompt = int64_t(history.size()) - n_seen;
  KV_TRY(const bool goes_on, prefill(model, sequence, std::span(history).subspan(size_t(n_seen)), logits, events));
  g.prefill_s = seconds_since(start);

  const auto decode_start = Clock::now();
  g.finish = goes_on ? FinishReason::length : FinishReason::cancelled;
  while (goes_on && (options.max_tokens < 0 || int64_t(g.steps.size()) < options.max_tokens)) {
    KV_TRY(auto sampled, sampler.sample(logits, history));
    const int32_t id = sampled.id;
    g.steps.push_back(std::move(sampled));
    history.push_back(id);
    if (!options.ignore_end && tokenizer.is_end(id)) {
      g.finish = FinishReason::stop;
      break;
    }
    const bool wanted = show(stop.push(decoder.push(id)));
    if (stop.stopped()) {
      g.finish = FinishReason::stop;
      break;
    }
    if (!wanted) {
      g.finish = FinishReason::cancelled;
      break;
    }
    const bool more = options.max_tokens < 0 || int64_t(g.steps.size()) < options.max_tokens;
    if (!more || sequence.n_tokens() == n_context) break;
    const SequenceTokens entry{&sequence, {&id, 1}, SequenceTokens::Logits::last};
    KV_TRY_VOID(model.forward({&entry, 1}, logits));
  }
  g.decode_s = seconds_since(decode_start);
  std::string rest = stop.push(decoder.finish());
  rest += stop.finish();
  if (!rest.empty()) show(std::move(rest));
  return g;
}

}  // namespace kvasir
