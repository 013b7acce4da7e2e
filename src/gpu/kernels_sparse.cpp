// Products of sparse matrices by rows, and what brings them into that order (table/kernels/
// sparse.h). `lanes` threads of a warp have neighbouring columns of the result, `split` times as
// many a row, of whose elements each takes the next; the rest of the warp has the next rows. A row
// of more than LONG elements is summed in pieces of PIECE, which begin at multiples of it wherever
// rows do, and these in their order. So no bit follows from when something ran.
//   -DPF_T=  dtype
//   -DPF_V=  columns of a thread
#include "kernels/error_args.h"
#include "kernels/integers.h"

struct pf_sparse {
  void* out;
  const pf_i64 *starts, *columns, *order;       // the last or null; of dots: each element's row
  const void *values, *x;                       // the former or null
  void* partial;                                // [2 * pieces, width] sums of rows
  pf_i64 rows, elements, count, x_rows, width;  // count: values
  pf_i32 lanes, split;
  pf_error error;
};
static_assert(sizeof(pf_sparse) == 136, "as hosts fill it");

enum { PIECE = 256, LONG = 512 };  // at most two rows that are long meet in a piece

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
enum { V = PF_V, MANY = 4 };  // MANY elements are asked for at a time

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
    r.is_long = r.end - r.begin > LONG;
  }
  return r;
}
PF_DEVICE pf_i64 pf_row_of(const pf_sparse& q, pf_i64 element) {
  return pf_up_to(q.starts, q.rows + 1, element) - 1;
}

// What a thread is to its warp.
struct pf_part {
  pf_i64 lane, turn, row, rows, tiles;  // of `rows` of a warp; tiles: of columns
};
PF_DEVICE pf_part pf_part_of(const pf_sparse& q) {
  const pf_i32 lane = static_cast<pf_i32>(pf_lane()), all = q.lanes * q.split;
  return {lane % q.lanes, lane / q.lanes % q.split, lane / all, PF_WARP / all,
          (q.width + q.lanes * V - 1) / (q.lanes * V)};
}

// The sum of every `step`th element in columns c, ...
PF_DEVICE void pf_sum_of(const pf_sparse& q, pf_i64 begin, pf_i64 end, pf_i64 step, pf_i64 c,
                         C* sum) {
  for (pf_i64 k = begin; k < end; k += MANY * step) {
    pf_i64 from[MANY];
    C factor[MANY], x[MANY][V];
    PF_UNROLL for (int j = 0; j < MANY; ++j) {
      const pf_i64 at = k + j * step;
      from[j] = -1;
      factor[j] = C(1);
      if (at >= end) continue;
      const pf_i64 column = q.columns[at], value = q.order ? q.order[at] : at;
      if (column < 0 || column >= q.x_rows) {
        pf_bad_index(q.error, column, 0, q.x_rows);
      } else if (value < 0 || value >= q.count) {
        pf_bad_index(q.error, value, 0, q.count);
      } else {
        from[j] = column * q.width + c;
        if (q.values) factor[j] = pf_get<T>(q.values, value);
      }
    }
    PF_UNROLL for (int j = 0; j < MANY; ++j) if (from[j] >= 0)
        pf_load<T, V, false>(static_cast<const T*>(q.x) + from[j], x[j]);
    PF_UNROLL for (int j = 0; j < MANY; ++j) if (from[j] >= 0) PF_UNROLL for (int v = 0; v < V; ++v)
        sum[v] = sum[v] + factor[j] * x[j][v];
  }
}
// The sums of the threads that share a row; all of the warp take part.
PF_DEVICE void pf_join_turns(const pf_sparse& q, C* sum) {
  PF_NO_UNROLL for (pf_i32 d = q.lanes; d < q.lanes * q.split; d *= 2)
      PF_UNROLL for (int v = 0; v < V; ++v) sum[v] =
          sum[v] + pf_shuffle_xor(sum[v], static_cast<pf_u32>(d));
}
PF_DEVICE void pf_write(const pf_sparse& q, pf_i64 at, C* sum) {
  PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = pf_dtype<T>::round(sum[v]);
  pf_store<T, V, false>(static_cast<T*>(q.out) + at, sum);
}

PF_KERNEL(pf_sparse_rows, 256)(const pf_sparse q) {
  const pf_part p = pf_part_of(q);
  const pf_i64 items = (q.rows + p.rows - 1) / p.rows * p.tiles;
  const pf_i64 by = static_cast<pf_i64>(pf_item_step() / PF_WARP);
  for (pf_i64 i = static_cast<pf_i64>(pf_first_item() / PF_WARP); i < items; i += by) {
    const pf_i64 group = p.tiles == 1 ? i : i / p.tiles;
    const pf_i64 row = group * p.rows + p.row;
    const pf_i64 c = ((i - group * p.tiles) * q.lanes + p.lane) * V;
    const pf_row r = pf_row_at(q, row, c < q.width);
    C sum[V];
    PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = C(0);
    if (r.is && !r.is_long) pf_sum_of(q, r.begin + p.turn, r.end, q.split, c, sum);
    pf_join_turns(q, sum);
    if (r.is && !r.is_long && p.turn == 0) pf_write(q, row * q.width + c, sum);
  }
}

// Of long rows: the sum of each piece's first row, and of its last where that is another one.
PF_KERNEL(pf_sparse_pieces, 256)(const pf_sparse q) {
  const pf_part p = pf_part_of(q);
  const pf_i64 pieces = (q.elements + PIECE - 1) / PIECE;
  const pf_i64 items = (pieces + p.rows - 1) / p.rows * p.tiles;
  const pf_i64 by = static_cast<pf_i64>(pf_item_step() / PF_WARP);
  for (pf_i64 i = static_cast<pf_i64>(pf_first_item() / PF_WARP); i < items; i += by) {
    const pf_i64 group = p.tiles == 1 ? i : i / p.tiles;
    const pf_i64 piece = group * p.rows + p.row;
    const pf_i64 c = ((i - group * p.tiles) * q.lanes + p.lane) * V;
    const pf_i64 first = piece * PIECE, last = pf_between(first + PIECE, 0, q.elements);
    const bool there = piece < pieces && c < q.width;
    const pf_i64 rows[2] = {there ? pf_row_of(q, first) : 0, there ? pf_row_of(q, last - 1) : 0};
    PF_NO_UNROLL for (int half = 0; half < 2; ++half) {
      const pf_row r = pf_row_at(q, rows[half], there && (half == 0 || rows[0] != rows[1]));
      if (!pf_any(r.is_long)) continue;
      C sum[V];
      PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = C(0);
      if (r.is_long)
        pf_sum_of(q, pf_between(r.begin, first, last) + p.turn, pf_between(r.end, first, last),
                  q.split, c, sum);
      pf_join_turns(q, sum);
      if (r.is_long && p.turn == 0)
        PF_UNROLL for (int v = 0; v < V; ++v) static_cast<C*>(
            q.partial)[(2 * piece + half) * q.width + c + v] = sum[v];
    }
  }
}
// A block adds up the pieces of the long row that begins in its one, for `lanes` threads' columns.
PF_KERNEL(pf_sparse_joined, 256)(const pf_sparse q) {
  PF_SHARED C room[256 * V];
  const pf_i64 pieces = (q.elements + PIECE - 1) / PIECE;
  const pf_part p = pf_part_of(q);
  const pf_i32 thread = static_cast<pf_i32>(pf_thread());
  const pf_i32 lane = thread % q.lanes, turn = thread / q.lanes;
  const pf_i32 turns = static_cast<pf_i32>(pf_threads()) / q.lanes;
  for (pf_i64 i = pf_block(); i < pieces * p.tiles; i += pf_blocks()) {
    const pf_i64 piece = p.tiles == 1 ? i : i / p.tiles;
    const pf_i64 c = ((i - piece * p.tiles) * q.lanes + lane) * V;
    const pf_i64 first = piece * PIECE, last = pf_between(first + PIECE, 0, q.elements);
    const pf_i64 row = pf_row_of(q, last - 1);
    const pf_row r = pf_row_at(q, row, true);
    if (!r.is_long || r.begin < first) continue;  // the same for all threads of the block
    C sum[V];
    PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = C(0);
    const pf_i64 until = (r.end - 1) / PIECE;
    if (c < q.width)
      for (pf_i64 k = piece + turn; k <= until; k += turns) {
        const pf_i64 half = k == piece && r.begin > first;
        PF_UNROLL for (int v = 0; v < V; ++v) sum[v] =
            sum[v] + static_cast<const C*>(q.partial)[(2 * k + half) * q.width + c + v];
      }
    PF_UNROLL for (int v = 0; v < V; ++v) room[thread * V + v] = sum[v];
    pf_barrier();
    PF_NO_UNROLL for (pf_i32 d = turns / 2; d > 0; d /= 2) {
      if (turn < d)
        PF_UNROLL for (int v = 0; v < V; ++v) room[thread * V + v] =
            room[thread * V + v] + room[(thread + d * q.lanes) * V + v];
      pf_barrier();
    }
    PF_UNROLL for (int v = 0; v < V; ++v) sum[v] = room[thread * V + v];
    if (turn == 0 && c < q.width) pf_write(q, row * q.width + c, sum);
    pf_barrier();
  }
}

// `lanes` threads have MANY elements, which are neighbours.
PF_KERNEL(pf_sparse_dots, 256)(const pf_sparse q) {
  const pf_part p = pf_part_of(q);
  const pf_i64 items = (q.elements + p.rows * MANY - 1) / (p.rows * MANY);
  const pf_i64 by = static_cast<pf_i64>(pf_item_step() / PF_WARP);
  for (pf_i64 i = static_cast<pf_i64>(pf_first_item() / PF_WARP); i < items; i += by) {
    const pf_i64 first = (i * p.rows + p.row) * MANY;
    const T *a[MANY], *b[MANY];
    C sum[MANY];
    PF_UNROLL for (int j = 0; j < MANY; ++j) {
      const pf_i64 k = first + j;
      a[j] = nullptr;
      b[j] = nullptr;
      sum[j] = C(0);
      if (k >= q.elements) continue;
      const pf_i64 row = q.order[k], column = q.columns[k];
      if (column < 0 || column >= q.x_rows) {
        pf_bad_index(q.error, column, 0, q.x_rows);
      } else if (row >= 0 && row < q.rows && q.starts[row] <= k && k < q.starts[row + 1]) {
        a[j] = static_cast<const T*>(q.values) + row * q.width;
        b[j] = static_cast<const T*>(q.x) + column * q.width;
      }
    }
    for (pf_i64 c = p.lane * V; c < q.width; c += q.lanes * V) {
      C x[MANY][V], y[MANY][V];
      PF_UNROLL for (int j = 0; j < MANY; ++j) if (a[j]) {
        pf_load<T, V, false>(a[j] + c, x[j]);
        pf_load<T, V, false>(b[j] + c, y[j]);
      }
      PF_UNROLL for (int j = 0; j < MANY; ++j) if (a[j]) PF_UNROLL for (int v = 0; v < V; ++v)
          sum[j] = sum[j] + x[j][v] * y[j][v];
    }
    PF_NO_UNROLL for (pf_i32 d = 1; d < q.lanes; d *= 2) PF_UNROLL for (int j = 0; j < MANY; ++j)
        sum[j] = sum[j] + pf_shuffle_xor(sum[j], static_cast<pf_u32>(d));
    PF_UNROLL for (int j = 0; j < MANY; ++j) if (p.lane == 0 && first + j < q.elements)
        pf_put<T>(q.out, first + j, sum[j]);
  }
}

#else

// The row of each of n elements: how many rows but the first begin at or before it.
PF_KERNEL(pf_sparse_numbers, 256)(pf_i64* out, const pf_i64* starts, pf_i64 rows, pf_i64 n) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(n); u += pf_item_step())
    out[u] = pf_up_to(starts + 1, rows > 0 ? rows - 1 : 0, static_cast<pf_i64>(u));
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
    const pf_i64 i = static_cast<pf_i64>(u), k = units == 1 ? i : i / units;
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

constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 1 << 16;

Function general(const KernelArgs& a, const char* entry) {
  return a.compile("kernels_sparse.cpp", Defines().text("PF_INDEX", "pf_u64"), entry);
}

// How a row of `width` is spread over a warp, and the text for it.
struct Rows {
  const KernelArgs& a;
  DType type;
  int64_t vec, warp;

  // `rows` of tensors beside each other in memory.
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
  Function text(const char* entry) const {
    return a.compile("kernels_sparse.cpp",
                     Defines().type("PF_T", type).value("PF_V", vec).text("PF_INDEX", "pf_u64"),
                     entry);
  }
  // A warp each for so many items.
  void launch(const char* entry, int64_t items, const pf_sparse& q) const {
    a.launch(text(entry), blocks_for(items * warp, kBlock, kMostBlocks), kBlock, 0, q);
  }
};

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
  const int64_t split = std::clamp<int64_t>(mean / 2, 1, by.warp / lanes);
  q.lanes = static_cast<pf_i32>(lanes);
  q.split = static_cast<pf_i32>(std::bit_floor(static_cast<uint64_t>(split)));
  const int64_t tiles = ceil_div(q.width, lanes * by.vec), at_once = by.warp / (lanes * q.split);
  by.launch("pf_sparse_rows", ceil_div(q.rows, at_once) * tiles, q);
  if (q.elements <= LONG) return;
  const int64_t pieces = ceil_div(q.elements, PIECE);
  const size_t wide = by.type == DType::Float64 ? 8 : 4;
  q.partial = a.workspace(static_cast<size_t>(2 * pieces * q.width) * wide);
  by.launch("pf_sparse_pieces", ceil_div(pieces, at_once) * tiles, q);
  a.launch(by.text("pf_sparse_joined"), std::min(pieces * tiles, kMostBlocks), kBlock, 0, q);
}

void row_numbers(const KernelArgs& a, pf_i64* out, const void* starts, int64_t rows, int64_t n) {
  a.launch(general(a, "pf_sparse_numbers"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0, out,
           starts, rows, n);
}

void sparse_row_numbers(const KernelArgs& a) {
  constexpr auto at = tensors<SparseRowNumbers>;
  row_numbers(a, static_cast<pf_i64*>(a.data(at.out)), a.data(at.starts),
              a.tensor(at.starts).shape[0] - 1, a.tensor(at.out).shape[0]);
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
  row_numbers(a, rows, q.starts, q.rows, q.elements);
  q.order = rows;
  const Rows by(a, at.b, q.width, {q.values, q.x});
  q.lanes = static_cast<pf_i32>(by.lanes(q.width));
  q.split = 1;
  constexpr int64_t kMany = 4;  // MANY
  by.launch("pf_sparse_dots", ceil_div(q.elements, kMany * (by.warp / q.lanes)), q);
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
  a.launch(general(a, "pf_sparse_places"), blocks_for(n * units, kBlock, kMostBlocks), kBlock, 0,
           out.data, a.data(at.places), values.data, n, out.shape[0], units,
           static_cast<int>(bytes), a.error());
}

}  // namespace

PF_GPU_KERNEL(SparseRows::kInfo, sparse_rows)
PF_GPU_KERNEL(SparseDots::kInfo, sparse_dots)
PF_GPU_KERNEL(SparseOrder::kInfo, sparse_order)
PF_GPU_KERNEL(SparseRowNumbers::kInfo, sparse_row_numbers)
PF_GPU_KERNEL(SparsePlaces::kInfo, sparse_places)

}  // namespace pyflame::gpu
#endif
