// matmul_stream.h for 16-bit floats on Hopper: a thread has the copy unit bring the matrix to a
// ring in shared memory, which is full before the row is there; other warps multiply by matrix
// units.
//
//   -DPF_T=  -DWARPS=  that multiply    -DSLOTS= of the ring, not less    -DPARTS= of a column, of
//   which WARPS is a multiple    -DCHUNKS= of 16 bytes of a part that a lane has
//   -DAHEAD= slots that are on their way at once until the row is there: what runs meanwhile has
//   loads, too, and waits for those that were asked for before
//
// A block has neighbouring columns. A slot has a part of two of them; warps take them in turn, so
// that one has the same part of all of its columns.
// A step of matrix units gets of a part as many elements as a warp's lanes hold words, as rows of
// its left operand: row i those of lanes 4 i to 4 i + 3, of one column above and of the other
// below. The right operand has the row of the product in the same order as columns; so sums of the
// products are on the diagonals, and what is beside them means nothing.
//
// Within lanes 4 i to 4 i + 3 sums are in the units' order; these are added by halves, and parts in
// their order.
#include "tma_nvidia.h"
#define PF_ROWS_BARRIER() pf_group_barrier(2, PF_NORM)  // one group makes the norm
#include "matmul_stream_row.h"

PF_KERNEL(pf_matmul_stream_hopper, WARPS* PF_WARP + PF_WARP)
(const pf_matmul_stream_args given PF_NORM_ARGS PF_EPILOGUE_ARGS) {
  pf_next_may_start();
  static_assert(PF_WARP == 32 && WARPS % PARTS == 0 && SLOTS >= WARPS, "what is not looked at");
  // Full, by turns of the ring: a warp is at most one turn behind the last one, so it may tell by
  // parity; and read.
  PF_SHARED pf_u64 barriers[3 * SLOTS];
  PF_SHARED volatile pf_u32 running;  // the row is there
  const pf_matmul_args& q = given.of;
  const pf_i32 t = static_cast<pf_i32>(pf_thread()), lane = t % PF_WARP, warp = t / PF_WARP,
               chunks = static_cast<pf_i32>(q.k / CHUNK), per = (chunks + PARTS - 1) / PARTS;
  const pf_i64 first = q.n * pf_block() / pf_blocks();
  const pf_i32 columns = static_cast<pf_i32>(q.n * (pf_block() + 1) / pf_blocks() - first),
               units = (columns + 1) / 2 * PARTS, line = (per * 16 + 127) / 128 * 128;
  // The copy unit is quick at multiples of 128 bytes.
  char* room = pf_dynamic_shared();
  room += (128 - reinterpret_cast<pf_u64>(room) % 128) % 128;
  pf_acc* sums = reinterpret_cast<pf_acc*>(room + SLOTS * 2 * line);  // columns x PARTS
  const pf_shared_at ring = pf_shared_address(room), full = pf_shared_address(barriers),
                     read = full + 2 * SLOTS * 8;
  const auto full_at = [&](pf_i32 unit) PF_INLINE {
    return full + (unit / SLOTS % 2 * SLOTS + unit % SLOTS) * 8;
  };
  const auto parity = [](pf_i32 unit)
                          PF_INLINE { return static_cast<pf_u32>(unit / SLOTS / 2 % 2); };
  if (t == WARPS * PF_WARP) {
    for (int s = 0; s < 3 * SLOTS; ++s) pf_mbarrier_init(full + s * 8, 1);
    pf_mbarriers_made();
    running = 0;
  }
  pf_barrier();
  if (warp == WARPS) {
    if (!(given.steady & PF_STEADY_B)) pf_wait_for_earlier();
    for (pf_i32 u = 0; lane == 0 && u < units; ++u) {
      if (u >= SLOTS) pf_mbarrier_wait(read + u % SLOTS * 8, (u / SLOTS - 1) % 2);
      if (u >= UNDER_WAY && !running)
        pf_mbarrier_wait(full_at(u - UNDER_WAY), parity(u - UNDER_WAY));
      const pf_i32 column = u / PARTS * 2, part = u % PARTS, last = chunks - part * per;
      const pf_u32 each = (last < per ? last : per) * 16;
      const bool two = column + 1 < columns;
      const char* from = static_cast<const char*>(q.b) +
                         ((first + column) * q.b_col * 2 + part * static_cast<pf_i64>(per) * 16);
      const pf_shared_at to = ring + u % SLOTS * 2 * line, at = full_at(u);
      pf_mbarrier_expect(at, two ? 2 * each : each);
      pf_bulk_copy_past(to, from, each, at);
      if (two) pf_bulk_copy_past(to + line, from + q.b_col * 2, each, at);
    }
    pf_warp_barrier();  // or lanes that wait for what is earlier keep the first from going on
  } else {              // what others write is only brought nearer
    if (q.bias && t * 64 < columns) pf_prefetch(static_cast<const PF_T*>(q.bias) + first + t * 64);
  }
#ifdef PF_NORM
  // By whole warps, all of which are of one group.
  const bool norms = t < (PF_NORM < PF_WARP ? PF_WARP : PF_NORM);
  pf_stream_weights by;
  if (norms && given.steady & PF_STEADY_NORM) by.load(norm);
#endif
  pf_wait_for_earlier();
  if (warp == WARPS) return;
  if (t == 0) running = 1;
#ifdef PF_NORM
  PF_SHARED char row[PF_VECS * PF_NORM * 16];
  const pf_i64 place = PF_KEPT ? *kept.place : 0;  // on its way meanwhile
  if (norms) {
    if (!(given.steady & PF_STEADY_NORM)) by.load(norm);
    pf_stream_norm(norm, by, row);
  }
  pf_group_barrier(1, WARPS * PF_WARP);
  PF_T* keep = PF_KEPT ? pf_stream_kept(kept, place) : nullptr;
#else
  const char* row = static_cast<const char*>(q.a);
#endif
  pf_result<PF_T, PF_T> result;
  if (t < columns) result.load(q, 0, first + t PF_EPILOGUE_PASS);
  const pf_i32 begin = warp % PARTS * per, mine = chunks - begin < per ? chunks - begin : per;
  pf_vector<PF_T, CHUNK> a[CHUNKS];
  PF_UNROLL for (int i = 0; i < CHUNKS; ++i) {
    const pf_i32 c = i * PF_WARP + lane;
    PF_UNROLL for (int w = 0; w < 4; ++w) a[i].w[w] = 0;
    if (c < mine) a[i].template load<false>(row + (begin + c) * 16);
  }
  const pf_i32 group = lane / 4;
  const bool upper = lane >= 16;
  for (pf_i32 u = warp; u < units; u += WARPS) {
    pf_mbarrier_wait(full_at(u), parity(u));
    const pf_shared_at from = ring + u % SLOTS * 2 * line + lane * 16;
    pf_acc c[2][4] = {};
    PF_UNROLL for (int i = 0; i < CHUNKS; ++i) {
      pf_u32 b[2][4] = {};
      if (i * PF_WARP + lane < mine) {
        pf_load_shared4(from + i * PF_WARP * 16, b[0]);
        pf_load_shared4(from + i * PF_WARP * 16 + line, b[1]);
      }
      PF_UNROLL for (int h = 0; h < 2; ++h) {
        const pf_u32 words[4] = {b[0][2 * h], b[1][2 * h], b[0][2 * h + 1], b[1][2 * h + 1]};
        pf_mma(PF_T(), c[h], words, a[i].w + 2 * h);
      }
    }
    pf_warp_barrier();
    if (lane == 0) pf_mbarrier_arrive(read + u % SLOTS * 8);
    pf_acc sum[2];
    PF_UNROLL for (int h = 0; h < 2; ++h) {
      const pf_acc x = group % 2 ? c[0][2 * h + 1] + c[1][2 * h + 1] : c[0][2 * h] + c[1][2 * h];
      sum[h] = group / 2 == lane % 4 ? x : pf_acc(0);
    }
    // The lower half goes on with the first column, the upper with the second.
    pf_acc own = (upper ? sum[1] : sum[0]) + pf_shuffle_xor(upper ? sum[0] : sum[1], 16);
    PF_UNROLL for (pf_u32 half = 8; half; half /= 2) own += pf_shuffle_xor(own, half);
    const pf_i32 column = u / PARTS * 2 + upper;
    if (lane % 16 == 0 && column < columns) sums[column * PARTS + u % PARTS] = own;
  }
  pf_group_barrier(1, WARPS * PF_WARP);
  for (pf_i32 c = t; c < columns; c += WARPS * PF_WARP) {
    if (c != t) result.load(q, 0, first + c PF_EPILOGUE_PASS);
    pf_acc sum = sums[c * PARTS];
    PF_UNROLL for (int p = 1; p < PARTS; ++p) sum += sums[c * PARTS + p];
    const pf_acc value[1] = {result.finish(q, 0, first + c, sum PF_EPILOGUE_PASS)};
#ifdef PF_NORM
    if constexpr (PF_KEPT) pf_stream_keep(kept, keep, first + c, value);
#else
    (void)value;
#endif
  }
}
