// Arrays whose surroundings are watched: a page that faults right behind the last element, canary bytes before the
// first, and elements that start as canaries.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace kvasir::conformance {

inline constexpr uint8_t kCanary = 0xA5;

// n_bytes bytes that end at a page nobody may touch, or up to align - 1 bytes before it. All start as kCanary.
class GuardedBytes {
 public:
  GuardedBytes(int64_t n_bytes, int64_t align);
  std::byte* data() const { return data_; }
  bool intact() const;  // the canaries around the bytes are as they were

 private:
  struct Unmap {
    int64_t n_bytes;
    void operator()(std::byte* begin) const;
  };
  std::unique_ptr<std::byte, Unmap> map_;
  std::byte* data_;
  int64_t n_bytes_;
  int64_t readable_;  // bytes from the start of the map to the guard page
};

template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t n, int64_t align = alignof(T)) : bytes_(n * int64_t(sizeof(T)), align), size_(n) {}

  T* data() const { return reinterpret_cast<T*>(bytes_.data()); }
  int64_t size() const { return size_; }
  T& operator[](int64_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  bool intact() const { return bytes_.intact(); }
  // True if element i still holds the canary.
  bool untouched(int64_t i) const {
    T canary;
    std::memset(static_cast<void*>(&canary), kCanary, sizeof canary);
    return std::memcmp(data() + i, &canary, sizeof canary) == 0;
  }

 private:
  GuardedBytes bytes_;
  int64_t size_;
};

}  // namespace kvasir::conformance
