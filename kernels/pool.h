// The largest elements of windows, their gradient, and what stands at their places; averages of
// windows and their gradient (src/table/kernels/pool.h). A thread makes PF_V elements that lie side
// by side, of neighbouring channels where those do.
//   -DPF_T=          dtype
//   -DPF_I=          dtype of the index: pf_u8 (number of the tap) or pf_i64 (place in the space)
//   -DPF_V=          elements of a thread; inner is a multiple of it
//   -DPF_ADAPTIVE=1  windows cover a dimension evenly
//   -DPF_INDEX=      integers that count elements
#include "math.h"
#include "pool_args.h"
#include "space.h"

typedef PF_T T;
typedef pf_compute<T> C;

template <class X>
struct pf_no_sign {
  enum { value = 0 };
};
template <>
struct pf_no_sign<pf_u8> {
  enum { value = 1 };
};

// Elements [begin, begin + (to - from) * step) of a window, taps [from, to).
struct pf_taps {
  pf_i32 begin, from, to, step;
};
PF_DEVICE pf_taps pf_taps_of(const pf_windows& w, pf_i32 i) {
  if constexpr (PF_ADAPTIVE) {
    const pf_i64 in = w.in, begin = i * in / w.out, end = ((i + 1) * in + w.out - 1) / w.out;
    return {static_cast<pf_i32>(begin), 0, static_cast<pf_i32>(end - begin), 1};
  }
  const pf_i32 at = i * w.stride - w.padding, step = w.dilation;
  const pf_i32 from = at < 0 ? (step - 1 - at) / step : 0;
  pf_i32 to = w.kernel;
  if (at + (to - 1) * step >= w.in) to = at < w.in ? (w.in - at + step - 1) / step : 0;
  return {at + from * step, from, to < from ? from : to, step};
}
PF_DEVICE float pf_least(float) {
  return -pf_float<float>::infinity();
}
PF_DEVICE double pf_least(double) {
  return -pf_float<double>::infinity();
}
PF_DEVICE pf_i64 pf_least(pf_i64) {
  return PF_LONG_MIN;
}
PF_DEVICE pf_i32 pf_least(pf_i32) {
  return sizeof(T) == 4 ? PF_INT_MIN : pf_no_sign<T>::value ? 0 : sizeof(T) == 2 ? -32768 : -128;
}
PF_DEVICE bool pf_above(C v, C best) {
  return v > best || v != v;
}

// Where a thread's elements are: channel, column, row and depth, and which item.
struct pf_spot {
  pf_index c, n;
  pf_i32 x, y, z;
};
PF_DEVICE pf_spot pf_spot_of(pf_index at, pf_index inner, pf_i32 width, pf_i32 height,
                             pf_i32 depth) {
  pf_index rest = at / inner;
  pf_spot s;
  s.c = at - rest * inner;
  pf_index next = rest / static_cast<pf_index>(width);
  s.x = static_cast<pf_i32>(rest - next * static_cast<pf_index>(width));
  rest = next / static_cast<pf_index>(height);
  s.y = static_cast<pf_i32>(next - rest * static_cast<pf_index>(height));
  s.n = rest / static_cast<pf_index>(depth);
  s.z = static_cast<pf_i32>(rest - s.n * static_cast<pf_index>(depth));
  return s;
}
PF_DEVICE pf_spot pf_result(const pf_pool& p, pf_index at) {
  return pf_spot_of(at, static_cast<pf_index>(p.inner), p.w.out, p.h.out, p.d.out);
}
PF_DEVICE pf_index pf_inputs(const pf_pool& p) {
  return static_cast<pf_index>(p.d.in) * static_cast<pf_index>(p.h.in) *
         static_cast<pf_index>(p.w.in);
}
PF_DEVICE pf_i64 pf_place(const pf_pool& p, pf_i32 z, pf_i32 y, pf_i32 x) {
  return (static_cast<pf_i64>(z) * p.h.in + y) * p.w.in + x;
}

template <int KEEP>
PF_DEVICE void pf_largest(const pf_pool& p) {
  const pf_index inner = static_cast<pf_index>(p.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    const pf_spot s = pf_result(p, at);
    const pf_taps d = pf_taps_of(p.d, s.z), h = pf_taps_of(p.h, s.y), w = pf_taps_of(p.w, s.x);
    const T* x = static_cast<const T*>(p.from) + s.n * pf_inputs(p) * inner + s.c;
    C best[PF_V];
    PF_I which[PF_V];
    bool any = false;
    PF_UNROLL for (int i = 0; i < PF_V; ++i) {
      best[i] = C(0);
      which[i] = static_cast<PF_I>(-1);
    }
    PF_NO_UNROLL for (pf_i32 k = d.from; k < d.to; ++k)
        PF_NO_UNROLL for (pf_i32 j = h.from; j < h.to; ++j) {
      const pf_i64 line =
          pf_place(p, d.begin + (k - d.from) * d.step, h.begin + (j - h.from) * h.step, w.begin);
      PF_NO_UNROLL for (pf_i32 i = w.from; i < w.to; ++i) {
        const pf_i64 place = line + (i - w.from) * w.step;
        C v[PF_V];
        pf_load<T, PF_V, false>(x + place * p.inner, v);
        const PF_I here = sizeof(PF_I) == 1
                              ? static_cast<PF_I>((k * p.h.kernel + j) * p.w.kernel + i)
                              : static_cast<PF_I>(place);
        PF_UNROLL for (int c = 0; c < PF_V; ++c) if (!any || pf_above(v[c], best[c])) {
          best[c] = v[c];
          which[c] = here;
        }
        any = true;
      }
    }
    if (!any) PF_UNROLL for (int c = 0; c < PF_V; ++c) best[c] = pf_least(C());
    pf_store<T, PF_V, false>(static_cast<T*>(p.to) + at, best);
    if constexpr (KEEP) {
      pf_compute<PF_I> kept[PF_V];
      PF_UNROLL for (int c = 0; c < PF_V; ++c) kept[c] = which[c];
      pf_store<PF_I, PF_V, false>(static_cast<PF_I*>(p.index) + at, kept);
    }
  }
}
PF_KERNEL(pool_max, 256)(pf_pool p) {
  pf_largest<1>(p);
}
PF_KERNEL(pool_max_values, 256)(pf_pool p) {
  pf_largest<0>(p);
}

// The windows [first, last] that may contain an element.
struct pf_span {
  pf_i32 first, last;
};
PF_DEVICE pf_span pf_containing(const pf_windows& w, pf_i32 i) {
  if constexpr (PF_ADAPTIVE) {
    const pf_i64 out = w.out, first = i * out / w.in, end = ((i + 1) * out + w.in - 1) / w.in;
    return {static_cast<pf_i32>(first), static_cast<pf_i32>(end) - 1};
  }
  const pf_i32 reach = (w.kernel - 1) * w.dilation, at = i + w.padding;
  const pf_i32 first = at > reach ? (at - reach + w.stride - 1) / w.stride : 0;
  const pf_i32 last = at / w.stride;
  return {first, last < w.out ? last : w.out - 1};
}
// The tap of window o that is element i, or -1.
PF_DEVICE pf_i32 pf_tap_at(const pf_windows& w, pf_i32 i, pf_i32 o) {
  const pf_i32 away = i + w.padding - o * w.stride;
  const pf_i32 tap = w.dilation == 1 ? away : away / w.dilation;
  return tap * w.dilation == away ? tap : -1;
}

// The result of this window for the channels of `s`.
PF_DEVICE pf_index pf_result_at(const pf_pool& p, const pf_spot& s, pf_i32 z, pf_i32 y, pf_i32 x) {
  const pf_index plane = s.n * static_cast<pf_index>(p.d.out) + static_cast<pf_index>(z);
  const pf_index line = plane * static_cast<pf_index>(p.h.out) + static_cast<pf_index>(y);
  return (line * static_cast<pf_index>(p.w.out) + static_cast<pf_index>(x)) *
             static_cast<pf_index>(p.inner) +
         s.c;
}

PF_KERNEL(pool_max_input, 256)(pf_pool p) {
  const pf_index inner = static_cast<pf_index>(p.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    const pf_spot s = pf_spot_of(at, inner, p.w.in, p.h.in, p.d.in);
    const pf_span d = pf_containing(p.d, s.z), h = pf_containing(p.h, s.y),
                  w = pf_containing(p.w, s.x);
    const pf_i64 own = pf_place(p, s.z, s.y, s.x);
    C sum[PF_V];
    PF_UNROLL for (int c = 0; c < PF_V; ++c) sum[c] = C(0);
    PF_NO_UNROLL for (pf_i32 z = d.first; z <= d.last; ++z)
        PF_NO_UNROLL for (pf_i32 y = h.first; y <= h.last; ++y)
            PF_NO_UNROLL for (pf_i32 x = w.first; x <= w.last; ++x) {
      PF_I me = static_cast<PF_I>(own);
      if constexpr (sizeof(PF_I) == 1) {
        const pf_i32 k = pf_tap_at(p.d, s.z, z), j = pf_tap_at(p.h, s.y, y),
                     i = pf_tap_at(p.w, s.x, x);
        if (k < 0 || j < 0 || i < 0) continue;
        me = static_cast<PF_I>((k * p.h.kernel + j) * p.w.kernel + i);
      }
      const pf_index o = pf_result_at(p, s, z, y, x);
      pf_compute<PF_I> which[PF_V];
      C g[PF_V];
      pf_load<PF_I, PF_V, false>(static_cast<const PF_I*>(p.index) + o, which);
      pf_load<T, PF_V, false>(static_cast<const T*>(p.from) + o, g);
      PF_UNROLL for (int c = 0; c < PF_V; ++c) if (static_cast<PF_I>(which[c]) == me) sum[c] =
          sum[c] + g[c];
    }
    pf_round<T>(sum);
    pf_store<T, PF_V, false>(static_cast<T*>(p.to) + at, sum);
  }
}

PF_KERNEL(pool_max_pick, 256)(pf_pool p) {
  const pf_index inner = static_cast<pf_index>(p.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    const pf_spot s = pf_result(p, at);
    const T* x = static_cast<const T*>(p.from) + s.n * pf_inputs(p) * inner + s.c;
    pf_compute<PF_I> which[PF_V];
    pf_load<PF_I, PF_V, false>(static_cast<const PF_I*>(p.index) + at, which);
    C v[PF_V];
    PF_UNROLL for (int c = 0; c < PF_V; ++c) {
      pf_i64 place = static_cast<pf_i64>(which[c]);
      if constexpr (sizeof(PF_I) == 1) {
        const pf_i32 tap = static_cast<pf_i32>(which[c]), row = tap / p.w.kernel;
        place = tap == 255
                    ? -1
                    : pf_place(p, s.z * p.d.stride - p.d.padding + row / p.h.kernel * p.d.dilation,
                               s.y * p.h.stride - p.h.padding + row % p.h.kernel * p.h.dilation,
                               s.x * p.w.stride - p.w.padding + tap % p.w.kernel * p.w.dilation);
      }
      const bool inside = place >= 0 && place < static_cast<pf_i64>(pf_inputs(p));
      v[c] = inside ? pf_get<T>(x, place * p.inner + c) : C(0);
    }
    pf_store<T, PF_V, false>(static_cast<T*>(p.to) + at, v);
  }
}

// What the sum over a window is divided by.
PF_DEVICE pf_i64 pf_counted(const pf_windows& w, pf_i32 i, bool padding) {
  const pf_taps t = pf_taps_of(w, i);
  if (PF_ADAPTIVE || !padding) return t.to - t.from;
  const pf_i32 at = i * w.stride - w.padding, end = w.in + w.padding - at;
  return end < w.kernel ? end : w.kernel;
}
PF_DEVICE C pf_divisor(const pf_pool& p, pf_i32 z, pf_i32 y, pf_i32 x) {
  if (p.divisor != 0) return static_cast<C>(p.divisor);
  const bool padding = p.counts_padding != 0;
  return static_cast<C>(pf_counted(p.d, z, padding) * pf_counted(p.h, y, padding) *
                        pf_counted(p.w, x, padding));
}

PF_KERNEL(pool_average, 256)(pf_pool p) {
  const pf_index inner = static_cast<pf_index>(p.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    const pf_spot s = pf_result(p, at);
    const pf_taps d = pf_taps_of(p.d, s.z), h = pf_taps_of(p.h, s.y), w = pf_taps_of(p.w, s.x);
    const T* x = static_cast<const T*>(p.from) + s.n * pf_inputs(p) * inner + s.c;
    C sum[PF_V];
    PF_UNROLL for (int c = 0; c < PF_V; ++c) sum[c] = C(0);
    PF_NO_UNROLL for (pf_i32 k = 0; k < d.to - d.from; ++k)
        PF_NO_UNROLL for (pf_i32 j = 0; j < h.to - h.from; ++j) {
      const pf_i64 line = pf_place(p, d.begin + k, h.begin + j, w.begin);
      PF_NO_UNROLL for (pf_i32 i = 0; i < w.to - w.from; ++i) {
        C v[PF_V];
        pf_load<T, PF_V, false>(x + (line + i) * p.inner, v);
        PF_UNROLL for (int c = 0; c < PF_V; ++c) sum[c] = sum[c] + v[c];
      }
    }
    const C by = pf_divisor(p, s.z, s.y, s.x);
    PF_UNROLL for (int c = 0; c < PF_V; ++c) sum[c] = sum[c] / by;
    pf_round<T>(sum);
    pf_store<T, PF_V, false>(static_cast<T*>(p.to) + at, sum);
  }
}

PF_KERNEL(pool_average_input, 256)(pf_pool p) {
  const pf_index inner = static_cast<pf_index>(p.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(p.items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    const pf_spot s = pf_spot_of(at, inner, p.w.in, p.h.in, p.d.in);
    const pf_span d = pf_containing(p.d, s.z), h = pf_containing(p.h, s.y),
                  w = pf_containing(p.w, s.x);
    C sum[PF_V];
    PF_UNROLL for (int c = 0; c < PF_V; ++c) sum[c] = C(0);
    PF_NO_UNROLL for (pf_i32 z = d.first; z <= d.last; ++z)
        PF_NO_UNROLL for (pf_i32 y = h.first; y <= h.last; ++y)
            PF_NO_UNROLL for (pf_i32 x = w.first; x <= w.last; ++x) {
      C g[PF_V];
      pf_load<T, PF_V, false>(static_cast<const T*>(p.from) + pf_result_at(p, s, z, y, x), g);
      const C by = pf_divisor(p, z, y, x);
      PF_UNROLL for (int c = 0; c < PF_V; ++c) sum[c] = sum[c] + g[c] / by;
    }
    pf_round<T>(sum);
    pf_store<T, PF_V, false>(static_cast<T*>(p.to) + at, sum);
  }
}
