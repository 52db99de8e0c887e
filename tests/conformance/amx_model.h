// Software tiles: the twin of kernels/x86/amx_tile.h, so that the AMX kernels run on machines without AMX.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "kernels/x86/amx_tile.h"

namespace kvasir::conformance {

// Eight tiles in memory. What the CPU would fault on (a shape that does not fit) is a failed check here.
class ModelTiles {
 public:
  explicit ModelTiles(const std::array<amx::TileShape, 8>& shapes) : shapes_(shapes) {
    for (const auto& s : shapes_) KV_CHECK(s.n_rows <= 16 && s.n_bytes <= 64 && s.n_bytes % 4 == 0, "a tile's shape");
  }

  template <int t>
  void zero() {
    tiles_[t] = {};
  }
  template <int t>
  void load(const void* rows, int64_t stride) {
    tiles_[t] = {};
    for (int r = 0; r < shapes_[t].n_rows; ++r)
      std::memcpy(tiles_[t][r].data(), static_cast<const std::byte*>(rows) + r * stride, shapes_[t].n_bytes);
  }
  template <int t>
  void store(void* rows, int64_t stride) {
    for (int r = 0; r < shapes_[t].n_rows; ++r)
      std::memcpy(static_cast<std::byte*>(rows) + r * stride, tiles_[t][r].data(), shapes_[t].n_bytes);
  }
  template <int c, int a, int b>
  void dot_signed() {
    dot<int8_t>(c, a, b);
  }
  template <int c, int a, int b>
  void dot_unsigned() {
    dot<uint8_t>(c, a, b);
  }

 private:
  using Tile = std::array<std::array<uint8_t, 64>, 16>;

  template <class B>
  void dot(int c, int a, int b) {
    const int n_quads = shapes_[b].n_rows, n_cols = shapes_[c].n_bytes / 4;
    KV_CHECK(shapes_[a].n_bytes == 4 * n_quads && shapes_[c].n_rows == shapes_[a].n_rows, "tiles that do not fit");
    KV_CHECK(shapes_[b].n_bytes == 4 * n_cols, "tiles that do not fit");
    for (int m = 0; m < shapes_[c].n_rows; ++m)
      for (int k = 0; k < n_quads; ++k)
        for (int n = 0; n < n_cols; ++n) {
          int32_t sum;
          std::memcpy(&sum, &tiles_[c][m][4 * n], 4);
          for (int i = 0; i < 4; ++i) sum += int8_t(tiles_[a][m][4 * k + i]) * B(tiles_[b][k][4 * n + i]);
          std::memcpy(&tiles_[c][m][4 * n], &sum, 4);
        }
  }

  std::array<amx::TileShape, 8> shapes_;
  std::array<Tile, 8> tiles_{};
};

}  // namespace kvasir::conformance
