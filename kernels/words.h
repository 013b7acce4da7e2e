// pf_load_words and pf_store_words of types.h for AMD and the host.
#ifndef PF_WORDS_H
#define PF_WORDS_H

// The same memory is seen through several of these types.
typedef pf_u32 __attribute__((vector_size(16), may_alias)) pf_words4;
typedef pf_u32 __attribute__((vector_size(8), may_alias)) pf_words2;
typedef pf_u32 __attribute__((may_alias)) pf_words1;
typedef pf_u16 __attribute__((may_alias)) pf_half_word;
template <int BYTES, bool PAST>
PF_DEVICE void pf_load_words(const void* p, pf_u32* w) {
#if defined(PF_AMD)
#define PF_FETCH(T) \
  (PAST ? __builtin_nontemporal_load(static_cast<const T*>(p)) : *static_cast<const T*>(p))
#else
#define PF_FETCH(T) (*static_cast<const T*>(p))
#endif
  if constexpr (BYTES == 16) {
    const pf_words4 v = PF_FETCH(pf_words4);
    w[0] = v[0], w[1] = v[1], w[2] = v[2], w[3] = v[3];
  } else if constexpr (BYTES == 8) {
    const pf_words2 v = PF_FETCH(pf_words2);
    w[0] = v[0], w[1] = v[1];
  } else if constexpr (BYTES == 4) {
    w[0] = PF_FETCH(pf_words1);
  } else if constexpr (BYTES == 2) {
    w[0] = *static_cast<const pf_half_word*>(p);
  } else {
    w[0] = *static_cast<const pf_u8*>(p);
  }
#undef PF_FETCH
}
template <int BYTES, bool PAST>
PF_DEVICE void pf_store_words(void* p, const pf_u32* w) {
#if defined(PF_AMD)
#define PF_PUT(T, V)                                      \
  do {                                                    \
    if constexpr (PAST)                                   \
      __builtin_nontemporal_store(V, static_cast<T*>(p)); \
    else                                                  \
      *static_cast<T*>(p) = V;                            \
  } while (0)
#else
#define PF_PUT(T, V) (*static_cast<T*>(p) = (V))
#endif
  if constexpr (BYTES == 16) {
    const pf_words4 v = {w[0], w[1], w[2], w[3]};
    PF_PUT(pf_words4, v);
  } else if constexpr (BYTES == 8) {
    const pf_words2 v = {w[0], w[1]};
    PF_PUT(pf_words2, v);
  } else if constexpr (BYTES == 4) {
    PF_PUT(pf_words1, w[0]);
  } else if constexpr (BYTES == 2) {
    *static_cast<pf_half_word*>(p) = static_cast<pf_u16>(w[0]);
  } else {
    *static_cast<pf_u8*>(p) = static_cast<pf_u8>(w[0]);
  }
#undef PF_PUT
}

#endif
