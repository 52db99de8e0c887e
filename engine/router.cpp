// Softmax, insertion into a short sorted list, renormalisation.
#include "engine/router.h"

#include <algorithm>
#include <cmath>

namespace kvasir {

bool route(const BackboneOps& ops, std::span<const float> logits, bool normalise, std::span<float> probabilities,
           std::span<int32_t> ids, std::span<float> weights) {
  // Logits, not probabilities, are compared: exp may round two different logits to one value.
  size_t n = 0;
  for (size_t e = 0; e < logits.size(); ++e) {
    if (!std::isfinite(logits[e])) return false;
    if (n == ids.size() && !(logits[e] > logits[size_t(ids[n - 1])])) continue;
    size_t at = n < ids.size() ? n++ : n - 1;
    for (; at > 0 && logits[e] > logits[size_t(ids[at - 1])]; --at) ids[at] = ids[at - 1];
    ids[at] = int32_t(e);
  }
  ops.softmax(logits.data(), int64_t(logits.size()), probabilities.data());
  float total = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    weights[i] = probabilities[size_t(ids[i])];
    total = total + weights[i];
  }
  if (normalise)
    for (float& w : weights) w = w / total;
  return true;
}

}  // namespace kvasir
