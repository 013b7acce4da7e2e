// Running sums, products and extremes along one dimension. A block takes one line: pieces of
// 4 x 256 elements, a tree over the threads' parts, and what came before carried along. Floats are
// added in double. The order depends on the length alone.
//   -DPF_T=type, -DPF_INDEX=..., -DPF_OP=pf_scan_sum, pf_scan_product, pf_scan_logsumexp
#include "math.h"
#include "space.h"

#define PF_SCAN_THREADS 256
constexpr int kEach = 4;
typedef PF_T T;

template <class A>
struct pf_is_float {
  static constexpr bool value = false;
};
template <>
struct pf_is_float<float> {
  static constexpr bool value = true;
};
template <>
struct pf_is_float<double> {
  static constexpr bool value = true;
};
template <bool FLOAT>
struct pf_wide {
  typedef double type;
};
template <>
struct pf_wide<false> {
  typedef pf_i64 type;
};
typedef pf_wide<pf_is_float<pf_compute<T>>::value>::type A;

#ifndef PF_EXTREME
PF_DEVICE double pf_plus(double a, double b) {
  return a + b;
}
PF_DEVICE pf_i64 pf_plus(pf_i64 a, pf_i64 b) {
  return static_cast<pf_i64>(static_cast<pf_u64>(a) + static_cast<pf_u64>(b));
}
PF_DEVICE double pf_times(double a, double b) {
  return a * b;
}
PF_DEVICE pf_i64 pf_times(pf_i64 a, pf_i64 b) {
  return static_cast<pf_i64>(static_cast<pf_u64>(a) * static_cast<pf_u64>(b));
}
template <class A>
struct pf_scan_sum {
  static PF_METHOD A start() { return A(0); }
  static PF_METHOD A join(A a, A b) { return pf_plus(a, b); }
};
template <class A>
struct pf_scan_product {
  static PF_METHOD A start() { return A(1); }
  static PF_METHOD A join(A a, A b) { return pf_times(a, b); }
};
template <class A>
struct pf_scan_logsumexp {
  static PF_METHOD A start() { return static_cast<A>(-PF_INF); }
  static PF_METHOD A join(A a, A b) {
    if (a != a || b != b) return a + b;
    const A high = a > b ? a : b, low = a > b ? b : a;
    if (high - high != A(0)) return high;  // also -inf and -inf
    return high + pf_log1p(pf_exp(low - high));
  }
};
typedef PF_OP<A> pf_op;
typedef A pf_item;
PF_DEVICE pf_item pf_start() {
  return pf_op::start();
}
PF_DEVICE pf_item pf_join_items(const pf_item& a, const pf_item& b) {
  return pf_op::join(a, b);
}
#else
// The last of equals counts; a NaN wins, the last one of several.
struct pf_item {
  pf_compute<T> value;
  pf_i64 at;  // -1: nothing yet
};
PF_DEVICE pf_item pf_start() {
  return {pf_compute<T>(0), -1};
}
PF_DEVICE pf_item pf_join_items(const pf_item& a, const pf_item& b) {
  if (a.at < 0) return b;
  if (b.at < 0) return a;
  const bool later =
      b.value != b.value ||
      (a.value == a.value && (PF_EXTREME < 0 ? b.value <= a.value : b.value >= a.value));
  return later ? b : a;
}
#endif

// Inclusive over the threads of the block; gives what came before this thread, and the total.
PF_DEVICE pf_item pf_scan_threads(pf_item mine, pf_item* shared, pf_item& total) {
  const pf_u32 t = pf_thread();
  shared[t] = mine;
  pf_barrier();
  for (pf_u32 by = 1; by < PF_SCAN_THREADS; by *= 2) {
    pf_item v = shared[t];
    if (t >= by) v = pf_join_items(shared[t - by], v);
    pf_barrier();
    shared[t] = v;
    pf_barrier();
  }
  const pf_item before = t ? shared[t - 1] : pf_start();
  total = shared[PF_SCAN_THREADS - 1];
  pf_barrier();
  return before;
}

// The lines of `s`: operands out (or values, indices) and in; steps along the line.
PF_KERNEL(pf_scan, PF_SCAN_THREADS)
(pf_space s, void* out, void* indices, const void* in, pf_i64 length, pf_i64 out_step,
 pf_i64 index_step, pf_i64 in_step) {
  PF_SHARED char memory[PF_SCAN_THREADS * sizeof(pf_item)];
  pf_item* shared = reinterpret_cast<pf_item*>(memory);
  for (pf_i64 line = pf_block(); line < s.numel; line += pf_blocks()) {
    pf_i64 at[3];
    pf_offsets<3>(s, static_cast<pf_index>(line), at);
    pf_item carry = pf_start();
    for (pf_i64 from = 0; from < length; from += PF_SCAN_THREADS * kEach) {
      const pf_i64 first = from + pf_thread() * kEach;
      pf_item v[kEach], sum = pf_start();
      for (int i = 0; i < kEach; ++i) {
        v[i] = pf_start();
        if (first + i < length) {
          const pf_compute<T> x = pf_get<T>(in, at[1] + (first + i) * in_step);
#ifdef PF_EXTREME
          v[i] = {x, first + i};
#else
          v[i] = pf_cast<A>(x);
#endif
        }
        sum = i ? pf_join_items(sum, v[i]) : v[i];
      }
      pf_item total;
      pf_item run = pf_join_items(carry, pf_scan_threads(sum, shared, total));
      for (int i = 0; i < kEach; ++i) {
        run = pf_join_items(run, v[i]);
        if (first + i >= length) break;
#ifdef PF_EXTREME
        pf_put<T>(out, at[0] + (first + i) * out_step, run.value);
        static_cast<pf_i64*>(indices)[at[2] + (first + i) * index_step] = run.at;
#else
        pf_put<T>(out, at[0] + (first + i) * out_step, run);
#endif
      }
      carry = pf_join_items(carry, total);
    }
  }
}
