// Kernels that read by index: advanced indexing (also index_select and embedding), gather,
// nonzero, masked_select, and the searches.
#include "cpu/index.h"

#include "core/interrupt.h"
#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/index.h"

namespace pyflame::cpu {

namespace {

using namespace kernels;

// Where every combination of the index tensors points, in elements from the start of the indexed
// dimensions. Index tensors all have the shape of the first.
void indexed_offsets(const KernelArgs& a, const pf_tensor& self, int first_dim, int first_tensor,
                     int count, bool wrap, int64_t* offsets) {
  const int64_t n = numel(a.tensor(first_tensor));
  for (int k = 0; k < count; ++k) {
    const pf_tensor& index = a.tensor(first_tensor + k);
    const int64_t size = self.shape[first_dim + k], step = self.strides[first_dim + k];
    parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
      auto at = walk(index, b);
      const auto* data = static_cast<const int64_t*>(index.data);
      for (int64_t i = b; i < e; ++i, at.next())
        offsets[i] = (k ? offsets[i] : 0) + checked_index(a, data[at.offset[0]], size, wrap) * step;
    });
  }
}

void index(const KernelArgs& a) {
  constexpr auto arg = tensors<Index>;
  constexpr auto number = numbers<Index>;
  const pf_tensor& self = a.tensor(arg.x);
  const int before = static_cast<int>(a.i(number.before)),
            count = static_cast<int>(a.i(number.indexed));
  if (count == 1 && self.ndim == 1 && contiguous(a.tensor(arg.index))) {  // elements of a vector
    const int64_t n = numel(a.tensor(arg.index)), size = self.shape[0], step = self.strides[0];
    const auto* ix = a.data<int64_t>(arg.index);
    const bool wrap = a.i(number.wrap) != 0;
    dispatch_size(a.dtype(arg.out), [&]<class T>() {
      const T* from = a.data<T>(arg.x);
      T* to = a.data<T>(arg.out);
      parallel_for(n, kGrain, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) to[i] = from[checked_index(a, ix[i], size, wrap) * step];
      });
    });
    return;
  }
  const int64_t points = numel(a.tensor(arg.index));
  LocalScratch<4096> memory(Parts::bytes<int64_t>(points));
  auto* const offsets = Parts(memory.data()).take<int64_t>(points);
  indexed_offsets(a, self, before, arg.index, count, a.i(number.wrap) != 0, offsets);
  const int after = before + count;
  const int64_t* after_strides[1] = {self.strides + after};
  const Folded<1> rest(self.ndim - after, self.shape + after, after_strides);
  int64_t outer = 1, run = 1;
  for (int d = 0; d < before; ++d) outer *= self.shape[d];
  for (int d = 0; d < rest.ndim; ++d) run *= rest.shape[d];
  if (outer * points * run == 0) return;
  const bool flat = rest.ndim == 0 || (rest.ndim == 1 && rest.strides[0][0] == 1);
  const int64_t* before_strides[1] = {self.strides};
  const int64_t* rest_strides[1] = {rest.strides[0]};
  dispatch_size(a.dtype(arg.out), [&]<class T>() {
    const T* from = a.data<T>(arg.x);
    T* to = a.data<T>(arg.out);
    parallel_for(outer * points, std::max<int64_t>(1, kGrain / run), [&](int64_t b, int64_t e) {
      Walker<1> at(before, self.shape, before_strides, b / points);
      int64_t k = b % points;
      for (int64_t r = b; r < e; ++r) {
        const T* s = from + at.offset[0] + offsets[k];
        T* o = to + r * run;
        if (run == 1) {
          *o = *s;
        } else if (flat) {
          std::memcpy(o, s, static_cast<size_t>(run) * sizeof(T));
        } else {
          Walker<1> inner(rest.ndim, rest.shape, rest_strides);
          for (int64_t i = 0; i < run; ++i, inner.next()) o[i] = s[inner.offset[0]];
        }
        if (++k == points) {
          k = 0;
          at.next();
        }
      }
    });
  });
}

void gather(const KernelArgs& a) {
  constexpr auto arg = tensors<Gather>;
  constexpr auto number = numbers<Gather>;
  const pf_tensor &self = a.tensor(arg.x), &index = a.tensor(arg.index);
  const int dim = static_cast<int>(a.i(number.dim)), last = index.ndim - 1;
  const int64_t n = index.shape[last], size = self.shape[dim], step = self.strides[dim];
  if (numel(index) == 0) return;
  int64_t lane[PF_MAX_DIMS];
  std::copy_n(self.strides, self.ndim, lane);
  lane[dim] = 0;
  const int64_t* strides[2] = {index.strides, lane};
  dispatch_size(a.dtype(arg.out), [&]<class T>() {
    parallel_for(numel(index) / n, std::max<int64_t>(1, kGrain / n), [&](int64_t b, int64_t e) {
      Walker<2> at(last, index.shape, strides, b);
      for (int64_t r = b; r < e; ++r, at.next()) {
        const int64_t* ix = a.data<int64_t>(arg.index) + at.offset[0];
        const T* s = a.data<T>(arg.x) + at.offset[1];
        T* o = a.data<T>(arg.out) + r * n;
        if (dim == last && step == 1 && index.strides[last] == 1) {
          for (int64_t j = 0; j < n; ++j) o[j] = s[checked_index(a, ix[j], size)];
          continue;
        }
        for (int64_t j = 0; j < n; ++j)
          o[j] = s[j * lane[last] + checked_index(a, ix[j * index.strides[last]], size) * step];
      }
    });
  });
}

// ---- masks --------------------------------------------------------------------------------------

template <class F>
void each_true(const KernelArgs& a, int tensor, F&& fn) {
  const pf_tensor& t = a.tensor(tensor);
  const int64_t n = numel(t);
  dispatch(a.dtype(tensor), [&]<class T>() {
    auto at = walk(t);
    const T* data = a.data<T>(tensor);
    in_pieces(n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i, at.next())
        if (load(data[at.offset[0]]) != Compute<T>(0)) fn(at);
    });
  });
}

void count_true(const KernelArgs& a) {
  constexpr auto at = tensors<CountTrue>;
  const pf_tensor& t = a.tensor(at.x);
  int64_t found = 0;
  if (contiguous(t)) {
    const int64_t n = numel(t);
    dispatch(a.dtype(at.x), [&]<class T>() {
      const T* data = a.data<T>(at.x);
      in_pieces(n, [&](int64_t begin, int64_t end) {
        int64_t here = 0;
        for (int64_t i = begin; i < end; ++i) here += load(data[i]) != Compute<T>(0);
        found += here;
      });
    });
  } else {
    each_true(a, at.x, [&](const Walker<1>&) { ++found; });
  }
  *a.data<int64_t>(at.out) = found;
}

void nonzero(const KernelArgs& a) {
  constexpr auto arg = tensors<Nonzero>;
  int64_t* out = a.data<int64_t>(arg.out);
  const pf_tensor& in = a.tensor(arg.x);
  const int n = in.ndim;
  if (contiguous(in) && itemsize(a.dtype(arg.x)) == 1 && (n == 1 || n == 2)) {
    // Every index is written, and kept where the byte is true: no branch to mispredict.
    const auto* data = a.data<uint8_t>(arg.x);
    const int64_t columns = in.shape[n - 1];
    const int64_t* end = out + numel(a.tensor(arg.out));
    const auto part_of_row = [=](int64_t * to, int64_t row, int64_t first, int64_t last)
        __attribute__((always_inline)) {
      for (int64_t i = first; i < last && to < end; ++i) {
        to[0] = row;
        to[n - 1] = i;
        to += data[row * columns + i] ? n : 0;
      }
      return to;
    };
    constexpr int64_t kShort = 4096;
    in_pieces(columns > 0 ? numel(in) / columns : 0, [&](int64_t first, int64_t last) {
      int64_t* to = out;
      for (int64_t row = first; row < last && to < end; ++row)
        if (columns <= kShort)
          to = part_of_row(to, row, 0, columns);
        else
          in_pieces(columns, [&](int64_t b, int64_t e) { to = part_of_row(to, row, b, e); });
      out = to;
    });
    return;
  }
  each_true(a, arg.x, [&](const Walker<1>& at) {
    for (int d = 0; d < n; ++d) *out++ = at.at[d];
  });
}

void masked_select(const KernelArgs& a) {
  constexpr auto arg = tensors<MaskedSelect>;
  const pf_tensor &in = a.tensor(arg.x), &mask = a.tensor(arg.mask);
  const int64_t* strides[2] = {in.strides, mask.strides};
  const int64_t n = numel(mask);
  dispatch_size(a.dtype(arg.out), [&]<class T>() {
    T* to = a.data<T>(arg.out);
    const T* from = a.data<T>(arg.x);
    if (contiguous(in) && contiguous(mask)) {
      const auto* m = a.data<uint8_t>(arg.mask);
      const T* end = to + numel(a.tensor(arg.out));
      in_pieces(n, [&](int64_t first, int64_t last) {
        T* here = to;
        for (int64_t i = first; i < last && here < end; ++i) {
          *here = from[i];
          here += m[i] != 0;
        }
        to = here;
      });
      return;
    }
    const bool8* m = a.data<bool8>(arg.mask);
    Walker<2> at(in.ndim, in.shape, strides);
    in_pieces(n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i, at.next())
        if (m[at.offset[1]]) *to++ = from[at.offset[0]];
    });
  });
}

void masked_scatter(const KernelArgs& a) {
  constexpr auto arg = tensors<MaskedScatter>;
  const pf_tensor &out = a.tensor(arg.out), &mask = a.tensor(arg.mask);
  const int64_t* strides[2] = {out.strides, mask.strides};
  const int64_t n = numel(mask);
  dispatch_size(a.dtype(arg.out), [&]<class T>() {
    T* to = a.data<T>(arg.out);
    const bool8* m = a.data<bool8>(arg.mask);
    const T* from = a.data<T>(arg.src);
    Walker<2> at(out.ndim, out.shape, strides);
    for (int64_t i = 0; i < n; ++i, at.next())
      if (m[at.offset[1]]) to[at.offset[0]] = *from++;
  });
}

// ---- counting and searching ---------------------------------------------------------------------

void one_hot(const KernelArgs& a) {
  constexpr auto arg = tensors<OneHot>;
  const pf_tensor &out = a.tensor(arg.out), &in = a.tensor(arg.index);
  const int64_t classes = out.shape[out.ndim - 1], n = numel(in);
  int64_t* to = a.data<int64_t>(arg.out);
  std::memset(to, 0, static_cast<size_t>(n * classes) * sizeof(int64_t));
  auto at = walk(in);
  for (int64_t i = 0; i < n; ++i, at.next())
    to[i * classes + checked_index(a, a.data<int64_t>(arg.index)[at.offset[0]], classes, false)] =
        1;
}

void searchsorted(const KernelArgs& a) {
  constexpr auto arg = tensors<Searchsorted>;
  constexpr auto number = numbers<Searchsorted>;
  const pf_tensor &values = a.tensor(arg.values), &sorted = a.tensor(arg.sorted);
  const int64_t n = sorted.shape[sorted.ndim - 1], count = numel(values);
  const int64_t row = sorted.ndim > 1 ? values.shape[values.ndim - 1] : count;
  const bool right = a.i(number.right) != 0;
  dispatch(a.dtype(arg.values), [&]<class T>() {
    // NaN counts as larger than every number, as in sort.
    auto less = [](Compute<T> x, Compute<T> y) { return (x < y) | ((y != y) & (x == x)); };
    parallel_for(count, 2048, [&](int64_t b, int64_t e) {
      auto at = walk(values, b);
      for (int64_t i = b; i < e; ++i, at.next()) {
        const auto v = load(a.data<T>(arg.values)[at.offset[0]]);
        const T* s = a.data<T>(arg.sorted) + (sorted.ndim > 1 ? i / row * n : 0);
        // Without a branch on the values: of random ones half the guesses of the processor fail.
        const auto before = [&](int64_t at) {
          const auto m = load(s[at]);
          return right ? !less(v, m) : less(m, v);
        };
        int64_t low = 0;
        for (int64_t left = n, half; left > 0; left -= half) {
          half = (left + 1) / 2;
          low += half & -static_cast<int64_t>(before(low + half - 1));
          if (left == 1) break;
        }
        a.data<int64_t>(arg.out)[i] = low;
      }
    });
  });
}

}  // namespace

PF_CPU_KERNEL(Index::kInfo, index)
PF_CPU_KERNEL(Gather::kInfo, gather)
PF_CPU_KERNEL(CountTrue::kInfo, count_true)
PF_CPU_KERNEL(Nonzero::kInfo, nonzero)
PF_CPU_KERNEL(MaskedSelect::kInfo, masked_select)
PF_CPU_KERNEL(MaskedScatter::kInfo, masked_scatter)
PF_CPU_KERNEL(OneHot::kInfo, one_hot)
PF_CPU_KERNEL(Searchsorted::kInfo, searchsorted)

}  // namespace pyflame::cpu
