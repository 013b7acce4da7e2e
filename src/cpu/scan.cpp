// Running sums, products, extremes. Each lane is one thread's, from its first element to its last
// (or back), so the order is fixed. Sums of floats are kept in float64.
#include "table/kernels/scan.h"
#include "core/interrupt.h"
#include "cpu/strided.h"
#include "cpu/threads.h"

namespace pyflame::cpu {

namespace {

constexpr auto kAt = kernels::tensors<kernels::Cumsum>;  // and of all but cumextreme
constexpr int kBlock = 32;                               // lanes scanned side by side
constexpr int64_t kShort = 4096;                         // a lane that is no time at all

struct Sum {
  template <class A>
  static A apply(A acc, A x) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<uint64_t>(acc) + static_cast<uint64_t>(x));
    else
      return acc + x;
  }
  static constexpr double kStart = 0;
};
struct Product {
  template <class A>
  static A apply(A acc, A x) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<uint64_t>(acc) * static_cast<uint64_t>(x));
    else
      return acc * x;
  }
  static constexpr double kStart = 1;
};
struct LogSumExp {
  template <class A>
  static A apply(A acc, A x) {
    const auto a = static_cast<double>(acc), b = static_cast<double>(x);
    if (a != a || b != b) return static_cast<A>(a + b);
    const double high = std::max(a, b), low = std::min(a, b);
    if (std::isinf(high)) return static_cast<A>(high);  // also -inf and -inf
    return static_cast<A>(high + std::log1p(std::exp(low - high)));
  }
  static constexpr double kStart = -std::numeric_limits<double>::infinity();
};

template <class T>
using Wide = std::conditional_t<kIsFloat<T>, double, int64_t>;

// fn(at) for every block of lanes, with offsets for `tensors` of one shape.
template <int N, class Fn>
void each_block(const pf_tensor* const* tensors, int dim, Fn&& fn) {
  const pf_tensor& model = *tensors[0];
  int64_t shape[PF_MAX_DIMS], steps[N][PF_MAX_DIMS], lanes = 1;
  int m = 0;
  for (int d = 0; d < model.ndim; ++d) {
    if (d == dim) continue;
    shape[m] = model.shape[d];
    for (int k = 0; k < N; ++k) steps[k][m] = tensors[k]->strides[d];
    lanes *= shape[m++];
  }
  const int64_t* strides[N];
  for (int k = 0; k < N; ++k) strides[k] = steps[k];
  const int64_t length = std::max<int64_t>(model.shape[dim], 1);
  parallel_for((lanes + kBlock - 1) / kBlock, std::max<int64_t>(1, 8192 / length / kBlock),
               [&](int64_t b, int64_t e) {
                 Walker<N> at(m, shape, strides, b * kBlock);
                 int64_t lane[N][kBlock];
                 for (int64_t block = b; block < e; ++block) {
                   const auto n =
                       static_cast<int>(std::min<int64_t>(kBlock, lanes - block * kBlock));
                   for (int l = 0; l < n; ++l, at.next())
                     for (int k = 0; k < N; ++k) lane[k][l] = at.offset[k];
                   fn(lane, n);
                 }
               });
}

template <class T, class Op>
void scan_as(const KernelArgs& a) {
  using A = Wide<T>;
  constexpr auto number = kernels::numbers<kernels::Cumsum>;
  const int dim = static_cast<int>(a.i(number.dim));
  const pf_tensor* tensors[2] = {&a.tensor(kAt.out), &a.tensor(kAt.x)};
  const int64_t length = tensors[0]->shape[dim];
  int64_t os = tensors[0]->strides[dim], is = tensors[1]->strides[dim];
  T* out = a.data<T>(kAt.out);
  const T* in = a.data<T>(kAt.x);
  if (a.i(number.backwards)) {
    out += (length - 1) * os;
    in += (length - 1) * is;
    os = -os;
    is = -is;
  }
  const auto long_lanes = [=](const int64_t(*lane)[kBlock], int n) __attribute__((noinline)) {
    for (int l = 0; l < n; ++l) {
      const T* x = in + lane[1][l];
      T* y = out + lane[0][l];
      A reached = static_cast<A>(Op::kStart);
      in_pieces(length, [&](int64_t begin, int64_t end) {
        A sum = reached;
        for (int64_t j = begin; j < end; ++j) {
          sum = Op::apply(sum, static_cast<A>(load(x[j * is])));
          y[j * os] = store<T>(sum);
        }
        reached = sum;
      });
    }
  };
  each_block<2>(tensors, dim, [&](const int64_t(*lane)[kBlock], int n) {
    A acc[kBlock];
    if (length > 1 && (is == 1 || is == -1)) {  // along memory: lanes one after the other
      if (length > kShort) return long_lanes(lane, n);
      for (int l = 0; l < n; ++l) {
        const T* x = in + lane[1][l];
        T* y = out + lane[0][l];
        A sum = static_cast<A>(Op::kStart);
        for (int64_t j = 0; j < length; ++j) {
          sum = Op::apply(sum, static_cast<A>(load(x[j * is])));
          y[j * os] = store<T>(sum);
        }
      }
      return;
    }
    std::fill_n(acc, n, static_cast<A>(Op::kStart));
    bool flat = true;
    for (int l = 1; l < n; ++l)
      flat = flat && lane[0][l] == lane[0][0] + l && lane[1][l] == lane[1][0] + l;
    for (int64_t j = 0; j < length; ++j) {
      if ((j & 4095) == 4095) stop_if_asked();
      const T* x = in + j * is;
      T* y = out + j * os;
      if (flat) {
        x += lane[1][0];
        y += lane[0][0];
        const auto row = [&](int count) __attribute__((always_inline)) {
          for (int l = 0; l < count; ++l) {
            acc[l] = Op::apply(acc[l], static_cast<A>(load(x[l])));
            y[l] = store<T>(acc[l]);
          }
        };
        n == kBlock ? row(kBlock) : row(n);  // whole vectors, of a number that is known
      } else {
        for (int l = 0; l < n; ++l) {
          acc[l] = Op::apply(acc[l], static_cast<A>(load(x[lane[1][l]])));
          y[lane[0][l]] = store<T>(acc[l]);
        }
      }
    }
  });
}

void cumsum(const KernelArgs& a) {
  dispatch(a.dtype(kAt.out), [&]<class T>() { scan_as<T, Sum>(a); });
}
void cumprod(const KernelArgs& a) {
  dispatch(a.dtype(kAt.out), [&]<class T>() { scan_as<T, Product>(a); });
}
void logcumsumexp(const KernelArgs& a) {
  dispatch(a.dtype(kAt.out), [&]<class T>() {
    if constexpr (kIsFloat<T>) scan_as<T, LogSumExp>(a);
  });
}

// One lane, with its strides. By value: what a lambda refers to could lie where indices are
// written, and would be read again for each element.
template <bool kSmallest, class T>
void running_extreme(const T* in, T* values, int64_t* indices, int64_t n, int64_t is, int64_t vs,
                     int64_t xs) {
  int64_t best = 0;
  T top = in[0];
  for (int64_t j = 0; j < n;) {
    if (j > 0) stop_if_asked();
    for (const int64_t stop = std::min<int64_t>(n, j + 4096); j < stop; ++j) {
      const T next = in[j * is];
      const auto x = load(next), y = load(top);
      if (x != x || (y == y && (kSmallest ? x <= y : x >= y))) [[unlikely]] {
        best = j;
        top = next;
      }
      values[j * vs] = top;
      indices[j * xs] = best;
    }
  }
}

void cumextreme(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CumExtreme>;
  constexpr auto number = kernels::numbers<kernels::CumExtreme>;
  const int dim = static_cast<int>(a.i(number.dim));
  const bool smallest = a.i(number.smallest) != 0;
  const pf_tensor* tensors[3] = {&a.tensor(at.values), &a.tensor(at.indices), &a.tensor(at.x)};
  const int64_t length = tensors[2]->shape[dim];
  const int64_t vs = tensors[0]->strides[dim], xs = tensors[1]->strides[dim],
                is = tensors[2]->strides[dim];
  if (length == 0) return;
  dispatch(a.dtype(at.values), [&]<class T>() {
    const auto lanes = smallest ? &running_extreme<true, T> : &running_extreme<false, T>;
    each_block<3>(tensors, dim, [&](const int64_t(*lane)[kBlock], int n) {
      for (int l = 0; l < n; ++l)
        lanes(a.data<T>(at.x) + lane[2][l], a.data<T>(at.values) + lane[0][l],
              a.data<int64_t>(at.indices) + lane[1][l], length, is, vs, xs);
    });
  });
}

}  // namespace

PF_CPU_KERNEL(kernels::Cumsum::kInfo, cumsum)
PF_CPU_KERNEL(kernels::Cumprod::kInfo, cumprod)
PF_CPU_KERNEL(kernels::LogCumsumExp::kInfo, logcumsumexp)
PF_CPU_KERNEL(kernels::CumExtreme::kInfo, cumextreme)

}  // namespace pyflame::cpu
