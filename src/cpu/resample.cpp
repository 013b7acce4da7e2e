// Products with banded matrices along two dimensions (table/kernels/resample.h). A unit is one row
// of the result: rows of x are added to one in a thread's memory, elements of that to the result.
// Elements of short lines are gathered through a table of places, those of long ones (channels) are
// vectors as they lie. A weight of 0 takes nothing, inf and NaN neither.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/resample.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/rows-inl.h"
#include "cpu/scratch.h"
#include "table/kernels/resample.h"
#include "table/resample.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {

// Bytes as colours: rounded, and no more than 255.
HWY_INLINE Wide<float> Load(const uint8_t* q) {
  const Wide<float>::D d;
  const hn::Rebind<int32_t, Wide<float>::D> di;
  const hn::Rebind<uint8_t, Wide<float>::D> d8;
  Wide<float> r;
  for (int p = 0; p < Wide<float>::kParts; ++p)
    r.v[p] = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, q + p * Wide<float>::kPart)));
  return r;
}
HWY_INLINE void Store(const Wide<float>& a, uint8_t* q) {
  const Wide<float>::D d;
  const hn::Rebind<int32_t, Wide<float>::D> di;
  const hn::Rebind<uint8_t, Wide<float>::D> d8;
  for (int p = 0; p < Wide<float>::kParts; ++p) {
    const auto v = hn::Floor(hn::Add(a.v[p], hn::Set(d, 0.5f)));
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, v)), d8, q + p * Wide<float>::kPart);
  }
}

namespace {

constexpr auto at = kernels::tensors<kernels::Resample>;
constexpr auto kNumber = kernels::numbers<kernels::Resample>;
constexpr int64_t kLines = 16;  // elements side by side that are vectors

// The first n of a vector.
template <class S>
HWY_INLINE Wide<ComputeOf<S>> Some(const S* q, int64_t n) {
  if (n >= Wide<ComputeOf<S>>::kLanes) return Load(q);
  alignas(64) S buffer[Wide<ComputeOf<S>>::kLanes] = {};
  std::memcpy(buffer, q, static_cast<size_t>(n) * sizeof(S));
  return Load(buffer);
}
template <class T, class S>
HWY_INLINE void PutSome(const Wide<T>& v, S* q, int64_t n) {
  if (n >= Wide<T>::kLanes) return Store(v, q);
  StorePart(v, q, n);
}

template <class S>
struct Work {
  using T = ComputeOf<S>;
  using I = std::conditional_t<std::is_same_v<T, double>, int64_t, int32_t>;
  static constexpr int64_t W = Wide<T>::kLanes;

  table::Taps a, b;
  int64_t inner, row, columns, padded;  // elements of a row of x, and of y; those in whole vectors
  bool same_b, gathered;
  std::vector<T> wa, wb;  // wb of gathered columns: [most][padded]
  std::vector<I> places;  // [most][padded]

  explicit Work(const KernelArgs& k)
      : a(taps(k, k.i(kNumber.rule_a), k.i(kNumber.in_a), k.i(kNumber.out_a),
               k.f(kNumber.scale_a))),
        b(taps(k, k.i(kNumber.rule_b), k.i(kNumber.in_b), k.i(kNumber.out_b),
               k.f(kNumber.scale_b))),
        inner(k.i(kNumber.inner)),
        row(b.in * inner),
        columns(b.out * inner),
        padded((columns + W - 1) / W * W),
        same_b(b.same()),
        gathered(!same_b && inner < kLines && row < (int64_t{1} << 31)) {
    wa.assign(a.weight.begin(), a.weight.end());
    if (!gathered) {
      wb.assign(b.weight.begin(), b.weight.end());
      return;
    }
    wb.assign(static_cast<size_t>(b.most * padded), T(0));
    places.assign(static_cast<size_t>(b.most * padded), I(0));
    for (int64_t c = 0; c < columns; ++c) {
      const auto o = static_cast<size_t>(c / inner);
      for (int64_t t = 0; t < b.count[o]; ++t) {
        const auto to = static_cast<size_t>(t * padded + c);
        wb[to] = static_cast<T>(b.weight[o * static_cast<size_t>(b.most) + static_cast<size_t>(t)]);
        places[to] = static_cast<I>((b.start[o] + t) * inner + c % inner);
      }
    }
  }
  static table::Taps taps(const KernelArgs& k, int64_t rule, int64_t in, int64_t out,
                          double scale) {
    const bool back = k.i(kNumber.transposed) != 0;
    const table::Taps t =
        table::taps_of(static_cast<table::Rule>(rule), back ? out : in, back ? in : out, scale,
                       k.i(kNumber.align) != 0, !std::is_same_v<T, double>);
    return back ? table::transposed(t) : t;
  }

  // Rows of x, `row` apart, to one.
  template <class R>
  HWY_INLINE void add_rows(const S* x, int64_t i, R* to) const {
    const T* w = &wa[static_cast<size_t>(i * a.most)];
    const int64_t n = a.count[static_cast<size_t>(i)];
    for (int64_t j = 0; j < row; j += W) {
      const int64_t left = row - j;
      Wide<T> sum = Fill(T(0));
      if (n > 0) sum = Fill(w[0]) * Some(x + j, left);
      for (int64_t k = 1; k < n; ++k)
        if (w[k] != 0) sum = Fma(Fill(w[k]), Some(x + k * row + j, left), sum);
      PutSome(sum, to + j, left);
    }
  }
  HWY_INLINE Wide<T> gather(const T* from, const I* at) const {
    Wide<T> r;
    const typename Wide<T>::D d;
    const hn::RebindToSigned<typename Wide<T>::D> di;
    for (int p = 0; p < Wide<T>::kParts; ++p)
      r.v[p] = hn::GatherIndex(d, from, hn::LoadU(di, at + p * Wide<T>::kPart));
    return r;
  }
  HWY_INLINE void gather_row(const T* from, S* y) const {
    const Wide<T> none = Fill(T(0));
    for (int64_t c = 0; c < columns; c += W) {
      Wide<T> w = Load(&wb[static_cast<size_t>(c)]);
      Wide<T> sum =
          Choose(NotEqual(w, none), w * gather(from, &places[static_cast<size_t>(c)]), none);
      for (int64_t k = 1; k < b.most; ++k) {
        const auto q = static_cast<size_t>(k * padded + c);
        w = Load(&wb[q]);
        sum = Choose(NotEqual(w, none), Fma(w, gather(from, &places[q]), sum), sum);
      }
      PutSome(sum, y + c, columns - c);
    }
  }
  HWY_INLINE void line_row(const T* from, S* y) const {
    for (int64_t o = 0; o < b.out; ++o) {
      const T* w = &wb[static_cast<size_t>(o * b.most)];
      const T* x = from + b.start[static_cast<size_t>(o)] * inner;
      const int64_t n = b.count[static_cast<size_t>(o)];
      for (int64_t c = 0; c < inner; c += W) {
        const int64_t left = inner - c;
        Wide<T> sum = Fill(T(0));
        if (n > 0) sum = Fill(w[0]) * Some(x + c, left);
        for (int64_t k = 1; k < n; ++k)
          if (w[k] != 0) sum = Fma(Fill(w[k]), Some(x + k * inner + c, left), sum);
        PutSome(sum, y + o * inner + c, left);
      }
    }
  }
  // Row i of a plane at x. The rows before it, back to `first`, are there.
  HWY_INLINE void run(const S* x, int64_t i, int64_t first, S* y, T* memory) const {
    if (i > first && a.repeats(i)) {
      std::memcpy(y, y - columns, static_cast<size_t>(columns) * sizeof(S));
      return;
    }
    x += a.start[static_cast<size_t>(i)] * row;
    if (same_b) {
      if (a.plain(i))
        std::memcpy(y, x, static_cast<size_t>(row) * sizeof(S));
      else
        add_rows(x, i, y);
      return;
    }
    const T* from = memory;
    if constexpr (std::is_same_v<S, T>)
      if (a.plain(i)) from = x;
    if (from == memory) add_rows(x, i, memory);
    if (gathered)
      gather_row(from, y);
    else
      line_row(from, y);
  }
};

template <class S>
void Run(const KernelArgs& k) {
  using T = ComputeOf<S>;
  const Work<S> work(k);
  const S* x = k.data<const S>(at.x);
  S* y = k.data<S>(at.y);
  const int64_t rows = k.i(kNumber.outer) * work.a.out;
  const int64_t each = work.columns * (work.a.most + work.b.most);
  parallel_with(rows, std::max<int64_t>(1, (1 << 15) / each),
                static_cast<size_t>(work.same_b ? 1 : work.row) * sizeof(T),
                [&](int64_t begin, int64_t end, char* memory) HWY_ATTR {
                  for (int64_t r = begin; r < end; ++r) {
                    const int64_t plane = r / work.a.out, i = r % work.a.out;
                    const int64_t first = plane * work.a.out < begin ? begin % work.a.out : 0;
                    work.run(x + plane * work.a.in * work.row, i, first, y + r * work.columns,
                             reinterpret_cast<T*>(memory));
                  }
                });
}

}  // namespace

static void Resample(const KernelArgs& k) {
  switch (k.dtype(at.x)) {
    case DType::Float64:
      return Run<double>(k);
    case DType::Float32:
      return Run<float>(k);
    case DType::Float16:
      return Run<float16>(k);
    case DType::BFloat16:
      return Run<bfloat16>(k);
    default:
      return Run<uint8_t>(k);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {

PF_CPU_SIMD_KERNEL(Resample)

}  // namespace pyflame::cpu
#endif
