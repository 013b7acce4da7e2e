// Kernels that write by index; nothing is written for a wrong one. What meets in one place is
// combined in index order by one thread, so results do not depend on the number of threads: threads
// share out the lanes, the positions in all dimensions but the indexed ones.
#include <vector>

#include "cpu/index.h"
#include "cpu/strided.h"
#include "cpu/threads.h"

namespace pyflame::cpu {

namespace {

enum Mode : int64_t { kAssign, kAdd, kMultiply, kMax, kMin };

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
struct Multiply {
  template <class T>
  static T apply(T x, T y) {
    if constexpr (std::is_same_v<T, bool8>)
      return x && y;
    else
      return store<T>(load(x) * load(y));
  }
};
struct Max {  // NaN wins
  template <class T>
  static T apply(T x, T y) {
    auto a = load(x), b = load(y);
    return a > b || a != a ? x : y;
  }
};
struct Min {
  template <class T>
  static T apply(T x, T y) {
    auto a = load(x), b = load(y);
    return a < b || a != a ? x : y;
  }
};

// Calls fn.operator()<T, Op>(); assignment only needs the size of the elements.
template <class F>
void dispatch_mode(DType t, int64_t mode, F&& fn) {
  if (mode == kAssign) {
    dispatch_size(t, [&]<class T>() { fn.template operator()<T, Assign>(); });
    return;
  }
  dispatch(t, [&]<class T>() {
    switch (mode) {
      case kAdd:
        fn.template operator()<T, Add>();
        break;
      case kMultiply:
        fn.template operator()<T, Multiply>();
        break;
      case kMax:
        fn.template operator()<T, Max>();
        break;
      default:
        fn.template operator()<T, Min>();
        break;
    }
  });
}

constexpr int kBlock = 64;  // lanes handled together

// out (in place), index, src, the last two of one shape. attrs: dim, mode, an index to leave out
// (INT64_MIN for none).
void scatter(const KernelArgs& a) {
  const pf_tensor &out = a.tensor(0), &index = a.tensor(1), &src = a.tensor(2);
  const int dim = static_cast<int>(a.i(0)), n = index.ndim;
  const int64_t length = index.shape[dim], size = out.shape[dim], skip = a.i(2);
  const bool skips = skip != INT64_MIN;  // which is a wrong index itself
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
  dispatch_mode(a.dtype(0), a.i(1), [&]<class T, class Op>() {
    const int64_t grain = std::max<int64_t>(kBlock, kGrain / std::max<int64_t>(length, 1));
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
                     T* o = a.data<T>(0);
                     const T* s = a.data<T>(2);
                     const int64_t* ix = a.data<int64_t>(1);
                     const auto write = [&](T * to, int64_t i, const T* from)
                         __attribute__((always_inline)) {
                       int64_t place = i;
                       if (static_cast<uint64_t>(i) >= static_cast<uint64_t>(size)) [[unlikely]] {
                         if (skips && i == skip) return;
                         place = checked_place(a, i, size);
                         if (place < 0) return;
                       } else if (i == skip) {  // INT64_MIN for none is no place
                         return;
                       }
                       to += place * os;
                       *to = Op::apply(*to, *from);
                     };
                     // Along memory, whichever that is: each lane keeps its order.
                     if (!shared && (count == 1 || is < lane[1][1] - lane[1][0])) {
                       for (int l = 0; l < count; ++l) {
                         T* ol = o + lane[0][l];
                         const T* sl = s + lane[2][l];
                         const int64_t* il = ix + lane[1][l];
                         for (int64_t j = 0; j < length; ++j) write(ol, il[j * is], sl + j * ss);
                       }
                       continue;
                     }
                     for (int64_t j = 0; j < length; ++j) {
                       if (shared) {
                         const int64_t i = ix[lane[1][0] + j * is];
                         if (skips && i == skip) continue;
                         const int64_t place = checked_place(a, i, size);
                         if (place < 0) continue;
                         const int64_t to = place * os, from = j * ss;
                         if (flat) {
                           T* ol = o + lane[0][0] + to;
                           const T* sl = s + lane[2][0] + from;
                           for (int l = 0; l < count; ++l) ol[l] = Op::apply(ol[l], sl[l]);
                         } else {
                           for (int l = 0; l < count; ++l) {
                             T& target = o[lane[0][l] + to];
                             target = Op::apply(target, s[lane[2][l] + from]);
                           }
                         }
                         continue;
                       }
                       const T* sj = s + j * ss;
                       const int64_t* ij = ix + j * is;
                       if (flat && flat_index) {
                         T* ol = o + lane[0][0];
                         sj += lane[2][0];
                         ij += lane[1][0];
                         for (int l = 0; l < count; ++l) write(ol + l, ij[l], sj + l);
                       } else {
                         for (int l = 0; l < count; ++l)
                           write(o + lane[0][l], ij[lane[1][l]], sj + lane[2][l]);
                       }
                     }
                   }
                 });
  });
}

// self [before, indexed, after] in place; values [before, index shape, after]; the index tensors.
// attrs: number of dimensions before, number of indexed ones, accumulate.
void index_put(const KernelArgs& a) {
  const pf_tensor &self = a.tensor(0), &values = a.tensor(1), &model = a.tensor(2);
  const int before = static_cast<int>(a.i(0)), count = static_cast<int>(a.i(1));
  const int64_t points = numel(model);
  if (numel(values) == 0) return;
  if (count == 1 && self.ndim == 1 && contiguous(model) && contiguous(values)) {
    // Elements of a vector.
    const auto* ix = static_cast<const int64_t*>(model.data);
    const int64_t os = self.strides[0];
    dispatch_mode(a.dtype(0), a.i(2) ? kAdd : kAssign, [&]<class T, class Op>() {
      T* to = a.data<T>(0);
      const T* from = a.data<T>(1);
      for (int64_t i = 0; i < points; ++i) {
        const int64_t place = checked_place(a, ix[i], self.shape[0]);
        if (place >= 0) to[place * os] = Op::apply(to[place * os], from[i]);
      }
    });
    return;
  }
  // Where each point lies in self and in values.
  std::vector<int64_t> to(static_cast<size_t>(points), 0), from(static_cast<size_t>(points));
  for (int k = 0; k < count; ++k) {
    const pf_tensor& index = a.tensor(2 + k);
    auto at = walk(index);
    for (int64_t i = 0; i < points; ++i, at.next()) {
      int64_t& offset = to[static_cast<size_t>(i)];
      const int64_t place = checked_place(a, static_cast<const int64_t*>(index.data)[at.offset[0]],
                                          self.shape[before + k]);
      offset = place < 0 || offset < 0 ? -1 : offset + place * self.strides[before + k];
    }
  }
  const int64_t* value_strides[1] = {values.strides + before};
  Walker<1> value_at(model.ndim, model.shape, value_strides);
  for (auto& f : from) {
    f = value_at.offset[0];
    value_at.next();
  }
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
  dispatch_mode(a.dtype(0), a.i(2) ? kAdd : kAssign, [&]<class T, class Op>() {
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
        for (size_t k = 0; k < static_cast<size_t>(points); ++k) {
          if (to[k] < 0) continue;  // a wrong index
          T* o = a.data<T>(0) + to[k];
          const T* v = a.data<T>(1) + from[k];
          if (flat) {
            T* ol = o + lane[0][0];
            const T* vl = v + lane[1][0];
            for (int l = 0; l < n; ++l) ol[l] = Op::apply(ol[l], vl[l]);
          } else {
            for (int l = 0; l < n; ++l) o[lane[0][l]] = Op::apply(o[lane[0][l]], v[lane[1][l]]);
          }
        }
      }
    });
  });
}

}  // namespace

PF_CPU_KERNEL("scatter", scatter)
PF_CPU_KERNEL("index_put", index_put)

}  // namespace pyflame::cpu
