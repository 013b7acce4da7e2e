#include "core/limits.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>

#include "core/lock.h"

namespace pyflame {
namespace {

constexpr int64_t kAskAgain = 100;  // milliseconds between looks at the cgroup

bool strict_overcommit() {
  static const bool strict = [] {
    char mode = 0;
    if (FILE* f = std::fopen("/proc/sys/vm/overcommit_memory", "r")) {
      if (std::fread(&mode, 1, 1, f) != 1) mode = 0;
      std::fclose(f);
    }
    return mode == '2';
  }();
  return strict;
}

bool limited(decltype(RLIMIT_AS) which, rlim_t* most) {
  rlimit limit;
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  *most = limit.rlim_cur;
  return true;
}

// 0 for none and for "max".
size_t number_in(const std::string& path) {
  std::ifstream f(path);
  unsigned long long v = 0;
  return f >> v ? static_cast<size_t>(v) : 0;
}
// The number behind a name in a file of such lines.
size_t number_behind(const std::string& path, const char* name) {
  std::ifstream f(path);
  for (std::string line; std::getline(f, line);)
    if (line.rfind(name, 0) == 0 && line[std::strlen(name)] == ' ')
      return static_cast<size_t>(std::strtoull(line.c_str() + std::strlen(name), nullptr, 10));
  return 0;
}

std::string mib(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

int64_t milliseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec * int64_t{1000} + t.tv_nsec / 1000000;
}

}  // namespace

bool mappings_are_counted() {
  rlim_t most;
  return strict_overcommit() || limited(RLIMIT_AS, &most) || limited(RLIMIT_DATA, &most);
}

CgroupMemory cgroup_memory(const std::string& groups, const std::string& root) {
  CgroupMemory r;
  const auto look = [&](const std::string& folder, bool v2) {
    const size_t limit = number_in(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit == 0 || limit >= size_t{1} << 60) return;  // v1 writes "none" so
    size_t used = number_in(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    for (const char* name : {"inactive_file", "active_file"})
      used -= std::min(used, number_behind(folder + "/memory.stat",
                                           v2 ? name : ("total_" + std::string(name)).c_str()));
    const CgroupMemory found{limit, used};
    if (r.limit == 0 || found.left() < r.left()) r = found;
  };
  std::ifstream f(groups);
  for (std::string line; std::getline(f, line);) {
    const size_t a = line.find(':'), b = a == std::string::npos ? a : line.find(':', a + 1);
    if (b == std::string::npos) continue;
    std::string controllers(",");
    controllers.append(line, a + 1, b - a - 1).push_back(',');
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",memory,") == std::string::npos) continue;
    // In a container the root that is seen may be the group itself: the way there then leads
    // nowhere.
    std::string path = line.substr(b + 1);
    for (;;) {
      look(root + (v2 ? "" : "/memory") + (path == "/" ? "" : path), v2);
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
    }
  }
  return r;
}

CgroupMemory cgroup_memory() {
  static Mutex mutex;
  static CgroupMemory known;
  static int64_t next = 0;
  std::lock_guard lock(mutex);
  if (const int64_t now = milliseconds(); now >= next) {
    next = now + kAskAgain;
    try {
      known = cgroup_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    } catch (const std::bad_alloc&) {  // as it was known: who asks does so because memory is short
    }
  }
  return known;
}

std::string memory_limits() {
  std::string r;
  const auto add = [&](const std::string& text) { r += (r.empty() ? "" : ", ") + text; };
  rlim_t most;
  if (limited(RLIMIT_AS, &most)) add(mib(most) + " of addresses (RLIMIT_AS, ulimit -v)");
  if (limited(RLIMIT_DATA, &most)) add(mib(most) + " of data (RLIMIT_DATA, ulimit -d)");
  if (const CgroupMemory c = cgroup_memory(); c.limit)
    add(mib(c.limit) + " in its cgroup, " + mib(c.left()) + " of them left");
  if (strict_overcommit()) add("what the system can promise (vm.overcommit_memory=2)");
  return r;
}

}  // namespace pyflame
