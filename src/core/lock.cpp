#include "core/lock.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace pyflame {
namespace {

// A fork waits so long for kernels of other threads, and then for locks. Past that it goes on: a
// child that may hang later is better than a parent that hangs now.
constexpr int kWorkPatience = 20000, kLockPatience = 5000;  // milliseconds
// So long does a thread let a fork go first that wants all locks. Then it goes on: it may hold one
// that the fork waits for.
constexpr int kPause = 2;

constinit std::mutex g_list_mutex;  // fork: held while forking, by the handlers below
constinit std::mutex g_fork_mutex;  // fork: one at a time
std::atomic<int> g_at_work{0};      // threads, not depths
std::atomic<int> g_closed{0};
constinit thread_local int t_depth = 0;

}  // namespace

namespace detail {

struct Locks {
  static constinit KnownLock* first;
  static std::vector<KnownLock*>& taken() {
    static auto* v = new std::vector<KnownLock*>;
    return *v;
  }
  static void add(KnownLock& l) {
    std::lock_guard lock(g_list_mutex);
    l.next_ = first;
    if (first) first->before_ = &l;
    first = &l;
  }
  static void remove(KnownLock& l) {
    std::lock_guard lock(g_list_mutex);
    (l.before_ ? l.before_->next_ : first) = l.next_;
    if (l.next_) l.next_->before_ = l.before_;
  }
  // All or none: whoever waits for a lock while it holds another cannot be waited for.
  static bool take_all() {
    size_t count = 0;
    for (KnownLock* l = first; l; l = l->next_) ++count;
    try {
      taken().reserve(count);
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (KnownLock* l = first; l; l = l->next_) {
      if (!l->take()) {
        give_all();
        return false;
      }
      taken().push_back(l);
    }
    return true;
  }
  static void give_all() {
    for (KnownLock* l : taken()) l->give();
    taken().clear();
  }
  static void renew_all() {
    for (KnownLock* l : taken()) l->renew();
    taken().clear();
  }
};
constinit KnownLock* Locks::first = nullptr;
constinit std::atomic<bool> g_fork_wants_locks{false};

KnownLock::KnownLock() {
  Locks::add(*this);
}
KnownLock::~KnownLock() {
  Locks::remove(*this);
}

}  // namespace detail

namespace {

template <class F>
bool wait_until(int milliseconds, F&& done) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (!done()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

void before_fork() {
  g_fork_mutex.lock();
  g_closed.store(1);
  const int mine = t_depth > 0 ? 1 : 0;
  wait_until(kWorkPatience, [mine] { return g_at_work.load() <= mine; });
  g_list_mutex.lock();
  detail::g_fork_wants_locks = true;
  wait_until(kLockPatience, [] { return detail::Locks::take_all(); });
}
void open_gate() {
  detail::g_fork_wants_locks = false;
  g_closed.store(0);
  g_closed.notify_all();
  g_list_mutex.unlock();
  g_fork_mutex.unlock();
}
void in_parent() {
  detail::Locks::give_all();
  open_gate();
}
void in_child() {
  detail::Locks::renew_all();
  g_at_work.store(t_depth > 0 ? 1 : 0);
  open_gate();
}
[[maybe_unused]] const int g_handlers = pthread_atfork(before_fork, in_parent, in_child);

// First in, then look: a fork that closes the gate meanwhile sees one of the two.
void go_in() noexcept {
  for (;;) {
    g_at_work.fetch_add(1);
    if (!g_closed.load()) return;
    g_at_work.fetch_sub(1);
    g_closed.wait(1);
  }
}

}  // namespace

void detail::let_fork_go_first() noexcept {
  wait_until(kPause, [] { return !g_fork_wants_locks.load(std::memory_order_relaxed); });
}

void AtWork::enter() noexcept {
  if (t_depth++ == 0) go_in();
}
void AtWork::leave() noexcept {
  if (--t_depth == 0) g_at_work.fetch_sub(1);
}

OffWork::OffWork() noexcept : depth_(t_depth) {
  if (depth_ > 0) g_at_work.fetch_sub(1);
  t_depth = 0;
}
OffWork::~OffWork() {
  if (depth_ > 0) go_in();
  t_depth = depth_;
}

bool wait_for_all_work(int milliseconds) noexcept {
  const int mine = t_depth > 0 ? 1 : 0;
  return wait_until(milliseconds, [mine] { return g_at_work.load() <= mine; });
}

}  // namespace pyflame
