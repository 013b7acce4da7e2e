// Locks that outlive fork(), and the gate that a fork waits at.
//
// A child of fork() has the forking thread alone: a lock that another thread held stays taken there
// for ever. So the library's locks are of these types, which know each other; a fork waits until
// nobody works without the GIL (they are through the gate), takes every lock, and gives them back
// in parent and child. tools/lint.sh refuses other mutexes in src/ and python/src/, but not in
// the plug-ins (src/gpu, src/paranoid), which a child does not use.
#pragma once

#include <atomic>
#include <mutex>
#include <new>

namespace pyflame {

namespace detail {

// A fork wants every lock at once: who would take one lets it go first, for a moment. Without that
// a lock which many threads hand around is never seen free.
extern constinit std::atomic<bool> g_fork_wants_locks;
void let_fork_go_first() noexcept;

// A member of the list of all locks.
class KnownLock {
 public:
  KnownLock();
  virtual ~KnownLock();
  KnownLock(const KnownLock&) = delete;
  KnownLock& operator=(const KnownLock&) = delete;
  virtual bool take() = 0;
  virtual void give() = 0;
  // In a child, whose thread has another number than the one that took it.
  virtual void renew() = 0;

 private:
  friend struct Locks;
  KnownLock *next_ = nullptr, *before_ = nullptr;
};

template <class M>
class ForkSafe : private KnownLock {
 public:
  void lock() {
    if (g_fork_wants_locks.load(std::memory_order_relaxed)) [[unlikely]]
      let_fork_go_first();
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  bool try_lock() { return mutex_.try_lock(); }

 private:
  bool take() override { return mutex_.try_lock(); }
  void give() override { mutex_.unlock(); }
  void renew() override { new (&mutex_) M; }
  M mutex_;
};

}  // namespace detail

using Mutex = detail::ForkSafe<std::mutex>;                     // fork: this is the type
using RecursiveMutex = detail::ForkSafe<std::recursive_mutex>;  // fork: and this

// Through the gate: while a thread works on its own, outside the GIL, no fork takes place. May
// nest. Nobody waits for the GIL in here.
class AtWork {
 public:
  AtWork() { enter(); }
  ~AtWork() { leave(); }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  static void enter() noexcept;
  static void leave() noexcept;
};

// The other way: until it ends the thread is outside the gate, however deep it was in. For calls
// into Python, which may wait for the GIL, and may fork.
class OffWork {
 public:
  OffWork() noexcept;
  ~OffWork();
  OffWork(const OffWork&) = delete;
  OffWork& operator=(const OffWork&) = delete;

 private:
  int depth_;
};

// Waits until nobody is at work; false after so many milliseconds.
bool wait_for_all_work(int milliseconds) noexcept;

}  // namespace pyflame
