// The largest elements of small windows over pictures whose pixels lie side by side, and their
// gradient (pool_window.h): a thread makes PF_V results, or the gradient of PF_V squares of PF_S x
// PF_S pixels, and STRIP or BACK_STRIP of these below each other, of which two share what they see
// of lines between them. Lines of both tensors are whole vectors of that.
#include "pool_window.h"

enum { STRIP = 4, BACK_STRIP = 2 };

// Where a thread's elements are.
struct pf_corner {
  pf_index n;
  pf_i32 y, x;  // the first line, the vector
};
// Item `e` of so many per line, whose strips have `down` lines in all.
template <int TALL>
PF_DEVICE pf_corner pf_corner_of(pf_index e, pf_i32 across, pf_i32 down) {
  const pf_index strips = static_cast<pf_index>((down + TALL - 1) / TALL);
  const pf_index line = e / static_cast<pf_index>(across);
  pf_corner at;
  at.x = static_cast<pf_i32>(e - line * static_cast<pf_index>(across));
  at.n = line / strips;
  at.y = static_cast<pf_i32>(line - at.n * strips) * TALL;
  return at;
}

// What a thread's windows see of a line of the input: the windows' vectors and one on each side.
struct pf_seen {
  enum { WIDE = PF_V * PF_S };
  pf_vector<T, WIDE> middle;
  pf_vector<T, 1> before, behind;
  bool in;
  PF_METHOD void load(const T* line, pf_i32 x, bool inside, const pf_pool& p) {
    in = inside;
    PF_UNROLL for (int i = 0; i < middle.words; ++i) middle.w[i] = 0;
    before.w[0] = behind.w[0] = 0;
    if (!in) return;
    middle.template load<false>(line + x);
    if (PF_P > 0 && x > 0) before.template load<false>(line + x - 1);
    if (PF_K - 1 - PF_P > PF_S - 1 && x + WIDE < p.w.in)
      behind.template load<false>(line + x + WIDE);
  }
  PF_METHOD pf_best<PF_V> best(pf_i32 x, const pf_pool& p) const {
    pf_best<PF_V> b;
    b.clear();
    if (!in) return b;
    PF_UNROLL for (int v = 0; v < PF_V; ++v) {
      PF_UNROLL for (int i = 0; i < PF_K; ++i) {
        const int at = v * PF_S + i - PF_P;
        if (at < 0 ? x > 0 : at < WIDE || x + at < p.w.in)
          b.see(v,
                at < 0       ? before.get(0)
                : at >= WIDE ? behind.get(0)
                             : middle.get(at < WIDE ? at : 0),
                i);
      }
    }
    return b;
  }
};
PF_KERNEL(pool_lines, 256)(pf_pool p) {
  const pf_i32 across = p.w.out / PF_V;
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of<STRIP>(static_cast<pf_index>(e), across, p.h.out);
    const pf_i32 x = at.x * (PF_V * PF_S);
    const pf_i32 end = at.y + STRIP < p.h.out ? at.y + STRIP : p.h.out;
    const pf_i32 y = at.y * PF_S - PF_P;
    const T* line = static_cast<const T*>(p.from) +
                    (static_cast<pf_i64>(at.n) * p.h.in + y) * static_cast<pf_i64>(p.w.in);
    const pf_index to = (at.n * static_cast<pf_index>(p.h.out) + static_cast<pf_index>(at.y)) *
                            static_cast<pf_index>(p.w.out) +
                        static_cast<pf_index>(at.x * PF_V);
    // Where taps are kept, and registers are many anyway, a row is read ahead.
    pf_walk<pf_seen, PF_KEEP>(p, line, p.w.in, x, y, end - at.y, to,
                              static_cast<pf_index>(p.w.out));
  }
}

// Gradients and taps of a line of windows: of the vector, and of those on both sides.
struct pf_windows_of {
  pf_vector<T, PF_V> g;
  pf_vector<pf_u8, PF_V> tap;
  pf_vector<T, 1> side[PER];
  pf_vector<pf_u8, 1> side_tap[PER];
  PF_METHOD void load(const pf_pool& p, pf_index line, pf_i32 x, bool in) {
    const T* from = static_cast<const T*>(p.from);
    const pf_u8* index = static_cast<const pf_u8*>(p.index);
    PF_UNROLL for (int w = 0; w < tap.words; ++w) tap.w[w] = 0xffffffffu;
    if (in && x < p.w.out) {
      g.template load<false>(from + line + static_cast<pf_index>(x));
      tap.template load<false>(index + line + static_cast<pf_index>(x));
    }
    PF_UNROLL for (int i = 0; i < PER - 1; ++i) {
      const pf_i32 o = i < LEAD ? x - LEAD + i : x + PF_V + i - LEAD;
      side_tap[i].w[0] = 255;
      if (!in || !pf_inside(o, p.w.out)) continue;
      side[i].template load<false>(from + line + static_cast<pf_index>(o));
      side_tap[i].template load<false>(index + line + static_cast<pf_index>(o));
    }
  }
  // Window i of those that begin LEAD before the vector.
  PF_METHOD C grad(int i) const {
    return i < LEAD ? side[i].get(0) : i < LEAD + PF_V ? g.get(i - LEAD) : side[i - PF_V].get(0);
  }
  PF_METHOD pf_i32 which(int i) const {
    return i < LEAD          ? side_tap[i].get(0)
           : i < LEAD + PF_V ? tap.get(i - LEAD)
                             : side_tap[i - PF_V].get(0);
  }
};
PF_KERNEL(pool_lines_input, 256)(pf_pool p) {
  enum { WIDE = PF_V * PF_S };
  const pf_i32 across = p.w.in / WIDE, down = (p.h.in + PF_S - 1) / PF_S;
  const pf_index pitch = static_cast<pf_index>(p.w.out);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_corner at = pf_corner_of<BACK_STRIP>(static_cast<pf_index>(e), across, down);
    const pf_i32 end = at.y + BACK_STRIP < down ? at.y + BACK_STRIP : down, x0 = at.x * PF_V;
    const pf_index results = at.n * static_cast<pf_index>(p.h.out);
    pf_windows_of lines[PER];
    const auto read = [&](pf_windows_of& line, pf_i32 y) PF_INLINE {
      line.load(p, (results + static_cast<pf_index>(y)) * pitch, x0, pf_inside(y, p.h.out));
    };
    PF_UNROLL for (int j = 0; j + 1 < PER; ++j) read(lines[j + 1], at.y - LEAD + j);
    PF_NO_UNROLL for (pf_i32 square = at.y; square < end; ++square) {
      PF_UNROLL for (int j = 0; j + 1 < PER; ++j) lines[j] = lines[j + 1];
      read(lines[PER - 1], square - LEAD + PER - 1);
      PF_UNROLL for (int r = 0; r < PF_S; ++r) {
        const pf_i32 row = square * PF_S + r;
        if (row >= p.h.in) continue;
        C sum[WIDE];
        PF_UNROLL for (int s = 0; s < WIDE; ++s) {
          sum[s] = C(0);
          PF_UNROLL for (int j = 0; j < PER; ++j) {
            PF_UNROLL for (int i = 0; i < PER; ++i) {
              const int down_tap = pf_tap_of_window(j, r), tap = pf_tap_of_window(i, s % PF_S);
              if (down_tap < 0 || tap < 0) continue;
              if (lines[j].which(s / PF_S + i) == down_tap * PF_K + tap)
                sum[s] += lines[j].grad(s / PF_S + i);
            }
          }
        }
        pf_round<T>(sum);
        const pf_index line = at.n * static_cast<pf_index>(p.h.in) + static_cast<pf_index>(row);
        pf_store<T, WIDE, false>(static_cast<T*>(p.to) + line * static_cast<pf_index>(p.w.in) +
                                     static_cast<pf_index>(at.x * WIDE),
                                 sum);
      }
    }
  }
}
