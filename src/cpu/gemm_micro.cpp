// Micro-kernels of the own matrix product, compiled once per instruction set.
#if defined(__x86_64__)
// AVX2 is the baseline and AVX-512 the one step up that matters here.
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm_micro.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <type_traits>
#include <utility>

#include "cpu/gemm_own.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::micro::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One step of k: sum + a b. Integers are pairs of 16 bits, two steps at once.
template <class V>
HWY_INLINE V Step(V a, V b, V sum) {
  if constexpr (std::is_same_v<hn::TFromV<V>, int32_t>) {
    const hn::ScalableTag<int32_t> d;
    const hn::ScalableTag<int16_t> pairs;
    V odd = hn::Zero(d);  // where an instruction set keeps the second steps apart
    const V even = hn::ReorderWidenMulAccumulate(d, hn::BitCast(pairs, a), hn::BitCast(pairs, b),
                                                 hn::Zero(d), odd);
    return hn::Add(sum, hn::RearrangeToOddPlusEven(even, odd));
  } else {
    return hn::MulAdd(a, b, sum);
  }
}

constexpr int64_t kAhead = 16;  // steps of k

// NV vectors wide; the last one is partial when TAIL.
template <class T, int R, int NV, bool TAIL, bool STEPS>
void Micro(const Tile<T>& t) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  const auto mask = hn::FirstN(d, static_cast<size_t>(t.cols - (NV - 1) * kLanes));
  const auto load = [&](const T* p, int v) HWY_ATTR {
    return TAIL && v == NV - 1 ? hn::MaskedLoad(mask, d, p + v * kLanes)
                               : hn::LoadU(d, p + v * kLanes);
  };

  V acc[R][NV];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) acc[i][v] = hn::Zero(d);

  const T* a = t.a;
  const T* b = t.b;
  const int64_t row = t.a_row, col = t.a_col, b_row = t.b_row;
  const int64_t row3 = 3 * row;
  const char* ahead = t.ahead;
  const int64_t ahead_bytes = t.ahead ? t.ahead_bytes : col * int64_t{sizeof(T)};
  int64_t step = 0;
  do {
    if constexpr (STEPS) {
      a = t.a + t.a_at[step], b = t.b + t.b_at[step];
      if (!t.ahead) ahead = reinterpret_cast<const char*>(a + kAhead * col);
    }
    for (int64_t p = t.k; p > 0; --p) {
      V bv[NV];
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) bv[v] = load(b, v);
      if constexpr (STEPS) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += ahead_bytes;
      } else {
        __builtin_prefetch(a + kAhead * col);  // packed ones come from the L2
      }
      // Groups of three rows: the addresses then need few registers.
      const T* group = a;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const V av = hn::Set(d, i % 3 == 0 ? group[0] : i % 3 == 1 ? group[row] : group[2 * row]);
#pragma GCC unroll 2
        for (int v = 0; v < NV; ++v) acc[i][v] = Step(av, bv[v], acc[i][v]);
        if (i % 3 == 2) group += row3;
      }
      a += col;
      b += b_row;
    }
  } while (STEPS && ++step < t.steps);

  T* c = t.c;
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      V x = acc[i][v];
      if (t.accumulate) x = hn::Add(load(c, v), x);
      if (t.bias) x = hn::Add(x, load(t.bias, v));
      if (TAIL && v == NV - 1)
        hn::BlendedStore(x, mask, d, c + v * kLanes);
      else
        hn::StoreU(x, d, c + v * kLanes);
    }
    c += t.c_row;
  }
}

template <class T, int R, bool UPPER>
void Triangle(const TriangleTile<T>& t) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  V x[R][2];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) x[i][v] = hn::LoadU(d, t.c + (2 * i + v) * kLanes);
  const T *a = t.a, *b = t.b;
  for (int64_t p = t.k; p > 0; --p) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + kLanes);
    __builtin_prefetch(a + kAhead * R);
    __builtin_prefetch(b + kAhead * 2 * kLanes);
    __builtin_prefetch(b + kAhead * 2 * kLanes + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const V av = hn::Set(d, a[i]);
      x[i][0] = hn::NegMulAdd(av, b0, x[i][0]);
      x[i][1] = hn::NegMulAdd(av, b1, x[i][1]);
    }
    a += R;
    b += 2 * kLanes;
  }
#pragma GCC unroll 16
  for (int step = 0; step < R; ++step) {
    const int i = UPPER ? R - 1 - step : step;
    const T* column = t.triangle + i * R;
    if (!t.unit) {
      const V by = hn::Set(d, column[i]);
      x[i][0] = hn::Div(x[i][0], by);
      x[i][1] = hn::Div(x[i][1], by);
    }
#pragma GCC unroll 16
    for (int j = UPPER ? 0 : i + 1; j < (UPPER ? i : R); ++j) {
      const V av = hn::Set(d, column[j]);
      x[j][0] = hn::NegMulAdd(av, x[i][0], x[j][0]);
      x[j][1] = hn::NegMulAdd(av, x[i][1], x[j][1]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) hn::StoreU(x[i][v], d, t.c + (2 * i + v) * kLanes);
}

constexpr int kRows = HWY_TARGET == HWY_AVX2 ? 6 : 12;

template <class T, int... I>
Kernels<T> Make(std::integer_sequence<int, I...>) {
  const hn::ScalableTag<T> d;
  Kernels<T> k{};
  k.mr = kRows;
  k.lanes = static_cast<int>(hn::MaxLanes(d));
  k.nr = 2 * k.lanes;
  ((k.fn[I][0] = Micro<T, I + 1, 2, false, false>, k.fn[I][1] = Micro<T, I + 1, 2, true, false>,
    k.fn[I][2] = Micro<T, I + 1, 1, true, false>),
   ...);
  if constexpr (!std::is_same_v<T, int32_t>)
    ((k.in_steps[I][0] = Micro<T, I + 1, 2, false, true>,
      k.in_steps[I][1] = Micro<T, I + 1, 2, true, true>,
      k.in_steps[I][2] = Micro<T, I + 1, 1, true, true>,
      k.triangles[I][0] = Triangle<T, I + 1, false>, k.triangles[I][1] = Triangle<T, I + 1, true>),
     ...);
  return k;
}
Kernels<float> Make32() {
  return Make<float>(std::make_integer_sequence<int, kRows>());
}
Kernels<double> Make64() {
  return Make<double>(std::make_integer_sequence<int, kRows>());
}
Kernels<int32_t> MakePairs() {
  return Make<int32_t>(std::make_integer_sequence<int, kRows>());
}

}  // namespace pyflame::cpu::micro::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu::micro {

HWY_EXPORT(Make32);
HWY_EXPORT(Make64);
HWY_EXPORT(MakePairs);

const Kernels<float>& kernels_f32() {
  static const Kernels<float> k = HWY_DYNAMIC_DISPATCH(Make32)();
  return k;
}
const Kernels<double>& kernels_f64() {
  static const Kernels<double> k = HWY_DYNAMIC_DISPATCH(Make64)();
  return k;
}
const Kernels<int32_t>& kernels_pairs() {
  static const Kernels<int32_t> k = HWY_DYNAMIC_DISPATCH(MakePairs)();
  return k;
}

}  // namespace pyflame::cpu::micro
#endif
