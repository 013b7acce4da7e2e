// Packing of lifetimes: nothing that is needed at once overlaps, and the block is hardly larger
// than it must be.
#include "engine/capture_arena.h"

#include <gtest/gtest.h>

#include <random>

namespace pyflame::engine {
namespace {

void check(const std::vector<Lifetime>& all, size_t size, size_t align) {
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].offset % align, 0u);
    EXPECT_LE(all[i].offset + all[i].bytes, size);
    for (size_t j = 0; j < i; ++j) {
      const bool apart = all[i].offset + all[i].bytes <= all[j].offset ||
                         all[j].offset + all[j].bytes <= all[i].offset;
      EXPECT_TRUE(apart || !all[i].meets(all[j])) << i << " and " << j;
    }
  }
}

TEST(CaptureArena, Nothing) {
  std::vector<Lifetime> none;
  EXPECT_EQ(pack(none, 64), 0u);
  EXPECT_EQ(most_at_once(none, 64), 0u);
}

TEST(CaptureArena, OneAfterTheOtherShares) {
  std::vector<Lifetime> all{{100, 0, 1}, {90, 2, 3}, {128, 4, 9}};
  EXPECT_EQ(pack(all, 64), 128u);
  check(all, 128, 64);
}

TEST(CaptureArena, TheLastAndTheFirstLaunchMeet) {
  std::vector<Lifetime> all{{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(pack(all, 64), 128u);
  check(all, 128, 64);
}

TEST(CaptureArena, EmptyOnesTakeALine) {
  std::vector<Lifetime> all{{0, 0, 5}, {0, 0, 5}};
  EXPECT_EQ(pack(all, 64), 128u);
}

// A forward and a backward pass: what is made first is needed longest. There is no gap.
TEST(CaptureArena, ForwardAndBackward) {
  std::vector<Lifetime> all;
  const int layers = 40;
  for (int i = 0; i < layers; ++i) {
    all.push_back({1000u + 64u * static_cast<unsigned>(i % 3), 2 * i, 4 * layers - 2 * i});
    all.push_back({5000, 2 * i + 1, 2 * i + 2});
    all.push_back({3000, 4 * layers - 2 * i - 1, 4 * layers - 2 * i});
  }
  const size_t bound = most_at_once(all, 64), size = pack(all, 64);
  check(all, size, 64);
  EXPECT_LE(size, bound + bound / 20);
}

TEST(CaptureArena, Random) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> all;
    const int n = 1 + below(60), end = 1 + below(50);
    for (int i = 0; i < n; ++i) {
      const int first = below(end);
      const int last = first + below(round % 2 ? 5 : end);
      all.push_back({static_cast<size_t>(below(4) ? below(5000) : below(100000)), first, last});
    }
    const size_t align = round % 3 ? 64 : 256;
    const size_t bound = most_at_once(all, align), size = pack(all, align);
    check(all, size, align);
    EXPECT_GE(size, bound);
    EXPECT_LE(size, bound + bound / 2) << "round " << round;
  }
}

}  // namespace
}  // namespace pyflame::engine
