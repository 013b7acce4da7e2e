// Moments of cells, and sums of their gradients (table/kernels/cells.h), in one pass over memory.
// A tensor is [batch, outer, cells, inner]; the elements of a cell are those of `outer` and
// `inner`. Each thread adds differences from its own first element, so that nothing is lost however
// far from 0 elements are, and threads are joined as means and squares about them, in a tree. No
// order depends on addresses: vectors of W elements are 16 bytes wherever they lie.
//   cell_rows     `inner` in vectors, the last of a run cut: some threads share a chunk of a cell
//   cell_columns  else: threads beside each other have W neighbouring columns (of outer x (cells x
//                 inner)), those above each other rows
//   cell_finish   chunks, and columns of a cell, to results
//
//   -DPF_T=    dtype
//   -DPF_SUMS= 0: moments, 1: sums of g and of g * (x - mean), 2: where the relu in front of g
//   passes -DPF_V=    elements of one access: W where all is whole vectors, else 1 -DPF_PAST= 1:
//   larger than the caches
#include "kernels/integers.h"

struct pf_cells {
  const void *x, *g, *mean;  // the last two of sums
  const void *scale, *bias;  // what the relu saw is bias + (x - mean) * scale
  void *first, *second;      // results
  void* partial;             // of chunks: [batch][chunks][columns] of two numbers
  pf_i64 batch, outer, cells, inner;
  pf_i64 columns;        // what a chunk gives: cells, or columns of them
  pf_i64 chunk, chunks;  // vectors of a cell, or rows
  pf_i64 tiles;          // blocks along what chunks give
  pf_u32 width;          // threads along that; of rows: of one cell
  pf_u32 runs;           // elements of a cell lie side by side
};
static_assert(sizeof(pf_cells) == 136, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/axes.h"
#include "kernels/rows.h"

typedef PF_T T;
typedef pf_compute<T> C;
constexpr int W = 16 / static_cast<int>(sizeof(T)), U = 4;

#define PF_CELL_THREADS 256

// What `more` elements are of all when they come to n: a division for all columns of a thread.
struct pf_share {
  C part, both;
  bool any;
  PF_METHOD static pf_share of(C n, C more) {
    const bool any = !PF_SUMS && more > C(0);
    const C part = any ? more / (n + more) : C(0);
    return {part, n * part, any};
  }
};
// Sums, or a mean with the sum of squares about it.
struct pf_two {
  C first, second;
  PF_METHOD void join(const pf_two& o, const pf_share& s) {
    if constexpr (PF_SUMS) {
      first += o.first;
      second += o.second;
    } else if (s.any) {
      const C by = o.first - first;
      first += by * s.part;
      second += o.second + by * by * s.both;
    }
  }
};
// Of differences from a shift; of gradients their mean is what is subtracted.
struct pf_adding {
  C shift, sum, product;
  PF_METHOD void start(C s) {
    shift = s;
    sum = product = C(0);
  }
  PF_METHOD void add(C x, C g, C scale, C bias) {
    const C d = x - shift;
    C v = PF_SUMS ? g : d;
    if constexpr (PF_SUMS == 2) v = pf_dtype<T>::round(bias + d * scale) <= C(0) ? C(0) : g;
    sum += v;
    product = pf_fma(v, d, product);
  }
  // Of n elements; `inverse` of that.
  PF_METHOD pf_two two(C n, C inverse) const {
    if constexpr (PF_SUMS) return {sum, product};
    if (!(n > C(0))) return {C(0), C(0)};
    const C m = sum * inverse;
    return {shift + m, product - sum * m};
  }
};

// Of a cell; what is not there is 0.
PF_DEVICE C pf_of_cell(const void* p, pf_i64 cell, bool there) {
  return there && p ? static_cast<const C*>(p)[cell] : C(0);
}
// W elements from `at` on, of which `count` are there.
PF_DEVICE void pf_fetch(pf_vector<T, W>& v, const void* p, pf_i64 at, pf_i64 count) {
  if constexpr (PF_V > 1) {
    v.template load<PF_PAST>(pf_at<T>(p, at));
  } else {
    C x[W];
    PF_UNROLL for (int j = 0; j < W; ++j) x[j] = j < count ? pf_get_one<T>(p, at + j) : C(0);
    v.set(x);
  }
}
// Elements of a cell in so many vectors of it.
PF_DEVICE pf_i64 pf_elements(const pf_cells& r, pf_i64 vectors) {
  const pf_i64 run = (r.inner + W - 1) / W, o = pf_quotient(vectors, run);
  const pf_i64 i = (vectors - o * run) * W;
  return o * r.inner + (i < r.inner ? i : r.inner);
}
PF_DEVICE pf_i64 pf_end_of(const pf_cells& r, pf_i64 c, pf_i64 all) {
  const pf_i64 end = (c + 1) * r.chunk;
  return end < all ? end : all;
}
// Of chunk c, for result (or column) `o` of a batch.
PF_DEVICE void pf_give(const pf_cells& r, pf_i64 batch, pf_i64 c, pf_i64 o, const pf_two& t, C n) {
  if (r.chunks == 1 && r.columns == r.cells) {
    static_cast<C*>(r.first)[batch * r.cells + o] = t.first;
    static_cast<C*>(r.second)[batch * r.cells + o] = PF_SUMS ? t.second : t.second / n;
  } else {
    C* to = static_cast<C*>(r.partial) + ((batch * r.chunks + c) * r.columns + o) * 2;
    to[0] = t.first;
    to[1] = t.second;
  }
}

// One half of some threads gives to the other, from `place` to `place`; all of the block take part.
PF_DEVICE void pf_halve(pf_two& mine, C& n, C (&room)[3][PF_CELL_THREADS / 2], bool gives,
                        bool takes, pf_u32 place) {
  pf_barrier();
  if (gives) {
    room[0][place] = n;
    room[1][place] = mine.first;
    room[2][place] = mine.second;
  }
  pf_barrier();
  if (!takes) return;
  mine.join({room[1][place], room[2][place]}, pf_share::of(n, room[0][place]));
  n += room[0][place];
}

// Groups of `width` threads, a chunk of a cell each; cells beside each other first.
PF_KERNEL(cell_rows, PF_CELL_THREADS)(const pf_cells r) {
  PF_SHARED C room[3][PF_CELL_THREADS / 2];
  const pf_u32 width = r.width, t = pf_thread() % width;
  const pf_i64 unit =
      static_cast<pf_i64>(pf_block()) * (PF_CELL_THREADS / width) + pf_thread() / width;
  const pf_i64 row = pf_quotient(unit, r.cells), cell = unit - row * r.cells;
  const pf_i64 batch = pf_quotient(row, r.chunks), c = row - batch * r.chunks;
  const bool on = batch < r.batch;
  const pf_i64 run = (r.inner + W - 1) / W, plane = r.cells * r.inner;
  const pf_i64 end = on ? pf_end_of(r, c, r.outer * run) : 0;
  pf_i64 v = c * r.chunk + t;
  const pf_i64 o = pf_quotient(v, run);
  pf_i64 i = v - o * run, at = ((batch * r.outer + o) * r.cells + cell) * r.inner + i * W;
  const pf_i64 far = width / run, near = width - far * run;  // from one vector to the next
  pf_adding a;
  const pf_i64 mine_of = batch * r.cells + cell;
  a.start(pf_of_cell(r.mean, mine_of, PF_SUMS && on));
  const C scale = pf_of_cell(r.scale, mine_of, PF_SUMS == 2 && on),
          bias = pf_of_cell(r.bias, mine_of, PF_SUMS == 2 && on);
  bool fresh = !PF_SUMS;
  C n = C(0);
  for (; v < end; v += U * width) {
    pf_vector<T, W> x[U], g[U];
    pf_i32 count[U];
    PF_UNROLL for (int u = 0; u < U; ++u) {
      const pf_i64 left = v + u * width < end ? r.inner - i * W : 0;
      count[u] = static_cast<pf_i32>(left < W ? left : W);
      if (count[u] > 0) {
        pf_fetch(x[u], r.x, at, count[u]);
        if constexpr (PF_SUMS) pf_fetch(g[u], r.g, at, count[u]);
      }
      i += near;
      at += far * plane + near * W;
      if (i >= run) {
        i -= run;
        at += plane - run * W;
      }
    }
    if (fresh) a.shift = x[0].get(0);
    fresh = false;
    PF_UNROLL for (int u = 0; u < U; ++u) {
      if (count[u] <= 0) continue;
      PF_UNROLL for (int j = 0; j < W; ++j) if (PF_V > 1 || j < count[u])
          a.add(x[u].get(j), PF_SUMS ? g[u].get(j) : C(0), scale, bias);
      n += static_cast<C>(count[u]);
    }
  }
  pf_two mine = a.two(n, C(1) / n);
  for (pf_u32 half = width / 2; half > 0; half /= 2)
    pf_halve(mine, n, room, t >= half && t < 2 * half, t < half,
             pf_thread() / width * half + t % half);
  if (t == 0 && on) pf_give(r, batch, c, cell, mine, n);
}

PF_KERNEL(cell_columns, PF_CELL_THREADS)(const pf_cells r) {
  PF_SHARED C room[2][W][PF_CELL_THREADS / 2];
  PF_SHARED C counts[PF_CELL_THREADS / 2];
  const pf_u32 width = r.width, height = PF_CELL_THREADS / width;
  const pf_u32 t = pf_thread() % width, y = pf_thread() / width;
  const pf_i64 row = pf_quotient(pf_block(), r.tiles), tile = pf_block() - row * r.tiles;
  const pf_i64 batch = pf_quotient(row, r.chunks), c = row - batch * r.chunks;
  const pf_i64 first = (tile * width + t) * W, left = r.columns - first;
  const pf_i64 end = left > 0 ? pf_end_of(r, c, r.outer) : 0;
  const pf_i64 begin = c * r.chunk + y;
  pf_adding a[W];
  // The cell of each column.
  pf_i64 of = PF_SUMS ? pf_quotient(first, r.inner) : 0, within = first - of * r.inner;
  C scale[W], bias[W];
  PF_UNROLL for (int j = 0; j < W; ++j) {
    a[j].start(pf_of_cell(r.mean, batch * r.cells + of, PF_SUMS && j < left));
    scale[j] = pf_of_cell(r.scale, batch * r.cells + of, PF_SUMS == 2 && j < left);
    bias[j] = pf_of_cell(r.bias, batch * r.cells + of, PF_SUMS == 2 && j < left);
    if (++within == r.inner) {
      within = 0;
      ++of;
    }
  }
  bool fresh = !PF_SUMS;
  C n = C(0);
  for (pf_i64 k = begin; k < end; k += U * height) {
    pf_vector<T, W> x[U], g[U];
    const pf_i64 at = (batch * r.outer + k) * r.columns + first;
    PF_UNROLL for (int u = 0; u < U; ++u) if (k + u * height < end) {
      pf_fetch(x[u], r.x, at + u * height * r.columns, left);
      if constexpr (PF_SUMS) pf_fetch(g[u], r.g, at + u * height * r.columns, left);
    }
    if (fresh) PF_UNROLL for (int j = 0; j < W; ++j) a[j].shift = x[0].get(j);
    fresh = false;
    PF_UNROLL for (int u = 0; u < U; ++u) {
      if (k + u * height >= end) continue;
      PF_UNROLL for (int j = 0; j < W; ++j) a[j].add(x[u].get(j), PF_SUMS ? g[u].get(j) : C(0),
                                                     scale[j], bias[j]);
      n += C(1);
    }
  }
  pf_two mine[W];
  const C inverse = C(1) / n;
  PF_UNROLL for (int j = 0; j < W; ++j) mine[j] = a[j].two(n, inverse);
  for (pf_u32 half = height / 2; half > 0; half /= 2) {
    const pf_u32 place = y % half * width + t;
    pf_barrier();
    if (y >= half && y < 2 * half) {
      counts[place] = n;
      PF_UNROLL for (int j = 0; j < W; ++j) {
        room[0][j][place] = mine[j].first;
        room[1][j][place] = mine[j].second;
      }
    }
    pf_barrier();
    if (y >= half) continue;
    const pf_share share = pf_share::of(n, counts[place]);
    PF_UNROLL for (int j = 0; j < W; ++j) mine[j].join({room[0][j][place], room[1][j][place]},
                                                       share);
    n += counts[place];
  }
  if (y == 0)
    PF_UNROLL for (int j = 0; j < W; ++j) if (j < left) pf_give(r, batch, c, first + j, mine[j], n);
}

// Thread (y, x): of cell x the parts y, y + height, ...; those are chunks, in each columns.
PF_KERNEL(cell_finish, PF_CELL_THREADS)(const pf_cells r) {
  PF_SHARED C room[3][PF_CELL_THREADS / 2];
  const pf_u32 width = r.width, height = PF_CELL_THREADS / width;
  const pf_u32 t = pf_thread() % width, y = pf_thread() / width;
  const pf_i64 o = static_cast<pf_i64>(pf_block()) * width + t;
  const bool on = o < r.batch * r.cells;
  const pf_i64 batch = pf_quotient(o, r.cells), cell = o - batch * r.cells;
  const pf_i64 each = r.runs ? 1 : r.inner, parts = on ? r.chunks * each : 0;
  const pf_i64 all = r.runs ? r.outer * ((r.inner + W - 1) / W) : r.outer;
  pf_two mine = {C(0), C(0)};
  C n = C(0);
  constexpr int AHEAD = 8;  // parts whose loads are on their way together
  for (pf_i64 first = y; first < parts; first += AHEAD * height) {
    pf_two of[AHEAD];
    C count[AHEAD];
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      const pf_i64 k = first + u * height;
      count[u] = C(0);
      if (k >= parts) continue;
      const pf_i64 c = each == 1 ? k : pf_quotient(k, each), end = pf_end_of(r, c, all);
      const C* from = static_cast<const C*>(r.partial) +
                      ((batch * r.chunks + c) * r.columns + cell * each + (k - c * each)) * 2;
      of[u] = {from[0], from[1]};
      count[u] = static_cast<C>(r.runs ? pf_elements(r, end) - pf_elements(r, c * r.chunk)
                                       : end - c * r.chunk);
    }
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      if (first + u * height >= parts) continue;
      mine.join(of[u], pf_share::of(n, count[u]));
      n += count[u];
    }
  }
  for (pf_u32 half = height / 2; half > 0; half /= 2)
    pf_halve(mine, n, room, y >= half && y < 2 * half, y < half, y % half * width + t);
  if (y > 0 || !on) return;
  static_cast<C*>(r.first)[o] = mine.first;
  static_cast<C*>(r.second)[o] = PF_SUMS ? mine.second : mine.second / n;
}

#else  // launchers
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "table/kernels/cells.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int64_t kThreads = 256;  // PF_CELL_THREADS
constexpr int64_t kUnits = 2048;   // blocks that keep a large GPU busy

void run(const KernelArgs& a, pf_cells& r, DType t, int sums) {
  constexpr auto number = numbers<CellMoments>;
  r.batch = a.i(number.batch);
  r.outer = a.i(number.outer);
  r.cells = a.i(number.cells);
  r.inner = a.i(number.inner);
  const int64_t total = r.batch * r.outer * r.cells * r.inner;
  const auto size = static_cast<int64_t>(itemsize(t));
  const int64_t vector = 16 / size, run = ceil_div(r.inner, vector);
  // Short runs that are no whole vectors are columns, if there are rows enough to add.
  r.runs = r.inner >= 512 || (r.inner >= 8 * vector && r.inner % vector == 0) ||
           (r.inner >= vector && r.outer < 16);
  r.columns = r.runs ? r.cells : r.cells * r.inner;
  const int64_t row = r.runs ? r.inner : r.columns;
  const bool whole = row % vector == 0 && aligned(r.x, 16) && aligned(r.g, 16);
  int64_t blocks;
  if (r.runs) {
    const int64_t vectors = r.outer * run;
    r.width = static_cast<uint32_t>(
        std::clamp<int64_t>(power_of_two_from(ceil_div(vectors, 4)), 1, kThreads));
    const int64_t most = std::max<int64_t>(1, vectors / (4 * kThreads));
    r.chunks = std::clamp<int64_t>(kUnits / (r.batch * r.cells), 1, most);
    r.chunk = ceil_div(vectors, r.chunks);
    r.chunks = ceil_div(vectors, r.chunk);
    r.tiles = 1;
    blocks = ceil_div(r.batch * r.chunks * r.cells, kThreads / r.width);
  } else {
    const int64_t vectors = ceil_div(r.columns, vector);
    constexpr int64_t kBeside = 32;
    r.width = static_cast<uint32_t>(std::min(kBeside, power_of_two_from(vectors)));
    r.tiles = ceil_div(vectors, r.width);
    const int64_t most = std::max<int64_t>(1, r.outer / (8 * kThreads / r.width));
    // As many as run at once: what a block begins and ends with is as long as 12 rows of a thread.
    r.chunks = std::clamp<int64_t>(2 * a.traits().compute_units / (r.batch * r.tiles), 1, most);
    r.chunk = ceil_div(r.outer, r.chunks);
    r.chunks = ceil_div(r.outer, r.chunk);
    blocks = r.batch * r.chunks * r.tiles;
  }
  const bool finish = r.chunks > 1 || r.columns > r.cells;
  if (finish)
    r.partial = a.workspace(static_cast<size_t>(r.batch * r.chunks * r.columns * 2) *
                            (t == DType::Float64 ? 8 : 4));
  const Defines defines = Defines()
                              .type("PF_T", t)
                              .value("PF_SUMS", sums)
                              .value("PF_V", whole ? vector : 1)
                              .value("PF_PAST", larger_than_caches(total * size));
  a.launch(a.compile("kernels_cells.cpp", defines, r.runs ? "cell_rows" : "cell_columns"),
           Grid(blocks), kThreads, 0, r);
  if (!finish) return;
  const int64_t outs = r.batch * r.cells;
  // A thread joins few parts one after the other.
  constexpr int64_t kFew = 8;
  const int64_t parts = r.chunks * (r.columns / r.cells);
  int64_t width = std::min<int64_t>(power_of_two_from(outs), 8);
  while (width > 1 && parts > kFew * (kThreads / width)) width /= 2;
  r.width = static_cast<uint32_t>(width);
  a.launch(a.compile("kernels_cells.cpp", defines, "cell_finish"), Grid(ceil_div(outs, width)),
           kThreads, 0, r);
}

void cell_moments(const KernelArgs& a) {
  constexpr auto at = tensors<CellMoments>;
  pf_cells r{};
  r.x = a.data(at.x);
  r.first = a.data(at.mean);
  r.second = a.data(at.var);
  run(a, r, a.dtype(at.x), 0);
}
template <class Kernel>
void cell_sums(const KernelArgs& a) {
  constexpr bool gated = std::is_same_v<Kernel, GatedCellSums>;
  constexpr auto at = tensors<Kernel>;
  pf_cells r{};
  r.x = a.data(at.x);
  r.g = a.data(at.g);
  r.mean = a.data(at.mean);
  if constexpr (gated) {
    r.scale = a.data(at.scale);
    r.bias = a.has(at.bias) ? a.data(at.bias) : nullptr;
  }
  r.first = a.data(at.sum);
  r.second = a.data(at.product);
  run(a, r, a.dtype(at.x), gated ? 2 : 1);
}

}  // namespace

PF_GPU_KERNEL(CellMoments::kInfo, cell_moments)
PF_GPU_KERNEL(CellSums::kInfo, cell_sums<CellSums>)
PF_GPU_KERNEL(GatedCellSums::kInfo, cell_sums<GatedCellSums>)

}  // namespace pyflame::gpu
#endif
