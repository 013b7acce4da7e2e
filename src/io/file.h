// Writing beside the final name, and reading with positions.
#pragma once

#include <cstdint>
#include <string>

namespace pyflame::io {

// A new file beside `path`. commit() syncs it, gives it its name and syncs the directory; a
// destructor without commit removes it, so a failed write leaves what was there before.
class AtomicFile {
 public:
  AtomicFile(const std::string& path, const char* op);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(const void* data, size_t size);
  void commit();

 private:
  [[noreturn]] void fail(const char* doing, int error);
  const char* op_;
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

// A regular file open for reading.
class ReadFile {
 public:
  ReadFile(const std::string& path, const char* op);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  uint64_t size() const { return size_; }
  void read(uint64_t at, void* to, size_t size) const;  // FileError when the file is too short
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  const char* op_;
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace pyflame::io
