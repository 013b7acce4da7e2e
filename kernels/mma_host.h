// mma.h acted out by the host.
#ifndef PF_MMA_HOST_H
#define PF_MMA_HOST_H

typedef char* pf_shared_at;
PF_DEVICE pf_shared_at pf_shared_address(const void* p) {
  return static_cast<char*>(const_cast<void*>(p));
}
template <int TRANSPOSE>
PF_DEVICE void pf_load_matrices(pf_shared_at address, pf_u32* r) {
  const pf_u32 row = pf_lane() / 4, col = pf_lane() % 4 * 2;
  for (pf_u32 m = 0; m < 4; ++m) {
    r[m] = 0;
    for (pf_u32 h = 0; h < 2; ++h) {
      const pf_u64 line = pf_shuffle(pf_bits<pf_u64>(address), m * 8 + (TRANSPOSE ? col + h : row));
      pf_u32 w;
      pf_load_words<2, false>(reinterpret_cast<const char*>(line) + 2 * (TRANSPOSE ? row : col + h),
                              &w);
      r[m] |= w << (16 * h);
    }
  }
}
template <class T>
PF_DEVICE void pf_mma(T, pf_compute<T>* c, const pf_u32* a, const pf_u32* b) {
  constexpr int per = 4 / sizeof(T);          // elements of a word
  static pf_compute<T> all[32][32][6 * per];  // of each lane: what it has of a, then of b
  const int lane = static_cast<int>(pf_lane()), row = lane / 4, col = lane % 4 * 2;
  auto& room = all[pf_thread() / PF_WARP];
  for (int i = 0; i < 6 * per; ++i)
    room[lane][i] = i < 4 * per ? pf_acted_value<T>(a, i) : pf_acted_value<T>(b, i - 4 * per);
  pf_shuffle_word(0, 0);  // all have written
  for (int v = 0; v < 4; ++v) {
    for (int k = 0; k < 8 * per; ++k) {
      const int quad = k / per % 4, high = k / per / 4, at = k % per;
      pf_acted_add(c[v], room[row * 4 + quad][(high * 2 + v / 2) * per + at],
                   room[(col + v % 2) * 4 + quad][(4 + high) * per + at]);
    }
  }
  pf_shuffle_word(0, 0);  // all have read
}
PF_DEVICE pf_u32 pf_load_shared(pf_shared_at address) {
  pf_u32 w;
  pf_load_words<4, false>(address, &w);
  return w;
}
PF_DEVICE void pf_load_shared2(pf_shared_at address, float* x) {
  __builtin_memcpy(x, address, 8);
}
PF_DEVICE void pf_load_shared4(pf_shared_at address, pf_u32* w) {
  pf_load_words<16, false>(address, w);
}
PF_DEVICE void pf_store_shared4(pf_shared_at address, const pf_u32* w) {
  pf_store_words<16, false>(address, w);
}
PF_DEVICE void pf_copy_async(pf_shared_at to, const void* from, int bytes) {
  for (int i = 0; i < 16; ++i) to[i] = i < bytes ? static_cast<const char*>(from)[i] : 0;
}
template <int BYTES>
PF_DEVICE void pf_copy_async(pf_shared_at to, const void* from) {
  __builtin_memcpy(to, from, BYTES);
}
PF_DEVICE void pf_copies_end() {}
template <int AHEAD>
PF_DEVICE void pf_copies_wait() {}

#endif
