// Hopper's asynchronous machinery: copies of boxes of a tensor into shared memory (TMA), the
// barriers in memory that count their bytes, groups of warps with registers and barriers of their
// own, clusters of blocks, and the fences between all of these. For sm_90a; the host acts it out
// (tma_host.h), with clusters of one block.
//
// A barrier in memory (pf_mbarrier) is 8 bytes of shared memory. It is done with phase 0, 1, 2, ...
// whenever so many arrivals as it was made for, and all bytes that were expected, have come. Who
// waits names the parity of the phase: of a new barrier, phase 1 is over and phase 0 is not.
//
// -DPF_CLUSTER=N: N neighbouring blocks of a kernel run at once, and read each other's memory; the
// grid is a multiple of N.
#ifndef PF_TMA_NVIDIA_H
#define PF_TMA_NVIDIA_H
#include "mma.h"
#include "tensor_map_args.h"

#if defined(PF_NVIDIA)
#define PF_GRID_CONSTANT const __grid_constant__

// ---- clusters -----------------------------------------------------------------------------------
#ifdef PF_CLUSTER
#define PF_CLUSTER_BLOCKS PF_CLUSTER
#else
#define PF_CLUSTER_BLOCKS 1
#endif
// This block's place in its cluster.
PF_DEVICE pf_u32 pf_cluster_rank() {
  if constexpr (PF_CLUSTER_BLOCKS == 1) return 0;
  pf_u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
// Of all threads of all blocks of the cluster.
PF_DEVICE void pf_cluster_barrier() {
  if constexpr (PF_CLUSTER_BLOCKS == 1)
    pf_barrier();
  else
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// ---- barriers in memory -------------------------------------------------------------------------
PF_DEVICE void pf_mbarrier_init(pf_shared_at at, pf_u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
// By who has made them, before a barrier of the block (or the cluster) lets others use them.
PF_DEVICE void pf_mbarriers_made() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
}
PF_DEVICE void pf_mbarrier_arrive(pf_shared_at at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
// At the barrier that lies there in another block of the cluster. (What was read is read: no
// release that all of the cluster sees, for which a warp waits.)
PF_DEVICE void pf_mbarrier_arrive_in(pf_shared_at at, pf_u32 block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at),
      "r"(block)
      : "memory");
}
// Arrives, and so many bytes are still to come in this phase.
PF_DEVICE void pf_mbarrier_expect(pf_shared_at at, pf_u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
}
// Until the phase of this parity is over.
PF_DEVICE void pf_mbarrier_wait(pf_shared_at at, pf_u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\nbra again;\ndone:\n}" ::"r"(at),
      "r"(parity)
      : "memory");
}

// ---- copies -------------------------------------------------------------------------------------
// The box at these elements (innermost first, and there at a multiple of 16 bytes; what is outside
// of the tensor becomes 0) to `to`, by one thread; its bytes count at the barrier. `to`: a multiple
// of 128 bytes, of 1024 where lines are permuted.
#define PF_TENSOR_COPY(RANK, PLACES, ...)                                                      \
  asm volatile("cp.async.bulk.tensor." RANK                                                    \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" PLACES \
               "}], [%2];" ::"r"(to),                                                          \
               "l"(&map), "r"(barrier), __VA_ARGS__                                            \
               : "memory")
PF_DEVICE void pf_tensor_copy(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              pf_i32 x, pf_i32 y) {
  PF_TENSOR_COPY("2d", "%3, %4", "r"(x), "r"(y));
}
PF_DEVICE void pf_tensor_copy(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              pf_i32 x, pf_i32 y, pf_i32 z) {
  PF_TENSOR_COPY("3d", "%3, %4, %5", "r"(x), "r"(y), "r"(z));
}
PF_DEVICE void pf_tensor_copy(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              pf_i32 x, pf_i32 y, pf_i32 z, pf_i32 u) {
  PF_TENSOR_COPY("4d", "%3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(u));
}
PF_DEVICE void pf_tensor_copy(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              pf_i32 x, pf_i32 y, pf_i32 z, pf_i32 u, pf_i32 v) {
  PF_TENSOR_COPY("5d", "%3, %4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}
#undef PF_TENSOR_COPY
// Lines of channels of pixels, one after the other as a convolution's windows begin: by a map of
// windows, from channel `c` and the window that begins at (x, y) of a picture on; of each window
// the pixel that far from its beginning.
PF_DEVICE void pf_window_copy(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              pf_i32 c, pf_i32 x, pf_i32 y, pf_i32 picture, pf_u16 right,
                              pf_u16 down) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c), "r"(x), "r"(y), "r"(picture), "h"(right), "h"(down)
      : "memory");
}
// As pf_tensor_copy, to the same place of several blocks of the cluster, a bit each, and at their
// barriers.
#define PF_TENSOR_COPY(RANK, PLACES, ...)                                           \
  asm volatile("cp.async.bulk.tensor." RANK                                         \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"          \
               ".multicast::cluster [%0], [%1, {" PLACES "}], [%2], %3;" ::"r"(to), \
               "l"(&map), "r"(barrier), "h"(blocks), __VA_ARGS__                    \
               : "memory")
PF_DEVICE void pf_tensor_copy_to(pf_u16 blocks, pf_shared_at to, const pf_tensor_map& map,
                                 pf_shared_at barrier, pf_i32 x, pf_i32 y) {
  PF_TENSOR_COPY("2d", "%4, %5", "r"(x), "r"(y));
}
PF_DEVICE void pf_tensor_copy_to(pf_u16 blocks, pf_shared_at to, const pf_tensor_map& map,
                                 pf_shared_at barrier, pf_i32 x, pf_i32 y, pf_i32 z) {
  PF_TENSOR_COPY("3d", "%4, %5, %6", "r"(x), "r"(y), "r"(z));
}
PF_DEVICE void pf_tensor_copy_to(pf_u16 blocks, pf_shared_at to, const pf_tensor_map& map,
                                 pf_shared_at barrier, pf_i32 x, pf_i32 y, pf_i32 z, pf_i32 u) {
  PF_TENSOR_COPY("4d", "%4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(u));
}
PF_DEVICE void pf_tensor_copy_to(pf_u16 blocks, pf_shared_at to, const pf_tensor_map& map,
                                 pf_shared_at barrier, pf_i32 x, pf_i32 y, pf_i32 z, pf_i32 u,
                                 pf_i32 v) {
  PF_TENSOR_COPY("5d", "%4, %5, %6, %7, %8", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}
#undef PF_TENSOR_COPY
// Bytes that lie side by side, a multiple of 16 at one, likewise; of what is not read again soon,
// and goes first where caches are full.
PF_DEVICE void pf_bulk_copy_past(pf_shared_at to, const void* from, pf_u32 bytes,
                                 pf_shared_at barrier) {
  asm volatile(
      "{\n.reg .b64 past;\ncreatepolicy.fractional.L2::evict_first.b64 past, 1.0;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], past;\n}" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// A box from shared memory to the tensor, what is outside of it left out, by one thread, after
// pf_async_fence() of who wrote it.
PF_DEVICE void pf_tensor_store(const pf_tensor_map& map, pf_shared_at from, pf_i32 x, pf_i32 y,
                               pf_i32 z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          &map),
      "r"(from), "r"(x), "r"(y), "r"(z)
      : "memory");
}
PF_DEVICE void pf_tensor_store(const pf_tensor_map& map, pf_shared_at from, pf_i32 x, pf_i32 y,
                               pf_i32 z, pf_i32 u, pf_i32 v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], "
      "[%1];" ::"l"(&map),
      "r"(from), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v)
      : "memory");
}
PF_DEVICE void pf_stores_end() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until shared memory has been read by all of this thread's stores but those before the last AHEAD
// ends.
template <int AHEAD>
PF_DEVICE void pf_stores_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(AHEAD) : "memory");
}
// The map itself will be needed soon.
PF_DEVICE void pf_tensor_map_fetch(const pf_tensor_map& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// What this thread has written to shared memory is seen by copies and matrix units that start
// later.
PF_DEVICE void pf_async_fence() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

// ---- groups of warps ----------------------------------------------------------------------------
// Registers of each thread, for the 128 threads of a group alike: a multiple of 8 from 24 to 240.
// As many as the kernel was compiled for have to suffice for all groups together.
template <int COUNT>
PF_DEVICE void pf_registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
PF_DEVICE void pf_registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
// A barrier of `threads` (whole warps), `id` from 1 to 15; the second does not wait for the others.
PF_DEVICE void pf_group_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
PF_DEVICE void pf_group_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- matrix units -------------------------------------------------------------------------------
// Around products that start: registers that they read or add to are as they should be; until all
// but the last AHEAD that were ended are through.
PF_DEVICE void pf_products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
PF_DEVICE void pf_products_end() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int AHEAD>
PF_DEVICE void pf_products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(AHEAD) : "memory");
}

#elif defined(PF_HOST)
#include "tma_host.h"
#endif

#endif
