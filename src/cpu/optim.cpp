// Optimizer steps and gradient norms over lists of tensors. Work is cut over all tensors together,
// in units of 1024 elements; each array is read and written once. Norms take fixed blocks of 16384
// elements and add them in a tree, so they do not depend on threads.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/optim.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <atomic>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/philox.h"
#include "cpu/reduce_plan.h"
#include "cpu/rows-inl.h"
#include "cpu/threads.h"
#include "cpu/widest.h"
#include "table/kernels/optim.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

// Calls fn(tensor, begin, end) over stretches of tensors [first, first + count), in parallel.
// Stretches begin at multiples of `unit` elements; fixed ones end there too.
template <class F>
void ForStretches(const KernelArgs& a, int first, int count, int64_t unit, bool fixed, F fn) {
  std::vector<int64_t> start(static_cast<size_t>(count) + 1);  // in units
  for (int i = 0; i < count; ++i)
    start[static_cast<size_t>(i) + 1] =
        start[static_cast<size_t>(i)] + (numel(a.tensor(first + i)) + unit - 1) / unit;
  const int64_t grain = fixed ? 1 : std::max<int64_t>(1, 8192 / unit);
  parallel_for(start.back(), grain, [&](int64_t begin, int64_t end) {
    size_t i =
        static_cast<size_t>(std::upper_bound(start.begin(), start.end(), begin) - start.begin()) -
        1;
    for (int64_t u = begin; u < end;) {
      while (start[i + 1] <= u) ++i;
      const int64_t stop = fixed ? u + 1 : std::min(end, start[i + 1]);
      const int64_t n = numel(a.tensor(first + static_cast<int>(i)));
      fn(static_cast<int>(i), u, (u - start[i]) * unit, std::min(n, (stop - start[i]) * unit));
      u = stop;
    }
  });
}

// f(j, Full, count): vectors of [begin, end); the last may be partial.
template <class T, class F>
HWY_INLINE void ForVectors(int64_t begin, int64_t end, F&& f) {
  constexpr int64_t W = Wide<T>::kLanes;
  int64_t j = begin;
  for (; j + W <= end; j += W) f(j, std::true_type(), W);
  if (j < end) f(j, std::false_type(), end - j);
}
template <class Full, class S>
HWY_INLINE Wide<ComputeOf<S>> Get(const S* p, int64_t j, int64_t n, Full) {
  if constexpr (Full::value)
    return (void)n, Load(p + j);
  else
    return LoadPart(p + j, n, ComputeOf<S>(0));
}
template <class Full, class T, class S>
HWY_INLINE void Set(const Wide<T>& v, S* p, int64_t j, int64_t n, Full) {
  if constexpr (Full::value)
    (void)n, Store(v, p + j);
  else
    StorePart(v, p + j, n);
}

// ---- Adam and gradient descent ------------------------------------------------------------------
// Of dtypes of parameters P, states S and gradients G.

// What steps of 16 bits do: masters of weights, copies for who reads 16 bits, rounding at random.
enum class Way { Nearest, Masters, Copies, Random };
inline constexpr int64_t kDrawn = 2 * philox::kTile;  // elements of a tile of words
inline constexpr int kMostStates = 3;

// Results of `kDrawn` elements from `first` on that wait to be rounded at random.
struct Drawn {
  uint64_t seed, counter;  // of element 0
  int64_t first;
  float values[1 + kMostStates][kDrawn + 64];  // the last vector may be partial
};

// Array kArray's elements from j on; written at once, or left to be rounded.
template <Way kWay, int kArray, class T, class S, class Full>
HWY_INLINE void Put(const Wide<T>& v, S* p, int64_t j, int64_t n, Full full, Drawn& drawn) {
  if constexpr (kWay == Way::Random && sizeof(S) == 2)
    Store(v, drawn.values[kArray] + (j - drawn.first));
  else
    (void)drawn, Set(v, p, j, n, full);
}
template <Way kWay, class S>
HWY_INLINE void RoundInto(S* p, int array, int64_t n, Drawn& drawn) {
  if constexpr (kWay == Way::Random && sizeof(S) == 2) {
    float* const x = drawn.values[array];
    uint32_t words[philox::kTile];
    philox::tile(drawn.counter + static_cast<uint64_t>(drawn.first) / 8, drawn.seed, words,
                 static_cast<uint32_t>(array));
    uint16_t halves[kDrawn];  // all of them, beyond n too: loops that are vectors
    std::memcpy(halves, words, sizeof halves);
    for (int64_t i = n; i < kDrawn; ++i) x[i] = 0;
    for (int64_t i = 0; i < kDrawn; ++i) {
      if constexpr (std::is_same_v<S, bfloat16>)
        x[i] = philox::pf_round_randomly_bf16(x[i], halves[i]);
      else
        x[i] = philox::pf_round_randomly_f16(x[i], halves[i]);
    }
    ForVectors<float>(0, n, [&](int64_t j, auto full, int64_t count) PF_INLINE {
      Set(Load(x + j), p + drawn.first, j, count, full);
    });
  }
}

// Where a weight is not its master rounded it was written by somebody: the master follows.
template <class G, class Full>
HWY_INLINE Wide<float> Followed(const Wide<float>& master, const G* weights, int64_t j, int64_t n,
                                Full full) {
  alignas(64) G near[Wide<float>::kLanes];
  Store(master, near);
  const Wide<float> w = Get(weights, j, n, full);
  return Choose(Equal(Load(near), w), master, w);
}

// run(begin, end) over stretches of all tensors, of kDrawn elements where they are rounded at
// random, with a Drawn that knows where.
template <Way kWay, class F>
void ForSteps(const KernelArgs& a, int n, int64_t seed, int64_t offset, F run) {
  std::vector<uint64_t> counters(static_cast<size_t>(n));
  auto counter = static_cast<uint64_t>(offset);
  for (int i = 0; i < n; ++i) {
    counters[static_cast<size_t>(i)] = counter;
    counter += static_cast<uint64_t>((numel(a.tensor(i)) + 7) / 8);
  }
  ForStretches(a, 0, n, 1024, false, [&](int i, int64_t, int64_t begin, int64_t end) {
    Drawn drawn;
    drawn.seed = static_cast<uint64_t>(seed);
    drawn.counter = counters[static_cast<size_t>(i)];
    const int64_t step = kWay == Way::Random ? kDrawn : end - begin;
    for (drawn.first = begin; drawn.first < end; drawn.first += step)
      run(i, drawn.first, std::min(end, drawn.first + step), drawn);
  });
}

template <class P, class S, class G, Way kWay, class W>
void SgdOf(const KernelArgs& a) {
  using T = ComputeOf<P>;
  constexpr auto number = kernels::numbers<kernels::Sgd>;
  constexpr bool kMasters = kWay == Way::Masters, kWeights = kMasters || kWay == Way::Copies;
  const int n = static_cast<int>(a.i(number.count));
  const bool momentum = a.f(number.momentum) != 0, decays = a.f(number.weight_decay) != 0;
  const bool nesterov = a.i(number.nesterov) != 0, first = a.i(number.first_step) != 0;
  const Wide<T> lr = Fill(static_cast<T>(-a.f(number.lr)));
  const Wide<T> mu = Fill(static_cast<T>(a.f(number.momentum)));
  const Wide<T> damp = Fill(static_cast<T>(1 - a.f(number.dampening)));
  const Wide<T> decay = Fill(static_cast<T>(a.f(number.weight_decay)));
  const Wide<T> sign = Fill(T(a.i(number.maximize) != 0 ? -1 : 1));
  const int at_weight = (momentum ? 2 : 1) * n, at_grad = at_weight + (kWeights ? n : 0);
  ForSteps<kWay>(a, n, a.i(number.seed), a.i(number.offset),
                 [&](int i, int64_t begin, int64_t end, Drawn& drawn) {
                   P* p = a.data<P>(i);
                   S* b = momentum ? a.data<S>(n + i) : nullptr;
                   W* w = kWeights ? a.data<W>(at_weight + i) : nullptr;
                   const G* g = a.data<G>(at_grad + i);
                   ForVectors<T>(begin, end, [&](int64_t j, auto full, int64_t count) PF_INLINE {
                     Wide<T> pv = Get(p, j, count, full);
                     if constexpr (kMasters) pv = Followed(pv, w, j, count, full);
                     Wide<T> gv = Get(g, j, count, full) * sign;
                     if (decays) gv = gv + decay * pv;
                     if (momentum) {
                       const Wide<T> bv = first ? gv : Get(b, j, count, full) * mu + damp * gv;
                       Put<kWay, 1>(bv, b, j, count, full, drawn);
                       gv = nesterov ? gv + mu * bv : bv;
                     }
                     const Wide<T> to = pv + lr * gv;
                     Put<kWay, 0>(to, p, j, count, full, drawn);
                     if (kWeights && w) Set(to, w, j, count, full);
                   });
                   RoundInto<kWay>(p, 0, end - begin, drawn);
                   if (momentum) RoundInto<kWay>(b, 1, end - begin, drawn);
                 });
}

inline constexpr int64_t kAhead = 256;  // elements

template <class P, class S, class G, Way kWay, class W>
void AdamOf(const KernelArgs& a) {
  using T = ComputeOf<P>;
  constexpr auto number = kernels::numbers<kernels::AdamW>;
  constexpr bool kMasters = kWay == Way::Masters, kWeights = kMasters || kWay == Way::Copies;
  const int n = static_cast<int>(a.i(number.count));
  const double lr = a.f(number.lr), step = static_cast<double>(a.i(number.step));
  const double beta1 = a.f(number.beta1), beta2 = a.f(number.beta2);
  const double weight_decay = a.f(number.weight_decay);
  const bool decoupled = a.i(number.decoupled) != 0, amsgrad = a.i(number.amsgrad) != 0;
  const bool decays = weight_decay != 0;
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  const Wide<T> c1 = Fill(static_cast<T>(1 - beta1)), b2 = Fill(static_cast<T>(beta2));
  const Wide<T> c2 = Fill(static_cast<T>(1 - beta2));
  const Wide<T> eps = Fill(static_cast<T>(a.f(number.eps)));
  const Wide<T> decay = Fill(static_cast<T>(decoupled ? 1 - lr * weight_decay : weight_decay));
  const Wide<T> root = Fill(static_cast<T>(1 / std::sqrt(correction2)));
  const Wide<T> size = Fill(static_cast<T>(-lr / correction1));
  const Wide<T> sign = Fill(T(a.i(number.maximize) != 0 ? -1 : 1));
  const int at_weight = (amsgrad ? 4 : 3) * n, at_grad = at_weight + (kWeights ? n : 0);
  ForSteps<kWay>(a, n, a.i(number.seed), a.i(number.offset),
                 [&](int i, int64_t begin, int64_t end, Drawn& results) {
                   P* p = a.data<P>(i);
                   S *m = a.data<S>(n + i), *v = a.data<S>(2 * n + i);
                   S* top = amsgrad ? a.data<S>(3 * n + i) : nullptr;
                   W* w = kWeights ? a.data<W>(at_weight + i) : nullptr;
                   const G* g = a.data<G>(at_grad + i);
                   Drawn* const drawn = &results;
                   // Captured by value: stores to the tensors could otherwise change the constants.
                   ForVectors<T>(begin, end, [=](int64_t j, auto full, int64_t count) PF_INLINE {
                     // The hardware's own prefetch ends with each page, that is after 64 vectors.
                     hwy::Prefetch(g + j + kAhead);
                     hwy::Prefetch(p + j + kAhead);
                     hwy::Prefetch(m + j + kAhead);
                     hwy::Prefetch(v + j + kAhead);
                     Wide<T> pv = Get(p, j, count, full), gv = Get(g, j, count, full) * sign;
                     if constexpr (kMasters) pv = Followed(pv, w, j, count, full);
                     if (decays) {
                       if (decoupled)
                         pv = pv * decay;
                       else
                         gv = gv + decay * pv;
                     }
                     Wide<T> mv = Get(m, j, count, full);
                     mv = mv + c1 * (gv - mv);
                     Put<kWay, 1>(mv, m, j, count, full, *drawn);
                     Wide<T> vv = Get(v, j, count, full) * b2 + c2 * (gv * gv);
                     Put<kWay, 2>(vv, v, j, count, full, *drawn);
                     if (amsgrad) {
                       const Wide<T> before = Get(top, j, count, full);
                       vv = Choose(GreaterThan(before, vv), before, vv);  // a NaN stays
                       vv = Choose(NotEqual(before, before), before, vv);
                       Put<kWay, 3>(vv, top, j, count, full, *drawn);
                     }
                     const Wide<T> to = pv + size * (mv / (WSqrt(vv) * root + eps));
                     Put<kWay, 0>(to, p, j, count, full, *drawn);
                     if (kWeights && w) Set(to, w, j, count, full);
                   });
                   RoundInto<kWay>(p, 0, end - begin, results);
                   RoundInto<kWay>(m, 1, end - begin, results);
                   RoundInto<kWay>(v, 2, end - begin, results);
                   if (amsgrad) RoundInto<kWay>(top, 3, end - begin, results);
                 });
}

// f<P, S, G, kWay, W>() of the dtypes of a call with `states` arrays behind `n` parameters.
template <class F>
void DispatchStep(const KernelArgs& a, int n, int states, int64_t weights, bool random, F f) {
  const DType kept = a.dtype(states ? n : 0), after = a.dtype((1 + states) * n);
  const auto narrow = [&]<class N>() {
    if (weights == static_cast<int>(kernels::Weights::Copies))
      return f.template operator()<float, float, float, Way::Copies, N>();
    if (weights) return f.template operator()<float, float, N, Way::Masters, N>();
    if (kept == DType::Float32)
      return random ? f.template operator()<N, float, N, Way::Random, N>()
                    : f.template operator()<N, float, N, Way::Nearest, N>();
    return random ? f.template operator()<N, N, N, Way::Random, N>()
                  : f.template operator()<N, N, N, Way::Nearest, N>();
  };
  if (after == DType::BFloat16) return narrow.template operator()<bfloat16>();
  if constexpr (PF_HAS_TYPE(float16))
    if (after == DType::Float16) return narrow.template operator()<float16>();
  if (after == DType::Float64)
    return f.template operator()<double, double, double, Way::Nearest, double>();
  f.template operator()<float, float, float, Way::Nearest, float>();
}

// Names of kernels/optim_rules.h over vectors. A number is a vector of equal elements.
template <class T>
struct Element : Wide<T> {
  HWY_INLINE Element() {}
  HWY_INLINE Element(const Wide<T>& w) : Wide<T>(w) {}
  HWY_INLINE explicit Element(int x) : Wide<T>(Fill(static_cast<T>(x))) {}
};
#define PF_ELEMENT_OPERATOR(OPERATOR)                                                 \
  template <class T>                                                                  \
  HWY_INLINE Element<T> operator OPERATOR(const Element<T>& a, const Element<T>& b) { \
    return static_cast<const Wide<T>&>(a) OPERATOR static_cast<const Wide<T>&>(b);    \
  }
PF_ELEMENT_OPERATOR(+)
PF_ELEMENT_OPERATOR(-)
PF_ELEMENT_OPERATOR(*)
PF_ELEMENT_OPERATOR(/)
#undef PF_ELEMENT_OPERATOR
template <class T>
HWY_INLINE WideMask<T> operator>(const Element<T>& a, const Element<T>& b) {
  return GreaterThan<T>(a, b);
}
template <class T>
HWY_INLINE WideMask<T> operator!=(const Element<T>& a, const Element<T>& b) {
  return NotEqual<T>(a, b);
}
template <class T>
HWY_INLINE Element<T> pf_sqrt(const Element<T>& a) {
  return WSqrt<T>(a);
}
template <class T>
HWY_INLINE Element<T> pf_abs(const Element<T>& a) {
  return WAbs<T>(a);
}
template <class T>
HWY_INLINE Element<T> pf_select(const WideMask<T>& m, const Element<T>& a, const Element<T>& b) {
  return Choose<T>(m, a, b);
}
#define PF_DEVICE HWY_INLINE
#define PF_SELECT(M, A, B) pf_select(M, A, B)
#undef PF_OPTIM_RULES_H
#include "kernels/optim_rules.h"
#undef PF_DEVICE
#undef PF_SELECT
static_assert(static_cast<int>(pf_lamb) == static_cast<int>(kernels::StepRule::Lamb) &&
              static_cast<int>(pf_rules) == static_cast<int>(kernels::StepRule::kCount));

template <class S, int kRule>
void StepOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  using V = Element<T>;
  constexpr auto number = kernels::numbers<kernels::OptimStep>;
  constexpr int kArrays = kernels::kStepRules[kRule].states + 2;
  const int n = static_cast<int>(a.i(number.count));
  const int64_t decays = a.i(number.decays);
  const V decay = Fill(static_cast<T>(a.f(number.decay)));
  const V sign(a.i(number.maximize) != 0 ? -1 : 1);
  V numbers[kernels::kStepNumbers];
  for (int k = 0; k < kernels::kStepNumbers; ++k)
    numbers[k] = Fill(static_cast<T>(a.f(number.n0 + k)));
  ForStretches(a, 0, n, 1024, false, [&](int i, int64_t, int64_t begin, int64_t end) {
    S* at[kArrays];
    for (int k = 0; k < kArrays; ++k) at[k] = a.data<S>(k * n + i);
    ForVectors<T>(begin, end, [=](int64_t j, auto full, int64_t count) PF_INLINE {
      V x[kArrays];
      for (int k = 0; k < kArrays; ++k) {
        hwy::Prefetch(at[k] + j + kAhead);
        x[k] = Get<decltype(full), S>(at[k], j, count, full);
      }
      V& g = x[kArrays - 1];
      g = g * sign;
      if (decays == 1) g = g + decay * x[0];
      if (decays == 2) x[0] = x[0] * decay;
      pf_rule_step<kRule>(x, numbers);
      for (int k = 0; k + 1 < kArrays; ++k) Set<decltype(full), T, S>(x[k], at[k], j, count, full);
    });
  });
}
template <class S, int kRule = 0>
void StepByRule(const KernelArgs& a, int64_t rule) {
  if constexpr (kRule < static_cast<int>(kernels::StepRule::kCount)) {
    if (rule == kRule) return StepOf<S, kRule>(a);
    StepByRule<S, kRule + 1>(a, rule);
  }
}

// What the norm of one block starts from: the sum of |x|^p, or the maximum of |x|.
template <class S>
double BlockNorm(const S* x, int64_t n, double p) {
  using T = ComputeOf<S>;
  Four<T> s(T(0));
  if (p == 2 || p == 1 || std::isinf(p)) {
    const bool square = p == 2, high = std::isinf(p);
    WideMask<T> nan = NotEqual(s.a[0], s.a[0]);
    bool any_nan = false;
    ForRow<T>(
        n, At<1, 0, S>{{x}, {}}, T(0),
        [&](auto step, const auto& at, int64_t j) PF_INLINE {
          const Wide<T> v = Load(at.in[0] + j);
          Wide<T>& to = s.a[step.index];
          if (high) {
            nan = NotEqual(v, v);
            any_nan = any_nan || AnyTrue(nan);
            to = WMax(to, WAbs(v));
          } else {
            to = to + (square ? v * v : WAbs(v));
          }
        },
        []() PF_INLINE {});
    if (any_nan) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(high ? s.max() : s.sum());
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::pow(std::fabs(static_cast<double>(ToCompute(x[i]))), p);
  return sum;
}

inline constexpr int64_t kNormBlock = 16384;

}  // namespace

void Sgd(const KernelArgs& a) {
  constexpr auto number = kernels::numbers<kernels::Sgd>;
  const int n = static_cast<int>(a.i(number.count)), states = a.f(number.momentum) != 0 ? 1 : 0;
  DispatchStep(a, n, states, a.i(number.weights), a.i(number.random) != 0,
               [&]<class P, class S, class G, Way kWay, class W>() { SgdOf<P, S, G, kWay, W>(a); });
}
void AdamW(const KernelArgs& a) {
  constexpr auto number = kernels::numbers<kernels::AdamW>;
  const int n = static_cast<int>(a.i(number.count)), states = a.i(number.amsgrad) != 0 ? 3 : 2;
  DispatchStep(
      a, n, states, a.i(number.weights), a.i(number.random) != 0,
      [&]<class P, class S, class G, Way kWay, class W>() { AdamOf<P, S, G, kWay, W>(a); });
}
void OptimStep(const KernelArgs& a) {
  const int64_t rule = a.i(kernels::numbers<kernels::OptimStep>.rule);
  dispatch_float(a.dtype(0), [&]<class S>() {
    // Wider vectors make float32 and float64 no faster, see optim_step.
    if constexpr (PF_HAS_TYPE(S) && (HWY_TARGET == HWY_STATIC_TARGET || sizeof(S) == 2))
      StepByRule<S>(a, rule);
  });
}

void MultiNorm(const KernelArgs& a) {
  constexpr int kNorm = kernels::tensors<kernels::MultiNorm>.norm, kFirst = kNorm + 1;
  const double p = a.f(kernels::numbers<kernels::MultiNorm>.p);
  const int n = a.ntensors - kFirst;
  int64_t blocks = 0;
  for (int i = 0; i < n; ++i) blocks += (numel(a.tensor(kFirst + i)) + kNormBlock - 1) / kNormBlock;
  const Scratch<double> sums(blocks);
  double* const partial = sums.get();
  ForStretches(a, kFirst, n, kNormBlock, true,
               [&](int i, int64_t unit, int64_t begin, int64_t end) {
                 dispatch_float(a.dtype(kFirst + i), [&]<class S>() {
                   partial[unit] = BlockNorm(a.data<S>(kFirst + i) + begin, end - begin, p);
                 });
               });
  double total = 0;
  if (std::isinf(p)) {
    for (int64_t i = 0; i < blocks; ++i)
      total = partial[i] > total || partial[i] != partial[i] ? partial[i] : total;
  } else if (blocks > 0) {
    total = tree(partial, blocks, 1, [](double x, double y) { return x + y; });
    total = p == 2 ? std::sqrt(total) : p == 1 ? total : std::pow(total, 1 / p);
  }
  if (a.dtype(kNorm) == DType::Float64)
    *a.data<double>(kNorm) = total;
  else
    *a.data<float>(kNorm) = static_cast<float>(total);
}

void MultiClipNorm(const KernelArgs& a) {
  const int n = a.ntensors - 1;
  const double norm =
      a.dtype(n) == DType::Float64 ? *a.data<double>(n) : static_cast<double>(*a.data<float>(n));
  const double most = a.f(kernels::numbers<kernels::MultiClipNorm>.most);
  const double c = most / (norm + 1e-6), factor = c > 1 ? 1 : c;  // NaN goes through
  if (factor == 1) return;
  ForStretches(a, 0, n, 1024, false, [&](int i, int64_t, int64_t begin, int64_t end) {
    dispatch_float(a.dtype(i), [&]<class S>() {
      using T = ComputeOf<S>;
      S* x = a.data<S>(i);
      const Wide<T> k = Fill(static_cast<T>(factor));
      ForVectors<T>(begin, end, [&](int64_t j, auto full, int64_t count) PF_INLINE {
        Set(Get(x, j, count, full) * k, x, j, count, full);
      });
    });
  });
}

void MultiClipValue(const KernelArgs& a) {
  const double bound = a.f(kernels::numbers<kernels::MultiClipValue>.bound);
  ForStretches(a, 0, a.ntensors, 1024, false, [&](int i, int64_t, int64_t begin, int64_t end) {
    dispatch_float(a.dtype(i), [&]<class S>() {
      using T = ComputeOf<S>;
      S* x = a.data<S>(i);
      const Wide<T> high = Fill(static_cast<T>(bound)), low = Fill(static_cast<T>(-bound));
      ForVectors<T>(begin, end, [&](int64_t j, auto full, int64_t count) PF_INLINE {
        Wide<T> v = Get(x, j, count, full);
        v = Choose(GreaterThan(v, high), high, v);
        Set(Choose(GreaterThan(low, v), low, v), x, j, count, full);
      });
    });
  });
}

// A number is finite when x - x is 0.
void MultiNonfinite(const KernelArgs& a) {
  constexpr int kFound = kernels::tensors<kernels::MultiNonfinite>.found, kFirst = kFound + 1;
  std::atomic<bool> found{false};
  ForStretches(a, kFirst, a.ntensors - kFirst, kNormBlock, true,
               [&](int i, int64_t, int64_t begin, int64_t end) {
                 if (found.load(std::memory_order_relaxed)) return;
                 dispatch_float(a.dtype(kFirst + i), [&]<class S>() {
                   using T = ComputeOf<S>;
                   const S* x = a.data<S>(kFirst + i);
                   const Wide<T> zero = Fill(T(0));
                   bool bad = false;
                   ForVectors<T>(begin, end, [&](int64_t j, auto full, int64_t count) PF_INLINE {
                     const Wide<T> v = Get(x, j, count, full);
                     bad = bad || AnyTrue(NotEqual(v - v, zero));
                   });
                   if (bad) found.store(true, std::memory_order_relaxed);
                 });
               });
  *a.data<bool>(kFound) = found;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(Sgd);
HWY_EXPORT(AdamW);
HWY_EXPORT(OptimStep);
namespace {
// The last tensors are gradients.
DType of_gradients(const KernelArgs& a) {
  return a.ntensors > 0 ? a.dtype(a.ntensors - 1) : DType::Float32;
}
// And in front of them weights, where there are any.
template <class Step>
DType narrowest_of(const KernelArgs& a) {
  constexpr auto number = kernels::numbers<Step>;
  const auto count = static_cast<int>(a.i(number.count));
  return count && a.i(number.weights) ? a.dtype(a.ntensors - 1 - count) : of_gradients(a);
}
void sgd(const KernelArgs& a) {
  PF_DISPATCH_TYPE(Sgd, narrowest_of<kernels::Sgd>(a))(a);
}
void adamw(const KernelArgs& a) {
  PF_DISPATCH_TYPE(AdamW, narrowest_of<kernels::AdamW>(a))(a);
}
void optim_step(const KernelArgs& a) {
  if (of_gradients(a) == DType::BFloat16)
    HWY_DYNAMIC_DISPATCH(OptimStep)(a);
  else
    HWY_STATIC_DISPATCH(OptimStep)(a);
}
}  // namespace
PF_CPU_KERNEL(kernels::Sgd::kInfo, sgd)
PF_CPU_KERNEL(kernels::AdamW::kInfo, adamw)
PF_CPU_KERNEL(kernels::OptimStep::kInfo, optim_step)
PF_CPU_SIMD_KERNEL(MultiNorm)
PF_CPU_SIMD_KERNEL(MultiClipNorm)
PF_CPU_SIMD_KERNEL(MultiClipValue)
PF_CPU_SIMD_KERNEL(MultiNonfinite)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
