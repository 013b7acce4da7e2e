// Autocast regions of C++, and the intervals that a row's class is made from.
#include <gtest/gtest.h>

#include <thread>

#include "ops/autocast.h"
#include "pyflame/pyflame.h"
#include "table/range.h"

namespace pyflame {
namespace {

TEST(Autocast, GuardsNestAndEnd) {
  const Tensor x = ones({2, 3}), w = ones({4, 3});
  {
    Autocast outer(DeviceType::CPU);
    EXPECT_EQ(linear(x, w).dtype(), DType::BFloat16);
    {
      Autocast inner(DeviceType::CPU, DType::Float16);
      EXPECT_EQ(linear(x, w).dtype(), DType::Float16);
      Autocast none(DeviceType::CPU, {}, false);
      EXPECT_EQ(linear(x, w).dtype(), DType::Float32);
    }
    EXPECT_EQ(linear(x, w).dtype(), DType::BFloat16);
    EXPECT_EQ(exp(linear(x, w)).dtype(), DType::BFloat16);  // float32 on GPUs
    EXPECT_EQ(mse_loss(linear(x, w), linear(x, w)).dtype(), DType::Float32);
    bool elsewhere = true;
    std::thread([&] { elsewhere = autocast_enabled(DeviceType::CPU); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_EQ(linear(x, w).dtype(), DType::Float32);
}

TEST(Autocast, GradientsOfFloat32Weights) {
  Tensor w = ones({4, 3});
  w.requires_grad_(true);
  {
    Autocast region(DeviceType::CPU);
    const Tensor loss = sum(linear(ones({2, 3}), w));
    backward({&loss, 1});
  }
  EXPECT_EQ(w.grad().dtype(), DType::Float32);
  EXPECT_EQ(sum(w.grad()).item<float>(), 24.0f);
}

TEST(Autocast, GpusOfBothVendorsShareASetting) {
  Autocast region(DeviceType::ROCm, DType::BFloat16);
  EXPECT_TRUE(autocast_enabled(DeviceType::CUDA));
  EXPECT_EQ(autocast_dtype(DeviceType::CUDA), DType::BFloat16);
  EXPECT_FALSE(autocast_enabled(DeviceType::CPU));
}

TEST(Autocast, MatmulPrecisionIsKept) {
  EXPECT_EQ(float32_matmul_precision(), MatmulPrecision::Highest);
  set_float32_matmul_precision(MatmulPrecision::High);
  EXPECT_EQ(float32_matmul_precision(), MatmulPrecision::High);
  set_float32_matmul_precision(MatmulPrecision::Highest);
}

TEST(Range, ConditionsOfSelectsHoldInTheirBranches) {
  using table::Graph;
  using table::Micro;
  const auto leaves = [](Micro compare, double bound, bool when_true) {
    Graph g;
    const int x = g.input(0), e = g.make(Micro::Exp, x);
    const int c = g.make(compare, x, g.constant(bound));
    return table::leaves_range(
        g.extract(when_true ? g.make(Micro::Select, c, e, x) : g.make(Micro::Select, c, x, e)));
  };
  EXPECT_FALSE(leaves(Micro::Le, 11, true));  // exp(11) = 59874
  EXPECT_TRUE(leaves(Micro::Le, 12, true));
  EXPECT_TRUE(leaves(Micro::Le, 0, false));
  EXPECT_FALSE(leaves(Micro::Gt, 0, false));
  EXPECT_FALSE(leaves(Micro::Ge, 0, false));
  EXPECT_TRUE(leaves(Micro::Ge, 0, true));
  EXPECT_FALSE(leaves(Micro::Lt, 5, true));
  EXPECT_TRUE(leaves(Micro::Eq, 5, true));  // tells nothing
}

TEST(Range, AttributesAndBoundsOfArguments) {
  using table::Graph;
  using table::Micro;
  Graph g;
  const int x = g.input(0), a = g.attr(0);
  const auto limited = g.extract(g.make(Micro::Exp, g.make(Micro::Min, x, a)));
  const double low[] = {3.0}, high[] = {30.0};
  EXPECT_FALSE(table::leaves_range(limited, low));
  EXPECT_TRUE(table::leaves_range(limited, high));
  EXPECT_TRUE(table::leaves_range(limited));
  const int falls = g.make(Micro::Exp, g.make(Micro::Neg, g.make(Micro::Abs, x)));
  EXPECT_FALSE(table::leaves_range(g.extract(g.make(Micro::Log1p, falls))));
  EXPECT_TRUE(table::leaves_range(g.extract(g.make(Micro::Log, falls))));  // log 0
  EXPECT_TRUE(table::leaves_range(g.extract(g.make(Micro::Div, g.constant(1), x))));
  EXPECT_FALSE(table::leaves_range(g.extract(g.make(Micro::Div, x, g.constant(3)))));
}

TEST(Range, ActivationsFollowAndSteepRowsAreRaised) {
  using namespace ops;
  for (OpId id : {op::gelu,       op::gelu_tanh, op::silu,      op::sigmoid,    op::tanh,
                  op::relu,       op::elu,       op::selu,      op::celu,       op::mish,
                  op::logsigmoid, op::hardswish, op::softsign,  op::tanhshrink, op::add,
                  op::div,        op::sqrt,      op::logaddexp, op::hypot,      op::lerp})
    EXPECT_EQ(amp::class_of_row(id), amp::Class::Follow) << kRowTable[id].name;
  for (OpId id : {op::exp, op::exp2, op::expm1, op::log, op::log1p, op::log2, op::log10, op::pow,
                  op::pow_scalar, op::tan, op::sinh, op::cosh, op::acos, op::asin, op::reciprocal,
                  op::rsqrt, op::softplus, op::logit, op::xlogy})
    EXPECT_EQ(amp::class_of_row(id), amp::Class::RaiseElseFollow) << kRowTable[id].name;
}

}  // namespace
}  // namespace pyflame
