// Kernels that make values from a formula of the index.
#include "cpu/strided.h"
#include "cpu/threads.h"

namespace pyflame::cpu {

namespace {

// attrs: start, step, as numbers of the output's kind
void arange(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(0);
  dispatch(a.dtype(0), [&]<class T>() {
    parallel_for(numel(out), kGrain, [&](int64_t b, int64_t e) {
      T* to = a.data<T>(0);
      if constexpr (kIsFloat<T>) {
        for (int64_t i = b; i < e; ++i) to[i] = store<T>(a.f(0) + static_cast<double>(i) * a.f(1));
      } else {
        const auto start = static_cast<uint64_t>(a.i(0)), step = static_cast<uint64_t>(a.i(1));
        for (int64_t i = b; i < e; ++i)
          to[i] = store<T>(static_cast<int64_t>(start + static_cast<uint64_t>(i) * step));
      }
    });
  });
}

// attrs: start, end, base (0: linear, otherwise base to the power of it). From both ends to the
// middle, so that the last one is exactly `end`.
void linspace(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(0);
  const int64_t n = numel(out);
  const double start = a.f(0), end = a.f(1), base = a.f(2);
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  dispatch(a.dtype(0), [&]<class T>() {
    T* to = a.data<T>(0);
    for (int64_t i = 0; i < n; ++i) {
      double v = i < (n + 1) / 2 ? start + step * static_cast<double>(i)
                                 : end - step * static_cast<double>(n - 1 - i);
      to[i] = store<T>(base != 0 ? std::pow(base, v) : v);
    }
  });
}

void eye(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(0);
  const int64_t columns = out.shape[1];
  dispatch(a.dtype(0), [&]<class T>() {
    T* to = a.data<T>(0);
    std::memset(static_cast<void*>(to), 0, static_cast<size_t>(numel(out)) * sizeof(T));
    for (int64_t i = 0; i < std::min(out.shape[0], columns); ++i) to[i * columns + i] = store<T>(1);
  });
}

}  // namespace

PF_CPU_KERNEL("arange", arange)
PF_CPU_KERNEL("linspace", linspace)
PF_CPU_KERNEL("eye", eye)

}  // namespace pyflame::cpu
