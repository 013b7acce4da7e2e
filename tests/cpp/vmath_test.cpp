// Elementary functions of tiles against long double and the C library, and the instruction sets
// against each other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "cpu/tile.h"
#include "ops/pointwise.h"
#include "table/expr.h"

namespace pyflame::cpu {
namespace {

using table::Micro;
using Long = long double;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Runs a kernel over whole tiles; inputs are padded to a multiple of the grain.
template <class Out, class In>
std::vector<Out> run(const Kernel& k, std::vector<std::vector<In>> in, size_t n,
                     std::vector<In> attrs = {}) {
  const size_t padded = (n + kTileGrain - 1) / kTileGrain * kTileGrain;
  std::vector<Out> out(padded);
  std::vector<uint8_t> bytes[4];
  std::vector<In> splats(attrs.size() * 64 / sizeof(In));
  std::vector<Loc> locs(2 + in.size() + attrs.size());
  Instr instr{};
  instr.fn = k.fn;
  locs[1] = {reinterpret_cast<char*>(out.data()), Loc::kStep, nullptr};
  instr.out = 1;
  for (size_t i = 0; i < in.size(); ++i) {
    in[i].resize(padded, In(1));
    char* data = reinterpret_cast<char*>(in[i].data());
    if ((k.masks >> i) & 1) {
      for (In v : in[i]) bytes[i].push_back(v > 0);
      data = reinterpret_cast<char*>(bytes[i].data());
    }
    locs[2 + i] = {data, Loc::kStep, nullptr};
    instr.in[i] = static_cast<uint16_t>(2 + i);
  }
  instr.attr = static_cast<uint16_t>(2 + in.size());
  for (size_t i = 0; i < attrs.size(); ++i) {
    In* slot = splats.data() + i * 64 / sizeof(In);
    std::fill_n(slot, 64 / sizeof(In), attrs[i]);
    locs[2 + in.size() + i] = {reinterpret_cast<char*>(slot), Loc::kSplat, nullptr};
  }
  k.fn(padded, locs.data(), instr);
  out.resize(n);
  return out;
}

// Distance in units of the last place of the nearest T, fractions included.
template <class T>
double ulps(T got, Long want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isnan(got)) return 1e30;
  const T nearest = static_cast<T>(want);
  if (got == nearest) return 0;
  if (std::isinf(got) || std::isinf(nearest)) {
    // Just below the overflow threshold one may round up and the other not.
    const T big = std::numeric_limits<T>::max();
    const T g = std::isinf(got) ? std::copysign(big, got) : got;
    return std::fabs(
        static_cast<double>((static_cast<Long>(g) - want) / (std::nextafter(big, T(0)) - big)));
  }
  const T a = std::max(std::fabs(nearest), std::numeric_limits<T>::min());
  const Long unit = static_cast<Long>(std::nextafter(a, std::numeric_limits<T>::infinity())) - a;
  return static_cast<double>(std::fabs((static_cast<Long>(got) - want) / unit));
}

struct Case {
  Micro op;
  Long (*reference)(Long);
  double bound, bound64;
  double low, high;  // where random points are taken
};
const Case kCases[] = {
    {Micro::Exp, [](Long x) { return std::exp(x); }, 1.5, 1.5, -105, 90},
    {Micro::Exp2, [](Long x) { return std::exp2(x); }, 1.5, 2, -151, 129},
    {Micro::Expm1, [](Long x) { return std::expm1(x); }, 2, 2, -20, 89},
    {Micro::Log, [](Long x) { return std::log(x); }, 1.5, 1.5, 0, 10},
    {Micro::Log2, [](Long x) { return std::log2(x); }, 2, 2, 0, 10},
    {Micro::Log10, [](Long x) { return std::log10(x); }, 2, 2, 0, 1000},
    {Micro::Log1p, [](Long x) { return std::log1p(x); }, 2, 2, -1, 4},
    {Micro::Tanh, [](Long x) { return std::tanh(x); }, 2, 2.5, -10, 10},
    {Micro::Sigmoid, [](Long x) { return 1 / (1 + std::exp(-x)); }, 2.5, 2.5, -105, 30},
    {Micro::Erf, [](Long x) { return std::erf(x); }, 2.5, 1.5, -5, 5},
    {Micro::Erfc, [](Long x) { return std::erfc(x); }, 1, 5, -5, 11},
    {Micro::Sin, [](Long x) { return std::sin(x); }, 1.5, 1.5, -1e5, 1e5},
    {Micro::Cos, [](Long x) { return std::cos(x); }, 1.5, 1.5, -1e5, 1e5},
    {Micro::Tan, [](Long x) { return std::tan(x); }, 1, 1.5, -1e4, 1e4},
    {Micro::Asin, [](Long x) { return std::asin(x); }, 2, 1.5, -1, 1},
    {Micro::Acos, [](Long x) { return std::acos(x); }, 2, 1.5, -1, 1},
    {Micro::Atan, [](Long x) { return std::atan(x); }, 2, 1.5, -20, 20},
    {Micro::Sinh, [](Long x) { return std::sinh(x); }, 1, 2.5, -90, 90},
    {Micro::Cosh, [](Long x) { return std::cosh(x); }, 1, 2.5, -90, 90},
    {Micro::Asinh, [](Long x) { return std::asinh(x); }, 1, 2.5, -1e4, 1e4},
    {Micro::Acosh, [](Long x) { return std::acosh(x); }, 1, 2.5, 1, 1e4},
    {Micro::Atanh, [](Long x) { return std::atanh(x); }, 2, 2.5, -1, 1},
    {Micro::Sqrt, [](Long x) { return std::sqrt(x); }, 0.501, 0.501, 0, 1e6},
};

template <class T>
std::vector<T> points(double low, double high) {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {T(0),
                      T(-0.0),
                      T(1),
                      T(-1),
                      T(0.5),
                      T(-0.5),
                      T(2),
                      L::min(),
                      -L::min(),
                      L::denorm_min(),
                      -L::denorm_min(),
                      L::min() / 3,
                      L::max(),
                      -L::max(),
                      L::infinity(),
                      -L::infinity(),
                      L::quiet_NaN(),
                      L::epsilon(),
                      -L::epsilon(),
                      T(1) + L::epsilon(),
                      T(1) - L::epsilon() / 2,
                      T(1e-4),
                      T(-1e-4),
                      T(88.72),
                      T(-87.4),
                      T(-103.9),
                      T(-104.5),
                      T(89),
                      T(9),
                      T(-9),
                      T(3.9),
                      T(1e4),
                      T(-1e4),
                      T(1e5),
                      T(1e10),
                      T(3e20),
                      T(100),
                      T(-100),
                      T(40),
                      T(1000),
                      T(-1000)};
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> uniform(low, high), small(-1, 1), exponent(-30, 20);
  for (int i = 0; i < 40000; ++i) v.push_back(static_cast<T>(uniform(rng)));
  for (int i = 0; i < 10000; ++i) v.push_back(static_cast<T>(small(rng)));
  for (int i = 0; i < 10000; ++i)
    v.push_back(static_cast<T>(std::copysign(std::exp2(exponent(rng)), small(rng))));
  return v;
}

template <class T>
void check_against_reference(Reg type, bool wide) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(table::micro_name(c.op));
    const Kernel k = micro_kernel(static_cast<int>(c.op), type);
    ASSERT_NE(k.fn, nullptr);
    const std::vector<T> x = points<T>(c.low, c.high);
    const std::vector<T> y = run<T, T>(k, {x}, x.size());
    const double bound = wide ? c.bound64 : c.bound;
    double worst = 0;
    T at = 0, got = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double d = ulps<T>(y[i], c.reference(x[i]));
      if (d > worst) worst = d, at = x[i], got = y[i];
    }
    if (std::getenv("PF_PRINT_ULPS")) std::printf("%-8s %.3f\n", table::micro_name(c.op), worst);
    EXPECT_LE(worst, bound) << "at " << at << ": " << got << ", expected "
                            << static_cast<T>(c.reference(at));
  }
}

TEST(Vmath, FloatsAreRightToTheLastPlaces) {
  check_against_reference<float>(Reg::F32, false);
}
TEST(Vmath, DoublesAreRightToTheLastPlaces) {
  check_against_reference<double>(Reg::F64, true);
}

TEST(Vmath, SignsOfZero) {
  for (Micro op : {Micro::Expm1, Micro::Log1p, Micro::Tanh, Micro::Erf, Micro::Sin, Micro::Tan,
                   Micro::Asin, Micro::Atan, Micro::Sinh, Micro::Asinh, Micro::Atanh}) {
    const auto y = run<float, float>(micro_kernel(static_cast<int>(op), Reg::F32), {{-0.0f}}, 1);
    EXPECT_TRUE(std::signbit(y[0]) && y[0] == 0) << table::micro_name(op) << " " << y[0];
  }
}

TEST(Vmath, GeluFollowsItsTail) {
  const Kernel k = micro_kernel(static_cast<int>(Micro::Gelu), Reg::F32);
  const Kernel k64 = micro_kernel(static_cast<int>(Micro::Gelu), Reg::F64);
  const std::vector<float> x = points<float>(-9, 9);
  const std::vector<double> wide(x.begin(), x.end());
  const auto y = run<float, float>(k, {x}, x.size());
  const auto z = run<double, double>(k64, {wide}, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const Long a = std::fabs(static_cast<Long>(x[i])), tail = std::erfc(a * M_SQRT1_2l) / 2;
    const Long want = std::isnan(x[i]) ? x[i]
                      : x[i] == -kInf  ? 0
                      : x[i] > 0       ? x[i] * (1 - tail)
                                       : x[i] * tail;
    ASSERT_LE(ulps<double>(z[i], want), 2 + (x[i] < 0 && x[i] > -40 ? 2 * x[i] * x[i] : 0)) << x[i];
    if (!(x[i] < -0.25f))
      ASSERT_LE(ulps<float>(y[i], want), 2) << x[i];
    else if (x[i] > -5)
      ASSERT_LE(std::fabs(y[i] - want), 5e-4l * -want) << x[i];
    else
      ASSERT_LE(std::fabs(y[i] - want), 1.2e-7l) << x[i];
  }
  const auto zero = run<float, float>(k, {{-0.0f}}, 1);
  EXPECT_TRUE(std::signbit(zero[0]) && zero[0] == 0);
}

// Euler's psi and its derivative in long double, by recurrence and series.
Long psi(Long x, int derivative) {
  if (x < 0.5L) {
    const Long angle = M_PIl * (x - std::nearbyint(x)), s = std::sin(angle);
    if (derivative == 0) return psi(1 - x, 0) - M_PIl * std::cos(angle) / s;
    return M_PIl * M_PIl / (s * s) - psi(1 - x, 1);
  }
  Long y = 0;
  for (; x < 40; ++x) y += derivative ? 1 / (x * x) : -1 / x;
  const Long t = 1 / (x * x);
  if (derivative) return y + (1 + 1 / (2 * x) + t * (1 / 6.L - t * (1 / 30.L - t / 42))) / x;
  return y + std::log(x) - 1 / (2 * x) - t * (1 / 12.L - t * (1 / 120.L - t / 252));
}

TEST(Vmath, TheGammaFunctionAndItsDerivatives) {
  const struct {
    Micro op;
    Long (*reference)(Long);
  } cases[] = {{Micro::Lgamma, [](Long x) { return std::lgamma(x); }},
               {Micro::Digamma, [](Long x) { return psi(x, 0); }},
               {Micro::Trigamma, [](Long x) { return psi(x, 1); }}};
  for (const auto& c : cases) {
    SCOPED_TRACE(table::micro_name(c.op));
    std::vector<float> x = points<float>(-30, 60);
    std::erase_if(x,
                  [](float v) { return !(std::fabs(v) < 1e4f) || (v <= 0 && v == std::rint(v)); });
    const std::vector<double> wide(x.begin(), x.end());
    const auto y = run<float, float>(micro_kernel(static_cast<int>(c.op), Reg::F32), {x}, x.size());
    const auto z =
        run<double, double>(micro_kernel(static_cast<int>(c.op), Reg::F64), {wide}, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const Long want = c.reference(x[i]);
      // Where they pass 0 the parts that cancel decide, and beside a pole the place itself.
      const Long beside = std::fabs(x[i] - std::rint(x[i]));
      const Long slack = 2e-14L * (1 + std::fabs(static_cast<Long>(x[i]))) +
                         (x[i] < 0.5f ? 3e-15L * std::fabs(want) / std::max(beside, 1e-6L) : 0);
      if (std::isinf(static_cast<float>(want))) continue;
      EXPECT_LE(std::fabs(z[i] - want), slack + 1e-14L * std::fabs(want)) << x[i];
      EXPECT_LE(std::fabs(y[i] - want), slack + 7e-8L * std::fabs(want) + 1e-45L) << x[i];
    }
  }
  const auto at = [](Micro op, float v) {
    return run<float, float>(micro_kernel(static_cast<int>(op), Reg::F32), {{v}}, 1)[0];
  };
  for (float pole : {0.0f, -1.0f, -2.0f, -1e10f, kInf, -kInf})
    EXPECT_EQ(at(Micro::Lgamma, pole), kInf) << pole;
  EXPECT_EQ(at(Micro::Lgamma, 1), 0);
  EXPECT_EQ(at(Micro::Lgamma, 2), 0);
  EXPECT_EQ(at(Micro::Digamma, 0.0f), -kInf);
  EXPECT_EQ(at(Micro::Digamma, -0.0f), kInf);
  EXPECT_EQ(at(Micro::Digamma, kInf), kInf);
  EXPECT_TRUE(std::isnan(at(Micro::Digamma, -3)));
  EXPECT_EQ(at(Micro::Trigamma, 0), kInf);
  EXPECT_EQ(at(Micro::Trigamma, -3), kInf);
  EXPECT_EQ(at(Micro::Trigamma, kInf), 0);
  for (Micro op : {Micro::Lgamma, Micro::Digamma, Micro::Trigamma})
    EXPECT_TRUE(std::isnan(at(op, kNan)));
}

TEST(Vmath, PowersOfEveryKind) {
  const std::vector<float> specials = {
      0.0f,  -0.0f, 1,      -1,    2,      -2,       3,        -3,     0.5f,   -0.5f, 2.5f, kInf,
      -kInf, kNan,  1e-40f, 1e30f, -1e30f, 16777216, 33554432, 0.999f, 1.001f, 4,     7,    -7};
  std::vector<float> x, y;
  for (float a : specials)
    for (float b : specials) x.push_back(a), y.push_back(b);
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> base(0, 20), power(-20, 20);
  for (int i = 0; i < 20000; ++i) x.push_back(base(rng)), y.push_back(power(rng));
  const Kernel k = micro_kernel(static_cast<int>(Micro::Pow), Reg::F32);
  const auto r = run<float, float>(k, {x, y}, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float want = std::pow(x[i], y[i]);
    EXPECT_LE(ulps<float>(r[i], std::pow(static_cast<Long>(x[i]), static_cast<Long>(y[i]))), 1)
        << x[i] << " ^ " << y[i] << " = " << r[i] << ", expected " << want;
    EXPECT_EQ(std::signbit(r[i]), std::signbit(want) && !std::isnan(want)) << x[i] << " ^ " << y[i];
  }
}

TEST(Vmath, Atan2OfEveryKind) {
  const std::vector<float> specials = {0.0f, -0.0f, 1, -1, 2, kInf, -kInf, kNan, 1e-40f, 1e30f};
  std::vector<float> x, y;
  for (float a : specials)
    for (float b : specials) x.push_back(a), y.push_back(b);
  const auto r =
      run<float, float>(micro_kernel(static_cast<int>(Micro::Atan2), Reg::F32), {y, x}, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float want = std::atan2(y[i], x[i]);
    EXPECT_LE(ulps<float>(r[i], want), 1) << y[i] << ", " << x[i] << ": " << r[i];
    if (!std::isnan(want)) {
      EXPECT_EQ(std::signbit(r[i]), std::signbit(want)) << y[i] << " " << x[i];
    }
  }
}

TEST(Vmath, ExtremesPropagateNaN) {
  const std::vector<float> x = {kNan, 1, kNan, 2, -kInf}, y = {1, kNan, kNan, 3, kInf};
  for (Micro op : {Micro::Max, Micro::Min}) {
    const auto r = run<float, float>(micro_kernel(static_cast<int>(op), Reg::F32), {x, y}, 5);
    EXPECT_TRUE(std::isnan(r[0]) && std::isnan(r[1]) && std::isnan(r[2]));
    EXPECT_EQ(r[3], op == Micro::Max ? 3 : 2);
    EXPECT_EQ(r[4], op == Micro::Max ? kInf : -kInf);
  }
}

TEST(Vmath, IntegersDivideAndShiftWithoutTrapping) {
  const int32_t low = std::numeric_limits<int32_t>::min();
  const std::vector<int32_t> x = {7, -7, 7, -7, 5, low, low, 1, -8, 3};
  const std::vector<int32_t> y = {2, 2, -2, -2, 0, -1, 1, 40, 33, -1};
  const auto of = [&](Micro op) {
    return run<int32_t, int32_t>(micro_kernel(static_cast<int>(op), Reg::I32), {x, y}, x.size());
  };
  const std::vector<int32_t> q = of(Micro::FloorDiv), m = of(Micro::Remainder), f = of(Micro::Fmod),
                             l = of(Micro::Shl), r = of(Micro::Shr);
  EXPECT_EQ((std::vector<int32_t>{q.begin(), q.begin() + 7}),
            (std::vector<int32_t>{3, -4, -4, 3, 0, low, low}));
  EXPECT_EQ((std::vector<int32_t>{m.begin(), m.begin() + 7}),
            (std::vector<int32_t>{1, 1, -1, -1, 0, 0, 0}));
  EXPECT_EQ((std::vector<int32_t>{f.begin(), f.begin() + 4}), (std::vector<int32_t>{1, -1, 1, -1}));
  EXPECT_EQ(l[7], 0);
  EXPECT_EQ(r[8], -1);
  EXPECT_EQ(l[9], 0);
}

// Contraction of x * y + z into one rounding would show here.
TEST(Vmath, ProductsAreRoundedBeforeTheyAreAdded) {
  const std::vector<float> x = {1 + 0x1p-12f}, y = {1 + 0x1p-12f}, z = {-(1 + 0x1p-11f)};
  const int addcmul = table::op::addcmul;
  const auto r = run<float, float>(row_kernel(addcmul, Reg::F32), {z, x, y}, 1, {1});
  EXPECT_EQ(r[0], 0.0f);
  const auto f =
      run<float, float>(micro_kernel(static_cast<int>(Micro::Fma), Reg::F32), {x, y, z}, 1);
  EXPECT_EQ(f[0], 0x1p-24f);
}

// ---- the same bits for every instruction set ----------------------------------------------------
template <class T>
std::vector<std::vector<T>> operands() {
  std::vector<T> x = points<T>(-20, 20);
  x.resize(8192);
  std::vector<T> y = x, z = x;
  std::mt19937 rng(11);
  std::shuffle(y.begin(), y.end(), rng);
  std::shuffle(z.begin(), z.end(), rng);
  std::vector<T> w = y;
  std::shuffle(w.begin(), w.end(), rng);
  return {x, y, z, w};
}

template <class T>
void compare_sets(const std::function<Kernel()>& kernel, size_t arity, size_t attrs,
                  const std::string& name) {
  limit_simd("avx2");
  const Kernel narrow = kernel();
  limit_simd(nullptr);
  const Kernel wide = kernel();
  ASSERT_EQ(narrow.fn == nullptr, wide.fn == nullptr);
  if (!wide.fn) return;
  auto in = operands<T>();
  in.resize(arity);
  const size_t n = in[0].size();
  const std::vector<T> a(attrs, T(1.5));
  if (wide.result == Reg::Bool) {
    EXPECT_EQ((run<uint8_t, T>(narrow, in, n, a)), (run<uint8_t, T>(wide, in, n, a))) << name;
    return;
  }
  const auto p = run<T, T>(narrow, in, n, a), q = run<T, T>(wide, in, n, a);
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(&p[i], &q[i], sizeof(T)) == 0 || (std::isnan(p[i]) && std::isnan(q[i])))
      continue;
    ADD_FAILURE() << name << " at " << in[0][i] << ": " << p[i] << " and " << q[i];
    return;
  }
}

template <class T>
void compare_all(Reg type) {
  for (int m = 0; m < static_cast<int>(Micro::kCount); ++m) {
    const size_t arity = static_cast<size_t>(table::micro_arity(static_cast<Micro>(m)));
    compare_sets<T>([=] { return micro_kernel(m, type); }, arity, 0,
                    table::micro_name(static_cast<Micro>(m)));
  }
  for (int r = 0; r < table::kNumRows; ++r) {
    const table::RowInfo& info = table::kRowTable[r];
    compare_sets<T>([=] { return row_kernel(r, type); }, info.arity, info.nattrs, info.name);
    for (int i = 0; i < 3; ++i)
      compare_sets<T>([=] { return gradient_kernel(r, i, type); },
                      info.grad == table::Grad::FROM_RESULT ? 2 : info.arity + 1u, info.nattrs,
                      std::string("gradient of ") + info.name);
  }
}
TEST(Vmath, InstructionSetsAgreeOnFloats) {
  compare_all<float>(Reg::F32);
}
TEST(Vmath, InstructionSetsAgreeOnDoubles) {
  compare_all<double>(Reg::F64);
}

}  // namespace
}  // namespace pyflame::cpu
