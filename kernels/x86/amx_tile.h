// The AMX-INT8 tile unit of the CPU, as amx_matmul.h uses it. tests/conformance/amx_model.h is its twin in software.
//
// Intrinsics are avoided: g++ 12's lack the memory clobbers, and the optimiser then moves the stores that fill a tile
// or the configuration behind the instruction that reads them.
#pragma once
#include <array>
#include <cstdint>

namespace kvasir::amx {

// The shape of one of the 8 tile registers: rows of at most 64 bytes.
struct TileShape {
  uint8_t n_rows = 16;
  uint8_t n_bytes = 64;
};

// Tile registers 0 ... 7 of this thread while the object lives. The caller has made sure that CPU and kernel permit
// AMX. Tiles are int32 [n_rows][16] or bytes [n_rows][64]; strides are bytes from one row to the next.
class Tiles {
 public:
  explicit Tiles(const std::array<TileShape, 8>& shapes) {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t n_bytes[16] = {};
      uint8_t n_rows[16] = {};
    } config;
    static_assert(sizeof config == 64);
    for (int t = 0; t < 8; ++t) {
      config.n_bytes[t] = shapes[t].n_bytes;
      config.n_rows[t] = shapes[t].n_rows;
    }
    asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  ~Tiles() { asm volatile("tilerelease" ::: "memory"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int t>
  void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(t));
  }
  template <int t>
  void load(const void* rows, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  void store(void* rows, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride), "i"(t) : "memory");
  }
  // Tile c [m][n] += sum over k and i < 4 of a [m][4k + i] * b [k][4n + i], a signed, b signed.
  template <int c, int a, int b>
  void dot_signed() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
  // The same, a signed, b unsigned.
  template <int c, int a, int b>
  void dot_unsigned() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
};

}  // namespace kvasir::amx
