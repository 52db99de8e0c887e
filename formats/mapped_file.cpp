// Mapping a file, with the system's reason when that fails.
#include "formats/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kvasir {

Expected<MappedFile> MappedFile::open(const std::string& path) {
  // Non-blocking, so that a FIFO that nobody writes to is refused below instead of waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int reason = errno;
    return fail(reason == ENOENT ? ErrorCode::not_found : ErrorCode::io, "{}: cannot be opened: {}", path,
                std::strerror(reason));
  }
  struct stat st {};
  MappedFile file;
  file.path_ = path;
  void* data = MAP_FAILED;
  int reason = 0;
  if (fstat(fd, &st) != 0)
    reason = errno;
  else if (!S_ISREG(st.st_mode))
    reason = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
  else if (st.st_size > 0) {
    data = mmap(nullptr, size_t(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) reason = errno;
  }
  ::close(fd);
  if (reason == EINVAL) return fail(ErrorCode::io, "{}: is no plain file; give the path of a GGUF file", path);
  if (reason) return fail(ErrorCode::io, "{}: cannot be read: {}", path, std::strerror(reason));
  if (st.st_size > 0) {
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = uint64_t(st.st_size);
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(const std::byte* begin, uint64_t n_bytes) const {
  // Whole pages only; a page that a neighbour shares is simply read again when it is needed.
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const auto from = uintptr_t(begin) & ~(page - 1);
  madvise(reinterpret_cast<void*>(from), uintptr_t(begin) + n_bytes - from, MADV_DONTNEED);
}

}  // namespace kvasir
