// Which proposal is taken, from lists as cuBLASLt 13.1 gave them on an H100.
#include "gpu/product_proposal.h"

#include <gtest/gtest.h>

namespace pyflame::gpu {
namespace {

struct Facts {
  size_t workspace;
  float waves;
};
using List = std::vector<Facts>;

float waves(int64_t k, bool whole, const List& of_workspace, const List& of_none) {
  return choose_proposal(k, whole, of_workspace, of_none).waves;
}

TEST(ProductProposal, MatterUnlessFewRowsAreWhole) {
  EXPECT_TRUE(proposals_matter(512, 768, true));
  EXPECT_FALSE(proposals_matter(64, 4800, true));
  EXPECT_FALSE(proposals_matter(8192, 10 * 8, true));
  EXPECT_TRUE(proposals_matter(32, 50257, false));
}

TEST(ProductProposal, NoCounters) {
  const List counted{{4, 4.8f}, {4, 9.7f}}, none{{0, 4.7f}, {0, 9.6f}, {0, 14.5f}};
  EXPECT_EQ(waves(1600, true, counted, none), 4.7f);
  EXPECT_EQ(waves(1024, true, counted, none), 9.6f);  // the most waves below three times as many
  EXPECT_EQ(waves(1024, true, counted, {}), 9.7f);
  EXPECT_EQ(waves(1024, true, counted, {{0, 3.9f}, {0, 7.8f}}), 3.9f);  // not several waves
}

TEST(ProductProposal, WhatSplitsKHasItsWorkspace) {
  EXPECT_EQ(waves(32768, true, {{9437184, 0.5f}, {0, 1}}, {{0, 0.9f}}), 0.5f);
}

TEST(ProductProposal, OneWholeWaveOfOldKernels) {
  const List none{{0, 1.489f}, {0, 1.191f}, {0, 1.492f}, {0, 0.992f}};
  EXPECT_EQ(waves(768, false, {{3144, 2.382f}}, none), 0.992f);
  EXPECT_EQ(waves(768, false, {{0, 9.52f}, {9649344, 14.3f}}, {{0, 9.52f}}), 9.52f);
  EXPECT_EQ(waves(768, false, {{0, 0.8f}}, none), 0.8f);
  EXPECT_EQ(waves(768, false, {{0, 1.7f}}, {{0, 0.6f}}), 1.7f);
}

}  // namespace
}  // namespace pyflame::gpu
