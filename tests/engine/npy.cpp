// A reader for our own golden files: trusts them, but not blindly.
#include "tests/engine/npy.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace kvasir::testing {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
T number(const std::string& bytes, size_t at) {
  T value;
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

NpyArray parse(const std::string& bytes) {
  REQUIRE(bytes.substr(0, 6) == "\x93NUMPY");
  const size_t data = 10 + number<uint16_t>(bytes, 8);
  const std::string header = bytes.substr(10, data - 10);
  REQUIRE(header.find("'fortran_order': False") != std::string::npos);
  NpyArray array;
  size_t n = 1;
  const size_t open = header.find('(');
  std::istringstream shape(header.substr(open + 1, header.find(')') - open - 1));
  for (std::string part; std::getline(shape, part, ',');) {
    if (part.find_first_of("0123456789") == std::string::npos) continue;
    array.shape.push_back(std::stoll(part));
    n *= size_t(array.shape.back());
  }
  REQUIRE(bytes.size() == data + 4 * n);
  if (header.find("'<f4'") != std::string::npos) {
    array.floats.resize(n);
    std::memcpy(array.floats.data(), bytes.data() + data, 4 * n);
  } else {
    REQUIRE(header.find("'<i4'") != std::string::npos);
    array.integers.resize(n);
    std::memcpy(array.integers.data(), bytes.data() + data, 4 * n);
  }
  return array;
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  return parse(read_file(path));
}

// Local file headers one after the other; sizes are taken from the central directory, which is always right.
std::map<std::string, NpyArray> read_npz(const std::string& path) {
  const std::string bytes = read_file(path);
  const size_t end = bytes.rfind("PK\x05\x06");
  REQUIRE(end != std::string::npos);
  std::map<std::string, NpyArray> arrays;
  size_t at = number<uint32_t>(bytes, end + 16);
  for (int i = 0; i < number<uint16_t>(bytes, end + 10); ++i) {
    REQUIRE(number<uint16_t>(bytes, at + 10) == 0);  // stored
    const auto size = number<uint32_t>(bytes, at + 24), local = number<uint32_t>(bytes, at + 42);
    const auto name_size = number<uint16_t>(bytes, at + 28);
    std::string name = bytes.substr(at + 46, name_size);
    const size_t data = local + 30 + number<uint16_t>(bytes, local + 26) + number<uint16_t>(bytes, local + 28);
    arrays[name.substr(0, name.find(".npy"))] = parse(bytes.substr(data, size));
    at += 46 + size_t(name_size) + number<uint16_t>(bytes, at + 30) + number<uint16_t>(bytes, at + 32);
  }
  return arrays;
}

}  // namespace kvasir::testing
