// Locks and fork(): what other threads hold is free in a child.
#include "core/lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace pyflame {
namespace {

// Runs fn in a child that ends after 20 s at the latest; true when it came back.
template <class F>
bool in_child(F&& fn) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    fn();
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0;
}

template <class M>
void held_by_another_thread() {
  M first, second;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!stop) {
        std::lock_guard a(first);
        std::lock_guard b(second);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    });
  for (int i = 0; i < 40; ++i)
    EXPECT_TRUE(in_child([&] {
      for (int k = 0; k < 3; ++k) {
        std::lock_guard b(second);
        std::lock_guard a(first);
      }
    }));
  stop = true;
  for (auto& t : threads) t.join();
  std::lock_guard a(first);
}

TEST(Lock, AMutexIsFreeInAChild) {
  held_by_another_thread<Mutex>();
}
TEST(Lock, ARecursiveMutexIsFreeInAChild) {
  held_by_another_thread<RecursiveMutex>();
}

TEST(Lock, AForkWaitsForWork) {
  std::atomic<int> phase{0};
  std::thread worker([&] {
    AtWork here;
    phase = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    phase = 2;
  });
  while (phase == 0) std::this_thread::yield();
  EXPECT_TRUE(in_child([&] {
    if (phase != 2) _exit(1);
    AtWork here;  // the gate is open in the child
  }));
  worker.join();
}

TEST(Lock, WhoForksDoesNotWaitForItself) {
  AtWork outer;
  EXPECT_TRUE(in_child([] {
    AtWork inner;
    OffWork off;
  }));
  {
    OffWork off;
    EXPECT_TRUE(wait_for_all_work(1000));
  }
  EXPECT_TRUE(wait_for_all_work(1000));
}

}  // namespace
}  // namespace pyflame
