// Writing beside the final name, and reading with positions.
#pragma once

#include <cstdint>
#include <string>

namespace pyflame::files {

// A new file beside `path`. commit() syncs it (but not what can be made again), gives it its name
// and syncs the directory; a destructor without commit removes it, so a failed write leaves what
// was there before. What a killed process left beside the same name is removed first (see
// temporary.h).
class AtomicFile {
 public:
  AtomicFile(const std::string& path, const char* op);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(const void* data, size_t size);
  enum class Keep { IfPowerFails, IfProcessDies };
  void commit(Keep = Keep::IfPowerFails);

 private:
  [[noreturn]] void fail(const char* doing, int error);
  const char* op_;
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

// Bytes with positions, to read from: a file, or memory of the caller.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  virtual void read(uint64_t at, void* to, size_t size) const = 0;  // FileError when too short
  virtual int fd() const { return -1; }                             // what can be mapped, or -1
  virtual const std::string& path() const = 0;
};

// A regular file open for reading.
class ReadFile : public Source {
 public:
  ReadFile(const std::string& path, const char* op);
  ~ReadFile() override;
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  uint64_t size() const override { return size_; }
  void read(uint64_t at, void* to, size_t size) const override;
  int fd() const override { return fd_; }
  const std::string& path() const override { return path_; }

 private:
  const char* op_;
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// Memory of the caller, who keeps it while this lives. `name` stands in errors.
class ReadMemory : public Source {
 public:
  ReadMemory(std::string name, const void* data, uint64_t size)
      : name_(std::move(name)), data_(static_cast<const char*>(data)), size_(size) {}
  uint64_t size() const override { return size_; }
  void read(uint64_t at, void* to, size_t size) const override;
  const std::string& path() const override { return name_; }

 private:
  std::string name_;
  const char* data_;
  uint64_t size_;
};

}  // namespace pyflame::files
