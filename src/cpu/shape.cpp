// Kernels that move elements: cat, flip, roll, tril and triu, and the gradient of views.

#include <algorithm>

#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/move.h"

namespace pyflame::cpu {

namespace {

using namespace kernels;

template <class T>
void copy_as(const Folded<2>& f, T* to, const T* from) {
  if (f.ndim == 0) {
    *to = *from;
    return;
  }
  const int inner = f.ndim - 1;
  const int64_t n = f.shape[inner], ts = f.strides[0][inner], fs = f.strides[1][inner];
  int64_t rows = 1;
  for (int d = 0; d < inner; ++d) rows *= f.shape[d];
  if (rows == 0 || n == 0) return;
  const int64_t* strides[2] = {f.strides[0], f.strides[1]};
  auto copy_row = [ts, fs](T* t, const T* s, int64_t count) {
    if (ts == 1 && fs == 1) {
      std::memcpy(t, s, static_cast<size_t>(count) * sizeof(T));
    } else if (ts == 1 && fs == -1) {
      for (int64_t i = 0; i < count; ++i) t[i] = s[-i];
    } else {
      for (int64_t i = 0; i < count; ++i) t[i * ts] = s[i * fs];
    }
  };
  if (rows == 1) {
    parallel_for(n, kGrain,
                 [&](int64_t b, int64_t e) { copy_row(to + b * ts, from + b * fs, e - b); });
    return;
  }
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t b, int64_t e) {
    Walker<2> at(inner, f.shape, strides, b);
    for (int64_t r = b; r < e; ++r, at.next()) copy_row(to + at.offset[0], from + at.offset[1], n);
  });
}

// Strides in elements, of any sign; the places must not overlap.
void copy_elements(DType dtype, int ndim, const int64_t* shape, void* to, const int64_t* to_strides,
                   const void* from, const int64_t* from_strides) {
  for (int d = 0; d < ndim; ++d)
    if (shape[d] == 0) return;
  const int64_t* strides[2] = {to_strides, from_strides};
  Folded<2> f(ndim, shape, strides);
  dispatch_size(
      dtype, [&]<class T>() { copy_as<T>(f, static_cast<T*>(to), static_cast<const T*>(from)); });
}

char* element(const pf_tensor& t, int64_t offset) {
  return static_cast<char*>(t.data) +
         offset * static_cast<int64_t>(itemsize(static_cast<DType>(t.dtype)));
}

void cat(const KernelArgs& a) {
  constexpr auto arg = tensors<Cat>;
  constexpr auto number = numbers<Cat>;
  const pf_tensor& out = a.tensor(arg.out);
  const auto dim = static_cast<int>(a.i(number.dim));
  int64_t at = 0;
  for (int i = arg.part; i < a.ntensors; ++i) {
    const pf_tensor& in = a.tensor(i);
    if (!in.data) continue;  // an empty one
    copy_elements(a.dtype(arg.out), in.ndim, in.shape, element(out, at * out.strides[dim]),
                  out.strides, in.data, in.strides);
    at += in.shape[dim];
  }
}

void flip(const KernelArgs& a) {
  constexpr auto at = tensors<Flip>;
  constexpr auto number = numbers<Flip>;
  const pf_tensor &out = a.tensor(at.out), &in = a.tensor(at.x);
  int64_t strides[PF_MAX_DIMS], start = 0;
  for (int d = 0; d < in.ndim; ++d) {
    strides[d] = in.strides[d];
    if (a.i(number.dims) >> d & 1) {
      start += (in.shape[d] - 1) * in.strides[d];
      strides[d] = -in.strides[d];
    }
  }
  copy_elements(a.dtype(at.out), in.ndim, in.shape, out.data, out.strides, element(in, start),
                strides);
}

// Short rows, one behind the other, each turned by `shift` elements. All are moved as one piece,
// the shorter way around, and then the elements at one end of every row are put right: two copies
// of a few bytes for each row would cost many times as much.
template <class T>
void roll_short_rows(T* out, const T* in, int64_t rows, int64_t n, int64_t shift) {
  const bool up = shift <= n - shift;
  const int64_t by = up ? shift : n - shift;  // places that elements are moved by
  const int64_t step = std::max<int64_t>(1, 16384 / (n * static_cast<int64_t>(sizeof(T))));
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += step) {  // so much that it is still in the cache
      const int64_t count = std::min(step, end - r);
      T* o = out + r * n;
      const T* x = in + r * n;
      std::memcpy(o + (up ? by : 0), x + (up ? 0 : by),
                  static_cast<size_t>(count * n - by) * sizeof(T));
      if (!up) o += n - by;
      if (up) x += n - by;
      for (int64_t i = 0; i < count; ++i, o += n, x += n)
        for (int64_t j = 0; j < by; ++j) o[j] = x[j];
    }
  });
}

void roll(const KernelArgs& a) {
  constexpr auto at = tensors<Roll>;
  constexpr auto number = numbers<Roll>;
  const pf_tensor &out = a.tensor(at.out), &in = a.tensor(at.x);
  const auto dim = static_cast<int>(a.i(number.dim));
  const int64_t n = in.shape[dim], shift = a.i(number.shift);
  int64_t rows = 1, inner = 1;
  for (int d = 0; d < in.ndim; ++d) (d < dim ? rows : inner) *= d == dim ? 1 : in.shape[d];
  if (rows > 1 && n * inner <= 1024 && std::min(shift, n - shift) * inner <= 16 && contiguous(in) &&
      contiguous(out)) {
    dispatch_size(a.dtype(at.out), [&]<class T>() {
      roll_short_rows(a.data<T>(at.out), a.data<T>(at.x), rows, n * inner, shift * inner);
    });
    return;
  }
  int64_t shape[PF_MAX_DIMS];
  std::copy_n(in.shape, in.ndim, shape);
  shape[dim] = n - shift;
  copy_elements(a.dtype(at.out), in.ndim, shape, element(out, shift * out.strides[dim]),
                out.strides, in.data, in.strides);
  shape[dim] = shift;
  copy_elements(a.dtype(at.out), in.ndim, shape, out.data, out.strides,
                element(in, (n - shift) * in.strides[dim]), in.strides);
}

void triangle(const KernelArgs& a) {
  constexpr auto arg = tensors<Triangle>;
  constexpr auto number = numbers<Triangle>;
  const pf_tensor &out = a.tensor(arg.out), &in = a.tensor(arg.x);
  const int n = out.ndim;
  const int64_t rows = out.shape[n - 2], columns = out.shape[n - 1];
  const int64_t diagonal = a.i(number.diagonal);
  const bool upper = a.i(number.upper) != 0;
  if (columns == 0) return;
  const int64_t os = out.strides[n - 1], is = in.strides[n - 1];
  const int64_t* strides[2] = {out.strides, in.strides};
  dispatch_size(a.dtype(arg.out), [&]<class T>() {
    parallel_for(
        numel(out) / columns, std::max<int64_t>(1, kGrain / columns), [&](int64_t b, int64_t e) {
          Walker<2> at(n - 1, out.shape, strides, b);
          for (int64_t r = b; r < e; ++r, at.next()) {
            T* o = a.data<T>(arg.out) + at.offset[0];
            const T* x = a.data<T>(arg.x) + at.offset[1];
            // Columns [0, cut) are one side, [cut, columns) the other.
            int64_t row = r % rows;
            int64_t cut = std::clamp<int64_t>(row + diagonal + (upper ? 0 : 1), 0, columns);
            int64_t keep = upper ? cut : 0, stop = upper ? columns : cut;
            if (os == 1 && is == 1) {
              std::fill_n(o, keep, T{});
              std::copy(x + keep, x + stop, o + keep);
              std::fill(o + stop, o + columns, T{});
              continue;
            }
            for (int64_t j = 0; j < keep; ++j) o[j * os] = T{};
            for (int64_t j = keep; j < stop; ++j) o[j * os] = x[j * is];
            for (int64_t j = stop; j < columns; ++j) o[j * os] = T{};
          }
        });
  });
}

// Adds the elements of `in` one after the other: several may meet in one place.
template <class T>
void add_overlapping(const pf_tensor& out, const pf_tensor& in, int64_t offset,
                     const int64_t* steps) {
  using C = Compute<T>;
  const int64_t* strides[2] = {steps, in.strides};
  const int64_t n = numel(in);
  T* to = static_cast<T*>(out.data) + offset;
  const T* from = static_cast<const T*>(in.data);
  Walker<2> at(in.ndim, in.shape, strides);
  if constexpr (!kIsHalf<T>) {
    for (int64_t i = 0; i < n; ++i, at.next()) {
      if constexpr (std::is_same_v<T, bool8>)
        to[at.offset[0]] = to[at.offset[0]] || from[at.offset[1]];
      else
        to[at.offset[0]] = static_cast<T>(to[at.offset[0]] + from[at.offset[1]]);
    }
  } else {
    const int64_t count = numel(out);
    const Scratch<C> sums(count);
    std::fill_n(sums.get(), count, C(0));
    C* wide = sums.get() + offset;
    for (int64_t i = 0; i < n; ++i, at.next()) wide[at.offset[0]] += load(from[at.offset[1]]);
    T* all = static_cast<T*>(out.data);
    for (int64_t i = 0; i < count; ++i) all[i] = store<T>(sums.get()[i]);
  }
}

void scatter_view(const KernelArgs& a) {
  constexpr auto at = tensors<ScatterView>;
  constexpr auto number = numbers<ScatterView>;
  const pf_tensor &out = a.tensor(at.out), &in = a.tensor(at.x);
  const int64_t bytes = numel(out) * static_cast<int64_t>(itemsize(a.dtype(at.out)));
  parallel_for(bytes, kGrain * 4, [&](int64_t b, int64_t e) {
    std::memset(static_cast<char*>(out.data) + b, 0, static_cast<size_t>(e - b));
  });
  if (numel(in) == 0) return;
  int64_t steps[PF_MAX_DIMS];
  for (int d = 0; d < in.ndim; ++d) steps[d] = a.i(number.strides + d);
  if (a.i(number.overlaps))
    dispatch(a.dtype(at.out),
             [&]<class T>() { add_overlapping<T>(out, in, a.i(number.offset), steps); });
  else
    copy_elements(a.dtype(at.out), in.ndim, in.shape, element(out, a.i(number.offset)), steps,
                  in.data, in.strides);
}

}  // namespace

PF_CPU_KERNEL(Cat::kInfo, cat)
PF_CPU_KERNEL(Flip::kInfo, flip)
PF_CPU_KERNEL(Roll::kInfo, roll)
PF_CPU_KERNEL(Triangle::kInfo, triangle)
PF_CPU_KERNEL(ScatterView::kInfo, scatter_view)

}  // namespace pyflame::cpu
