// What joins a group, what flushes it and why, and what happens when something fails.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "core/allocator.h"
#include "core/backends.h"
#include "core/kernel_numbers.h"
#include "engine/group.h"
#include "pyflame/pyflame.h"
#include "table/kernels/reduce.h"

namespace pyflame {
namespace {

using engine::Flush;

std::map<std::string, int64_t> stats_now() {
  auto s = engine::stats();
  return {s.begin(), s.end()};
}

class Engine : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ = parse_device(GetParam());
    set_device(device_);
    manual_seed(7);
    engine::flush(Flush::Explicit);
    engine::reset_stats();
  }
  void TearDown() override {
    engine::set_eager(false);
    backend_of(device_)->inject_fault("allocate", 0, PF_OOM);
    synchronize();
    set_device("cpu");
  }
  Tensor values(const IntList& shape) {
    return to(randn(shape, DType::Float32, Device{}), device_);
  }
  int64_t counter(const std::string& name) { return stats_now().at(name); }
  void settle() {
    synchronize();
    engine::reset_stats();
  }
  Device device_;
};

TEST_P(Engine, ChainIsOneGroup) {
  Tensor x = values({64}), b = values({64});
  settle();
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = y + b;
  EXPECT_EQ(counter("groups"), 0);
  std::vector<float> got = y.to_vector<float>();
  EXPECT_EQ(counter("programs"), 1);
  auto xs = x.to_vector<float>(), bs = b.to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) {
    float want = xs[i];
    for (int k = 0; k < 10; ++k) want += bs[i];
    EXPECT_EQ(got[i], want);
  }
}

TEST_P(Engine, LongChainFlushesAtTheCapAndMakesTwoPlans) {
  Tensor acc = zeros({1}), loss = values({1});
  settle();
  int64_t before = memory_stats(device_).allocated;
  for (int i = 0; i < 10000; ++i) acc = acc + loss;
  synchronize();
  EXPECT_LE(counter("programs_made"), 2);
  EXPECT_GE(counter("flush.caps"), 10000 / engine::kMaxNodes - 1);
  EXPECT_LE(memory_stats(device_).allocated, before + 4096);
}

TEST_P(Engine, ViewOfPendingValueFlushes) {
  Tensor x = values({8, 8});
  settle();
  Tensor y = x + Scalar(1.0);
  Tensor z = transpose(y, 0, 1) + Scalar(1.0);
  EXPECT_EQ(counter("flush.alias_hazard"), 1);
  auto xs = x.to_vector<float>(), zs = z.to_vector<float>();
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 8; ++j) EXPECT_EQ(zs[j * 8 + i], xs[i * 8 + j] + 1.f + 1.f);
}

TEST_P(Engine, InPlaceWritesKeepTheirOrder) {
  Tensor x = values({100});
  auto xs = x.to_vector<float>();
  settle();
  Tensor before = x * Scalar(2.0);  // reads the old values
  add_(x, full({100}, 1.0, DType::Float32, device_));
  Tensor after = x * Scalar(2.0);
  Tensor shifted = slice(x, 0, 1, 100) + slice(x, 0, 0, 99);
  auto b = before.to_vector<float>(), a = after.to_vector<float>(), s = shifted.to_vector<float>();
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(b[i], xs[i] * 2);
    EXPECT_EQ(a[i], (xs[i] + 1) * 2);
    if (i < 99) {
      EXPECT_EQ(s[i], (xs[i + 1] + 1) + (xs[i] + 1));
    }
  }
}

TEST_P(Engine, OverlappingInPlaceReadsTheOldValues) {
  Tensor x = values({50});
  auto xs = x.to_vector<float>();
  Tensor tail = slice(x, 0, 1, 50), head = slice(x, 0, 0, 49);
  add_(tail, head);
  auto got = x.to_vector<float>();
  EXPECT_EQ(got[0], xs[0]);
  for (size_t i = 1; i < 50; ++i) EXPECT_EQ(got[i], xs[i] + xs[i - 1]);
}

TEST_P(Engine, DroppedLargeRootIsComputedSmallIsNot) {
  Tensor big = values({1 << 18}), small = values({16});
  settle();
  { Tensor y = big * Scalar(3.0); }
  EXPECT_EQ(counter("flush.dropped_root"), 1);
  EXPECT_EQ(counter("programs"), 1);
  { Tensor y = small * Scalar(3.0); }
  synchronize();
  EXPECT_EQ(counter("programs"), 1);
}

TEST_P(Engine, LinearBiasGeluIsOneGroup) {
  Tensor x = values({32, 64}), w = values({64, 64}), b = values({64});
  settle();
  Tensor y = gelu(linear(x, w, b));
  EXPECT_EQ(counter("groups"), 0);
  y.to_vector<float>();
  EXPECT_EQ(counter("groups"), 1);
  EXPECT_EQ(counter("kernels"), 1);
  EXPECT_EQ(counter("programs"), 1);
}

TEST_P(Engine, HundredProductsAreHundredProducts) {
  Tensor a = values({8, 8}), b = values({8, 8});
  settle();
  for (int i = 0; i < 100; ++i) Tensor c = matmul(a, b);
  synchronize();
  EXPECT_EQ(counter("kernels"), 100);
}

TEST_P(Engine, EagerIsAnExactOracle) {
  Tensor x = values({33, 65}), b = values({65});
  auto run = [&] {
    Tensor y = gelu((x + b) * Scalar(0.5)) + x;
    Tensor s = softmax(y * Scalar(1.7), -1);
    return (s + sum(y, IntList{1}, true) * exp(-abs(s))).to_vector<float>();
  };
  auto fused = run();
  engine::set_eager(true);
  auto eager = run();
  ASSERT_EQ(fused.size(), eager.size());
  EXPECT_EQ(std::memcmp(fused.data(), eager.data(), fused.size() * sizeof(float)), 0);
}

TEST_P(Engine, FailedAllocationRaisesAndLeavesTheStateUsable) {
  Tensor x = values({1 << 12});
  empty_cache(device_);
  backend_of(device_)->inject_fault("allocate", 1, PF_LAUNCH);
  Tensor y = x + Scalar(1.0);
  EXPECT_THROW(y.to_vector<float>(), BackendError);
  EXPECT_THROW((y + Scalar(1.0)).to_vector<float>(), BackendError);  // poisoned
  engine::flush(Flush::Explicit);                                    // told once is enough
  Tensor z = x + Scalar(1.0);
  EXPECT_EQ(z.to_vector<float>()[0], x.to_vector<float>()[0] + 1.f);
}

TEST_P(Engine, EveryNthCallMayFail) {
  Tensor x = values({64, 64});
  auto work = [&] {
    Tensor y = gelu(matmul(x, x) + Scalar(1.0));
    return softmax(y, -1).to_vector<float>();
  };
  auto want = work();
  for (const char* call : {"allocate", "program_launch", "kernel_launch"})
    for (int64_t n = 1; n < 12; ++n) {
      empty_cache(device_);
      backend_of(device_)->inject_fault(call, n, PF_LAUNCH);
      try {
        auto got = work();
        EXPECT_EQ(got, want);
      } catch (const Error&) {
      }
      backend_of(device_)->inject_fault(call, 0, PF_LAUNCH);
      try {
        synchronize();
      } catch (const Error&) {
      }
      EXPECT_EQ(work(), want) << call << ' ' << n;
    }
}

TEST_P(Engine, OutOfMemoryNamesSizesAndRaisesAtTheCall) {
  Tensor keep = values({1 << 20});
  synchronize();
  empty_cache(device_);
  set_memory_limit(device_, memory_stats(device_).reserved + (8 << 20));
  Tensor big;
  try {
    big = full({64, 1 << 20}, 1.0, DType::Float32, device_) + Scalar(1.0);
    synchronize();
    FAIL() << "no error";
  } catch (const OutOfMemoryError& e) {
    EXPECT_NE(std::string(e.what()).find("256.0 MiB"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("4.0 MiB"), std::string::npos) << e.what();
  }
  set_memory_limit(device_, 0);
  EXPECT_EQ((keep + Scalar(1.0)).to_vector<float>().size(), size_t{1} << 20);
}

TEST_P(Engine, AnotherThreadSeesWhatThisOneRecorded) {
  Tensor x = values({1000});
  Tensor y = x + Scalar(1.0);
  std::vector<float> got;
  std::thread([&] { got = (y * Scalar(2.0)).to_vector<float>(); }).join();
  auto xs = x.to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], (xs[i] + 1.f) * 2.f);
}

TEST_P(Engine, ThreadsComputeAtOnce) {
  Tensor w = values({32, 32});
  auto want = gelu(matmul(w, w)).to_vector<float>();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        if (gelu(matmul(w, w)).to_vector<float>() != want) ++wrong;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(Engine, SumsOfOneTensorAreOneKernel) {
  const Tensor x = values({6, 10});
  settle();
  const Tensor mean = pyflame::mean(x, IntList{-1}), var = pyflame::var(x, IntList{-1});
  mean.to_vector<float>();
  EXPECT_EQ(counter("kernels"), 1);
  EXPECT_EQ(counter("merged"), 2);
  EXPECT_EQ(counter("groups"), 1);
}

// The mean that a spread is about was made in another window: no kernel is to write it again.
TEST_P(Engine, ASumThatReadsAnEarlierMeanStaysAlone) {
  using kernels::Sum;
  const Tensor x = values({6, 10});
  const auto sum = [&](SumKind kind, const Tensor& mean) {
    Tensor y = make_tensor(mean.defined() ? Dims{6} : Dims{6, 1}, DType::Float32, device_);
    engine::call<Sum>({.out = y, .x = x, .mean = mean},
                      {.dims = 2, .kind = static_cast<int64_t>(kind), .divisor = 10});
    return y;
  };
  const Tensor near = sum(SumKind::Differences, {});
  settle();
  const Tensor spread = sum(SumKind::Spread, near), total = sum(SumKind::Plain, {});
  const std::vector<float> want = total.to_vector<float>(), squares = spread.to_vector<float>();
  EXPECT_EQ(counter("kernels"), 2);
  EXPECT_EQ(counter("merged"), 0);
  EXPECT_EQ(squares, pyflame::var(x, IntList{-1}, 0, false).to_vector<float>());
  settle();
  const Tensor again = sum(SumKind::Plain, {}), about = sum(SumKind::Spread, near);
  EXPECT_EQ(about.to_vector<float>(), squares);
  EXPECT_EQ(again.to_vector<float>(), want);
  EXPECT_EQ(counter("merged"), 0);
}

TEST_P(Engine, EmptyAndZeroDimensional) {
  Tensor e = values({0, 5});
  EXPECT_EQ((e + Scalar(1.0)).to_vector<float>().size(), 0u);
  EXPECT_EQ(sum(e).item<float>(), 0.f);
  Tensor s = values({});
  EXPECT_EQ((s + s).item<float>(), s.item<float>() * 2);
}

TEST(EngineCpu, ForeignMemoryIsNeverPending) {
  float buf[4] = {1, 2, 3, 4};
  Tensor x = wrap_foreign(buf, {4}, {1}, DType::Float32, {}, false, {});
  Tensor y = x * Scalar(2.0);
  buf[0] = 100;
  EXPECT_EQ(y.to_vector<float>()[0], 2.f);
}

TEST(EngineCpu, ReadOnlyMemoryIsNotWritten) {
  const float buf[4] = {1, 2, 3, 4};
  Tensor x = wrap_foreign(const_cast<float*>(buf), {4}, {1}, DType::Float32, {}, true, {});
  EXPECT_THROW(zero_(x), ValueError);
}

TEST(EngineCpu, ParanoidMemoryIsNotReadable) {
  Tensor x = full({4}, 1.0, DType::Float32, parse_device("paranoid"));
  EXPECT_THROW(x.data<float>(), DeviceError);
  EXPECT_EQ(to(x, Device{}).to_vector<float>(), std::vector<float>(4, 1.f));
}

TEST(EngineCpu, OperandsOnTwoDevicesAreAnError) {
  Tensor a = full({4}, 1.0, DType::Float32, parse_device("paranoid"));
  Tensor b = full({4}, 1.0, DType::Float32, Device{});
  EXPECT_THROW(a + b, DeviceError);
}

INSTANTIATE_TEST_SUITE_P(Devices, Engine, ::testing::Values("cpu", "paranoid"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace pyflame
