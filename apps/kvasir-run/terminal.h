// What a person at a terminal sees: progress, errors, Ctrl-C.
#pragma once
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/error.h"

namespace kvasir {

// "kvasir-run: message" on stderr; returns the exit code that the error's code deserves.
int report(const Error& error);
void warn(std::string_view message);

// Writes to stdout at once; false if nobody reads any more. Any other failure (a full disk) ends the program with a
// message and kExitFailed: text that is lost must not look like success.
bool put(std::string_view text);

// From its construction to its end, Ctrl-C only sets a flag (a second one while the flag is set ends the program).
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();
  static void clear();
};

// One line on stderr that is written over and over: only on a terminal, and only once the work has taken a while.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)), start_(Clock::now()) {}
  ~Progress();
  void update(double done, double total);

 private:
  std::string what_;
  TimePoint start_;
  TimePoint last_{};
  bool shown_ = false;
};

}  // namespace kvasir
