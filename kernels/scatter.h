// Writing by index. What meets in one place is combined in the order of the indices, as on the
// CPU: one thread goes through all that meets. Either each lane (a position in the dimensions that
// are not indexed) goes through its indices, or the indices were sorted by their place before and
// each group of equal ones is gone through, for every lane; a block helps with a long group. A lane
// of at most SMALL indices is sorted and written by one block. Where the last value stays, points
// may also claim their places: the largest of them has it.
//   -DTYPE=type -DMODE=0 assign, 1 add, 2 multiply, 3 max, 4 min
//   -DPF_V=  pf_scatter_sorted: so many neighbouring lanes a thread, where all lie so
#include "block_scan.h"
#include "index_error.h"
#include "points_args.h"
#include "small_sort.h"
#include "space.h"

// LONG, LANES: as in src/gpu/kernels_index.cpp.
enum { LONG = 128, LANES = 8 };
typedef pf_compute<PF_T> pf_value;
#ifndef PF_V
#define PF_V 1
#endif

// V neighbours from element `at` on.
template <int V>
PF_DEVICE void pf_get_all(const void* p, pf_i64 at, pf_value (&v)[V]) {
  if constexpr (V == 1)
    v[0] = pf_get<PF_T>(p, at);
  else
    pf_load<PF_T, V, false>(static_cast<const PF_T*>(p) + at, v);
}
template <int V>
PF_DEVICE void pf_put_all(void* p, pf_i64 at, const pf_value (&v)[V]) {
  if constexpr (V == 1)
    pf_put<PF_T>(p, at, v[0]);
  else
    pf_store<PF_T, V, false>(static_cast<PF_T*>(p) + at, v);
}

PF_DEVICE pf_value pf_combine(pf_value x, pf_value y) {
#if PF_MODE == 1
  return pf_dtype<PF_T>::round(static_cast<pf_value>(x + y));
#elif PF_MODE == 2
  return pf_dtype<PF_T>::round(static_cast<pf_value>(x * y));
#elif PF_MODE == 3  // NaN wins
  return x > y || x != x ? x : y;
#elif PF_MODE == 4
  return x < y || x != x ? x : y;
#else
  return y;
#endif
}

// Operands of the space of lanes: out, index, src.
PF_KERNEL(pf_scatter, BLOCK)
(pf_space s, void* out, const pf_i64* index, const void* src, pf_i64 length, pf_i64 size,
 pf_i64 out_step, pf_i64 index_step, pf_i64 src_step, pf_i64 skip, pf_error error) {
  pf_next_may_start();
  // Where the first one lies is found while others still run.
  pf_u64 u = pf_first_item();
  pf_i64 at[3] = {0, 0, 0};
  if (u < static_cast<pf_u64>(s.numel)) pf_offsets<3>(s, static_cast<pf_index>(u), at);
  pf_wait_for_earlier();
  while (u < static_cast<pf_u64>(s.numel)) {
    for (pf_i64 j = 0; j < length; ++j) {
      const pf_value y = pf_get<PF_T>(src, at[2] + j * src_step);  // both are on their way at once
      const pf_i64 place = pf_written_place(error, index[at[1] + j * index_step], size, skip, true);
      if (place < 0) continue;
      const pf_i64 to = at[0] + place * out_step;
      pf_value v = y;
      if (PF_MODE != 0) v = pf_combine(pf_get<PF_T>(out, to), y);
      pf_put<PF_T>(out, to, v);
    }
    u += pf_item_step();
    if (u < static_cast<pf_u64>(s.numel)) pf_offsets<3>(s, static_cast<pf_index>(u), at);
  }
}

// A few indices that all lanes share, of which the last that meets in a place is written: whoever
// has one looks whether a later one is the same.
PF_KERNEL(pf_scatter_few, BLOCK)
(pf_space s, void* out, const pf_i64* index, const void* src, pf_i64 length, pf_i64 size,
 pf_i64 out_step, pf_i64 index_step, pf_i64 src_step, pf_i64 skip, pf_error error) {
  const pf_u64 lanes = static_cast<pf_u64>(s.numel), all = lanes * static_cast<pf_u64>(length);
  for (pf_u64 u = pf_first_item(); u < all; u += pf_item_step()) {
    const pf_i64 j = static_cast<pf_i64>(u / lanes);
    const pf_i64 place = pf_written_place(error, index[j * index_step], size, skip, true);
    bool last = place >= 0;
    for (pf_i64 i = j + 1; i < length; ++i)
      last = last && pf_written_place(error, index[i * index_step], size, skip, true) != place;
    if (!last) continue;
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(u % lanes), at);
    pf_put<PF_T>(out, at[0] + place * out_step, pf_get<PF_T>(src, at[1] + j * src_step));
  }
}

// The same with a block for each lane, `padded` the power of 2 from `length` on.
PF_KERNEL(pf_scatter_rows, BLOCK)
(pf_space s, void* out, const pf_i64* index, const void* src, int length, pf_i64 size,
 pf_i64 out_step, pf_i64 index_step, pf_i64 src_step, pf_i64 skip, int padded, pf_error error) {
  const pf_u64 none = ~pf_u64(0) >> AT_BITS;  // behind all places
  PF_SMALL_ROW(row, false);
  for (pf_i64 lane = pf_block(); lane < s.numel; lane += pf_blocks()) {
    pf_i64 at[3];
    pf_offsets<3>(s, static_cast<pf_index>(lane), at);
    for (int j = static_cast<int>(pf_thread()); j < padded; j += BLOCK) {
      if (j >= length) {
        row.pad(j);
        continue;
      }
      const pf_i64 place = pf_written_place(error, index[at[1] + j * index_step], size, skip, true);
      row.set(j, place < 0 ? none : static_cast<pf_u64>(place));
    }
    row.sort(padded);
    for (int k = static_cast<int>(pf_thread()); k < length; k += BLOCK) {
      const pf_u64 place = row.key[k] >> AT_BITS;
      // Who begins a group goes through it; of an assignment its end is all.
      const int beside = PF_MODE == 0 ? k + 1 : k - 1;
      if (place == none || (beside >= 0 && beside < length && row.key[beside] >> AT_BITS == place))
        continue;
      const pf_i64 to = at[0] + static_cast<pf_i64>(place) * out_step;
      const auto value = [&](int j)
                             PF_INLINE { return pf_get<PF_T>(src, at[2] + row.at(j) * src_step); };
      pf_value v = value(k);
      if (PF_MODE != 0) {
        v = pf_combine(pf_get<PF_T>(out, to), v);
        for (int j = k + 1; j < length && row.key[j] >> AT_BITS == place; ++j)
          v = pf_combine(v, value(j));
      }
      pf_put<PF_T>(out, to, v);
    }
    pf_barrier();
  }
}

struct pf_sorted : pf_sorted_args {
  PF_METHOD bool starts(pf_i64 k) const {
    return keys[k] != ~pf_u64(0) && (k == 0 || keys[k - 1] != keys[k]);
  }
  PF_METHOD pf_i64 place(pf_u64 key) const { return static_cast<pf_i64>(key) * unit; }
  PF_METHOD bool is_long(pf_i64 k) const { return k + LONG < points && keys[k + LONG] == keys[k]; }
  PF_METHOD pf_i64 where(pf_i64 k) const {
    const pf_i64 p = point[k];
    return from ? from[p] : p * src_step;
  }
  // The values of points, in V lanes whose values begin at `base`: all are on their way at once.
  // Those for which `of` is false are not read.
  template <int N, int V, class Of>
  PF_METHOD void values(pf_i64 base, pf_i64 (&at)[N], pf_value (&value)[N][V], Of of) const {
    if (from) PF_UNROLL for (int e = 0; e < N; ++e) at[e] = from[at[e]];
    const pf_i64 step = from ? 1 : src_step;
    PF_UNROLL for (int e = 0; e < N; ++e) if (of(e)) pf_get_all(src, base + at[e] * step, value[e]);
  }
  // Whether a group that begins in a range of LONG points may go on behind its end.
  PF_METHOD bool goes_on(pf_i64 range) const {
    const pf_i64 next = (range + 1) * LONG;
    return next < points && keys[next - 1] == keys[next];
  }
  // Behind the last point that writes where point k does, which has a long group.
  PF_METHOD pf_i64 end(pf_i64 k) const {
    pf_i64 low = k + LONG + 1, high = points;
    while (low < high) {
      const pf_i64 middle = low + (high - low) / 2;
      if (keys[middle] == keys[k])
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

// A group of more than LONG points, for LANES lanes. The first warp of the block combines a tile of
// values in order while the others bring the next one: each of these threads has EACH values on
// their way, and knows the points of those after them.
struct pf_long_group {
  enum {
    BRING = BLOCK - PF_WARP,
    ROWS = BRING / LANES,
    EACH = sizeof(pf_value) > 4 ? 4 : 8,
    TILE = ROWS * EACH,
    PITCH = TILE + 4  // the lanes of a row lie in different banks
  };
  typedef pf_value tiles[2][LANES][PITCH];
  pf_i64 begin, end, lane, row, src;
  pf_i64 point[EACH];
  pf_value value[EACH][1];

  // What is asked for behind the end is the last again: no load waits for a condition.
  PF_METHOD void find(const pf_sorted& q, pf_i64 tile) {
    PF_UNROLL for (int e = 0; e < EACH; ++e) {
      const pf_i64 k = begin + tile * TILE + e * ROWS + row;
      point[e] = q.point[k < end ? k : end - 1];
    }
  }
  PF_METHOD void read(const pf_sorted& q) {
    q.values(src, point, value, [](int) PF_INLINE { return true; });
  }
  PF_METHOD void keep(tiles& t, pf_i64 tile) const {
    PF_UNROLL for (int e = 0; e < EACH; ++e) t[tile % 2][lane][e * ROWS + row] = value[e][0];
  }
  PF_METHOD void combine(const tiles& t, pf_i64 tile, pf_value& v) const {
    const pf_i64 left = end - begin - tile * TILE;
    const int n = left < TILE ? static_cast<int>(left) : TILE;
    const pf_value* from = t[tile % 2][lane];
    // Eight are combined while the next eight are read.
    pf_value x[8], y[8];
    PF_UNROLL for (int i = 0; i < 8; ++i) x[i] = from[i];
    int r = 0;
    for (; r + 8 <= n; r += 8) {
      const int next = r + 16 <= TILE ? r + 8 : r;
      PF_UNROLL for (int i = 0; i < 8; ++i) y[i] = from[next + i];
      PF_UNROLL for (int i = 0; i < 8; ++i) v = pf_combine(v, x[i]);
      PF_UNROLL for (int i = 0; i < 8; ++i) x[i] = y[i];
    }
    for (; r < n; ++r) v = pf_combine(v, from[r]);
  }
};

PF_DEVICE void pf_scatter_long(const pf_space& s, void* out, const pf_sorted& q, pf_i64 first,
                               pf_i64 step) {
  PF_SHARED pf_long_group::tiles tiles;
  PF_SHARED pf_i64 found;
  const pf_i64 parts = (s.numel + LANES - 1) / LANES, ranges = (q.points + LONG - 1) / LONG;
  const int thread = static_cast<int>(pf_thread());
  for (pf_i64 b = first; b < ranges * parts; b += step) {
    // At most one long group begins in a range of LONG points.
    const pf_i64 range = b / parts, k = range * LONG + thread;
    if (!q.goes_on(range)) continue;
    if (thread == 0) found = -1;
    pf_barrier();
    if (thread < LONG && k < q.points && q.starts(k) && q.is_long(k)) found = k;
    pf_barrier();
    if (found >= 0) {
      const pf_i64 lane = (b - range * parts) * LANES + thread % LANES;
      const bool brings = thread >= PF_WARP, combines = thread < LANES && lane < s.numel;
      pf_i64 at[2];
      pf_offsets<2>(s, static_cast<pf_index>(lane < s.numel ? lane : s.numel - 1), at);
      const pf_i64 to = at[0] + q.place(q.keys[found]);
      pf_value v = pf_value(0);
      if (PF_MODE != 0 && combines) v = pf_get<PF_T>(out, to);
      pf_long_group g;
      g.begin = found, g.end = q.end(found), g.lane = thread % LANES;
      g.row = (thread - PF_WARP) / LANES, g.src = at[1];
      const pf_i64 last = (g.end - g.begin - 1) / pf_long_group::TILE;
      if (brings) {
        g.find(q, 0);
        g.read(q);
        g.find(q, 1);
        g.keep(tiles, 0);
        g.read(q);
        g.find(q, 2);
      }
      for (pf_i64 t = 0; t <= last; ++t) {
        pf_barrier();
        if (combines) g.combine(tiles, t, v);
        if (!brings || t == last) continue;
        g.keep(tiles, t + 1);
        g.read(q);
        g.find(q, t + 3);
      }
      if (combines) pf_put<PF_T>(out, to, v);
    }
    pf_barrier();
  }
}

// Operands of the space of lanes: out, src. The first `blocks` blocks take long groups. The rest
// look at a range of points each (at most BLOCK): who begins a group, and then a thread for each of
// these and each lane.
PF_KERNEL(pf_scatter_sorted, BLOCK)
(pf_space s, void* out, pf_sorted q, pf_i64 blocks, int range) {
  if (static_cast<pf_i64>(pf_block()) < blocks)
    return pf_scatter_long(s, out, q, pf_block(), blocks);
  PF_SHARED int starts[BLOCK];
  const int thread = static_cast<int>(pf_thread());
  const pf_i64 step = (pf_blocks() - blocks) * range;
  for (pf_i64 base = (pf_block() - blocks) * range; base < q.points; base += step) {
    const pf_i64 here = base + thread;
    const bool mine = thread < range && here < q.points && q.starts(here) && !q.is_long(here);
    int count;
    const int place = pf_block_scan<BLOCK>(mine ? 1 : 0, &count);
    if (mine) starts[place] = thread;
    pf_barrier();
    const pf_index lanes = static_cast<pf_index>(s.numel / PF_V);
    const pf_index all = lanes * static_cast<pf_index>(count);
    for (pf_index u = pf_thread(); u < all; u += BLOCK) {
      const pf_i64 k = base + starts[u / lanes];
      pf_i64 at[2] = {static_cast<pf_i64>(u % lanes) * PF_V, static_cast<pf_i64>(u % lanes) * PF_V};
      if constexpr (PF_V == 1) pf_offsets<2>(s, u % lanes, at);
      const pf_u64 key = q.keys[k];
      const pf_i64 to = at[0] + q.place(key);
      pf_value v[PF_V] = {};
      if (PF_MODE != 0) pf_get_all(out, to, v);
      // Eight at a time are looked up, read and then combined: a chain of loads for each would wait
      // for each.
      for (pf_i64 i = k;; i += 8) {
        pf_i64 point[8];
        pf_value value[8][PF_V];
        bool of[8];
        PF_UNROLL for (int e = 0; e < 8; ++e) {
          const pf_i64 j = i + e < q.points ? i + e : q.points - 1;
          of[e] = i + e < q.points && q.keys[j] == key;
          point[e] = q.point[j];
        }
        q.values(at[1], point, value, [&](int e) PF_INLINE { return of[e]; });
        PF_UNROLL for (int e = 0; e < 8; ++e) if (of[e]) PF_UNROLL for (int j = 0; j < PF_V; ++j)
            v[j] = pf_combine(v[j], value[e][j]);
        if (!of[7]) break;
      }
      pf_put_all(out, to, v);
    }
    pf_barrier();
  }
}

// Each point claims its place in `owners`, which is 0 before.
PF_KERNEL(pf_scatter_claim, BLOCK)(const pf_u64* keys, pf_i64 points, pf_u32* owners) {
  for (pf_u64 k = pf_first_item(); k < static_cast<pf_u64>(points); k += pf_item_step())
    if (keys[k] != ~pf_u64(0)) pf_atomic_max(&owners[keys[k]], static_cast<pf_u32>(k + 1));
}
// Operands of the space of lanes: out, src. Point k lies at q.where(k): they were not sorted.
PF_KERNEL(pf_scatter_claimed, BLOCK)
(pf_space s, void* out, pf_sorted q, const pf_u32* owners) {
  const pf_u64 all = static_cast<pf_u64>(s.numel) * static_cast<pf_u64>(q.points);
  for (pf_u64 u = pf_first_item(); u < all; u += pf_item_step()) {
    const pf_i64 k = static_cast<pf_i64>(u / static_cast<pf_u64>(s.numel));
    const pf_u64 key = q.keys[k];
    if (key == ~pf_u64(0) || owners[key] != static_cast<pf_u32>(k + 1)) continue;
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(u % static_cast<pf_u64>(s.numel)), at);
    const pf_i64 from = q.from ? q.from[k] : k * q.src_step;
    pf_put<PF_T>(out, at[0] + q.place(key), pf_get<PF_T>(q.src, at[1] + from));
  }
}
