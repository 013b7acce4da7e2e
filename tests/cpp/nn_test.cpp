// Layers, start values and optimizers of the C++ interface.
#include "pyflame/nn.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pyflame/pyflame.h"

namespace pf = pyflame;
namespace nn = pyflame::nn;

namespace {

nn::Sequential mlp() {
  return nn::Sequential(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 2));
}

pf::Tensor filled(const pf::IntList& shape, double start) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return pf::reshape(pf::sin(pf::arange(start, start + static_cast<double>(n))), shape);
}

struct TwoHeads : nn::Module {
  std::shared_ptr<nn::Linear> body = add_module("body", nn::Linear(3, 3));
  std::shared_ptr<nn::Linear> head = add_module("head", body);  // tied: the same layer twice
  pf::Tensor scale = add_parameter("scale", pf::ones({3}));
  pf::Tensor count = add_buffer("count", pf::zeros({1}));
  pf::Tensor forward(const pf::Tensor& x) const override { return (*head)((*body)(x)) * scale; }
};

}  // namespace

TEST(Nn, NamesAndShapes) {
  nn::Sequential net = mlp();
  auto named = net.named_parameters();
  ASSERT_EQ(named.size(), 4u);
  EXPECT_EQ(named[0].first, "0.weight");
  EXPECT_EQ(named[3].first, "2.bias");
  EXPECT_EQ(named[0].second.shape(), (pf::Dims{8, 4}));
  EXPECT_TRUE(named[0].second.requires_grad());
  EXPECT_EQ(net(pf::ones({5, 4})).shape(), (pf::Dims{5, 2}));
}

TEST(Nn, TiedParametersAppearOnce) {
  TwoHeads net;
  EXPECT_EQ(net.named_parameters().size(), 3u);
  EXPECT_EQ(net.state().size(), 6u);
  pf::sum(net(pf::ones({2, 3}))).backward();
  EXPECT_TRUE(net.body->weight.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(net.body->weight.grad().defined());
}

TEST(Nn, StateMovesBetweenModels) {
  nn::Sequential a = mlp(), b = mlp();
  b.load_state(a.state());
  pf::Tensor x = filled({3, 4}, 0);
  EXPECT_TRUE(pf::equal(a(x), b(x)));
  nn::NamedTensors wrong = a.state();
  wrong[0].second = pf::zeros({1});
  wrong.pop_back();
  wrong.emplace_back("stray", pf::zeros({1}));
  try {
    b.load_state(wrong);
    FAIL();
  } catch (const pf::ValueError& e) {
    std::string text = e.what();
    for (const char* word : {"0.weight", "missing: 2.bias", "unexpected: stray", "[8, 4]"})
      EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_TRUE(pf::equal(a(x), b(x)));
}

TEST(Nn, LayersAreTheOperations) {
  pf::Tensor x = filled({2, 3, 6}, 1);
  nn::LayerNorm norm({6});
  EXPECT_TRUE(pf::equal(norm(x), pf::layer_norm(x, {6}, norm.weight, norm.bias)));
  nn::RMSNorm rms({6}, 1e-6);
  EXPECT_TRUE(pf::equal(rms(x), pf::rms_norm(x, {6}, rms.weight, 1e-6)));
  nn::Embedding table(10, 4, 2);
  pf::Tensor index = pf::to(pf::arange(0, 10), pf::DType::Int64);
  EXPECT_TRUE(pf::equal(table(index), table.weight));
  EXPECT_EQ(pf::sum(pf::abs(pf::select(table.weight, 0, 2))).item<float>(), 0.f);
  nn::Dropout drop(0.5);
  drop.eval();
  EXPECT_TRUE(pf::equal(drop(x), x));
  drop.train();
  EXPECT_FALSE(pf::equal(drop(x), x));
  EXPECT_THROW(nn::Dropout(2), pf::ValueError);
  EXPECT_THROW(nn::Module()(x), pf::NotSupportedError);
}

TEST(Init, Orthogonal) {
  pf::Tensor w = pf::empty({3, 7});
  pf::init::orthogonal_(w, 2);
  pf::Tensor gram = pf::matmul(w, pf::transpose(w, 0, 1));
  EXPECT_TRUE(pf::allclose(gram, pf::eye(3) * 4.0, 1e-5, 1e-5));
}

TEST(Init, Errors) {
  EXPECT_THROW(pf::init::xavier_uniform_(pf::empty({3})), pf::ShapeError);
  EXPECT_THROW(pf::init::calculate_gain("rellu"), pf::ValueError);
  EXPECT_THROW(pf::init::kaiming_normal_(pf::empty({3, 3}), 0, "fan"), pf::ValueError);
}

TEST(Optim, EveryOptimizerLowersTheLoss) {
  pf::Tensor x = filled({16, 4}, 0), y = filled({16, 2}, 7);
  auto loss_after = [&](auto make) {
    pf::manual_seed(1);
    nn::Sequential net = mlp();
    auto optimizer = make(net.parameters());
    double first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      pf::Tensor loss = pf::mse_loss(net(x), y);
      last = loss.item<double>();
      if (i == 0) first = last;
      optimizer.zero_grad();
      loss.backward();
      nn::clip_grad_norm_(net.parameters(), 1.0);
      optimizer.step();
    }
    return last / first;
  };
  EXPECT_LT(loss_after([](auto p) { return pf::optim::SGD(p, {.lr = 0.1, .momentum = 0.9}); }),
            0.8);
  EXPECT_LT(loss_after([](auto p) { return pf::optim::Adam(p, {.lr = 0.02}); }), 0.8);
  EXPECT_LT(loss_after([](auto p) { return pf::optim::AdamW(p, {.lr = 0.02, .amsgrad = true}); }),
            0.8);
}

TEST(Optim, AdamByHand) {
  pf::Tensor p = pf::full({1}, 1.0, pf::DType::Float64);
  p.requires_grad_();
  pf::optim::AdamW optimizer({p}, {.lr = 0.1, .weight_decay = 0.5});
  double value = 1, m = 0, v = 0;
  for (int n = 1; n <= 5; ++n) {
    double g = 0.3 * n;
    p.set_grad(pf::full({1}, g, pf::DType::Float64));
    optimizer.step();
    value *= 1 - 0.1 * 0.5;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    value -= 0.1 / (1 - std::pow(0.9, n)) * m /
             (std::sqrt(v) / std::sqrt(1 - std::pow(0.999, n)) + 1e-8);
    EXPECT_NEAR(p.item<double>(), value, 1e-12);
  }
}

TEST(Optim, Errors) {
  EXPECT_THROW(pf::optim::SGD(std::vector<pf::Tensor>{}), pf::ValueError);
  EXPECT_THROW(pf::optim::SGD({pf::ones({1})}, {.nesterov = true}), pf::ValueError);
  EXPECT_THROW(pf::optim::Adam({pf::ones({1})}, {.beta1 = 1}), pf::ValueError);
}

TEST(Optim, WarmupCosine) {
  using pf::optim::warmup_cosine;
  EXPECT_DOUBLE_EQ(warmup_cosine(0, 4, 20, 1), 0.25);
  EXPECT_DOUBLE_EQ(warmup_cosine(3, 4, 20, 1), 1);
  EXPECT_DOUBLE_EQ(warmup_cosine(4, 4, 20, 1, 0.1), 1);
  EXPECT_DOUBLE_EQ(warmup_cosine(12, 4, 20, 1, 0.1), 0.55);
  EXPECT_DOUBLE_EQ(warmup_cosine(25, 4, 20, 1, 0.1), 0.1);
}
