// Clamping of a list of tensors in place, and the search for numbers that are not finite.
#include "multi.h"

struct pf_clamp_to {
  const pf_stretch& s;
  double bound;
  template <class T>
  PF_METHOD void run() const {
    typedef pf_compute<T> C;
    const C high = static_cast<C>(bound), low = static_cast<C>(-bound);
    pf_each_of<T, true>(s, [high, low](C& x) PF_INLINE {
      x = x > high ? high : x;
      x = low > x ? low : x;
    });
  }
};
PF_KERNEL(multi_clip_value, PF_MULTI_THREADS)(const pf_list l, double bound) {
  PF_SHARED pf_i32 slot;
  const pf_stretch s(l, &slot);
  pf_by_dtype(s.tensor.dtype, pf_clamp_to{s, bound});
}

struct pf_look_for_bad {
  const pf_stretch& s;
  bool& bad;
  template <class T>
  PF_METHOD void run() const {
    typedef pf_compute<T> C;
    bool found = false;
    pf_each_of<T, false>(s, [&](C& x) PF_INLINE { found = found || x - x != C(0); });
    bad = found;
  }
};
// `found` is 0 before; whoever finds something writes the same.
PF_KERNEL(multi_nonfinite, PF_MULTI_THREADS)(const pf_list l, void* found) {
  PF_SHARED pf_i32 slot;
  const pf_stretch s(l, &slot);
  bool bad = false;
  pf_by_dtype(s.tensor.dtype, pf_look_for_bad{s, bad});
  if (bad) *static_cast<pf_u8*>(found) = 1;
}
