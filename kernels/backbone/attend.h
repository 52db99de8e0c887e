// Attention by tiles of 64 positions with a running maximum: what a query gets depends on its own position alone, never
// on the queries beside it. Included by the ops_*.cpp only.
#pragma once
#include "kernels/backbone/backbone.h"
#include "kernels/backbone/lanes.h"

namespace kvasir {
namespace {

// Queries that share each load of a tile: four need 16 accumulators, which only AVX-512 has registers for.
#if defined(__AVX512F__)
inline constexpr int kQueries = 4;
#else
inline constexpr int kQueries = 1;
#endif
inline constexpr int kTileLanes = int(kTilePositions / kLanes);
inline constexpr float kLowest = -3.0e38F;

// Scratch of one query: its weights' sum by lane, then its maximum so far.
struct Running {
  float* sums;
  float* top;
};
Running running(const AttendArgs& a, int64_t query) {
  return {a.state + query * 32, a.state + query * 32 + kLanes};
}

// scores [n][64] of n queries against one tile.
template <int n>
[[gnu::always_inline]] inline void tile_scores(const AttendArgs& a, const float* q, const float* keys,
                                               float (*scores)[kTilePositions]) {
  Lanes acc[n][kTileLanes] = {};
  for (int64_t d = 0; d < a.head_dim; ++d)
    for (int i = 0; i < kTileLanes; ++i) {
      const Lanes k = load(keys + d * kTilePositions + i * kLanes);
      for (int j = 0; j < n; ++j) acc[j][i] = acc[j][i] + q[j * a.head_dim + d] * k;
    }
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < kTileLanes; ++i) store(scores[j] + i * kLanes, acc[j][i]);
}

// Turns scores into weights relative to the new maximum; returns what everything before is to be multiplied by.
[[gnu::always_inline]] inline float tile_weights(float* scores, int64_t n_valid, Running r) {
  Lanes s[kTileLanes];
  Lanes top = splat(r.top[0]);
  for (int i = 0; i < kTileLanes; ++i) {
    s[i] = load(scores + i * kLanes);
    top = max(kLaneIndex + int32_t(i * kLanes) < int32_t(n_valid) ? s[i] : splat(kLowest), top);
  }
  const float new_top = max_of(top);
  float factor[kLanes];
  store(factor, exp_negative(splat(r.top[0]) - new_top));
  r.top[0] = new_top;
  for (int i = 0; i < kTileLanes; ++i) {
    s[i] = kLaneIndex + int32_t(i * kLanes) < int32_t(n_valid) ? exp_negative(s[i] - new_top) : Lanes{};
    store(scores + i * kLanes, s[i]);
  }
  store(r.sums, load(r.sums) * factor[0] + ((s[0] + s[1]) + (s[2] + s[3])));
  return factor[0];
}

// out [n][columns] = out * factor + weights * values, for width * 16 columns.
template <int n, int width>
[[gnu::always_inline]] inline void add_values(const AttendArgs& a, const float* values, int64_t n_valid,
                                              const float* factor, const float (*weights)[kTilePositions], float* out) {
  const int64_t stride = padded(a.head_dim);
  Lanes acc[n][width];
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < width; ++i) acc[j][i] = load(out + j * stride + i * kLanes) * factor[j];
  for (int64_t p = 0; p < n_valid; ++p)
    for (int i = 0; i < width; ++i) {
      const Lanes v = load(values + p * stride + i * kLanes);
      for (int j = 0; j < n; ++j) acc[j][i] = acc[j][i] + weights[j][p] * v;
    }
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < width; ++i) store(out + j * stride + i * kLanes, acc[j][i]);
}

// n queries from `query` on against the tile of positions from tile * 64 on.
template <int n>
void attend_tile(const AttendArgs& a, int64_t query, int64_t tile) {
  const float* keys = a.tiles + tile * a.tile_stride;
  const float* values = keys + a.head_dim * kTilePositions;
  float scores[n][kTilePositions];
  float factor[n];
  int64_t most = 0;
  tile_scores<n>(a, a.q + query * a.head_dim, keys, scores);
  for (int j = 0; j < n; ++j) {
    const int64_t left = a.n_keys[query + j] - tile * kTilePositions;
    const int64_t n_valid = left < kTilePositions ? left : kTilePositions;
    most = n_valid > most ? n_valid : most;
    factor[j] = tile_weights(scores[j], n_valid, running(a, query + j));
  }
  const int64_t stride = padded(a.head_dim);
  float* out = a.out + query * stride;
  int64_t column = 0;
  for (; column + 4 * kLanes <= stride; column += 4 * kLanes)
    add_values<n, 4>(a, values + column, most, factor, scores, out + column);
  for (; column < stride; column += kLanes) add_values<n, 1>(a, values + column, most, factor, scores, out + column);
}

// A group shares a tile only if the tile holds keys for all of it; its stragglers go one by one.
bool all_reach(const AttendArgs& a, int64_t query, int n, int64_t position) {
  for (int j = 0; j < n; ++j)
    if (a.n_keys[query + j] <= position) return false;
  return true;
}

void attend_tile_all(const AttendArgs& a, int64_t tile) {
  const int64_t position = tile * kTilePositions;
  for (int64_t query = 0; query < a.n_queries;) {
    if (query + kQueries <= a.n_queries && all_reach(a, query, kQueries, position)) {
      attend_tile<kQueries>(a, query, tile);
      query += kQueries;
      continue;
    }
    if (a.n_keys[query] > position) attend_tile<1>(a, query, tile);
    ++query;
  }
}

void attend(const AttendArgs& a) {
  const int64_t stride = padded(a.head_dim);
  int64_t most = 0;
  for (int64_t j = 0; j < a.n_queries; ++j) {
    most = a.n_keys[j] > most ? a.n_keys[j] : most;
    __builtin_memset(a.out + j * stride, 0, size_t(stride) * 4);
    const Running r = running(a, j);
    store(r.sums, Lanes{});
    r.top[0] = kLowest;
  }
  for (int64_t tile = 0; tile * kTilePositions < most; ++tile) attend_tile_all(a, tile);
  for (int64_t j = 0; j < a.n_queries; ++j) {
    const float total = sum(load(running(a, j).sums));
    for_lanes(stride, [&](auto get, auto put) { put(a.out + j * stride, get(a.out + j * stride) / total); });
  }
}

}  // namespace
}  // namespace kvasir
