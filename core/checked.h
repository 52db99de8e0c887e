// Arithmetic on numbers that came from outside: every sum and product says whether it fitted.
#pragma once
#include <cstdint>
#include <optional>

namespace kvasir {

// a + b, a * b in 64 unsigned bits; nullopt if the true result does not fit.
inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t r;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t r;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}

// a rounded up to a multiple of step (a power of two); nullopt if that does not fit.
inline std::optional<uint64_t> checked_align(uint64_t a, uint64_t step) {
  auto sum = checked_add(a, step - 1);
  return sum ? std::optional(*sum & ~(step - 1)) : std::nullopt;
}

}  // namespace kvasir
