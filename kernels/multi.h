// A walk over lists of tensors of any floating-point dtypes.
//
//   -DPF_ONLY=  the dtype of all of them, where they have one
#ifndef PF_MULTI_H
#define PF_MULTI_H

#include "table.h"

#define PF_MULTI_THREADS 256

// fn(x) for vectors x[W] of the block's elements; what it leaves in x is stored when WRITE.
template <class T, bool WRITE, class F>
PF_DEVICE void pf_each_of(const pf_stretch& s, F fn) {
  constexpr int full = 16 / static_cast<int>(sizeof(T));
  pf_i64 i = s.begin;
  if (s.tensor.aligned) {
    const pf_i64 step = static_cast<pf_i64>(pf_threads()) * full;
    i += static_cast<pf_i64>(pf_thread()) * full;
    for (; i + 3 * step + full <= s.end; i += 4 * step) {
      pf_compute<T> x[4][full];
      PF_UNROLL for (int u = 0; u < 4; ++u)
          pf_load<T, full, !WRITE>(pf_at<T>(s.tensor.data[0], i + u * step), x[u]);
      PF_UNROLL for (int u = 0; u < 4; ++u) {
        PF_UNROLL for (int j = 0; j < full; ++j) fn(x[u][j]);
        if constexpr (WRITE) pf_put<T, full, false>(pf_at<T>(s.tensor.data[0], i + u * step), x[u]);
      }
    }
    for (; i + full <= s.end; i += step) {
      pf_compute<T> x[full];
      pf_load<T, full, !WRITE>(pf_at<T>(s.tensor.data[0], i), x);
      PF_UNROLL for (int j = 0; j < full; ++j) fn(x[j]);
      if constexpr (WRITE) pf_put<T, full, false>(pf_at<T>(s.tensor.data[0], i), x);
    }
    i = s.begin + (s.end - s.begin) / full * full;
  }
  for (i += pf_thread(); i < s.end; i += pf_threads()) {
    pf_compute<T> x = pf_get_one<T>(s.tensor.data[0], i);
    fn(x);
    if constexpr (WRITE) pf_put_one<T>(s.tensor.data[0], i, x);
  }
}
// body.run<T>(), T by the number of its dtype.
template <class F>
PF_DEVICE void pf_by_dtype(pf_i32 dtype, F body) {
#ifdef PF_ONLY
  (void)dtype;
  body.template run<PF_ONLY>();
#else
  if (dtype == 0)
    body.template run<float>();
  else if (dtype == 1)
    body.template run<double>();
  else if (dtype == 2)
    body.template run<pf_f16>();
  else
    body.template run<pf_bf16>();
#endif
}

#endif
