#include "core/room.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <new>
#include <string>

namespace pyflame {
namespace {

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

constinit AtThreadStart* g_first = nullptr;
thread_local bool t_started = false;

// Destructors take 40 bytes each, and what is made takes some hundred.
constexpr size_t kStart = size_t{32} << 10;

}  // namespace

Room::Room(size_t bytes) : found_(true) {
  rlimit limit;
  if (!strict_overcommit() &&
      (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY))
    return;
  static Mutex mutex;
  turn_ = std::unique_lock(mutex);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  found_ = p != MAP_FAILED;
  if (found_) munmap(p, bytes);
}

AtThreadStart::AtThreadStart(void (*make)()) : make_(make), next_(g_first) {
  g_first = this;
}

void start_thread() {
  if (t_started) return;
  void* volatile p = std::malloc(kStart);
  if (!p) throw std::bad_alloc();
  std::free(p);
  // What a throw needs, and the first may be of bad_alloc. Volatile: the function counts as pure.
  [[maybe_unused]] const volatile int none = std::uncaught_exceptions();
  for (AtThreadStart* a = g_first; a; a = a->next_) a->make_();
  t_started = true;
}

}  // namespace pyflame
