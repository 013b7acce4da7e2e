#include "pyflame/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "cpu/philox.h"
#include "pyflame/pyflame.h"

namespace pyflame {
namespace {

using cpu::philox::pf_philox;
using cpu::philox::pf_philox_words;
using cpu::philox::pf_words;

void expect_words(const pf_words& w, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  EXPECT_EQ(w.w[0], a);
  EXPECT_EQ(w.w[1], b);
  EXPECT_EQ(w.w[2], c);
  EXPECT_EQ(w.w[3], d);
}

// The known answers that Random123 publishes for philox4x32, 10 rounds.
TEST(Philox, KnownAnswers) {
  constexpr uint32_t f = 0xffffffff;
  expect_words(pf_philox_words({{0, 0, 0, 0}}, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect_words(pf_philox_words({{f, f, f, f}}, ~uint64_t{0}), 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
               0x6d5451fd);
  expect_words(
      pf_philox_words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(Philox, TilesAreConsecutiveBlocks) {
  const uint64_t seed = 0x123456789abcdef0;
  for (uint64_t counter : {uint64_t{0}, uint64_t{0xfffffff8}, ~uint64_t{7}}) {
    uint32_t words[cpu::philox::kTile];
    cpu::philox::tile(counter, seed, words);
    for (uint64_t i = 0; i < cpu::philox::kCounters; ++i) {
      pf_words w = pf_philox(counter + i, seed);
      EXPECT_EQ(std::memcmp(w.w, words + 4 * i, sizeof(w.w)), 0) << counter << " + " << i;
    }
  }
}

TEST(Philox, LogarithmAndAnglesAreAccurate) {
  double worst = 0, worst_angle = 0;
  for (uint32_t i = 1; i < 1000000; ++i) {
    const uint32_t w = i * 4294967u;
    const float u = cpu::philox::pf_open_float(w);
    const double exact = std::log(static_cast<double>(u));
    const double got = static_cast<double>(cpu::philox::pf_log_positive(u));
    if (exact != 0) worst = std::max(worst, std::abs((got - exact) / exact));
    float c, s;
    cpu::philox::pf_cos_sin_turn(w, &c, &s);
    worst_angle = std::max(worst_angle,
                           std::abs(static_cast<double>(c) * c + static_cast<double>(s) * s - 1));
  }
  EXPECT_LT(worst, 4e-7);
  EXPECT_LT(worst_angle, 4e-7);
  EXPECT_EQ(cpu::philox::pf_log_positive(1.0f), 0.0f);
  EXPECT_EQ(cpu::philox::pf_log_positive(1.0), 0.0);
}

TEST(Random, TheGeneratorAdvancesByWordsOfFour) {
  manual_seed(7);
  EXPECT_EQ(random_state().seed, 7u);
  EXPECT_EQ(random_state().offset, 0u);
  EXPECT_EQ(take_random(5).offset, 0u);
  EXPECT_EQ(take_random(8).offset, 2u);
  EXPECT_EQ(take_random(3, 2).offset, 4u);
  EXPECT_EQ(random_state().offset, 6u);
  set_random_state({9, 3});
  EXPECT_EQ(take_random(0).offset, 3u);
  EXPECT_EQ(random_state().offset, 3u);
}

std::pair<double, double> moments(const std::vector<double>& v) {
  double mean = 0, square = 0;
  for (double x : v) mean += x;
  mean /= static_cast<double>(v.size());
  for (double x : v) square += (x - mean) * (x - mean);
  return {mean, square / static_cast<double>(v.size())};
}

TEST(Random, Moments) {
  for (DType t : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16}) {
    manual_seed(1);
    auto [nm, nv] = moments(randn({200000}, t).to_vector<double>());
    EXPECT_NEAR(nm, 0, 0.01) << name(t);
    EXPECT_NEAR(nv, 1, 0.02) << name(t);
    std::vector<double> u = rand({200000}, t).to_vector<double>();
    auto [um, uv] = moments(u);
    EXPECT_NEAR(um, 0.5, 0.005) << name(t);
    EXPECT_NEAR(uv, 1.0 / 12, 0.002) << name(t);
    for (double x : u) ASSERT_TRUE(x >= 0 && x < 1) << name(t);
  }
}

TEST(Random, StridesDoNotChangeTheNumbers) {
  manual_seed(3);
  Tensor straight = empty({6, 7});
  normal_(straight);
  manual_seed(3);
  Tensor turned = transpose(empty({7, 6}), 0, 1);
  normal_(turned);
  EXPECT_EQ(straight.to_vector<float>(), turned.to_vector<float>());
}

TEST(Random, ThreadsDoNotChangeTheNumbers) {
  const int before = get_num_threads();
  manual_seed(3);
  set_num_threads(1);
  auto one = randn({100003}).to_vector<float>();
  manual_seed(3);
  set_num_threads(4);
  auto four = randn({100003}).to_vector<float>();
  set_num_threads(before);
  EXPECT_EQ(one, four);
}

TEST(Random, DropoutsGradientUsesItsMask) {
  manual_seed(11);
  Tensor x = ones({1000}).requires_grad_();
  Tensor y = dropout(x, 0.3);
  sum(y).backward();
  EXPECT_EQ(y.to_vector<float>(), x.grad().to_vector<float>());
}

// What a permutation is: the order of 64-bit keys, ties by position. Upper halves of two keys are
// equal some ten times among 300,000.
TEST(Random, PermutationsAreTheOrderOfTheirKeys) {
  manual_seed(17);
  for (int64_t n : {1, 2, 31, 33, 256, 257, 2048, 2049, 5000, 70001, 300000}) {
    const RandomState s = random_state();
    std::vector<uint64_t> keys(static_cast<size_t>(n));
    for (size_t i = 0; i < keys.size(); ++i) {
      const pf_words w = pf_philox(s.offset + i / 2, s.seed);
      keys[i] = cpu::philox::pf_join(w.w[i % 2 * 2], w.w[i % 2 * 2 + 1]);
    }
    std::vector<int64_t> want(keys.size());
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
      return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
    });
    EXPECT_EQ(randperm(n).to_vector<int64_t>(), want) << n;
    set_random_state(s);
    EXPECT_EQ(randperm(n, DType::Int32).to_vector<int64_t>(), want) << n;
  }
}

}  // namespace
}  // namespace pyflame
