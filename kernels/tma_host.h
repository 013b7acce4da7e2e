// tma_nvidia.h acted out by the host: a copy is done when it is started, who waits lets the block's
// other threads run (pf_pause of the platform, which finds out when none of them can go on).
#ifndef PF_TMA_HOST_H
#define PF_TMA_HOST_H
#define PF_GRID_CONSTANT const
#define PF_CLUSTER_BLOCKS 1

PF_DEVICE pf_u32 pf_cluster_rank() {
  return 0;
}
PF_DEVICE void pf_cluster_barrier() {
  pf_barrier();
}

struct pf_acted_mbarrier {
  enum { MADE = 0x5a };
  pf_u32 made : 8, phase : 1, arrivals : 11, missing : 11;  // of each phase, of this one
  pf_i32 bytes;                                             // that this phase still expects
};
static_assert(sizeof(pf_acted_mbarrier) == 8, "as on the device");
PF_DEVICE void pf_acted_came(pf_shared_at at, pf_u32 arrivals, pf_i32 bytes) {
  auto* b = reinterpret_cast<pf_acted_mbarrier*>(at);
  // Used before it was made, or overwritten; more arrivals than it was made for.
  if (b->made != pf_acted_mbarrier::MADE || b->missing < arrivals) __builtin_trap();
  b->missing -= arrivals;
  b->bytes += bytes;
  if (b->missing == 0 && b->bytes == 0) {
    b->missing = b->arrivals;
    b->phase ^= 1;
  }
  pf_progress();
}

PF_DEVICE void pf_mbarrier_init(pf_shared_at at, pf_u32 arrivals) {
  *reinterpret_cast<pf_acted_mbarrier*>(at) = {pf_acted_mbarrier::MADE, 0, arrivals, arrivals, 0};
}
PF_DEVICE void pf_mbarriers_made() {}
PF_DEVICE void pf_mbarrier_arrive(pf_shared_at at) {
  pf_acted_came(at, 1, 0);
}
PF_DEVICE void pf_mbarrier_arrive_in(pf_shared_at at, pf_u32) {
  pf_acted_came(at, 1, 0);
}
PF_DEVICE void pf_mbarrier_expect(pf_shared_at at, pf_u32 bytes) {
  pf_acted_came(at, 1, static_cast<pf_i32>(bytes));
}
PF_DEVICE void pf_mbarrier_wait(pf_shared_at at, pf_u32 parity) {
  pf_acted_came(at, 0, 0);
  while (reinterpret_cast<pf_acted_mbarrier*>(at)->phase == parity) pf_pause();
}

template <class... Places>
PF_DEVICE void pf_tensor_copy(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              Places... places) {
  const pf_i32 at[] = {places...};
  const auto bytes = pf_copy_box(to, &map, at, static_cast<int>(sizeof...(places)));
  if (bytes == 0) __builtin_trap();  // no map, or of another rank
  pf_acted_came(barrier, 0, -static_cast<pf_i32>(bytes));
}
template <class... Places>
PF_DEVICE void pf_tensor_copy_to(pf_u16, pf_shared_at to, const pf_tensor_map& map,
                                 pf_shared_at barrier, Places... places) {
  pf_tensor_copy(to, map, barrier, places...);
}
PF_DEVICE void pf_window_copy(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              pf_i32 c, pf_i32 x, pf_i32 y, pf_i32 picture, pf_u16 right,
                              pf_u16 down) {
  const pf_i32 at[] = {c, x, y, picture}, far[] = {right, down};
  const auto bytes = pf_copy_windows(to, &map, at, far);
  if (bytes == 0) __builtin_trap();  // no map of windows
  pf_acted_came(barrier, 0, -static_cast<pf_i32>(bytes));
}
PF_DEVICE void pf_bulk_copy_past(pf_shared_at to, const void* from, pf_u32 bytes,
                                 pf_shared_at barrier) {
  __builtin_memcpy(to, from, bytes);
  pf_acted_came(barrier, 0, -static_cast<pf_i32>(bytes));
}
// Stores read memory as late as they may: when they are waited for.
struct pf_acted_store {
  const pf_tensor_map* map;
  pf_shared_at from;
  pf_i32 at[5];
  int rank;
  bool ended;
};
struct pf_acted_stores {
  enum { MOST = 8 };
  pf_acted_store all[MOST];
  int count;
};
PF_DEVICE pf_acted_stores& pf_acted_stores_of_thread() {
  static pf_acted_stores all[1024];
  return all[pf_thread()];
}
template <class... Places>
PF_DEVICE void pf_tensor_store(const pf_tensor_map& map, pf_shared_at from, Places... places) {
  pf_acted_stores& s = pf_acted_stores_of_thread();
  if (s.count == pf_acted_stores::MOST) __builtin_trap();  // who does not wait for any?
  s.all[s.count++] = {&map, from, {places...}, static_cast<int>(sizeof...(places)), false};
}
PF_DEVICE void pf_stores_end() {  // here, of one store each
  pf_acted_stores& s = pf_acted_stores_of_thread();
  if (s.count == 0 || (s.count > 1 && !s.all[s.count - 2].ended)) __builtin_trap();
  s.all[s.count - 1].ended = true;
}
template <int AHEAD>
PF_DEVICE void pf_stores_wait() {
  pf_acted_stores& s = pf_acted_stores_of_thread();
  const int over = s.count > AHEAD ? s.count - AHEAD : 0;
  for (int i = 0; i < over; ++i)
    if (pf_store_box(s.all[i].from, s.all[i].map, s.all[i].at, s.all[i].rank) == 0)
      __builtin_trap();
  for (int i = over; i < s.count; ++i) s.all[i - over] = s.all[i];
  s.count -= over;
}
PF_DEVICE void pf_tensor_map_fetch(const pf_tensor_map&) {}
PF_DEVICE void pf_async_fence() {}

template <int COUNT>
PF_DEVICE void pf_registers_give() {}
template <int COUNT>
PF_DEVICE void pf_registers_take() {}

// Memory of a block begins as ones: `came` is one less than the arrivals.
struct pf_acted_barrier {
  pf_u32 came, round;
};
PF_SHARED pf_acted_barrier pf_acted_barriers[16];
PF_DEVICE void pf_group_arrive(int id, int threads) {
  pf_acted_barrier& b = pf_acted_barriers[id];
  if (++b.came == static_cast<pf_u32>(threads) - 1) {
    b.came = ~0u;
    ++b.round;
  }
  pf_progress();
}
PF_DEVICE void pf_group_barrier(int id, int threads) {
  const pf_u32 round = pf_acted_barriers[id].round;
  pf_group_arrive(id, threads);
  while (pf_acted_barriers[id].round == round) pf_pause();
}

PF_DEVICE void pf_products_begin() {}
PF_DEVICE void pf_products_end() {}
// The lanes of a warp come here together: one of them may then say that the warp is through.
template <int AHEAD>
PF_DEVICE void pf_products_wait() {
  pf_warp_barrier();
}

#endif
