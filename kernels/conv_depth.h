// Convolutions of each channel by itself, and their gradients (conv_args.h, where groups are the
// channels): a thread makes V neighbouring channels of U neighbouring pixels. Weights are packed
// first, [taps][channels].
//   -DPF_T=      dtype
//   -DPF_V=      channels of an access
//   -DPF_ALONG=  the dimension of space that neighbours follow each other in
//   and what conv_places.h takes; -DPF_LAST=1: channels lie side by side
#include "axes.h"
#include "conv_places.h"
#include "multiply_add.h"
#include "rows.h"

enum { V = PF_V, U = 4, BLOCK = 256, TAPS = 3 };
typedef PF_T T;
typedef pf_compute<T> C;

// The remainder of what is left to be dealt out.
PF_DEVICE pf_number pf_deal(pf_number& i, pf_i64 size) {
  const pf_number n = static_cast<pf_number>(size), rest = i / n, at = i - rest * n;
  i = rest;
  return at;
}

PF_KERNEL(pf_conv_pack, BLOCK)(pf_conv q, void* packed) {
  const pf_i64 i = static_cast<pf_i64>(pf_block()) * BLOCK + pf_thread();
  const pf_i64 t = pf_quotient(i, q.groups), c = i - t * q.groups;
  if (t >= static_cast<pf_i64>(pf_taps(q))) return;
  pf_put_one<T>(
      packed, i,
      pf_get_one<T>(q.plain, c * q.plain_group + pf_tap_of(q, static_cast<pf_number>(t)).other));
}

// Where a tap of a pixel lies in dimension d of the gathered tensor; false: outside of it.
PF_DEVICE bool pf_find(const pf_conv& q, int d, pf_step pixel, pf_step tap, pf_i64& at) {
  const pf_step stride = static_cast<pf_step>(q.stride[d]),
                padding = static_cast<pf_step>(q.padding[d]),
                far = tap * static_cast<pf_step>(q.dilation[d]);
  pf_step c;
  if constexpr (PF_INVERSE == 0) {
    c = pixel * stride - padding + far;
  } else {
    c = pixel + padding - far;
    if (PF_INVERSE == 2 && c >= 0) {
      const pf_step whole = c / stride;
      c = whole * stride == c ? whole : -1;
    }
  }
  at += c * q.at[d];
  return static_cast<pf_number>(c) < static_cast<pf_number>(q.size[d]);
}

PF_KERNEL(pf_conv_depth, BLOCK)(pf_conv q, const void* packed) {
  pf_number i = static_cast<pf_number>(pf_block()) * BLOCK + pf_thread();
  pf_i64 c = 0;
  if (PF_LAST) c = static_cast<pf_i64>(pf_deal(i, q.groups / V));
  pf_step p[3];
  PF_UNROLL for (int d = 2; d >= 0; --d) {
    p[d] =
        static_cast<pf_step>(pf_deal(i, d == PF_ALONG ? (q.pixels[d] + U - 1) / U : q.pixels[d]));
    if (d == PF_ALONG) p[d] *= U;
  }
  if (!PF_LAST) c = static_cast<pf_i64>(pf_deal(i, q.groups / V));
  c *= V;
  const pf_i64 n = static_cast<pf_i64>(i);
  if (n * q.m >= q.k) return;  // k: pixels of all of the batch
  const pf_i64 first = n * q.batch + c * q.group;
  C sum[U][V];
  PF_UNROLL for (int u = 0; u < U; ++u) {
    PF_UNROLL for (int v = 0; v < V; ++v) sum[u][v] = C(0);
  }
  constexpr int A = PF_ALONG == 2 ? 1 : 2;  // the other one of the last two
  pf_i64 tap = c;
  PF_NO_UNROLL for (pf_step t0 = 0; t0 < q.taps[0]; ++t0) {
    pf_i64 at0 = first;
    const bool in0 = pf_find(q, 0, p[0], t0, at0);
    PF_NO_UNROLL for (pf_step t1 = 0; t1 < q.taps[1]; ++t1) {
      PF_NO_UNROLL for (pf_step t2 = 0; t2 < q.taps[2]; ++t2) {
        const pf_step t[3] = {t0, t1, t2};
        pf_vector<T, V> w, x[U];
        pf_i64 at = at0;
        const bool on = pf_find(q, A, p[A], t[A], at) && in0;
        bool in[U];
        PF_UNROLL for (int u = 0; u < U; ++u) {
          pf_i64 here = at;
          in[u] = pf_find(q, PF_ALONG, p[PF_ALONG] + u, t[PF_ALONG], here) && on;
          if (in[u]) x[u].template load<false>(pf_at<T>(q.gathered, here));
        }
        w.template load<false>(pf_at<T>(packed, tap));
        tap += q.groups;
        PF_UNROLL for (int u = 0; u < U; ++u) {
          if (!in[u]) continue;
          PF_UNROLL for (int v = 0; v < V; ++v) sum[u][v] =
              pf_multiply_add(x[u].get(v), w.get(v), sum[u][v]);
        }
      }
    }
  }
  pf_i64 to = n * q.pixel_batch + c * q.out_group;
  PF_UNROLL for (int d = 0; d < 3; ++d) to += p[d] * q.pixel_at[d];
  PF_UNROLL for (int u = 0; u < U; ++u) {
    if (p[PF_ALONG] + u >= q.pixels[PF_ALONG]) continue;
    if (q.bias)
      PF_UNROLL for (int v = 0; v < V; ++v) sum[u][v] =
          pf_sum(sum[u][v], pf_get_one<T>(q.bias, c + v));
    pf_put<T, V, false>(pf_at<T>(q.out, to + u * q.pixel_at[PF_ALONG]), sum[u]);
  }
}

// The gradient by the weight: threads beside each other have neighbouring channels (`tiles_n` of
// them, with V each), those above each other pixels of a share; TAPS taps at a time.
PF_KERNEL(pf_conv_depth_weight, BLOCK)(pf_conv q) {
  PF_SHARED C room[TAPS * V][BLOCK / 2];
  const int width = static_cast<int>(q.tiles_n), height = BLOCK / width;
  const int x = static_cast<int>(pf_thread()) % width, y = static_cast<int>(pf_thread()) / width;
  pf_number i = pf_block();
  const pf_i64 vectors = q.groups / V;
  const pf_i64 cv = static_cast<pf_i64>(pf_deal(i, (vectors + width - 1) / width)) * width + x;
  const pf_number first = pf_deal(i, q.tiles_m) * TAPS;
  const pf_i64 part = static_cast<pf_i64>(i), c = cv * V;
  const pf_i64 end = (part + 1) * q.share < q.k ? (part + 1) * q.share : q.k;
  pf_spot taps[TAPS];
  PF_UNROLL for (int t = 0; t < TAPS; ++t) taps[t] =
      first + t < pf_taps(q) ? pf_tap_of(q, first + t) : pf_nowhere();
  C sum[TAPS][V];
  PF_UNROLL for (int t = 0; t < TAPS; ++t) {
    PF_UNROLL for (int v = 0; v < V; ++v) sum[t][v] = C(0);
  }
  if (cv < vectors)
    for (pf_i64 k = part * q.share + y; k < end; k += height) {
      const pf_spot pixel = pf_pixel(q, static_cast<pf_number>(k));
      pf_vector<T, V> g, of[TAPS];
      bool in[TAPS];
      g.template load<false>(pf_at<T>(q.plain, pixel.other + c * q.plain_group));
      PF_UNROLL for (int t = 0; t < TAPS; ++t) {
        in[t] = pf_meet(q, pixel, taps[t]);
        if (in[t])
          of[t].template load<false>(
              pf_at<T>(q.gathered, pixel.gathered + taps[t].gathered + c * q.group));
      }
      PF_UNROLL for (int t = 0; t < TAPS; ++t) {
        if (!in[t]) continue;
        PF_UNROLL for (int v = 0; v < V; ++v) sum[t][v] =
            pf_multiply_add(of[t].get(v), g.get(v), sum[t][v]);
      }
    }
  for (int half = height / 2; half > 0; half /= 2) {
    const int place = y % half * width + x;
    pf_barrier();
    if (y >= half && y < 2 * half) PF_UNROLL for (int t = 0; t < TAPS; ++t) {
        PF_UNROLL for (int v = 0; v < V; ++v) room[t * V + v][place] = sum[t][v];
      }
    pf_barrier();
    if (y < half) PF_UNROLL for (int t = 0; t < TAPS; ++t) {
        PF_UNROLL for (int v = 0; v < V; ++v) sum[t][v] = pf_sum(sum[t][v], room[t * V + v][place]);
      }
  }
  if (y > 0 || cv >= vectors) return;
  PF_UNROLL for (int t = 0; t < TAPS; ++t) {
    if (first + t >= pf_taps(q)) continue;
    PF_UNROLL for (int v = 0; v < V; ++v) static_cast<C*>(
        q.partial)[(part * q.groups + c + v) * q.m + first + t] = sum[t][v];
  }
}
