// Sums and products of floating-point numbers, of their squares, and of differences and their
// squares (variance), and extremes, over any dimensions; up to four of one tensor at once, or of
// several that lie alike. Differences are taken from an element of the reduction
// itself, its first, the origin: their mean is at most sqrt(n) standard deviations, so that its
// rounding does not show in the variance, however far from 0 the elements are. They are added in an
// order that follows from the number of elements, the number of results and the dtype O alone: the
// layout of the input changes no bit.
//
// Element k of a reduction is numbered in row-major order over the reduced dimensions. Chunks of it
// are cut into leaves of LANES * W elements (W of dtype O are 16 bytes; LANES is at most 32). A
// leaf is added in a tree of neighbours. Leaf l of a chunk goes to way l mod WAYS (at most 8), the
// leaves of a way are added one after the other, ways in a tree of neighbours, and so are chunks
// (sum_finish). Where fewer elements are left, zeros (ones) stand for them.
//   sum_rows      neighbours of k are neighbours in memory: a lane of a leaf is a thread's
//   sum_columns   else: some threads add a leaf, neighbours take neighbouring results; PARTS blocks
//                 share the ways of a chunk
// A program before these joins where what it makes is dense.
//
//   -DPF_T=    dtype
//   -DPF_WIDE= 1: it is as if x were of the dtype that T is calculated in; O is that, else T
//   -DPF_OUT=  dtype of results
//   -DPF_OP=   pf_op_sum, pf_op_numbers (without NaN), pf_op_squares, pf_op_differences,
//              pf_op_spread, pf_op_product, pf_op_largest, pf_op_smallest
//   -DPF_OPS=  1 to 4 operations, the others PF_OP1, ...; of none an origin or a mean if several
//   -DPF_XS=   1 to 4 tensors, and two bits in PF_FROM= for each operation: of which
//   -DPF_MADE= bits for tensors that the program before makes, PF_INTO=x[0],... where it puts them
//   -DPF_V=    elements of one access: along k in sum_rows, where V is W or 1; along the results
//              in sum_columns
//   -DPF_DENSE=1: at most one reduced axis (of stride 1 in sum_rows when V > 1)
//   -DPF_PARTS=  1, 2, 4 or 8; 1 in sum_rows
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
constexpr int W = 16 / static_cast<int>(sizeof(O)), V = PF_V;

#define PF_SUM_THREADS 256
#define PF_SUM_LANES 32
// Where blocks share chunks they are small, with more of memory on its way for each thread: a
// multiprocessor always has some that read.
#define PF_COLUMN_THREADS (PF_PARTS > 1 ? 128 : 512)

struct pf_op_sum {
  enum { origin = 0, mean = 0 };  // what lift reads
  static PF_METHOD C start() { return C(0); }
  static PF_METHOD C lift(C x, C, C) { return x; }
  static PF_METHOD C join(C a, C b) { return a + b; }
};
struct pf_op_squares : pf_op_sum {
  static PF_METHOD C lift(C x, C, C) { return x * x; }
};
struct pf_op_differences : pf_op_sum {
  enum { origin = 1, mean = 0 };
  static PF_METHOD C lift(C x, C origin, C) { return x - origin; }
};
struct pf_op_spread : pf_op_sum {
  enum { origin = 1, mean = 1 };
  static PF_METHOD C lift(C x, C origin, C mean) {
    const C d = (x - origin) - mean;
    return d * d;
  }
};
struct pf_op_numbers : pf_op_sum {
  static PF_METHOD C lift(C x, C, C) { return x == x ? x : C(0); }
};
struct pf_op_product : pf_op_sum {
  static PF_METHOD C start() { return C(1); }
  static PF_METHOD C join(C a, C b) { return a * b; }
};
struct pf_op_largest : pf_op_sum {
  static PF_METHOD C start() { return pf_lowest(C(0)); }
  static PF_METHOD C join(C a, C b) { return pf_max(a, b); }
};
struct pf_op_smallest : pf_op_sum {
  static PF_METHOD C start() { return pf_uppermost(C(0)); }
  static PF_METHOD C join(C a, C b) { return pf_min(a, b); }
};

// A is what is added up: of one operation a number.
#if PF_OPS == 1
typedef PF_OP Op;
typedef C A;
PF_DEVICE C pf_choose(bool first, C a, C b) {
  return first ? a : b;
}
PF_DEVICE C pf_one_of(C a, int) {
  return a;
}
PF_DEVICE C pf_lift(const C* x, C origin, C mean) {
  return Op::lift(x[0], origin, mean);
}
#else
#if PF_OPS < 3
#define PF_OP2 pf_op_sum
#endif
#if PF_OPS < 4
#define PF_OP3 pf_op_sum
#endif
struct A {
  C v[PF_OPS];
};
// fn(operation, its number): each has its own type.
#define PF_EACH_OP(FN)           \
  FN(PF_OP, 0)                   \
  FN(PF_OP1, 1)                  \
  if constexpr (PF_OPS > 2) {    \
    FN(PF_OP2, (PF_OPS > 2) * 2) \
  }                              \
  if constexpr (PF_OPS > 3) {    \
    FN(PF_OP3, (PF_OPS > 3) * 3) \
  }
struct Op {
  enum { origin = 0, mean = 0 };
  static PF_METHOD A start() {
    A r;
#define PF_START(OP, I) r.v[I] = OP::start();
    PF_EACH_OP(PF_START)
    return r;
  }
  static PF_METHOD A join(A a, A b) {
    A r;
#define PF_JOIN(OP, I) r.v[I] = OP::join(a.v[I], b.v[I]);
    PF_EACH_OP(PF_JOIN)
    return r;
  }
};
PF_DEVICE A pf_lift(const C* x, C origin, C mean) {
  A r;
#define PF_LIFT(OP, I) r.v[I] = OP::lift(x[PF_FROM >> (2 * (I)) & 3], origin, mean);
  PF_EACH_OP(PF_LIFT)
  return r;
}
// Member by member: one of two structs would be chosen by its address, in memory.
PF_DEVICE A pf_choose(bool first, A a, A b) {
  A r;
  PF_UNROLL for (int i = 0; i < PF_OPS; ++i) r.v[i] = first ? a.v[i] : b.v[i];
  return r;
}
PF_DEVICE A pf_shuffle_xor(A a, pf_u32 mask) {
  A r;
  PF_UNROLL for (int i = 0; i < PF_OPS; ++i) r.v[i] = pf_shuffle_xor(a.v[i], mask);
  return r;
}
PF_DEVICE C pf_one_of(A a, int i) {
  return a.v[i];
}
#endif

// Where element k of a reduction over several axes lies. Its divisions stand in many places: put
// into each of them, they would keep a compiler for ten seconds. So a function is called, which
// finds the axes in memory of the block: for a reference to a kernel's argument each thread would
// copy the argument into memory of its own.
PF_SHARED pf_axes pf_sum_axes;
PF_COLD pf_i64 pf_sum_offset(pf_i64 k) {
  return pf_offset(pf_sum_axes, k);
}
PF_DEVICE void pf_share_axes(const pf_axes& a) {
  if constexpr (PF_DENSE) return;
  const pf_u32 i = pf_thread();
  if (i == 0) pf_sum_axes.n = a.n;
  if (i < PF_MAX_DIMS) {
    pf_sum_axes.size[i] = a.size[i];
    pf_sum_axes.stride[i] = a.stride[i];
  }
  pf_barrier();
}
template <int N>
PF_DEVICE A pf_lift_at(const C (&x)[PF_XS][N], int j, C origin, C mean) {
  C of[PF_XS];
  PF_UNROLL for (int i = 0; i < PF_XS; ++i) of[i] = x[i][j];
  return pf_lift(of, origin, mean);
}
// N elements of each tensor: from `at` on in memory, or in a row of what the program before the
// kernel makes, of whole pieces of dense memory.
template <int N>
struct pf_elements {
  pf_vector<T, N> v[PF_XS];
#ifdef PF_PROLOGUE
  pf_before<N> from;
#endif
  PF_METHOD void load(const pf_sum& r, const char* at, pf_i64 row, pf_i64 col PF_PROLOGUE_REF) {
#ifdef PF_PROLOGUE
    from.load(before, row, col);
#endif
    PF_UNROLL for (int i = 0; i < PF_XS; ++i) if (!(PF_MADE >> i & 1)) v[i].template load<true>(
        at + r.apart[i]);
  }
  PF_METHOD void take(pf_i64 row, pf_i64 col, C (&x)[PF_XS][N] PF_PROLOGUE_REF) const {
    PF_UNROLL for (int i = 0; i < PF_XS; ++i) if (!(PF_MADE >> i & 1))
        PF_UNROLL for (int j = 0; j < N; ++j) x[i][j] = v[i].get(j);
#ifdef PF_PROLOGUE
    from.run(before, row, col, PF_INTO);
#endif
  }
  PF_METHOD A join(pf_i64 row, pf_i64 col, C origin, C mean PF_PROLOGUE_REF) const {
    C x[PF_XS][N];
    take(row, col, x PF_PROLOGUE_PASS);
    A a[N];
    PF_UNROLL for (int j = 0; j < N; ++j) a[j] = pf_lift_at(x, j, origin, mean);
    return pf_tree<Op, N>(a);
  }
  PF_METHOD A get(int j, C origin, C mean) const {
    C of[PF_XS];
    PF_UNROLL for (int i = 0; i < PF_XS; ++i) of[i] = v[i].get(j);
    return pf_lift(of, origin, mean);
  }
};
#ifdef PF_PROLOGUE
PF_DEVICE C pf_made_origin(const pf_sum& r, pf_i64 o PF_PROLOGUE_REF) {
  C x[PF_XS][W] = {{C(0)}};
  if (Op::origin && o < r.kept.count) {
    pf_elements<W> made;
    made.load(r, static_cast<const char*>(r.x), o, 0 PF_PROLOGUE_PASS);
    made.take(o, 0, x PF_PROLOGUE_PASS);
  }
  return x[0][0];
}
#endif

// Of result o, whose elements begin at `row`.
PF_DEVICE C pf_origin_of(const pf_sum& r, const char* row, pf_i64 o) {
  if constexpr (Op::origin)
    return o < r.kept.count && r.reduced.count > 0 ? pf_get_one<T>(row, 0) : C(0);
  return C(0);
}
PF_DEVICE C pf_mean_of(const pf_sum& r, pf_i64 o) {
  if constexpr (Op::mean)
    return o < r.kept.count ? pf_get_one<O>(r.mean, pf_other_offset(r.kept, o)) : C(0);
  return C(0);
}
// `unit`: which part of which chunk.
PF_DEVICE void pf_sum_finish(const pf_sum& r, pf_i64 o, A a) {
  PF_UNROLL for (int i = 0; i < PF_OPS; ++i)
      pf_put_one<PF_OUT>(r.out[i], o, pf_one_of(a, i) / static_cast<C>(r.divisor[i]));
}
PF_DEVICE void pf_sum_store(const pf_sum& r, pf_i64 o, pf_i64 unit, A a) {
  if (PF_PARTS == 1 && r.chunks == 1)
    pf_sum_finish(r, o, a);
  else
    static_cast<A*>(r.partial)[unit * r.kept.count + o] = a;
}

// W elements of result o from k on, joined; `end` is that of the chunk.
PF_DEVICE A pf_piece(const pf_sum& r, const char* row, pf_i64 o, pf_i64 k, pf_i64 end, C origin,
                     C mean PF_PROLOGUE_REF) {
#ifdef PF_PROLOGUE
  if (k >= end) return Op::start();
  pf_elements<W> made;
  made.load(r, pf_at<T>(row, k), o, k PF_PROLOGUE_PASS);
  return made.join(o, k, origin, mean PF_PROLOGUE_PASS);
#else
  if (V == W && k + W <= end) {
    pf_elements<W> v;
    v.load(r, pf_at<T>(row, PF_DENSE ? k : pf_sum_offset(k)), o, k);
    return v.join(o, k, origin, mean);
  }
  A x[W];
  PF_UNROLL for (int j = 0; j < W; ++j) {
    x[j] = Op::start();
    if (k + j >= end) continue;
    const pf_i64 at = PF_DENSE ? (k + j) * (V > 1 ? 1 : r.reduced.stride[0]) : pf_sum_offset(k + j);
    C of[PF_XS];
    PF_UNROLL for (int i = 0; i < PF_XS; ++i) of[i] = pf_get_one<T>(row + r.apart[i], at);
    x[j] = pf_lift(of, origin, mean);
  }
  return pf_tree<Op, W>(x);
#endif
}

// A group of `lanes` threads adds min(4, ways) leaves at once: the four trees share their exchanges
// between lanes, after which lane t has that of leaf t mod 4. One or two groups a unit: a chunk of
// a result.
PF_KERNEL(sum_rows, PF_SUM_THREADS)(const pf_sum r PF_PROLOGUE_ARGS) {
  PF_SHARED A room[PF_SUM_THREADS / PF_SUM_LANES];
  pf_share_axes(r.reduced);
  const pf_u32 lanes = r.lanes, t = pf_thread() % lanes;
  const pf_u32 several = r.ways < 4 ? r.ways : 4, groups = r.ways / several;
  const pf_u32 threads = lanes * groups, group = pf_thread() % threads / lanes;
  const pf_i64 unit =
      static_cast<pf_i64>(pf_block()) * (PF_SUM_THREADS / threads) + pf_thread() / threads;
  const pf_i64 o = pf_quotient(unit, r.chunks), c = unit - o * r.chunks;
  const bool on = o < r.kept.count;
  const pf_i64 begin = c * r.chunk, stop = begin + r.chunk;
  const pf_i64 end = stop < r.reduced.count ? stop : r.reduced.count;
  const char* row = pf_at<T>(r.x, on ? pf_offset(r.kept, o) : 0);
#ifdef PF_PROLOGUE
  const C origin = pf_made_origin(r, o PF_PROLOGUE_PASS), mean = pf_mean_of(r, o);
#else
  const C origin = pf_origin_of(r, row, o), mean = pf_mean_of(r, o);
#endif
  const pf_i64 leaf = static_cast<pf_i64>(lanes) * W;
  A way = Op::start();
  // As many rounds for all threads of a warp: they exchange.
  for (pf_i64 base = begin; base < begin + r.chunk; base += leaf * r.ways) {
    const pf_i64 first = base + group * several * leaf;
    A a[4];
    if (V > 1 && several == 4 && on && first + 4 * leaf <= end) {  // whole: all loads at once
      pf_elements<W> v[4];
      PF_UNROLL for (int u = 0; u < 4; ++u) {
        const pf_i64 k = first + u * leaf + t * W;
        v[u].load(r, pf_at<T>(row, PF_DENSE ? k : pf_sum_offset(k)), o, k PF_PROLOGUE_PASS);
      }
      PF_UNROLL for (int u = 0; u < 4; ++u) a[u] =
          v[u].join(o, first + u * leaf + t * W, origin, mean PF_PROLOGUE_PASS);
    } else {
      PF_UNROLL for (int u = 0; u < 4; ++u) a[u] =
          on && u < static_cast<int>(several)
              ? pf_piece(r, row, o, first + u * leaf + t * W, end, origin, mean PF_PROLOGUE_PASS)
              : Op::start();
    }
    if (several == 4) {  // then there are 32 lanes
      // Each lane gives away what the other has to care for.
      const bool odd = t & 1, high = t & 2;
      const A p =
          Op::join(pf_choose(odd, a[1], a[0]), pf_shuffle_xor(pf_choose(odd, a[0], a[1]), 1));
      const A q =
          Op::join(pf_choose(odd, a[3], a[2]), pf_shuffle_xor(pf_choose(odd, a[2], a[3]), 1));
      A s = Op::join(pf_choose(high, q, p), pf_shuffle_xor(pf_choose(high, p, q), 2));
      for (pf_u32 m = 4; m < PF_SUM_LANES; m *= 2) s = Op::join(s, pf_shuffle_xor(s, m));
      way = Op::join(way, s);
    } else {
      for (pf_u32 m = 1; m < lanes; m *= 2)
        PF_UNROLL for (int u = 0; u < 2; ++u) a[u] = Op::join(a[u], pf_shuffle_xor(a[u], m));
      way = Op::join(way, pf_choose(several == 2 && (t & 1), a[1], a[0]));
    }
  }
  for (pf_u32 m = 1; m < several; m *= 2) way = Op::join(way, pf_shuffle_xor(way, m));
  if (groups > 1) {
    const pf_u32 place = pf_thread() / lanes;
    if (t == 0) room[place] = way;
    pf_barrier();
    way = Op::join(way, room[place ^ 1]);
  }
  if (t == 0 && group == 0 && on) pf_sum_store(r, o, c, way);
}

// The tree of `rows` of the `part` elements of each of V columns from k on; WHOLE: there are all of
// them, which are whole rounds of loads.
#ifdef PF_PROLOGUE
enum { FOURS = sizeof(C) > 4 ? 1 : PF_FOURS_AHEAD };  // of doubles more spill on NVIDIA
#else
enum { FOURS = PF_PARTS > 1 ? 4 : PF_XS > 1 ? 1 : 2 };  // as many loads of two tensors
#endif
template <bool WHOLE>
PF_DEVICE void pf_column_tree(const pf_sum& r, const char* column, pf_i64 o, pf_i64 k, pf_i64 part,
                              pf_i64 rows, const C (&origin)[V], const C (&mean)[V],
                              A (&s)[V] PF_PROLOGUE_REF) {
  constexpr int LEVELS =  // above fours
      W / V == 1   ? 3
      : W / V == 2 ? 4
      : W / V == 4 ? 5
      : W / V == 8 ? 6
                   : 7;
  A tree[LEVELS][V];
  PF_UNROLL for (int j = 0; j < V; ++j) s[j] = Op::start();
  PF_NO_UNROLL for (pf_i64 i = 0; i < part; i += 4 * FOURS) {
    pf_elements<V> v[4 * FOURS];
    PF_UNROLL for (int u = 0; u < 4 * FOURS; ++u) {
      const pf_i64 at = k + i + u;
      if (WHOLE || i + u < rows)
        v[u].load(r, pf_at<T>(column, PF_DENSE ? at * r.reduced.stride[0] : pf_sum_offset(at)), at,
                  o PF_PROLOGUE_PASS);
    }
    PF_UNROLL for (int f = 0; f < FOURS; ++f) {
      if (!WHOLE && f > 0 && i + 4 * f >= part) break;
#ifdef PF_PROLOGUE
      C x[4][PF_XS][V];
      PF_UNROLL for (int u = 0; u < 4; ++u) if (WHOLE || i + 4 * f + u < rows) v[4 * f + u].take(
          k + i + 4 * f + u, o, x[u] PF_PROLOGUE_PASS);
#define PF_ELEMENT(U, J) pf_lift_at(x[U], J, origin[J], mean[J])
#else
#define PF_ELEMENT(U, J) v[4 * f + (U)].get(J, origin[J], mean[J])
#endif
      PF_UNROLL for (int j = 0; j < V; ++j) {
        A e[4];
        PF_UNROLL for (int u = 0; u < 4; ++u) e[u] =
            WHOLE || i + 4 * f + u < rows ? PF_ELEMENT(u, j) : Op::start();
        s[j] = pf_tree<Op, 4>(e);
      }
      // Pairs of fours, of eights, ...: what waits for its neighbour is held.
      bool carried = true;
      PF_UNROLL for (int l = 0; l < LEVELS; ++l) {
        const bool second = ((i >> 2) + f) >> l & 1;
        if (carried && second) {
          PF_UNROLL for (int j = 0; j < V; ++j) s[j] = Op::join(tree[l][j], s[j]);
        } else if (carried) {
          PF_UNROLL for (int j = 0; j < V; ++j) tree[l][j] = s[j];
          carried = false;
        }
      }
    }
  }
}

// No more has room; rows alone have more.
#if PF_V * PF_OPS <= 4 || (PF_V * PF_OPS <= 8 && !defined(PF_PROLOGUE))
// Thread (y, z, x) of a block takes way y of those of its part, of V neighbouring columns, and of
// each leaf the part z of SPLIT: these are trees of neighbours as leaves are. Then each thread has
// a column: it joins the parts and the leaves of its way.
PF_KERNEL(sum_columns, PF_COLUMN_THREADS)(const pf_sum r PF_PROLOGUE_ARGS) {
  enum { SPLIT = V, PITCH = PF_COLUMN_THREADS + 8 };
  PF_SHARED A room[V * PITCH];
  pf_share_axes(r.reduced);
  const pf_u32 width = r.width, x = pf_thread() % width, z = pf_thread() / width % SPLIT,
               y = pf_thread() / width / SPLIT;
  const pf_u32 ways = r.ways / PF_PARTS;
  const pf_i64 b = pf_block(), unit = pf_quotient(b, r.tiles), tile = b - unit * r.tiles;
  const pf_i64 c = unit / PF_PARTS, way_first = unit % PF_PARTS * ways;
  const pf_i64 o = (tile * width + x) * V;
  const bool on = o < r.kept.count;
  const pf_i64 begin = c * r.chunk, stop = begin + r.chunk;
  const pf_i64 end = stop < r.reduced.count ? stop : r.reduced.count;
  const char* column = pf_at<T>(r.x, on ? pf_offset(r.kept, o) : 0);
  C origin[V], mean[V];
  A way = Op::start();
  PF_UNROLL for (int j = 0; j < V; ++j) {
    origin[j] = pf_origin_of(r, pf_at<T>(column, j), o + j);
    mean[j] = pf_mean_of(r, o + j);
  }
  const pf_i64 part = static_cast<pf_i64>(r.lanes) * (W / SPLIT), leaf = part * SPLIT;
  // As many rounds for all threads of a block: they exchange.
  for (pf_i64 base = begin; base < end; base += leaf * r.ways) {
    const pf_i64 k = base + (way_first + y) * leaf + z * part, rest = on ? end - k : 0;
    A s[V];
    if (rest >= part && part % (4 * FOURS) == 0)
      pf_column_tree<true>(r, column, o, k, part, part, origin, mean, s PF_PROLOGUE_PASS);
    else
      pf_column_tree<false>(r, column, o, k, part, rest < part ? rest : part, origin, mean,
                            s PF_PROLOGUE_PASS);
    if constexpr (SPLIT == 1) {
      way = Op::join(way, s[0]);
    } else {
      PF_UNROLL for (int j = 0; j < V; ++j) room[j * PITCH + pf_thread()] = s[j];
      pf_barrier();
      A parts[SPLIT];
      PF_UNROLL for (int p = 0; p < SPLIT; ++p) parts[p] =
          room[z * PITCH + (y * SPLIT + p) * width + x];
      way = Op::join(way, pf_tree<Op, SPLIT>(parts));
      pf_barrier();
    }
  }
  for (pf_u32 m = 1; m < ways; m *= 2) {
    pf_barrier();
    room[pf_thread()] = way;
    pf_barrier();
    way = Op::join(way, room[pf_thread() ^ (m * SPLIT * width)]);
  }
  if (y == 0 && on) pf_sum_store(r, o + z, unit, way);
}

#endif
// Joins the results of chunks, whose parts are neighbours: thread (y, x) takes chunks y, y +
// height,
// ...
PF_KERNEL(sum_finish, PF_SUM_THREADS)(const pf_sum r) {
  PF_SHARED A room[PF_SUM_THREADS];
  const pf_u32 width = r.width, height = PF_SUM_THREADS / width;
  const pf_i64 outs = r.kept.count;
  const pf_i64 o = static_cast<pf_i64>(pf_block()) * width + pf_thread() % width;
  const A* from = static_cast<const A*>(r.partial) + o;
  const pf_i64 end = o < outs ? r.chunks : 0;
  const auto chunk = [&](pf_i64 c) PF_INLINE {
    A parts[PF_PARTS];
    PF_UNROLL for (int i = 0; i < PF_PARTS; ++i) parts[i] = from[(c * PF_PARTS + i) * outs];
    return pf_tree<Op, PF_PARTS>(parts);
  };
  A a = Op::start();
  pf_i64 k = pf_thread() / width;
  for (; k + 7 * height < end; k += 8 * height) {
    A w[8];
    PF_UNROLL for (int u = 0; u < 8; ++u) w[u] = chunk(k + u * height);
    a = Op::join(a, pf_tree<Op, 8>(w));
  }
  PF_NO_UNROLL for (; k < end; k += height) a = Op::join(a, chunk(k));
  for (pf_u32 m = 1; m < height; m *= 2) {
    pf_barrier();
    room[pf_thread()] = a;
    pf_barrier();
    a = Op::join(a, room[pf_thread() ^ (m * width)]);
  }
  if (pf_thread() < width && o < outs) pf_sum_finish(r, o, a);
}
