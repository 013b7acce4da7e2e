// NVIDIA's matrix instructions on 16-bit floats and tf32 with float sums and on int8 with int32
// sums, and how their operands come from shared memory. With -DPF_STANDIN_MMA the host acts them
// out.
//
//   a: 16 x 32 bytes, words 0..3: rows lane / 4 (+ 8 in words 1, 3), columns those of word lane % 4
//   (+ 4 in words 2, 3); b: 32 bytes x 8, words 0, 1: rows as a's columns, column lane / 4; c: 16 x
//   8, rows as a's, columns lane % 4 * 2 and the next, two values for each of a's words 0, 1.
#ifndef PF_MMA_H
#define PF_MMA_H
#include "acted.h"
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
#define PF_MMA_STEP(SHAPE, TYPES, SUM)                                      \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." TYPES                  \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"     \
               : "+" SUM(c[0]), "+" SUM(c[1]), "+" SUM(c[2]), "+" SUM(c[3]) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
PF_DEVICE void pf_mma(pf_bf16, float* c, const pf_u32* a, const pf_u32* b) {
  PF_MMA_STEP("m16n8k16", "f32.bf16.bf16.f32", "f");
}
PF_DEVICE void pf_mma(pf_f16, float* c, const pf_u32* a, const pf_u32* b) {
  PF_MMA_STEP("m16n8k16", "f32.f16.f16.f32", "f");
}
PF_DEVICE void pf_mma(float, float* c, const pf_u32* a, const pf_u32* b) {
  PF_MMA_STEP("m16n8k8", "f32.tf32.tf32.f32", "f");
}
PF_DEVICE void pf_mma(pf_i8, pf_i32* c, const pf_u32* a, const pf_u32* b) {
  PF_MMA_STEP("m16n8k32", "s32.s8.s8.s32", "r");
}
PF_DEVICE pf_u32 pf_load_shared(pf_shared_at address) {
  pf_u32 w;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(address));
  return w;
}
PF_DEVICE void pf_load_shared2(pf_shared_at address, float* x) {
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];"
               : "=f"(x[0]), "=f"(x[1])
               : "r"(address)
               : "memory");
}
PF_DEVICE void pf_load_shared4(pf_shared_at address, pf_u32* w) {
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "r"(address)
               : "memory");
}
PF_DEVICE void pf_store_shared4(pf_shared_at address, const pf_u32* w) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}
// 16 bytes from global to shared memory while the thread goes on; what is past `bytes` becomes 0.
PF_DEVICE void pf_copy_async(pf_u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
// 4, 8 or 16 bytes.
template <int BYTES>
PF_DEVICE void pf_copy_async(pf_u32 to, const void* from) {
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES));
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
#include "mma_host.h"
#endif

#endif
