// One monotonic clock for deadlines and measurements.
#pragma once
#include <chrono>

namespace kvasir {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

inline double seconds_since(TimePoint start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace kvasir
