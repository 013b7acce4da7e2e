// The largest elements of small windows over pictures, and their gradient: windows of PF_K x PF_K,
// PF_S apart, with a padding of PF_P, so that a thread reads all that it needs at once. Results are
// those of pool.h, bit by bit.
//   -DPF_T=         dtype
//   -DPF_K={2,3} -DPF_S={1,2} -DPF_P={0,1}
//   -DPF_LINES=0    channels lie side by side: a thread has PF_V of them
//   -DPF_LINES=1    pixels do: a thread has PF_V results side by side, or in the gradient what
//                   PF_V windows begin at; lines of both tensors are whole vectors of that
//   -DPF_V=
//   -DPF_KEEP=      1: which element it was, as the number of the tap, is written too
//   -DPF_INDEX=     integers that count elements
#include "math.h"
#include "pool_args.h"
#include "space.h"
#include "vector.h"

typedef PF_T T;
typedef pf_compute<T> C;

// Where a thread's elements are. Channels count in vectors.
struct pf_corner {
  pf_index n;
  pf_i32 y, x, c;
};
// Item `e` of so many per line and lines per picture.
PF_DEVICE pf_corner pf_corner_of(pf_index e, pf_i32 channels, pf_i32 across, pf_i32 down) {
  pf_corner at;
  pf_index rest = e;
  at.c = 0;
  if constexpr (!PF_LINES) {
    rest = e / static_cast<pf_index>(channels);
    at.c = static_cast<pf_i32>(e - rest * static_cast<pf_index>(channels));
  }
  const pf_index line = rest / static_cast<pf_index>(across);
  at.x = static_cast<pf_i32>(rest - line * static_cast<pf_index>(across));
  at.n = line / static_cast<pf_index>(down);
  at.y = static_cast<pf_i32>(line - at.n * static_cast<pf_index>(down));
  return at;
}
PF_DEVICE bool pf_inside(pf_i32 i, pf_i32 size) {
  return static_cast<pf_u32>(i) < static_cast<pf_u32>(size);
}

// The largest so far, and the tap that it was; -1 before there is one.
template <int N>
struct pf_best {
  C value[N];
  pf_i32 tap[N];
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < N; ++i) {
      value[i] = -pf_float<C>::infinity();
      tap[i] = -1;
    }
  }
  PF_METHOD void see(int i, C v, int t) {
    if constexpr (PF_KEEP) {
      if (v > value[i] || v != v || tap[i] < 0) {
        value[i] = v;
        tap[i] = t;
      }
    } else {
      value[i] = v > value[i] || v != v ? v : value[i];
    }
  }
  PF_METHOD void store(const pf_pool& p, pf_index at) {
    pf_store<T, N, false>(static_cast<T*>(p.to) + at, value);
    if constexpr (PF_KEEP) {
      PF_UNROLL for (int i = 0; i < N; ++i) tap[i] &= 255;
      pf_store<pf_u8, N, false>(static_cast<pf_u8*>(p.index) + at, tap);
    }
  }
};

// Results below each other that a thread makes, and the lines of the input that they see. Where a
// thread has neighbouring channels a second one would take the registers of other threads.
enum { ROWS = PF_LINES + 1, SEEN = (ROWS - 1) * PF_S + PF_K };
// Makes and writes them: element `first` of lines of `wide` on. see(best, line, j) looks at line
// `j` of a window, which is that line of what was seen.
template <class F>
PF_DEVICE void pf_largest(const pf_pool& p, const pf_corner& at, pf_index wide, pf_index first,
                          F see) {
  PF_UNROLL for (int r = 0; r < ROWS; ++r) {
    const pf_i32 row = at.y * ROWS + r;
    if (row >= p.h.out) continue;
    pf_best<PF_V> best;
    best.clear();
    PF_UNROLL for (int j = 0; j < PF_K; ++j) see(best, r * PF_S + j, j);
    const pf_index line = at.n * static_cast<pf_index>(p.h.out) + static_cast<pf_index>(row);
    best.store(p, line * wide + first);
  }
}

#if PF_LINES
// Elements of a line of the input: those of the window's vectors and one on each side.
struct pf_seen {
  enum { WIDE = PF_V * PF_S };
  pf_vector<T, WIDE> middle;
  pf_vector<T, 1> before, behind;
  pf_i32 first, size;
  PF_METHOD void load(const T* line, pf_i32 x, pf_i32 width) {
    first = x;
    size = width;
    const bool any = x < width;
    PF_UNROLL for (int i = 0; i < middle.words; ++i) middle.w[i] = 0;
    before.w[0] = behind.w[0] = 0;
    if (any) middle.template load<false>(line + x);
    if (PF_P > 0 && any && x > 0) before.template load<false>(line + x - 1);
    if (PF_K - 1 - PF_P > PF_S - 1 && x + WIDE < width)
      behind.template load<false>(line + x + WIDE);
  }
  PF_METHOD bool has(int i) const { return pf_inside(first + i, size); }
  PF_METHOD C get(int i) const {
    return i < 0 ? before.get(0) : i >= WIDE ? behind.get(0) : middle.get(i < WIDE ? i : 0);
  }
};
PF_KERNEL(pool_small, 256)(pf_pool p) {
  const pf_i32 across = p.w.out / PF_V, down = (p.h.out + ROWS - 1) / ROWS;
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of(static_cast<pf_index>(e), 1, across, down);
    const T* image = static_cast<const T*>(p.from) +
                     at.n * (static_cast<pf_index>(p.h.in) * static_cast<pf_index>(p.w.in));
    const pf_i32 y = at.y * (ROWS * PF_S) - PF_P, x = at.x * (PF_V * PF_S);
    pf_seen line[SEEN];
    PF_UNROLL for (int j = 0; j < SEEN; ++j) {
      const bool in = pf_inside(y + j, p.h.in);
      line[j].load(image + static_cast<pf_i64>(in ? y + j : 0) * p.w.in, x, in ? p.w.in : 0);
    }
    pf_largest(p, at, static_cast<pf_index>(p.w.out), static_cast<pf_index>(at.x * PF_V),
               [&](pf_best<PF_V>& best, int seen, int j) PF_INLINE {
                 PF_UNROLL for (int v = 0; v < PF_V; ++v) {
                   PF_UNROLL for (int i = 0; i < PF_K; ++i) {
                     const int place = v * PF_S + i - PF_P;
                     if (line[seen].has(place)) best.see(v, line[seen].get(place), j * PF_K + i);
                   }
                 }
               });
  }
}
#else
PF_KERNEL(pool_small, 256)(pf_pool p) {
  const pf_i32 channels = static_cast<pf_i32>(p.inner) / PF_V, down = (p.h.out + ROWS - 1) / ROWS;
  const pf_index inner = static_cast<pf_index>(p.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of(static_cast<pf_index>(e), channels, p.w.out, down);
    const pf_index c = static_cast<pf_index>(at.c) * PF_V;
    const T* image =
        static_cast<const T*>(p.from) +
        at.n * (static_cast<pf_index>(p.h.in) * static_cast<pf_index>(p.w.in) * inner) + c;
    const pf_i32 y = at.y * (ROWS * PF_S) - PF_P, x = at.x * PF_S - PF_P;
    pf_vector<T, PF_V> seen[SEEN][PF_K];
    PF_UNROLL for (int j = 0; j < SEEN; ++j) {
      PF_UNROLL for (int i = 0; i < PF_K; ++i) {
        if (pf_inside(y + j, p.h.in) && pf_inside(x + i, p.w.in))
          seen[j][i].template load<false>(image + (static_cast<pf_i64>(y + j) * p.w.in + (x + i)) *
                                                      p.inner);
      }
    }
    pf_largest(p, at, static_cast<pf_index>(p.w.out) * inner,
               static_cast<pf_index>(at.x) * inner + c,
               [&](pf_best<PF_V>& best, int line, int j) PF_INLINE {
                 PF_UNROLL for (int i = 0; i < PF_K; ++i) {
                   if (!pf_inside(y + line, p.h.in) || !pf_inside(x + i, p.w.in)) continue;
                   PF_UNROLL for (int v = 0; v < PF_V; ++v)
                       best.see(v, seen[line][i].get(v), j * PF_K + i);
                 }
               });
  }
}
#endif

// A thread writes the gradient of PF_S x PF_S pixels, or of PF_V such squares side by side. PER
// windows in each direction contain some of a square's pixels, LEAD of them begin before it.
enum { LEAD = (PF_K - 1 - PF_P) / PF_S, PER = (PF_S - 1 + PF_P) / PF_S + LEAD + 1 };
// The tap of the o-th of them that is pixel `i` of a square; or one that there is not.
PF_DEVICE constexpr int pf_tap_of_window(int o, int i) {
  const int tap = i + PF_P - (o - LEAD) * PF_S;
  return tap >= 0 && tap < PF_K ? tap : -1;
}

#if PF_LINES
PF_KERNEL(pool_small_input, 256)(pf_pool p) {
  enum { WINDOWS = PF_V - 1 + PER, WIDE = PF_V * PF_S };
  const pf_i32 across = p.w.in / WIDE, down = (p.h.in + PF_S - 1) / PF_S;
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of(static_cast<pf_index>(e), 1, across, down);
    const pf_index results =
        at.n * (static_cast<pf_index>(p.h.out) * static_cast<pf_index>(p.w.out));
    const pf_i32 y0 = at.y - LEAD, x0 = at.x * PF_V - LEAD;
    C g[PER][WINDOWS];
    pf_i32 which[PER][WINDOWS];
    PF_UNROLL for (int j = 0; j < PER; ++j) {
      PF_UNROLL for (int i = 0; i < WINDOWS; ++i) {
        g[j][i] = C(0);
        which[j][i] = -1;
        if (!pf_inside(y0 + j, p.h.out) || !pf_inside(x0 + i, p.w.out)) continue;
        const pf_index o = results +
                           static_cast<pf_index>(y0 + j) * static_cast<pf_index>(p.w.out) +
                           static_cast<pf_index>(x0 + i);
        C one[1];
        pf_load<T, 1, false>(static_cast<const T*>(p.from) + o, one);
        g[j][i] = one[0];
        which[j][i] = static_cast<const pf_u8*>(p.index)[o];
      }
    }
    PF_UNROLL for (int r = 0; r < PF_S; ++r) {
      const pf_i32 y = at.y * PF_S + r;
      if (y >= p.h.in) continue;
      C sum[WIDE];
      PF_UNROLL for (int c = 0; c < WIDE; ++c) {
        sum[c] = C(0);
        PF_UNROLL for (int j = 0; j < PER; ++j) {
          PF_UNROLL for (int i = 0; i < PER; ++i) {
            const int down_tap = pf_tap_of_window(j, r), tap = pf_tap_of_window(i, c % PF_S);
            if (down_tap < 0 || tap < 0) continue;
            if (which[j][c / PF_S + i] == down_tap * PF_K + tap) sum[c] += g[j][c / PF_S + i];
          }
        }
        sum[c] = pf_dtype<T>::round(sum[c]);
      }
      const pf_index line = at.n * static_cast<pf_index>(p.h.in) + static_cast<pf_index>(y);
      pf_store<T, WIDE, false>(static_cast<T*>(p.to) + line * static_cast<pf_index>(p.w.in) +
                                   static_cast<pf_index>(at.x * WIDE),
                               sum);
    }
  }
}
#else
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
        PF_UNROLL for (int v = 0; v < PF_V; ++v) sum[v] = pf_dtype<T>::round(sum[v]);
        const pf_index line = at.n * static_cast<pf_index>(p.h.in) + static_cast<pf_index>(y);
        pf_store<T, PF_V, false>(
            static_cast<T*>(p.to) +
                (line * static_cast<pf_index>(p.w.in) + static_cast<pf_index>(x)) * inner + c,
            sum);
      }
    }
  }
}
#endif
