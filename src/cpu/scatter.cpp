// Kernels that write by index; nothing is written for a wrong one. What meets in one place is
// combined in index order by one thread, so results do not depend on the number of threads: threads
// share out the lanes, the positions in all dimensions but the indexed ones.
#include <algorithm>

#include "cpu/index.h"
#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/index.h"

namespace pyflame::cpu {

namespace {

using namespace kernels;

struct Assign {
  template <class T>
  static T apply(T, T y) {
    return y;
  }
};
struct Add {
  template <class T>
  static T apply(T x, T y) {
    if constexpr (std::is_same_v<T, bool8>)
      return x || y;
    else
      return store<T>(load(x) + load(y));
  }
};
// What is rare: one for all of these.
struct Other {
  int64_t mode;
  template <class T>
  T apply(T x, T y) const {
    if (mode == kMultiply) {
      if constexpr (std::is_same_v<T, bool8>)
        return x && y;
      else
        return store<T>(load(x) * load(y));
    }
    const auto a = load(x), b = load(y);  // NaN wins
    return (mode == kMax ? a > b : a < b) || a != a ? x : y;
  }
};

// Calls fn.operator()<T>(op); assignment only needs the size of the elements.
template <class F>
void dispatch_mode(DType t, int64_t mode, F&& fn) {
  if (mode == kAssign) {
    dispatch_size(t, [&]<class T>() { fn.template operator()<T>(Assign()); });
    return;
  }
  dispatch(t, [&]<class T>() {
    if (mode == kAdd)
      fn.template operator()<T>(Add());
    else
      fn.template operator()<T>(Other{mode});
  });
}

constexpr int kBlock = 64;  // lanes handled together

// What elements are written to: places of one lane, and the index to leave out.
struct Places {
  const KernelArgs& args;
  int64_t size, skip;  // skip: INT64_MIN for none, which is a wrong index itself

  // -1 for a wrong index, which is reported, and for what is left out.
  [[gnu::noinline, gnu::cold]] int64_t odd(int64_t i) const {
    return i == skip && skip != INT64_MIN ? -1 : checked_place(args, i, size);
  }
  int64_t at(int64_t i) const {
    const bool usual = static_cast<uint64_t>(i) < static_cast<uint64_t>(size) && i != skip;
    return usual ? i : odd(i);
  }
};

// n elements of one lane; steps of out, index and source. All of it in registers: a call for each
// element, however inlined, had it in memory, and took three times as long.
template <class T, class Op>
void write_lane(Op op, const Places places, T* out, const int64_t* index, const T* from, int64_t n,
                int64_t os, int64_t is, int64_t ss) {
  for (int64_t j = 0; j < n; ++j) {
    const int64_t place = places.at(index[j * is]);
    if (place < 0) [[unlikely]]
      continue;
    T& to = out[place * os];
    to = op.apply(to, from[j * ss]);
  }
}

// All lanes have the same indices and lie side by side: rows of `width` elements. A row's source is
// as wide, or, where `side` is 0, one element.
template <class T, class Op>
void write_rows(Op op, const Places places, T* out, const int64_t* index, const T* from, int64_t n,
                int64_t width, int64_t os, int64_t is, int64_t ss, int64_t side) {
  for (int64_t j = 0; j < n; ++j) {
    const int64_t place = places.at(index[j * is]);
    if (place < 0) continue;
    T* to = out + place * os;
    const T* row = from + j * ss;
    if (side) {
      for (int64_t l = 0; l < width; ++l) to[l] = op.apply(to[l], row[l]);
    } else {
      const T value = *row;
      for (int64_t l = 0; l < width; ++l) to[l] = op.apply(to[l], value);
    }
  }
}

void scatter(const KernelArgs& a) {
  constexpr auto arg = tensors<Scatter>;
  constexpr auto number = numbers<Scatter>;
  const pf_tensor &out = a.tensor(arg.out), &index = a.tensor(arg.index), &src = a.tensor(arg.src);
  const int dim = static_cast<int>(a.i(number.dim)), n = index.ndim;
  const int64_t length = index.shape[dim];
  const Places places{a, out.shape[dim], a.i(number.skip)};
  if (numel(index) == 0) return;
  // The lanes' dimensions, in order.
  int64_t shape[PF_MAX_DIMS], steps[3][PF_MAX_DIMS], lanes = 1;
  int m = 0;
  bool shared = true;  // all lanes have the same indices: index_add, embedding
  for (int d = 0; d < n; ++d) {
    if (d == dim) continue;
    shape[m] = index.shape[d];
    steps[0][m] = out.strides[d];
    steps[1][m] = index.strides[d];
    steps[2][m] = src.strides[d];
    lanes *= shape[m];
    shared = shared && (index.strides[d] == 0 || index.shape[d] == 1);
    ++m;
  }
  const int64_t* strides[3] = {steps[0], steps[1], steps[2]};
  const int64_t os = out.strides[dim], is = index.strides[dim], ss = src.strides[dim];
  // Of lanes with the same indices: the last dimensions in which they lie side by side, in `out`
  // and in `src` (or with one source for all), `width` lanes in all; `outer` dimensions are before
  // them.
  const int64_t side = m > 0 && steps[2][m - 1] == 0 ? 0 : 1;
  int64_t width = 1;
  int outer = m;
  while (outer > 0 && (shape[outer - 1] == 1 ||
                       (steps[0][outer - 1] == width && steps[2][outer - 1] == side * width)))
    width *= shape[--outer];
  const bool rows = shared && width > 1;
  dispatch_mode(a.dtype(arg.out), a.i(number.mode), [&]<class T>(auto op) {
    const int64_t grain = std::max<int64_t>(kBlock, kGrain / std::max<int64_t>(length, 1));
    if (rows) {
      const int64_t* from[2] = {steps[0], steps[2]};
      parallel_for(lanes, grain, [&](int64_t b, int64_t e) {
        Walker<2> at(outer, shape, from, b / width);
        for (int64_t lane = b, n; lane < e; lane += n, at.next()) {
          const int64_t first = lane % width;
          n = std::min(width - first, e - lane);
          write_rows<T>(
              op, places, a.data<T>(arg.out) + at.offset[0] + first, a.data<int64_t>(arg.index),
              a.data<T>(arg.src) + at.offset[1] + first * side, length, n, os, is, ss, side);
        }
      });
      return;
    }
    parallel_for((lanes + kBlock - 1) / kBlock, std::max<int64_t>(1, grain / kBlock),
                 [&](int64_t b, int64_t e) {
                   Walker<3> at(m, shape, strides, b * kBlock);
                   int64_t lane[3][kBlock];
                   for (int64_t block = b; block < e; ++block) {
                     const auto count =
                         static_cast<int>(std::min<int64_t>(kBlock, lanes - block * kBlock));
                     bool flat = true, flat_index = true;
                     for (int l = 0; l < count; ++l, at.next()) {
                       for (int k = 0; k < 3; ++k) lane[k][l] = at.offset[k];
                       flat = flat && lane[0][l] == lane[0][0] + l && lane[2][l] == lane[2][0] + l;
                       flat_index = flat_index && lane[1][l] == lane[1][0] + l;
                     }
                     T* o = a.data<T>(arg.out);
                     const T* s = a.data<T>(arg.src);
                     const int64_t* ix = a.data<int64_t>(arg.index);
                     // Along memory, whichever that is: each lane keeps its order.
                     if (count == 1 || (shared ? os == 1 : is < lane[1][1] - lane[1][0])) {
                       for (int l = 0; l < count; ++l)
                         write_lane<T>(op, places, o + lane[0][l], ix + lane[1][l], s + lane[2][l],
                                       length, os, is, ss);
                       continue;
                     }
                     for (int64_t j = 0; j < length; ++j) {
                       if (shared) {
                         const int64_t place = places.at(ix[lane[1][0] + j * is]);
                         if (place < 0) continue;
                         const int64_t to = place * os, from = j * ss;
                         for (int l = 0; l < count; ++l) {
                           T& target = o[lane[0][l] + to];
                           target = op.apply(target, s[lane[2][l] + from]);
                         }
                         continue;
                       }
                       const T* sj = s + j * ss;
                       const int64_t* ij = ix + j * is;
                       if (flat && flat_index) {
                         T* ol = o + lane[0][0];
                         sj += lane[2][0];
                         ij += lane[1][0];
                         for (int l = 0; l < count; ++l) {
                           const int64_t place = places.at(ij[l]);
                           if (place >= 0) ol[l + place * os] = op.apply(ol[l + place * os], sj[l]);
                         }
                       } else {
                         for (int l = 0; l < count; ++l) {
                           const int64_t place = places.at(ij[lane[1][l]]);
                           if (place < 0) continue;
                           T& to = o[lane[0][l] + place * os];
                           to = op.apply(to, sj[lane[2][l]]);
                         }
                       }
                     }
                   }
                 });
  });
}

void index_put(const KernelArgs& a) {
  constexpr auto arg = tensors<IndexPut>;
  constexpr auto number = numbers<IndexPut>;
  const pf_tensor &self = a.tensor(arg.x), &values = a.tensor(arg.values),
                  &model = a.tensor(arg.index);
  const int before = static_cast<int>(a.i(number.before)),
            count = static_cast<int>(a.i(number.indexed));
  const int64_t points = numel(model);
  if (numel(values) == 0) return;
  bool one = true;  // one value for all, as the gradient of a sum has
  for (int d = 0; d < values.ndim; ++d) one &= values.strides[d] == 0 || values.shape[d] == 1;
  if (count == 1 && self.ndim == 1 && contiguous(model) && (one || contiguous(values))) {
    // Elements of a vector.
    const auto* ix = static_cast<const int64_t*>(model.data);
    const int64_t os = self.strides[0];
    dispatch_mode(a.dtype(arg.x), a.i(number.accumulate) ? kAdd : kAssign, [&]<class T>(auto op) {
      write_lane<T>(op, {a, self.shape[0], INT64_MIN}, a.data<T>(arg.x), ix, a.data<T>(arg.values),
                    points, os, 1, one ? 0 : 1);
    });
    return;
  }
  // Where each point lies in self and in values.
  LocalScratch<4096> memory(2 * Parts::bytes<int64_t>(points));
  Parts parts(memory.data());
  auto *const to = parts.take<int64_t>(points), *const from = parts.take<int64_t>(points);
  std::fill_n(to, points, 0);
  for (int k = 0; k < count; ++k) {
    const pf_tensor& index = a.tensor(arg.index + k);
    auto at = walk(index);
    for (int64_t i = 0; i < points; ++i, at.next()) {
      int64_t& offset = to[i];
      const int64_t place = checked_place(a, static_cast<const int64_t*>(index.data)[at.offset[0]],
                                          self.shape[before + k]);
      offset = place < 0 || offset < 0 ? -1 : offset + place * self.strides[before + k];
    }
  }
  const int64_t* value_strides[1] = {values.strides + before};
  Walker<1> value_at(model.ndim, model.shape, value_strides);
  for (int64_t i = 0; i < points; ++i, value_at.next()) from[i] = value_at.offset[0];
  int64_t shape[PF_MAX_DIMS], steps[2][PF_MAX_DIMS], lanes = 1;
  int m = 0;
  for (int d = 0; d < self.ndim; ++d) {
    if (d >= before && d < before + count) continue;
    const int v = d < before ? d : d - count + model.ndim;
    shape[m] = self.shape[d];
    steps[0][m] = self.strides[d];
    steps[1][m] = values.strides[v];
    lanes *= shape[m++];
  }
  const int64_t* strides[2] = {steps[0], steps[1]};
  dispatch_mode(a.dtype(arg.x), a.i(number.accumulate) ? kAdd : kAssign, [&]<class T>(auto op) {
    const int64_t grain = std::max<int64_t>(1, kGrain / points / kBlock);
    parallel_for((lanes + kBlock - 1) / kBlock, grain, [&](int64_t b, int64_t e) {
      Walker<2> at(m, shape, strides, b * kBlock);
      int64_t lane[2][kBlock];
      for (int64_t block = b; block < e; ++block) {
        const auto n = static_cast<int>(std::min<int64_t>(kBlock, lanes - block * kBlock));
        bool flat = true;
        for (int l = 0; l < n; ++l, at.next()) {
          lane[0][l] = at.offset[0];
          lane[1][l] = at.offset[1];
          flat = flat && lane[0][l] == lane[0][0] + l && lane[1][l] == lane[1][0] + l;
        }
        for (int64_t k = 0; k < points; ++k) {
          if (to[k] < 0) continue;  // a wrong index
          T* o = a.data<T>(arg.x) + to[k];
          const T* v = a.data<T>(arg.values) + from[k];
          if (flat) {
            T* ol = o + lane[0][0];
            const T* vl = v + lane[1][0];
            for (int l = 0; l < n; ++l) ol[l] = op.apply(ol[l], vl[l]);
          } else {
            for (int l = 0; l < n; ++l) o[lane[0][l]] = op.apply(o[lane[0][l]], v[lane[1][l]]);
          }
        }
      }
    });
  });
}

}  // namespace

PF_CPU_KERNEL(Scatter::kInfo, scatter)
PF_CPU_KERNEL(IndexPut::kInfo, index_put)

}  // namespace pyflame::cpu
