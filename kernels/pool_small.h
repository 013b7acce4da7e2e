// The largest elements of small windows over pictures whose channels lie side by side, and their
// gradient (pool_window.h): a thread has PF_V channels of one result, or of PF_S x PF_S pixels, and
// reads all that it needs at once. With taps, which take registers of other threads anyway, it
// makes PF_STRIP results below each other (pool_strips).
#include "pool_window.h"

// Where a thread's elements are. Channels count in vectors.
struct pf_corner {
  pf_index n;
  pf_i32 y, x, c;
};
// Item `e` of so many per line and lines per picture.
PF_DEVICE pf_corner pf_corner_of(pf_index e, pf_i32 channels, pf_i32 across, pf_i32 down) {
  pf_corner at;
  const pf_index rest = e / static_cast<pf_index>(channels);
  at.c = static_cast<pf_i32>(e - rest * static_cast<pf_index>(channels));
  const pf_index line = rest / static_cast<pf_index>(across);
  at.x = static_cast<pf_i32>(rest - line * static_cast<pf_index>(across));
  at.n = line / static_cast<pf_index>(down);
  at.y = static_cast<pf_i32>(line - at.n * static_cast<pf_index>(down));
  return at;
}

PF_KERNEL(pool_small, 256)(pf_pool p) {
  const pf_i32 channels = static_cast<pf_i32>(p.inner) / PF_V;
  const pf_index inner = static_cast<pf_index>(p.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of(static_cast<pf_index>(e), channels, p.w.out, p.h.out);
    const pf_index c = static_cast<pf_index>(at.c) * PF_V;
    const T* image =
        static_cast<const T*>(p.from) +
        at.n * (static_cast<pf_index>(p.h.in) * static_cast<pf_index>(p.w.in) * inner) + c;
    const pf_i32 y = at.y * PF_S - PF_P, x = at.x * PF_S - PF_P;
    pf_vector<T, PF_V> seen[PF_K][PF_K];
    PF_UNROLL for (int j = 0; j < PF_K; ++j) {
      PF_UNROLL for (int i = 0; i < PF_K; ++i) {
        if (pf_inside(y + j, p.h.in) && pf_inside(x + i, p.w.in))
          seen[j][i].template load<false>(image + (static_cast<pf_i64>(y + j) * p.w.in + (x + i)) *
                                                      p.inner);
      }
    }
    pf_best<PF_V> best;
    best.clear();
    PF_UNROLL for (int j = 0; j < PF_K; ++j) {
      PF_UNROLL for (int i = 0; i < PF_K; ++i) {
        if (!pf_inside(y + j, p.h.in) || !pf_inside(x + i, p.w.in)) continue;
        PF_UNROLL for (int v = 0; v < PF_V; ++v) best.see(v, seen[j][i].get(v), j * PF_K + i);
      }
    }
    const pf_index line = at.n * static_cast<pf_index>(p.h.out) + static_cast<pf_index>(at.y);
    best.store(p,
               (line * static_cast<pf_index>(p.w.out) + static_cast<pf_index>(at.x)) * inner + c);
  }
}

#if PF_STRIP > 1
struct pf_seen {
  pf_vector<T, PF_V> at[PF_K];
  bool in;
  PF_METHOD void load(const T* line, pf_i32 x, bool inside, const pf_pool& p) {
    in = inside;
    PF_UNROLL for (int i = 0; i < PF_K; ++i) {
      if (in && pf_inside(x + i, p.w.in))
        at[i].template load<false>(line + static_cast<pf_i64>(x + i) * p.inner);
    }
  }
  PF_METHOD pf_best<PF_V> best(pf_i32 x, const pf_pool& p) const {
    pf_best<PF_V> b;
    b.clear();
    PF_UNROLL for (int i = 0; i < PF_K; ++i) {
      if (!in || !pf_inside(x + i, p.w.in)) continue;
      PF_UNROLL for (int v = 0; v < PF_V; ++v) b.see(v, at[i].get(v), i);
    }
    return b;
  }
};
PF_KERNEL(pool_strips, 256)(pf_pool p) {
  const pf_i32 channels = static_cast<pf_i32>(p.inner) / PF_V,
               strips = (p.h.out + PF_STRIP - 1) / PF_STRIP;
  const pf_i64 pitch = static_cast<pf_i64>(p.w.in) * p.inner;
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of(static_cast<pf_index>(e), channels, p.w.out, strips);
    const pf_index c = static_cast<pf_index>(at.c) * PF_V, inner = static_cast<pf_index>(p.inner);
    const pf_i32 row = at.y * PF_STRIP, y = row * PF_S - PF_P;
    const pf_i32 rows = p.h.out - row < PF_STRIP ? p.h.out - row : PF_STRIP;
    const T* line = static_cast<const T*>(p.from) +
                    (static_cast<pf_i64>(at.n) * p.h.in + y) * pitch + static_cast<pf_i64>(c);
    const pf_index step = static_cast<pf_index>(p.w.out) * inner;
    const pf_index to =
        (at.n * static_cast<pf_index>(p.h.out) + static_cast<pf_index>(row)) * step +
        static_cast<pf_index>(at.x) * inner + c;
    pf_walk<pf_seen, false>(p, line, pitch, at.x * PF_S - PF_P, y, rows, to, step);
  }
}
#endif

// A thread writes the gradient of PF_S x PF_S pixels.
PF_KERNEL(pool_small_input, 256)(pf_pool p) {
  const pf_i32 channels = static_cast<pf_i32>(p.inner) / PF_V, across = (p.w.in + PF_S - 1) / PF_S,
               down = (p.h.in + PF_S - 1) / PF_S;
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of(static_cast<pf_index>(e), channels, across, down);
    const pf_index inner = static_cast<pf_index>(p.inner), c = static_cast<pf_index>(at.c) * PF_V;
    const pf_i32 y0 = at.y - LEAD, x0 = at.x - LEAD;
    pf_vector<T, PF_V> g[PER][PER];
    pf_vector<pf_u8, PF_V> which[PER][PER];
    PF_UNROLL for (int j = 0; j < PER; ++j) {
      PF_UNROLL for (int i = 0; i < PER; ++i) {
        PF_UNROLL for (int w = 0; w < which[j][i].words; ++w) which[j][i].w[w] = 0xffffffffu;
        if (!pf_inside(y0 + j, p.h.out) || !pf_inside(x0 + i, p.w.out)) continue;
        const pf_index line = at.n * static_cast<pf_index>(p.h.out) + static_cast<pf_index>(y0 + j),
                       o = (line * static_cast<pf_index>(p.w.out) + static_cast<pf_index>(x0 + i)) *
                               inner +
                           c;
        g[j][i].template load<false>(static_cast<const T*>(p.from) + o);
        which[j][i].template load<false>(static_cast<const pf_u8*>(p.index) + o);
      }
    }
    PF_UNROLL for (int r = 0; r < PF_S; ++r) {
      PF_UNROLL for (int s = 0; s < PF_S; ++s) {
        const pf_i32 y = at.y * PF_S + r, x = at.x * PF_S + s;
        if (y >= p.h.in || x >= p.w.in) continue;
        C sum[PF_V];
        PF_UNROLL for (int v = 0; v < PF_V; ++v) sum[v] = C(0);
        PF_UNROLL for (int j = 0; j < PER; ++j) {
          PF_UNROLL for (int i = 0; i < PER; ++i) {
            const int down_tap = pf_tap_of_window(j, r), tap = pf_tap_of_window(i, s);
            if (down_tap < 0 || tap < 0) continue;
            PF_UNROLL for (int v = 0; v < PF_V;
                           ++v) if (which[j][i].get(v) == down_tap * PF_K + tap) sum[v] +=
                g[j][i].get(v);
          }
        }
        pf_round<T>(sum);
        const pf_index line = at.n * static_cast<pf_index>(p.h.in) + static_cast<pf_index>(y);
        pf_store<T, PF_V, false>(
            static_cast<T*>(p.to) +
                (line * static_cast<pf_index>(p.w.in) + static_cast<pf_index>(x)) * inner + c,
            sum);
      }
    }
  }
}
