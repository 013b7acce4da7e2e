// Gradients of layer_norm and rms_norm. With xhat = (x - mean - rest) rstd, where the mean is two
// numbers (norm.h), and h = g w:
//   dx = rstd (h - mean(h) - xhat mean(h xhat)), without the first mean for rms_norm,
//   dw = sum of g xhat over the rows, db = sum of g.
// Each thread of norm_backward has columns of its own, walks down a stretch of rows and keeps the
// sums of its columns in registers; norm_params adds those of all blocks. Rows too long for that
// take norm_backward_long (dx) and norm_columns (the sums of a tile of columns). Programs around
// norm_backward join: the one before makes g.
//
//   -DPF_T= -DPF_V= -DPF_RMS=  as in norm.h                  -DPF_W= dtype of the weight
//   -DPF_HAS_W=0|1   there is a weight                       -DPF_SUMS=0|1  dw or db is wanted
//   -DPF_VECS=       accesses of one thread of norm_backward
//   -DPF_THREADS=    of norm_backward at most: what registers are counted for
#include "norm_args.h"
#include "rows.h"

typedef PF_T T;
typedef PF_W W;
typedef pf_compute<T> C;
constexpr int V = PF_V, VECS = PF_VECS, KINDS = PF_RMS ? 1 : 2;
typedef pf_vector<T, V> Vector;

#define PF_COLUMN_THREADS 256
#define PF_LONG_THREADS 1024

// What a mean was off by is for numbers far from 0. 16 bits hold none that float32 could not take
// at once, and the registers are few.
constexpr bool REST = !PF_RMS && sizeof(T) > 2;

// The rows of a block go to its groups in turn.
PF_KERNEL(norm_backward, PF_THREADS)(const pf_norm_backward r PF_AROUND_ARGS) {
  PF_SHARED C room[2][PF_MAX_WARPS * 2];
  const pf_u32 width = r.width, groups = pf_threads() / width, group = pf_thread() / width;
  const pf_u32 t = pf_thread() % width;
  const pf_i32 vectors = static_cast<pf_i32>(r.vectors);
  const pf_i64 begin = pf_block() * r.stretch;
  const pf_i64 end = begin + r.stretch < r.rows ? begin + r.stretch : r.rows;
  const C scale = C(1) / static_cast<C>(r.vectors * V);
  C w[VECS][V], dw[VECS][V], db[VECS][V];
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(t + i * width);
    pf_compute<W> weight[V];
    if (PF_HAS_W && c < vectors) pf_load<W, V, false>(pf_at<W>(r.weight, c * V), weight);
    PF_UNROLL for (int j = 0; j < V; ++j) {
      w[i][j] = PF_HAS_W && c < vectors ? static_cast<C>(weight[j]) : C(1);
      dw[i][j] = db[i][j] = C(0);
    }
  }
  const pf_i64 cols = r.vectors * V;
  pf_input<T, V, false> from[VECS];
  Vector g[VECS], x[VECS];
  C mean = C(0), rest = C(0), rstd = C(0);
  const auto fetch = [&](pf_i64 row) PF_INLINE {
    PF_UNROLL for (int i = 0; i < VECS; ++i) {
      const pf_i32 c = static_cast<pf_i32>(t + i * width);
      if (row < end && c < vectors) {
        from[i].load(g[i], r.g, row, cols, c * V PF_PROLOGUE_PASS);
        x[i].template load<false>(pf_at<T>(r.x, row * cols + c * V));
      } else {
        PF_UNROLL for (int k = 0; k < Vector::words; ++k) g[i].w[k] = x[i].w[k] = 0;
      }
    }
    if (row < end) {
      if constexpr (!PF_RMS) {
        mean = static_cast<const C*>(r.mean)[2 * row];
        rest = static_cast<const C*>(r.mean)[2 * row + 1];
        if (!REST) rest += mean;
      }
      rstd = static_cast<const C*>(r.rstd)[row];
    }
  };
  fetch(begin + group);
  pf_u32 turn = 0;
  for (pf_i64 first = begin; first < end; first += groups) {
    const pf_i64 row = first + group;
    Vector gv[VECS], xv[VECS];
    pf_output<T, V, false> out[VECS];
    PF_UNROLL for (int i = 0; i < VECS; ++i) {
      const pf_i32 c = static_cast<pf_i32>(t + i * width);
      if (row < end && c < vectors) {
        from[i].make(g[i], row, c * V PF_PROLOGUE_PASS);
        out[i].load(row, c * V PF_EPILOGUE_PASS);
      }
      gv[i] = g[i];
      xv[i] = x[i];
    }
    const C m = REST ? mean : C(0), s = rstd, shift = -rest * rstd;
    fetch(row + groups);  // while this row is worked on
    C sums[2] = {C(0), C(0)};
    PF_UNROLL for (int i = 0; i < VECS; ++i) PF_UNROLL for (int j = 0; j < V; ++j) {
      const C h = gv[i].get(j) * w[i][j];  // 0 where there is nothing
      if constexpr (!PF_RMS) sums[0] += h;
      sums[1] = pf_fma(h, PF_RMS ? xv[i].get(j) : pf_fma(xv[i].get(j) - m, s, shift), sums[1]);
    }
    pf_group_join<pf_plus>(sums, width, room[turn]);
    turn ^= 1;
    if (row >= end) continue;
    const C c1 = sums[0] * scale, c2 = (PF_RMS ? sums[1] * s : sums[1]) * scale;
    PF_UNROLL for (int i = 0; i < VECS; ++i) {
      const pf_i32 c = static_cast<pf_i32>(t + i * width);
      if (c >= vectors) continue;
      C o[V];
      PF_UNROLL for (int j = 0; j < V; ++j) {
        const C hat = PF_RMS ? xv[i].get(j) * s : pf_fma(xv[i].get(j) - m, s, shift);
        const C h = gv[i].get(j) * w[i][j];
        if constexpr (PF_SUMS) {
          dw[i][j] = pf_fma(gv[i].get(j), hat, dw[i][j]);
          if constexpr (!PF_RMS) db[i][j] += gv[i].get(j);
        }
        o[j] = PF_RMS ? s * (h - hat * c2) : s * (h - c1 - hat * c2);
      }
      out[i].put(r.dx, row, cols, c * V, o PF_EPILOGUE_PASS);
    }
  }
  if constexpr (PF_SUMS) {
    // The groups add theirs one after the other.
    C* all = reinterpret_cast<C*>(pf_dynamic_shared());
    C* to = static_cast<C*>(r.partial) + static_cast<pf_i64>(pf_block()) * KINDS * r.vectors * V;
    for (pf_u32 k = 0; k < groups; ++k) {
      const bool last = k + 1 == groups;
      if (group == k) PF_UNROLL for (int i = 0; i < VECS; ++i) {
          const pf_i32 c = static_cast<pf_i32>(t + i * width);
          if (c >= vectors) continue;
          PF_UNROLL for (int j = 0; j < V; ++j) PF_UNROLL for (int q = 0; q < KINDS; ++q) {
            const pf_i32 at = (q * vectors + c) * V + j;
            const C v = (q ? db[i][j] : dw[i][j]) + (k ? all[at] : C(0));
            if (last)
              to[at] = v;
            else
              all[at] = v;
          }
        }
      if (!last) pf_barrier();
    }
  }
}

PF_KERNEL(norm_backward_long, PF_LONG_THREADS)(const pf_norm_backward r) {
  PF_SHARED C room[PF_MAX_WARPS * 2];
  const pf_i64 row = pf_block(), step = pf_threads();
  const C s = static_cast<const C*>(r.rstd)[row];
  const C m = PF_RMS ? C(0) : static_cast<const C*>(r.mean)[2 * row];
  const C rest = PF_RMS ? C(0) : static_cast<const C*>(r.mean)[2 * row + 1], shift = -rest * s;
  const C scale = C(1) / static_cast<C>(r.vectors * V);
  C sums[2] = {C(0), C(0)};
  Vector g, x;
  C w[V];
  const auto fetch = [&](pf_i64 c) PF_INLINE {
    g.template load<false>(pf_at<T>(r.g, (row * r.vectors + c) * V));
    x.template load<false>(pf_at<T>(r.x, (row * r.vectors + c) * V));
    pf_compute<W> weight[V];
    if constexpr (PF_HAS_W) pf_load<W, V, false>(pf_at<W>(r.weight, c * V), weight);
    PF_UNROLL for (int j = 0; j < V; ++j) w[j] = PF_HAS_W ? static_cast<C>(weight[j]) : C(1);
  };
  for (pf_i64 c = pf_thread(); c < r.vectors; c += step) {
    fetch(c);
    PF_UNROLL for (int j = 0; j < V; ++j) {
      const C h = g.get(j) * w[j];
      if constexpr (!PF_RMS) sums[0] += h;
      sums[1] = pf_fma(h, PF_RMS ? x.get(j) : (x.get(j) - m) - rest, sums[1]);
    }
  }
  pf_group_join<pf_plus>(sums, pf_threads(), room);
  const C c1 = sums[0] * scale, c2 = sums[1] * s * scale;
  for (pf_i64 c = pf_thread(); c < r.vectors; c += step) {
    fetch(c);
    C o[V];
    PF_UNROLL for (int j = 0; j < V; ++j) {
      const C hat = PF_RMS ? x.get(j) * s : pf_fma(x.get(j) - m, s, shift);
      const C h = g.get(j) * w[j];
      o[j] = PF_RMS ? s * (h - hat * c2) : s * (h - c1 - hat * c2);
    }
    pf_put<T, V, false>(pf_at<T>(r.dx, (row * r.vectors + c) * V), o);
  }
}

// Sums of columns over a stretch of rows: a vector of columns a thread, `tiles` blocks side by
// side.
PF_KERNEL(norm_columns, PF_COLUMN_THREADS)(const pf_norm_backward r, pf_i64 tiles) {
  const pf_i64 block = pf_block() / tiles;
  const pf_i64 c = (pf_block() - block * tiles) * pf_threads() + pf_thread();
  if (c >= r.vectors) return;
  const pf_i64 begin = block * r.stretch;
  const pf_i64 end = begin + r.stretch < r.rows ? begin + r.stretch : r.rows;
  C dw[V], db[V];
  PF_UNROLL for (int j = 0; j < V; ++j) dw[j] = db[j] = C(0);
  for (pf_i64 row = begin; row < end; ++row) {
    Vector g, x;
    g.template load<false>(pf_at<T>(r.g, (row * r.vectors + c) * V));
    x.template load<false>(pf_at<T>(r.x, (row * r.vectors + c) * V));
    const C s = static_cast<const C*>(r.rstd)[row];
    const C m = PF_RMS ? C(0) : static_cast<const C*>(r.mean)[2 * row];
    const C shift = PF_RMS ? C(0) : -static_cast<const C*>(r.mean)[2 * row + 1] * s;
    PF_UNROLL for (int j = 0; j < V; ++j) {
      const C hat = PF_RMS ? x.get(j) * s : pf_fma(x.get(j) - m, s, shift);
      dw[j] = pf_fma(g.get(j), hat, dw[j]);
      db[j] += g.get(j);
    }
  }
  C* to = static_cast<C*>(r.partial) + block * KINDS * r.vectors * V;
  PF_UNROLL for (int j = 0; j < V; ++j) {
    to[c * V + j] = dw[j];
    if constexpr (!PF_RMS) to[(r.vectors + c) * V + j] = db[j];
  }
}

#if PF_SUMS
#include "norm_params.h"
#endif
