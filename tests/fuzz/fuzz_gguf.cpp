// Any bytes as a GGUF file: opening says yes or no, and after a yes every question has an answer and every tensor's
// bytes can be read.
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/gguf.h"

namespace kvasir {
namespace {

// A file in memory, which Gguf::open takes by a path like any other.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("fuzz", 0)) {
    KV_CHECK(fd_ >= 0 && write(fd_, data, size) == ssize_t(size), "memory for an input");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

void ask_everything(const Gguf& g) {
  volatile uint64_t sum = g.file_bytes() + g.version() + g.alignment();
  for (const auto& e : g.entries()) {
    KV_CHECK(g.find(e.key) == &e, "a key finds its entry");
    sum =
        sum + uint64_t(g.integer(e.key, 0, 100).has_value() + g.real(e.key).has_value() + g.boolean(e.key).has_value() +
                       g.string(e.key).has_value() + g.strings(e.key).has_value() + g.integers(e.key).has_value());
  }
  for (const auto& t : g.tensors()) {
    KV_CHECK(g.find_tensor(t.name) == &t, "a name finds its tensor");
    KV_CHECK(g.tensor(t.name, t.view.n_cols, t.view.n_rows, t.view.n_matrices).has_value(), "a tensor has its shape");
    const int64_t n = t.view.bytes();
    for (int64_t i = 0; i < n; i += 512) sum = sum + uint64_t(t.view.data[i]);
    sum = sum + uint64_t(t.view.data[n - 1]);
    g.drop(t);
  }
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const kvasir::MemoryFile file(data, size);
  if (const auto gguf = kvasir::Gguf::open(file.path()))
    kvasir::ask_everything(*gguf);
  else
    KV_CHECK(gguf.error().message.size() > 20, "a refusal says why");
  return 0;
}
