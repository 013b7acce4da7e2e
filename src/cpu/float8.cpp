// Products of eight-bit floats and their operands (table/kernels/float8.h), by way of float32.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/convert.h"
#include "cpu/gemm.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/float8.h"

namespace pyflame::cpu {
namespace {

using namespace kernels;

void scaled_matmul(const KernelArgs& args) {
  constexpr auto at = tensors<ScaledMatmul>;
  const pf_tensor &out = args.tensor(at.out), &a = args.tensor(at.a), &b = args.tensor(at.b);
  const int64_t m = out.shape[0], n = out.shape[1], k = a.shape[1];
  const bool by_row = args.i(numbers<ScaledMatmul>.by_row) != 0;
  // Both as rows of k.
  const Scratch<float> wide_a(m * k), wide_b(k * n);
  const auto widened = [&](float* to, const pf_tensor& t, int64_t row, int64_t col) {
    pf_tensor w = t;
    w.data = to;
    w.dtype = static_cast<uint8_t>(DType::Float32);
    w.strides[0] = row, w.strides[1] = col;
    convert(w, t);
  };
  widened(wide_a.get(), a, k, 1);
  widened(wide_b.get(), b, 1, k);
  const Scratch<float> sums(m * n);
  Gemm g;
  g.m = m, g.n = n, g.k = k;
  g.dtype = DType::Float32;
  g.a = wide_a.get(), g.a_row = k, g.a_col = 1;
  g.b = wide_b.get(), g.b_row = 1, g.b_col = k;
  g.c = sums.get(), g.c_row = n;
  g.a_batch = g.b_batch = g.c_batch = 0;
  gemm(g);

  const auto* scale_a = args.data<const float>(at.scale_a);
  const auto* scale_b = args.data<const float>(at.scale_b);
  dispatch_float(args.dtype(at.out), [&]<class S>() {
    auto* to = args.data<S>(at.out);
    const auto* bias = args.has(at.bias) ? args.data<const S>(at.bias) : nullptr;
    parallel_for(m, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float row = scale_a[by_row ? i : 0];
        for (int64_t j = 0; j < n; ++j) {
          float v = sums.get()[i * n + j] * row * scale_b[by_row ? j : 0];
          if (bias) v += static_cast<float>(load(bias[j]));
          to[i * n + j] = store<S>(v);
        }
      }
    });
  });
}
PF_CPU_KERNEL(ScaledMatmul::kInfo, scaled_matmul)

template <class F>
F scaled_to(float x, float scale) {
  constexpr float kMost = F::kMantissa == 3 ? 448 : 57344;
  if (std::isinf(x))
    return F::kMantissa == 3 ? to_float8<F>(std::numeric_limits<float>::quiet_NaN())
                             : to_float8<F>(x);
  x *= scale;
  return to_float8<F>(x > kMost ? kMost : x < -kMost ? -kMost : x);
}

// By their bits, among which those of NaN are the largest, so that the order does not matter.
template <class S>
float largest_magnitude(const S* x, int64_t n) {
  std::atomic<uint32_t> all{0};
  parallel_for(n, 65536, [&](int64_t begin, int64_t end) {
    uint32_t most = 0;
    for (int64_t i = begin; i < end; ++i)
      most = std::max(most, std::bit_cast<uint32_t>(static_cast<float>(load(x[i]))) & 0x7fffffffu);
    uint32_t seen = all.load(std::memory_order_relaxed);
    while (seen < most && !all.compare_exchange_weak(seen, most, std::memory_order_relaxed)) {
    }
  });
  return std::bit_cast<float>(all.load(std::memory_order_relaxed));
}

void to_float8_kernel(const KernelArgs& args) {
  constexpr auto at = tensors<ToFloat8>;
  const pf_tensor& x = args.tensor(at.x);
  const int64_t rows = x.shape[0], cols = x.shape[1];
  float amax = 0;
  dispatch_float(args.dtype(at.x), [&]<class S>() {
    amax = largest_magnitude(args.data<const S>(at.x), rows * cols);
  });
  const auto run = [&]<class F>() {
    constexpr float kMost = F::kMantissa == 3 ? 448 : 57344;
    // No larger than what has a reciprocal.
    const float scale = amax > 0 && std::isfinite(amax) ? std::min(kMost / amax, 0x1p126f) : 1.0f;
    *args.data<float>(at.inverse) = 1 / scale;
    auto* out = args.data<F>(at.out);
    auto* turned = args.has(at.turned) ? args.data<F>(at.turned) : nullptr;
    dispatch_float(args.dtype(at.x), [&]<class S>() {
      const auto* from = args.data<const S>(at.x);
      constexpr int64_t kTile = 64;
      parallel_for((rows + kTile - 1) / kTile, 1, [&](int64_t begin, int64_t end) {
        const int64_t last = std::min(rows, end * kTile);
        for (int64_t i = begin * kTile; i < last; ++i)
          for (int64_t j = 0; j < cols; ++j)
            out[i * cols + j] = scaled_to<F>(static_cast<float>(load(from[i * cols + j])), scale);
        if (!turned) return;
        for (int64_t j = 0; j < cols; ++j)
          for (int64_t i = begin * kTile; i < last; ++i) turned[j * rows + i] = out[i * cols + j];
      });
    });
  };
  if (args.dtype(at.out) == DType::Float8E4M3)
    run.template operator()<float8_e4m3fn>();
  else
    run.template operator()<float8_e5m2>();
}
PF_CPU_KERNEL(ToFloat8::kInfo, to_float8_kernel)

}  // namespace
}  // namespace pyflame::cpu
