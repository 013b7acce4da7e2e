// The norm of all elements of a list of tensors, and clipping by one.
//
//   -DPF_KIND=  1, 2, 0 (the largest absolute value) or 3 (any other power)
#include "multi.h"

struct pf_nan_highest {
  static PF_METHOD double join(double a, double b) { return pf_max(a, b); }
};
#if PF_KIND == 0
typedef pf_nan_highest Join;
#else
typedef pf_plus Join;
#endif

PF_COLD double pf_power_of(double x, double p) {
  return pf_pow(x, p);
}

struct pf_norm_of {
  const pf_stretch& s;
  double p;
  double& sum;
  template <class T>
  PF_METHOD void run() const {
    typedef pf_compute<T> C;
    C a = C(0);
    const double power = p;
    pf_each_of<T, false>(s, [&](C& x) PF_INLINE {
      if constexpr (PF_KIND == 0)
        a = pf_max(a, pf_abs(x));
      else if constexpr (PF_KIND == 1)
        a += pf_abs(x);
      else if constexpr (PF_KIND == 2)
        a += x * x;
      else
        sum += pf_power_of(static_cast<double>(pf_abs(x)), power);
    });
    if constexpr (PF_KIND != 3) sum = static_cast<double>(a);
  }
};
PF_KERNEL(multi_norm, PF_MULTI_THREADS)(const pf_list l, double* partial, double p) {
  PF_SHARED pf_i32 slot;
  PF_SHARED double room[PF_MAX_WARPS];
  const pf_stretch s(l, &slot);
  double sum = 0.0;
  pf_by_dtype(s.tensor.dtype, pf_norm_of{s, p, sum});
  sum = pf_group_join<Join>(sum, pf_threads(), room);
  if (pf_thread() == 0) partial[pf_block()] = sum;
}
// One block.
PF_KERNEL(multi_norm_finish, PF_MULTI_THREADS)
(const double* partial, pf_i64 count, double p, void* out, pf_i32 wide) {
  PF_SHARED double room[PF_MAX_WARPS];
  double sum = 0.0;
  for (pf_i64 i = pf_thread(); i < count; i += pf_threads()) sum = Join::join(sum, partial[i]);
  sum = pf_group_join<Join>(sum, pf_threads(), room);
  if (pf_thread() != 0) return;
  if constexpr (PF_KIND == 2) sum = pf_sqrt(sum);
  if constexpr (PF_KIND == 3) sum = count > 0 ? pf_power_of(sum, 1.0 / p) : 0.0;
  if (wide)
    *static_cast<double*>(out) = sum;
  else
    *static_cast<float*>(out) = static_cast<float>(sum);
}

struct pf_scale_by_factor {
  const pf_stretch& s;
  double factor;
  template <class T>
  PF_METHOD void run() const {
    const pf_compute<T> k = static_cast<pf_compute<T>>(factor);
    pf_each_of<T, true>(s, [k](pf_compute<T>& x) PF_INLINE { x = x * k; });
  }
};
// x *= min(1, most / (norm + 1e-6)); a NaN goes through.
PF_KERNEL(multi_clip_norm, PF_MULTI_THREADS)
(const pf_list l, const void* norm, pf_i32 wide, double most) {
  PF_SHARED pf_i32 slot;
  const double n = wide ? *static_cast<const double*>(norm)
                        : static_cast<double>(*static_cast<const float*>(norm));
  const double c = most / (n + 1e-6), factor = c > 1.0 ? 1.0 : c;
  if (factor == 1.0) return;
  const pf_stretch s(l, &slot);
  pf_by_dtype(s.tensor.dtype, pf_scale_by_factor{s, factor});
}
