// The inner loops of pool.cpp where only the largest elements are wanted, not their places.
#pragma once

#include <cstdint>

namespace pyflame::cpu {

template <class T>
struct PoolKernels {
  // y[c] = the largest of x[at[t] + c], of each of n channels that lie side by side.
  void (*channels)(const T* x, const int64_t* at, int64_t taps, int64_t n, T* y);
  // y[q] = the largest of x[at[r] + q * stride + k], k < kernel: n windows that lie inside, where
  // the stride is 1 or 2 and the kernel at least that. False if n is too small for a vector.
  bool (*pixels)(const T* x, const int64_t* at, int64_t rows, int64_t kernel, int64_t stride,
                 int64_t n, T* y);
};
template <class T>
const PoolKernels<T>& pool_kernels();
template <>
const PoolKernels<float>& pool_kernels();
template <>
const PoolKernels<double>& pool_kernels();

}  // namespace pyflame::cpu
