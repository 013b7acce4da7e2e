// Which launches of a captured step wait for which.
#include "engine/capture_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace pyflame::engine {
namespace {

using Order = std::vector<std::vector<int32_t>>;

class CaptureOrder : public ::testing::Test {
 protected:
  struct Operand {
    int64_t at;  // in floats
    std::vector<int64_t> shape, strides;
  };
  // A kernel that writes the first `outputs` operands and reads the others.
  void launch(int outputs, const std::vector<Operand>& operands) {
    CapturedLaunch& l = *launches_.emplace_back(std::make_unique<CapturedLaunch>());
    l.outputs = outputs;
    for (const Operand& o : operands) {
      pf_tensor t{};
      t.data = reinterpret_cast<void*>((intptr_t{1} << 20) + 4 * o.at);
      t.dtype = static_cast<uint8_t>(DType::Float32);
      t.ndim = static_cast<int32_t>(o.shape.size());
      std::copy(o.shape.begin(), o.shape.end(), t.shape);
      std::copy(o.strides.begin(), o.strides.end(), t.strides);
      l.tensors.push_back(t);
    }
  }
  // Writes the first of these blocks of ten floats and reads the others.
  void of_blocks(const std::vector<int64_t>& blocks) {
    std::vector<Operand> operands;
    for (int64_t b : blocks) operands.push_back({10 * b, {10}, {1}});
    launch(1, operands);
  }
  Order order() const { return order_of(launches_); }

  std::vector<std::unique_ptr<CapturedLaunch>> launches_;
};

TEST_F(CaptureOrder, ReadersFollowWritersAndNobodyElse) {
  of_blocks({1, 0});
  of_blocks({2, 1});
  of_blocks({3, 1});     // beside the second
  of_blocks({4, 2, 3});  // behind both, and by them behind the first
  of_blocks({5, 0});     // beside all
  EXPECT_EQ(order(), (Order{{}, {0}, {0}, {1, 2}, {}}));
}

TEST_F(CaptureOrder, MemoryIsNotWrittenBeforeItWasRead) {
  of_blocks({1, 0});
  of_blocks({2, 1});
  of_blocks({3, 1});
  of_blocks({1, 5});  // writes what two have read
  of_blocks({4, 1});  // reads the new one
  of_blocks({5, 5});  // writes what the fourth has read
  EXPECT_EQ(order(), (Order{{}, {0}, {0}, {1, 2}, {3}, {3}}));
}

TEST_F(CaptureOrder, PartsOfATensor) {
  launch(1, {{0, {4, 5}, {5, 1}}});  // 0 to 20
  launch(1, {{0, {10}, {1}}});       // its first half
  launch(1, {{10, {10}, {1}}});      // and its second, beside that
  launch(1, {{100, {3}, {1}}, {5, {3}, {1}}});
  launch(1, {{110, {2}, {1}}, {19, {2}, {-10}}});  // 19 and 9: backwards
  launch(1, {{0, {0}, {1}}});                      // nothing
  EXPECT_EQ(order(), (Order{{}, {0}, {0}, {1}, {1, 2}, {}}));
}

TEST_F(CaptureOrder, WhatHasNoMemoryOrIsNotThere) {
  of_blocks({1, 0});
  of_blocks({2, 1});
  launches_[0]->tensors[0].data = PF_NO_MEMORY;
  launches_[1]->tensors[1].data = nullptr;
  EXPECT_EQ(order(), (Order{{}, {}}));
}

TEST_F(CaptureOrder, BytesOfTheHostAreWritten) {
  of_blocks({1, 0});
  CapturedLaunch& l = *launches_.emplace_back(std::make_unique<CapturedLaunch>());
  l.bytes.resize(4);
  l.to = launches_[0]->tensors[1].data;
  of_blocks({2, 0});
  EXPECT_EQ(order(), (Order{{}, {0}, {1}}));
}

}  // namespace
}  // namespace pyflame::engine
