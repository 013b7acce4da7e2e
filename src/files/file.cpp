#include "files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "files/temporary.h"
#include "pyflame/error.h"

namespace pyflame::files {

namespace {
void check_no_nul(const std::string& path, const char* op) {
  PF_CHECK(path.find('\0') == std::string::npos, ValueError, op,
           "got a path with a NUL in it; expected the name of a file; take it out");
}

// A link keeps pointing where it did: the file behind it is replaced.
std::string resolved(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0 || !S_ISLNK(st.st_mode)) return path;
  char* real = realpath(path.c_str(), nullptr);
  if (!real) return path;
  std::string r(real);
  free(real);
  return r;
}

const char* remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space or choose another place; what stood there before is unchanged";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a directory that you may write to";
    case EFAULT:
      return "a mapped file (mmap=True) became shorter while it was read; load it without mmap";
    case ENOENT:
    case ENOTDIR:
      return "check the path, create the directory first";
    default:
      return "check the path and the disk";
  }
}
}  // namespace

AtomicFile::AtomicFile(const std::string& path, const char* op) : op_(op), path_(resolved(path)) {
  check_no_nul(path, op);
  struct stat st;
  const bool exists = stat(path_.c_str(), &st) == 0;
  if (exists && !S_ISREG(st.st_mode))
    PF_FAIL(FileError, op, "'", path, "' is ", S_ISDIR(st.st_mode) ? "a directory" : "not a file",
            "; expected the name of a file, new or to be replaced; choose another name");
  PF_CHECK(!path_.empty() && path_.back() != '/', FileError, op, "got '", path,
           "'; expected the name of a file; add one to the path");
  sweep_temporaries(path_);
  // Who could not read the old file shall not read the new one.
  fd_ = open_temporary(path_, exists ? static_cast<int>(st.st_mode & 0777) : -1, &temporary_);
  if (fd_ < 0) {
    int error = errno;
    temporary_.clear();
    fail("cannot create a file for", error);
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* doing, int error) {
  PF_FAIL(FileError, op_, doing, " '", path_, "': ", std::strerror(error),
          "; expected a place with enough room that may be written; ", remedy(error));
}

void AtomicFile::write(const void* data, size_t size) {
  auto* p = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::write(fd_, p, std::min(size, size_t{1} << 30));
    if (n < 0) {
      if (errno == EINTR) continue;
      fail("cannot write", errno);
    }
    if (n == 0) fail("cannot write", ENOSPC);
    p += n;
    size -= static_cast<size_t>(n);
  }
}

void AtomicFile::commit(Keep keep) {
  if (keep == Keep::IfPowerFails && fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail("cannot sync", errno);
  // Renamed while it is open: with the descriptor goes the lock, and then anybody may sweep it.
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename to", errno);
  temporary_.clear();
  close(fd_);  // after a sync there is nothing left that could fail
  fd_ = -1;
  if (keep == Keep::IfProcessDies) return;
  int dir = open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) {
    // Some network file systems refuse this; the rename itself has happened.
    (void)!fsync(dir);
    close(dir);
  }
}

ReadFile::ReadFile(const std::string& path, const char* op) : op_(op), path_(path) {
  check_no_nul(path, op);
  // Without O_NONBLOCK, a named pipe would wait for a writer for ever.
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0)
    PF_FAIL(FileError, op, "cannot open '", path, "': ", std::strerror(errno),
            "; expected a file that can be read; check the path");
  struct stat st;
  if (fstat(fd_, &st) != 0 || !S_ISREG(st.st_mode)) {
    bool directory = S_ISDIR(st.st_mode);
    close(fd_);
    fd_ = -1;
    PF_FAIL(FileError, op, "'", path, "' is ", directory ? "a directory" : "not a regular file",
            "; expected a file; check the path");
  }
  size_ = static_cast<uint64_t>(st.st_size);
}

ReadFile::~ReadFile() {
  if (fd_ >= 0) close(fd_);
}

void ReadFile::read(uint64_t at, void* to, size_t size) const {
  auto* p = static_cast<char*>(to);
  while (size > 0) {
    ssize_t n = pread(fd_, p, std::min(size, size_t{1} << 30), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      PF_FAIL(FileError, op_, "cannot read '", path_, "': ", std::strerror(errno),
              "; expected a readable file; check the disk");
    if (n == 0)
      PF_FAIL(FileError, op_, "'", path_, "' became shorter while it was read (wanted ", size,
              " bytes more at byte ", at, "); expected a file that nobody writes to; try again");
    p += n;
    at += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
}

void ReadMemory::read(uint64_t at, void* to, size_t size) const {
  PF_CHECK(at <= size_ && size <= size_ - at, FileError, "load", "'", name_, "' has ", size_,
           " bytes, and ", size, " at byte ", at, " are wanted",
           "; expected all of a saved file; it is cut off");
  std::memcpy(to, data_ + at, size);
}

}  // namespace pyflame::files
