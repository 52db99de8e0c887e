// Typed questions to a model's metadata: what is missing, of another type or out of range is named.
#include <algorithm>

#include "formats/gguf.h"

namespace kvasir {
namespace {

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};

tl::unexpected<Error> missing(const Gguf& g, std::string_view key) {
  return fail(ErrorCode::not_found, "{}: metadata key \"{}\" is missing", g.files()[0].path(), key);
}

tl::unexpected<Error> wrong_type(const Gguf& g, const GgufEntry& e, std::string_view expected) {
  return fail(ErrorCode::malformed, "{}: metadata key \"{}\" is of type {}; {} is expected", g.files()[0].path(), e.key,
              kTypeNames[size_t(e.type)], expected);
}

// As 64 signed bits; nullopt for what is no integer or does not fit.
std::optional<int64_t> as_integer(const GgufValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  if (const auto* u = std::get_if<uint64_t>(&value); u && *u <= uint64_t(INT64_MAX)) return int64_t(*u);
  return std::nullopt;
}

// The optional form of a question: nullopt if the key is absent.
template <class T, class Ask>
Expected<std::optional<T>> if_there(const Gguf& g, std::string_view key, Ask ask) {
  if (!g.find(key)) return std::optional<T>();
  KV_TRY(T value, ask());
  return std::optional<T>(std::move(value));
}

}  // namespace

Expected<int64_t> Gguf::integer(std::string_view key, int64_t min, int64_t max) const {
  const auto* e = find(key);
  if (!e) return missing(*this, key);
  const auto* u = std::get_if<uint64_t>(&e->value);
  const auto value = as_integer(e->value);
  if (!value && !u) return wrong_type(*this, *e, "an integer");
  if (!value || *value < min || *value > max)
    return fail(ErrorCode::malformed, "{}: metadata key \"{}\" is {}; {} to {} is expected", files_[0].path(), key,
                value ? fmt::format("{}", *value) : fmt::format("{}", *u), min, max);
  return *value;
}

Expected<double> Gguf::real(std::string_view key) const {
  const auto* e = find(key);
  if (!e) return missing(*this, key);
  if (const auto* d = std::get_if<double>(&e->value)) return *d;
  if (const auto i = as_integer(e->value)) return double(*i);
  return wrong_type(*this, *e, "a number");
}

Expected<bool> Gguf::boolean(std::string_view key) const {
  const auto* e = find(key);
  if (!e) return missing(*this, key);
  if (const auto* b = std::get_if<bool>(&e->value)) return *b;
  return wrong_type(*this, *e, "bool");
}

Expected<std::string_view> Gguf::string(std::string_view key) const {
  const auto* e = find(key);
  if (!e) return missing(*this, key);
  if (const auto* s = std::get_if<std::string_view>(&e->value)) return *s;
  return wrong_type(*this, *e, "string");
}

Expected<std::span<const std::string_view>> Gguf::strings(std::string_view key) const {
  const auto* e = find(key);
  if (!e) return missing(*this, key);
  const auto* a = std::get_if<GgufArray>(&e->value);
  if (!a || a->type != GgufType::string) return wrong_type(*this, *e, "an array of strings");
  return std::span<const std::string_view>(a->strings);
}

Expected<std::vector<int64_t>> Gguf::integers(std::string_view key) const {
  const auto* e = find(key);
  if (!e) return missing(*this, key);
  if (const auto i = as_integer(e->value)) return std::vector{*i};
  const auto* a = std::get_if<GgufArray>(&e->value);
  if (!a || a->type == GgufType::string || !a->reals.empty()) return wrong_type(*this, *e, "an array of integers");
  std::vector<int64_t> values(a->integers.size());
  std::ranges::transform(a->integers, values.begin(), [](uint64_t u) { return int64_t(u); });
  return values;
}

Expected<std::optional<int64_t>> Gguf::optional_integer(std::string_view key, int64_t min, int64_t max) const {
  return if_there<int64_t>(*this, key, [&] { return integer(key, min, max); });
}
Expected<std::optional<double>> Gguf::optional_real(std::string_view key) const {
  return if_there<double>(*this, key, [&] { return real(key); });
}
Expected<std::optional<bool>> Gguf::optional_boolean(std::string_view key) const {
  return if_there<bool>(*this, key, [&] { return boolean(key); });
}
Expected<std::optional<std::string_view>> Gguf::optional_string(std::string_view key) const {
  return if_there<std::string_view>(*this, key, [&] { return string(key); });
}

}  // namespace kvasir
