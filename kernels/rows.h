// What kernels over rows share: groups of threads that work on one row together, raw vectors that
// wait in registers, and the exponential of each dtype.
#ifndef PF_ROWS_H
#define PF_ROWS_H

#include "around.h"
#include "math.h"
#include "prelude.h"
#include "vector.h"

// Of the threads that have rows.
#ifndef PF_ROWS_BARRIER
#define PF_ROWS_BARRIER() pf_barrier()
#endif

#define PF_MAX_WARPS 32  // of one block: 1024 threads in warps of at least 32

#ifndef PF_WHOLE
#define PF_WHOLE 0
#endif
// -DPF_WHOLE=1: all groups have rows, and rows fill the registers of their threads. Then nothing is
// asked, and no load waits for a branch. Whether there is such a row, vector or element:
template <class I>
PF_DEVICE bool pf_has(I at, I end) {
  return PF_WHOLE || at < end;
}

// ---- what a kernel reads and makes --------------------------------------------------------------
// V values of any size from an address aligned to min(16, V * sizeof(T)), rounded and stored.
template <class T, int V, bool PAST>
PF_DEVICE void pf_put(void* p, pf_compute<T> (&x)[V]) {
  pf_round<T>(x);
  pf_store<T, V, PAST>(p, x);
}
template <class T>
PF_DEVICE pf_compute<T> pf_get_one(const void* p, pf_i64 i) {
  pf_compute<T> x[1];
  pf_load<T, 1, false>(static_cast<const char*>(p) + i * static_cast<pf_i64>(sizeof(T)), x);
  return x[0];
}
template <class T>
PF_DEVICE void pf_put_one(void* p, pf_i64 i, pf_compute<T> v) {
  const pf_compute<T> x[1] = {pf_dtype<T>::round(v)};
  pf_store<T, 1, false>(static_cast<char*>(p) + i * static_cast<pf_i64>(sizeof(T)), x);
}
// The address of element i of a row that begins at p.
template <class T>
PF_DEVICE const char* pf_at(const void* p, pf_i64 i) {
  return static_cast<const char*>(p) + i * static_cast<pf_i64>(sizeof(T));
}
template <class T>
PF_DEVICE char* pf_at(void* p, pf_i64 i) {
  return static_cast<char*>(p) + i * static_cast<pf_i64>(sizeof(T));
}

// V elements of what a kernel reads, of rows that begin at p: a row's elements from `col` on. First
// they are on their way, from memory, or what the program before the kernel makes them from.
template <class T, int V, bool PAST>
struct pf_input {
#ifdef PF_PROLOGUE
  pf_before<V> from;
  PF_METHOD void load(pf_vector<T, V>&, const void*, pf_i64 row, pf_i64,
                      pf_i64 col PF_PROLOGUE_REF) {
    from.load(before, row, col);
  }
  PF_METHOD void take(const pf_vector<T, V>&, pf_i64 row, pf_i64 col,
                      pf_compute<T> (&x)[V] PF_PROLOGUE_REF) const {
    from.run(before, row, col, x);
  }
  PF_METHOD void make(pf_vector<T, V>& v, pf_i64 row, pf_i64 col PF_PROLOGUE_REF) const {
    pf_compute<T> x[V];
    from.run(before, row, col, x);
    v.set(x);
  }
#else
  PF_METHOD void load(pf_vector<T, V>& v, const void* p, pf_i64 row, pf_i64 cols, pf_i64 col) {
    v.template load<PAST>(pf_at<T>(p, row * cols + col));
  }
  PF_METHOD void take(const pf_vector<T, V>& v, pf_i64, pf_i64, pf_compute<T> (&x)[V]) const {
    PF_UNROLL for (int j = 0; j < V; ++j) x[j] = v.get(j);
  }
  PF_METHOD void make(pf_vector<T, V>&, pf_i64, pf_i64) const {}
#endif
};
// V elements of what a kernel makes, for memory and for the program behind it, whose own operands
// are loaded first.
template <class T, int V, bool PAST>
struct pf_output {
#ifdef PF_EPILOGUE
  pf_after<V> to;
  PF_METHOD void load(pf_i64 row, pf_i64 col PF_EPILOGUE_REF) {
    to.load(epilogue, row, col);
  }
#else
  PF_METHOD void load(pf_i64, pf_i64) {}
#endif
  PF_METHOD void put(void* p, pf_i64 row, pf_i64 cols, pf_i64 col,
                     pf_compute<T> (&x)[V] PF_EPILOGUE_REF) const {
    pf_round<T>(x);
    if constexpr (pf_result_kept) pf_store<T, V, PAST>(pf_at<T>(p, row * cols + col), x);
#ifdef PF_EPILOGUE
    to.run(epilogue, row, col, x);
#endif
  }
};

// ---- groups -----------------------------------------------------------------------------------
struct pf_plus {
  template <class A>
  static PF_METHOD A join(A a, A b) {
    return a + b;
  }
};
// A NaN is dropped: where it matters, the sum that follows keeps it.
struct pf_highest {
  template <class A>
  static PF_METHOD A join(A a, A b) {
    return pf_most(a, b);
  }
};
// Joins neighbours, then neighbours of those, ...
template <class Op, int N, class A>
PF_DEVICE A pf_tree(const A* a) {
  if constexpr (N == 1)
    return a[0];
  else
    return Op::join(pf_tree<Op, N / 2>(a), pf_tree<Op, N / 2>(a + N / 2));
}
// Joins what N values each thread of a group has; all threads of the block take part and get the
// result. `size` is a power of two up to the warp's width, or a whole number of warps; groups
// follow each other in the block. `room` has PF_MAX_WARPS * N places; before it is used again
// there must be a barrier.
template <class Op, int N, class A>
PF_DEVICE void pf_group_join(A (&v)[N], pf_u32 size, A* room) {
  for (pf_u32 m = 1; m < size && m < PF_WARP; m *= 2)
    PF_UNROLL for (int i = 0; i < N; ++i) v[i] = Op::join(v[i], pf_shuffle_xor(v[i], m));
  if (size <= PF_WARP) return;
  const pf_u32 warp = pf_thread() / PF_WARP, warps = size / PF_WARP, first = warp / warps * warps;
  if (pf_thread() % PF_WARP == 0) PF_UNROLL for (int i = 0; i < N; ++i) room[warp * N + i] = v[i];
  PF_ROWS_BARRIER();
  PF_UNROLL for (int i = 0; i < N; ++i) v[i] = room[first * N + i];
  PF_NO_UNROLL for (pf_u32 k = 1; k < warps; ++k) PF_UNROLL for (int i = 0; i < N; ++i) v[i] =
      Op::join(v[i], room[(first + k) * N + i]);
}
template <class Op, class A>
PF_DEVICE A pf_group_join(A x, pf_u32 size, A* room) {
  A v[1] = {x};
  pf_group_join<Op>(v, size, room);
  return v[0];
}

// ---- where extremes begin ----------------------------------------------------------------------
PF_DEVICE float pf_lowest(float) {
  return -pf_float<float>::infinity();
}
PF_DEVICE double pf_lowest(double) {
  return -pf_float<double>::infinity();
}
PF_DEVICE pf_i32 pf_lowest(pf_i32) {
  return PF_INT_MIN;
}
PF_DEVICE pf_i64 pf_lowest(pf_i64) {
  return PF_LONG_MIN;
}
PF_DEVICE float pf_uppermost(float) {
  return pf_float<float>::infinity();
}
PF_DEVICE double pf_uppermost(double) {
  return pf_float<double>::infinity();
}
PF_DEVICE pf_i32 pf_uppermost(pf_i32) {
  return 2147483647;
}
PF_DEVICE pf_i64 pf_uppermost(pf_i64) {
  return 9223372036854775807ll;
}

// ---- variances ---------------------------------------------------------------------------------
// From the mean of squares of differences from what was near the mean, and how near it was.
template <class C>
PF_DEVICE C pf_variance(C square, C rest) {
  const C var = square - rest * rest;
  if (var != var && rest == rest) return pf_float<C>::infinity();  // inf - inf
  return var < C(0) ? C(0) : var;
}
// Of numbers that are (nearly) equal, with this mean of squares of differences: the nearest number
// to the mean, and what is left of it. Where that is less than the error of `rest` it is 0: so
// equal numbers have their mean.
template <class C>
PF_DEVICE void pf_settle_mean(C square, C& mean, C& rest) {
  if (!(square < C(1e-8) * mean * mean)) return;
  const C before = mean, left = rest - ((mean += rest) - before);
  rest = pf_abs(left) < C(1e-5) * pf_abs(rest) ? C(0) : left;
}

// ---- exponentials of numbers that are 0 or less -----------------------------------------------
// 16-bit dtypes take the hardware's power of two: its error is far below their precision.
PF_DEVICE float pf_exp_quick(float x) {
  return pf_exp2_quick(x * 1.4426950408889634f);
}
// float32 takes it near 0 only, where it is good to an ulp: a third of the instructions of
// pf_exp().
PF_DEVICE float pf_exp_of_negative(float x) {
  constexpr float kMagic = 12582912.0f + 127.0f;  // 1.5 * 2^23: the low bits become an exponent
  const float near = pf_most(pf_fma(x, 1.4426950408889634f, kMagic), kMagic - 126.0f);
  const float n = near - kMagic;
  const float rest = pf_fma(x, 1.925963033500e-8f, pf_fma(x, 1.4426950216293335f, -n));
  return pf_exp2_quick(rest) * pf_bits<float>(pf_bits<pf_u32>(near) << 23);
}
template <class T>
struct pf_row_math {
  typedef pf_compute<T> C;
  static PF_METHOD C exp(C x) {
    if constexpr (sizeof(C) == 4)
      return pf_exp_of_negative(x);
    else
      return pf_exp(x);
  }
};
template <>
struct pf_row_math<pf_bf16> {
  static PF_METHOD float exp(float x) { return pf_exp_quick(x); }
};
template <>
struct pf_row_math<pf_f16> {
  static PF_METHOD float exp(float x) { return pf_exp_quick(x); }
};

#endif
