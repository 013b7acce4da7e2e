// What the passes of attention share: which rows attend to which, and a row's products made into
// scores and weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "cpu/attention_rows.h"
#include "cpu/gemm_own.h"
#include "cpu/kernel.h"
#include "cpu/philox.h"
#include "table/kernels/attention.h"

namespace pyflame::cpu::attention {

// One matrix of a batch: where it begins and its strides.
template <class S>
struct View {
  S* data = nullptr;
  int64_t row = 0, col = 0;
  View rows_from(int64_t i) const { return {data + i * row, row, col}; }
};

template <class S>
View<S> matrix_of(const pf_tensor& t, const pf_tensor& like, int64_t head) {
  S* p = static_cast<S*>(t.data);
  for (int d = like.ndim - 3; d >= 0; --d) {
    const int64_t i = head % like.shape[d];
    head /= like.shape[d];
    const int at = d + t.ndim - like.ndim;
    if (at >= 0 && t.shape[at] > 1) p += i * t.strides[at];
  }
  auto stride = [&](int at) { return at < 0 || t.shape[at] == 1 ? 0 : t.strides[at]; };
  return {p, stride(t.ndim - 2), stride(t.ndim - 1)};
}

inline int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// The queries and keys of one head that meet each other: all, or those of one sequence.
struct Item {
  int64_t head, sequence;
  int64_t l, s;    // queries and keys
  int64_t q0, k0;  // rows before them
  int64_t shift;   // query i stands beside key i + shift
};

// Sizes and numbers of a call; `At` are the positions of the tensors that both kernels have.
struct Call {
  int64_t heads = 1, group = 1;  // group: neighbouring heads that share a gradient of keys
  int64_t rows, keys, e, ev;     // of the tensors
  int64_t most_l = 0, most_s = 0;
  double scale, soft_cap, dropout;
  int64_t left, right, page;
  int64_t drawn_rows, drawn;  // of dropout: rows of counters of a head, counters of one
  uint32_t threshold;
  uint64_t seed, offset;
  bool bottom_right;
  pf_tensor out, mask{}, slopes{}, pages{};
  std::vector<Item> items;  // sequences of a head follow each other

  template <class Positions>
  Call(const KernelArgs& a, const Positions& at) : out(a.tensor(at.out)) {
    constexpr auto number = kernels::numbers<kernels::Sdpa>;
    const pf_tensor &q = a.tensor(at.q), &k = a.tensor(at.k);
    rows = q.shape[q.ndim - 2], keys = k.shape[k.ndim - 2];
    e = q.shape[q.ndim - 1], ev = out.shape[out.ndim - 1];
    scale = a.f(number.scale), soft_cap = a.f(number.soft_cap), dropout = a.f(number.dropout);
    left = a.i(number.left), right = a.i(number.right), page = a.i(number.page);
    seed = static_cast<uint64_t>(a.i(number.seed));
    offset = static_cast<uint64_t>(a.i(number.offset));
    bottom_right = a.i(number.bottom_right) != 0;
    for (int d = 0; d + 2 < out.ndim; ++d) heads *= out.shape[d];
    if (a.has(at.mask)) mask = a.tensor(at.mask);
    if (a.has(at.slopes)) slopes = a.tensor(at.slopes);
    if (a.has(at.pages)) pages = a.tensor(at.pages);
    const bool cut = a.has(at.starts_q);
    const int64_t sequences = cut ? a.tensor(at.starts_q).shape[0] - 1 : 1;
    drawn_rows = (rows + 15 * sequences) / 16 * 8;
    drawn = ((cut ? a.i(number.max_keys) : keys) + 15) / 16 * 4;
    threshold = static_cast<uint32_t>(std::lround(dropout * 65536));
    items.reserve(static_cast<size_t>(heads * sequences));
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t b = 0; b < sequences; ++b) {
        Item i{h, b, rows, keys, 0, 0, 0};
        if (cut) {
          const auto* sq = a.data<const int32_t>(at.starts_q);
          const auto* sk = a.data<const int32_t>(at.starts_k);
          const auto* used = a.has(at.used_k) ? a.data<const int32_t>(at.used_k) : nullptr;
          const int64_t in_reach = pages.data ? pages.shape[1] * page : keys;
          i.q0 = std::clamp<int64_t>(sq[b], 0, rows);
          i.l = std::clamp<int64_t>(sq[b + 1] - i.q0, 0,
                                    std::min(rows - i.q0, a.i(number.max_queries)));
          i.k0 = pages.data ? 0 : std::clamp<int64_t>(sk[b], 0, keys);
          i.s = std::clamp<int64_t>(used ? used[b] : sk[b + 1] - sk[b], 0,
                                    std::min(in_reach - i.k0, a.i(number.max_keys)));
        }
        i.shift = bottom_right ? i.s - i.l : 0;
        most_l = std::max(most_l, i.l), most_s = std::max(most_s, i.s);
        items.push_back(i);
      }
  }

  bool masked() const { return mask.data != nullptr; }
  // Whether a score is more than its product times the scale.
  bool changes_scores() const { return masked() || slopes.data || soft_cap > 0 || left >= 0; }
  // Keys [from, to) are in reach of a query.
  int64_t from(const Item& i, int64_t row) const {
    return left < 0 ? 0 : std::clamp<int64_t>(row + i.shift - left, 0, i.s);
  }
  int64_t to(const Item& i, int64_t row) const {
    return right < 0 ? i.s : std::clamp<int64_t>(row + i.shift + right + 1, from(i, row), i.s);
  }
};

// Products s[from..to) of a row become scores: scaled, capped, masked. With `capped`, that gets the
// derivative of the cap, 1 - tanh^2. Whole vectors of both may be written, from `from` rounded
// down.
template <class S, class T>
void score_row(const Call& c, const Item& item, int64_t i, int64_t from, int64_t to, T* s,
               T* capped = nullptr) {
  const T inf = std::numeric_limits<T>::infinity();
  const bool has_numbers = c.masked() && static_cast<DType>(c.mask.dtype) != DType::Bool;
  if (c.soft_cap > 0 && from < to) {
    const int64_t begin = from / kRowPad * kRowPad;
    cap_row(s + begin, to - begin, static_cast<T>(c.scale / c.soft_cap), static_cast<T>(c.soft_cap),
            capped ? capped + begin : nullptr);
  }
  const T factor = c.soft_cap > 0 ? T(1) : static_cast<T>(c.scale);
  if (has_numbers) {
    const View<const S> m = matrix_of<const S>(c.mask, c.out, item.head);
    const S* row = m.data + i * m.row;
    T x[64];
    for (int64_t j0 = from; j0 < to; j0 += 64) {
      const int n = static_cast<int>(std::min<int64_t>(64, to - j0));
      micro::pack(row + j0 * m.col, m.col, 0, n, 1, n, x);
      for (int j = 0; j < n; ++j) s[j0 + j] = s[j0 + j] * factor + x[j];
    }
  } else if (c.masked()) {
    const View<const bool8> m = matrix_of<const bool8>(c.mask, c.out, item.head);
    const bool8* row = m.data + i * m.row;
    for (int64_t j = from; j < to; ++j) s[j] = row[j * m.col] ? s[j] * factor : -inf;
  } else if (c.soft_cap <= 0) {
    for (int64_t j = from; j < to; ++j) s[j] *= factor;
  }
  if (!c.slopes.data) return;
  const View<const float> m = matrix_of<const float>(c.slopes, c.out, item.head);
  const T slope = static_cast<T>(m.data[item.sequence * m.row]);
  // Keys up to that beside the query, and those behind it.
  const int64_t own = std::clamp<int64_t>(i + item.shift, from, to);
  T* const behind = s + own;
  for (int32_t n = 0; n < static_cast<int32_t>(own - from); ++n)
    s[from + n] -= slope * (static_cast<T>(i + item.shift - from) - static_cast<T>(n));
  for (int32_t n = 0; n < static_cast<int32_t>(to - own); ++n)
    behind[n] -= slope * (static_cast<T>(own - i - item.shift) + static_cast<T>(n));
}

// f(j, n, kept) for weights [from, to) of a row, at most 64 at a time: kept is 1 or 0 for each.
template <class T, class F>
void each_drawn(const Call& c, const Item& item, int64_t i, int64_t from, int64_t to, F&& f) {
  const int64_t row =
      item.head * c.drawn_rows + (item.q0 + 15 * item.sequence) / 16 * 8 + i / 16 * 8 + i % 8;
  const uint64_t first = c.offset + static_cast<uint64_t>(row) * static_cast<uint64_t>(c.drawn);
  constexpr int64_t kColumns = 4 * philox::kCounters;
  const int half = static_cast<int>(i / 8 % 2) * 2;
  uint32_t words[philox::kTile];
  T kept[kColumns];
  for (int64_t j0 = from / kColumns * kColumns; j0 < to; j0 += kColumns) {
    philox::tile(first + static_cast<uint64_t>(j0) / 4, c.seed, words);
    for (int block = 0; block < kColumns / 16; ++block)
      for (int high = 0; high < 2; ++high)
        for (int k = 0; k < 4; ++k) {
          const uint32_t word = words[(block * 4 + k) * 4 + half + high];
          T* const to_keys = kept + block * 16 + high * 8 + k * 2;
          to_keys[0] = (word & 0xffff) >= c.threshold ? T(1) : T(0);
          to_keys[1] = word >> 16 >= c.threshold ? T(1) : T(0);
        }
    const int64_t begin = std::max(j0, from), end = std::min<int64_t>(j0 + kColumns, to);
    f(begin, end - begin, kept + (begin - j0));
  }
}
inline double keeping_factor(const Call& c) {
  return c.threshold < 65536 ? 65536.0 / (65536.0 - c.threshold) : 0;
}

}  // namespace pyflame::cpu::attention
