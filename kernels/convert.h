// Copies that convert from or to dtypes without arithmetic, and tensors of these filled with a
// number.
//   -DPF_TO=type -DPF_FROM=type   as kernels/stored.h and types.h name them; no PF_FROM: to fill
#include "space.h"
#include "stored.h"

// out[at] = value(i) of every element i, whose places `where` finds. Two elements of int4 share a
// byte, which one thread writes; the tensor is contiguous then.
template <class Value, class Where>
PF_DEVICE void pf_each_stored(pf_i64 numel, void* out, const Value& value, const Where& where) {
  if constexpr (pf_same<PF_TO, pf_i4>::value) {
    for (pf_u64 b = pf_first_item(); 2 * b < static_cast<pf_u64>(numel); b += pf_item_step()) {
      pf_u8& both = static_cast<pf_u8*>(out)[b];
      const pf_u32 low = static_cast<pf_u32>(pf_stored_of<pf_i64>(value(2 * b))) & 15u;
      const pf_u32 high = 2 * b + 1 < static_cast<pf_u64>(numel)
                              ? static_cast<pf_u32>(pf_stored_of<pf_i64>(value(2 * b + 1))) & 15u
                              : static_cast<pf_u32>(both) >> 4;
      both = static_cast<pf_u8>(high << 4 | low);
    }
  } else {
    for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(numel); i += pf_item_step())
      static_cast<PF_TO*>(out)[where(i)] = pf_stored_of<PF_TO>(value(i));
  }
}

#ifdef PF_FROM
PF_KERNEL(pf_convert, 256)(pf_space s, void* out, const void* in) {
  const auto places = [&](pf_u64 i, pf_i64(&at)[2])
                          PF_INLINE { pf_offsets<2>(s, static_cast<pf_index>(i), at); };
  pf_each_stored(
      s.numel, out,
      [&](pf_u64 i) PF_INLINE {
        pf_i64 at[2];
        places(i, at);
        return pf_get_stored<PF_FROM>(in, at[1]);
      },
      [&](pf_u64 i) PF_INLINE {
        pf_i64 at[2];
        places(i, at);
        return at[0];
      });
}
#else
PF_KERNEL(pf_fill, 256)(pf_space s, void* out, double real, pf_i64 whole, int exact) {
  const auto where = [&](pf_u64 i) PF_INLINE {
    pf_i64 at[1];
    pf_offsets<1>(s, static_cast<pf_index>(i), at);
    return at[0];
  };
  if (exact)
    pf_each_stored(
        s.numel, out, [&](pf_u64) PF_INLINE { return whole; }, where);
  else
    pf_each_stored(
        s.numel, out, [&](pf_u64) PF_INLINE { return real; }, where);
}
#endif
