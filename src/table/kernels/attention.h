// Scaled dot-product attention and its gradients. q [..., L, E], k [..., S, E], v [..., S, Ev],
// with any strides; their batch dimensions broadcast to those of out. The score of a query and a
// key is
//
//   s = scale q k^T, soft_cap tanh(s / soft_cap) where soft_cap > 0,
//   + mask - slope |i + shift - j|,   seen where the mask says so and i + shift - left <= j <= i +
//                                     shift + right (-1: no limit)
//
// with shift = keys - queries where bottom_right, else 0. out = softmax(s) v; a query that sees
// nothing gives zeros. lse, contiguous [..., L], has the logarithm of each row's sum of
// exponentials in a base of the backend's own, in float32 or float64, for the gradient; `logs`, if
// defined, has the natural one. `library`: 1: one of the
// backend's does it where it can, 2: none does, 0: where one is quicker. `repeats`: gradients have
// the same bits in every run.
//
// With `score` (table/score.h), where the backend's kernels take it, s is score_function(score) of
// scale q k^T in place of the soft cap: of batch and head, which are the quotient and the remainder
// of the matrix's number by score_heads, and of query first_query + i and key first_key + j.
//
// Dropout: a counter of the generator has 16 bits for each of two queries, i and i + 8, and four
// keys, j, j + 1, j + 8 and j + 9: what a lane has of a tile. The weight of query i and key j,
// counted in sequence b (0 where there are none), is kept where those in half j % 2 of word i / 8 %
// 2 * 2 + j / 8 % 2 are at least round(dropout 2^16), and divided by the share that is kept so. The
// counter is offset + (rows head + (starts_q[b] + 15 b) / 16 * 8 + i / 16 * 8 + i % 8) columns + j
// / 16 * 4 + j % 8 / 2 with rows = (L + 15 sequences) / 16 * 8 and columns = (S + 15) / 16 * 4.
//
// With `starts_q` rows of q are sequences one behind the other: b from starts_q[b] to starts_q[b +
// 1], of at most max_queries; so with starts_k and max_keys (which is the S of dropout), or, where
// used_k is defined, used_k[b] keys from starts_k[b] on. With `pages` key j of b is row pages[b][j
// / page] page + j % page of k and v. Where starts and pages are wrong nothing outside of the
// tensors is read; rows of no sequence get zeros.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Sdpa {
  static constexpr KernelInfo kInfo{"sdpa",          Anchor::General, 3,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out, lse, logs{};
    T q, k, v;
    T mask{};                                  // bool, or of q's dtype: what is added
    T slopes{};                                // float32 [..., H, 1 or sequences, 1]
    T starts_q{}, starts_k{}, used_k{};        // int32, contiguous
    T pages{};                                 // int32 [sequences, pages of one]
    T table0{}, table1{}, table2{}, table3{};  // float32, contiguous: what `score` looks up
  };
  template <class T>
  struct Numbers {
    T seed{}, offset{};
    T scale, left, right, bottom_right, soft_cap, dropout, max_queries, max_keys, page;
    T library, repeats;
    T score, score_heads, first_query, first_key;
  };
};

// dq has all batch dimensions of out. dk and dv have, too, or 1 for the last one: then they are
// sums over it. dmask has the mask's dimensions.
struct SdpaBackward {
  static constexpr KernelInfo kInfo{"sdpa_backward", Anchor::General, 4,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T dq, dk, dv, dmask{};
    T q, k, v, out, lse, dout;
    T mask{}, slopes{}, starts_q{}, starts_k{}, used_k{}, pages{};
    T table0{}, table1{}, table2{}, table3{};
  };
  template <class T>
  using Numbers = Sdpa::Numbers<T>;
};

}  // namespace pyflame::kernels
