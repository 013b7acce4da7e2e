// Kernels that make values from their position.
//   -DPF_T=type
#include "math.h"
#include "space.h"

typedef PF_T T;

// Integers: start and step as whole numbers, wrapping; floats in double.
PF_KERNEL(pf_arange, 256)
(void* out, pf_i64 n, double start, double step, pf_i64 istart, pf_i64 istep, int whole) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    if (whole)
      pf_put<T>(out, static_cast<pf_i64>(i),
                static_cast<pf_i64>(static_cast<pf_u64>(istart) + i * static_cast<pf_u64>(istep)));
    else
      pf_put<T>(out, static_cast<pf_i64>(i), start + static_cast<double>(i) * step);
  }
}

// From both ends to the middle, so that the last one is exactly `end`.
PF_KERNEL(pf_linspace, 256)
(void* out, pf_i64 n, double start, double end, double step, double base) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    const pf_i64 k = static_cast<pf_i64>(i);
    const double v = k < (n + 1) / 2 ? start + step * static_cast<double>(k)
                                     : end - step * static_cast<double>(n - 1 - k);
    pf_put<T>(out, k, base != 0 ? pf_pow(base, v) : v);
  }
}

PF_KERNEL(pf_eye, 256)(void* out, pf_i64 n, pf_i64 columns) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    const pf_i64 k = static_cast<pf_i64>(i);
    pf_put<T>(out, k, k / columns == k % columns);
  }
}
