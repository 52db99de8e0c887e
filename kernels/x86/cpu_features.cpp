// CPUID leaves 1 and 7 (Intel SDM volume 2, CPUID), XCR0 (volume 1, 13.3), Linux's permission for AMX
// (https://docs.kernel.org/arch/x86/xstate.html).
#include "kernels/x86/cpu_features.h"

#include <cpuid.h>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

namespace kvasir::x86 {
namespace {

struct Features {
  bool avx2, f16c, avx512, vnni, amx_int8;
  uint64_t xcr0;
};

bool bit(uint32_t word, int i) {
  return word >> i & 1;
}

Features read() {
  Features f{};
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) return f;  // OSXSAVE: XCR0 may be read
  f.f16c = bit(c, 29);
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  f.xcr0 = uint64_t(high) << 32 | low;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  f.avx2 = bit(b, 5);
  f.avx512 = bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);  // F, DQ, BW, VL
  f.vnni = bit(c, 11);
  f.amx_int8 = bit(d, 24) && bit(d, 25);  // TILE, INT8
  return f;
}

const Features& features() {
  static const Features f = read();
  return f;
}

// All of these state components are saved by the system.
bool saved(uint64_t components) {
  return (features().xcr0 & components) == components;
}

constexpr uint64_t kYmm = 0b110, kZmm = 0b1110'0110, kTiles = uint64_t(0b11) << 17;

bool permitted_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::string_view missing_for_avx2() {
  if (!features().avx2 || !features().f16c) return "the CPU has no AVX2";
  if (!saved(kYmm)) return "the system does not save the AVX registers";
  return "";
}

std::string_view missing_for_avx512() {
  if (!features().avx512 || !features().f16c) return "the CPU has no AVX-512 (F, BW, DQ, VL)";
  if (!features().vnni) return "the CPU has no AVX-512 VNNI";
  if (!saved(kZmm)) return "the system does not save the AVX-512 registers";
  return "";
}

std::string_view missing_for_amx() {
  if (const auto missing = missing_for_avx512(); !missing.empty()) return missing;
  if (!features().amx_int8) return "the CPU has no AMX-INT8";
  if (!saved(kTiles)) return "the system does not save the AMX tiles";
  static const bool permitted = permitted_tiles();
  return permitted ? "" : "the kernel does not permit AMX to this process";
}

}  // namespace kvasir::x86
