// Chooses the experts of one row from the router's logits.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/backbone/backbone.h"

namespace kvasir {

// The n_used = ids.size() largest logits win, the lower id on a tie; ids and weights come in descending order. Weights
// are the softmax over all experts, divided by the sum of the chosen ones if normalise (what all architectures here
// do). probabilities [logits.size()] is scratch. False if a logit is not finite.
bool route(const BackboneOps& ops, std::span<const float> logits, bool normalise, std::span<float> probabilities,
           std::span<int32_t> ids, std::span<float> weights);

}  // namespace kvasir
