// Attention without its matrix of scores: a few rows of queries at a time, whose scores stay in
// the cache, through the micro-kernels of the matrix product. float16 and bfloat16 are converted
// when they are read; scores and probabilities are never rounded to them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/attention_rows.h"
#include "cpu/gemm_own.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "table/kernels/attention.h"

namespace pyflame::cpu {
namespace {

constexpr int64_t kBlock = 48;  // rows of queries in one block of the backward pass

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// One matrix of a batch: where it begins and its strides.
template <class S>
struct View {
  S* data = nullptr;
  int64_t row = 0, col = 0;
};

template <class S>
View<S> item(const pf_tensor& t, const pf_tensor& shape, int64_t index) {
  S* p = static_cast<S*>(t.data);
  for (int d = shape.ndim - 3; d >= 0; --d) {
    const int64_t i = index % shape.shape[d];
    index /= shape.shape[d];
    const int at = d + t.ndim - shape.ndim;
    if (at >= 0 && t.shape[at] > 1) p += i * t.strides[at];
  }
  auto stride = [&](int at) { return at < 0 || t.shape[at] == 1 ? 0 : t.strides[at]; };
  return {p, stride(t.ndim - 2), stride(t.ndim - 1)};
}

// The right operand of a product as panels of nr columns.
template <class T>
struct Panels {
  const T* data;
  int64_t panel, row;
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

struct Sizes {
  int64_t heads = 1, l, s, e, ev;
  double scale;
  bool causal;

  Sizes(const pf_tensor& out, const pf_tensor& q, const pf_tensor& k, const KernelArgs& a)
      : l(q.shape[q.ndim - 2]),
        s(k.shape[k.ndim - 2]),
        e(q.shape[q.ndim - 1]),
        ev(out.shape[out.ndim - 1]),
        scale(a.f(kernels::numbers<kernels::Sdpa>.scale)),
        causal(a.i(kernels::numbers<kernels::Sdpa>.causal) != 0) {
    for (int d = 0; d + 2 < out.ndim; ++d) heads *= out.shape[d];
  }
  int64_t limit(int64_t row) const { return causal ? std::min(s, row + 1) : s; }
};

// Applies scale and mask of query `i` to its n scores.
template <class S, class T>
void apply_mask(const pf_tensor& mask, const pf_tensor& shape, int64_t head, int64_t i, int64_t n,
                T scale, T* scores) {
  if (static_cast<DType>(mask.dtype) == DType::Bool) {
    const View<const bool8> m = item<const bool8>(mask, shape, head);
    const bool8* row = m.data + i * m.row;
    for (int64_t j = 0; j < n; ++j)
      scores[j] = row[j * m.col] ? scores[j] * scale : -std::numeric_limits<T>::infinity();
  } else {
    const View<const S> m = item<const S>(mask, shape, head);
    const S* row = m.data + i * m.row;
    for (int64_t j = 0; j < n; ++j) {
      T x;
      micro::pack(row + j * m.col, 1, 0, 1, 1, 1, &x);
      scores[j] = scores[j] * scale + x;
    }
  }
}

template <class S, class T>
void forward(const KernelArgs& args) {
  constexpr auto at = kernels::tensors<kernels::Sdpa>;
  const pf_tensor &out = args.tensor(at.out), &lse = args.tensor(at.lse);
  const pf_tensor &q = args.tensor(at.q), &k = args.tensor(at.k), &v = args.tensor(at.v);
  const bool masked = args.has(at.mask);
  const Sizes z(out, q, k, args);
  const micro::Kernels<T>& kern = micro::kernels<T>();
  const int64_t nr = kern.nr, mr = kern.mr;
  const int64_t tiles = (z.l + mr - 1) / mr;
  // Heads are cut further when there are few of them; a chunk takes every chunks-th tile, which
  // balances causal rows.
  const int64_t want = 4 * num_threads();
  const int64_t chunks = std::clamp<int64_t>(
      z.heads >= want ? 1 : (want + z.heads - 1) / std::max<int64_t>(z.heads, 1), 1,
      std::max<int64_t>(tiles / 2, 1));
  const int64_t ld = round_up(z.s, std::max<int64_t>(nr, attention::kRowPad));
  const T scale = static_cast<T>(z.scale);

  const size_t bytes = Parts::bytes<T>(ld * z.e) + Parts::bytes<T>(z.s * z.ev) +
                       Parts::bytes<T>(mr * ld) + Parts::bytes<T>(mr * std::max(z.e, z.ev));
  auto chunk = [&](int64_t head, int64_t first, char* memory) {
    Parts parts(memory);
    const View<const S> qm = item<const S>(q, out, head);
    const Panels<T> kt =
        pack_transposed<S, T>(kern, item<const S>(k, out, head), z.s, z.e, parts.take<T>(ld * z.e));
    const Panels<T> vp = as_panels(
        kern, dense<S, T>(item<const S>(v, out, head), z.s, z.ev, parts.take<T>(z.s * z.ev)));
    T* const scores = parts.take<T>(mr * ld);
    T* const temp = parts.take<T>(mr * std::max(z.e, z.ev));
    const View<S> om = item<S>(out, out, head);
    T* const lse_row = static_cast<T*>(lse.data) + head * z.l;
    for (int64_t t = first; t < tiles; t += chunks) {
      const int64_t i0 = z.l * t / tiles;
      const int rows = static_cast<int>(z.l * (t + 1) / tiles - i0);
      const int64_t limit = z.limit(i0 + rows - 1);
      View<const T> a;
      if constexpr (std::is_same_v<S, T>)
        a = {qm.data + i0 * qm.row, qm.row, qm.col};
      else
        a = dense<S, T>({qm.data + i0 * qm.row, qm.row, qm.col}, rows, z.e, temp);
      tile_row(kern, rows, round_up(limit, nr), z.e, a, kt, scores, ld, false);
      T inverse[micro::Kernels<T>::kMaxRows];
      for (int r = 0; r < rows; ++r) {
        T* s = scores + r * ld;
        const int64_t n = z.limit(i0 + r);
        if (masked) apply_mask<S, T>(args.tensor(at.mask), out, head, i0 + r, n, scale, s);
        // The largest score is that of the largest product only for a scale above 0.
        const bool scaled = masked || scale <= 0;
        if (scaled && !masked)
          for (int64_t j = 0; j < n; ++j) s[j] *= scale;
        const attention::RowSum<T> sum = attention::softmax_row(s, n, scaled ? T(1) : scale);
        std::fill(s + n, s + limit, T(0));
        inverse[r] = sum.sum == 0 ? T(0) : T(1) / sum.sum;
        lse_row[i0 + r] = sum.sum == 0 ? sum.max : sum.max + std::log(sum.sum);
      }
      T* c;
      int64_t c_row;
      if constexpr (std::is_same_v<S, T>)
        c = om.data + i0 * om.row, c_row = om.row;
      else
        c = temp, c_row = z.ev;
      tile_row(kern, rows, z.ev, limit, {scores, ld, 1}, vp, c, c_row, false);
      for (int r = 0; r < rows; ++r) {
        T* row = c + r * c_row;
        for (int64_t j = 0; j < z.ev; ++j) row[j] *= inverse[r];
        if constexpr (!std::is_same_v<S, T>) micro::store(row, z.ev, om.data + (i0 + r) * om.row);
      }
    }
  };
  const double work = double(z.l) * double(z.s) * double(z.e + z.ev + 8) / double(chunks);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(2e5 / (work + 1)));
  parallel_with(z.heads * chunks, grain, bytes, [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t i = begin; i < end; ++i) chunk(i / chunks, i % chunks, memory);
  });
}

template <class S, class T>
void backward(const KernelArgs& args) {
  constexpr auto at = kernels::tensors<kernels::SdpaBackward>;
  constexpr bool kSame = std::is_same_v<S, T>;
  const pf_tensor &q = args.tensor(at.q), &k = args.tensor(at.k), &v = args.tensor(at.v);
  const pf_tensor &out = args.tensor(at.out), &lse = args.tensor(at.lse);
  const pf_tensor& dout = args.tensor(at.dout);
  const bool masked = args.has(at.mask);
  const Sizes z(out, q, k, args);
  const micro::Kernels<T>& kern = micro::kernels<T>();
  const int64_t nr = kern.nr, mr = kern.mr;
  // A function of the shape alone: it sets the order in which dk and dv are summed.
  const int64_t block = z.s <= 1024 ? kBlock : z.s <= 4096 ? kBlock / 2 : kBlock / 4;
  const int64_t ld = round_up(z.s, std::max<int64_t>(nr, attention::kRowPad));
  const int64_t wide = std::max(z.e, z.ev);
  const T scale = static_cast<T>(z.scale);

  const auto size = [](int64_t n) { return Parts::bytes<T>(n); };
  const size_t bytes = 2 * size(ld * wide) + 2 * size(block * ld) + 3 * size(z.l * wide) +
                       4 * size(z.s * wide) + size(block * wide);
  auto head_fn = [&](int64_t head, char* memory) {
    Parts parts(memory);
    const View<const S> ks = item<const S>(k, out, head), vs = item<const S>(v, out, head);
    const Panels<T> kt = pack_transposed<S, T>(kern, ks, z.s, z.e, parts.take<T>(ld * z.e));
    const Panels<T> vt = pack_transposed<S, T>(kern, vs, z.s, z.ev, parts.take<T>(ld * z.ev));
    const View<const T> km = dense<S, T>(ks, z.s, z.e, parts.take<T>(z.s * z.e));
    const View<const T> qm =
        dense<S, T>(item<const S>(q, out, head), z.l, z.e, parts.take<T>(z.l * z.e));
    const View<const T> om =
        dense<S, T>(item<const S>(out, out, head), z.l, z.ev, parts.take<T>(z.l * z.ev));
    const View<const T> gm =
        dense<S, T>(item<const S>(dout, out, head), z.l, z.ev, parts.take<T>(z.l * z.ev));
    T* const p = parts.take<T>(block * ld);
    T* const ds = parts.take<T>(block * ld);

    View<S> dq = item<S>(args.tensor(at.dq), out, head),
            dk = item<S>(args.tensor(at.dk), out, head),
            dv = item<S>(args.tensor(at.dv), out, head);
    View<T> dkt, dvt, dqt;
    if constexpr (kSame) {
      dkt = dk, dvt = dv;
    } else {
      dkt = {parts.take<T>(z.s * z.e), z.e, 1};
      dvt = {parts.take<T>(z.s * z.ev), z.ev, 1};
      dqt = {parts.take<T>(block * z.e), z.e, 1};
    }
    for (int64_t j = 0; j < z.s; ++j) {
      std::fill_n(dkt.data + j * dkt.row, z.e, T(0));
      std::fill_n(dvt.data + j * dvt.row, z.ev, T(0));
    }

    for (int64_t i0 = 0; i0 < z.l; i0 += block) {
      const int64_t n = std::min(block, z.l - i0);
      const int64_t limit = z.limit(i0 + n - 1);
      const int64_t tiles = (n + mr - 1) / mr;
      if constexpr (kSame) dqt = {dq.data + i0 * dq.row, dq.row, 1};
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r0 = n * t / tiles;
        const int rows = static_cast<int>(n * (t + 1) / tiles - r0);
        const int64_t cols = z.limit(i0 + r0 + rows - 1);
        tile_row(kern, rows, round_up(cols, nr), z.e, {qm.data + (i0 + r0) * qm.row, qm.row, 1}, kt,
                 p + r0 * ld, ld, false);
        tile_row(kern, rows, round_up(cols, nr), z.ev, {gm.data + (i0 + r0) * gm.row, gm.row, 1},
                 vt, ds + r0 * ld, ld, false);
        for (int r = 0; r < rows; ++r) {
          const int64_t i = i0 + r0 + r, m = z.limit(i);
          T *pr = p + (r0 + r) * ld, *dr = ds + (r0 + r) * ld;
          const T *g = gm.data + i * gm.row, *o = om.data + i * om.row;
          const T delta = attention::dot(g, o, z.ev);
          if (masked) apply_mask<S, T>(args.tensor(at.mask), out, head, i, m, scale, pr);
          attention::probability_row(pr, m, masked ? T(1) : scale,
                                     static_cast<const T*>(lse.data)[head * z.l + i]);
          for (int64_t j = 0; j < m; ++j) dr[j] = pr[j] * (dr[j] - delta) * scale;
          std::fill(pr + m, pr + limit, T(0));
          std::fill(dr + m, dr + limit, T(0));
        }
        tile_row(kern, rows, z.e, cols, {ds + r0 * ld, ld, 1}, as_panels(kern, km),
                 dqt.data + r0 * dqt.row, dqt.row, false);
      }
      if constexpr (!kSame)
        for (int64_t r = 0; r < n; ++r)
          micro::store(dqt.data + r * dqt.row, z.e, dq.data + (i0 + r) * dq.row);
      // Columns j0.. see only the queries from j0 on when causal.
      const int64_t col_tiles = (limit + mr - 1) / mr;
      for (int64_t t = 0; t < col_tiles; ++t) {
        const int64_t j0 = limit * t / col_tiles;
        const int cols = static_cast<int>(limit * (t + 1) / col_tiles - j0);
        const int64_t from = z.causal ? std::max<int64_t>(0, j0 - i0) : 0;
        tile_row(kern, cols, z.ev, n - from, {p + from * ld + j0, 1, ld},
                 as_panels(kern, View<const T>{gm.data + (i0 + from) * gm.row, gm.row, 1}),
                 dvt.data + j0 * dvt.row, dvt.row, true);
        tile_row(kern, cols, z.e, n - from, {ds + from * ld + j0, 1, ld},
                 as_panels(kern, View<const T>{qm.data + (i0 + from) * qm.row, qm.row, 1}),
                 dkt.data + j0 * dkt.row, dkt.row, true);
      }
    }
    if constexpr (!kSame)
      for (int64_t j = 0; j < z.s; ++j) {
        micro::store(dkt.data + j * dkt.row, z.e, dk.data + j * dk.row);
        micro::store(dvt.data + j * dvt.row, z.ev, dv.data + j * dv.row);
      }
  };
  const double work = double(z.l) * double(z.s) * double(3 * z.e + 2 * z.ev);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(2e5 / (work + 1)));
  parallel_with(z.heads, grain, bytes, [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t i = begin; i < end; ++i) head_fn(i, memory);
  });
}

void sdpa(const KernelArgs& a) {
  dispatch_float(a.dtype(kernels::tensors<kernels::Sdpa>.out),
                 [&]<class S>() { forward<S, ComputeType<S>>(a); });
}
PF_CPU_KERNEL(kernels::Sdpa::kInfo, sdpa)

void sdpa_backward(const KernelArgs& a) {
  dispatch_float(a.dtype(kernels::tensors<kernels::SdpaBackward>.dq),
                 [&]<class S>() { backward<S, ComputeType<S>>(a); });
}
PF_CPU_KERNEL(kernels::SdpaBackward::kInfo, sdpa_backward)

}  // namespace
}  // namespace pyflame::cpu
