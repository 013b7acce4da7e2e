// Values of images at places of a grid, and the gradients (table/kernels/grid_sample.h). For some
// places at a time, the elements that they take and the weights are listed once for all channels;
// where channels lie side by side they are vectors, else the places are. Gradients of the image are
// added by one thread for each channel, in the order of the places.
#include "cpu/one_target.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/grid_sample.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <cmath>

#include "cpu/kernel.h"
#include "cpu/rows-inl.h"
#include "cpu/scratch.h"
#include "kernels/integers.h"
#include "table/kernels/grid_sample.h"

#ifndef PYFLAME_CPU_GRID_PLACE
#define PYFLAME_CPU_GRID_PLACE
namespace pyflame::cpu::grid {
template <class C>
inline C pf_floor(C x) {
  return std::floor(x);
}
template <class C>
inline C pf_round(C x) {
  return std::nearbyint(x);
}
#define PF_DEVICE inline
#include "kernels/grid_place.h"
#undef PF_DEVICE
}  // namespace pyflame::cpu::grid
#endif

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

constexpr auto kNumber = kernels::numbers<kernels::GridSample>;
constexpr int64_t kPlaces = 64;  // listed at a time
constexpr int kMostTaps = 16;
constexpr int64_t kMostGathered = int64_t{1} << 31;  // elements of a channel

template <class S>
struct Images {
  using T = ComputeOf<S>;
  using I = std::conditional_t<std::is_same_v<T, double>, int64_t, int32_t>;
  static constexpr int64_t W = Wide<T>::kLanes;

  int64_t n, c, points, size[3];
  int dims, mode, padding, taps, each;
  bool align, beside;
  int64_t cells, channel, step, out_channel, out_step;  // strides of x and of y

  explicit Images(const KernelArgs& a)
      : n(a.i(kNumber.n)),
        c(a.i(kNumber.c)),
        points(a.i(kNumber.points)),
        size{a.i(kNumber.in_d), a.i(kNumber.in_h), a.i(kNumber.in_w)},
        dims(static_cast<int>(a.i(kNumber.dims))),
        mode(static_cast<int>(a.i(kNumber.mode))),
        padding(static_cast<int>(a.i(kNumber.padding))),
        taps(1),
        each(grid::pf_grid_taps(mode)),
        align(a.i(kNumber.align) != 0),
        beside(a.i(kNumber.beside) != 0),
        cells(size[0] * size[1] * size[2]),
        channel(beside ? 1 : cells),
        step(beside ? c : 1),
        out_channel(beside ? 1 : points),
        out_step(beside ? c : 1) {
    for (int d = 0; d < dims; ++d) taps *= each;
  }
  bool lines() const { return beside && c >= W; }

  // What `kPlaces` places from p on take: tap by tap. A cell of -1 is nothing; its weight is 0.
  struct List {
    alignas(64) int64_t cell[kMostTaps][kPlaces];
    alignas(64) I place[kMostTaps][kPlaces];  // of the cell in a channel, 0 where nothing is there
    alignas(64) T weight[kMostTaps][kPlaces];
    alignas(64) T slope[3][kMostTaps][kPlaces];  // by the numbers of the grid: x, y, z
  };
  void list(const S* at, int64_t p, int64_t count, bool slopes, List& to) const {
    if (count < kPlaces)  // what vectors read behind the last one
      for (int t = 0; t < taps; ++t) {
        std::fill(to.place[t] + count, to.place[t] + kPlaces, I(0));
        std::fill(to.weight[t] + count, to.weight[t] + kPlaces, T(0));
      }
    for (int64_t i = 0; i < count; ++i) {
      grid::pf_place<T> places[3];
      for (int d = 0; d < dims; ++d)
        grid::pf_grid_place<T>(ToCompute(at[(p + i) * dims + d]), size[2 - d], mode, padding, align,
                               places[d]);
      for (int t = 0; t < taps; ++t) {
        int64_t cell = 0;
        T weight = 1, slope[3] = {1, 1, 1};
        int rest = t;
        bool there = true;
        int k[3] = {};
        for (int d = 0; d < dims; ++d, rest /= each) k[d] = rest % each;
        for (int d = dims; d-- > 0;) {
          const auto& q = places[d];
          there = there && q.at[k[d]] >= 0;
          cell = cell * size[2 - d] + q.at[k[d]];
          weight *= q.weight[k[d]];
          for (int s = 0; s < dims; ++s) slope[s] *= s == d ? q.slope[k[d]] : q.weight[k[d]];
        }
        to.cell[t][i] = there ? cell : -1;
        to.place[t][i] = there ? static_cast<I>(cell * step) : I(0);
        to.weight[t][i] = there ? weight : T(0);
        if (slopes)
          for (int s = 0; s < dims; ++s) to.slope[s][t][i] = there ? slope[s] : T(0);
      }
    }
  }

  void forward(const S* x, const List& l, int64_t count, S* y) const {
    if (lines()) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t q = 0; q < c; q += W) {
          const int64_t left = c - q;
          Wide<T> sum = Fill(T(0));
          for (int t = 0; t < taps; ++t)
            if (l.cell[t][i] >= 0)
              sum = Fma(Fill(l.weight[t][i]), near(x + l.cell[t][i] * step + q, left), sum);
          put(sum, y + i * out_step + q, left);
        }
      return;
    }
    alignas(64) T sums[kPlaces];
    for (int64_t q = 0; q < c; ++q) {
      const S* from = x + q * channel;
      if (std::is_same_v<S, T> && cells * step < kMostGathered) {
        for (int64_t i = 0; i < count; i += W) Store(gathered(from, l, i), sums + i);
      } else {
        for (int64_t i = 0; i < count; ++i) sums[i] = 0;
        for (int t = 0; t < taps; ++t)
          for (int64_t i = 0; i < count; ++i)
            if (l.cell[t][i] >= 0)
              sums[i] = std::fma(l.weight[t][i], ToCompute(from[l.cell[t][i] * step]), sums[i]);
      }
      S* const to = y + q * out_channel;
      if (out_step != 1)
        for (int64_t i = 0; i < count; ++i) StoreOne<S>(sums[i], to + i * out_step);
      else
        for (int64_t i = 0; i < count; i += W) put(Load(sums + i), to + i, count - i);
    }
  }

  void slopes(const S* x, const S* dy, const List& l, int64_t count, S* dgrid) const {
    alignas(64) T dots[kMostTaps][kPlaces] = {};
    for (int64_t q = 0; q < c; ++q)
      for (int t = 0; t < taps; ++t)
        for (int64_t i = 0; i < count; ++i)
          if (l.cell[t][i] >= 0)
            dots[t][i] = std::fma(ToCompute(dy[q * out_channel + i * out_step]),
                                  ToCompute(x[q * channel + l.cell[t][i] * step]), dots[t][i]);
    for (int64_t i = 0; i < count; ++i)
      for (int d = 0; d < dims; ++d) {
        T sum = 0;
        for (int t = 0; t < taps; ++t)
          if (l.cell[t][i] >= 0) sum = std::fma(l.slope[d][t][i], dots[t][i], sum);
        StoreOne<S>(sum, dgrid + i * dims + d);
      }
  }

  // Channels [first, end).
  void backward(const S* dy, const List& l, int64_t count, int64_t first, int64_t end,
                T* dx) const {
    if (beside) {
      for (int64_t i = 0; i < count; ++i)
        for (int t = 0; t < taps; ++t) {
          if (l.cell[t][i] < 0) continue;
          T* to = dx + l.cell[t][i] * step;
          const S* from = dy + i * out_step;
          const T w = l.weight[t][i];
          for (int64_t q = first; q < end; ++q) to[q] = std::fma(w, ToCompute(from[q]), to[q]);
        }
      return;
    }
    for (int64_t q = first; q < end; ++q)
      for (int64_t i = 0; i < count; ++i) {
        const T g = ToCompute(dy[q * out_channel + i]);
        for (int t = 0; t < taps; ++t)
          if (l.cell[t][i] >= 0) {
            T& to = dx[q * channel + l.cell[t][i]];
            to = std::fma(l.weight[t][i], g, to);
          }
      }
  }

 private:
  // One channel at the places from i on; none of what is beside a weight of 0.
  HWY_INLINE Wide<T> gathered(const S* from, const List& l, int64_t i) const {
    Wide<T> sum = Fill(T(0));
    if constexpr (std::is_same_v<S, T>) {
      const typename Wide<T>::D d;
      const hn::RebindToSigned<typename Wide<T>::D> di;
      for (int t = 0; t < taps; ++t) {
        const Wide<T> w = Load(&l.weight[t][i]);
        Wide<T> v;
        for (int p = 0; p < Wide<T>::kParts; ++p)
          v.v[p] = hn::GatherIndex(d, from, hn::LoadU(di, &l.place[t][i + p * Wide<T>::kPart]));
        sum = Choose(NotEqual(w, Fill(T(0))), Fma(w, v, sum), sum);
      }
    }
    return sum;
  }
  static HWY_INLINE Wide<T> near(const S* p, int64_t left) {
    return left >= W ? Load(p) : LoadPart(p, left, T(0));
  }
  static HWY_INLINE void put(const Wide<T>& v, S* p, int64_t left) {
    if (left >= W)
      Store(v, p);
    else
      StorePart(v, p, left);
  }
};

// Stretches of places, each by itself: fn(image, first place, count, list).
template <class S, class F>
void EachStretch(const Images<S>& m, const S* at, bool slopes, F&& fn) {
  using List = typename Images<S>::List;
  const int64_t parts = (m.points + kPlaces - 1) / kPlaces;
  parallel_with(m.n * parts, std::max<int64_t>(1, 512 / (m.c * m.taps)), sizeof(List),
                [&](int64_t begin, int64_t end, char* memory) HWY_ATTR {
                  List& l = *reinterpret_cast<List*>(memory);
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t image = u / parts, p = u % parts * kPlaces;
                    const int64_t count = std::min(kPlaces, m.points - p);
                    m.list(at + image * m.points * m.dims, p, count, slopes, l);
                    fn(image, p, count, l);
                  }
                });
}

void GridSample(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::GridSample>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    const Images<S> m(a);
    const S* x = a.data<const S>(at.x);
    S* y = a.data<S>(at.y);
    EachStretch<S>(m, a.data<const S>(at.grid), false,
                   [&](int64_t image, int64_t p, int64_t count, const auto& l) HWY_ATTR {
                     m.forward(x + image * m.c * m.cells, l, count,
                               y + image * m.c * m.points + p * m.out_step);
                   });
  });
}
void GridSampleGrid(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::GridSampleGrid>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    const Images<S> m(a);
    const S *x = a.data<const S>(at.x), *dy = a.data<const S>(at.dy);
    S* dgrid = a.data<S>(at.dgrid);
    EachStretch<S>(m, a.data<const S>(at.grid), true,
                   [&](int64_t image, int64_t p, int64_t count, const auto& l) HWY_ATTR {
                     m.slopes(x + image * m.c * m.cells,
                              dy + image * m.c * m.points + p * m.out_step, l, count,
                              dgrid + (image * m.points + p) * m.dims);
                   });
  });
}
void GridSampleInput(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::GridSampleInput>;
  dispatch_float(a.dtype(at.dy), [&]<class S>() {
    using T = ComputeOf<S>;
    using List = typename Images<S>::List;
    const Images<S> m(a);
    const S *dy = a.data<const S>(at.dy), *grid = a.data<const S>(at.grid);
    T* dx = a.data<T>(at.dx);
    constexpr int64_t kChannels = 16;
    const int64_t parts = (m.c + kChannels - 1) / kChannels;
    parallel_with(
        m.n * parts, 1, sizeof(List), [&](int64_t begin, int64_t end, char* memory) HWY_ATTR {
          List& l = *reinterpret_cast<List*>(memory);
          for (int64_t u = begin; u < end; ++u) {
            const int64_t image = u / parts, first = u % parts * kChannels;
            const int64_t last = std::min(first + kChannels, m.c);
            T* const to = dx + image * m.c * m.cells;
            for (int64_t s = 0; s < (m.beside ? m.cells : 1); ++s) {
              T* const from = m.beside ? to + s * m.c + first : to + first * m.cells;
              std::fill_n(from, (last - first) * (m.beside ? 1 : m.cells), T(0));
            }
            for (int64_t p = 0; p < m.points; p += kPlaces) {
              const int64_t count = std::min(kPlaces, m.points - p);
              m.list(grid + image * m.points * m.dims, p, count, false, l);
              m.backward(dy + image * m.c * m.points + p * m.out_step, l, count, first, last, to);
            }
          }
        });
  });
}

}  // namespace

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
PF_CPU_SIMD_KERNEL(GridSample)
PF_CPU_SIMD_KERNEL(GridSampleGrid)
PF_CPU_SIMD_KERNEL(GridSampleInput)
}  // namespace pyflame::cpu
#endif
