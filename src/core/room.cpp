#include "core/room.h"

#include <sys/mman.h>

#include <cstdlib>
#include <exception>
#include <new>

#include "core/limits.h"

namespace pyflame {
namespace {

constinit AtThreadStart* g_first = nullptr;
thread_local bool t_started = false;

// Destructors take 40 bytes each, and what is made takes some hundred.
constexpr size_t kStart = size_t{32} << 10;

}  // namespace

// Libraries touch about one byte of so many that they map.
constexpr size_t kMappedForOne = 8;

Room::Room(size_t bytes) : found_(true) {
  // A cgroup counts what is touched, and ends who touches too much.
  if (const CgroupMemory c = cgroup_memory(); c.limit && c.left() < bytes / kMappedForOne) {
    found_ = false;
    return;
  }
  if (!mappings_are_counted()) return;
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
