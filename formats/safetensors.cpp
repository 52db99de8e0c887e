// Reads the header of a safetensors file and checks that its tensors tile the data exactly.
#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "core/checked.h"
#include "core/limits.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

// Bytes of one element; 0 for an unknown type.
uint64_t type_bytes(std::string_view dtype) {
  using List = std::initializer_list<std::string_view>;
  const auto is_one_of = [&](List names) { return std::ranges::find(names, dtype) != names.end(); };
  if (is_one_of({"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"})) return 1;
  if (is_one_of({"U16", "I16", "F16", "BF16"})) return 2;
  if (is_one_of({"U32", "I32", "F32"})) return 4;
  if (is_one_of({"U64", "I64", "F64"})) return 8;
  return 0;
}

// The JSON of the header; refuses keys that stand twice in one object and nesting beyond what the format has.
Expected<Json> parse_header(const std::string& path, std::string_view text) {
  constexpr int kMaxDepth = 4;
  std::vector<std::set<std::string>> keys;
  std::string fault;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth && fault.empty()) fault = "it nests deeper than the format does";
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second && fault.empty())
      fault = fmt::format("key \"{}\" stands twice (duplicate)", parsed.get<std::string>());
    return fault.empty();
  };
  // Depth is bounded before the parser sees the text, which it would hold in memory level by level.
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size() && depth <= kMaxDepth; ++i) {
    if (quoted && text[i] == '\\')
      ++i;  // the escaped character, which may be a quote or a backslash
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted)
      depth += text[i] == '{' || text[i] == '[' ? 1 : text[i] == '}' || text[i] == ']' ? -1 : 0;
  }
  if (depth > kMaxDepth) return fail(ErrorCode::malformed, "{}: the header nests deeper than the format does", path);
  auto header = Json::parse(text, watch, false);
  if (!fault.empty()) return fail(ErrorCode::malformed, "{}: in the header, {}", path, fault);
  if (header.is_discarded() || !header.is_object())
    return fail(ErrorCode::malformed, "{}: the header is no JSON object", path);
  return header;
}

// A list of integers that fit 64 unsigned bits; nullopt for anything else.
std::optional<std::vector<uint64_t>> unsigned_list(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<uint64_t> list;
  for (const auto& v : value) {
    if (!v.is_number_unsigned()) return std::nullopt;
    list.push_back(v.get<uint64_t>());
  }
  return list;
}

struct Range {
  uint64_t begin, end;
  std::string name;
};

// One entry of the header: its tensor, inside the n_data bytes at data, and where it lies there.
Expected<SafetensorsTensor> parse_tensor(const std::string& path, const std::string& name, const Json& entry,
                                         const std::byte* data, uint64_t n_data, Range& range) {
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::malformed, "{}: tensor \"{}\": {}", path, name, what);
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    return bad("dtype, shape and data_offsets are expected");
  SafetensorsTensor t;
  t.dtype = entry["dtype"].get<std::string>();
  const auto shape = unsigned_list(entry["shape"]);
  if (!shape) return bad("the shape is no list of whole numbers from 0");
  const auto offsets = unsigned_list(entry["data_offsets"]);
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1] || (*offsets)[1] > n_data)
    return bad(fmt::format("data_offsets are not two rising numbers within the {} bytes of data", n_data));
  range = {(*offsets)[0], (*offsets)[1], name};
  auto bytes = std::optional(type_bytes(t.dtype));
  if (*bytes == 0) return bad(fmt::format("type \"{}\" is unknown", t.dtype));
  for (const auto d : *shape) bytes = bytes ? checked_mul(*bytes, d) : bytes;
  if (!bytes || *bytes != range.end - range.begin)
    return bad(fmt::format("shape and type do not fill its {} bytes", range.end - range.begin));
  t.shape = *shape;
  t.data = data + range.begin;
  t.n_bytes = *bytes;
  return t;
}

// The ranges fill [0, n_data), each beginning where the one before ended.
Expected<void> check_tiling(const std::string& path, std::vector<Range> ranges, uint64_t n_data) {
  std::ranges::sort(ranges, {}, [](const Range& r) { return std::pair(r.begin, r.end); });
  uint64_t at = 0;
  for (const auto& r : ranges) {
    if (r.begin != at)
      return fail(ErrorCode::malformed, "{}: tensor \"{}\" begins at byte {} of the data; {} is expected (tensors {})",
                  path, r.name, r.begin, at, r.begin < at ? "overlap" : "leave a hole");
    at = r.end;
  }
  if (at != n_data) return fail(ErrorCode::malformed, "{}: {} bytes follow the last tensor", path, n_data - at);
  return {};
}

Expected<std::map<std::string, std::string>> parse_metadata(const std::string& path, const Json& entry) {
  if (!entry.is_object()) return fail(ErrorCode::malformed, "{}: __metadata__ is no object", path);
  std::map<std::string, std::string> metadata;
  for (auto item = entry.begin(); item != entry.end(); ++item) {
    if (!item->is_string()) return fail(ErrorCode::malformed, "{}: metadata \"{}\" is no string", path, item.key());
    metadata[item.key()] = item->get<std::string>();
  }
  return metadata;
}

}  // namespace

Expected<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  KV_TRY(auto mapped, MappedFile::open(path));
  SafetensorsFile file(std::move(mapped));
  const auto size = file.file_.size();
  if (size < 8) return fail(ErrorCode::malformed, "{}: no safetensors file: it has {} bytes", path, size);
  uint64_t header_bytes;
  std::memcpy(&header_bytes, file.file_.data(), 8);
  if (header_bytes > std::min(size - 8, kMaxSafetensorsHeader))
    return fail(ErrorCode::malformed,
                "{}: the header claims {} bytes; the file has {} more and at most {} are accepted", path, header_bytes,
                size - 8, kMaxSafetensorsHeader);
  const auto* text = reinterpret_cast<const char*>(file.file_.data()) + 8;
  if (header_bytes == 0 || text[0] != '{')
    return fail(ErrorCode::malformed, "{}: the header does not begin with {{", path);
  KV_TRY(const auto header, parse_header(path, {text, header_bytes}));

  const auto* data = file.file_.data() + 8 + header_bytes;
  const uint64_t n_data = size - 8 - header_bytes;
  std::vector<Range> ranges;
  for (auto item = header.begin(); item != header.end(); ++item) {
    if (item.key() == "__metadata__") {
      KV_TRY(file.metadata_, parse_metadata(path, *item));
      continue;
    }
    KV_TRY(auto tensor, parse_tensor(path, item.key(), *item, data, n_data, ranges.emplace_back()));
    file.tensors_.emplace(item.key(), std::move(tensor));
  }
  KV_TRY_VOID(check_tiling(path, std::move(ranges), n_data));
  return file;
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto t = tensors_.find(name);
  return t == tensors_.end() ? nullptr : &t->second;
}

}  // namespace kvasir
