#include "cpu/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "pyflame/device.h"
#include "pyflame/error.h"

namespace pyflame {
namespace {

struct Threads {  // restores the number of threads
  int before = get_num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};

// Every element is visited exactly once.
bool covers(int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
  cpu::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  for (auto& s : seen)
    if (s != 1) return false;
  return true;
}

TEST(Threads, CoversEveryRange) {
  for (int threads : {1, 2, 3, 7}) {
    Threads scope(threads);
    for (int64_t n : {0, 1, 2, 3, 10, 1000, 4097})
      for (int64_t grain : {1, 3, 1000}) EXPECT_TRUE(covers(n, grain)) << n << " " << grain;
  }
}

TEST(Threads, GrainLimitsTheNumberOfRanges) {
  Threads scope(4);
  std::atomic<int> ranges{0};
  cpu::parallel_for(100, 40, [&](int64_t, int64_t) { ++ranges; });
  EXPECT_LE(ranges, 2);
}

TEST(Threads, NestedCallsRunAlone) {
  Threads scope(3);
  std::atomic<int64_t> sum{0};
  cpu::parallel_for(6, 1, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(cpu::num_threads(), 1);
    for (int64_t i = begin; i < end; ++i)
      cpu::parallel_for(10, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(e - b, 10);
        sum += e - b;
      });
  });
  EXPECT_EQ(sum, 60);
}

TEST(Threads, AnErrorArrivesAtTheCaller) {
  Threads scope(2);
  EXPECT_THROW(cpu::parallel_for(10, 1,
                                 [](int64_t, int64_t e) {
                                   if (e == 10) throw std::runtime_error("x");
                                 }),
               std::runtime_error);
  EXPECT_TRUE(covers(100, 1));
}

TEST(Threads, OtherThreadsRunAloneUntilTheOwnerEnds) {
  Threads scope(2);
  // A thread that ends gives the pool back.
  std::thread([] { covers(100, 1); }).join();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(covers(100, 1));
  std::thread([start] {
    const int mine = cpu::num_threads();
    const bool recent = std::chrono::steady_clock::now() - start < std::chrono::milliseconds(900);
    EXPECT_TRUE(mine == 1 || !recent);
    EXPECT_TRUE(covers(100, 1));
  }).join();
  std::vector<std::thread> crowd;
  for (int i = 0; i < 4; ++i)
    crowd.emplace_back([] {
      for (int r = 0; r < 50; ++r) EXPECT_TRUE(covers(64, 1));
    });
  for (int r = 0; r < 50; ++r) EXPECT_TRUE(covers(64, 1));
  for (auto& t : crowd) t.join();
}

TEST(Threads, AnIdlePoolGoesToTheThreadThatNeedsIt) {
  Threads scope(2);
  EXPECT_TRUE(covers(100, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  std::thread([] {
    EXPECT_TRUE(covers(100, 1));
    EXPECT_EQ(cpu::num_threads(), 2);
  }).join();
  EXPECT_TRUE(covers(100, 1));
  EXPECT_EQ(cpu::num_threads(), 2);
}

TEST(Threads, AForkedChildRunsAlone) {
  Threads scope(2);
  EXPECT_TRUE(covers(100, 1));
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool ok = cpu::num_threads() == 1 && covers(100, 1);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(covers(100, 1));
}

TEST(Threads, TheNumberIsChecked) {
  EXPECT_GE(get_num_threads(), 1);
  EXPECT_THROW(set_num_threads(0), ValueError);
  Threads scope(3);
  EXPECT_EQ(get_num_threads(), 3);
}

}  // namespace
}  // namespace pyflame
