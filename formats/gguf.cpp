// Opens a model's parts and answers questions about them.
#include "formats/gguf.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/limits.h"
#include "formats/gguf_parse.h"

namespace kvasir {
namespace {

// "dir/name-00002-of-00005.gguf" -> prefix "dir/name", part 2 of 5.
struct SplitName {
  std::string prefix;
  uint64_t part = 1, n_parts = 1;
  std::string path(uint64_t i) const { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i, n_parts); }
};

std::optional<uint64_t> five_digits(std::string_view s) {
  uint64_t value = 0;
  for (const char c : s) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + uint64_t(c - '0');
  }
  return value;
}

std::optional<SplitName> split_name(const std::string& path) {
  constexpr std::string_view pattern = "-00002-of-00005.gguf";
  if (path.size() < pattern.size()) return std::nullopt;
  const auto tail = std::string_view(path).substr(path.size() - pattern.size());
  const auto part = five_digits(tail.substr(1, 5)), n_parts = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !part || !n_parts)
    return std::nullopt;
  return SplitName{path.substr(0, path.size() - pattern.size()), *part, *n_parts};
}

const GgufEntry* find_entry(std::span<const GgufEntry> entries, std::string_view key) {
  const auto e = std::ranges::find(entries, key, &GgufEntry::key);
  return e == entries.end() ? nullptr : &*e;
}

// split.no, split.count and split.tensors.count, of any integer type; nullopt if absent or not such a number.
std::optional<uint64_t> split_number(std::span<const GgufEntry> entries, std::string_view key) {
  const auto* e = find_entry(entries, key);
  if (!e) return std::nullopt;
  if (const auto* u = std::get_if<uint64_t>(&e->value)) return *u;
  if (const auto* i = std::get_if<int64_t>(&e->value); i && *i >= 0) return uint64_t(*i);
  return std::nullopt;
}

// The other parts of the model that `first` belongs to: their paths, in order, first's own included.
Expected<std::vector<std::string>> part_paths(const std::string& path, const GgufPart& opened) {
  const auto count = split_number(opened.entries, "split.count").value_or(1);
  if (count <= 1) return std::vector{path};
  if (count > kMaxSplitFiles)
    return fail(ErrorCode::malformed, "{}: key \"split.count\" is {}; at most {} are accepted", path, count,
                kMaxSplitFiles);
  const auto name = split_name(path);
  if (!name || name->n_parts != count)
    return fail(
        ErrorCode::malformed,
        "{}: is one of {} parts (key \"split.count\"), but its name does not end in -0000N-of-{:05}.gguf, so the "
        "others cannot be found; give the parts their names back",
        path, count, count);
  std::vector<std::string> paths;
  for (uint64_t i = 1; i <= count; ++i) paths.push_back(name->path(i));
  std::string missing;
  for (const auto& p : paths)
    if (std::error_code ignored; !std::filesystem::exists(p, ignored)) missing += (missing.empty() ? "" : ", ") + p;
  if (!missing.empty())
    return fail(ErrorCode::not_found, "{}: the model has {} parts, missing: {}", path, count, missing);
  return paths;
}

// What one part says of itself against what it should say.
Expected<void> check_part(const std::string& path, const GgufPart& part, uint64_t index, uint64_t count) {
  if (count == 1) return {};
  const auto no = split_number(part.entries, "split.no"), n = split_number(part.entries, "split.count");
  if (no != index || n != count)
    return fail(ErrorCode::malformed,
                "{}: says it is part {} of {}, but {} of {} is expected (keys \"split.no\", \"split.count\")", path,
                no ? fmt::format("{}", *no + 1) : "none", n ? fmt::format("{}", *n) : "none", index + 1, count);
  return {};
}

template <class Item, class Name>
std::vector<uint32_t> sorted_by(std::span<const Item> items, Name name) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return items[i].*name; });
  return order;
}

template <class Item, class Name>
const Item* find_sorted(std::span<const Item> items, std::span<const uint32_t> order, Name name,
                        std::string_view wanted) {
  const auto i = std::ranges::lower_bound(order, wanted, {}, [&](uint32_t k) { return items[k].*name; });
  return i == order.end() || items[*i].*name != wanted ? nullptr : &items[*i];
}

std::string shape(const TensorView& v) {
  return fmt::format("[{}, {}, {}]", v.n_cols, v.n_rows, v.n_matrices);
}

}  // namespace

Expected<Gguf> Gguf::open(const std::string& path) {
  KV_TRY(auto opened_file, MappedFile::open(path));
  KV_TRY(auto opened, parse_gguf(opened_file));
  KV_TRY(const auto paths, part_paths(path, opened));

  Gguf g;
  g.files_.reserve(paths.size());
  for (const auto& p : paths) {
    const bool is_opened = p == path;
    KV_TRY(auto file, is_opened ? Expected<MappedFile>(std::move(opened_file)) : MappedFile::open(p));
    KV_TRY(auto part, is_opened ? Expected<GgufPart>(std::move(opened)) : parse_gguf(file));
    KV_TRY_VOID(check_part(p, part, g.files_.size(), paths.size()));
    for (auto& t : part.tensors) {
      t.file = g.files_.size();
      g.tensors_.push_back(t);
    }
    if (g.files_.empty()) {
      g.version_ = part.version;
      g.alignment_ = part.alignment;
      g.entries_ = std::move(part.entries);
    }
    g.files_.push_back(std::move(file));
  }
  g.by_key_ = sorted_by(g.entries(), &GgufEntry::key);
  g.by_name_ = sorted_by(g.tensors(), &GgufTensor::name);
  for (size_t i = 1; i < g.by_name_.size(); ++i) {
    const auto &a = g.tensors_[g.by_name_[i - 1]], &b = g.tensors_[g.by_name_[i]];
    if (a.name == b.name)
      return fail(ErrorCode::malformed, "tensor \"{}\" stands twice: in {} at byte {} and in {} at byte {}", a.name,
                  g.files_[a.file].path(), a.offset, g.files_[b.file].path(), b.offset);
  }
  const auto n_expected = split_number(g.entries(), "split.tensors.count");
  if (paths.size() > 1 && n_expected && *n_expected != g.tensors_.size())
    return fail(ErrorCode::malformed, "{}: key \"split.tensors.count\" says {} tensors, the {} parts hold {}", paths[0],
                *n_expected, paths.size(), g.tensors_.size());
  return g;
}

uint64_t Gguf::file_bytes() const {
  uint64_t sum = 0;
  for (const auto& f : files_) sum += f.size();
  return sum;
}

const GgufEntry* Gguf::find(std::string_view key) const {
  return find_sorted(entries(), by_key_, &GgufEntry::key, key);
}
const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  return find_sorted(tensors(), by_name_, &GgufTensor::name, name);
}

Expected<TensorView> Gguf::tensor(std::string_view name, int64_t n_cols, int64_t n_rows, int64_t n_matrices) const {
  const auto* t = find_tensor(name);
  const TensorView expected{QuantType::f32, n_cols, n_rows, n_matrices, nullptr};
  if (!t) return fail(ErrorCode::not_found, "tensor \"{}\" of shape {} is missing", name, shape(expected));
  if (t->view.n_cols != n_cols || t->view.n_rows != n_rows || t->view.n_matrices != n_matrices)
    return fail(ErrorCode::malformed, "tensor \"{}\" has shape {}; {} is expected", name, shape(t->view),
                shape(expected));
  return t->view;
}

void Gguf::drop(const GgufTensor& tensor) const {
  files_[tensor.file].drop(tensor.view.data, uint64_t(tensor.view.bytes()));
}

}  // namespace kvasir
