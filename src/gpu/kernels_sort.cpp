// Launchers of sort, topk, unique, masks and their places, randperm.
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/sorting.h"

namespace pyflame::gpu {

namespace {
constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 1 << 16;
constexpr int64_t kRadixTile = 2048;  // of kernels/radix.h
constexpr int64_t kDigits = 256;
constexpr int64_t kFewTiles = 32;      // one thread goes through them for each digit
constexpr int64_t kDigitBlocks = 256;  // that count the digits of all passes
constexpr int kSmallAtBits = 11;       // of kernels/small_sort.h
}  // namespace

pf_tensor without(const pf_tensor& t, int dim) {
  pf_tensor r = t;
  for (int d = dim; d + 1 < t.ndim; ++d) {
    r.shape[d] = t.shape[d + 1];
    r.strides[d] = t.strides[d + 1];
  }
  --r.ndim;
  return r;
}

Pairs make_pairs(const KernelArgs& a, int64_t rows, int64_t n) {
  const size_t bytes = static_cast<size_t>(rows * n) * 8;
  return {rows,
          n,
          static_cast<uint64_t*>(a.workspace(bytes)),
          static_cast<int64_t*>(a.workspace(bytes)),
          static_cast<uint64_t*>(a.workspace(bytes)),
          static_cast<int64_t*>(a.workspace(bytes))};
}

namespace {

struct Radix {  // pf_radix of kernels/radix.h
  uint64_t* keys[2];
  int64_t* at[2];
  uint32_t *digits, *counts;
  uint64_t* moves;
  int64_t n, tiles;
  int32_t low, passes;
};

struct FewPairs {  // pf_few_pairs
  const uint64_t* keys;
  const int64_t* at;
  uint64_t* keys_out;
  int64_t* at_out;
  int64_t rows;
  int32_t n, low, high, padded;
};

}  // namespace

void sort_pairs(const KernelArgs& a, Pairs& p, int low, int high) {
  if (p.rows == 0 || p.n < 2 || low >= high) return;
  const Defines d = Defines().text("PF_INDEX", "pf_u64");
  const auto text = [&](const char* entry) { return a.compile("points.h", d, entry); };
  if (p.n <= kSmallRow) {
    const bool wide = high - low > 64 - kSmallAtBits;
    a.launch(text(wide ? "pf_sort_wide_pairs" : "pf_sort_pairs"), std::min(p.rows, kMostBlocks),
             kBlock, 0,
             FewPairs{p.keys, p.at, p.spare_keys, p.spare_at, p.rows, static_cast<int>(p.n), low,
                      high, static_cast<int>(power_of_two_from(p.n))});
    std::swap(p.keys, p.spare_keys);
    std::swap(p.at, p.spare_at);
    return;
  }
  const int64_t tiles = ceil_div(p.n, kRadixTile), passes = ceil_div(high - low, 8);
  const size_t digits = static_cast<size_t>(p.rows * passes) * kDigits * 4;
  const Radix q{
      {p.keys, p.spare_keys},
      {p.at, p.spare_at},
      static_cast<uint32_t*>(a.workspace(digits)),
      static_cast<uint32_t*>(a.workspace(static_cast<size_t>(p.rows * tiles) * kDigits * 4)),
      static_cast<uint64_t*>(a.workspace(static_cast<size_t>(p.rows) * 8)),
      p.n,
      tiles,
      low,
      static_cast<int32_t>(passes)};
  a.fill(q.digits, 0, digits);
  const int64_t parts = std::min(tiles, std::max<int64_t>(1, kDigitBlocks / p.rows));
  a.launch(text("pf_radix_digits"), p.rows * parts, kBlock, 0, q, parts);
  a.launch(text("pf_radix_plan"), p.rows, kBlock, 0, q);
  const bool few = tiles <= kFewTiles;
  const Function count = text("pf_radix_count"), move = text("pf_radix_move"),
                 scan = text(few ? "pf_radix_scan_few" : "pf_radix_scan");
  for (int pass = 0; pass < q.passes; ++pass) {
    a.launch(count, p.rows * tiles, kBlock, 0, q, pass);
    a.launch(scan, few ? p.rows : p.rows * kDigits, kBlock, 0, q, pass);
    a.launch(move, p.rows * tiles, kBlock, 0, q, pass);
  }
  const int wanted = static_cast<int>(passes % 2);
  a.launch(text("pf_radix_settle"), p.rows * tiles, kBlock, 0, q, wanted);
  if (wanted) {
    std::swap(p.keys, p.spare_keys);
    std::swap(p.at, p.spare_at);
  }
}

void running_places(const KernelArgs& a, int64_t* sums, int64_t tiles, int64_t* total) {
  a.launch(a.compile("select.h", Defines().text("PF_INDEX", "pf_u64"), "pf_scan_sums"), 1, kBlock,
           0, sums, tiles, total);
}

void running_sum(const KernelArgs& a, int64_t* values, int64_t n, int64_t* total) {
  const int64_t tiles = ceil_div(n, kScanTile);
  auto* sums = static_cast<int64_t*>(a.workspace(static_cast<size_t>(tiles) * 8));
  const auto text = [&](const char* entry) {
    return a.compile("select.h", Defines().text("PF_INDEX", "pf_u64"), entry);
  };
  a.launch(text("pf_tile_sums"), tiles, kBlock, 0, values, n, sums);
  running_places(a, sums, tiles, total);
  a.launch(text("pf_tile_scan"), tiles, kBlock, 0, values, n, sums);
}

namespace {

// ---- rows of a tensor ---------------------------------------------------------------------------

// pf_sort_rows of kernels/sort.h.
struct SortRows {
  Space rows;
  int64_t n, k, in_step, value_step, index_step;
};

// The bits in which keys of a dtype differ.
void key_bits(DType t, int* low, int* high) {
  *low = t == DType::BFloat16 ? 16 : t == DType::Float16 ? 8 : 0;
  *high = itemsize(t) == 8 ? 64 : is_float(t) ? 32 : 8 * static_cast<int>(itemsize(t));
}

// values, indices: the first k of each sorted row along `dim`.
void sorted_rows(const KernelArgs& a, int dim, bool descending) {
  const pf_tensor &values = a.tensor(0), &indices = a.tensor(1), &in = a.tensor(2);
  if (numel(values) == 0) return;
  pf_tensor x = without(in, dim), v = without(values, dim), i = without(indices, dim);
  SortRows q{make_space({&x, &v, &i}), in.shape[dim],       values.shape[dim],
             in.strides[dim],          values.strides[dim], indices.strides[dim]};
  const auto text = [&](const char* entry) {
    return a.compile(
        "sort.h", Defines().type("PF_T", a.dtype(2)).text("PF_INDEX", index_type(q.rows)), entry);
  };
  const int down = descending;
  if (q.n <= kSmallRow) {
    a.launch(text("pf_sort_small"), std::min(q.rows.numel, kMostBlocks), kBlock, 0, q, in.data,
             values.data, indices.data, down, static_cast<int>(power_of_two_from(q.n)));
    return;
  }
  Pairs p = make_pairs(a, q.rows.numel, q.n);
  const Grid grid = blocks_for(q.rows.numel * q.n, kBlock, kMostBlocks);
  a.launch(text("pf_sort_keys"), grid, kBlock, 0, q, in.data, p.keys, p.at, down);
  int low, high;
  key_bits(a.dtype(2), &low, &high);
  sort_pairs(a, p, low, high);
  a.launch(text("pf_sort_write"), blocks_for(q.rows.numel * q.k, kBlock, kMostBlocks), kBlock, 0, q,
           in.data, values.data, indices.data, p.at);
}

// attrs: dim, descending
void sort(const KernelArgs& a) {
  sorted_rows(a, static_cast<int>(a.i(0)), a.i(1) != 0);
}
// attrs: dim, largest
void topk(const KernelArgs& a) {
  sorted_rows(a, static_cast<int>(a.i(0)), a.i(1) != 0);
}

// out: the position of one element of each row along dim; in. attrs: dim, which, its number.
void nth(const KernelArgs& a) {
  const int dim = static_cast<int>(a.i(0));
  const pf_tensor &out = a.tensor(0), &in = a.tensor(1);
  if (numel(out) == 0) return;
  pf_tensor x = without(in, dim), i = without(out, dim);
  SortRows q{make_space({&x, &i}), in.shape[dim], in.shape[dim], in.strides[dim], 0, 0};
  const auto text = [&](const char* entry) {
    return a.compile(
        "sort.h", Defines().type("PF_T", a.dtype(1)).text("PF_INDEX", index_type(q.rows)), entry);
  };
  if (q.n <= kSmallRow) {
    a.launch(text("pf_nth_small"), std::min(q.rows.numel, kMostBlocks), kBlock, 0, q, in.data,
             a.data(0), a.i(1), a.i(2), static_cast<int>(power_of_two_from(q.n)));
    return;
  }
  Pairs p = make_pairs(a, q.rows.numel, q.n);
  a.launch(text("pf_sort_keys"), blocks_for(q.rows.numel * q.n, kBlock, kMostBlocks), kBlock, 0, q,
           in.data, p.keys, p.at, 0);
  int low, high;
  key_bits(a.dtype(1), &low, &high);
  sort_pairs(a, p, low, high);
  a.launch(text("pf_pick_nth"), blocks_for(q.rows.numel, kBlock, kMostBlocks), kBlock, 0, q,
           in.data, p.at, a.data(0), a.i(1), a.i(2));
}

// outs: number of the group of equal neighbours that each element is in, count of groups; in: 1-D.
void group_equal(const KernelArgs& a) {
  const pf_tensor& in = a.tensor(2);
  const int64_t n = numel(in);
  if (n == 0) return a.fill(a.data(1), 0, 8);
  auto* group = static_cast<int64_t*>(a.data(0));
  const Defines d = Defines().type("PF_T", a.dtype(2)).text("PF_INDEX", "pf_u64");
  a.launch(a.compile("sort.h", d, "pf_group_marks"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0,
           in.data, in.strides[0], n, group);
  running_sum(a, group, n);
  // The last element's group, and one.
  a.copy(a.data(1), group + n - 1, 8);
  a.launch(a.compile("select.h", Defines().text("PF_INDEX", "pf_u64"), "pf_add_one"), 1, kBlock, 0,
           a.data(1));
}

// outs: values, inverse, counts; ins: sorted, positions before sorting (or none), groups.
void unique(const KernelArgs& a) {
  const int64_t n = numel(a.tensor(3));
  a.fill(a.data(2), 0, static_cast<size_t>(numel(a.tensor(2))) * 8);
  if (n == 0) return;
  const Defines d = Defines().type("PF_T", a.dtype(0)).text("PF_INDEX", "pf_u64");
  a.launch(a.compile("sort.h", d, "pf_unique"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0,
           a.data(3), a.has(4) ? a.data(4) : nullptr, a.data(5), a.data(0), a.data(1), a.data(2),
           n);
}

// The order of random 64-bit keys, ties by position. attrs: seed, offset
void randperm(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(0);
  const int64_t n = numel(out);
  if (n == 0) return;
  Pairs p = make_pairs(a, 1, n);
  const Defines d = Defines().type("PF_T", a.dtype(0)).text("PF_INDEX", "pf_u64");
  const Grid grid = blocks_for(n, kBlock, kMostBlocks);
  a.launch(a.compile("choose.h", d, "pf_random_keys"), grid, kBlock, 0, p.keys, p.at, n, a.i(0),
           a.i(1));
  sort_pairs(a, p, 0, 64);
  a.launch(a.compile("choose.h", d, "pf_write_order"), grid, kBlock, 0, out.data, out.strides[0],
           p.at, n);
}

// outs: samples int64 [rows, k], status int64 [1]; ins: weights [rows, n].
// attrs: seed, offset, replacement. The status is what the CPU's kernel gives.
void multinomial(const KernelArgs& a) {
  const pf_tensor &out = a.tensor(0), &weights = a.tensor(2);
  const int64_t rows = weights.shape[0], n = weights.shape[1], k = out.shape[1];
  const int replacement = a.i(2) != 0;
  a.fill(a.data(1), 0, 8);
  if (rows == 0 || n == 0) return;
  const Defines d = Defines().type("PF_T", a.dtype(2)).text("PF_INDEX", "pf_u64");
  constexpr int64_t kTile = 1024;  // TILE of kernels/choose.h
  const int64_t tiles = ceil_div(n, kTile);
  auto* sums = static_cast<double*>(a.workspace(static_cast<size_t>(rows * n) * 8));
  auto* totals = static_cast<double*>(a.workspace(static_cast<size_t>(rows * tiles) * 8));
  auto* marks = static_cast<uint32_t*>(a.workspace(static_cast<size_t>(rows * tiles) * 4));
  auto* last = static_cast<int64_t*>(a.workspace(static_cast<size_t>(rows) * 8));
  const int64_t each = std::min<int64_t>(kTile / std::min(n, kTile), kBlock);
  a.launch(a.compile("choose.h", d, "pf_weights"),
           blocks_for(rows * tiles, static_cast<int>(each), kMostBlocks), kBlock, 0, weights.data,
           weights.strides[0], weights.strides[1], rows, n, replacement, sums, totals, marks);
  const int64_t together = kBlock / std::min<int64_t>(tiles, kBlock);
  a.launch(a.compile("choose.h", d, "pf_rows_of_weights"),
           blocks_for(rows, static_cast<int>(together), kMostBlocks), kBlock, 0, totals, marks,
           rows, tiles, k, replacement, last, a.data(1));
  a.launch(a.compile("choose.h", d, "pf_status"), 1, 1, 0, a.data(1));
  if (k == 0) return;
  if (replacement) {
    a.launch(a.compile("choose.h", d, "pf_draw"), blocks_for(rows * k, kBlock, kMostBlocks), kBlock,
             0, sums, totals, last, rows, n, k, a.i(0), a.i(1), a.data(0));
    return;
  }
  Pairs p = make_pairs(a, rows, n);
  a.launch(a.compile("choose.h", d, "pf_race"), blocks_for(rows * n, kBlock, kMostBlocks), kBlock,
           0, sums, rows, n, a.i(0), a.i(1), p.keys, p.at);
  sort_pairs(a, p, 0, 64);
  a.launch(a.compile("choose.h", d, "pf_arrivals"), blocks_for(rows * k, kBlock, kMostBlocks),
           kBlock, 0, p.at, rows, n, k, a.data(0));
}

// ---- masks --------------------------------------------------------------------------------------

// Every tile's first place among the elements that tensor `mask` keeps.
struct Kept {
  Space s;
  Defines d;
  int64_t tiles = 0;
  int64_t* sums = nullptr;
};
Kept kept(const KernelArgs& a, const pf_tensor& mask, const pf_tensor* other, int64_t* total) {
  Kept r;
  r.s = other ? make_space({&mask, other}) : make_space({&mask});
  r.d = Defines().type("PF_MASK", static_cast<DType>(mask.dtype)).text("PF_INDEX", index_type(r.s));
  if (other)
    r.d = std::move(r.d).value("PF_BYTES",
                               static_cast<int64_t>(itemsize(static_cast<DType>(other->dtype))));
  r.tiles = ceil_div(r.s.numel, kScanTile);
  if (r.tiles == 0) {
    if (total) a.fill(total, 0, 8);
    return r;
  }
  r.sums = static_cast<int64_t*>(a.workspace(static_cast<size_t>(r.tiles) * 8));
  a.launch(a.compile("select.h", r.d, "pf_mask_sums"), r.tiles, kBlock, 0, r.s, mask.data, r.sums);
  running_places(a, r.sums, r.tiles, total);
  return r;
}

void count_true(const KernelArgs& a) {
  kept(a, a.tensor(1), nullptr, static_cast<int64_t*>(a.data(0)));
}

void nonzero(const KernelArgs& a) {
  const pf_tensor& in = a.tensor(1);
  const Kept r = kept(a, in, nullptr, nullptr);
  if (r.tiles == 0 || a.tensor(0).shape[0] == 0) return;
  struct {
    int64_t ndim, size[PF_MAX_DIMS];
  } shape{in.ndim, {}};
  std::copy_n(in.shape, in.ndim, shape.size);
  a.launch(a.compile("select.h", r.d, "pf_nonzero"), r.tiles, kBlock, 0, r.s, in.data, r.sums,
           shape, a.data(0), a.tensor(0).shape[0]);
}

// out, input, mask of one shape; out has as many elements as the mask is true.
void masked_select(const KernelArgs& a) {
  const Kept r = kept(a, a.tensor(2), &a.tensor(1), nullptr);
  if (r.tiles == 0 || !a.has(0)) return;
  a.launch(a.compile("select.h", r.d, "pf_masked_select"), r.tiles, kBlock, 0, r.s, a.data(2),
           r.sums, a.data(0), a.data(1), numel(a.tensor(0)));
}

// out (in place), mask, source (contiguous): true places take the source's elements in turn.
void masked_scatter(const KernelArgs& a) {
  const Kept r = kept(a, a.tensor(1), &a.tensor(0), nullptr);
  if (r.tiles == 0) return;
  a.launch(a.compile("select.h", r.d, "pf_masked_scatter"), r.tiles, kBlock, 0, r.s, a.data(1),
           r.sums, a.data(0), a.data(2), numel(a.tensor(2)));
}

}  // namespace

PF_GPU_KERNEL("sort", sort)
PF_GPU_KERNEL("topk", topk)
PF_GPU_KERNEL("nth", nth)
PF_GPU_KERNEL("group_equal", group_equal)
PF_GPU_KERNEL("unique", unique)
PF_GPU_KERNEL("randperm", randperm)
PF_GPU_KERNEL("multinomial", multinomial)
PF_GPU_KERNEL("count_true", count_true)
PF_GPU_KERNEL("nonzero", nonzero)
PF_GPU_KERNEL("masked_select", masked_select)
PF_GPU_KERNEL("masked_scatter", masked_scatter)

}  // namespace pyflame::gpu
