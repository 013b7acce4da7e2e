// Reductions over any dimensions whose result does not depend on the order: sums of integers,
// places of extremes, tests, counts (sum.h has the others). Element k of a reduction is
// numbered in row-major order over the reduced dimensions. Threads lie along k where neighbours of
// k are neighbours in memory (reduce_rows), else along the outputs (reduce_columns). Long
// reductions are cut into chunks, whose results reduce_finish joins.
//
//   -DPF_T=  dtype of the input        -DPF_OP=  one of the operations below
//   -DPF_V=  elements of one access    -DPF_DENSE=1: at most one reduced axis (of stride 1 when
//                                                   V > 1 in reduce_rows)
#include "axes.h"
#include "reduce_args.h"
#include "rows.h"

#define PF_REDUCE_THREADS 256

typedef PF_T T;
constexpr int V = PF_V;

// ---- operations -------------------------------------------------------------------------------
// lift: an element as an accumulator, `at` its place in the chunk. join: of any two; follow: the
// second comes later. wide: with its place in the whole reduction.
template <class C>
struct pf_value_of {
  typedef C type;
};
template <>
struct pf_value_of<bool> {
  typedef pf_i32 type;
};
template <class T>
using pf_value = typename pf_value_of<pf_compute<T>>::type;

template <class T, class A>
struct pf_op_base {
  typedef A acc;
  typedef A wide_acc;
  typedef pf_compute<T> C;
  static PF_METHOD A wide(A a, pf_i64) { return a; }
  static PF_METHOD A wide_start(A a) { return a; }
};
template <class T>
struct pf_op_sum_int : pf_op_base<T, pf_i64> {
  typedef pf_i64 A;
  static PF_METHOD A start() { return 0; }
  static PF_METHOD A lift(pf_compute<T> x, pf_i32) { return x; }
  static PF_METHOD A join(A a, A b) { return pf_add(a, b); }
  static PF_METHOD A follow(A a, A b) { return pf_add(a, b); }
  static PF_METHOD void finish(const pf_reduce& r, pf_i64 o, A a) {
    static_cast<pf_i64*>(r.out)[o] = a;
  }
};
template <class T>
struct pf_op_count : pf_op_sum_int<T> {
  static PF_METHOD pf_i64 lift(pf_compute<T> x, pf_i32) { return x != pf_compute<T>(0); }
};
template <class T>
struct pf_op_prod_int : pf_op_sum_int<T> {
  typedef pf_i64 A;
  static PF_METHOD A start() { return 1; }
  static PF_METHOD A join(A a, A b) { return pf_mul(a, b); }
  static PF_METHOD A follow(A a, A b) { return pf_mul(a, b); }
};
template <class T, bool ALL>
struct pf_op_test : pf_op_base<T, pf_i32> {
  typedef pf_i32 A;
  static PF_METHOD A start() { return ALL; }
  static PF_METHOD A lift(pf_compute<T> x, pf_i32) { return x != pf_compute<T>(0); }
  static PF_METHOD A join(A a, A b) { return ALL ? a & b : a | b; }
  static PF_METHOD A follow(A a, A b) { return join(a, b); }
  static PF_METHOD void finish(const pf_reduce& r, pf_i64 o, A a) {
    pf_put_one<pf_bool>(r.out, o, a != 0);
  }
};
template <class T>
struct pf_op_any : pf_op_test<T, false> {};
template <class T>
struct pf_op_all : pf_op_test<T, true> {};

// The first extreme, or the first NaN; at < 0: nothing yet.
template <class A, class I>
struct pf_found {
  A value;
  I at;
};
template <class A, class I>
PF_DEVICE pf_found<A, I> pf_shuffle_xor(pf_found<A, I> f, pf_u32 mask) {
  return {pf_shuffle_xor(f.value, mask), pf_shuffle_xor(f.at, mask)};
}
template <class T, bool MAX>
struct pf_op_find {
  typedef pf_compute<T> C;
  typedef pf_value<T> A;
  typedef pf_found<A, pf_i32> acc;
  typedef pf_found<A, pf_i64> wide_acc;
  static PF_METHOD acc start() { return {MAX ? pf_lowest(A(0)) : pf_uppermost(A(0)), -1}; }
  static PF_METHOD wide_acc wide_start(acc a) { return {a.value, -1}; }
  static PF_METHOD acc lift(C x, pf_i32 at) { return {static_cast<A>(x), at}; }
  static PF_METHOD wide_acc wide(acc a, pf_i64 begin) {
    return {a.value, a.at < 0 ? -1 : begin + a.at};
  }
  static PF_METHOD bool better(A v, A best) {
    return (MAX ? v > best : v < best) || (v != v && best == best);
  }
  // Member by member: one of two structs would be chosen by its address, in memory.
  template <class I>
  static PF_METHOD pf_found<A, I> chosen(bool first, pf_found<A, I> a, pf_found<A, I> b) {
    return {first ? a.value : b.value, first ? a.at : b.at};
  }
  template <class I>
  static PF_METHOD pf_found<A, I> follow(pf_found<A, I> a, pf_found<A, I> b) {
    return chosen(a.at < 0 || better(b.value, a.value), b, a);
  }
  template <class I>
  static PF_METHOD pf_found<A, I> join(pf_found<A, I> a, pf_found<A, I> b) {
    if (b.at < 0) return a;
    if (a.at < 0) return b;
    const bool b_wins = b.at > a.at ? better(b.value, a.value) : !better(a.value, b.value);
    return chosen(b_wins, b, a);
  }
  static PF_METHOD void finish(const pf_reduce& r, pf_i64 o, wide_acc a) {
    if (r.values) pf_put_one<T>(r.values, o, static_cast<C>(a.value));
    static_cast<pf_i64*>(r.out)[o] = a.at;
  }
};
template <class T>
struct pf_op_argmax : pf_op_find<T, true> {};
template <class T>
struct pf_op_argmin : pf_op_find<T, false> {};

typedef PF_OP<T> Op;
typedef Op::acc Acc;
typedef Op::wide_acc Wide;
typedef pf_compute<T> C;

// ---- kernels ----------------------------------------------------------------------------------
PF_DEVICE void pf_reduce_store(const pf_reduce& r, pf_i64 o, pf_i64 c, Acc a) {
  const Wide w = Op::wide(a, c * r.chunk);
  if (r.chunks == 1)
    Op::finish(r, o, w);
  else
    static_cast<Wide*>(r.partial)[c * r.kept.count + o] = w;
}
// Element k of the reduction that begins at `row`.
PF_DEVICE const char* pf_reduce_at(const pf_reduce& r, const char* row, pf_i64 k) {
  if constexpr (PF_DENSE)
    return pf_at<T>(row, V > 1 ? k : k * r.reduced.stride[0]);
  else
    return pf_at<T>(row, pf_offset(r.reduced, k));
}
// Neighbours, in a tree.
template <int N>
PF_DEVICE Acc pf_follow_all(const Acc* a) {
  if constexpr (N == 1)
    return a[0];
  else
    return Op::follow(pf_follow_all<N / 2>(a), pf_follow_all<N / 2>(a + N / 2));
}
// V elements of result o from k on: first on their way, from memory or for the program before the
// kernel.
struct pf_piece {
#ifdef PF_PROLOGUE
  pf_input<T, V, true> in;
  PF_METHOD void load(const pf_reduce& r, const char*, pf_i64 o, pf_i64 k PF_PROLOGUE_REF) {
    pf_vector<T, V> none;
    in.load(none, r.x, o, r.reduced.count, k PF_PROLOGUE_PASS);
  }
  PF_METHOD void take(pf_i64 o, pf_i64 k, C (&x)[V] PF_PROLOGUE_REF) const {
    in.take({}, o, k, x PF_PROLOGUE_PASS);
  }
#else
  pf_vector<T, V> v;
  PF_METHOD void load(const pf_reduce& r, const char* row, pf_i64, pf_i64 k) {
    v.template load<true>(pf_reduce_at(r, row, k));
  }
  PF_METHOD void take(pf_i64, pf_i64, C (&x)[V]) const {
    PF_UNROLL for (int j = 0; j < V; ++j) x[j] = v.get(j);
  }
#endif
  // Joined; `at` in their chunk.
  PF_METHOD Acc join(pf_i64 o, pf_i64 k, pf_i32 at PF_PROLOGUE_REF) const {
    C x[V];
    take(o, k, x PF_PROLOGUE_PASS);
    Acc a[V];
    PF_UNROLL for (int j = 0; j < V; ++j) a[j] = Op::lift(x[j], at + j);
    return pf_follow_all<V>(a);
  }
};

PF_KERNEL(reduce_rows, PF_REDUCE_THREADS)(const pf_reduce r PF_PROLOGUE_ARGS) {
  PF_SHARED Acc room[PF_MAX_WARPS];
  const pf_u32 width = r.width, t = pf_thread() % width;
  const pf_i64 b = pf_block(), c = pf_quotient(b, r.tiles), tile = b - c * r.tiles;
  const pf_i64 o = tile * (PF_REDUCE_THREADS / width) + pf_thread() / width;
  const bool on = o < r.kept.count;
  const pf_i64 begin = c * r.chunk, stop = begin + r.chunk;
  const pf_i64 end = on ? (stop < r.reduced.count ? stop : r.reduced.count) : begin;
  const char* row = pf_at<T>(r.x, on ? pf_offset(r.kept, o) : 0);
  const pf_i64 step = static_cast<pf_i64>(width) * V;
  Acc a = Op::start();
  pf_i64 k = begin + static_cast<pf_i64>(t) * V;
  for (; k + 3 * step + V <= end; k += 4 * step) {
    pf_piece p[4];
    PF_UNROLL for (int u = 0; u < 4; ++u) p[u].load(r, row, o, k + u * step PF_PROLOGUE_PASS);
    Acc s[4];
    PF_UNROLL for (int u = 0; u < 4; ++u) s[u] =
        p[u].join(o, k + u * step, static_cast<pf_i32>(k + u * step - begin) PF_PROLOGUE_PASS);
    a = Op::follow(a, pf_follow_all<4>(s));
  }
  PF_NO_UNROLL for (; k + V <= end; k += step) {
    pf_piece p;
    p.load(r, row, o, k PF_PROLOGUE_PASS);
    a = Op::follow(a, p.join(o, k, static_cast<pf_i32>(k - begin) PF_PROLOGUE_PASS));
  }
#ifndef PF_PROLOGUE     // whose rows are whole vectors
  if constexpr (V > 1)  // what fills no vector, at the end of a row
    PF_NO_UNROLL for (k = end / V * V + t; k < end; k += width) a =
        Op::follow(a, Op::lift(pf_get_one<T>(row, k), static_cast<pf_i32>(k - begin)));
#endif
  a = pf_group_join<Op>(a, width, room);
  if (t == 0 && on) pf_reduce_store(r, o, c, a);
}

// Joins what the threads of a column have, one above the other: thread (y, x) is y * width + x.
// The sums are in a[] of y = 0 then.
template <class A, int N>
PF_DEVICE void pf_column_join(A (&a)[N], pf_u32 width, A* room) {
  const pf_u32 t = pf_thread();
  for (pf_u32 h = PF_REDUCE_THREADS / 2; h >= width; h /= 2) {
    if (t >= h && t < 2 * h)
      PF_UNROLL for (int j = 0; j < N; ++j) room[j * PF_REDUCE_THREADS + t] = a[j];
    pf_barrier();
    if (t < h)
      PF_UNROLL for (int j = 0; j < N; ++j) a[j] =
          Op::join(a[j], room[j * PF_REDUCE_THREADS + t + h]);
  }
}

PF_KERNEL(reduce_columns, PF_REDUCE_THREADS)(const pf_reduce r) {
  PF_SHARED Acc room[PF_REDUCE_THREADS * V];
  const pf_u32 width = r.width, x = pf_thread() % width, y = pf_thread() / width;
  const pf_u32 height = PF_REDUCE_THREADS / width;
  const pf_i64 b = pf_block(), c = pf_quotient(b, r.tiles), tile = b - c * r.tiles;
  const pf_i64 o = (tile * width + x) * V;
  const bool on = o < r.kept.count;
  const pf_i64 begin = c * r.chunk, stop = begin + r.chunk;
  const pf_i64 end = on ? (stop < r.reduced.count ? stop : r.reduced.count) : begin;
  const char* column = pf_at<T>(r.x, on ? pf_offset(r.kept, o) : 0);
  Acc a[V];
  PF_UNROLL for (int j = 0; j < V; ++j) a[j] = Op::start();
  const auto at = [&](pf_i64 k) PF_INLINE {
    return pf_at<T>(column, PF_DENSE ? k * r.reduced.stride[0] : pf_offset(r.reduced, k));
  };
  pf_i64 k = begin + y;
  const pf_i64 step = height;
  for (; k + 3 * step < end; k += 4 * step) {
    pf_vector<T, V> v[4];
    PF_UNROLL for (int u = 0; u < 4; ++u) v[u].load<true>(at(k + u * step));
    PF_UNROLL for (int j = 0; j < V; ++j) {
      Acc s[4];
      PF_UNROLL for (int u = 0; u < 4; ++u) s[u] =
          Op::lift(v[u].get(j), static_cast<pf_i32>(k + u * step - begin));
      a[j] = Op::follow(a[j], pf_follow_all<4>(s));
    }
  }
  PF_NO_UNROLL for (; k < end; k += step) {
    pf_vector<T, V> v;
    v.load<true>(at(k));
    PF_UNROLL for (int j = 0; j < V; ++j) a[j] =
        Op::follow(a[j], Op::lift(v.get(j), static_cast<pf_i32>(k - begin)));
  }
  pf_column_join(a, width, room);
  if (y == 0 && on) PF_UNROLL for (int j = 0; j < V; ++j) pf_reduce_store(r, o + j, c, a[j]);
}

// Joins the results of chunks, in their order.
PF_KERNEL(reduce_finish, PF_REDUCE_THREADS)(const pf_reduce r) {
  PF_SHARED Wide room[PF_REDUCE_THREADS];
  const pf_u32 width = r.width, height = PF_REDUCE_THREADS / width;
  const pf_i64 outs = r.kept.count;
  const pf_i64 o = static_cast<pf_i64>(pf_block()) * width + pf_thread() % width;
  const Wide* from = static_cast<const Wide*>(r.partial) + o;
  const pf_i64 end = o < outs ? r.chunks : 0;
  Wide a[1] = {Op::wide_start(Op::start())};
  pf_i64 k = pf_thread() / width;
  for (; k + 3 * height < end; k += 4 * height) {
    Wide w[4];
    PF_UNROLL for (int u = 0; u < 4; ++u) w[u] = from[(k + u * height) * outs];
    a[0] = Op::follow(a[0], Op::follow(Op::follow(w[0], w[1]), Op::follow(w[2], w[3])));
  }
  PF_NO_UNROLL for (; k < end; k += height) a[0] = Op::follow(a[0], from[k * outs]);
  pf_column_join(a, width, room);
  if (pf_thread() < width && o < outs) Op::finish(r, o, a[0]);
}
