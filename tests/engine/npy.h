// Arrays as numpy stores them: .npy, and .npz whose members are stored without compression.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvasir::testing {

// float32 or int32, little endian, C order; the other vector stays empty.
struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<float> floats;
  std::vector<int32_t> integers;
};

// Both fail the test on anything unexpected.
NpyArray read_npy(const std::string& path);
std::map<std::string, NpyArray> read_npz(const std::string& path);

}  // namespace kvasir::testing
