// The sum of rows, of their differences from their first element, and of the squares of what these
// differ from their mean by, in one launch: each as sum.h makes it, to the bit, which says what the
// order of additions is. A row stays in the registers of its threads from one sum to the next.
//
// Thread t of a group of LANES has vector t of each line of LANES vectors, and KEPT of these lines;
// GROUPS groups share a row. Trees of neighbours begin in a thread's vectors and go on among the
// lanes. A line is a leaf of the sum; of the other two, whose W may be half as large, it is a leaf
// or two. Rows of several leaves have LANES 32. Leaves pass through shared memory to the ways,
// which each group adds for itself. Zeros that stand for what is not there, here often more than in
// sum.h, change nothing: a way begins with one.
//
//   -DPF_T=     dtype
//   -DPF_WIDE=1: differences and squares are as if x were of the dtype that T is calculated in
//   -DPF_OUT=   dtype of the last sum
//   -DPF_TOTAL= 0: without the first sum
//   -DPF_KEPT=  1, 2, 4 or 8: 16-byte vectors of a thread
//   -DPF_GROUPS=1, 2 or 4; 1 where KEPT is less than 4
//   -DPF_V=     elements of one access: rows of whole aligned vectors, or 1
//   -DPF_WHOLE=0|1  rows.h
#include "axes.h"
#include "reduce_args.h"
#include "rows.h"

typedef PF_T T;
typedef pf_compute<T> C;
#if PF_WIDE
typedef C O;
#else
typedef T O;
#endif
constexpr int W = 16 / static_cast<int>(sizeof(T)), KEPT = PF_KEPT, GROUPS = PF_GROUPS;
constexpr int LEAVES = sizeof(O) > sizeof(T) ? 2 : 1;  // of the differences, in a line

#define PF_MOMENT_THREADS 128
#define PF_MOMENT_LANES 32

// The place in a row of a thread's vector i.
PF_DEVICE pf_u32 pf_line(pf_u32 group, pf_u32 i) {
  return (i & ~3u) * GROUPS + group * 4 + (i & 3);
}
// The tree of a vector's elements from k on, of a row of so many; whole vectors are in it or not.
PF_DEVICE C pf_tree_of(C (&x)[W], pf_u32 k, pf_u32 count) {
  if constexpr (PF_V > 1) {
    const C sum = pf_tree<pf_plus, W>(x);
    return pf_has(k, count) ? sum : C(0);
  } else {
    PF_UNROLL for (int j = 0; j < W; ++j) x[j] = k + j < count ? x[j] : C(0);
    return pf_tree<pf_plus, W>(x);
  }
}
// The trees of N vectors of each lane, from that of neighbours M on: lane t has vector t mod N of
// them joined over N lanes. Each lane gives away what the other has to care for.
template <int N, int M>
PF_DEVICE C pf_exchange(pf_u32 t, const C* a) {
  if constexpr (N == 1) {
    return a[0];
  } else {
    const bool second = t & M;
    C rest[N / 2];
    PF_UNROLL for (int i = 0; i < N; i += 2) rest[i / 2] =
        (second ? a[i + 1] : a[i]) + pf_shuffle_xor(second ? a[i] : a[i + 1], M);
    return pf_exchange<N / 2, 2 * M>(t, rest);
  }
}
// From the trees of a thread's vectors to those of the leaves, N in a line, in shared memory; of a
// row of one leaf to that.
template <int N>
PF_DEVICE C pf_leaves(pf_u32 lanes, pf_u32 group, pf_u32 t, C (&a)[KEPT], C* leaves) {
  if (KEPT == 1 && lanes < PF_MOMENT_LANES) {
    for (pf_u32 m = 1; m < lanes; m *= 2) a[0] += pf_shuffle_xor(a[0], m);
    return a[0];
  }
  constexpr pf_u32 side = PF_MOMENT_LANES / N;
  C s = pf_exchange<KEPT, 1>(t, a);
  PF_UNROLL for (pf_u32 m = KEPT; m < side; m *= 2) s += pf_shuffle_xor(s, m);
  const pf_u32 i = t % KEPT;
  if (t % side < KEPT) leaves[(KEPT < 4 ? i : pf_line(group, i)) * N + t / side] = s;
  return C(0);
}
// The sum of a row: all lanes have it. `one` is that of its only leaf, where it has one.
template <int N>
PF_DEVICE C pf_ways(pf_u32 lanes, pf_u32 t, C one, const C* leaves) {
  if (KEPT == 1 && lanes < PF_MOMENT_LANES) return C(0) + one;
  constexpr pf_u32 count = KEPT * GROUPS * N;
  C way = C(0);
  PF_UNROLL for (pf_u32 l = 0; l < count; l += 8) if (count >= 8 || t % 8 < count) way +=
      leaves[l + t % 8];
  PF_UNROLL for (pf_u32 m = 1; m < 8; m *= 2) way += pf_shuffle_xor(way, m);
  return way;
}

PF_KERNEL(moment_rows, PF_MOMENT_THREADS)(const pf_moments r PF_PROLOGUE_ARGS) {
  constexpr int warps = PF_MOMENT_THREADS / PF_MOMENT_LANES;
  PF_SHARED C origins[PF_MOMENT_THREADS];
  PF_SHARED C leaves[3][warps * KEPT * LEAVES];
  const pf_u32 lanes = KEPT == 1 ? r.lanes : PF_MOMENT_LANES, threads = lanes * GROUPS;
  const pf_u32 t = pf_thread() % lanes, group = pf_thread() % threads / lanes;
  const pf_u32 mine = pf_thread() / threads;  // which row of the block
  const pf_i64 o = static_cast<pf_i64>(pf_block()) * (PF_MOMENT_THREADS / threads) + mine;
  const bool on = pf_has(o, r.kept.count);
  const pf_u32 count = on ? static_cast<pf_u32>(r.reduced.count) : 0;
  C x[KEPT][W];
#ifdef PF_PROLOGUE
  pf_input<T, W, true> in[KEPT];
  const pf_vector<T, W> none = {};
  PF_UNROLL for (int i = 0; i < KEPT; ++i) {
    const pf_u32 k = (pf_line(group, i) * lanes + t) * W;
    pf_vector<T, W> unused;
    if (pf_has(k, count)) in[i].load(unused, r.x, o, r.reduced.count, k PF_PROLOGUE_PASS);
  }
  PF_UNROLL for (int i = 0; i < KEPT; ++i) {
    const pf_u32 k = (pf_line(group, i) * lanes + t) * W;
    PF_UNROLL for (int j = 0; j < W; ++j) x[i][j] = C(0);
    if (pf_has(k, count)) in[i].take(none, o, k, x[i] PF_PROLOGUE_PASS);
  }
#else
  const char* row = pf_at<T>(r.x, on ? pf_offset(r.kept, o) : 0);
  const char* own = pf_at<T>(row, (pf_line(group, 0) * lanes + t) * W);
  pf_vector<T, W> v[KEPT];
  PF_UNROLL for (int i = 0; i < KEPT; ++i) {
    const pf_u32 k = (pf_line(group, i) * lanes + t) * W;
    if constexpr (PF_V > 1) {
      PF_UNROLL for (int j = 0; j < v[i].words; ++j) v[i].w[j] = 0;
      // So far apart that the compiler knows how far.
      if (pf_has(k, count)) v[i].template load<true>(pf_at<T>(own, pf_line(0, i) * lanes * W));
    } else {
      PF_UNROLL for (int j = 0; j < W; ++j) x[i][j] =
          k + j < count ? pf_get_one<T>(row, (k + j) * r.reduced.stride[0]) : C(0);
    }
  }
  if constexpr (PF_V > 1)
    PF_UNROLL for (int i = 0; i < KEPT; ++i) PF_UNROLL for (int j = 0; j < W; ++j) x[i][j] =
        v[i].get(j);
#endif
  const pf_u32 at = mine * KEPT * GROUPS;  // of the row's lines
  C a[KEPT], one = C(0);
  if (t == 0 && group == 0) origins[mine] = x[0][0];
  if constexpr (PF_TOTAL) {
    PF_UNROLL for (int i = 0; i < KEPT; ++i) a[i] = pf_tree<pf_plus, W>(x[i]);
    one = pf_leaves<1>(lanes, group, t, a, leaves[0] + at);
  }
  pf_barrier();
  const C first = one, origin = origins[mine];
  PF_UNROLL for (int i = 0; i < KEPT; ++i) {
    PF_UNROLL for (int j = 0; j < W; ++j) x[i][j] -= origin;
    a[i] = pf_tree_of(x[i], (pf_line(group, i) * lanes + t) * W, count);
  }
  one = pf_leaves<LEAVES>(lanes, group, t, a, leaves[1] + at * LEAVES);
  pf_barrier();
  const C mean = pf_dtype<O>::round(pf_ways<LEAVES>(lanes, t, one, leaves[1] + at * LEAVES) /
                                    static_cast<C>(r.differences_by));
  PF_UNROLL for (int i = 0; i < KEPT; ++i) {
    PF_UNROLL for (int j = 0; j < W; ++j) {
      const C d = x[i][j] - mean;
      x[i][j] = d * d;
    }
    a[i] = pf_tree_of(x[i], (pf_line(group, i) * lanes + t) * W, count);
  }
  one = pf_leaves<LEAVES>(lanes, group, t, a, leaves[2] + at * LEAVES);
  pf_barrier();
  if (PF_WARP == PF_MOMENT_LANES && group > 0) return;
  const C square = pf_ways<LEAVES>(lanes, t, one, leaves[2] + at * LEAVES);
  if constexpr (PF_TOTAL) {
    const C sum = pf_ways<1>(lanes, t, first, leaves[0] + at);
    if (t == 0 && group == 0 && on) pf_put_one<T>(r.total, o, sum / static_cast<C>(r.total_by));
  }
  if (t == 0 && group == 0 && on) {
    pf_put_one<O>(r.differences, o, mean);
    pf_put_one<PF_OUT>(r.spread, o, square / static_cast<C>(r.spread_by));
  }
}
