// Products of sparse matrices by rows, and what brings them into that order (table/kernels/
// sparse.h). `lanes` threads of a warp have neighbouring columns of the result, `split` times as
// many a row, of whose elements each takes the next; the rest of the warp has the next rows.
// Whoever meets a row of more elements than a piece has puts it on a list instead, as pieces; two
// kernels go through this: one adds up pieces, one those of a row in their order. So no
// bit follows from when something ran.
//   -DPF_T=  dtype
//   -DPF_V=  columns of a thread
//   -DPF_VALUES=0|1 -DPF_ORDER=0|1   0: all are 1; they are in the elements' order
#include "kernels/error_args.h"
#include "kernels/integers.h"

struct pf_piece {
  pf_i64 row, first;  // of the list: where its row's pieces begin; row < 0: none
};
struct pf_sparse {
  void* out;
  const pf_i64 *starts, *columns, *order;  // of dots: each element's row
  const void *values, *x;
  pf_piece* list;
  pf_i64* listed;                                     // how many there are; `most` have room
  void* partial;                                      // [most, width]
  pf_i64 rows, elements, count, x_rows, width, most;  // count: values
  pf_u32 lanes, split, tiles, bits;  // tiles: of columns; so many blocks each; bits: of a piece
  pf_error error;
};
static_assert(sizeof(pf_sparse) == 168, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/index_error.h"
#include "kernels/space.h"

PF_DEVICE pf_i64 pf_between(pf_i64 i, pf_i64 low, pf_i64 high) {
  return i < low ? low : i > high ? high : i;
}
// How many of n ascending numbers are at or below (of `below`: below) a limit.
PF_DEVICE pf_i64 pf_up_to(const pf_i64* numbers, pf_i64 n, pf_i64 limit) {
  pf_i64 low = 0, high = n;
  while (low < high) {
    const pf_i64 mid = low + (high - low) / 2;
    if (numbers[mid] <= limit)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

#ifdef PF_T
typedef PF_T T;
typedef pf_compute<T> C;
#ifndef PF_MANY
#define PF_MANY 4
#endif
enum { V = PF_V, MANY = PF_MANY };  // MANY elements are asked for at a time

struct pf_row {
  pf_i64 begin, end;
  bool is, is_long;  // whether there is such a row
};
// What starts say is not trusted.
PF_DEVICE pf_row pf_row_at(const pf_sparse& q, pf_i64 row, bool there) {
  pf_row r{0, 0, there && row >= 0 && row < q.rows, false};
  if (r.is) {
    r.begin = pf_between(q.starts[row], 0, q.elements);
    r.end = pf_between(q.starts[row + 1], r.begin, q.elements);
    r.is_long = r.end - r.begin > pf_i64(1) << q.bits;
  }
  return r;
}

// What a thread is to its warp, and what it begins with: a warp has some rows at a time, and all
// lanes go on together, for they exchange.
struct pf_part {
  pf_i64 c, first, by;     // its column; its warp's first row, from there to the next
  pf_u32 lane, turn, own;  // own: its row is so much further
};
PF_DEVICE pf_part pf_part_of(const pf_sparse& q) {
  const pf_u32 all = q.lanes * q.split, rows = PF_WARP / all, warps = pf_threads() / PF_WARP;
  const pf_u32 block = pf_block() / q.tiles, tile = pf_block() - block * q.tiles;
  pf_part p;
  p.own = pf_lane() / all;
  p.turn = (pf_lane() - p.own * all) / q.lanes;
  p.lane = pf_lane() - p.own * all - p.turn * q.lanes;
  p.c = (static_cast<pf_i64>(tile) * q.lanes + p.lane) * V;
  p.first = (static_cast<pf_i64>(block) * warps + pf_thread() / PF_WARP) * rows;
  p.by = static_cast<pf_i64>(pf_blocks() / q.tiles) * warps * rows;
  return p;
}

PF_DEVICE bool pf_is_inside(pf_i64 i, pf_i64 n) {
  return static_cast<pf_u64>(i) < static_cast<pf_u64>(n);
}
// The sum of every `step`th element in columns c, ...
PF_DEVICE void pf_sum_of(const pf_sparse& q, pf_i64 begin, pf_i64 end, pf_i64 step, pf_i64 c,
                         C* sum) {
  for (pf_i64 k = begin; k < end; k += MANY * step) {
    pf_i64 from[MANY], wrong = -1;
    C factor[MANY], x[MANY][V];
    PF_UNROLL for (int j = 0; j < MANY; ++j) {
      const pf_i64 at = k + j * step;
      from[j] = -1;
      factor[j] = C(1);
      if (at >= end) continue;
      const pf_i64 column = q.columns[at], value = PF_ORDER ? q.order[at] : at;
      if (!pf_is_inside(column, q.x_rows) || (PF_ORDER && !pf_is_inside(value, q.count))) {
        wrong = at;
        continue;
      }
      from[j] = column * q.width + c;
      if (PF_VALUES) factor[j] = pf_get<T>(q.values, value);
    }
    PF_UNROLL for (int j = 0; j < MANY; ++j) {
      if (from[j] >= 0) pf_load<T, V, false>(static_cast<const T*>(q.x) + from[j], x[j]);
    }
    PF_UNROLL for (int j = 0; j < MANY; ++j) {
      if (from[j] < 0) continue;
      PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = sum[v] + factor[j] * x[j][v];
    }
    if (wrong >= 0) {
      const bool column = !pf_is_inside(q.columns[wrong], q.x_rows);
      pf_bad_index(q.error, column ? q.columns[wrong] : q.order[wrong], 0,
                   column ? q.x_rows : q.count);
    }
  }
}
// The sums of the threads that share a row; all of the warp take part.
PF_DEVICE void pf_join_turns(const pf_sparse& q, C* sum) {
  PF_NO_UNROLL for (pf_u32 d = q.lanes; d < q.lanes * q.split; d *= 2)
      PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = sum[v] + pf_shuffle_xor(sum[v], d);
}
PF_DEVICE void pf_write(const pf_sparse& q, pf_i64 at, C* sum) {
  PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = pf_dtype<T>::round(sum[v]);
  pf_store<T, V, false>(static_cast<T*>(q.out) + at, sum);
}

PF_DEVICE pf_i64 pf_pieces(const pf_sparse& q, pf_i64 length) {
  return (length + (pf_i64(1) << q.bits) - 1) >> q.bits;
}
// A row of pieces, by one thread. Rows that overlap would be more than there is room for.
PF_DEVICE void pf_list(const pf_sparse& q, pf_i64 row, pf_i64 length) {
  const pf_i64 pieces = pf_pieces(q, length);
  const pf_i64 first = pf_atomic_add(q.listed, pieces);
  for (pf_i64 k = first; k < first + pieces && k < q.most; ++k) {
    q.list[k].row = first + pieces <= q.most ? row : -1;
    q.list[k].first = first;
  }
}

PF_KERNEL(pf_sparse_rows, 256)(const pf_sparse q) {
  const pf_part p = pf_part_of(q);
  for (pf_i64 first = p.first; first < q.rows; first += p.by) {
    const pf_i64 row = first + p.own;
    const pf_row r = pf_row_at(q, row, p.c < q.width);
    C sum[V];
    PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = C(0);
    if (r.is && !r.is_long) pf_sum_of(q, r.begin + p.turn, r.end, q.split, p.c, sum);
    pf_join_turns(q, sum);
    if (!r.is || p.turn != 0) continue;
    if (!r.is_long)
      pf_write(q, row * q.width + p.c, sum);
    else if (p.c == 0)
      pf_list(q, row, r.end - r.begin);
  }
}

PF_DEVICE pf_i64 pf_listed(const pf_sparse& q) {
  return pf_between(*q.listed, 0, q.most);
}
PF_KERNEL(pf_sparse_pieces, 256)(const pf_sparse q) {
  const pf_part p = pf_part_of(q);
  const pf_i64 all = pf_listed(q);
  for (pf_i64 first = p.first; first < all; first += p.by) {
    const pf_i64 at = first + p.own;
    const bool there = at < all && p.c < q.width;
    const pf_i64 before = there ? at - q.list[at].first : 0;
    const pf_row r = pf_row_at(q, there ? q.list[at].row : -1, there);
    const pf_i64 begin = r.begin + (before << q.bits), end = begin + (pf_i64(1) << q.bits);
    C sum[V];
    PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = C(0);
    if (r.is) pf_sum_of(q, begin + p.turn, pf_between(end, 0, r.end), q.split, p.c, sum);
    pf_join_turns(q, sum);
    if (!r.is || p.turn != 0) continue;
    C* to = static_cast<C*>(q.partial) + at * q.width + p.c;
    PF_UNROLL for (int v = 0; v < V; ++v) to[v] = sum[v];
  }
}
// A block adds up a row's pieces, for `lanes` threads' columns.
PF_KERNEL(pf_sparse_joined, 256)(const pf_sparse q) {
  PF_SHARED C room[256 * V];
  const pf_u32 thread = pf_thread(), turn = thread / q.lanes, turns = pf_threads() / q.lanes;
  const pf_u32 block = pf_block() / q.tiles, tile = pf_block() - block * q.tiles;
  const pf_i64 c = (static_cast<pf_i64>(tile) * q.lanes + (thread - turn * q.lanes)) * V;
  const pf_i64 all = pf_listed(q), by = pf_blocks() / q.tiles;
  for (pf_i64 at = block; at < all; at += by) {
    const pf_i64 row = q.list[at].row;
    if (row < 0 || q.list[at].first != at) continue;  // the same for all threads of the block
    const pf_row r = pf_row_at(q, row, true);
    const pf_i64 end = at + pf_pieces(q, r.end - r.begin);
    C sum[V];
    PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = C(0);
    if (c < q.width) {
      const C* from = static_cast<const C*>(q.partial) + c;
      for (pf_i64 k = at + turn; k < end; k += MANY * turns) {
        C x[MANY][V];
        PF_UNROLL for (int j = 0; j < MANY; ++j) PF_UNROLL for (int v = 0; v < V; ++v) x[j][v] =
            k + j * turns < end ? from[(k + j * turns) * q.width + v] : C(0);
        PF_UNROLL for (int j = 0; j < MANY; ++j) PF_UNROLL for (int v = 0; v < V; ++v) sum[v] =
            sum[v] + x[j][v];
      }
    }
    C* own = room + thread * V;
    PF_UNROLL for (int v = 0; v < V; ++v) own[v] = sum[v];
    pf_barrier();
    PF_NO_UNROLL for (pf_u32 d = turns / 2; d > 0; d /= 2) {
      if (turn < d) {
        PF_UNROLL for (int v = 0; v < V; ++v) own[v] = own[v] + own[d * q.lanes * V + v];
      }
      pf_barrier();
    }
    PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = own[v];
    if (turn == 0 && c < q.width) pf_write(q, row * q.width + c, sum);
    pf_barrier();
  }
}

// `lanes` threads have MANY elements, which are neighbours.
PF_KERNEL(pf_sparse_dots, 256)(const pf_sparse q) {
  const pf_part p = pf_part_of(q);
  for (pf_i64 head = p.first; head * MANY < q.elements; head += p.by) {
    const pf_i64 first = (head + p.own) * MANY;
    pf_i64 a[MANY], b[MANY];  // where their rows begin; -1: none
    C sum[MANY];
    PF_UNROLL for (int j = 0; j < MANY; ++j) {
      const pf_i64 k = first + j;
      a[j] = b[j] = -1;
      sum[j] = C(0);
      if (k >= q.elements) continue;
      const pf_i64 of = q.order[k], column = q.columns[k];
      if (column < 0 || column >= q.x_rows) {
        pf_bad_index(q.error, column, 0, q.x_rows);
      } else if (of >= 0 && of < q.rows && q.starts[of] <= k && k < q.starts[of + 1]) {
        a[j] = of * q.width;
        b[j] = column * q.width;
      }
    }
    for (pf_i64 c = p.lane * V; c < q.width; c += q.lanes * V) {
      C x[MANY][V], y[MANY][V];
      PF_UNROLL for (int j = 0; j < MANY; ++j) if (a[j] >= 0) {
        pf_load<T, V, false>(static_cast<const T*>(q.values) + a[j] + c, x[j]);
        pf_load<T, V, false>(static_cast<const T*>(q.x) + b[j] + c, y[j]);
      }
      PF_UNROLL for (int j = 0; j < MANY; ++j) if (a[j] >= 0) PF_UNROLL for (int v = 0; v < V; ++v)
          sum[j] = sum[j] + x[j][v] * y[j][v];
    }
    PF_NO_UNROLL for (pf_u32 d = 1; d < q.lanes; d *= 2) PF_UNROLL for (int j = 0; j < MANY; ++j)
        sum[j] = sum[j] + pf_shuffle_xor(sum[j], d);
    PF_UNROLL for (int j = 0; j < MANY; ++j) if (p.lane == 0 && first + j < q.elements)
        pf_put<T>(q.out, first + j, sum[j]);
  }
}

#else

PF_KERNEL(pf_sparse_begin, 1)(pf_i64* listed) {
  *listed = 0;
}

// How many of the ascending numbers from `low` to `high` are at or below a limit, and `low`: all
// lanes of a warp look at once.
PF_DEVICE pf_i64 pf_warp_up_to(const pf_i64* numbers, pf_i64 low, pf_i64 high, pf_i64 limit) {
  while (low < high) {
    const pf_i64 step = (high - low + PF_WARP - 1) / PF_WARP;
    const pf_i64 at = low + (pf_lane() + 1) * step - 1;
    low += pf_count_bits(pf_ballot(at < high && numbers[at] <= limit)) * step;
    high = low + step - 1 < high ? low + step - 1 : high;
  }
  return low;
}
// The row of each of n elements: how many rows but the first begin at or before it. A warp has
// STEPS times as many neighbours as lanes, which hold where the next rows begin. Behind them, if
// they are given, a copy of the columns.
enum { STEPS = 8 };
PF_KERNEL(pf_sparse_numbers, 256)
(pf_i64* out, const pf_i64* starts, const pf_i64* columns, pf_i64 rows, pf_i64 n) {
  const pf_i64 most = rows > 0 ? rows - 1 : 0, *begins = starts + 1;
  const pf_u32 lane = pf_lane(), warps = pf_threads() / PF_WARP;
  const pf_i64 many = STEPS * PF_WARP, by = static_cast<pf_i64>(pf_blocks()) * warps * many;
  for (pf_i64 k = (static_cast<pf_i64>(pf_block()) * warps + pf_thread() / PF_WARP) * many; k < n;
       k += by) {
    pf_i64 row = pf_warp_up_to(begins, 0, most, k);
    // Where rows begin from there, as far as this warp goes.
    const auto begin_of = [&](pf_i64 at) PF_INLINE {
      return static_cast<pf_i32>(at < most ? pf_between(begins[at] - k, -1, many) : many);
    };
    pf_i32 begin = begin_of(row + lane);
    for (pf_i32 first = 0; first < many && k + first < n; first += PF_WARP) {
      const pf_i32 own = first + static_cast<pf_i32>(lane);
      const bool there = k + own < n;
      if (columns && there) out[n + k + own] = columns[k + own];
      bool left = there;
      while (true) {
        // Those of the rows at hand that begin at or before this lane's element.
        pf_u32 count = 0;
        for (pf_u32 d = PF_WARP / 2; d > 0; d /= 2)
          if (pf_shuffle(begin, count + d - 1) <= own) count += d;
        if (pf_shuffle(begin, count) <= own) ++count;
        if (left && count < PF_WARP) out[k + own] = row + count;
        left = left && count == PF_WARP;
        const pf_u64 those = pf_ballot(left);
        if (those == 0) break;
        const pf_i64 limit = first + pf_count_bits((those & (0 - those)) - 1);
        row = pf_warp_up_to(begins, row + PF_WARP, most, k + limit);
        begin = begin_of(row + lane);
      }
    }
  }
}

// Of sorted keys and where they were: how many are below each number, and the order.
PF_KERNEL(pf_sparse_starts, 256)
(pf_i64* starts, pf_i64* order, const pf_i64* keys, const pf_i64* at, pf_i64 n, pf_i64 count) {
  const pf_i64 all = n > count + 1 ? n : count + 1;
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(all); u += pf_item_step()) {
    const pf_i64 i = static_cast<pf_i64>(u);
    if (i <= count) starts[i] = pf_up_to(keys, n, i - 1);
    if (i < n) order[i] = at[i];
  }
}

// Rows of `units` times `bytes` to places that are all different.
PF_KERNEL(pf_sparse_places, 256)
(void* out, const pf_i64* places, const void* values, pf_i64 n, pf_i64 count, pf_i64 units,
 int bytes, pf_error error) {
  const pf_u64 all = static_cast<pf_u64>(n) * static_cast<pf_u64>(units);
  for (pf_u64 u = pf_first_item(); u < all; u += pf_item_step()) {
    const pf_index row = static_cast<pf_index>(u) / static_cast<pf_index>(units);
    const pf_i64 i = static_cast<pf_i64>(u), k = static_cast<pf_i64>(row);
    const pf_i64 place = pf_written_place(error, places[k], count, PF_LONG_MIN, false);
    if (place >= 0) pf_move_bytes(bytes, out, place * units + (i - k * units), values, i);
  }
}
#endif

#else  // launchers
#include <algorithm>
#include <bit>

#include "gpu/axes.h"
#include "gpu/sorting.h"
#include "table/kernels/sparse.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

Function general(const KernelArgs& a, const char* entry, bool small = false) {
  return a.compile("kernels_sparse.cpp", Defines().text("PF_INDEX", small ? "pf_u32" : "pf_u64"),
                   entry);
}

// How a row of `width` is spread over a warp, and the text for it.
struct Rows {
  const KernelArgs& a;
  DType type;
  int64_t vec, warp;

  // Rows of tensor `x` and of all at these addresses.
  Rows(const KernelArgs& args, int x, int64_t width, std::initializer_list<const void*> addresses)
      : a(args), type(args.dtype(x)), warp(args.traits().warp) {
    const auto size = static_cast<int64_t>(itemsize(type));
    vec = 16 / size;
    const auto fits = [&](int64_t v) {
      return width % v == 0 && std::all_of(addresses.begin(), addresses.end(),
                                           [&](const void* p) { return aligned(p, v * size); });
    };
    while (vec > 1 && !fits(vec)) vec /= 2;
  }
  int64_t lanes(int64_t width) const {
    return std::min<int64_t>(warp, power_of_two_from(ceil_div(width, vec)));
  }
  Function text(const char* entry, const pf_sparse& q) const {
    return a.compile("kernels_sparse.cpp",
                     Defines()
                         .type("PF_T", type)
                         .value("PF_V", vec)
                         .value("PF_VALUES", q.values != nullptr)
                         .value("PF_ORDER", q.order != nullptr)
                         .text("PF_INDEX", "pf_u64"),
                     entry);
  }
  // `split` groups of lanes to each of n rows, or what a kernel takes for them.
  void launch(const char* entry, int64_t n, const pf_sparse& q, int block) const {
    launch_blocks(entry, ceil_div(n, block / (q.lanes * q.split)), q, block);
  }
  void launch_blocks(const char* entry, int64_t blocks, const pf_sparse& q, int block) const {
    const int64_t most = std::max<int64_t>(1, kMostBlocks / q.tiles);
    a.launch(text(entry, q), Grid(std::min(blocks, most) * q.tiles), block, 0, q);
  }
};

constexpr int kFewRows = 64;  // threads of a block, which lasts as long as the longest of its rows
constexpr int64_t kPieces = 1 << 15;
constexpr pf_u32 kShortest = 6, kLongest = 10;  // bits of a piece's elements

void sparse_rows(const KernelArgs& a) {
  constexpr auto at = tensors<SparseRows>;
  pf_sparse q{};
  q.out = a.data(at.out);
  q.starts = static_cast<const pf_i64*>(a.data(at.starts));
  q.columns = static_cast<const pf_i64*>(a.data(at.columns));
  q.order = a.has(at.order) ? static_cast<const pf_i64*>(a.data(at.order)) : nullptr;
  q.values = a.has(at.values) ? a.data(at.values) : nullptr;
  q.x = a.data(at.x);
  q.rows = a.tensor(at.out).shape[0];
  q.elements = a.tensor(at.columns).shape[0];
  q.count = q.values ? a.tensor(at.values).shape[0] : q.elements;
  q.x_rows = a.tensor(at.x).shape[0];
  q.width = a.tensor(at.x).shape[1];
  q.error = a.error();
  if (q.rows == 0 || q.width == 0) return;
  const Rows by(a, at.x, q.width, {q.x, q.out});
  const int64_t lanes = by.lanes(q.width), mean = q.elements / q.rows;
  const int64_t split = std::clamp<int64_t>(mean / (2 * lanes), 1, by.warp / lanes);
  q.lanes = static_cast<pf_u32>(lanes);
  q.split = static_cast<pf_u32>(std::bit_floor(static_cast<uint64_t>(split)));
  q.tiles = static_cast<pf_u32>(ceil_div(q.width, lanes * by.vec));
  // Pieces that are short, since one is a long time of one warp; but not too many.
  const auto part = static_cast<uint64_t>(q.elements) / kPieces;
  q.bits = std::clamp(static_cast<pf_u32>(std::bit_width(part)), kShortest, kLongest);
  const bool some_long = q.elements >> q.bits > 0;
  if (some_long) {
    q.most = 2 * (q.elements >> q.bits) + 1;
    q.list = static_cast<pf_piece*>(a.workspace(static_cast<size_t>(q.most) * sizeof(pf_piece)));
    q.listed = static_cast<pf_i64*>(a.workspace(sizeof(pf_i64)));
    const size_t wide = by.type == DType::Float64 ? 8 : 4;
    q.partial = a.workspace(static_cast<size_t>(q.most * q.width) * wide);
    // Not a fill of the driver, before which the launches that wait for others would have to go.
    a.launch(general(a, "pf_sparse_begin"), 1, 1, 0, q.listed);
  }
  by.launch("pf_sparse_rows", q.rows, q, kFewRows);
  if (!some_long) return;
  // They may find nothing to do: not more than have room at once.
  const int64_t many = 8 * a.traits().compute_units;
  by.launch("pf_sparse_pieces", std::min<int64_t>(q.most, many * (kBlock / (q.lanes * q.split))), q,
            kFewRows);
  by.launch_blocks("pf_sparse_joined", std::min<int64_t>(q.most, many), q, kBlock);
}

void row_numbers(const KernelArgs& a, pf_i64* out, const void* starts, const void* columns,
                 int64_t rows, int64_t n) {
  constexpr int64_t kSteps = 8;  // STEPS
  a.launch(general(a, "pf_sparse_numbers"), blocks_for(ceil_div(n, kSteps), kBlock, kMostBlocks),
           kBlock, 0, out, starts, columns, rows, n);
}

void sparse_row_numbers(const KernelArgs& a) {
  constexpr auto at = tensors<SparseRowNumbers>;
  const pf_tensor& out = a.tensor(at.out);
  row_numbers(a, static_cast<pf_i64*>(out.data), a.data(at.starts),
              a.has(at.columns) ? a.data(at.columns) : nullptr, a.tensor(at.starts).shape[0] - 1,
              out.shape[out.ndim - 1]);
}

void sparse_dots(const KernelArgs& a) {
  constexpr auto at = tensors<SparseDots>;
  pf_sparse q{};
  q.out = a.data(at.out);
  q.starts = static_cast<const pf_i64*>(a.data(at.starts));
  q.columns = static_cast<const pf_i64*>(a.data(at.columns));
  q.values = a.data(at.a);
  q.x = a.data(at.b);
  q.rows = a.tensor(at.a).shape[0];
  q.elements = a.tensor(at.columns).shape[0];
  q.x_rows = a.tensor(at.b).shape[0];
  q.width = a.tensor(at.b).shape[1];
  q.error = a.error();
  if (q.elements == 0) return;
  auto* rows = static_cast<pf_i64*>(a.workspace(static_cast<size_t>(q.elements) * 8));
  row_numbers(a, rows, q.starts, nullptr, q.rows, q.elements);
  q.order = rows;
  const Rows by(a, at.b, q.width, {q.values, q.x});
  q.lanes = static_cast<pf_u32>(by.lanes(q.width));
  q.split = q.tiles = 1;
  constexpr int64_t kMany = 4;  // MANY
  by.launch("pf_sparse_dots", ceil_div(q.elements, kMany), q, kBlock);
}

void sparse_order(const KernelArgs& a) {
  constexpr auto at = tensors<SparseOrder>;
  const int64_t n = a.tensor(at.keys).shape[0], count = a.tensor(at.starts).shape[0] - 1;
  Pairs p = make_pairs(a, 1, n);
  if (n > 0)
    a.launch(a.compile("points.h", Defines().text("PF_INDEX", "pf_u64"), "pf_index_keys"),
             blocks_for(n, kBlock, kMostBlocks), kBlock, 0, a.data(at.keys), int64_t{1}, n, count,
             INT64_MIN, 0, p.keys, p.at, a.error());
  // Wrong keys have all bits set: one above the largest tells.
  sort_pairs(a, p, 0, std::bit_width(static_cast<uint64_t>(count)) + 1);
  a.launch(general(a, "pf_sparse_starts"), blocks_for(std::max(n, count + 1), kBlock, kMostBlocks),
           kBlock, 0, a.data(at.starts), a.data(at.order), p.keys, p.at, n, count);
}

void sparse_places(const KernelArgs& a) {
  constexpr auto at = tensors<SparsePlaces>;
  const pf_tensor &out = a.tensor(at.out), &values = a.tensor(at.values);
  const int64_t n = values.shape[0], row = values.shape[1];
  auto bytes = static_cast<int64_t>(itemsize(a.dtype(at.values)));
  a.fill(out.data, 0, static_cast<size_t>(out.shape[0] * row * bytes));
  if (n == 0 || row == 0) return;
  int64_t units = row;
  while (bytes < 16 && units % 2 == 0 && aligned(out.data, 2 * bytes) &&
         aligned(values.data, 2 * bytes)) {
    bytes *= 2;
    units /= 2;
  }
  a.launch(general(a, "pf_sparse_places", n * units < 1LL << 31),
           blocks_for(n * units, kBlock, kMostBlocks), kBlock, 0, out.data, a.data(at.places),
           values.data, n, out.shape[0], units, static_cast<int>(bytes), a.error());
}

}  // namespace

PF_GPU_KERNEL(SparseRows::kInfo, sparse_rows)
PF_GPU_KERNEL(SparseDots::kInfo, sparse_dots)
PF_GPU_KERNEL(SparseOrder::kInfo, sparse_order)
PF_GPU_KERNEL(SparseRowNumbers::kInfo, sparse_row_numbers)
PF_GPU_KERNEL(SparsePlaces::kInfo, sparse_places)

}  // namespace pyflame::gpu
#endif
