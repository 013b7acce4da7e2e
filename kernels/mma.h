// NVIDIA's matrix instructions on 16-bit floats with float sums, and how their operands come from
// shared memory. With -DPF_STANDIN_MMA the host acts them out.
//
//   a: 16 x 16, words 0..3: rows lane / 4 (+ 8 in words 1, 3), columns lane % 4 * 2, + 1 (+ 8 in
//   words 2, 3); b: 16 x 8, words 0, 1: rows as a's columns, column lane / 4; c: 16 x 8, rows and
//   columns as a's, two values for each word.
#ifndef PF_MMA_H
#define PF_MMA_H
#include "prelude.h"

#if defined(PF_NVIDIA)
#define PF_MMA 1
typedef pf_u32 pf_shared_at;  // an address in shared memory, in bytes
PF_DEVICE pf_u32 pf_shared_address(const void* p) {
  return static_cast<pf_u32>(__cvta_generic_to_shared(p));
}
// Four matrices of 8 x 8; lane l gives the address of row l % 8 of matrix l / 8.
template <int TRANSPOSE>
PF_DEVICE void pf_load_matrices(pf_u32 address, pf_u32* r) {
  if constexpr (TRANSPOSE)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}
PF_DEVICE void pf_mma(pf_bf16, float* c, const pf_u32* a, const pf_u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
PF_DEVICE void pf_mma(pf_f16, float* c, const pf_u32* a, const pf_u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// 16 bytes from global to shared memory while the thread goes on; what is past `bytes` becomes 0.
PF_DEVICE void pf_copy_async(pf_u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
PF_DEVICE void pf_copies_end() {
  asm volatile("cp.async.commit_group;");
}
// Until all of this thread's copies but those before the last AHEAD ends have arrived.
template <int AHEAD>
PF_DEVICE void pf_copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD));
}

#elif defined(PF_HOST) && defined(PF_STANDIN_MMA)
#define PF_MMA 1
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
static float pf_mma_room[32][32][12];  // of each lane: what it has of a, then of b
template <class T>
PF_DEVICE void pf_mma(T, float* c, const pf_u32* a, const pf_u32* b) {
  const pf_u32 lane = pf_lane(), row = lane / 4, col = lane % 4 * 2;
  auto& room = pf_mma_room[pf_thread() / PF_WARP];
  for (pf_u32 i = 0; i < 12; ++i)
    room[lane][i] =
        pf_dtype<T>::decode((i < 8 ? a[i / 2] : b[i / 2 - 4]) >> (16 * (i % 2)) & 0xffffu);
  pf_shuffle_word(0, 0);  // all have written
  for (pf_u32 v = 0; v < 4; ++v) {
    for (pf_u32 k = 0; k < 16; ++k) {
      const pf_u32 quad = k % 8 / 2, high = k / 8, odd = k % 2;
      c[v] += room[row * 4 + quad][(high * 2 + v / 2) * 2 + odd] *
              room[(col + v % 2) * 4 + quad][8 + high * 2 + odd];
    }
  }
  pf_shuffle_word(0, 0);  // all have read
}
PF_DEVICE void pf_copy_async(pf_shared_at to, const void* from, int bytes) {
  for (int i = 0; i < 16; ++i) to[i] = i < bytes ? static_cast<const char*>(from)[i] : 0;
}
PF_DEVICE void pf_copies_end() {}
template <int AHEAD>
PF_DEVICE void pf_copies_wait() {}
#endif

#endif
