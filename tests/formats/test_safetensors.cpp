// Safetensors: the vectors open; headers that lie are refused (cases ST-01 to ST-05).
#include <catch2/catch.hpp>
#include <cstring>

#include "formats/safetensors.h"
#include "tests/formats/files.h"

using namespace kvasir;
using namespace kvasir::formats_test;

namespace {

std::string file_of(std::string_view header, std::string_view data = "", uint64_t claimed = ~uint64_t(0)) {
  const uint64_t n = claimed == ~uint64_t(0) ? header.size() : claimed;
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &n, 8);
  return bytes.append(header).append(data);
}

void check_refused(std::string_view header, std::string_view data, const std::string& why) {
  const TemporaryFolder folder;
  const auto file = SafetensorsFile::open(folder.write("x.safetensors", file_of(header, data)));
  INFO(header);
  REQUIRE_FALSE(file.has_value());
  INFO(file.error().message);
  CHECK(file.error().message.find(why) != std::string::npos);
}

}  // namespace

TEST_CASE("safetensors: tensors, shapes and metadata come back") {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x.safetensors",
      file_of(
          R"({"__metadata__":{"a":"b"},"t":{"dtype":"U8","shape":[2,2],"data_offsets":[2,6]},"s":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})",
          "abcdef"));
  const auto file = SafetensorsFile::open(path);
  if (!file) FAIL(file.error().message);
  CHECK(file->metadata().at("a") == "b");
  const auto* t = file->find("t");
  REQUIRE(t);
  CHECK(t->shape == std::vector<uint64_t>{2, 2});
  CHECK(std::memcmp(t->data, "cdef", 4) == 0);
  CHECK(file->find("s")->n_bytes == 2);
  CHECK_FALSE(file->find("u"));
}

TEST_CASE("safetensors: brackets in a string count for nothing, whatever is escaped before them") {
  const TemporaryFolder folder;
  const auto file =
      SafetensorsFile::open(folder.write("x", file_of(R"({"__metadata__":{"a":"\\","b":"\"{{{{{{{{"}})")));
  if (!file) FAIL(file.error().message);
  CHECK(file->metadata().at("a") == "\\");
  CHECK(file->metadata().at("b") == "\"{{{{{{{{");
}

TEST_CASE("safetensors: header lengths that cannot be are refused") {
  const TemporaryFolder folder;
  for (const uint64_t n : {uint64_t(3), uint64_t(100), uint64_t(1) << 40, ~uint64_t(1), ~uint64_t(7)})
    CHECK_FALSE(SafetensorsFile::open(folder.write("x", file_of("{}", "", n))).has_value());
  CHECK_FALSE(SafetensorsFile::open(folder.write("x", "short")).has_value());
  CHECK(SafetensorsFile::open(folder.write("x", file_of("{}"))).has_value());
}

TEST_CASE("safetensors: a header that is no JSON object, nests, or repeats a key is refused") {
  check_refused("[1]", "", "does not begin with {");
  check_refused("{\"a\":", "", "no JSON object");
  check_refused("{\"a\":" + std::string(100000, '['), "", "nests deeper");
  check_refused(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
      "x", "duplicate");
  check_refused(R"({"__metadata__":{"a":1}})", "", "is no string");
  check_refused(R"({"__metadata__":7})", "", "is no object");
}

TEST_CASE("safetensors: ranges that overlap, leave holes or tails, or do not fit their shape are refused") {
  const auto one = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
  };
  check_refused(one("U8", "[1]", "[1,2]"), "xy", "leave a hole");
  check_refused(one("U8", "[1]", "[0,1]"), "xy", "1 bytes follow");
  check_refused(one("U8", "[1]", "[1,0]"), "xy", "rising numbers");
  check_refused(one("U8", "[1]", "[0,99]"), "xy", "rising numbers");
  check_refused(one("F32", "[1000,1000]", "[0,4]"), "wxyz", "do not fill");
  check_refused(one("F32", "[4294967296,4294967296]", "[0,4]"), "wxyz", "do not fill");
  check_refused(one("U8", "[-1]", "[0,1]"), "x", "no list of whole numbers");
  check_refused(one("U8", "[1.0]", "[0,1]"), "x", "no list of whole numbers");
  check_refused(one("Q7", "[1]", "[0,1]"), "x", "\"Q7\" is unknown");
  check_refused(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
      "xyz", "overlap");
}
