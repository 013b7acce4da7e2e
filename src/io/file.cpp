#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "pyflame/error.h"
#include "pyflame/io.h"

namespace pyflame::io {

namespace {
std::string directory_of(const std::string& path) {
  size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
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
    case ENOENT:
    case ENOTDIR:
      return "check the path, create the directory first";
    default:
      return "check the path and the disk";
  }
}
}  // namespace

AtomicFile::AtomicFile(const std::string& path, const char* op) : op_(op), path_(resolved(path)) {
  struct stat st;
  if (stat(path_.c_str(), &st) == 0 && !S_ISREG(st.st_mode))
    PF_FAIL(FileError, op, "'", path, "' is ", S_ISDIR(st.st_mode) ? "a directory" : "not a file",
            "; expected the name of a file, new or to be replaced; choose another name");
  static std::atomic<unsigned> serial{0};
  size_t slash = path_.find_last_of('/');
  std::string base = slash == std::string::npos ? path_ : path_.substr(slash + 1);
  PF_CHECK(!base.empty(), FileError, op, "got '", path,
           "'; expected the name of a file; add one to the path");
  for (int attempt = 0;; ++attempt) {
    temporary_ = directory_of(path_) + "/." + base.substr(0, 180) + "." + std::to_string(getpid()) +
                 "." + std::to_string(serial.fetch_add(1)) + ".tmp";
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) break;
    if (errno != EEXIST || attempt > 1000) {
      int error = errno;
      temporary_.clear();
      fail("cannot create a file for", error);
    }
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
    p += n;
    size -= static_cast<size_t>(n);
  }
}

void AtomicFile::commit() {
  if (fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP) fail("cannot sync", errno);
  int closed = close(fd_);
  fd_ = -1;
  if (closed != 0) fail("cannot close", errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename to", errno);
  temporary_.clear();
  int dir = open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) {
    // Some network file systems refuse this; the rename itself has happened.
    (void)!fsync(dir);
    close(dir);
  }
}

ReadFile::ReadFile(const std::string& path, const char* op) : op_(op), path_(path) {
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

void write_file_atomically(const std::string& path, const void* data, size_t size) {
  AtomicFile f(path, "save");
  f.write(data, size);
  f.commit();
}

}  // namespace pyflame::io
