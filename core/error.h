// How failures of the outside world travel: Expected<T>, an Error with a code and a sentence; and KV_CHECK for bugs.
#pragma once
#include <fmt/format.h>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace kvasir {

enum class ErrorCode {
  invalid_argument,  // the caller's or the user's value is not acceptable
  not_found,         // a file, tensor or key that should be there is not
  io,                // the operating system refused a read, write or map
  malformed,         // bytes from outside break their format
  unsupported,       // well-formed, but this build cannot do it
  limit,             // a bound of core/limits.h or of the machine was passed
  numeric,           // a value that must be finite is not
  cancelled,         // the user or the caller asked to stop
  deadline,          // time ran out
  unavailable,       // nobody who could do it is there now
};

// Says what failed, on what, what was expected, what was found and what to do; one sentence, no trailing newline.
struct Error {
  ErrorCode code;
  std::string message;
};

template <class T>
using Expected = tl::expected<T, Error>;

// return fail(ErrorCode::malformed, "{}: version {} is unknown", path, v);
template <class... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// Passes an error up with the context of one more layer: "context: message".
inline tl::unexpected<Error> in_context(std::string_view context, Error error) {
  error.message = fmt::format("{}: {}", context, error.message);
  return tl::unexpected<Error>(std::move(error));
}

// Prints the sentence to stderr and aborts: a broken invariant, never the answer to input.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view what);

}  // namespace kvasir

// Always on, also in release builds. A macro, for the condition's text and the place.
#define KV_CHECK(condition, what) \
  ((condition) ? void(0) : ::kvasir::check_failed(#condition, __FILE__, __LINE__, (what)))

// KV_TRY(auto x, f()); declares x from an Expected or returns its error. A macro, because only it can return.
#define KV_CONCAT_(a, b) a##b
#define KV_CONCAT(a, b) KV_CONCAT_(a, b)
#define KV_TRY_(tmp, declaration, ...)                                      \
  auto tmp = (__VA_ARGS__);                                                 \
  if (!tmp) return tl::unexpected<::kvasir::Error>(std::move(tmp.error())); \
  declaration = std::move(*tmp)
#define KV_TRY(declaration, ...) KV_TRY_(KV_CONCAT(kv_try_, __COUNTER__), declaration, __VA_ARGS__)

// KV_TRY_VOID(f()); returns f's error, or goes on.
#define KV_TRY_VOID(...)                                                    \
  do {                                                                      \
    if (auto kv_result = (__VA_ARGS__); !kv_result)                         \
      return tl::unexpected<::kvasir::Error>(std::move(kv_result.error())); \
  } while (0)
