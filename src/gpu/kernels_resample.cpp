// Products with banded matrices along two dimensions (table/kernels/resample.h). A thread makes
// PF_V elements of the result that lie side by side. Sums go along a, then along b, as on the CPU.
// Where no place has more than two elements along a or b (resample_two), a thread makes PF_V
// elements in each of some rows below each other, and keeps what the next row sees again.
//   -DPF_T= -DPF_R=   dtypes of x and y; bytes are rounded and no more than 255
//   -DPF_C=           what sums and weights are in
//   -DPF_V=           elements of a thread
//   -DPF_LINES=1      those have one place along b: `inner` is a multiple of PF_V
//   -DPF_ONE=1        inner is 1
#include "kernels/integers.h"

// Output i takes `count` elements from `start` on, with the weights at i * most.
struct pf_band {
  const pf_i32* start;  // counts follow, then weights
  pf_i64 in, out, most;
};
struct pf_resample {
  const void* x;
  void* y;
  pf_band a, b;
  pf_i64 outer, inner;
  pf_i64 items;  // threads' work: groups of PF_V elements of y
};
static_assert(sizeof(pf_resample) == 104, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#include "kernels/space.h"

typedef PF_C C;

template <class T>
struct pf_byte_or {
  enum { byte = 0 };
};
template <>
struct pf_byte_or<pf_u8> {
  enum { byte = 1 };
};
template <int N>
PF_DEVICE void pf_fetch(const void* x, pf_i64 at, C (&v)[N]) {
  pf_compute<PF_T> raw[N];
  pf_load<PF_T, N, false>(static_cast<const PF_T*>(x) + at, raw);
  PF_UNROLL for (int i = 0; i < N; ++i) v[i] = static_cast<C>(raw[i]);
}
PF_DEVICE pf_compute<PF_R> pf_rounded(C v) {
  if constexpr (pf_byte_or<PF_R>::byte) {
    const C half = v + C(0.5);
    return half >= C(255) ? 255 : half >= C(1) ? static_cast<pf_i32>(half) : 0;
  } else {
    return pf_dtype<PF_R>::round(v);
  }
}
struct pf_row {
  pf_i32 start, count;
  const C* weights;
};
PF_DEVICE pf_row pf_row_of(const pf_band& band, pf_i64 i) {
  // Weights begin at a multiple of 16 bytes.
  const pf_i64 words = (2 * band.out + 3) / 4 * 4;
  return {band.start[i], band.start[band.out + i],
          reinterpret_cast<const C*>(band.start + words) + i * band.most};
}

// N elements at x, which stand at row `a` and column `first` of a plane.
template <int N>
PF_DEVICE void pf_sums(const pf_resample& r, const pf_row& a, const pf_row& b, pf_i64 plane,
                       pf_i64 c, C (&sum)[N]) {
  const pf_i64 width = r.b.in * r.inner;
  PF_UNROLL for (int i = 0; i < N; ++i) sum[i] = C(0);
  pf_i64 column = (plane * r.a.in + a.start) * width + b.start * r.inner + c;
  PF_NO_UNROLL for (pf_i32 k = 0; k < b.count; ++k, column += r.inner) {
    const C wb = b.weights[k];
    if (wb == C(0)) continue;
    C v[N], rows[N];
    PF_UNROLL for (int i = 0; i < N; ++i) rows[i] = C(0);
    PF_NO_UNROLL for (pf_i32 j = 0; j < a.count; ++j) {
      const C wa = a.weights[j];
      if (wa == C(0)) continue;
      pf_fetch(r.x, column + j * width, v);
      PF_UNROLL for (int i = 0; i < N; ++i) rows[i] =
          j == 0 ? wa * v[i] : pf_fma(wa, v[i], rows[i]);
    }
    PF_UNROLL for (int i = 0; i < N; ++i) sum[i] =
        k == 0 ? wb * rows[i] : pf_fma(wb, rows[i], sum[i]);
  }
}

PF_KERNEL(resample, 256)(pf_resample r) {
  const pf_index width = static_cast<pf_index>(r.b.out * r.inner);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(r.items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V, row = at / width;
    const pf_index plane = row / static_cast<pf_index>(r.a.out);
    const pf_row a = pf_row_of(r.a, row - plane * static_cast<pf_index>(r.a.out));
    const pf_index column = at - row * width, inner = static_cast<pf_index>(r.inner);
    pf_compute<PF_R> out[PF_V];
    if constexpr (PF_LINES) {
      const pf_index o = PF_ONE ? column : column / inner;
      C sum[PF_V];
      pf_sums<PF_V>(r, a, pf_row_of(r.b, o), plane, PF_ONE ? 0 : column - o * inner, sum);
      PF_UNROLL for (int i = 0; i < PF_V; ++i) out[i] = pf_rounded(sum[i]);
    } else {
      PF_UNROLL for (int i = 0; i < PF_V; ++i) {
        const pf_index here = column + i, o = PF_ONE ? here : here / inner;
        C sum[1];
        pf_sums<1>(r, a, pf_row_of(r.b, o), plane, PF_ONE ? 0 : here - o * inner, sum);
        out[i] = pf_rounded(sum[0]);
      }
    }
    pf_store<PF_R, PF_V, false>(static_cast<PF_R*>(r.y) + at, out);
  }
}

enum { ROWS = 16 };  // of a thread in resample_two

// PF_V elements of one row of x, each at up to two columns; 0 beside a weight of 0.
struct pf_line {
  C at[2][PF_V];
};
template <bool ONE>
struct pf_count {
  typedef pf_i64 type;
};
template <>
struct pf_count<true> {
  typedef pf_i32 type;
};
struct pf_columns {
  pf_count<PF_ONE>::type from[PF_ONE ? PF_V : 1];  // in a row of x
  C weight[2][PF_ONE ? PF_V : 1];
};
PF_DEVICE void pf_read(const pf_resample& r, const pf_columns& b, pf_i64 row, pf_line& line) {
  const pf_i64 base = row * r.b.in * r.inner;
  PF_UNROLL for (int k = 0; k < 2; ++k) {
    if constexpr (PF_ONE) {
      PF_UNROLL for (int i = 0; i < PF_V; ++i) {
        C v[1] = {C(0)};
        if (b.weight[k][i] != C(0)) pf_fetch(r.x, base + b.from[i] + k, v);
        line.at[k][i] = v[0];
      }
    } else {
      PF_UNROLL for (int i = 0; i < PF_V; ++i) line.at[k][i] = C(0);
      if (b.weight[k][0] != C(0)) pf_fetch(r.x, base + b.from[0] + k * r.inner, line.at[k]);
    }
  }
}
PF_KERNEL(resample_two, 256)(pf_resample r) {
  const pf_index inner = static_cast<pf_index>(r.inner);
  const pf_index groups = static_cast<pf_index>(r.b.out * r.inner) / PF_V;
  const pf_index strips = (static_cast<pf_index>(r.a.out) + ROWS - 1) / ROWS;
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(r.items); e += pf_item_step()) {
    const pf_index rest = static_cast<pf_index>(e) / groups;
    const pf_index column = (static_cast<pf_index>(e) - rest * groups) * PF_V;
    const pf_index plane = rest / strips, strip = rest - plane * strips;
    pf_columns b;
    PF_UNROLL for (int i = 0; i < (PF_ONE ? PF_V : 1); ++i) {
      const pf_index o = PF_ONE ? column + i : column / inner;
      const pf_row row = pf_row_of(r.b, o);
      if constexpr (PF_ONE)
        b.from[i] = row.start;
      else
        b.from[i] = row.start * r.inner + static_cast<pf_i64>(column - o * inner);
      PF_UNROLL for (int k = 0; k < 2; ++k) b.weight[k][i] = k < row.count ? row.weights[k] : C(0);
    }
    const pf_i64 first = static_cast<pf_i64>(strip) * ROWS;
    const pf_i64 end = first + ROWS < r.a.out ? first + ROWS : r.a.out;
    const pf_i64 x_rows = static_cast<pf_i64>(plane) * r.a.in;
    pf_i64 to = (static_cast<pf_i64>(plane) * r.a.out + first) * (r.b.out * r.inner) + column;
    pf_i64 have[2] = {-1, -1};  // which rows of x the lines are
    pf_line line[2];
    PF_NO_UNROLL for (pf_i64 o = first; o < end; ++o, to += r.b.out * r.inner) {
      const pf_row a = pf_row_of(r.a, o);
      const C wa[2] = {a.count > 0 ? a.weights[0] : C(0), a.count > 1 ? a.weights[1] : C(0)};
      if (have[0] != a.start) {
        if (have[1] == a.start)
          line[0] = line[1];
        else if (wa[0] != C(0))
          pf_read(r, b, x_rows + a.start, line[0]);
        have[0] = have[1] == a.start || wa[0] != C(0) ? a.start : -1;
      }
      if (wa[1] != C(0) && have[1] != a.start + 1) {
        pf_read(r, b, x_rows + a.start + 1, line[1]);
        have[1] = a.start + 1;
      }
      pf_compute<PF_R> out[PF_V];
      PF_UNROLL for (int i = 0; i < PF_V; ++i) {
        C sum(0);
        PF_UNROLL for (int k = 0; k < 2; ++k) {
          const C wb = b.weight[k][PF_ONE ? i : 0];
          if (wb == C(0)) continue;
          C rows(0);
          if (wa[0] != C(0)) rows = wa[0] * line[0].at[k][i];
          if (wa[1] != C(0)) rows = pf_fma(wa[1], line[1].at[k][i], rows);
          sum = k == 0 ? wb * rows : pf_fma(wb, rows, sum);
        }
        out[i] = pf_rounded(sum);
      }
      pf_store<PF_R, PF_V, false>(static_cast<PF_R*>(r.y) + to, out);
    }
  }
}

#else  // launchers
#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/kernel.h"
#include "table/kernels/resample.h"
#include "table/resample.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr auto kNumber = numbers<Resample>;

table::Taps taps(const KernelArgs& a, int64_t rule, int64_t in, int64_t out, double scale,
                 bool single) {
  const bool back = a.i(kNumber.transposed) != 0;
  const table::Taps t = table::taps_of(static_cast<table::Rule>(rule), back ? out : in,
                                       back ? in : out, scale, a.i(kNumber.align) != 0, single);
  return back ? table::transposed(t) : t;
}

// Starts, counts and weights, one behind the other.
template <class C>
void append(std::vector<char>& to, const table::Taps& t) {
  const auto words = static_cast<size_t>(ceil_div(2 * t.out, 4) * 4);
  const size_t at = to.size(), ints = words * 4, n = t.start.size();
  to.resize(at + (ints + t.weight.size() * sizeof(C) + 15) / 16 * 16);
  std::memcpy(&to[at], t.start.data(), n * 4);
  std::memcpy(&to[at + n * 4], t.count.data(), n * 4);
  for (size_t i = 0; i < t.weight.size(); ++i) {
    const C w = static_cast<C>(t.weight[i]);
    std::memcpy(&to[at + ints + i * sizeof(C)], &w, sizeof(C));
  }
}

struct Types {
  DType from, to, sums;
};
void launch(const KernelArgs& a, pf_resample r, const Types& t) {
  const int64_t width = r.b.out * r.inner, all = r.outer * r.a.out * width;
  const auto size = static_cast<int64_t>(std::max<size_t>(itemsize(t.from), itemsize(t.to)));
  int64_t vector = 16 / size;
  const auto fits = [&](int64_t n, const void* p) {
    return n % vector == 0 && reinterpret_cast<uintptr_t>(p) % 16 == 0;
  };
  const bool lines = fits(r.inner, r.x) && fits(r.inner, r.y);
  if (!lines) {
    vector = std::min<int64_t>(vector, 4);
    if (!fits(width, r.y)) vector = 1;
  }
  // Rows that follow each other see the same ones of x. Rows of single elements are read one by one
  // either way: longer vectors, that what a thread looks up serves more of them.
  const bool two = r.a.most <= 2 && r.b.most <= 2 && (lines || r.inner == 1);
  if (two && !lines) {
    const int64_t long_one = 16 / static_cast<int64_t>(itemsize(t.to));
    vector = std::min<int64_t>(long_one, 8);
    while (vector > 1 && !fits(width, r.y)) vector /= 2;
  }
  constexpr int64_t kRows = 16;  // ROWS
  r.items = two ? r.outer * ceil_div(r.a.out, kRows) * (width / vector) : all / vector;
  const int64_t reach = std::max<int64_t>(all, r.outer * r.a.in * r.b.in * r.inner);
  const Defines defines = Defines()
                              .type("PF_T", t.from)
                              .type("PF_R", t.to)
                              .type("PF_C", t.sums)
                              .value("PF_V", vector)
                              .value("PF_LINES", lines || vector == 1)
                              .value("PF_ONE", r.inner == 1)
                              .text("PF_INDEX", reach < (int64_t{1} << 31) ? "pf_u32" : "pf_u64");
  a.launch(a.compile("kernels_resample.cpp", defines, two ? "resample_two" : "resample"),
           blocks_for(r.items, kBlock), kBlock, 0, r);
}

void resample(const KernelArgs& a) {
  constexpr auto at = tensors<Resample>;
  const DType type = a.dtype(at.x);
  const bool single = type != DType::Float64;
  const DType sums = single ? DType::Float32 : DType::Float64;
  const table::Taps ta = taps(a, a.i(kNumber.rule_a), a.i(kNumber.in_a), a.i(kNumber.out_a),
                              a.f(kNumber.scale_a), single);
  const table::Taps tb = taps(a, a.i(kNumber.rule_b), a.i(kNumber.in_b), a.i(kNumber.out_b),
                              a.f(kNumber.scale_b), single);
  // Along the second dimension alone, for what goes through memory in between.
  const table::Taps none = table::taps_of(table::Rule::Nearest, ta.out, ta.out, 1, false, false);
  const table::Taps keep = table::taps_of(table::Rule::Nearest, tb.in, tb.in, 1, false, false);
  constexpr int64_t kFew = 32;  // elements of x that one of y may read anew
  const bool apart = ta.most > 1 && tb.most > 1 && ta.most * tb.most > kFew;
  std::vector<char> bytes;
  size_t begin[4] = {};
  const table::Taps* of[] = {&ta, &tb, &keep, &none};
  for (int i = 0; i < (apart ? 4 : 2); ++i) {
    begin[i] = bytes.size();
    if (single)
      append<float>(bytes, *of[i]);
    else
      append<double>(bytes, *of[i]);
  }
  const char* tables = static_cast<const char*>(a.upload(bytes.data(), bytes.size()));
  const auto band = [&](int i) {
    return pf_band{reinterpret_cast<const pf_i32*>(tables + begin[i]), of[i]->in, of[i]->out,
                   of[i]->most};
  };
  pf_resample r{a.data(at.x),       a.data(at.y),       band(0), band(1),
                a.i(kNumber.outer), a.i(kNumber.inner), 0};
  if (!apart) return launch(a, r, {type, type, sums});
  void* const middle =
      a.workspace(static_cast<size_t>(r.outer * ta.out * tb.in * r.inner) * (single ? 4 : 8));
  r.y = middle;
  r.b = band(2);
  launch(a, r, {type, sums, sums});
  r.x = middle;
  r.y = a.data(at.y);
  r.a = band(3);
  r.b = band(1);
  launch(a, r, {sums, type, sums});
}

}  // namespace

PF_GPU_KERNEL(Resample::kInfo, resample)

}  // namespace pyflame::gpu
#endif
