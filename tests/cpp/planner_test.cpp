// Plans of windows that nobody runs: what is dropped, what has which memory, and that planning
// changes nothing.
#include "engine/planner.h"

#include <gtest/gtest.h>

#include <memory>

#include "engine/print.h"
#include "pyflame/pyflame.h"
#include "table/kernels/softmax.h"
#include "table/rows.h"

namespace pyflame::engine {
namespace {

class Planner : public ::testing::Test {
 protected:
  Tensor fresh(const Dims& shape) { return make_tensor(shape, DType::Float32, Device{}); }
  // A value with memory.
  Tensor made(const Dims& shape) {
    Tensor t = randn(shape.vec());
    pyflame::synchronize();
    return t;
  }
  static pf_ref input(int j) { return {PF_REF_INPUT, static_cast<uint8_t>(j)}; }
  static pf_ref node(int i) { return {PF_REF_NODE, static_cast<uint8_t>(i)}; }

  static int reads(Phase& ph, const Tensor& t) {
    set_place(ph.inputs[ph.ninputs], *t.impl(), ph.shape);
    return ph.ninputs++;
  }
  static int adds(Phase& ph, OpId op, const Tensor& out, std::initializer_list<pf_ref> in) {
    pf_node& n = ph.nodes[ph.nnodes];
    n = {};
    n.store = -1;
    n.op = op;
    n.dtype = n.compute = static_cast<uint8_t>(DType::Float32);
    n.nin = static_cast<uint8_t>(in.size());
    std::copy(in.begin(), in.end(), n.in);
    set_place(ph.outputs[ph.nnodes], *out.impl(), ph.shape);
    return ph.nnodes++;
  }
  void begin(Phase& ph, const Dims& shape) {
    ph.shape = shape;
    ph.numel = numel(shape);
  }
  const Plan& plan(bool to_anchor = false) {
    plan_ = std::make_unique<Plan>();
    make_plan(window_, to_anchor, *plan_);
    return *plan_;
  }

  Window window_;
  std::unique_ptr<Plan> plan_;
};

TEST_F(Planner, WhatNobodyNeedsIsDropped) {
  const Tensor x = made({4}), kept = fresh({4});
  Phase& ph = window_.phases[0];
  begin(ph, {4});
  const int in = reads(ph, x);
  const int first = adds(ph, table::op::exp, fresh({4}), {input(in)});
  adds(ph, table::op::neg, fresh({4}), {node(first)});  // read by nobody
  adds(ph, table::op::sqrt, kept, {node(first)});
  const PlannedProgram& planned = plan().before;
  ASSERT_TRUE(planned.runs());
  EXPECT_EQ(planned.key.nnodes, 2);
  EXPECT_EQ(planned.key.nodes[0].op, table::op::exp);
  EXPECT_EQ(planned.key.nodes[0].store, -1);
  EXPECT_EQ(planned.key.nodes[1].op, table::op::sqrt);
  EXPECT_EQ(planned.noutputs, 1);
  EXPECT_EQ(planned.out[0].data, PF_NO_MEMORY);
  EXPECT_EQ(kept->storage->data, nullptr) << "planning takes no memory";
  EXPECT_FALSE(plan_->kernel);
}

TEST_F(Planner, NothingToDoIsNoStep) {
  Phase& ph = window_.phases[0];
  begin(ph, {4});
  adds(ph, table::op::exp, fresh({4}), {input(reads(ph, made({4})))});
  EXPECT_EQ(plan().before.phase, nullptr);
}

TEST_F(Planner, ADeadInputGivesItsMemory) {
  const Tensor out = fresh({4}), alive = made({4});
  Phase& ph = window_.phases[0];
  begin(ph, {4});
  const int a = reads(ph, alive), b = reads(ph, made({4}));
  adds(ph, table::op::add, out, {input(a), input(b)});
  plan();
  EXPECT_EQ(plan_->before.donor[0], -1);  // not before it is asked for
  plan_donations(plan_->before, nullptr);
  EXPECT_EQ(plan_->before.donor[0], b);
  EXPECT_NE(ph.inputs[b].storage->data, nullptr) << "planning moves no memory";
  plan_->before.donor[0] = -1;
  plan_->before.inputs_without = 1u << b;
  plan_donations(plan_->before, nullptr);
  EXPECT_EQ(plan_->before.donor[0], -1);
}

TEST_F(Planner, ResultsWithoutElementsRunNothing) {
  const Tensor out = fresh({0, 3});
  Phase& ph = window_.phases[0];
  begin(ph, {0, 3});
  adds(ph, table::op::exp, out, {input(reads(ph, made({0, 3})))});
  const PlannedProgram& planned = plan().before;
  EXPECT_TRUE(planned.empty);
  EXPECT_FALSE(planned.runs());
}

// exp -> softmax -> neg
class PlannedRows : public Planner {
 protected:
  void SetUp() override {
    Phase &before = window_.phases[0], &after = window_.phases[1];
    begin(before, {2, 3});
    adds(before, table::op::exp, mid_, {input(reads(before, x_))});
    before.materialise = 1;  // the kernel reads it
    AnchorCall& a = window_.anchor;
    a.kernel = &kernel<kernels::Softmax>();
    a.nouts = 1;
    a.ntensors = 2;
    constexpr auto at = kernels::tensors<kernels::Softmax>;
    set_place(a.tensors[at.y], *y_.impl(), y_->shape);
    set_place(a.tensors[at.x], *mid_.impl(), mid_->shape);
    a.shapes[at.y] = a.shapes[at.x] = Dims{2, 3};
    window_.has_anchor = true;
    begin(after, {2, 3});
    adds(after, table::op::neg, out_, {input(reads(after, y_))});
  }
  Tensor x_ = made({2, 3}), mid_ = fresh({2, 3}), y_ = fresh({2, 3}), out_ = fresh({2, 3});
};

TEST_F(PlannedRows, WhatIsSeenNowhereElseMayGoWithoutMemory) {
  mid_ = Tensor();
  y_ = Tensor();
  const Plan& p = plan();
  ASSERT_TRUE(p.may_join);
  EXPECT_EQ(p.links.feeds[0], 1);
  EXPECT_EQ(p.links.takes[0], 0);
  EXPECT_EQ(p.links.before_without, 1u);
  EXPECT_EQ(p.links.after_without, 1u);
  EXPECT_EQ(p.links.kernel_without, 3u);
  EXPECT_EQ(p.links.unread, 1u);
}

TEST_F(PlannedRows, WhatSomebodyHoldsHasMemory) {
  const Plan& p = plan();
  ASSERT_TRUE(p.may_join);
  EXPECT_EQ(p.links.before_without, 0u);
  EXPECT_EQ(p.links.kernel_without, 0u);
  EXPECT_EQ(p.links.unread, 0u);
}

TEST_F(PlannedRows, ToTheAnchorTheLastPhaseStays) {
  mid_ = Tensor();
  y_ = Tensor();
  const Plan& p = plan(true);
  EXPECT_FALSE(p.after.runs());
  EXPECT_EQ(p.links.kernel_without, 2u);  // what it reads later has memory
}

TEST_F(PlannedRows, AnotherViewOfAResultJoinsNothing) {
  Phase& after = window_.phases[1];
  after.inputs[0].contiguous = false;
  EXPECT_FALSE(plan().may_join);
}

TEST_F(PlannedRows, APartOfFreshMemoryJoinsNothing) {
  window_.anchor.tensors[0].offset = 8;
  window_.phases[1].inputs[0].offset = 8;
  EXPECT_FALSE(plan().may_join);
}

// exp(c) beside the kernel, which reads it, and neg(c).
class PlannedBeside : public PlannedRows {
 protected:
  void SetUp() override {
    PlannedRows::SetUp();
    Phase& ph = window_.phases[2];
    begin(ph, {2});
    adds(ph, table::op::exp, first_, {input(reads(ph, c_))});
    adds(ph, table::op::neg, then_, {input(0)});
    window_.anchor.reads_beside = 1;
  }
  Tensor c_ = made({2}), first_ = fresh({2}), then_ = fresh({2});
};

TEST_F(PlannedBeside, WhatTheKernelReadsRunsFirstAndTheRestBehind) {
  const Plan& p = plan();
  EXPECT_TRUE(p.early.runs());
  EXPECT_EQ(p.early.noutputs, 1);
  EXPECT_EQ(p.early.donor[0], -1);
  EXPECT_TRUE(p.late.runs());
  EXPECT_EQ(p.late.noutputs, 1);
  EXPECT_TRUE(p.may_join);
}

TEST_F(PlannedBeside, WhatReadsWhatIsBeforeJoinsNothing) {
  Phase& ph = window_.phases[2];
  ph.inputs[0] = window_.phases[0].outputs[0];
  EXPECT_FALSE(plan().may_join);
}

TEST_F(PlannedBeside, WhatIsReadBehindJoinsNothing) {
  window_.phases[1].inputs[0] = window_.phases[2].outputs[1];
  EXPECT_FALSE(plan().may_join);
}

TEST_F(PlannedBeside, WhatReadsAResultHasItInMemory) {
  y_ = Tensor();
  EXPECT_EQ(plan().links.unread, 1u);
  window_.phases[2].inputs[0].storage = window_.anchor.tensors[0].storage;
  const Plan& p = plan();
  EXPECT_EQ(p.links.unread, 0u);
  EXPECT_EQ(p.links.kernel_without & 1u, 0u);
}

TEST_F(PlannedRows, AsText) {
  EXPECT_EQ(print_graph(window_),
            "%0 = input float32 [2, 3]\n"
            "%1 = exp(%0) float32 [2, 3]\n"
            "%2 = softmax(%1) float32 [2, 3]\n"
            "%3 = neg(%2) float32 [2, 3]\n");
  EXPECT_EQ(print_plan(window_, plan(), false),
            "program exp -> %1 in 24 new bytes\n"
            "kernel softmax(%1)\n"
            "program neg -> %3 in 24 new bytes\n");
}

}  // namespace
}  // namespace pyflame::engine
