// Row kernels, reductions, losses and optimizer kernels by themselves, against sums in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/threads.h"
#include "cpu/tile.h"

namespace pyflame {
namespace {

using Floats = std::vector<float>;

pf_tensor view(const void* p, DType t, std::vector<int64_t> shape,
               std::vector<int64_t> strides = {}) {
  pf_tensor r{};
  r.data = const_cast<void*>(p);
  r.dtype = static_cast<uint8_t>(t);
  r.ndim = static_cast<int32_t>(shape.size());
  int64_t step = 1;
  for (int d = r.ndim - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    r.shape[d] = shape[i];
    r.strides[d] = strides.empty() ? step : strides[i];
    step *= shape[i];
  }
  return r;
}
pf_tensor view(const Floats& v, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
  return view(v.data(), DType::Float32, std::move(shape), std::move(strides));
}

pf_index_error call(const char* name, std::vector<pf_tensor> tensors,
                    std::vector<double> attrs = {}) {
  std::vector<pf_scalar> scalars;
  for (double a : attrs) scalars.push_back({a, static_cast<int64_t>(a)});
  pf_index_error error{};
  const cpu::KernelEntry* kernel = cpu::find_kernel(name);
  EXPECT_NE(kernel, nullptr) << name;
  if (kernel)
    kernel->run({tensors.data(), static_cast<int>(tensors.size()), scalars.data(),
                 static_cast<int>(scalars.size()), &error});
  return error;
}

Floats random(int64_t n, float scale = 1) {
  static std::mt19937 engine(7);
  std::normal_distribution<float> d(0, scale);
  Floats v(static_cast<size_t>(n));
  for (float& x : v) x = d(engine);
  return v;
}

TEST(Rows, OrderIsTheSameInEveryLayoutAndInstructionSet) {
  const int64_t sizes[][3] = {{3, 5, 7}, {70, 9, 130}, {4200, 3, 5}, {5, 2100, 33}, {2, 64, 1030}};
  for (const auto& s : sizes) {
    const int64_t a = s[0], b = s[1], c = s[2], n = a * b * c;
    const Floats x = random(n);
    Floats y(static_cast<size_t>(n)),
        z(static_cast<size_t>(n));  // memory order (c, a, b), (b, c, a)
    for (int64_t i = 0; i < a; ++i)
      for (int64_t j = 0; j < b; ++j)
        for (int64_t k = 0; k < c; ++k) {
          const float v = x[static_cast<size_t>((i * b + j) * c + k)];
          y[static_cast<size_t>((k * a + i) * b + j)] = v;
          z[static_cast<size_t>((j * c + k) * a + i)] = v;
        }
    for (int mask = 0; mask < 8; ++mask) {
      std::vector<int64_t> kept, means;
      int64_t outs = 1;
      for (int d = 0; d < 3; ++d) {
        means.push_back(mask >> d & 1 ? 1 : s[d]);
        outs *= means.back();
        if (!(mask >> d & 1)) kept.push_back(s[d]);
      }
      for (const char* kernel : {"sum", "prod", "amax", "moments"}) {
        const auto of = [&](const pf_tensor& t) {
          Floats result(static_cast<size_t>(outs)), mean = result;
          const double m = mask, k = static_cast<double>(n / outs);
          if (kernel == std::string("moments"))
            call(kernel, {{}, view(mean, means), view(result, kept), t}, {m, 1, k, k});
          else
            call(kernel, {view(result, kept), t, {}}, {m, 0, 1});
          return result;
        };
        const Floats p = of(view(x, {a, b, c}));
        const auto is_same = [&](const Floats& q) {
          EXPECT_EQ(0, std::memcmp(p.data(), q.data(), p.size() * 4)) << kernel << " mask " << mask;
        };
        is_same(of(view(y, {a, b, c}, {b, 1, a * b})));
        is_same(of(view(z, {a, b, c}, {1, c * a, a})));
        cpu::limit_simd("avx2");
        is_same(of(view(x, {a, b, c})));
        cpu::limit_simd(nullptr);
      }
    }
  }
}

TEST(Rows, SumOfManyOnesIsExact) {
  const Floats ones(size_t{1} << 25, 1.0f);
  float total = 0;
  call("sum", {view(&total, DType::Float32, {}), view(ones, {int64_t{1} << 25}), {}}, {1, 0, 1});
  EXPECT_EQ(total, 33554432.0f);
}

TEST(Rows, ResultsDoNotDependOnThreads) {
  const int64_t rows = 3000, n = 130;
  const Floats x = random(rows * n), g = random(rows * n), w = random(n);
  const int before = cpu::num_threads();
  std::vector<Floats> all[2];
  for (int pass = 0; pass < 2; ++pass) {
    cpu::set_num_threads(pass == 0 ? 1 : 2);
    Floats y(x.size()), dx(x.size()), mean(2 * rows), rstd(rows), dw(n), db(n), columns(n);
    const auto m = [&](const Floats& v) { return view(v, {rows, n}); };
    const auto v = [&](const Floats& p) { return view(p, {static_cast<int64_t>(p.size())}); };
    call("layer_norm", {m(y), v(mean), v(rstd), m(x), v(w), {}}, {double(n), 1e-5});
    call("layer_norm_backward", {m(dx), v(dw), v(db), m(g), m(x), v(mean), v(rstd), v(w)},
         {double(n)});
    call("sum", {v(columns), m(x), {}}, {1, 0, 1});
    all[pass] = {y, dx, mean, rstd, dw, db, columns};
    call("softmax", {m(y), m(x)});
    all[pass].push_back(y);
  }
  cpu::set_num_threads(before);
  EXPECT_TRUE(all[0] == all[1]);
}

TEST(Rows, SoftmaxIsRightAtSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (int64_t n : {4, 17, 100, 5000}) {
    Floats x = random(5 * n, 3), y(x.size()), l(x.size());
    const auto row = [&](int64_t r) { return x.data() + r * n; };
    row(0)[1] = -inf;
    for (int64_t i = 0; i < n; ++i) row(1)[i] = -inf;
    row(2)[n - 1] = nan;
    row(3)[0] = inf;
    row(4)[2] = 1e4f;
    call("softmax", {view(y, {5, n}), view(x, {5, n})});
    call("log_softmax", {view(l, {5, n}), view(x, {5, n})});
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(l[1], -inf);
    double sum = 0, m = -1e30, s = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += y[static_cast<size_t>(i)];
      m = std::max(m, double{row(0)[i]});
    }
    for (int64_t i = 0; i < n; ++i) s += std::exp(double{row(0)[i]} - m);
    EXPECT_NEAR(sum, 1, 1e-5);
    for (int64_t i = 2; i < n; ++i)
      EXPECT_NEAR(l[static_cast<size_t>(i)], double{row(0)[i]} - m - std::log(s), 1e-5);
    for (int64_t i = n; i < 4 * n; ++i) {
      EXPECT_TRUE(std::isnan(y[static_cast<size_t>(i)]));
      EXPECT_TRUE(std::isnan(l[static_cast<size_t>(i)]));
    }
    EXPECT_EQ(y[static_cast<size_t>(4 * n + 2)], 1);
    EXPECT_EQ(l[static_cast<size_t>(4 * n + 2)], 0);
  }
}

TEST(Rows, ExtremesTakeTheFirstAndKeepNaN) {
  const float nan = std::nanf("");
  for (int64_t n : {3, 70, 200000}) {
    Floats x(static_cast<size_t>(n), 1.0f);
    x[1] = x[static_cast<size_t>(n - 1)] = 2;
    float value = 0;
    int64_t index = -1;
    const auto find = [&](bool high) {
      call("find_extreme",
           {view(&value, DType::Float32, {}), view(&index, DType::Int64, {}), view(x, {n})},
           {0, double(high)});
    };
    find(true);
    EXPECT_EQ(index, 1);
    EXPECT_EQ(value, 2);
    find(false);
    EXPECT_EQ(index, 0);
    x[2] = nan;
    find(true);
    EXPECT_EQ(index, 2);
    EXPECT_TRUE(std::isnan(value));
    call("amin", {view(&value, DType::Float32, {}), view(x, {n})}, {1});
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Rows, CrossEntropyReportsWrongClasses) {
  const Floats x = random(3 * 5);
  const int64_t target[] = {0, 7, -100};
  Floats loss(1), stats(6), total(1);
  const pf_index_error e = call("cross_entropy",
                                {view(loss, {}),
                                 view(stats, {3, 2}),
                                 view(total, {}),
                                 view(x, {3, 5}),
                                 view(target, DType::Int64, {3}),
                                 {}},
                                {-100, 0, 1});
  EXPECT_TRUE(e.set);
  EXPECT_EQ(e.index, 7);
  EXPECT_EQ(e.limit, 5);
  EXPECT_TRUE(std::isfinite(loss[0]));
}

TEST(Rows, CrossEntropyGradientSumsToZero) {
  for (int64_t classes : {2, 16, 17, 300, 9000}) {
    const int64_t n = 4;
    const Floats x = random(n * classes, 2);
    Floats dx(x.size()), loss(1), stats(static_cast<size_t>(2 * n)), total(1), one{1};
    const int64_t target[] = {0, classes - 1, classes / 2, -100};
    const auto t = view(target, DType::Int64, {n});
    call("cross_entropy",
         {view(loss, {}), view(stats, {n, 2}), view(total, {}), view(x, {n, classes}), t, {}},
         {-100, 0, 1});
    call("cross_entropy_backward",
         {view(dx, {n, classes}),
          view(one, {}),
          view(x, {n, classes}),
          t,
          view(stats, {n, 2}),
          view(total, {}),
          {}},
         {-100, 0, 1});
    double want = 0;
    for (int64_t r = 0; r < n; ++r) {
      const float* row = x.data() + r * classes;
      double sum = 0, s = 0, m = -1e30;
      for (int64_t c = 0; c < classes; ++c) m = std::max(m, double{row[c]});
      for (int64_t c = 0; c < classes; ++c) {
        s += std::exp(row[c] - m);
        sum += dx[static_cast<size_t>(r * classes + c)];
      }
      EXPECT_NEAR(sum, 0, 1e-6);
      if (target[r] < 0) continue;
      const double p = std::exp(row[target[r]] - m) / s;
      want -= std::log(p) / 3;
      EXPECT_NEAR(dx[static_cast<size_t>(r * classes + target[r])], (p - 1) / 3, 1e-6);
    }
    EXPECT_NEAR(loss[0], want, 2e-6 * want + 1e-7);
    EXPECT_EQ(total[0], 3);
  }
}

TEST(Rows, OptimizersWorkOverListsOfTensors) {
  std::vector<Floats> p, g, m, v;
  for (int64_t n : {1, 5, 16, 1000, 5000}) {
    p.push_back(random(n));
    g.push_back(random(n));
    m.push_back(Floats(static_cast<size_t>(n)));
    v.push_back(m.back());
  }
  const std::vector<Floats> before = p;
  std::vector<pf_tensor> tensors;
  for (auto* list : {&p, &m, &v, &g})
    for (Floats& f : *list) tensors.push_back(view(f, {static_cast<int64_t>(f.size())}));
  call("adamw", tensors, {0, 0, double(p.size()), 0.1, 0.9, 0.99, 1e-8, 0.5, 1, 1, 0, 0, 0, 0});
  for (size_t i = 0; i < p.size(); ++i)
    for (size_t j = 0; j < p[i].size(); ++j) {
      const double x = g[i][j], step = 0.1 * x / (std::fabs(x) + 1e-8);
      EXPECT_NEAR(p[i][j], before[i][j] * (1 - 0.05) - step, 2e-6);
      EXPECT_NEAR(m[i][j], 0.1 * x, 1e-6);
      EXPECT_NEAR(v[i][j], 0.01 * x * x, 1e-6);
    }
  float norm = 0;
  std::vector<pf_tensor> list{view(&norm, DType::Float32, {})};
  double want = 0;
  for (Floats& f : g) {
    list.push_back(view(f, {static_cast<int64_t>(f.size())}));
    for (float x : f) want += double{x} * x;
  }
  call("multi_norm", list, {2});
  EXPECT_NEAR(norm, std::sqrt(want), 1e-4);
}

}  // namespace
}  // namespace pyflame
