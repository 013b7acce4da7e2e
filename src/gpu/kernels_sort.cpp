// Launchers of sort, topk, unique, masks and their places, randperm.
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/sorting.h"
#include "kernels/radix_args.h"
#include "kernels/select_args.h"
#include "kernels/sort_args.h"
#include "table/kernels/index.h"
#include "table/kernels/random.h"
#include "table/kernels/sort.h"

namespace pyflame::gpu {

namespace {

using namespace kernels;

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
          static_cast<pf_u64*>(a.workspace(bytes)),
          static_cast<pf_i64*>(a.workspace(bytes)),
          static_cast<pf_u64*>(a.workspace(bytes)),
          static_cast<pf_i64*>(a.workspace(bytes))};
}

void sort_pairs(const KernelArgs& a, Pairs& p, int low, int high) {
  if (p.rows == 0 || p.n < 2 || low >= high) return;
  const Defines d = Defines().text("PF_INDEX", "pf_u64");
  const auto text = [&](const char* entry) { return a.compile("points.h", d, entry); };
  if (p.n <= kSmallRow) {
    const bool wide = high - low > 64 - kSmallAtBits;
    a.launch(text(wide ? "pf_sort_wide_pairs" : "pf_sort_pairs"), std::min(p.rows, kMostBlocks),
             kBlock, 0,
             pf_few_pairs{p.keys, p.at, p.spare_keys, p.spare_at, p.rows, static_cast<int>(p.n),
                          low, high, static_cast<int>(power_of_two_from(p.n))});
    std::swap(p.keys, p.spare_keys);
    std::swap(p.at, p.spare_at);
    return;
  }
  const int64_t tiles = ceil_div(p.n, kRadixTile), passes = ceil_div(high - low, 8);
  const size_t digits = static_cast<size_t>(p.rows * passes) * kDigits * 4;
  const pf_radix_args q{
      {p.keys, p.spare_keys},
      {p.at, p.spare_at},
      static_cast<uint32_t*>(a.workspace(digits)),
      static_cast<uint32_t*>(a.workspace(static_cast<size_t>(p.rows * tiles) * kDigits * 4)),
      static_cast<pf_u64*>(a.workspace(static_cast<size_t>(p.rows) * 8)),
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
  a.launch(a.compile("select.h", Defines().text("PF_INDEX", "pf_u64"), "pf_scan_sums"), 1, 1024, 0,
           sums, tiles, total);
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

// The bits in which keys of a dtype differ.
void key_bits(DType t, int* low, int* high) {
  *low = t == DType::BFloat16 ? 16 : t == DType::Float16 ? 8 : 0;
  *high = itemsize(t) == 8 ? 64 : is_float(t) ? 32 : 8 * static_cast<int>(itemsize(t));
}

// values, indices: the first k of each sorted row along `dim`.
template <class K>
void sorted_rows(const KernelArgs& a, int dim, bool descending) {
  constexpr auto at = tensors<K>;
  const pf_tensor &values = a.tensor(at.values), &indices = a.tensor(at.indices);
  const pf_tensor& in = a.tensor(at.x);
  if (numel(values) == 0) return;
  pf_tensor x = without(in, dim), v = without(values, dim), i = without(indices, dim);
  const Space rows = make_space({&x, &v, &i});
  const pf_sort_rows q{rows,
                       in.shape[dim],
                       values.shape[dim],
                       in.strides[dim],
                       values.strides[dim],
                       indices.strides[dim]};
  const auto text = [&](const char* entry) {
    return a.compile(
        "sort.h", Defines().type("PF_T", a.dtype(at.x)).text("PF_INDEX", index_type(rows)), entry);
  };
  const int down = descending;
  if (q.n <= kSmallRow) {
    a.launch(text("pf_sort_small"), std::min<int64_t>(rows.numel, kMostBlocks), kBlock, 0, q,
             in.data, values.data, indices.data, down, static_cast<int>(power_of_two_from(q.n)));
    return;
  }
  Pairs p = make_pairs(a, rows.numel, q.n);
  const Grid grid = blocks_for(rows.numel * q.n, kBlock, kMostBlocks);
  a.launch(text("pf_sort_keys"), grid, kBlock, 0, q, in.data, p.keys, p.at, down);
  int low, high;
  key_bits(a.dtype(at.x), &low, &high);
  sort_pairs(a, p, low, high);
  a.launch(text("pf_sort_write"), blocks_for(rows.numel * q.k, kBlock, kMostBlocks), kBlock, 0, q,
           in.data, values.data, indices.data, p.at);
}

void sort(const KernelArgs& a) {
  constexpr auto number = numbers<Sort>;
  sorted_rows<Sort>(a, static_cast<int>(a.i(number.dim)), a.i(number.descending) != 0);
}
void topk(const KernelArgs& a) {
  constexpr auto number = numbers<TopK>;
  sorted_rows<TopK>(a, static_cast<int>(a.i(number.dim)), a.i(number.largest) != 0);
}

void nth(const KernelArgs& a) {
  constexpr auto at = tensors<NthIndex>;
  constexpr auto number = numbers<NthIndex>;
  const int dim = static_cast<int>(a.i(number.dim));
  const pf_tensor &out = a.tensor(at.out), &in = a.tensor(at.x);
  if (numel(out) == 0) return;
  pf_tensor x = without(in, dim), i = without(out, dim);
  const Space rows = make_space({&x, &i});
  const pf_sort_rows q{rows, in.shape[dim], in.shape[dim], in.strides[dim], 0, 0};
  const auto text = [&](const char* entry) {
    return a.compile(
        "sort.h", Defines().type("PF_T", a.dtype(at.x)).text("PF_INDEX", index_type(rows)), entry);
  };
  if (q.n <= kSmallRow) {
    a.launch(text("pf_nth_small"), std::min<int64_t>(rows.numel, kMostBlocks), kBlock, 0, q,
             in.data, a.data(at.out), a.i(number.which), a.i(number.number),
             static_cast<int>(power_of_two_from(q.n)));
    return;
  }
  Pairs p = make_pairs(a, rows.numel, q.n);
  a.launch(text("pf_sort_keys"), blocks_for(rows.numel * q.n, kBlock, kMostBlocks), kBlock, 0, q,
           in.data, p.keys, p.at, 0);
  int low, high;
  key_bits(a.dtype(at.x), &low, &high);
  sort_pairs(a, p, low, high);
  a.launch(text("pf_pick_nth"), blocks_for(rows.numel, kBlock, kMostBlocks), kBlock, 0, q, in.data,
           p.at, a.data(at.out), a.i(number.which), a.i(number.number));
}

void group_equal(const KernelArgs& a) {
  constexpr auto at = tensors<GroupEqual>;
  const pf_tensor& in = a.tensor(at.x);
  const int64_t n = numel(in);
  if (n == 0) return a.fill(a.data(at.count), 0, 8);
  auto* group = static_cast<int64_t*>(a.data(at.group));
  const Defines d = Defines().type("PF_T", a.dtype(at.x)).text("PF_INDEX", "pf_u64");
  a.launch(a.compile("sort.h", d, "pf_group_marks"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0,
           in.data, in.strides[0], n, group);
  running_sum(a, group, n);
  // The last element's group, and one.
  a.copy(a.data(at.count), group + n - 1, 8);
  a.launch(a.compile("select.h", Defines().text("PF_INDEX", "pf_u64"), "pf_add_one"), 1, kBlock, 0,
           a.data(at.count));
}

void unique(const KernelArgs& a) {
  constexpr auto at = tensors<Unique>;
  const int64_t n = numel(a.tensor(at.sorted));
  a.fill(a.data(at.counts), 0, static_cast<size_t>(numel(a.tensor(at.counts))) * 8);
  if (n == 0) return;
  const Defines d = Defines().type("PF_T", a.dtype(at.values)).text("PF_INDEX", "pf_u64");
  a.launch(a.compile("sort.h", d, "pf_unique"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0,
           a.data(at.sorted), a.has(at.order) ? a.data(at.order) : nullptr, a.data(at.group),
           a.data(at.values), a.data(at.inverse), a.data(at.counts), n);
}

void randperm(const KernelArgs& a) {
  constexpr auto at = tensors<Randperm>;
  constexpr auto number = numbers<Randperm>;
  const pf_tensor& out = a.tensor(at.out);
  const int64_t n = numel(out);
  if (n == 0) return;
  Pairs p = make_pairs(a, 1, n);
  const Defines d = Defines().type("PF_T", a.dtype(at.out)).text("PF_INDEX", "pf_u64");
  const Grid grid = blocks_for(n, kBlock, kMostBlocks);
  a.launch(a.compile("choose.h", d, "pf_random_keys"), grid, kBlock, 0, p.keys, p.at, n,
           a.i(number.seed), a.i(number.offset));
  sort_pairs(a, p, 0, 64);
  a.launch(a.compile("choose.h", d, "pf_write_order"), grid, kBlock, 0, out.data, out.strides[0],
           p.at, n);
}

void multinomial(const KernelArgs& a) {
  constexpr auto at = tensors<Multinomial>;
  constexpr auto number = numbers<Multinomial>;
  const pf_tensor &out = a.tensor(at.out), &weights = a.tensor(at.weights);
  const int64_t rows = weights.shape[0], n = weights.shape[1], k = out.shape[1];
  const int replacement = a.i(number.replacement) != 0;
  a.fill(a.data(at.status), 0, 8);
  if (rows == 0 || n == 0) return;
  const Defines d = Defines().type("PF_T", a.dtype(at.weights)).text("PF_INDEX", "pf_u64");
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
           rows, tiles, k, replacement, last, a.data(at.status));
  a.launch(a.compile("choose.h", d, "pf_status"), 1, 1, 0, a.data(at.status));
  if (k == 0) return;
  if (replacement) {
    a.launch(a.compile("choose.h", d, "pf_draw"), blocks_for(rows * k, kBlock, kMostBlocks), kBlock,
             0, sums, totals, last, rows, n, k, a.i(number.seed), a.i(number.offset),
             a.data(at.out));
    return;
  }
  Pairs p = make_pairs(a, rows, n);
  a.launch(a.compile("choose.h", d, "pf_race"), blocks_for(rows * n, kBlock, kMostBlocks), kBlock,
           0, sums, rows, n, a.i(number.seed), a.i(number.offset), p.keys, p.at);
  sort_pairs(a, p, 0, 64);
  a.launch(a.compile("choose.h", d, "pf_arrivals"), blocks_for(rows * k, kBlock, kMostBlocks),
           kBlock, 0, p.at, rows, n, k, a.data(at.out));
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
  constexpr int64_t kSteps = 16;  // STEPS of select.h
  bool dense = itemsize(static_cast<DType>(mask.dtype)) == 1 && aligned(mask.data, kSteps);
  int64_t together = 1;
  for (int d = r.s.ndim - 1; d >= 0; together *= r.s.shape[d--])
    dense = dense && r.s.strides[0][d] == together;
  if (dense) r.d = std::move(r.d).value("PF_DENSE", 1);
  r.tiles = ceil_div(r.s.numel, kSteps * kBlock);
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
  constexpr auto at = tensors<CountTrue>;
  kept(a, a.tensor(at.x), nullptr, static_cast<int64_t*>(a.data(at.out)));
}

void nonzero(const KernelArgs& a) {
  constexpr auto at = tensors<Nonzero>;
  const pf_tensor& in = a.tensor(at.x);
  const Kept r = kept(a, in, nullptr, nullptr);
  if (r.tiles == 0 || a.tensor(at.out).shape[0] == 0) return;
  pf_shape shape{in.ndim, {}};
  std::copy_n(in.shape, in.ndim, shape.size);
  a.launch(a.compile("select.h", r.d, "pf_nonzero"), r.tiles, kBlock, 0, r.s, in.data, r.sums,
           shape, a.data(at.out), a.tensor(at.out).shape[0]);
}

void masked_select(const KernelArgs& a) {
  constexpr auto at = tensors<MaskedSelect>;
  const Kept r = kept(a, a.tensor(at.mask), &a.tensor(at.x), nullptr);
  if (r.tiles == 0 || !a.has(at.out)) return;
  a.launch(a.compile("select.h", r.d, "pf_masked_select"), r.tiles, kBlock, 0, r.s, a.data(at.mask),
           r.sums, a.data(at.out), a.data(at.x), numel(a.tensor(at.out)));
}

void masked_scatter(const KernelArgs& a) {
  constexpr auto at = tensors<MaskedScatter>;
  const Kept r = kept(a, a.tensor(at.mask), &a.tensor(at.out), nullptr);
  if (r.tiles == 0) return;
  a.launch(a.compile("select.h", r.d, "pf_masked_scatter"), r.tiles, kBlock, 0, r.s,
           a.data(at.mask), r.sums, a.data(at.out), a.data(at.src), numel(a.tensor(at.src)));
}

}  // namespace

PF_GPU_TOGETHER("points.h",
                "pf_point_keys pf_space_offsets pf_radix_digits pf_radix_plan pf_radix_count "
                "pf_radix_scan pf_radix_scan_few pf_radix_move pf_radix_settle")
PF_GPU_KERNEL(Sort::kInfo, sort)
PF_GPU_KERNEL(TopK::kInfo, topk)
PF_GPU_KERNEL(NthIndex::kInfo, nth)
PF_GPU_KERNEL(GroupEqual::kInfo, group_equal)
PF_GPU_KERNEL(Unique::kInfo, unique)
PF_GPU_KERNEL(Randperm::kInfo, randperm)
PF_GPU_KERNEL(Multinomial::kInfo, multinomial)
PF_GPU_KERNEL(CountTrue::kInfo, count_true)
PF_GPU_KERNEL(Nonzero::kInfo, nonzero)
PF_GPU_KERNEL(MaskedSelect::kInfo, masked_select)
PF_GPU_KERNEL(MaskedScatter::kInfo, masked_scatter)

}  // namespace pyflame::gpu
