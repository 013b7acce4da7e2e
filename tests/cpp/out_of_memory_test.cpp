// Every allocation of a scenario fails once: what comes is an error of ours or std::bad_alloc, and
// the scenario then has the results that it has otherwise.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "pyflame/nn.h"
#include "pyflame/optim.h"
#include "pyflame/pyflame.h"

namespace {

std::atomic<int64_t> g_left{0};  // allocations until one fails; 0: none will

bool fails() {
  return g_left.load(std::memory_order_relaxed) > 0 && g_left.fetch_sub(1) == 1;
}
void* take(size_t n) {
  return fails() ? nullptr : std::malloc(n ? n : 1);
}
void* take(size_t n, std::align_val_t a) {
  const size_t align = static_cast<size_t>(a);
  void* p = nullptr;
  return fails() || posix_memalign(&p, align, n ? n : 1) != 0 ? nullptr : p;
}

}  // namespace

// GCC sees only one half of the pair where it inlines that alone.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t n) {
  if (void* p = take(n)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t n, std::align_val_t a) {
  if (void* p = take(n, a)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  return take(n);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}

#ifndef __SANITIZE_ADDRESS__
// Kernels' scratch memory, and the tensors' own.
extern "C" void* aligned_alloc(size_t align, size_t n) {
  void* p = nullptr;
  return fails() || posix_memalign(&p, align, n) != 0 ? nullptr : p;
}
#endif

namespace pyflame {
namespace {

using Values = std::vector<double>;

void note(Values& v, const Tensor& t) {
  for (float x : to(t, DType::Float32).to_vector<float>()) v.push_back(double(x));
}

Values training() {
  manual_seed(3);
  nn::Sequential net(nn::Linear(12, 40), nn::GELU(), nn::Linear(40, 5));
  optim::AdamW opt(net.parameters());
  Tensor x = randn({30, 12}), y = randn({30, 5});
  Values v;
  for (int i = 0; i < 2; ++i) {
    opt.zero_grad();
    Tensor loss = mean(pow(net(x) - y, 2));
    loss.backward();
    opt.step();
    v.push_back(loss.item<double>());
  }
  for (const Tensor& p : net.parameters()) note(v, p);
  return v;
}

Values shapes_and_indices() {
  manual_seed(4);
  Values v;
  Tensor x = randn({40, 30});
  note(v, reshape(transpose(x, 0, 1), {40, 30}));
  note(v, cat({x, x * 2}, 1));
  auto [values, places] = sort(x, 1);
  note(v, values);
  note(v, places);
  note(v, cumsum(x, 1));
  note(v, softmax(x, 1));
  Tensor z = clone(x);
  add_(z, 1);
  note(v, sum(z, IntList{0}));
  return v;
}

Values second_gradients() {
  manual_seed(5);
  Values v;
  Tensor w = randn({8, 8});
  w.requires_grad_();
  Tensor x = randn({8, 8});
  const std::vector<Tensor> inputs = {w}, loss = {sum(tanh(matmul(x, w)))};
  const std::vector<Tensor> first = grad(loss, inputs, {}, true, true);
  const std::vector<Tensor> loss2 = {sum(first[0] * first[0])};
  const std::vector<Tensor> second = grad(loss2, inputs);
  note(v, first[0]);
  note(v, second[0]);
  return v;
}

Values large_product() {
  manual_seed(6);
  Values v;
  Tensor a = randn({90, 3000}), b = randn({3000, 110});
  note(v, matmul(a, b));
  return v;
}

Values files() {
  manual_seed(7);
  Values v;
  const std::string path = ::testing::TempDir() + "out_of_memory.safetensors";
  io::save_safetensors(path, {{"x", randn({20, 20})}, {"y", arange(0, 7)}});
  for (auto& [name, t] : io::load_safetensors(path)) note(v, t);
  std::remove(path.c_str());
  return v;
}

// What happens when the n-th allocation fails, for every n. Nothing is warm at first, so that
// making plans, programs and threads' memory is tried too.
void every_allocation_fails_once(const std::function<Values()>& scenario, double tolerance = 0) {
  std::vector<Values> got;
  int64_t refused = 0;
  for (int64_t n = 1;; ++n) {
    g_left = n;
    bool failed = false;
    try {
      got.push_back(scenario());
    } catch (const OutOfMemoryError&) {
      failed = true;
    } catch (const std::bad_alloc&) {
      failed = true;
    } catch (const FileError&) {
      failed = true;  // a file that could not be written, for want of memory
    }
    const bool fired = g_left.exchange(0) <= 0;
    try {
      synchronize();  // what is pending may have failed, too
    } catch (const Error&) {
      failed = true;
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    EXPECT_TRUE(fired || !failed) << n;
    refused += failed;
    if (!fired) break;
    got.push_back(scenario());
  }
  EXPECT_GT(refused, 0);
  const Values want = scenario();
  for (const Values& v : got) {
    ASSERT_EQ(v.size(), want.size());
    for (size_t i = 0; i < v.size(); ++i) ASSERT_LE(std::abs(v[i] - want[i]), tolerance) << i;
  }
}

TEST(OutOfMemory, Training) {
  every_allocation_fails_once(training);
}
TEST(OutOfMemory, ShapesAndIndices) {
  every_allocation_fails_once(shapes_and_indices);
}
TEST(OutOfMemory, SecondGradients) {
  every_allocation_fails_once(second_gradients);
}
TEST(OutOfMemory, LargeProduct) {
  // Our own product comes in for oneDNN's when that has no memory.
  every_allocation_fails_once(large_product, 1e-3);
}
TEST(OutOfMemory, Files) {
  every_allocation_fails_once(files);
}

}  // namespace
}  // namespace pyflame
