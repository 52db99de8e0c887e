// Writing to a person.
#include "apps/kvasir-run/terminal.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "apps/kvasir-run/commands.h"

namespace kvasir {
namespace {

// A signal handler can reach nothing else.
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  if (g_interrupted.exchange(true)) _exit(kExitInterrupted);
}

// Somebody made our end of the pipe non-blocking, and it is full.
void wait_until_writable() {
  pollfd p{STDOUT_FILENO, POLLOUT, 0};
  poll(&p, 1, -1);
}

[[noreturn]] void end_for_lost_output(int reason) {
  warn(fmt::format("standard output cannot be written: {}", std::strerror(reason)));
  _exit(kExitFailed);
}

constexpr double kQuietSeconds = 0.5;  // shorter work shows no progress
constexpr double kUpdateSeconds = 0.1;

}  // namespace

int report(const Error& error) {
  warn(error.message);
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::not_found:
    case ErrorCode::malformed:
    case ErrorCode::unsupported:
    case ErrorCode::limit:
    case ErrorCode::io:
      return kExitBadInput;
    case ErrorCode::cancelled:
      return kExitInterrupted;
    case ErrorCode::numeric:
    case ErrorCode::deadline:
    case ErrorCode::unavailable:
      return kExitFailed;
  }
  return kExitFailed;
}

void warn(std::string_view message) {
  fmt::print(stderr, "kvasir-run: {}\n", message);
}

bool put(std::string_view text) {
  while (!text.empty()) {
    const auto n = write(STDOUT_FILENO, text.data(), text.size());
    if (n > 0)
      text.remove_prefix(size_t(n));
    else if (errno == EPIPE)
      return false;
    else if (errno == EAGAIN)
      wait_until_writable();
    else if (errno != EINTR)  // Ctrl-C interrupts a write; that is no reason to lose text
      end_for_lost_output(errno);
  }
  return true;
}

InterruptGuard::InterruptGuard() {
  g_interrupted = false;
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a read that waits for input is woken
  sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
}

bool InterruptGuard::interrupted() {
  return g_interrupted;
}
void InterruptGuard::clear() {
  g_interrupted = false;
}

void Progress::update(double done, double total) {
  if (!isatty(STDERR_FILENO) || seconds_since(start_) < kQuietSeconds) return;
  if (shown_ && done < total && seconds_since(last_) < kUpdateSeconds) return;
  fmt::print(stderr, "\r\x1b[K{} {:3.0f} %", what_, total > 0 ? done / total * 100 : 100.0);
  std::fflush(stderr);
  last_ = Clock::now();
  shown_ = true;
}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace kvasir
