// pf_load_words and pf_store_words of types.h for NVIDIA.
#ifndef PF_WORDS_NVIDIA_H
#define PF_WORDS_NVIDIA_H

template <int BYTES, bool PAST>
PF_DEVICE void pf_load_words(const void* p, pf_u32* w) {
  if constexpr (BYTES == 16) {
    const uint4* q = static_cast<const uint4*>(p);
    const uint4 v = PAST ? __ldcs(q) : *q;
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
  } else if constexpr (BYTES == 8) {
    const uint2* q = static_cast<const uint2*>(p);
    const uint2 v = PAST ? __ldcs(q) : *q;
    w[0] = v.x, w[1] = v.y;
  } else if constexpr (BYTES == 4) {
    const pf_u32* q = static_cast<const pf_u32*>(p);
    w[0] = PAST ? __ldcs(q) : *q;
  } else if constexpr (BYTES == 2) {
    w[0] = *static_cast<const pf_u16*>(p);
  } else {
    w[0] = *static_cast<const pf_u8*>(p);
  }
}
template <int BYTES, bool PAST>
PF_DEVICE void pf_store_words(void* p, const pf_u32* w) {
  if constexpr (BYTES == 16) {
    uint4* q = static_cast<uint4*>(p);
    const uint4 v = {w[0], w[1], w[2], w[3]};
    if constexpr (PAST)
      __stcs(q, v);
    else
      *q = v;
  } else if constexpr (BYTES == 8) {
    uint2* q = static_cast<uint2*>(p);
    const uint2 v = {w[0], w[1]};
    if constexpr (PAST)
      __stcs(q, v);
    else
      *q = v;
  } else if constexpr (BYTES == 4) {
    pf_u32* q = static_cast<pf_u32*>(p);
    if constexpr (PAST)
      __stcs(q, w[0]);
    else
      *q = w[0];
  } else if constexpr (BYTES == 2) {
    *static_cast<pf_u16*>(p) = static_cast<pf_u16>(w[0]);
  } else {
    *static_cast<pf_u8*>(p) = static_cast<pf_u8>(w[0]);
  }
}

#endif
