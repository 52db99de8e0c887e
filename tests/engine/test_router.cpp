// Choosing experts: MO-01, MO-05 of the list of cases, and ties.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/router.h"
#include "tests/engine/cases.h"

namespace kvasir::testing {
namespace {

struct Choice {
  bool finite = false;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Choice choose(const std::vector<float>& logits, size_t n_used, bool normalise, std::string_view backend = "reference") {
  Choice c;
  c.ids.resize(n_used);
  c.weights.resize(n_used);
  std::vector<float> scratch(logits.size());
  c.finite = route(backbone_ops(backend), logits, normalise, scratch, c.ids, c.weights);
  return c;
}

void hold_to_case(const Json& vectors) {
  REQUIRE(!vectors.empty());
  for (size_t v = 0; v < vectors.size(); ++v) {
    INFO("vector " << v);
    const Json& x = vectors[v];
    const auto found = choose(x["router_logits"], x["top_k"], x["norm_topk_prob"]);
    REQUIRE(found.finite);
    REQUIRE(found.ids == ids_of(x["experts"]));
    for (size_t i = 0; i < found.ids.size(); ++i)
      REQUIRE(std::fabs(double(found.weights[i]) - x["weights"][i].get<double>()) <= 1e-6);
  }
}

}  // namespace

TEST_CASE("router: MO-01, softmax over all experts, then the best, then renormalised where the model says so") {
  hold_to_case(read_case("MO-01", "router_softmax.json"));
}

TEST_CASE("router: MO-05, experts with an id above 255 are reached") {
  hold_to_case(read_case("MO-05", "router_wide.json"));
}

TEST_CASE("router: a tie goes to the lower expert id") {
  REQUIRE(choose({1, 1, 1, 1}, 2, true).ids == std::vector<int32_t>{0, 1});
  REQUIRE(choose({0, 3, 3, 5, 3}, 3, true).ids == std::vector<int32_t>{3, 1, 2});
  REQUIRE(choose({-2, -1, -1, -2}, 4, true).ids == std::vector<int32_t>{1, 2, 0, 3});
  REQUIRE(choose({1, 1, 1, 1}, 2, true).weights == std::vector<float>{0.5F, 0.5F});
}

TEST_CASE("router: all experts, one expert, and logits far apart") {
  REQUIRE(choose({2, 1}, 2, true).ids == std::vector<int32_t>{0, 1});
  REQUIRE(choose({7}, 1, true).weights == std::vector<float>{1});
  const auto far = choose({500, -500, 0}, 2, true);
  REQUIRE(far.ids == std::vector<int32_t>{0, 2});
  REQUIRE(far.weights == std::vector<float>{1, 0});
}

TEST_CASE("router: logits that are not finite are said to be so") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()})
    REQUIRE_FALSE(choose({1, bad, 2}, 2, true).finite);
}

}  // namespace kvasir::testing
