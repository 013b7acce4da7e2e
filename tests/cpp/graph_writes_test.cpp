// What a graph's launches write, and what may therefore be read early.
#include "gpu/graph_writes.h"

#include <gtest/gtest.h>

#include "pyflame/dtype.h"

namespace pyflame::gpu {
namespace {

constexpr int kFloat = static_cast<int>(DType::Float32);

TEST(GraphWrites, Reach) {
  alignas(16) char memory[80] = {};
  const int64_t shape[] = {3, 2}, strides[] = {4, -1}, none[] = {3, 0};
  const Reach r = reach_of(memory + 32, kFloat, 2, shape, strides);
  EXPECT_EQ(r.begin, memory + 28);
  EXPECT_EQ(r.end, memory + 68);
  EXPECT_EQ(reach_of(memory, kFloat, 2, none, strides).end, nullptr);
  EXPECT_EQ(reach_of(nullptr, kFloat, 2, shape, strides).end, nullptr);
  EXPECT_EQ(reach_of(PF_NO_MEMORY, kFloat, 2, shape, strides).end, nullptr);
  const Reach number = reach_of(memory, kFloat, 0, nullptr, nullptr);
  EXPECT_EQ(number.end - number.begin, 4);
  EXPECT_TRUE(number.meets({memory + 3, memory + 9}));
  EXPECT_FALSE(number.meets({memory + 4, memory + 9}));
}

TEST(GraphWrites, WhatWasWrittenIsNotReadEarly) {
  char memory[256] = {};
  const auto part = [&](int from, int to) { return Reach{memory + from, memory + to}; };
  GraphWrites w;
  EXPECT_TRUE(w.writes(part(0, 16)));
  EXPECT_FALSE(w.steady(part(8, 24)));  // its own
  EXPECT_TRUE(w.steady(part(8, 24), true));
  EXPECT_TRUE(w.steady(part(16, 32)));
  w.begin(1);
  EXPECT_TRUE(w.writes({}));             // nothing
  EXPECT_TRUE(w.writes(part(16, 128)));  // behind who reads it
  EXPECT_FALSE(w.steady(part(0, 1)));
  EXPECT_FALSE(w.steady(part(100, 101)));
  EXPECT_TRUE(w.steady(part(128, 256)));
  // Recorded again, with other addresses: not where later ones were told that nobody writes.
  w.begin(0);
  EXPECT_FALSE(w.writes(part(200, 201)));
  EXPECT_TRUE(w.writes(part(40, 48)));
  EXPECT_TRUE(w.steady(part(0, 32)));  // what it wrote before is forgotten
  w.begin(1);
  EXPECT_TRUE(w.steady(part(0, 32)));
  EXPECT_FALSE(w.steady(part(47, 49)));
}

}  // namespace
}  // namespace pyflame::gpu
