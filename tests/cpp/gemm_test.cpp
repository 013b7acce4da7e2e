#include "cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpu/gemm_cells.h"
#include "cpu/kernel.h"
#include "pyflame/device.h"

namespace pyflame {
namespace {

using cpu::Gemm;
using cpu::GemmSource;

double get(const void* p, DType t, int64_t i) {
  double r = 0;
  dispatch(t, [&]<class T>() {
    T x = static_cast<const T*>(p)[i];
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>)
      r = to_float(x);
    else
      r = static_cast<double>(x);
  });
  return r;
}
void put(void* p, DType t, int64_t i, double v) {
  dispatch(t, [&]<class T>() {
    T& x = static_cast<T*>(p)[i];
    if constexpr (std::is_same_v<T, bfloat16>)
      x = to_bfloat16(static_cast<float>(v));
    else if constexpr (std::is_same_v<T, float16>)
      x = to_float16(static_cast<float>(v));
    else
      x = static_cast<T>(v);
  });
}

// A matrix (or a batch of them) with any strides inside a buffer.
struct Matrix {
  std::vector<char> data;
  DType dtype;
  int64_t batch_stride, row, col;
  const void* at(int64_t i) const { return data.data() + i * int64_t(itemsize(dtype)); }
};

enum class Layout { Plain, Transposed, Padded, Strided, Broadcast };

Matrix make(std::mt19937& random, DType t, int64_t batch, int64_t rows, int64_t cols, Layout l) {
  Matrix m;
  m.dtype = t;
  switch (l) {
    case Layout::Plain:
      m.row = cols, m.col = 1;
      break;
    case Layout::Transposed:
      m.row = 1, m.col = rows;
      break;
    case Layout::Padded:
      m.row = cols + 3, m.col = 1;
      break;
    case Layout::Strided:
      m.row = 2 * cols + 1, m.col = 2;
      break;
    case Layout::Broadcast:
      m.row = 0, m.col = 1;
      break;
  }
  m.batch_stride = rows * cols * 3 + 7;
  const int64_t n = batch * m.batch_stride + (rows + 1) * (m.row + 1) + (cols + 1) * (m.col + 1);
  m.data.resize(static_cast<size_t>(n) * itemsize(t));
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> integer(-100, 100);
  for (int64_t i = 0; i < n; ++i)
    put(m.data.data(), t, i, is_float(t) ? normal(random) : integer(random));
  return m;
}

struct Case {
  int64_t batch, m, n, k;
  Layout a, b;
  bool bias;
};

struct Product {
  Case c;
  DType dtype;
  Matrix a, b, bias;
  std::vector<char> out;
  Gemm g;

  Product(std::mt19937& random, DType t, const Case& c) : c(c), dtype(t) {
    a = make(random, t, c.batch, c.m, c.k, c.a);
    b = make(random, t, c.batch, c.k, c.n, c.b);
    bias = make(random, t, 1, 1, c.n, Layout::Plain);
    out.resize(static_cast<size_t>(c.batch * c.m * c.n) * itemsize(t) + 8, 0x55);
    g.batch = c.batch, g.m = c.m, g.n = c.n, g.k = c.k, g.dtype = t;
    g.a = a.at(0), g.a_batch = a.batch_stride, g.a_row = a.row, g.a_col = a.col;
    g.b = b.at(0), g.b_batch = b.batch_stride, g.b_row = b.row, g.b_col = b.col;
    g.c = out.data(), g.c_batch = c.m * c.n, g.c_row = c.n;
    g.bias = c.bias ? bias.at(0) : nullptr;
  }

  // Largest error over its bound: k rounding errors of the sum and one of the result.
  double error() const {
    double worst = 0;
    const double eps = dtype == DType::Float64 ? 1e-15 : 1e-6;
    const double ulp = dtype == DType::BFloat16  ? 1.0 / 256
                       : dtype == DType::Float16 ? 1.0 / 2048
                                                 : eps;
    for (int64_t s = 0; s < c.batch; ++s)
      for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < c.n; ++j) {
          double sum = c.bias ? get(bias.at(0), dtype, j) : 0, size = std::abs(sum);
          for (int64_t p = 0; p < c.k; ++p) {
            double x = get(a.at(s * a.batch_stride + i * a.row + p * a.col), dtype, 0) *
                       get(b.at(s * b.batch_stride + p * b.row + j * b.col), dtype, 0);
            sum += x, size += std::abs(x);
          }
          double got = get(out.data(), dtype, (s * c.m + i) * c.n + j);
          double bound = size * eps + std::abs(sum) * ulp + 1e-30;
          if (dtype == DType::Float16) bound += 1e-7;  // subnormal results
          worst = std::max(worst, std::abs(got - sum) / bound);
          if (std::isnan(got)) return 1e9;
        }
    return worst;
  }
  bool guard() const {
    for (size_t i = out.size() - 8; i < out.size(); ++i)
      if (out[i] != 0x55) return false;
    return true;
  }
  std::string str() const {
    return std::string(name(dtype)) + " " + std::to_string(c.batch) + "x" + std::to_string(c.m) +
           "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + " layouts " +
           std::to_string(int(c.a)) + std::to_string(int(c.b)) + (c.bias ? " bias" : "");
  }
};

struct Source {
  explicit Source(GemmSource s) { cpu::set_gemm_source(s); }
  ~Source() { cpu::set_gemm_source(GemmSource::Auto); }
};

std::vector<Case> cases() {
  std::vector<Case> r;
  const Layout layouts[] = {Layout::Plain, Layout::Transposed, Layout::Padded, Layout::Strided,
                            Layout::Broadcast};
  for (Layout a : layouts)
    for (Layout b : layouts)
      for (bool bias : {false, true}) {
        r.push_back({1, 5, 7, 3, a, b, bias});
        r.push_back({2, 33, 47, 65, a, b, bias});
      }
  for (int64_t m : {1, 2, 13, 64})
    for (int64_t n : {1, 15, 16, 17, 33, 100})
      for (int64_t k : {0, 1, 2, 31, 300})
        r.push_back({1, m, n, k, Layout::Plain, (m + k) % 2 ? Layout::Plain : Layout::Transposed,
                     (m + n) % 2 == 0});
  for (Layout b : {Layout::Plain, Layout::Transposed})
    for (auto [n, k] : {std::pair{1, 5000}, {9, 700}, {60, 255}, {1030, 30}})
      r.push_back({1, 1, n, k, Layout::Plain, b, n > 60});
  r.push_back({1, 250, 70, 600, Layout::Plain, Layout::Transposed, true});
  r.push_back({1, 70, 1100, 40, Layout::Transposed, Layout::Plain, false});
  r.push_back({0, 3, 3, 3, Layout::Plain, Layout::Plain, false});
  r.push_back({1, 0, 3, 3, Layout::Plain, Layout::Plain, false});
  r.push_back({1, 3, 0, 3, Layout::Plain, Layout::Plain, false});
  return r;
}

TEST(Gemm, MatchesTheReference) {
  std::mt19937 random(1);
  for (GemmSource s : {GemmSource::Auto, GemmSource::Own, GemmSource::OneDnn}) {
    Source scope(s);
    for (DType t : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16})
      for (const Case& c : cases()) {
        Product p(random, t, c);
        cpu::gemm(p.g);
        ASSERT_LT(p.error(), 1) << p.str() << " source " << int(s);
        ASSERT_TRUE(p.guard()) << p.str();
      }
  }
}

TEST(Gemm, IntegersAreExactAndWrap) {
  std::mt19937 random(2);
  for (DType t : {DType::Int64, DType::Int32})
    for (const Case& c : cases()) {
      Product p(random, t, c);
      cpu::gemm(p.g);
      ASSERT_EQ(p.error(), 0) << p.str();
    }
  const int8_t a[2] = {100, 100}, b[2] = {3, 4};
  int8_t c = 0;
  cpu::gemm({.batch = 1,
             .m = 1,
             .n = 1,
             .k = 2,
             .dtype = DType::Int8,
             .a = a,
             .a_batch = 0,
             .a_row = 2,
             .a_col = 1,
             .b = b,
             .b_batch = 0,
             .b_row = 1,
             .b_col = 1,
             .c = &c,
             .c_batch = 0,
             .c_row = 1});
  EXPECT_EQ(c, static_cast<int8_t>(700));
}

TEST(Gemm, NeitherThreadsNorRowBlocksChangeABit) {
  const int before = get_num_threads();
  std::mt19937 random(3);
  for (GemmSource s : {GemmSource::Own, GemmSource::Auto})
    for (DType t : {DType::Float32, DType::Float64, DType::BFloat16})
      for (Case c : {Case{1, 131, 77, 600, Layout::Plain, Layout::Transposed, true},
                     Case{1, 20, 117, 5000, Layout::Plain, Layout::Plain, false},
                     Case{1, 20, 1, 5000, Layout::Plain, Layout::Transposed, false},
                     Case{3, 40, 520, 90, Layout::Transposed, Layout::Plain, false}}) {
        Source scope(s);
        Product p(random, t, c);
        set_num_threads(1);
        cpu::gemm(p.g);
        const std::vector<char> once = p.out;
        for (int threads : {2, 3, 5}) {
          set_num_threads(threads);
          std::fill(p.out.begin(), p.out.end() - 8, 0);
          cpu::gemm(p.g);
          EXPECT_EQ(std::memcmp(once.data(), p.out.data(), once.size()), 0)
              << p.str() << " threads " << threads;
        }
        for (int64_t block : {9, 1}) {
          if (s != GemmSource::Own || c.batch != 1) break;
          std::fill(p.out.begin(), p.out.end() - 8, 0);
          for (int64_t i = 0; i < c.m; i += block) {
            Gemm g = p.g;
            g.m = std::min<int64_t>(block, c.m - i);
            g.a = p.a.at(i * p.a.row);
            g.c = p.out.data() + i * c.n * int64_t(itemsize(t));
            cpu::gemm(g);
          }
          EXPECT_EQ(std::memcmp(once.data(), p.out.data(), once.size()), 0) << p.str();
        }
      }
  set_num_threads(before);
}

// Of all kinds: small, tall, flat, with few results of many terms, in batches, in any layout. More
// than a few hundred by PYFLAME_TEST_PRODUCTS.
TEST(Gemm, NoShapeDependsOnThreads) {
  const int before = get_num_threads();
  const char* text = std::getenv("PYFLAME_TEST_PRODUCTS");
  const int count = text ? std::atoi(text) : 200;
  std::mt19937 random(text ? std::random_device{}() : 11u);
  auto size = [&](double most) {
    return std::max<int64_t>(
        1, std::llround(std::exp2(std::uniform_real_distribution<double>(0, most)(random))));
  };
  auto pick = [&](auto list) {
    return *(list.begin() + static_cast<int64_t>(random() % list.size()));
  };
  constexpr double kMost = 2e7;  // multiplications
  for (int i = 0; i < count; ++i) {
    Case c{pick(std::initializer_list<int64_t>{1, 1, 1, 1, 2, 7, 40}),
           size(10),
           size(10),
           size(10),
           pick(std::initializer_list<Layout>{Layout::Plain, Layout::Transposed, Layout::Padded,
                                              Layout::Strided}),
           pick(std::initializer_list<Layout>{Layout::Plain, Layout::Transposed, Layout::Padded,
                                              Layout::Strided}),
           random() % 3 == 0};
    if (random() % 4 == 0) c = {1, size(6), size(6), size(16), c.a, c.b, c.bias};
    const double rest = double(c.batch) * double(c.m) * double(c.n);
    c.k = std::max<int64_t>(1, std::min(c.k, static_cast<int64_t>(kMost / rest)));
    const DType t =
        pick(std::initializer_list<DType>{DType::Float32, DType::Float32, DType::Float32,
                                          DType::BFloat16, DType::Float16, DType::Float64});
    Product p(random, t, c);
    set_num_threads(1);
    cpu::gemm(p.g);
    const std::vector<char> once = p.out;
    if (i % 10 == 0 && rest * double(c.k) < 1e6) {
      EXPECT_LE(p.error(), 1) << p.str();
    }
    for (int threads : {2, 3, 4, 5, 6, 7, 8}) {
      set_num_threads(threads);
      std::fill(p.out.begin(), p.out.end() - 8, 0);
      cpu::gemm(p.g);
      EXPECT_EQ(std::memcmp(once.data(), p.out.data(), once.size()), 0)
          << p.str() << " threads " << threads;
    }
  }
  set_num_threads(before);
}

TEST(Gemm, CellsAreNeverEmptyAndCoverAProduct) {
  std::mt19937 random(12);
  const float x = 1;
  float y = 0;
  for (int i = 0; i < 300; ++i) {
    auto size = [&](int most) { return (int64_t{1} << (random() % most)) + int64_t(random() % 5); };
    Gemm g{};
    g.batch = size(7), g.m = size(12), g.n = size(12), g.k = size(17), g.dtype = DType::Float32;
    g.a = g.b = &x, g.c = &y;
    const cpu::Cells cells(g);
    EXPECT_TRUE(cells.parts == 1 || g.batch == 1);
    double covered = 0;
    for (int64_t c = 0; c < cells.count(); ++c) {
      const Gemm cell = cells.at(g, c, &y);
      ASSERT_TRUE(cell.m > 0 && cell.n > 0 && cell.k > 0 && cell.batch > 0);
      covered += double(cell.batch) * double(cell.m) * double(cell.n) * double(cell.k);
    }
    EXPECT_EQ(covered, double(g.batch) * double(g.m) * double(g.n) * double(g.k));
  }
}

TEST(Gemm, BiasIsRoundedOnceWithTheSum) {
  // 256 + 1 is no bfloat16: rounding before the bias would lose the 1 that the bias completes.
  const int64_t n = 64, k = 256;
  std::vector<bfloat16> a(static_cast<size_t>(64 * k), to_bfloat16(1)),
      b(static_cast<size_t>(k * n));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = to_bfloat16(i / static_cast<size_t>(n) == 0 ? 2.0f : 1.0f);  // column sums 257
  std::vector<bfloat16> bias(static_cast<size_t>(n), to_bfloat16(1)),
      c(static_cast<size_t>(64 * n));
  for (GemmSource s : {GemmSource::Own, GemmSource::OneDnn}) {
    Source scope(s);
    cpu::gemm({.batch = 1,
               .m = 64,
               .n = n,
               .k = k,
               .dtype = DType::BFloat16,
               .a = a.data(),
               .a_batch = 0,
               .a_row = k,
               .a_col = 1,
               .b = b.data(),
               .b_batch = 0,
               .b_row = n,
               .b_col = 1,
               .c = c.data(),
               .c_batch = 0,
               .c_row = n,
               .bias = bias.data()});
    for (bfloat16 x : c) ASSERT_EQ(to_float(x), 258) << int(s);
  }
}

TEST(Gemm, SpecialValuesPassThrough) {
  const float inf = INFINITY, nan = NAN;
  for (GemmSource s : {GemmSource::Own, GemmSource::OneDnn}) {
    Source scope(s);
    const int64_t n = 40;
    std::vector<float> a(static_cast<size_t>(n * n), 1), b(static_cast<size_t>(n * n), 1);
    std::vector<float> c(static_cast<size_t>(n * n));
    a[0] = inf, a[static_cast<size_t>(n)] = nan, a[static_cast<size_t>(2 * n)] = -inf;
    b[0] = 0;  // inf * 0
    cpu::gemm({.batch = 1,
               .m = n,
               .n = n,
               .k = n,
               .dtype = DType::Float32,
               .a = a.data(),
               .a_batch = 0,
               .a_row = n,
               .a_col = 1,
               .b = b.data(),
               .b_batch = 0,
               .b_row = n,
               .b_col = 1,
               .c = c.data(),
               .c_batch = 0,
               .c_row = n});
    EXPECT_TRUE(std::isnan(c[0]));
    EXPECT_EQ(c[1], inf);
    EXPECT_TRUE(std::isnan(c[static_cast<size_t>(n + 1)]));
    EXPECT_EQ(c[static_cast<size_t>(2 * n + 1)], -inf);
    EXPECT_EQ(c[static_cast<size_t>(3 * n + 1)], n);
  }
}

TEST(Gemm, TwoThreadsAtOnce) {
  std::mt19937 random(4);
  Product p(random, DType::Float32, {1, 64, 64, 64, Layout::Plain, Layout::Transposed, true});
  cpu::gemm(p.g);
  const std::vector<char> once = p.out;
  auto work = [&] {
    std::vector<char> mine(p.out.size());
    Gemm g = p.g;
    g.c = mine.data();
    for (int i = 0; i < 200; ++i) {
      cpu::gemm(g);
      ASSERT_EQ(std::memcmp(mine.data(), once.data(), once.size() - 8), 0);
    }
  };
  std::thread one(work), two(work);
  work();
  one.join();
  two.join();
}

TEST(Gemm, SaysWhereProductsComeFrom) {
  EXPECT_TRUE(std::string(cpu::gemm_source()).starts_with("onednn") ||
              std::string(cpu::gemm_source()).starts_with("own"));
  Source scope(GemmSource::Own);
  EXPECT_TRUE(std::string(cpu::gemm_source()).starts_with("own"));
}

}  // namespace
}  // namespace pyflame
