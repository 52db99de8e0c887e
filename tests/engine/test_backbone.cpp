// The backbone's f32 ops: the same bits from every instruction set, the delta rule against double precision.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "kernels/backbone/backbone.h"
#include "tests/engine/cases.h"

namespace kvasir::testing {
namespace {

constexpr uint64_t kSeed = 20261201;

std::vector<float> random_floats(int64_t n, float size, uint64_t seed = kSeed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

// Every table that this machine can run.
std::vector<const BackboneOps*> tables() {
  std::vector<const BackboneOps*> list;
  for (const auto& choice : cpu_backends())
    if (choice.missing.empty() && std::ranges::find(list, &backbone_ops(choice.backend->name)) == list.end())
      list.push_back(&backbone_ops(choice.backend->name));
  return list;
}

// Runs f, which returns what an op wrote, with each table; all must agree in bits.
void same_bits(const std::string& what, const std::function<std::vector<float>(const BackboneOps&)>& f) {
  const auto expected = f(backbone_ops("reference"));
  for (const auto* ops : tables()) {
    const auto found = f(*ops);
    INFO(what << " by " << ops->name);
    REQUIRE(found.size() == expected.size());
    REQUIRE(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0);
  }
}

// One delta run from Json inputs by chunks of `chunk`; returns outputs, and the state in state.
struct DeltaRun {
  std::vector<float> out, state;
};
std::vector<float> rows_of(const Json& rows) {
  std::vector<float> all;
  for (const auto& row : rows)
    for (const auto& v : row) all.push_back(v.get<float>());
  return all;
}

DeltaRun run_delta(const BackboneOps& ops, const Json& in, int64_t d, int64_t chunk, const Json* start) {
  auto q = rows_of(in["q"]);
  const auto k = rows_of(in["k"]), v = rows_of(in["v"]);
  for (float& x : q) x = x / std::sqrt(float(d));
  std::vector<float> decay, beta = in["beta"];
  for (const auto& g : in["g"]) decay.push_back(float(std::exp(g.get<double>())));
  const auto n_tokens = int64_t(beta.size());
  DeltaRun r{std::vector<float>(q.size()), std::vector<float>(size_t(delta_state_floats(d)))};
  for (int64_t key = 0; start && key < d; ++key)
    for (int64_t value = 0; value < d; ++value)
      r.state[size_t(value / 16 * 16 * d + key * 16 + value % 16)] = (*start)[size_t(key)][size_t(value)];
  for (int64_t t = 0; t < n_tokens; t += chunk)
    ops.delta({.dim = d,
               .n_tokens = std::min(chunk, n_tokens - t),
               .q = q.data() + t * d,
               .k = k.data() + t * d,
               .v = v.data() + t * d,
               .stride = d,
               .decay = decay.data() + t,
               .beta = beta.data() + t,
               .gate_stride = 1,
               .state = r.state.data(),
               .out = r.out.data() + t * d,
               .out_stride = d});
  return r;
}

void hold_delta(const DeltaRun& r, const Json& expected, int64_t d, int64_t n_tokens) {
  for (int64_t i = 0; i < d; ++i) {
    REQUIRE(std::fabs(double(r.out[size_t(i)]) - expected["out_first"][size_t(i)].get<double>()) <= 1e-5);
    REQUIRE(std::fabs(double(r.out[size_t((n_tokens - 1) * d + i)]) - expected["out_last"][size_t(i)].get<double>()) <=
            1e-5);
    for (int64_t j = 0; j < d; ++j)
      REQUIRE(std::fabs(double(r.state[size_t(j / 16 * 16 * d + i * 16 + j % 16)]) -
                        expected["S"][size_t(i)][size_t(j)].get<double>()) <= 1e-5);
  }
}

std::vector<float> attend(const BackboneOps& ops, int64_t d, const std::vector<int64_t>& n_keys) {
  const int64_t n_tiles = 4, n_queries = int64_t(n_keys.size());
  const auto tiles = random_floats(n_tiles * tile_floats(d), 1);
  const auto q = random_floats(n_queries * d, 0.3F, kSeed + 1);
  std::vector<float> state(size_t(n_queries * 32)), out(size_t(n_queries * padded(d)));
  ops.attend({.head_dim = d,
              .n_queries = n_queries,
              .q = q.data(),
              .n_keys = n_keys.data(),
              .tiles = tiles.data(),
              .tile_stride = tile_floats(d),
              .state = state.data(),
              .out = out.data()});
  return out;
}

// Softmax attention in double precision, over the same tiles.
double attend_double(int64_t d, int64_t n_keys, int64_t query, int64_t column) {
  const auto tiles = random_floats(4 * tile_floats(d), 1), q = random_floats((query + 1) * d, 0.3F, kSeed + 1);
  double total = 0, value = 0;
  for (int64_t p = 0; p < n_keys; ++p) {
    const float* tile = tiles.data() + p / kTilePositions * tile_floats(d);
    double score = 0;
    for (int64_t i = 0; i < d; ++i)
      score += double(q[size_t(query * d + i)]) * double(tile[i * kTilePositions + p % kTilePositions]);
    const double w = std::exp(score);
    total += w;
    value += w * double(tile[d * kTilePositions + p % kTilePositions * padded(d) + column]);
  }
  return value / total;
}

}  // namespace

TEST_CASE("backbone: every instruction set gives the same bits for ops on rows") {
  for (const int64_t n : {1, 8, 15, 16, 17, 32, 100, 128, 2048, 3072}) {
    const auto x = random_floats(n, 3), y = random_floats(n, 20, kSeed + 1);
    const auto with = [&](auto f) {
      return [&, f](const BackboneOps& ops) {
        auto out = x;
        f(ops, out.data());
        return out;
      };
    };
    INFO("n " << n);
    same_bits("rms_norm", with([&](auto& ops, float* o) { ops.rms_norm(o, y.data(), n, 1e-6F, o); }));
    same_bits("l2_norm", with([&](auto& ops, float* o) { ops.l2_norm(o, n, 1e-6F, 0.125F); }));
    same_bits("rotate", with([&](auto& ops, float* o) { ops.rotate(o, y.data(), y.data(), n / 2); }));
    same_bits("silu_mul", with([&](auto& ops, float* o) { ops.silu_mul(o, y.data(), n); }));
    same_bits("sigmoid_mul", with([&](auto& ops, float* o) { ops.sigmoid_mul(o, y.data(), n); }));
    same_bits("add", with([&](auto& ops, float* o) { ops.add(o, y.data(), n); }));
    same_bits("add_scaled", with([&](auto& ops, float* o) { ops.add_scaled(o, 0.7F, y.data(), n); }));
    same_bits("softmax", with([&](auto& ops, float* o) { ops.softmax(y.data(), n, o); }));
  }
}

TEST_CASE("backbone: every instruction set gives the same bits for attention, delta rule and convolution") {
  for (const int64_t d : {8, 32, 64, 80, 128, 256})
    same_bits("attend", [&](auto& ops) { return attend(ops, d, {1, 2, 63, 64, 65, 100, 128, 129, 200, 256, 256}); });
  for (const int64_t d : {4, 8, 32, 64, 72, 128}) {
    const int64_t n = 9;
    const auto q = random_floats(n * d, 0.1F), gates = random_floats(n, 0.2F);
    std::vector<float> decay;
    for (const float g : gates) decay.push_back(1 / (1 + std::fabs(g)));
    same_bits("delta", [&](const BackboneOps& ops) {
      std::vector<float> state(size_t(delta_state_floats(d))), out(size_t(n * d));
      ops.delta({.dim = d,
                 .n_tokens = n,
                 .q = q.data(),
                 .k = q.data(),
                 .v = q.data(),
                 .stride = d,
                 .decay = decay.data(),
                 .beta = decay.data(),
                 .gate_stride = 1,
                 .state = state.data(),
                 .out = out.data(),
                 .out_stride = d});
      out.insert(out.end(), state.begin(), state.end());
      return out;
    });
    same_bits("conv", [&](const BackboneOps& ops) {
      const auto weights = random_floats(4 * d, 0.5F, kSeed + 2);
      std::vector<float> history(size_t(3 * d), 0.25F), out(size_t(n * d));
      ops.conv({.n_taps = 4,
                .n_channels = d,
                .n_tokens = n,
                .stride = d,
                .weights = weights.data(),
                .in = q.data(),
                .history = history.data(),
                .out = out.data()});
      out.insert(out.end(), history.begin(), history.end());
      return out;
    });
  }
}

TEST_CASE("backbone: a query's attention does not depend on the queries beside it") {
  const std::vector<int64_t> n_keys{7, 64, 65, 65, 65, 65, 130, 1, 255, 256, 256, 256};
  for (const auto* ops : tables()) {
    const auto together = attend(*ops, 32, n_keys);
    for (size_t i = 0; i < n_keys.size(); ++i) {
      // The first i queries see one key only; query i stays where it is.
      auto other = n_keys;
      for (size_t j = 0; j < n_keys.size(); ++j)
        if (j != i) other[j] = 1;
      const auto alone = attend(*ops, 32, other);
      REQUIRE(std::equal(alone.begin() + int64_t(i) * 32, alone.begin() + int64_t(i + 1) * 32,
                         together.begin() + int64_t(i) * 32));
    }
  }
}

TEST_CASE("backbone: attention is that of double precision within 1e-5") {
  const std::vector<int64_t> n_keys{1, 63, 64, 65, 128, 200, 256};
  for (const int64_t d : {8, 64, 80}) {
    const auto found = attend(backbone_ops("reference"), d, n_keys);
    for (size_t i = 0; i < n_keys.size(); ++i)
      for (const int64_t column : {int64_t(0), d - 1})
        REQUIRE(std::fabs(double(found[size_t(int64_t(i) * padded(d) + column)]) -
                          attend_double(d, n_keys[i], int64_t(i), column)) <= 1e-5);
  }
}

TEST_CASE("backbone: NaN is never swallowed") {
  const float nan = std::nanf("");
  for (const auto* ops : tables()) {
    std::vector<float> x(40, 1.0F), gate(40, 1.0F), out(40);
    gate[21] = nan;
    x[21] = 0;
    ops->silu_mul(x.data(), gate.data(), 40);
    REQUIRE(std::isnan(x[21]));
    x[21] = 0;
    ops->sigmoid_mul(x.data(), gate.data(), 40);
    REQUIRE(std::isnan(x[21]));
    ops->softmax(gate.data(), 40, out.data());
    REQUIRE(std::isnan(out[0]));
    ops->rms_norm(gate.data(), x.data(), 40, 1e-6F, out.data());
    REQUIRE(std::isnan(out[0]));
    std::vector<float> tile(size_t(tile_floats(16)), 0.5F), q(16, 1.0F), state(32), to(16);
    tile[5] = nan;  // the key of position 5
    const int64_t n_keys[] = {6};
    ops->attend({.head_dim = 16,
                 .n_queries = 1,
                 .q = q.data(),
                 .n_keys = n_keys,
                 .tiles = tile.data(),
                 .tile_stride = 0,
                 .state = state.data(),
                 .out = to.data()});
    REQUIRE(std::isnan(to[0]));
  }
  REQUIRE(std::isnan(delta_decay(-1, nan)));
  REQUIRE(std::isnan(scalar_sigmoid(nan)));
}

TEST_CASE("backbone: the decay is exp(a * softplus(x)) to the last bit or its neighbour") {
  for (const float a : {-0.001F, -0.6F, -8.0F})
    for (float x = -60; x <= 60; x += 0.37F) {
      const double expected = std::exp(double(a) * (x > 30 ? double(x) : std::log1p(std::exp(double(x)))));
      REQUIRE(std::fabs(double(delta_decay(a, x)) - expected) <= expected * 1.2e-7 + 1e-38);
      const double sigmoid = 1 / (1 + std::exp(-double(x)));
      REQUIRE(std::fabs(double(scalar_sigmoid(x)) - sigmoid) <= sigmoid * 1.2e-7);
    }
}

TEST_CASE("delta rule: HY-03, any chunking gives outputs and state of the step-by-step rule") {
  const Json vectors = read_case("HY-03", "delta_lengths.json");
  for (const auto* ops : tables())
    for (const Json& v : vectors) {
      const int64_t d = v["d"], n_tokens = v["T"];
      const DeltaRun whole = run_delta(*ops, v, d, n_tokens, &v["S0"]);
      INFO("length " << n_tokens);
      hold_delta(whole, v, d, n_tokens);
      for (const int64_t chunk : {1, 2, 31, 32, 33, 64, 65}) {
        const DeltaRun cut = run_delta(*ops, v, d, chunk, &v["S0"]);
        REQUIRE(cut.out == whole.out);
        REQUIRE(cut.state == whole.state);
      }
    }
}

TEST_CASE("delta rule: HY-04, each sequence of a batch gets its result alone") {
  for (const Json& v : read_case("HY-04", "delta_packed.json"))
    for (size_t i = 0; i < v["sequences"].size(); ++i) {
      const int64_t d = v["d"], n_tokens = v["lens"][i];
      hold_delta(run_delta(backbone_ops("reference"), v["sequences"][i], d, n_tokens, nullptr), v["alone"][i], d,
                 n_tokens);
    }
}

}  // namespace kvasir::testing
