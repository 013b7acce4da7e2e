// Attention without its matrix of scores: a few rows of queries at a time, whose scores stay in
// the cache, through the micro-kernels of the matrix product. float16 and bfloat16 are converted
// when they are read; scores and probabilities are never rounded to them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/attention_rows.h"
#include "cpu/attention_scores.h"
#include "cpu/gemm_own.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "table/kernels/attention.h"

namespace pyflame::cpu {
namespace {

using attention::Call;
using attention::Item;
using attention::matrix_of;
using attention::round_up;
using attention::View;

constexpr int64_t kBlock = 48;  // rows of queries in one block of the backward pass

// Rows of keys or values of an item; those that lie on pages are put together in `to`.
template <class S>
View<const S> rows_of(const Call& c, const Item& item, const pf_tensor& t, int64_t cols, S* to) {
  const View<const S> m = matrix_of<const S>(t, c.out, item.head);
  if (!c.pages.data) return m.rows_from(item.k0);
  const auto* page = static_cast<const int32_t*>(c.pages.data) + item.sequence * c.pages.strides[0];
  for (int64_t j = 0; j < item.s; ++j) {
    const int64_t at = page[j / c.page * c.pages.strides[1]] * c.page + j % c.page;
    const View<const S> from = m.rows_from(std::clamp<int64_t>(at, 0, c.keys - 1));
    for (int64_t n = 0; n < cols; ++n) to[j * cols + n] = from.data[n * from.col];
  }
  return {to, cols, 1};
}

// The right operand of a product as panels of nr columns.
template <class T>
struct Panels {
  const T* data;
  int64_t panel, row;
  Panels from(int64_t panels) const { return {data + panels * panel, panel, row}; }
};

// m^T as packed panels: right operand [cols(m), rows(m)].
template <class S, class T>
Panels<T> pack_transposed(const micro::Kernels<T>& kern, View<const S> m, int64_t rows,
                          int64_t cols, T* to) {
  const int64_t nr = kern.nr;
  for (int64_t j = 0; j < rows; j += nr)
    micro::pack(m.data + j * m.row, m.row, m.col, static_cast<int>(std::min(nr, rows - j)), cols,
                static_cast<int>(nr), to + j * cols);
  return {to, nr * cols, nr};
}

// m with unit column stride in the compute type: itself, or a copy in `to`.
template <class S, class T>
View<const T> dense(View<const S> m, int64_t rows, int64_t cols, T* to) {
  if constexpr (std::is_same_v<S, T>)
    if (m.col == 1 || cols <= 1) return {m.data, m.row, 1};
  for (int64_t i = 0; i < rows; ++i)
    micro::pack(m.data + i * m.row, m.col, 0, static_cast<int>(cols), 1, static_cast<int>(cols),
                to + i * cols);
  return {to, cols, 1};
}

template <class T>
Panels<T> as_panels(const micro::Kernels<T>& kern, View<const T> m) {
  return {m.data, kern.nr, m.row};
}

// c[rows x n] (+)= a[rows x k] b[k x n], rows <= mr.
template <class T>
void tile_row(const micro::Kernels<T>& kern, int rows, int64_t n, int64_t k, View<const T> a,
              Panels<T> b, T* c, int64_t c_row, bool accumulate) {
  micro::Tile<T> t;
  t.k = k;
  t.a = a.data, t.a_row = a.row, t.a_col = a.col;
  t.b_row = b.row;
  t.c_row = c_row;
  t.accumulate = accumulate;
  t.bias = nullptr;
  for (int64_t j = 0, p = 0; j < n; j += kern.nr, ++p) {
    t.cols = static_cast<int>(std::min<int64_t>(kern.nr, n - j));
    t.b = b.data + p * b.panel;
    t.c = c + j;
    kern.fn[rows - 1][t.cols == kern.nr ? 0 : t.cols > kern.lanes ? 1 : 2](t);
  }
}

template <class S, class T>
void forward(const KernelArgs& args) {
  constexpr auto at = kernels::tensors<kernels::Sdpa>;
  const pf_tensor &out = args.tensor(at.out), &lse = args.tensor(at.lse);
  const pf_tensor &q = args.tensor(at.q), &k = args.tensor(at.k), &v = args.tensor(at.v);
  const Call z(args, at);
  const micro::Kernels<T>& kern = micro::kernels<T>();
  const int64_t nr = kern.nr, mr = kern.mr;
  const int64_t most_tiles = (z.most_l + mr - 1) / mr, items = static_cast<int64_t>(z.items.size());
  // Heads are cut further when there are few of them; a chunk takes every chunks-th tile, which
  // balances causal rows.
  const int64_t want = 4 * num_threads();
  const int64_t chunks =
      std::clamp<int64_t>(items >= want ? 1 : (want + items - 1) / std::max<int64_t>(items, 1), 1,
                          std::max<int64_t>(most_tiles / 2, 1));
  const int64_t ld = round_up(z.most_s, std::max<int64_t>(nr, attention::kRowPad));
  const bool changes = z.changes_scores();
  const T scale = static_cast<T>(z.scale), keeping = static_cast<T>(attention::keeping_factor(z));
  const int64_t paged = z.pages.data ? z.most_s * std::max(z.e, z.ev) : 0;

  const size_t bytes = Parts::bytes<T>(ld * z.e) + Parts::bytes<T>(z.most_s * z.ev) +
                       Parts::bytes<T>(mr * ld) + Parts::bytes<T>(mr * std::max(z.e, z.ev)) +
                       2 * Parts::bytes<S>(paged);
  auto chunk = [&](const Item& item, int64_t first, char* memory) {
    const int64_t tiles = (item.l + mr - 1) / mr;
    if (first >= tiles) return;
    Parts parts(memory);
    const View<const S> qm = matrix_of<const S>(q, out, item.head).rows_from(item.q0);
    S* const k_rows = parts.take<S>(paged);
    S* const v_rows = parts.take<S>(paged);
    const Panels<T> kt = pack_transposed<S, T>(kern, rows_of(z, item, k, z.e, k_rows), item.s, z.e,
                                               parts.take<T>(ld * z.e));
    const View<const T> vm = dense<S, T>(rows_of(z, item, v, z.ev, v_rows), item.s, z.ev,
                                         parts.take<T>(z.most_s * z.ev));
    T* const scores = parts.take<T>(mr * ld);
    T* const temp = parts.take<T>(mr * std::max(z.e, z.ev));
    const View<S> om = matrix_of<S>(out, out, item.head).rows_from(item.q0);
    T* const lse_row = static_cast<T*>(lse.data) + item.head * z.rows + item.q0;
    T* const log_row =
        args.has(at.logs) ? args.data<T>(at.logs) + (lse_row - static_cast<T*>(lse.data)) : nullptr;
    for (int64_t t = first; t < tiles; t += chunks) {
      const int64_t i0 = item.l * t / tiles;
      const int rows = static_cast<int>(item.l * (t + 1) / tiles - i0);
      // Keys [low, high) are in reach of any of these rows.
      const int64_t low = z.from(item, i0) / nr * nr, high = z.to(item, i0 + rows - 1);
      View<const T> a;
      if constexpr (std::is_same_v<S, T>)
        a = {qm.data + i0 * qm.row, qm.row, qm.col};
      else
        a = dense<S, T>({qm.data + i0 * qm.row, qm.row, qm.col}, rows, z.e, temp);
      tile_row(kern, rows, round_up(high, nr) - low, z.e, a, kt.from(low / nr), scores + low, ld,
               false);
      T inverse[micro::Kernels<T>::kMaxRows];
      for (int r = 0; r < rows; ++r) {
        T* s = scores + r * ld;
        const int64_t from = z.from(item, i0 + r), to = z.to(item, i0 + r);
        // The largest score is that of the largest product only for a scale above 0.
        const bool scaled = changes || scale <= 0;
        if (changes)
          attention::score_row<S, T>(z, item, i0 + r, from, to, s);
        else if (scaled)
          for (int64_t j = 0; j < to; ++j) s[j] *= scale;
        // Whole vectors: what is in front of the reach counts as masked.
        const int64_t begin = from / attention::kRowPad * attention::kRowPad;
        std::fill(s + begin, s + from, -std::numeric_limits<T>::infinity());
        const attention::RowSum<T> sum =
            attention::softmax_row(s + begin, to - begin, scaled ? T(1) : scale);
        if (low < from) std::fill(s + low, s + from, T(0));
        if (to < high) std::fill(s + to, s + high, T(0));
        inverse[r] = sum.sum == 0 ? T(0) : T(1) / sum.sum;
        lse_row[i0 + r] = sum.sum == 0 ? sum.max : sum.max + std::log(sum.sum);
        if (log_row) log_row[i0 + r] = lse_row[i0 + r];
        if (z.dropout > 0) {
          attention::each_drawn<T>(z, item, i0 + r, from, to,
                                   [&](int64_t j, int64_t n, const T* kept) {
                                     for (int64_t k = 0; k < n; ++k)
                                       s[j + k] = kept[k] != 0 ? s[j + k] : T(0);
                                   });
          inverse[r] *= keeping;
        }
      }
      T* c;
      int64_t c_row;
      if constexpr (std::is_same_v<S, T>)
        c = om.data + i0 * om.row, c_row = om.row;
      else
        c = temp, c_row = z.ev;
      tile_row(kern, rows, z.ev, std::max<int64_t>(high - low, 0), {scores + low, ld, 1},
               as_panels(kern, vm.rows_from(low)), c, c_row, false);
      for (int r = 0; r < rows; ++r) {
        T* row = c + r * c_row;
        for (int64_t j = 0; j < z.ev; ++j) row[j] *= inverse[r];
        if constexpr (!std::is_same_v<S, T>) micro::store(row, z.ev, om.data + (i0 + r) * om.row);
      }
    }
  };
  const double work = double(z.most_l) * double(z.most_s) * double(z.e + z.ev + 8) / double(chunks);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(2e5 / (work + 1)));
  parallel_with(items * chunks, grain, bytes, [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t i = begin; i < end; ++i)
      chunk(z.items[static_cast<size_t>(i / chunks)], i % chunks, memory);
  });
}

// What the gradients of an item are made from, in the compute type.
template <class S, class T>
struct Operands {
  const Call& z;
  const Item& item;
  const micro::Kernels<T>& kern;
  Panels<T> kt, vt;
  View<const T> q, k, out, dout;
  const T* lse;
  int64_t ld;

  static size_t bytes(const Call& z, int64_t ld) {
    const int64_t wide = std::max(z.e, z.ev), paged = z.pages.data ? z.most_s * wide : 0;
    return 2 * Parts::bytes<T>(ld * wide) + 3 * Parts::bytes<T>(z.most_l * wide) +
           Parts::bytes<T>(z.most_s * wide) + 2 * Parts::bytes<S>(paged);
  }
  Operands(const KernelArgs& args, const Call& c, const Item& i, int64_t ld_, Parts& parts)
      : z(c), item(i), kern(micro::kernels<T>()), ld(ld_) {
    constexpr auto at = kernels::tensors<kernels::SdpaBackward>;
    const int64_t paged = z.pages.data ? z.most_s * std::max(z.e, z.ev) : 0;
    const auto rows = [&](int t) {
      return matrix_of<const S>(args.tensor(t), z.out, item.head).rows_from(item.q0);
    };
    const View<const S> ks = rows_of(z, item, args.tensor(at.k), z.e, parts.take<S>(paged));
    const View<const S> vs = rows_of(z, item, args.tensor(at.v), z.ev, parts.take<S>(paged));
    kt = pack_transposed<S, T>(kern, ks, item.s, z.e, parts.take<T>(ld * z.e));
    vt = pack_transposed<S, T>(kern, vs, item.s, z.ev, parts.take<T>(ld * z.ev));
    k = dense<S, T>(ks, item.s, z.e, parts.take<T>(item.s * z.e));
    q = dense<S, T>(rows(at.q), item.l, z.e, parts.take<T>(item.l * z.e));
    out = dense<S, T>(rows(at.out), item.l, z.ev, parts.take<T>(item.l * z.ev));
    dout = dense<S, T>(rows(at.dout), item.l, z.ev, parts.take<T>(item.l * z.ev));
    lse = static_cast<const T*>(args.tensor(at.lse).data) + item.head * z.rows + item.q0;
  }

  // Weights p, as they meet values, and gradients ds of the products of `rows` (at most mr) queries
  // from i0 on, for keys [low, high); `capped`: room for a row. Before that, grad(i, from, to, row)
  // sees the gradients of the scores.
  template <class F>
  void rows(int64_t i0, int rows, int64_t low, int64_t high, T* p, T* ds, T* capped,
            F&& grad) const {
    const T scale = static_cast<T>(z.scale);
    const bool changes = z.changes_scores();
    const int64_t reach = z.to(item, i0 + rows - 1), cols = round_up(reach, kern.nr) - low;
    tile_row(kern, rows, cols, z.e, {q.data + i0 * q.row, q.row, 1}, kt.from(low / kern.nr),
             p + low, ld, false);
    tile_row(kern, rows, cols, z.ev, {dout.data + i0 * dout.row, dout.row, 1},
             vt.from(low / kern.nr), ds + low, ld, false);
    for (int r = 0; r < rows; ++r) {
      const int64_t i = i0 + r, from = z.from(item, i), to = z.to(item, i);
      T *pr = p + r * ld, *dr = ds + r * ld;
      const T delta = attention::dot(dout.data + i * dout.row, out.data + i * out.row, z.ev);
      const bool caps = z.soft_cap > 0;
      if (changes) attention::score_row<S, T>(z, item, i, from, to, pr, caps ? capped : nullptr);
      const int64_t begin = from / attention::kRowPad * attention::kRowPad;
      std::fill(pr + begin, pr + from, T(0));  // whole vectors
      attention::probability_row(pr + begin, to - begin, changes ? T(1) : scale, lse[i]);
      if (z.dropout > 0) {
        const T keeping = static_cast<T>(attention::keeping_factor(z));
        attention::each_drawn<T>(z, item, i, from, to, [&](int64_t j0, int64_t n, const T* kept) {
          for (int64_t k = 0, j = j0; k < n; ++k, ++j) {
            dr[j] = pr[j] * ((kept[k] != 0 ? dr[j] * keeping : T(0)) - delta);
            pr[j] = kept[k] != 0 ? pr[j] * keeping : T(0);
          }
        });
        grad(i, from, to, dr);
        for (int64_t j = from; j < to; ++j) dr[j] *= scale;
      } else if (z.masked()) {
        for (int64_t j = from; j < to; ++j) dr[j] = pr[j] * (dr[j] - delta);
        grad(i, from, to, dr);
        for (int64_t j = from; j < to; ++j) dr[j] *= scale;
      } else {
        for (int64_t j = from; j < to; ++j) dr[j] = pr[j] * (dr[j] - delta) * scale;
      }
      if (caps)
        for (int64_t j = from; j < to; ++j) dr[j] *= capped[j];
      for (T* row : {pr, dr}) {
        if (low < from) std::fill(row + low, row + from, T(0));
        if (to < high) std::fill(row + to, row + high, T(0));
      }
    }
  }
};

// A function of the shape alone: it sets the order in which dk and dv are summed.
int64_t block_of(const Call& z) {
  return z.most_s <= 1024 ? kBlock : z.most_s <= 4096 ? kBlock / 2 : kBlock / 4;
}

template <class S, class T>
void backward(const KernelArgs& args) {
  constexpr auto at = kernels::tensors<kernels::SdpaBackward>;
  constexpr bool kSame = std::is_same_v<S, T>;
  Call z(args, at);
  const pf_tensor& dk_all = args.tensor(at.dk);
  // Neighbouring heads that share a gradient of keys and values.
  if (z.out.ndim > 2 && dk_all.ndim == z.out.ndim && dk_all.shape[z.out.ndim - 3] == 1)
    z.group = z.out.shape[z.out.ndim - 3];
  const micro::Kernels<T>& kern = micro::kernels<T>();
  const int64_t nr = kern.nr, mr = kern.mr, block = block_of(z);
  const int64_t ld = round_up(z.most_s, std::max<int64_t>(nr, attention::kRowPad));
  const int64_t wide = std::max(z.e, z.ev);

  const auto size = [](int64_t n) { return Parts::bytes<T>(n); };
  const size_t bytes = Operands<S, T>::bytes(z, ld) + 2 * size(block * ld) + size(ld) +
                       2 * size(z.most_s * wide) + size(block * wide);
  const auto nothing = [](int64_t, int64_t, int64_t, const T*) {};
  // One head with what it adds to the gradients of keys and values.
  auto add_head = [&](const Item& item, const Parts& memory, View<T> dkt, View<T> dvt) {
    Parts parts = memory;
    const Operands<S, T> o(args, z, item, ld, parts);
    T* const p = parts.take<T>(block * ld);
    T* const ds = parts.take<T>(block * ld);
    T* const capped = parts.take<T>(ld);
    const View<S> dq = matrix_of<S>(args.tensor(at.dq), z.out, item.head).rows_from(item.q0);
    View<T> dqt;
    if constexpr (!kSame) dqt = {parts.take<T>(block * z.e), z.e, 1};
    for (int64_t i0 = 0; i0 < item.l; i0 += block) {
      const int64_t n = std::min(block, item.l - i0);
      const int64_t low = z.from(item, i0) / nr * nr, high = z.to(item, i0 + n - 1);
      const int64_t tiles = (n + mr - 1) / mr;
      if constexpr (kSame) dqt = {dq.data + i0 * dq.row, dq.row, 1};
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r0 = n * t / tiles;
        const int rows = static_cast<int>(n * (t + 1) / tiles - r0);
        o.rows(i0 + r0, rows, low, high, p + r0 * ld, ds + r0 * ld, capped, nothing);
        const int64_t reach = z.to(item, i0 + r0 + rows - 1);
        tile_row(kern, rows, z.e, std::max<int64_t>(reach - low, 0), {ds + r0 * ld + low, ld, 1},
                 as_panels(kern, o.k.rows_from(low)), dqt.data + r0 * dqt.row, dqt.row, false);
      }
      if constexpr (!kSame)
        for (int64_t r = 0; r < n; ++r)
          micro::store(dqt.data + r * dqt.row, z.e, dq.data + (i0 + r) * dq.row);
      const int64_t span = high - low, col_tiles = (span + mr - 1) / mr;
      for (int64_t t = 0; t < col_tiles; ++t) {
        const int64_t j0 = low + span * t / col_tiles;
        const int cols = static_cast<int>(low + span * (t + 1) / col_tiles - j0);
        // Queries in front of these see none of the keys from j0 on.
        const int64_t from =
            z.right < 0 ? 0 : std::clamp<int64_t>(j0 - item.shift - z.right - i0, 0, n);
        const View<const T> g = o.dout.rows_from(i0 + from), q = o.q.rows_from(i0 + from);
        tile_row(kern, cols, z.ev, n - from, {p + from * ld + j0, 1, ld}, as_panels(kern, g),
                 dvt.data + j0 * dvt.row, dvt.row, true);
        tile_row(kern, cols, z.e, n - from, {ds + from * ld + j0, 1, ld}, as_panels(kern, q),
                 dkt.data + j0 * dkt.row, dkt.row, true);
      }
    }
  };
  const int64_t items = static_cast<int64_t>(z.items.size());
  const int64_t sequences = items / std::max<int64_t>(z.heads, 1), owners = items / z.group;
  auto owner_fn = [&](int64_t owner, char* memory) {
    Parts parts(memory);
    const int64_t first = owner / sequences * z.group * sequences + owner % sequences;
    const Item& item = z.items[static_cast<size_t>(first)];
    const View<S> dk = matrix_of<S>(dk_all, z.out, item.head).rows_from(item.k0),
                  dv = matrix_of<S>(args.tensor(at.dv), z.out, item.head).rows_from(item.k0);
    View<T> dkt, dvt;
    if constexpr (kSame) {
      dkt = dk, dvt = dv;
    } else {
      dkt = {parts.take<T>(z.most_s * z.e), z.e, 1};
      dvt = {parts.take<T>(z.most_s * z.ev), z.ev, 1};
    }
    for (int64_t j = 0; j < item.s; ++j) {
      std::fill_n(dkt.data + j * dkt.row, z.e, T(0));
      std::fill_n(dvt.data + j * dvt.row, z.ev, T(0));
    }
    for (int64_t g = 0; g < z.group; ++g)
      add_head(z.items[static_cast<size_t>(first + g * sequences)], parts, dkt, dvt);
    if constexpr (!kSame)
      for (int64_t j = 0; j < item.s; ++j) {
        micro::store(dkt.data + j * dkt.row, z.e, dk.data + j * dk.row);
        micro::store(dvt.data + j * dvt.row, z.ev, dv.data + j * dv.row);
      }
  };
  const double work = double(z.most_l) * double(z.most_s) * double(3 * z.e + 2 * z.ev) *
                      static_cast<double>(z.group);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(2e5 / (work + 1)));
  parallel_with(owners, grain, bytes, [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t i = begin; i < end; ++i) owner_fn(i, memory);
  });
}

// The gradient of a mask of numbers. A range has rows of it, and goes through all heads that these
// are added to, in order: no scores are kept, and no sum depends on the number of threads.
template <class S, class T>
void mask_backward(const KernelArgs& args) {
  constexpr auto at = kernels::tensors<kernels::SdpaBackward>;
  const Call z(args, at);
  const pf_tensor& dmask = args.tensor(at.dmask);
  const int nd = dmask.ndim;
  const int64_t mask_rows = dmask.shape[nd - 2], mask_cols = dmask.shape[nd - 1];
  if (mask_rows == 0 || mask_cols == 0) return;  // one row is also what queries share
  const micro::Kernels<T>& kern = micro::kernels<T>();
  const int64_t ld = round_up(z.most_s, std::max<int64_t>(kern.nr, attention::kRowPad));
  const int64_t block = block_of(z), blocks = mask_rows > 1 ? (z.rows + block - 1) / block : 1;
  // Heads by where their part of the mask begins.
  std::vector<std::vector<int64_t>> owners;
  {
    std::vector<S*> begins;
    for (int64_t h = 0; h < z.heads; ++h) {
      S* const p = matrix_of<S>(dmask, z.out, h).data;
      size_t n = static_cast<size_t>(std::find(begins.begin(), begins.end(), p) - begins.begin());
      if (n == begins.size()) begins.push_back(p), owners.emplace_back();
      owners[n].push_back(h);
    }
  }
  const int64_t held = mask_rows > 1 ? block : 1;
  const size_t bytes = Operands<S, T>::bytes(z, ld) + 2 * Parts::bytes<T>(kern.mr * ld) +
                       Parts::bytes<T>(ld) + Parts::bytes<T>(held * mask_cols);
  const auto part = [&](const std::vector<int64_t>& heads, int64_t b, char* memory) {
    Parts parts(memory);
    T* const sums = parts.take<T>(held * mask_cols);
    T* const p = parts.take<T>(kern.mr * ld);
    T* const ds = parts.take<T>(kern.mr * ld);
    T* const capped = parts.take<T>(ld);
    const int64_t first = b * block,
                  last = mask_rows > 1 ? std::min(first + block, z.rows) : z.rows;
    std::fill_n(sums, held * mask_cols, T(0));
    for (const int64_t h : heads) {
      Parts rest = parts;
      const Operands<S, T> o(args, z, z.items[static_cast<size_t>(h)], ld, rest);
      for (int64_t i0 = first; i0 < last; i0 += kern.mr) {
        const int rows = static_cast<int>(std::min<int64_t>(kern.mr, last - i0));
        const int64_t low = z.from(o.item, i0) / kern.nr * kern.nr;
        o.rows(i0, rows, low, z.to(o.item, i0 + rows - 1), p, ds, capped,
               [&](int64_t i, int64_t from, int64_t to, const T* row) {
                 T* const sum = sums + (mask_rows > 1 ? i - first : 0) * mask_cols;
                 if (mask_cols > 1) {
                   for (int64_t j = from; j < to; ++j) sum[j] += row[j];
                 } else {
                   for (int64_t j = from; j < to; ++j) sum[0] += row[j];
                 }
               });
      }
    }
    const View<S> to = matrix_of<S>(dmask, z.out, heads[0]).rows_from(first);
    for (int64_t i = 0; i < (mask_rows > 1 ? last - first : 1); ++i)
      for (int64_t j = 0; j < mask_cols; ++j) {
        if constexpr (std::is_same_v<S, T>)
          to.data[i * to.row + j * to.col] = sums[i * mask_cols + j];
        else
          micro::store(sums + i * mask_cols + j, 1, to.data + i * to.row + j * to.col);
      }
  };
  const int64_t parts = static_cast<int64_t>(owners.size()) * blocks;
  parallel_with(parts, 1, bytes, [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t i = begin; i < end; ++i)
      part(owners[static_cast<size_t>(i / blocks)], i % blocks, memory);
  });
}

void sdpa(const KernelArgs& a) {
  dispatch_float(a.dtype(kernels::tensors<kernels::Sdpa>.out),
                 [&]<class S>() { forward<S, ComputeType<S>>(a); });
}
PF_CPU_KERNEL(kernels::Sdpa::kInfo, sdpa)

void sdpa_backward(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::SdpaBackward>;
  dispatch_float(a.dtype(at.dq), [&]<class S>() {
    backward<S, ComputeType<S>>(a);
    if (a.has(at.dmask)) mask_backward<S, ComputeType<S>>(a);
  });
}
PF_CPU_KERNEL(kernels::SdpaBackward::kInfo, sdpa_backward)

}  // namespace
}  // namespace pyflame::cpu
