// Files that are shown as memory, and what happens when somebody else makes one shorter: reading
// the pages that went away would end the process by SIGBUS. They become zeros instead, and the
// operation that read them raises. Of the last page that is left the system itself makes the rest
// zeros, and nobody learns of it. Who takes SIGBUS after the last file was mapped
// (faulthandler.enable()) has it.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace pyflame {

// The first `size` bytes of an open file in memory. Writes go to copies of pages, are none, or go
// to the file, which then gets its room on the disk at once: a page that finds none would be a
// SIGBUS, too.
class MappedFile {
 public:
  enum class Writes { ToCopies, None, ToFile };
  MappedFile(int fd, size_t size, std::string path, const char* op,
             Writes writes = Writes::ToCopies);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_;
  size_t size_;
  std::string path_;
  int slot_;
};

namespace detail {
extern std::atomic<int> g_torn_files;  // mapped files of which pages went away
void check_mapped(const void* address, const char* op);
}  // namespace detail

// Before memory is shown to who reads it by themselves: reads the byte at `last`, where that lies
// in a mapped file, and raises when it, or another page of the file, has gone.
void check_shown(const void* last, const char* op);

// After reading at `address`: FileError when it lies in a mapped file of which pages went away.
inline void check_mapped(const void* address, const char* op) {
  if (detail::g_torn_files.load(std::memory_order_relaxed) > 0) [[unlikely]]
    detail::check_mapped(address, op);
}

}  // namespace pyflame
