// The choice of a table, and the scalar functions that need no table: IEEE 754 defines each of their operations.
#include "kernels/backbone/backbone.h"

#include <bit>
#include <cmath>

#include "kernels/backbone/tables.h"

namespace kvasir {
namespace {

constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits, so that n * kLn2High is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// exp by Taylor's series of degree 13 over |r| <= ln 2 / 2: error below 1e-17. 0 below -700, +inf above 700.
double exp_double(double x) {
  if (std::isnan(x)) return x;
  if (x < -700) return 0;
  if (x > 700) return HUGE_VAL;
  const double n = std::nearbyint(x * 1.4426950408889634);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1;
  for (int i = 13; i > 0; --i) p = p * r / i + 1;
  return p * std::bit_cast<double>(uint64_t(int64_t(n) + 1023) << 52);
}

// log(1 + y), 0 <= y < 2^60: u = 1 + y = 2^e m, and log m = 2 artanh((m - 1) / (m + 1)) by its series.
double log1p_double(double y) {
  const double u = 1 + y;
  const auto bits = std::bit_cast<uint64_t>(u);
  auto e = int64_t(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ~(uint64_t(0x7ff) << 52)) | uint64_t(1023) << 52);
  if (m > 1.4142135623730951) {
    m /= 2;
    ++e;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double p = 0;
  for (int i = 19; i > 0; i -= 2) p = p * s2 + 1.0 / i;
  return double(e) * 0.6931471805599453 + 2 * s * p + (y - (u - 1)) / u;  // the last term: what 1 + y rounded away
}

}  // namespace

float delta_decay(float a, float x) {
  const double softplus = x > 30 ? double(x) : log1p_double(exp_double(x));
  return std::isnan(x) ? x : float(exp_double(double(a) * softplus));
}

float scalar_sigmoid(float x) {
  return float(1 / (1 + exp_double(-double(x))));
}

const BackboneOps& backbone_ops([[maybe_unused]] std::string_view cpu_backend) {
#ifdef KVASIR_HAVE_X86
  if (cpu_backend == "avx512" || cpu_backend == "amx") return backbone_avx512();
  if (cpu_backend.starts_with("avx2")) return backbone_avx2();
#endif
  return backbone_baseline();
}

}  // namespace kvasir
