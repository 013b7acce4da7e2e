// Gradients through the C++ interface: graphs, views, in-place writes, deep chains.
#include <gtest/gtest.h>

#include <cmath>

#include "pyflame/pyflame.h"

namespace pyflame {
namespace {

Tensor leaf(const IntList& shape) {
  Tensor t = randn(shape, DType::Float64);
  t.requires_grad_();
  return t;
}

// Central differences of the scalar f at x against the gradient that backward() gives.
void check_gradient(Tensor x, const std::function<Tensor(const Tensor&)>& f, double tol = 1e-6) {
  x.set_grad({});
  f(x).backward();
  std::vector<double> got = x.grad().to_vector<double>();
  NoGrad no_grad;
  std::vector<double> v = x.to_vector<double>();
  const double h = 1e-5;
  for (size_t i = 0; i < v.size(); ++i) {
    auto at = [&](double d) {
      std::vector<double> w = v;
      w[i] += d;
      return f(from_host(w.data(), x.shape().vec(), DType::Float64)).item<double>();
    };
    EXPECT_NEAR(got[i], (at(h) - at(-h)) / (2 * h), tol) << "element " << i;
  }
}

TEST(Autograd, ChainAndBroadcast) {
  Tensor b = randn({4}, DType::Float64);
  check_gradient(leaf({3, 4}), [&](const Tensor& x) { return sum(gelu(x * b + Scalar(0.5)) * x); });
  check_gradient(leaf({4}), [&](const Tensor& x) {
    return sum(exp(x * Scalar(0.1)) * full({3, 4}, 2.0, DType::Float64));
  });
}

TEST(Autograd, Views) {
  check_gradient(leaf({3, 4}), [](const Tensor& x) {
    Tensor t = transpose(x, 0, 1);
    return sum(slice(t, 0, 1, 4) * select(x, 0, 1).detach().size(0)) + sum(reshape(t * t, {12}));
  });
}

TEST(Autograd, InPlaceOnAView) {
  check_gradient(leaf({3, 4}), [](const Tensor& x) {
    Tensor y = x * Scalar(2.0);
    Tensor row = select(y, 0, 1);
    mul_(row, 3.0);
    return sum(y * y);
  });
  check_gradient(leaf({4}), [](const Tensor& x) {
    Tensor y = zeros({3, 4}, DType::Float64);
    Tensor row = select(y, 0, 2);
    copy_(row, x * x);
    return sum(y * y);
  });
}

TEST(Autograd, ViewsTakenBeforeTheBaseChanged) {
  Tensor x = leaf({4});
  Tensor y = x * Scalar(1.0);
  Tensor v = slice(y, 0, 0, 2);
  mul_(y, 3.0);
  sum(v).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 3, 0, 0}));
}

TEST(Autograd, SecondDerivative) {
  Tensor x = leaf({5});
  Tensor y = sum(tanh(x) * x);
  Tensor g = grad({&y, 1}, {&x, 1}, {}, true, true)[0];
  Tensor s = sum(g);
  Tensor gg = grad({&s, 1}, {&x, 1})[0];
  auto xs = x.to_vector<double>(), got = gg.to_vector<double>();
  for (size_t i = 0; i < xs.size(); ++i) {
    double t = std::tanh(xs[i]), d = 1 - t * t;
    EXPECT_NEAR(got[i], 2 * d - 2 * xs[i] * t * d, 1e-10);
  }
}

TEST(Autograd, SavedTensorChangedInPlace) {
  Tensor x = leaf({3});
  Tensor y = x * Scalar(1.0);
  Tensor z = y * y;
  add_(y, y.detach());
  EXPECT_THROW(sum(z).backward(), AutogradError);
}

TEST(Autograd, GraphIsFreedUnlessRetained) {
  Tensor x = leaf({3});
  Tensor y = sum(exp(x));
  y.backward({}, true);
  y.backward();
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(Autograd, LeavesAreNotWrittenInPlace) {
  Tensor x = leaf({3});
  EXPECT_THROW(mul_(x, 2.0), AutogradError);
  NoGrad no_grad;
  mul_(x, 2.0);
}

TEST(Autograd, DeepGraphs) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  sum(y).backward();
  EXPECT_EQ(x.grad().item<double>(), 100001.0);
  Tensor z = x;
  for (int i = 0; i < 100000; ++i) z = z * Scalar(1.0);  // built and freed without running
}

TEST(Autograd, HooksSeeAndReplaceGradients) {
  Tensor x = leaf({2});
  Tensor y = x * Scalar(2.0);
  int calls = 0;
  y.register_hook([&](const Tensor& g) {
    ++calls;
    return g * Scalar(10.0);
  });
  sum(y).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{20, 20}));
}

TEST(Autograd, AccumulatesAndKeepsApart) {
  Tensor a = leaf({2}), b = leaf({2});
  sum(a + b).backward();
  sum(a + b).backward();
  Tensor ga = a.grad();
  mul_(ga, 5.0);
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{2, 2}));
}

TEST(Autograd, UnusedInputs) {
  Tensor a = leaf({2}), b = leaf({2});
  Tensor y = sum(a);
  Tensor in[] = {a, b};
  EXPECT_THROW(grad({&y, 1}, in, {}, true), AutogradError);
  auto g = grad({&y, 1}, in, {}, false, false, true);
  EXPECT_TRUE(g[0].defined());
  EXPECT_FALSE(g[1].defined());
}

}  // namespace
}  // namespace pyflame
