// softmax and log_softmax over rows of contiguous tensors, and their gradients: rows that stay in
// the registers of a group of threads. Longer ones: softmax_long.h. Programs around them join: the
// one before makes x.
//
//   -DPF_T=  dtype    -DPF_V=  elements of one access; divides the length of rows
//   -DPF_LOG=0|1      log_softmax
//   -DPF_PAST=0|1     the tensors are larger than caches
//   -DPF_VECS=        accesses of one thread      -DPF_WHOLE=0|1  rows.h
#include "rows.h"
#include "softmax_args.h"

typedef PF_T T;
typedef pf_compute<T> C;
constexpr int V = PF_V, VECS = PF_VECS;
typedef pf_row_math<T> Math;
typedef pf_vector<T, V> Vector;

#define PF_ROW_THREADS 512

// Where the group of this thread works, if there is a row left for it.
struct pf_place {
  pf_i64 row;
  bool on;
  pf_u32 t;
  PF_METHOD pf_place(const pf_softmax& r) {
    t = pf_thread() % r.width;
    row = static_cast<pf_i64>(pf_block()) * (pf_threads() / r.width) + pf_thread() / r.width;
    on = pf_has(row, r.rows);
  }
};

PF_KERNEL(softmax_rows, PF_ROW_THREADS)(const pf_softmax r PF_AROUND_ARGS) {
  PF_SHARED C room[2][PF_MAX_WARPS];
  const pf_place at(r);
  const pf_i64 cols = r.vectors * V;
  const pf_i32 mine = at.on ? static_cast<pf_i32>(r.vectors) : 0;
  C e[VECS * V], high[1] = {-pf_float<C>::infinity()}, sum[1] = {C(0)};
  pf_input<T, V, PF_PAST> in[VECS];
  Vector v[VECS];
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(at.t + i * r.width);
    if (pf_has(c, mine)) in[i].load(v[i], r.x, at.row, cols, c * V PF_PROLOGUE_PASS);
  }
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(at.t + i * r.width);
    C x[V];
    if (pf_has(c, mine)) in[i].take(v[i], at.row, c * V, x PF_PROLOGUE_PASS);
    PF_UNROLL for (int j = 0; j < V; ++j) {
      e[i * V + j] = pf_has(c, mine) ? x[j] : -pf_float<C>::infinity();
      high[0] = pf_most(high[0], e[i * V + j]);
    }
  }
  pf_group_join<pf_highest>(high, r.width, room[0]);
#if PF_LOG
  PF_UNROLL for (int k = 0; k < VECS * V; ++k) sum[0] += Math::exp(e[k] - high[0]);
#else
  PF_UNROLL for (int k = 0; k < VECS * V; ++k) {
    e[k] = Math::exp(e[k] - high[0]);
    sum[0] += e[k];
  }
#endif
  pf_group_join<pf_plus>(sum, r.width, room[1]);
  // log: two subtractions, as max + log(sum) would lose the logarithm beside a large maximum.
  const C scale = PF_LOG ? pf_log(sum[0]) : C(1) / sum[0];
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(at.t + i * r.width);
    if (!pf_has(c, mine)) continue;
    C o[V];
    PF_UNROLL for (int j = 0; j < V; ++j) o[j] =
        PF_LOG ? e[i * V + j] - high[0] - scale : e[i * V + j] * scale;
    pf_output<T, V, PF_PAST> out;
    out.load(at.row, c * V PF_EPILOGUE_PASS);
    out.put(r.out, at.row, cols, c * V, o PF_EPILOGUE_PASS);
  }
}

// softmax: dx = y (g - sum(g y)); log_softmax: dx = g - exp(y) sum(g).
PF_KERNEL(softmax_rows_backward, PF_ROW_THREADS)(const pf_softmax r PF_AROUND_ARGS) {
  PF_SHARED C room[PF_MAX_WARPS];
  const pf_place at(r);
  const pf_i64 cols = r.vectors * V;
  const pf_i32 mine = at.on ? static_cast<pf_i32>(r.vectors) : 0;
  pf_input<T, V, PF_PAST> in[VECS];
  Vector g[VECS], p[VECS];
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(at.t + i * r.width);
    if (!pf_has(c, mine)) continue;
    in[i].load(g[i], r.x, at.row, cols, c * V PF_PROLOGUE_PASS);
    p[i].template load<PF_PAST>(pf_at<T>(r.y, at.row * cols + c * V));
  }
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(at.t + i * r.width);
    if (pf_has(c, mine)) in[i].make(g[i], at.row, c * V PF_PROLOGUE_PASS);
  }
  C sum[1] = {C(0)};
  PF_UNROLL for (int i = 0; i < VECS; ++i) if (pf_has(static_cast<pf_i32>(at.t + i * r.width),
                                                      mine)) PF_UNROLL for (int j = 0; j < V; ++j)
      sum[0] = PF_LOG ? sum[0] + g[i].get(j) : pf_fma(g[i].get(j), p[i].get(j), sum[0]);
  pf_group_join<pf_plus>(sum, r.width, room);
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(at.t + i * r.width);
    if (!pf_has(c, mine)) continue;
    C o[V];
    PF_UNROLL for (int j = 0; j < V; ++j) o[j] = PF_LOG
                                                     ? g[i].get(j) - Math::exp(p[i].get(j)) * sum[0]
                                                     : p[i].get(j) * (g[i].get(j) - sum[0]);
    pf_output<T, V, PF_PAST> out;
    out.load(at.row, c * V PF_EPILOGUE_PASS);
    out.put(r.out, at.row, cols, c * V, o PF_EPILOGUE_PASS);
  }
}
