// cross_entropy of class indices over rows of logits, and its gradient. Each row is read once
// forward (maximum and sum of exponentials kept together), read and written once backward; where
// both are wanted at the same time (entropy_both), the second reading finds the row in shared
// memory, or else in a cache. A group of threads a row; where rows stay in shared memory blocks
// stay, too, and a thread's vectors of the next row are on their way as soon as it has written the
// gradient of the last one's. Programs around them join: the one before makes x, for each reading
// anew, the one behind takes the gradient.
//
//   -DPF_T=  dtype    -DPF_V=  elements of one access; divides the classes
//   -DPF_I=  dtype of the targets
//   -DPF_L=  dtype of the loss and of its gradient: T or float
//   -DPF_HAS_W=0|1    classes have weights (of dtype T)
//   -DPF_SMOOTH=0|1   label smoothing
//   -DPF_PAST=0|1     the logits are larger than caches: the gradient is written past these
//   -DPF_KEEP=0|1     of entropy_both: the row stays in shared memory
#include "cross_entropy_args.h"
#include "index_error.h"
#include "kept_row_mma.h"
#include "rows.h"

typedef PF_T T;
typedef pf_compute<T> C;
constexpr int V = PF_V;
typedef pf_row_math<T> Math;
typedef pf_vector<T, V> Vector;
constexpr int UNROLL = sizeof(C) == 4 ? 4 : 1;  // accesses of one round: registers

#define PF_ROW_THREADS 256
#define PF_FINISH_THREADS 1024

// Elements of x, or of what the program before makes.
template <int N>
using pf_logits = pf_input<T, N, false>;
PF_DEVICE C pf_logit(const pf_entropy& r, pf_i64 row, pf_i64 col PF_PROLOGUE_REF) {
  pf_logits<1> in;
  pf_vector<T, 1> v;
  C x[1];
  in.load(v, r.x, row, r.vectors * V, col PF_PROLOGUE_PASS);
  in.take(v, row, col, x PF_PROLOGUE_PASS);
  return x[0];
}
// A row in shared memory, as memory has what its vectors are made from; each thread reads what it
// has asked for alone.
struct pf_kept_row {
  char* p;
  PF_METHOD void ask(const pf_entropy& r, pf_i64 row, pf_i32 c PF_PROLOGUE_REF) const {
#ifndef PF_PROLOGUE
    pf_keep<T, V, PF_PAST>(p + c * Vector::bytes, pf_at<T>(r.x, (row * r.vectors + c) * V));
#elif PF_KEEP
    pf_before<V>::keep(before, row, c * V, p, c, r.vectors);
#endif
  }
  PF_METHOD void get(const pf_entropy& r, pf_i64 row, pf_i32 c, Vector& v PF_PROLOGUE_REF) const {
#ifndef PF_PROLOGUE
    pf_kept(p + c * Vector::bytes, v);
#elif PF_KEEP
    pf_logits<V> in;
    in.from.kept(before, row, c * V, p, c, r.vectors);
    in.make(v, row, c * V, before);
#endif
  }
};

// Numbers of a row's vectors: rows in shared memory have few.
template <bool KEEP>
struct pf_vector_number {
  typedef pf_i64 type;
};
template <>
struct pf_vector_number<true> {
  typedef pf_i32 type;
};

struct pf_row_class {
  pf_i64 at;  // -1: the row does not count
  C weight;
  bool wrong;  // there is no such class: the nearest is taken
};
PF_DEVICE pf_row_class pf_class_of(const pf_entropy& r, pf_i64 row) {
  const pf_i64 classes = r.vectors * V;
  pf_i64 t = pf_get_one<PF_I>(r.target, row);
  if (t == r.ignore) return {-1, C(0), false};
  const bool wrong = t < 0 || t >= classes;
  if (wrong) t = t < 0 ? 0 : classes - 1;
  return {t, PF_HAS_W ? pf_get_one<T>(r.weight, t) : C(1), wrong};
}
PF_DEVICE C pf_weight_sum(const pf_entropy& r) {
  return r.weight_sum ? *static_cast<const C*>(r.weight_sum) : static_cast<C>(r.vectors * V);
}

struct pf_row_sums {
  C high, inverse;  // maximum, 1 / sum of exp(x - maximum)
};
// The loss of a row, and what it takes; all threads of the block take part. KEEP: the row is on its
// way to `kept`.
template <bool KEEP>
PF_DEVICE pf_row_sums pf_entropy_loss(const pf_entropy& r, pf_i64 row, pf_u32 t, pf_row_class k,
                                      C (&room)[3][PF_MAX_WARPS],
                                      pf_kept_row kept PF_PROLOGUE_REF) {
  const C low = -pf_float<C>::infinity();
  const bool on = row < r.rows;
  typedef typename pf_vector_number<KEEP>::type Number;
  const Number end = static_cast<Number>(on ? r.vectors : 0), step = static_cast<Number>(r.width);
  const pf_i64 cols = r.vectors * V;
  const C picked = on && k.at >= 0 ? pf_logit(r, row, k.at PF_PROLOGUE_PASS) : C(0);
  C high[1] = {low}, sum[1] = {C(0)};
  C base = C(0), below = C(0), seen = C(0);  // smoothing: sum of w (base - x), sum of w
  bool begun = false;
  // One look at the maximum for all vectors of a round.
  const auto raise = [&](C top) PF_INLINE {
    if (top > high[0]) {  // 0 times exp(-inf - top) while nothing was seen
      sum[0] *= Math::exp(high[0] - top);
      high[0] = top;
    }
    if (PF_SMOOTH && !begun) {
      base = top == low ? C(0) : top;
      begun = true;
    }
  };
  const auto add = [&](const Vector& v, Number c) PF_INLINE {
    // All -inf so far: exp(-inf) is 0, not NaN.
    const C shift = high[0] == low ? C(0) : high[0];
    PF_UNROLL for (int j = 0; j < V; ++j) sum[0] += Math::exp(v.get(j) - shift);
    if constexpr (PF_SMOOTH) {
      C w[V];
      if constexpr (PF_HAS_W) pf_load<T, V, false>(pf_at<T>(r.weight, c * V), w);
      PF_UNROLL for (int j = 0; j < V; ++j) {
        const C d = base - v.get(j);
        below += PF_HAS_W ? d * w[j] : d;
        seen += PF_HAS_W ? w[j] : C(1);
      }
    }
  };
  Number c = static_cast<Number>(t);
  for (; c + (UNROLL - 1) * step < end; c += UNROLL * step) {
    Vector v[UNROLL];
    if constexpr (KEEP) {  // as many ends as there are waits: rounds stay counted
      pf_keep_wait<1>();
      pf_keep_end();
      PF_UNROLL for (int u = 0; u < UNROLL; ++u)
          kept.get(r, row, c + u * step, v[u] PF_PROLOGUE_PASS);
    } else {
      pf_logits<V> in[UNROLL];
      PF_UNROLL for (int u = 0; u < UNROLL; ++u) in[u].load(v[u], r.x, row, cols,
                                                            (c + u * step) * V PF_PROLOGUE_PASS);
      PF_UNROLL for (int u = 0; u < UNROLL; ++u) in[u].make(v[u], row,
                                                            (c + u * step) * V PF_PROLOGUE_PASS);
    }
    C top = low;
    PF_UNROLL for (int u = 0; u < UNROLL; ++u) PF_UNROLL for (int j = 0; j < V; ++j) top =
        pf_most(top, v[u].get(j));
    raise(top);
    PF_UNROLL for (int u = 0; u < UNROLL; ++u) add(v[u], c + u * step);
  }
  if constexpr (KEEP) pf_keep_wait<0>();
  for (; c < end; c += step) {
    Vector v;
    if constexpr (KEEP) {
      kept.get(r, row, c, v PF_PROLOGUE_PASS);
    } else {
      pf_logits<V> in;
      in.load(v, r.x, row, cols, c * V PF_PROLOGUE_PASS);
      in.make(v, row, c * V PF_PROLOGUE_PASS);
    }
    C top = low;
    PF_UNROLL for (int j = 0; j < V; ++j) top = pf_most(top, v.get(j));
    raise(top);
    add(v, c);
  }
  const C own = high[0];
  pf_group_join<pf_highest>(high, r.width, room[0]);
  // A thread that saw only -inf has a sum of 0, or a NaN that must stay.
  if (own != low) sum[0] *= Math::exp(own - high[0]);
  pf_group_join<pf_plus>(sum, r.width, room[1]);
  if constexpr (PF_SMOOTH) {
    below += begun ? seen * (high[0] - base) : C(0);
    below = pf_group_join<pf_plus>(below, r.width, room[2]);
  }
  const pf_row_sums found = {high[0], C(1) / sum[0]};
  if (t != 0 || !on) return found;
  C* stats = static_cast<C*>(r.stats) + 2 * row;
  stats[0] = found.high;
  stats[1] = found.inverse;
  if (k.wrong) pf_bad_index(r.error, pf_get_one<PF_I>(r.target, row), 0, r.vectors * V);
  C loss = C(0);
  if (k.at >= 0) {
    // log of the sum less x, the large parts first
    const C log_sum = pf_log(sum[0]);
    loss = k.weight * (high[0] - picked + log_sum);
    if constexpr (PF_SMOOTH) {
      const C e = static_cast<C>(r.smoothing);
      const C all = below + pf_weight_sum(r) * log_sum;  // the losses of all classes
      loss = (C(1) - e) * loss + e / static_cast<C>(r.vectors * V) * all;
    }
  }
  static_cast<C*>(r.losses)[row] = loss;
  static_cast<C*>(r.losses)[r.rows + row] = k.weight;
  if (r.reduction == 0) pf_put_one<PF_L>(r.loss, row, loss);
  return found;
}

// What the gradient of a row is scaled by.
PF_DEVICE C pf_scale_of(const pf_entropy& r, pf_i64 row) {
  const C divisor = r.reduction == 1 ? *static_cast<const C*>(r.total) : C(1);
  return pf_get_one<PF_L>(r.gradient, r.reduction == 0 ? row : 0) / divisor;
}
// dx = scale (softmax a - u), less b at the class: see cross_entropy in ops/loss.cpp. KEEP: the row
// is in `kept`, which then takes the row `after` (past the last: there is none).
template <bool KEEP>
PF_DEVICE void pf_entropy_gradient(const pf_entropy& r, pf_i64 row, pf_u32 t, pf_row_class k,
                                   C scale, pf_row_sums sums, pf_kept_row kept,
                                   pf_i64 after PF_PROLOGUE_REF PF_EPILOGUE_REF) {
  typedef typename pf_vector_number<KEEP>::type Number;
  const Number end = static_cast<Number>(r.vectors), step = static_cast<Number>(r.width);
  const pf_i64 cols = r.vectors * V;
  const C e = static_cast<C>(r.smoothing);
  const C b = scale * (C(1) - e) * k.weight;
  const C u = PF_SMOOTH ? scale * e / static_cast<C>(r.vectors * V) : C(0);
  const C high = sums.high;
  const C a = (PF_SMOOTH ? b + u * pf_weight_sum(r) : b) * sums.inverse;
  const Number special = static_cast<Number>(k.at / V);
  const int place = static_cast<int>(k.at % V);
  typedef pf_output<T, V, PF_PAST> Output;
  const auto write = [&](const Vector& v, Number c, const Output& out) PF_INLINE {
    C o[V] = {};
    if (k.at >= 0) {
      PF_UNROLL for (int j = 0; j < V; ++j) o[j] = Math::exp(v.get(j) - high) * a;
      if constexpr (PF_SMOOTH) {
        C w[V];
        if constexpr (PF_HAS_W) pf_load<T, V, false>(pf_at<T>(r.weight, c * V), w);
        PF_UNROLL for (int j = 0; j < V; ++j) o[j] -= PF_HAS_W ? u * w[j] : u;
      }
      if (c == special) PF_UNROLL for (int j = 0; j < V; ++j) o[j] = j == place ? o[j] - b : o[j];
    }
    out.put(r.dx, row, cols, c * V, o PF_EPILOGUE_PASS);
  };
  typedef pf_input<T, V, PF_PAST> Input;  // read for the last time
  const auto load = [&](Input& in, Output& out, Vector& v, Number c) PF_INLINE {
    if constexpr (KEEP)
      kept.get(r, row, c, v PF_PROLOGUE_PASS);
    else
      in.load(v, r.x, row, cols, c * V PF_PROLOGUE_PASS);
    out.load(row, c * V PF_EPILOGUE_PASS);
  };
  const auto make = [&](const Input& in, Vector& v, Number c) PF_INLINE {
    if constexpr (!KEEP) in.make(v, row, c * V PF_PROLOGUE_PASS);
  };
  const auto ask = [&](Number c) PF_INLINE {
    if (KEEP && after < r.rows) kept.ask(r, after, c PF_PROLOGUE_PASS);
  };
  Number c = static_cast<Number>(t);
  for (; c + (UNROLL - 1) * step < end; c += UNROLL * step) {
    Vector v[UNROLL];
    Input in[UNROLL];
    Output out[UNROLL];
    PF_UNROLL for (int q = 0; q < UNROLL; ++q) load(in[q], out[q], v[q], c + q * step);
    PF_UNROLL for (int q = 0; q < UNROLL; ++q) make(in[q], v[q], c + q * step);
    PF_UNROLL for (int q = 0; q < UNROLL; ++q) write(v[q], c + q * step, out[q]);
    PF_UNROLL for (int q = 0; q < UNROLL; ++q) ask(c + q * step);
    if constexpr (KEEP) pf_keep_end();
  }
  for (; c < end; c += step) {
    Vector v;
    Input in;
    Output out;
    load(in, out, v, c);
    make(in, v, c);
    write(v, c, out);
    ask(c);
  }
  if constexpr (KEEP) pf_keep_end();
}

// Which row a thread works on: groups of r.width threads.
PF_DEVICE pf_i64 pf_row_of(const pf_entropy& r) {
  return static_cast<pf_i64>(pf_block()) * (pf_threads() / r.width) + pf_thread() / r.width;
}
PF_DEVICE pf_row_class pf_own_class(const pf_entropy& r) {
  const pf_i64 row = pf_row_of(r);
  return row < r.rows ? pf_class_of(r, row) : pf_row_class{-1, C(0), false};
}
PF_KERNEL(entropy_rows, PF_ROW_THREADS)(const pf_entropy r PF_PROLOGUE_ARGS) {
  PF_SHARED C room[3][PF_MAX_WARPS];
  pf_entropy_loss<false>(r, pf_row_of(r), pf_thread() % r.width, pf_own_class(r), room,
                         {nullptr} PF_PROLOGUE_PASS);
}
PF_KERNEL(entropy_backward, PF_ROW_THREADS)(const pf_entropy r PF_AROUND_ARGS) {
  // From the last row: those that the forward pass read last may still be in the caches.
  const pf_i64 row = r.rows - 1 - pf_row_of(r);
  if (row < 0) return;
  const C* stats = static_cast<const C*>(r.stats) + 2 * row;
  pf_entropy_gradient<false>(r, row, pf_thread() % r.width, pf_class_of(r, row),
                             pf_scale_of(r, row), {stats[0], stats[1]}, {nullptr},
                             r.rows PF_PROLOGUE_PASS PF_EPILOGUE_PASS);
}
PF_DEVICE void pf_entropy_both(const pf_entropy& r, pf_row_class k,
                               C (&room)[3][PF_MAX_WARPS] PF_PROLOGUE_REF PF_EPILOGUE_REF) {
  const pf_u32 t = pf_thread() % r.width;
  const pf_i64 row = pf_row_of(r);
  const bool on = row < r.rows;
  const C scale = on ? pf_scale_of(r, row) : C(0);  // read now, while there are other waits
  const pf_row_sums sums = pf_entropy_loss<false>(r, row, t, k, room, {nullptr} PF_PROLOGUE_PASS);
  if (on)
    pf_entropy_gradient<false>(r, row, t, k, scale, sums, {nullptr},
                               r.rows PF_PROLOGUE_PASS PF_EPILOGUE_PASS);
}
// A block has a row after the other, all threads of it, which is UNROLL vectors of each at least.
PF_DEVICE void pf_entropy_kept(const pf_entropy& r,
                               C (&room)[3][PF_MAX_WARPS] PF_PROLOGUE_REF PF_EPILOGUE_REF) {
  const pf_u32 t = pf_thread();
  const pf_i32 end = static_cast<pf_i32>(r.vectors), step = static_cast<pf_i32>(r.width);
  const pf_kept_row kept = {pf_dynamic_shared()};
  pf_i64 row = pf_block();
  if (row >= r.rows) return;
  pf_i32 c = static_cast<pf_i32>(t);
  for (; c + (UNROLL - 1) * step < end; c += UNROLL * step) {
    PF_UNROLL for (int u = 0; u < UNROLL; ++u) kept.ask(r, row, c + u * step PF_PROLOGUE_PASS);
    pf_keep_end();
  }
  for (; c < end; c += step) kept.ask(r, row, c PF_PROLOGUE_PASS);
  pf_keep_end();
  pf_row_class k = pf_class_of(r, row);
  while (row < r.rows) {
    const C scale = pf_scale_of(r, row);
    const pf_row_sums sums = pf_entropy_loss<true>(r, row, t, k, room, kept PF_PROLOGUE_PASS);
    const pf_i64 after = row + pf_blocks();
    const pf_row_class next = after < r.rows ? pf_class_of(r, after) : k;
    pf_entropy_gradient<true>(r, row, t, k, scale, sums, kept,
                              after PF_PROLOGUE_PASS PF_EPILOGUE_PASS);
    k = next;
    row = after;
  }
}
PF_KERNEL(entropy_both, PF_ROW_THREADS)(const pf_entropy r PF_AROUND_ARGS) {
  PF_SHARED C room[3][PF_MAX_WARPS];
  if constexpr (PF_KEEP)
    pf_entropy_kept(r, room PF_PROLOGUE_PASS PF_EPILOGUE_PASS);
  else
    pf_entropy_both(r, pf_own_class(r), room PF_PROLOGUE_PASS PF_EPILOGUE_PASS);
}

// The weight of all rows, where the gradient wants it before the losses are known: one block. Adds
// in the order of entropy_finish.
PF_DEVICE void pf_entropy_total(const pf_entropy& r, double* room) {
  double s[1] = {0.0};
  for (pf_i64 k = pf_thread(); k < r.rows; k += pf_threads())
    s[0] += static_cast<double>(pf_class_of(r, k).weight);
  pf_group_join<pf_plus>(s, pf_threads(), room);
  if (pf_thread() == 0) *static_cast<C*>(r.total) = static_cast<C>(s[0]);
}
PF_KERNEL(entropy_total, PF_FINISH_THREADS)(const pf_entropy r) {
  PF_SHARED double room[PF_MAX_WARPS];
  pf_entropy_total(r, room);
}

// Sums over the rows: one block.
PF_DEVICE void pf_entropy_sums(const pf_entropy& r, double* room) {
  double s[2] = {0.0, 0.0};
  const C* losses = static_cast<const C*>(r.losses);
  // Eight rows of a thread at a time: one after the other, each would wait for memory.
  for (pf_i64 k = pf_thread(); k < r.rows; k += 8 * pf_threads()) {
    C v[8][2];
    PF_UNROLL for (int u = 0; u < 8; ++u) {
      const pf_i64 row = k + u * static_cast<pf_i64>(pf_threads());
      v[u][0] = row < r.rows ? losses[row] : C(0);
      v[u][1] = row < r.rows ? losses[r.rows + row] : C(0);
    }
    PF_UNROLL for (int u = 0; u < 8; ++u) PF_UNROLL for (int i = 0; i < 2; ++i) s[i] +=
        static_cast<double>(v[u][i]);
  }
  pf_group_join<pf_plus>(s, pf_threads(), room);
  if (pf_thread() != 0) return;
  const C total = static_cast<C>(s[1]), loss = static_cast<C>(s[0]);
  *static_cast<C*>(r.total) = total;
  if (r.reduction != 0) pf_put_one<PF_L>(r.loss, 0, r.reduction == 1 ? loss / total : loss);
}
PF_KERNEL(entropy_finish, PF_FINISH_THREADS)(const pf_entropy r) {
  PF_SHARED double room[PF_MAX_WARPS * 2];
  pf_entropy_sums(r, room);
}
// The same in the program of entropy_both.
PF_KERNEL(entropy_both_finish, PF_FINISH_THREADS)(const pf_entropy r) {
  PF_SHARED double room[PF_MAX_WARPS * 2];
  pf_entropy_sums(r, room);
}
// All three where one block has all rows: what goes from one to the next stays in shared memory.
// `steady`: nobody writes targets and weights meanwhile: what follows from these is found while
// others still run.
PF_KERNEL(entropy_alone, PF_ROW_THREADS)(const pf_entropy given, pf_i32 steady PF_AROUND_ARGS) {
  pf_next_may_start();
  PF_SHARED double sums[PF_MAX_WARPS * 2];
  PF_SHARED C room[3][PF_MAX_WARPS], total[1], losses[2 * PF_ROW_THREADS];
  pf_entropy r = given;
  r.total = total;
  r.losses = losses;
  if (!steady) pf_wait_for_earlier();
  if (r.reduction == 1) {
    pf_entropy_total(r, sums);
    pf_barrier();
  }
  const pf_row_class k = pf_own_class(r);
  pf_wait_for_earlier();
  pf_entropy_both(r, k, room PF_PROLOGUE_PASS PF_EPILOGUE_PASS);
  pf_barrier();
  r.total = given.total;
  pf_entropy_sums(r, sums);
}

// The sum of the classes' weights: one block.
PF_KERNEL(entropy_weights, PF_FINISH_THREADS)(const void* weight, C* sum, pf_i64 classes) {
  PF_SHARED double room[PF_MAX_WARPS];
  double s[1] = {0.0};
  for (pf_i64 k = pf_thread(); k < classes; k += pf_threads())
    s[0] += static_cast<double>(pf_get_one<T>(weight, k));
  pf_group_join<pf_plus>(s, pf_threads(), room);
  if (pf_thread() == 0) *sum = static_cast<C>(s[0]);
}
