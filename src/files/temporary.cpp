#include "files/temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/lock.h"

namespace pyflame::files {

namespace {

// ".NAME.HOST." of the temporaries for `path`. A long name is cut between characters of UTF-8: all
// must fit into the 255 bytes of a file name.
std::string prefix_of(const std::string& path) {
  size_t slash = path.find_last_of('/');
  std::string base = slash == std::string::npos ? path : path.substr(slash + 1);
  if (base.size() > 140) {
    size_t end = 140;
    while (end > 130 && (static_cast<unsigned char>(base[end]) & 0xC0) == 0x80) --end;
    base.resize(end);
  }
  char host[256] = "host";
  if (gethostname(host, sizeof(host)) != 0) host[0] = 0;
  host[sizeof(host) - 1] = 0;
  std::string name = std::string(host).substr(0, 64);
  for (char& c : name)
    if (c == '/' || c == '.') c = '-';
  return "." + base + "." + name + ".";
}

// Whether `rest` is "PID.SERIAL.tmp".
bool numbers_and_tmp(std::string_view rest) {
  for (int i = 0; i < 2; ++i) {
    size_t digits = rest.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos || rest[digits] != '.') return false;
    rest.remove_prefix(digits + 1);
  }
  return rest == "tmp";
}

bool same_file(int fd, const std::string& path) {
  struct stat open, named;
  return fstat(fd, &open) == 0 && lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

// Whether the lock was taken: false when another process holds it, or there are no locks here.
bool lock_now(int fd) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return false;
  return true;
}

}  // namespace

std::string directory_of(const std::string& path) {
  size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

int open_temporary(const std::string& path, int mode, std::string* name) {
  static std::atomic<unsigned> serial{0};
  const std::string prefix = directory_of(path) + "/" + prefix_of(path) + std::to_string(getpid());
  for (int attempt = 0;; ++attempt) {
    *name = prefix + "." + std::to_string(serial.fetch_add(1)) + ".tmp";
    int fd = open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode < 0 ? 0666 : 0600);
    if (fd < 0) {
      if (errno == EEXIST && attempt < 1000) continue;
      return -1;
    }
    // Somebody who sweeps may have come between: then it is theirs, and we take another name. Where
    // the file system knows no locks nobody gets one, so nobody sweeps.
    if (!lock_now(fd) && errno == EWOULDBLOCK && attempt < 1000) {
      close(fd);
      continue;
    }
    if (!same_file(fd, *name) && attempt < 1000) {
      close(fd);
      continue;
    }
    if (mode >= 0) (void)!fchmod(fd, static_cast<mode_t>(mode));
    return fd;
  }
}

void sweep_temporaries(const std::string& path) noexcept {
  using Clock = std::chrono::steady_clock;
  static auto* mutex = new Mutex;
  static auto* resting = new std::unordered_map<std::string, Clock::time_point>;
  try {
    const std::string directory = directory_of(path), prefix = prefix_of(path);
    const auto begin = Clock::now();
    {
      std::lock_guard lock(*mutex);
      auto it = resting->find(directory);
      if (it != resting->end() && begin < it->second) return;
    }
    DIR* entries = opendir(directory.c_str());
    if (!entries) return;
    std::vector<std::string> found;
    while (const dirent* entry = readdir(entries)) {
      std::string_view name = entry->d_name;
      if (name.starts_with(prefix) && numbers_and_tmp(name.substr(prefix.size())))
        found.push_back(directory + "/" + std::string(name));
    }
    closedir(entries);
    // A folder of very many files is looked through for a hundredth of the time at most.
    if (const auto took = Clock::now() - begin; took > std::chrono::milliseconds(1)) {
      std::lock_guard lock(*mutex);
      if (resting->size() >= 256) resting->clear();
      (*resting)[directory] = begin + 100 * took;
    }
    for (const std::string& name : found) {
      int fd = open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
      if (fd < 0) continue;
      if (lock_now(fd) && same_file(fd, name)) unlink(name.c_str());
      close(fd);
    }
  } catch (...) {  // no memory for a name: another time
  }
}

}  // namespace pyflame::files
