// Functions made of operations, as C++ users call them.
#include <gtest/gtest.h>

#include <cmath>

#include "pyflame/pyflame.h"

namespace pyflame {
namespace {

Tensor tensor(std::vector<double> v, IntList shape) {
  return from_host(v.data(), shape, DType::Float64);
}

TEST(Composed, Losses) {
  const Tensor x = tensor({0.5, -2, 1, 3}, {2, 2}), y = tensor({0, 0, 1, 1}, {2, 2});
  const Tensor w = tensor({1, 2, 1, 0}, {2, 2});
  EXPECT_NEAR(mse_loss(x, y, "mean", w).item<double>(), (0.25 + 8) / 4, 1e-12);
  EXPECT_NEAR(l1_loss(x, y, "sum", w).item<double>(), 4.5, 1e-12);
  EXPECT_NEAR(huber_loss(x, y, "sum").item<double>(), 0.125 + 1.5 + 0 + 1.5, 1e-12);
  EXPECT_NEAR(soft_margin_loss(x, sub(mul(y, 2.0), 1.0), "none").to_vector<double>()[1],
              std::log1p(std::exp(-2.0)), 1e-12);
  EXPECT_NEAR(cosine_similarity(x, y).to_vector<double>()[1], 4 / std::sqrt(20.0), 1e-12);
  EXPECT_NEAR(cdist(x, y).to_vector<double>()[0], std::sqrt(4.25), 1e-12);
  EXPECT_THROW(huber_loss(x, y, "median"), ValueError);
}

TEST(Composed, Statistics) {
  const Tensor x = tensor({4, 1, NAN, 3, 2, 0}, {6});
  EXPECT_NEAR(nanmean(x).item<double>(), 2, 1e-12);
  EXPECT_NEAR(nanquantile(x, 0.625).item<double>(), 2.5, 1e-12);
  EXPECT_TRUE(std::isnan(quantile(x, 0.5).item<double>()));
  EXPECT_NEAR(nanmedian(x).item<double>(), 2, 1e-12);
  EXPECT_NEAR(cov(tensor({1, 2, 3}, {3})).item<double>(), 1, 1e-12);
  EXPECT_NEAR(lgamma(tensor({5}, {1})).item<double>(), std::log(24), 1e-12);
}

TEST(Composed, StartValues) {
  const Tensor w = init::dirac_(zeros({2, 2, 3}));
  EXPECT_EQ(w.to_vector<double>(), (std::vector<double>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace pyflame
