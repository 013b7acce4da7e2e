// Products of key shapes from both sources, in GFLOP/s: median of interleaved rounds.
//   gemm_bench [rounds]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cpu/gemm.h"
#include "cpu/threads.h"
#include "pyflame/device.h"

using namespace pyflame;
using cpu::Gemm;

namespace {

struct Case {
  const char* what;
  DType dtype;
  int64_t batch, m, n, k;
  bool trans_a, trans_b, bias;
};

const Case kCases[] = {
    {"tiny", DType::Float32, 1, 8, 8, 8, false, false, false},
    {"tiny", DType::Float32, 1, 16, 16, 16, false, true, false},
    {"tiny", DType::Float32, 1, 32, 32, 32, false, false, false},
    {"vector", DType::Float32, 1, 1, 1024, 1024, false, true, true},
    {"vector", DType::Float32, 1, 1, 1024, 1024, false, false, false},
    {"mlp", DType::Float32, 1, 32, 256, 256, false, true, true},
    {"mlp", DType::Float32, 1, 128, 256, 784, false, true, true},
    {"mlp dW", DType::Float32, 1, 256, 784, 128, true, false, false},
    {"mlp dX", DType::Float32, 1, 128, 784, 256, false, false, false},
    {"gpt", DType::Float32, 1, 2048, 384, 128, false, true, true},
    {"gpt", DType::Float32, 1, 2048, 512, 128, false, true, true},
    {"gpt", DType::Float32, 1, 2048, 128, 512, false, true, true},
    {"gpt dW", DType::Float32, 1, 512, 128, 2048, true, false, false},
    {"gpt dX", DType::Float32, 1, 2048, 128, 512, false, false, false},
    {"attention", DType::Float32, 64, 128, 128, 32, false, true, false},
    {"attention", DType::Float32, 64, 128, 32, 128, false, false, false},
    {"square", DType::Float32, 1, 64, 64, 64, false, false, false},
    {"square", DType::Float32, 1, 128, 128, 128, false, false, false},
    {"square", DType::Float32, 1, 256, 256, 256, false, false, false},
    {"square", DType::Float32, 1, 1024, 1024, 1024, false, false, false},
    {"square", DType::Float64, 1, 256, 256, 256, false, false, false},
    {"square", DType::Float64, 1, 1024, 1024, 1024, false, false, false},
    {"mlp", DType::BFloat16, 1, 32, 256, 256, false, true, true},
    {"gpt", DType::BFloat16, 1, 2048, 512, 128, false, true, true},
    {"square", DType::BFloat16, 1, 1024, 1024, 1024, false, false, false},
    {"square", DType::Float16, 1, 256, 256, 256, false, false, false},
};

double once(const Gemm& g, int64_t repeat) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < repeat; ++i) cpu::gemm(g);
  std::chrono::duration<double> t = std::chrono::steady_clock::now() - start;
  return t.count() / double(repeat);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  std::printf("%d threads; %s\n", get_num_threads(), cpu::gemm_source());
  std::printf("%-10s %-9s %5s %5s %5s %5s %s  %19s %19s %s\n", "what", "dtype", "batch", "m", "n",
              "k", "ab+", "own us (GFLOP/s)", "oneDNN us (GFLOP/s)", "auto");
  for (const Case& c : kCases) {
    size_t size = itemsize(c.dtype);
    auto fill = [&](int64_t n) {  // small values; the bits of 16-bit types are never NaN or large
      std::vector<char> v(static_cast<size_t>(n) * size);
      for (int64_t i = 0; i < n; ++i) {
        float f = static_cast<float>(i * 7919 % 31 - 15) / 16;
        double d = f;
        uint16_t h = static_cast<uint16_t>(i * 7919 % 31);
        const void* p = size == 8   ? static_cast<void*>(&d)
                        : size == 4 ? static_cast<void*>(&f)
                                    : &h;
        std::memcpy(v.data() + static_cast<size_t>(i) * size, p, size);
      }
      return v;
    };
    auto a = fill(c.batch * c.m * c.k), b = fill(c.batch * c.k * c.n), bias = fill(c.n);
    auto out = fill(c.batch * c.m * c.n);
    Gemm g;
    g.batch = c.batch, g.m = c.m, g.n = c.n, g.k = c.k, g.dtype = c.dtype;
    g.a = a.data(), g.b = b.data(), g.c = out.data();
    g.a_batch = c.m * c.k, g.b_batch = c.k * c.n, g.c_batch = c.m * c.n, g.c_row = c.n;
    g.a_row = c.trans_a ? 1 : c.k, g.a_col = c.trans_a ? c.m : 1;
    g.b_row = c.trans_b ? 1 : c.n, g.b_col = c.trans_b ? c.k : 1;
    if (c.bias) g.bias = bias.data();
    double flops = 2.0 * double(c.batch * c.m) * double(c.n) * double(c.k);
    auto repeat = std::clamp<int64_t>(static_cast<int64_t>(2e8 / flops), 1, 20000);
    const cpu::GemmSource sources[] = {cpu::GemmSource::Own, cpu::GemmSource::OneDnn,
                                       cpu::GemmSource::Auto};
    std::vector<double> t[3];
    for (int r = 0; r <= rounds; ++r)
      for (int s = 0; s < 3; ++s) {
        cpu::set_gemm_source(sources[s]);
        double x = once(g, r == 0 ? 1 : repeat);
        if (r > 0) t[s].push_back(x);
      }
    double us[3];
    for (int s = 0; s < 3; ++s) {
      std::sort(t[s].begin(), t[s].end());
      us[s] = t[s][t[s].size() / 2] * 1e6;
    }
    std::printf("%-10s %-9s %5ld %5ld %5ld %5ld %d%d%d %10.2f (%6.1f) %10.2f (%6.1f) %10.2f\n",
                c.what, std::string(name(c.dtype)).c_str(), long(c.batch), long(c.m), long(c.n),
                long(c.k), c.trans_a, c.trans_b, c.bias, us[0], flops / us[0] * 1e-3, us[1],
                flops / us[1] * 1e-3, us[2]);
  }
}
