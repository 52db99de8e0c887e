// Reads the header of one GGUF file. Every number from the file is checked before it is used: counts against the bytes
// that are left (each element takes at least one), sums and products for overflow, ranges against the file.
#include "formats/gguf_parse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/checked.h"
#include "core/limits.h"

namespace kvasir {
namespace {

constexpr uint32_t kMagic = 0x46554747;                      // "GGUF"
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;           // key length, a key, type, the smallest value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name length, a name, n_dims, one dimension, type, offset

// Over all arrays of a file: tokens, scores, types and merges of the largest vocabulary. An element takes up to 16
// bytes of memory and as little as one in the file, so the file's size alone does not bound what arrays take.
constexpr uint64_t kMaxArrayElements = 4 * uint64_t(kMaxVocab);

constexpr std::array<std::string_view, 13> kTypeNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                         "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::array<uint64_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};  // string: its length at least

// A position in the file that never passes its end.
class Cursor {
 public:
  explicit Cursor(const MappedFile& file) : file_(file) {}
  uint64_t at() const { return at_; }
  void seek(uint64_t at) { at_ = at; }
  uint64_t left() const { return file_.size() - at_; }

  template <class... Args>
  tl::unexpected<Error> error(uint64_t at, fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::malformed, "{}: at byte {}: {}", file_.path(), at,
                fmt::format(format, std::forward<Args>(args)...));
  }

  template <class T>
  Expected<T> number(std::string_view what) {
    if (left() < sizeof(T)) return error(at_, "the file ends inside {}", what);
    T value;
    std::memcpy(&value, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  // A borrowed run of bytes.
  Expected<const std::byte*> take(uint64_t n, std::string_view what) {
    if (n > left()) return error(at_, "the file ends inside {}", what);
    at_ += n;
    return file_.data() + (at_ - n);
  }

  Expected<std::string_view> string(std::string_view what) {
    KV_TRY(const auto length, number<uint64_t>(what));
    if (length > left())
      return error(at_ - 8, "{} claims {} bytes, but the file has only {} more", what, length, left());
    const auto* begin = reinterpret_cast<const char*>(file_.data()) + at_;
    at_ += length;
    return std::string_view(begin, length);
  }

 private:
  const MappedFile& file_;
  uint64_t at_ = 0;
};

uint64_t widen(GgufType type, const std::byte* p) {
  const auto load = [p]<class T>(T value) {
    std::memcpy(&value, p, sizeof value);
    return uint64_t(int64_t(value));  // sign-extended for the signed, value-preserving for the others
  };
  switch (type) {
    case GgufType::u8:
      return load(uint8_t());
    case GgufType::i8:
      return load(int8_t());
    case GgufType::u16:
      return load(uint16_t());
    case GgufType::i16:
      return load(int16_t());
    case GgufType::u32:
      return load(uint32_t());
    case GgufType::i32:
      return load(int32_t());
    case GgufType::boolean:
      return load(uint8_t());
    default:
      return load(uint64_t());
  }
}

double widen_real(GgufType type, const std::byte* p) {
  if (type == GgufType::f32) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
  double value;
  std::memcpy(&value, p, 8);
  return value;
}

bool is_real(GgufType type) {
  return type == GgufType::f32 || type == GgufType::f64;
}
bool is_signed(GgufType type) {
  return type == GgufType::i8 || type == GgufType::i16 || type == GgufType::i32 || type == GgufType::i64;
}

// The least that an element takes in the file: a string has its length.
uint64_t type_bytes(GgufType type) {
  return kTypeBytes[size_t(type)];
}

bool is_printable(std::string_view s) {
  return std::ranges::none_of(s, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string type_list() {
  std::string list;
  for (const auto& t : quant_types()) list += fmt::format("{}{}", list.empty() ? "" : " ", t.name);
  return list;
}

class Parser {
 public:
  explicit Parser(const MappedFile& file) : file_(file), in_(file) {}

  Expected<GgufPart> parse() {
    uint64_t n_tensors = 0, n_entries = 0;
    KV_TRY_VOID(header(n_tensors, n_entries));
    part_.entries.reserve(n_entries);
    for (uint64_t i = 0; i < n_entries; ++i) KV_TRY_VOID(entry(i, n_entries));
    KV_TRY_VOID(unique_keys());
    KV_TRY_VOID(alignment());
    part_.tensors.reserve(n_tensors);
    for (uint64_t i = 0; i < n_tensors; ++i) KV_TRY_VOID(tensor(i, n_tensors));
    KV_TRY_VOID(no_uncounted_tensor(n_tensors));
    KV_TRY_VOID(place_tensors());
    return std::move(part_);
  }

 private:
  Expected<void> header(uint64_t& n_tensors, uint64_t& n_entries) {
    if (file_.size() < 4) return in_.error(0, "no GGUF file: it has {} bytes", file_.size());
    KV_TRY(const auto magic, in_.number<uint32_t>("the magic number"));
    if (magic != kMagic) {
      const auto* p = reinterpret_cast<const unsigned char*>(file_.data());
      return in_.error(0, "no GGUF file: it begins with bytes {:02x} {:02x} {:02x} {:02x} where \"GGUF\" is expected",
                       p[0], p[1], p[2], p[3]);
    }
    KV_TRY(part_.version, in_.number<uint32_t>("the version"));
    if (part_.version != 0 && (part_.version & 0xffff) == 0)
      return in_.error(4, "version {} is version {} in big-endian order; convert the file to little-endian",
                       part_.version, __builtin_bswap32(part_.version));
    if (part_.version != 2 && part_.version != 3)
      return in_.error(4, "GGUF version {} is unknown; versions 2 and 3 are read", part_.version);
    KV_TRY(n_tensors, in_.number<uint64_t>("the tensor count"));
    KV_TRY(n_entries, in_.number<uint64_t>("the metadata count"));
    if (n_entries > std::min(kMaxMetadata, in_.left() / kMinEntryBytes))
      return in_.error(16, "{} metadata entries cannot be in the {} bytes that are left (at most {} are accepted)",
                       n_entries, in_.left(), kMaxMetadata);
    if (n_tensors > std::min(kMaxTensors, in_.left() / kMinTensorBytes))
      return in_.error(8, "{} tensors cannot be in the {} bytes that are left (at most {} are accepted)", n_tensors,
                       in_.left(), kMaxTensors);
    return {};
  }
  Expected<void> entry(uint64_t i, uint64_t n) {
    GgufEntry e;
    e.offset = in_.at();
    KV_TRY(e.key, in_.string(fmt::format("the key of metadata entry {} of {}", i + 1, n)));
    if (e.key.empty() || e.key.size() > kMaxMetadataKey)
      return in_.error(e.offset, "metadata entry {} of {} has a key of {} bytes; 1 to {} are allowed", i + 1, n,
                       e.key.size(), kMaxMetadataKey);
    if (!is_printable(e.key)) return in_.error(e.offset, "metadata entry {} of {} has a key that is no text", i + 1, n);
    KV_TRY(e.type, value_type(e.key));
    if (e.type == GgufType::array) {
      KV_TRY(e.value, array(e.key));
    } else if (e.type == GgufType::string) {
      KV_TRY(e.value, in_.string(fmt::format("the value of key \"{}\"", e.key)));
    } else {
      KV_TRY(const auto* p, in_.take(type_bytes(e.type), e.key));
      if (is_real(e.type))
        e.value = widen_real(e.type, p);
      else if (is_signed(e.type))
        e.value = int64_t(widen(e.type, p));
      else if (e.type != GgufType::boolean)
        e.value = widen(e.type, p);
      else if (widen(e.type, p) <= 1)
        e.value = widen(e.type, p) == 1;
      else
        return in_.error(in_.at() - 1, "key \"{}\" is a bool of value {}; 0 or 1 is expected", e.key, widen(e.type, p));
    }
    part_.entries.push_back(std::move(e));
    return {};
  }

  Expected<GgufType> value_type(std::string_view key) {
    const auto at = in_.at();
    KV_TRY(const auto number, in_.number<uint32_t>(fmt::format("the type of key \"{}\"", key)));
    if (number >= kTypeNames.size())
      return in_.error(at, "key \"{}\" has value type {}; 0 to {} are known", key, number, kTypeNames.size() - 1);
    return GgufType(number);
  }

  Expected<GgufArray> array(std::string_view key) {
    GgufArray a;
    KV_TRY(a.type, value_type(key));
    if (a.type == GgufType::array) return in_.error(in_.at() - 4, "key \"{}\" is an array of arrays", key);
    const auto at = in_.at();
    KV_TRY(const auto n, in_.number<uint64_t>(fmt::format("the length of array \"{}\"", key)));
    const auto each = type_bytes(a.type);
    if (n > in_.left() / each)
      return in_.error(at, "array \"{}\" claims {} elements of {}, which cannot be in the {} bytes that are left", key,
                       n, kTypeNames[size_t(a.type)], in_.left());
    if (n > kMaxArrayElements - n_array_elements_)
      return in_.error(at, "array \"{}\" has {} elements; the arrays of a file may have {} together", key, n,
                       kMaxArrayElements);
    n_array_elements_ += n;
    if (a.type == GgufType::string) {
      a.strings.reserve(n);
      for (uint64_t i = 0; i < n; ++i) {
        KV_TRY(const auto s, in_.string(key));
        a.strings.push_back(s);
      }
      return a;
    }
    KV_TRY(const auto* p, in_.take(n * each, key));
    if (is_real(a.type)) {
      a.reals.resize(n);
      for (uint64_t i = 0; i < n; ++i) a.reals[i] = widen_real(a.type, p + i * each);
    } else {
      a.integers.resize(n);
      for (uint64_t i = 0; i < n; ++i) a.integers[i] = widen(a.type, p + i * each);
      const auto odd = std::ranges::find_if(a.integers, [](uint64_t value) { return value > 1; });
      if (a.type == GgufType::boolean && odd != a.integers.end())
        return in_.error(at + 8 + uint64_t(odd - a.integers.begin()),
                         "array \"{}\" has a bool of value {}; 0 or 1 is expected", key, *odd);
    }
    return a;
  }

  Expected<void> unique_keys() {
    std::vector<uint32_t> order(part_.entries.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](uint32_t i) { return part_.entries[i].key; });
    for (size_t i = 1; i < order.size(); ++i) {
      const auto &a = part_.entries[order[i - 1]], &b = part_.entries[order[i]];
      if (a.key == b.key) return in_.error(b.offset, "key \"{}\" stands twice, first at byte {}", b.key, a.offset);
    }
    return {};
  }

  Expected<void> alignment() {
    const auto e = std::ranges::find(part_.entries, "general.alignment", &GgufEntry::key);
    if (e == part_.entries.end()) return {};
    const auto* value = std::get_if<uint64_t>(&e->value);
    if (e->type != GgufType::u32 || !value)
      return in_.error(e->offset, "key \"general.alignment\" is of type {}; u32 is expected",
                       kTypeNames[size_t(e->type)]);
    if (!std::has_single_bit(*value) || *value < kMinAlignment || *value > kMaxAlignment)
      return in_.error(e->offset, "key \"general.alignment\" is {}; a power of two from {} to {} is expected", *value,
                       kMinAlignment, kMaxAlignment);
    part_.alignment = *value;
    return {};
  }

  Expected<void> tensor(uint64_t i, uint64_t n) {
    const auto at = in_.at();
    GgufTensor t;
    KV_TRY(t.name, in_.string(fmt::format("the name of tensor {} of {}", i + 1, n)));
    if (t.name.empty() || t.name.size() > kMaxTensorName)
      return in_.error(at, "tensor {} of {} has a name of {} bytes; 1 to {} are allowed", i + 1, n, t.name.size(),
                       kMaxTensorName);
    if (!is_printable(t.name)) return in_.error(at, "tensor {} of {} has a name that is no text", i + 1, n);
    KV_TRY(const auto n_dims, in_.number<uint32_t>(t.name));
    if (n_dims < 1 || n_dims > 4)
      return in_.error(at, "tensor \"{}\" has {} dimensions; 1 to 4 are expected", t.name, n_dims);
    std::array<uint64_t, 4> dims = {1, 1, 1, 1};
    uint64_t n_elements = 1;
    for (uint32_t d = 0; d < n_dims; ++d) {
      KV_TRY(dims[d], in_.number<uint64_t>(t.name));
      const auto product = checked_mul(n_elements, dims[d]);
      if (dims[d] == 0 || !product || *product > uint64_t(INT64_MAX))
        return in_.error(at, "tensor \"{}\": dimension {} is {}; 1 or more is expected, and a product below 2^63",
                         t.name, d, dims[d]);
      n_elements = *product;
    }
    KV_TRY(const auto type, in_.number<uint32_t>(t.name));
    KV_TRY(t.offset, in_.number<uint64_t>(t.name));
    const auto known = quant_type_from_gguf(type);
    if (!known)
      return in_.error(
          at, "tensor \"{}\" has type number {}, which kvasir does not compute with; requantise it to one of: {}",
          t.name, type, type_list());
    const auto block = uint64_t(info(*known).block);
    if (dims[0] % block != 0)
      return in_.error(at, "tensor \"{}\" has rows of {} elements; {} needs a multiple of {}", t.name, dims[0],
                       info(*known).name, block);
    if (!checked_mul(n_elements / block, uint64_t(info(*known).block_bytes)))
      return in_.error(at, "tensor \"{}\" has {} elements, more bytes than 64 bits count", t.name, n_elements);
    t.n_dims = int(n_dims);
    t.view = {*known, int64_t(dims[0]), int64_t(dims[1]), int64_t(dims[2] * dims[3]), nullptr};
    part_.tensors.push_back(t);
    return {};
  }

  // A count that is one too low leaves a whole record where padding is expected, and shifts all data.
  Expected<void> no_uncounted_tensor(uint64_t n_tensors) {
    const auto end = in_.at();
    const bool follows = tensor(n_tensors, n_tensors + 1).has_value();
    in_.seek(end);
    if (!follows) return {};
    return in_.error(end, "the file counts {} tensors, but another one follows: \"{}\"", n_tensors,
                     part_.tensors.back().name);
  }

  // Turns offsets into pointers: aligned, inside the file, one after another with nothing but padding between.
  Expected<void> place_tensors() {
    const auto data_begin = checked_align(in_.at(), part_.alignment);
    KV_CHECK(data_begin.has_value(), "a position in a file fits");
    for (auto& t : part_.tensors) {
      if (t.offset % part_.alignment != 0)
        return in_.error(*data_begin,
                         "tensor \"{}\" has offset {} from here; a multiple of the alignment {} is expected", t.name,
                         t.offset, part_.alignment);
      const auto bytes =
          uint64_t(t.view.n_elements()) / uint64_t(info(t.view.type).block) * uint64_t(info(t.view.type).block_bytes);
      const auto begin = checked_add(*data_begin, t.offset);
      const auto end = begin ? checked_add(*begin, bytes) : std::nullopt;
      if (!end || *end > file_.size())
        return in_.error(*data_begin,
                         "tensor \"{}\" ({} bytes at offset {} from here) ends beyond the file, which has {} bytes; "
                         "the file is cut short or damaged, fetch it again",
                         t.name, bytes, t.offset, file_.size());
      t.offset = *begin;
      t.view.data = file_.data() + *begin;
    }
    std::ranges::stable_sort(part_.tensors, {}, &GgufTensor::offset);
    uint64_t expected = *data_begin;
    for (size_t i = 0; i < part_.tensors.size(); ++i) {
      const auto& t = part_.tensors[i];
      if (t.offset != expected)
        return in_.error(t.offset, "tensor \"{}\" {} \"{}\": its data should begin at byte {}", t.name,
                         t.offset < expected ? "overlaps" : "leaves a gap after",
                         i ? part_.tensors[i - 1].name : std::string_view("the header"), expected);
      expected = *checked_align(t.offset + uint64_t(t.view.bytes()), part_.alignment);
    }
    return {};
  }

  const MappedFile& file_;
  Cursor in_;
  GgufPart part_;
  uint64_t n_array_elements_ = 0;
};

}  // namespace

Expected<GgufPart> parse_gguf(const MappedFile& file) {
  return Parser(file).parse();
}

}  // namespace kvasir
