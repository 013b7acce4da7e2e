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

// Rows and columns of a triangle, row by row, as on the CPU (src/cpu/creation.cpp). Slanted rows
// are counted from the shortest: k of them have k * shortest + k * (k - 1) / 2 elements.
PF_KERNEL(pf_triangle_indices, 256)
(void* out, pf_i64 n, int upper, pf_i64 columns, pf_i64 low, pf_i64 slope, pf_i64 shortest) {
  const auto before = [&](pf_i64 k) PF_INLINE { return k * shortest + k * (k - 1) / 2; };
  const pf_i64 all = before(slope);
  const double b = static_cast<double>(shortest) - 0.5;
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    const pf_i64 e = static_cast<pf_i64>(i);
    const pf_i64 rest = upper ? n - 1 - e : e;  // from the shortest row's end
    pf_i64 row, column;
    if (rest < all) {
      // The root of the formula is off by what rounding makes of it; whole numbers decide.
      const double twice = 2.0 * static_cast<double>(rest);
      pf_i64 k = static_cast<pf_i64>(twice / (pf_sqrt(b * b + twice) + b));
      k = k < slope ? k : slope - 1;
      while (before(k) > rest) --k;
      while (k + 1 < slope && before(k + 1) <= rest) ++k;
      row = upper ? low + slope - 1 - k : low + k;
      column = upper ? columns - 1 - (rest - before(k)) : rest - before(k);
    } else {
      const pf_index at = static_cast<pf_index>(upper ? e : e - all);
      const pf_index whole = at / static_cast<pf_index>(columns);
      row = (upper ? 0 : low + slope) + static_cast<pf_i64>(whole);
      column = static_cast<pf_i64>(at - whole * static_cast<pf_index>(columns));
    }
    pf_put<T>(out, e, row);
    pf_put<T>(out, n + e, column);
  }
}
