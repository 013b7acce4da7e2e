// Products with banded matrices along two dimensions (src/table/kernels/resample.h). A thread makes
// PF_V elements of the result that lie side by side. Sums go along a, then along b, as on the CPU.
//   -DPF_T= -DPF_R=   dtypes of x and y; bytes are rounded and no more than 255
//   -DPF_C=           what sums and weights are in
//   -DPF_V=           elements of a thread
//   -DPF_LINES=1      those have one place along b: `inner` is a multiple of PF_V
//   -DPF_ONE=1        inner is 1
#include "math.h"
#include "resample_args.h"
#include "space.h"

typedef PF_C C;

template <class T>
struct pf_byte_or {
  enum { byte = 0 };
};
template <>
struct pf_byte_or<pf_u8> {
  enum { byte = 1 };
};
template <int N>
PF_DEVICE void pf_fetch(const void* x, pf_i64 at, C (&v)[N]) {
  pf_compute<PF_T> raw[N];
  pf_load<PF_T, N, false>(static_cast<const PF_T*>(x) + at, raw);
  PF_UNROLL for (int i = 0; i < N; ++i) v[i] = static_cast<C>(raw[i]);
}
PF_DEVICE pf_compute<PF_R> pf_rounded(C v) {
  if constexpr (pf_byte_or<PF_R>::byte) {
    const C half = v + C(0.5);
    return half >= C(255) ? 255 : half >= C(1) ? static_cast<pf_i32>(half) : 0;
  } else {
    return pf_dtype<PF_R>::round(v);
  }
}
struct pf_row {
  pf_i32 start, count;
  const C* weights;
};
PF_DEVICE pf_row pf_row_of(const pf_band& band, pf_i64 i) {
  // Weights begin at a multiple of 16 bytes.
  const pf_i64 words = (2 * band.out + 3) / 4 * 4;
  return {band.start[i], band.start[band.out + i],
          reinterpret_cast<const C*>(band.start + words) + i * band.most};
}

// N elements at x, which stand at row `a` and column `first` of a plane.
template <int N>
PF_DEVICE void pf_sums(const pf_resample& r, const pf_row& a, const pf_row& b, pf_i64 plane,
                       pf_i64 c, C (&sum)[N]) {
  const pf_i64 width = r.b.in * r.inner;
  PF_UNROLL for (int i = 0; i < N; ++i) sum[i] = C(0);
  pf_i64 column = (plane * r.a.in + a.start) * width + b.start * r.inner + c;
  PF_NO_UNROLL for (pf_i32 k = 0; k < b.count; ++k, column += r.inner) {
    const C wb = b.weights[k];
    if (wb == C(0)) continue;
    C v[N], rows[N];
    PF_UNROLL for (int i = 0; i < N; ++i) rows[i] = C(0);
    PF_NO_UNROLL for (pf_i32 j = 0; j < a.count; ++j) {
      const C wa = a.weights[j];
      if (wa == C(0)) continue;
      pf_fetch(r.x, column + j * width, v);
      PF_UNROLL for (int i = 0; i < N; ++i) rows[i] =
          j == 0 ? wa * v[i] : pf_fma(wa, v[i], rows[i]);
    }
    PF_UNROLL for (int i = 0; i < N; ++i) sum[i] =
        k == 0 ? wb * rows[i] : pf_fma(wb, rows[i], sum[i]);
  }
}

PF_KERNEL(resample, 256)(pf_resample r) {
  const pf_index width = static_cast<pf_index>(r.b.out * r.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(r.items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V, row = at / width;
    const pf_index plane = row / static_cast<pf_index>(r.a.out);
    const pf_row a = pf_row_of(r.a, row - plane * static_cast<pf_index>(r.a.out));
    const pf_index column = at - row * width, inner = static_cast<pf_index>(r.inner);
    pf_compute<PF_R> out[PF_V];
    if constexpr (PF_LINES) {
      const pf_index o = PF_ONE ? column : column / inner;
      C sum[PF_V];
      pf_sums<PF_V>(r, a, pf_row_of(r.b, o), plane, PF_ONE ? 0 : column - o * inner, sum);
      PF_UNROLL for (int i = 0; i < PF_V; ++i) out[i] = pf_rounded(sum[i]);
    } else {
      PF_UNROLL for (int i = 0; i < PF_V; ++i) {
        const pf_index here = column + i, o = PF_ONE ? here : here / inner;
        C sum[1];
        pf_sums<1>(r, a, pf_row_of(r.b, o), plane, PF_ONE ? 0 : here - o * inner, sum);
        out[i] = pf_rounded(sum[0]);
      }
    }
    pf_store<PF_R, PF_V, false>(static_cast<PF_R*>(r.y) + at, out);
  }
}
