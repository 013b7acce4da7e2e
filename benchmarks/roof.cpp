// The machine's own speed, measured in alternation with what is compared to it: a streaming copy
// on all threads, and a float32 product of 1024 by oneDNN. Commands on stdin, one per line:
//   copy BYTES SECONDS  -> bytes read and written per second
//   product SECONDS     -> floating-point operations per second, 0 when there is no oneDNN
//   conv BATCH IN OUT SIZE KERNEL STRIDE BOTH SECONDS -> the same of oneDNN's convolution alone
#include <dlfcn.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "onednn_conv.h"

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

float* pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(p, bytes, MADV_HUGEPAGE);
  std::mt19937 random(1);
  auto* f = static_cast<float*>(p);
  float few[256];
  for (float& x : few) x = std::uniform_real_distribution<float>(-1, 1)(random);
  for (size_t i = 0; i < bytes / 4; ++i) f[i] = few[i % 251];
  return f;
}

// Past the caches stores bypass them, as a good kernel's do; within them they must not.
void copy(float* to, const float* from, size_t n, bool stream) {
#pragma omp parallel for schedule(static)
  for (size_t block = 0; block < n / 4096; ++block) {
    const float* f = from + block * 4096;
    float* t = to + block * 4096;
    if (stream)
      for (int i = 0; i < 4096; i += 8) _mm256_stream_ps(t + i, _mm256_loadu_ps(f + i));
    else
      std::memcpy(t, f, 4096 * sizeof(float));
  }
  _mm_sfence();
}

template <class F>
double best_rate(double seconds, double work, F f) {
  std::vector<double> times;
  double stop = now() + seconds;
  do {
    double start = now();
    f();
    times.push_back(now() - start);
  } while (now() < stop || times.size() < 3);
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return work / times[times.size() / 2];
}

using Sgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                      const float*, int64_t, float, float*, int64_t);

}  // namespace

int main() {
  size_t held = 0;
  float *from = nullptr, *to = nullptr;
  Sgemm sgemm = nullptr;
  void* library = nullptr;
  for (const char* name : {"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so"})
    if (!library) library = dlopen(name, RTLD_NOW);
  if (library) sgemm = (Sgemm)dlsym(library, "dnnl_sgemm");
  float *a = nullptr, *b = nullptr, *c = nullptr;
#ifdef PF_ONEDNN_CONV
  std::optional<OneDnnConv> conv;
#endif
  char line[200];
  while (std::fgets(line, sizeof line, stdin)) {
    size_t bytes;
    double seconds, rate = 0;
    if (std::sscanf(line, "copy %zu %lf", &bytes, &seconds) == 2) {
      bytes = std::max<size_t>(bytes & ~size_t{16383}, 16384);
      if (bytes > held) {
        from = pages(bytes);
        to = pages(bytes);
        held = bytes;
      }
      bool stream = bytes > (size_t{8} << 20);
      rate = best_rate(seconds, 2.0 * static_cast<double>(bytes),
                       [&] { copy(to, from, bytes / 4, stream); });
    } else if (std::sscanf(line, "product %lf", &seconds) == 1 && sgemm) {
      const int64_t n = 1024;
      if (!a) {
        a = pages(n * n * 4);
        b = pages(n * n * 4);
        c = pages(n * n * 4);
      }
      rate = best_rate(seconds, 2.0 * n * n * n,
                       [&] { sgemm('N', 'N', n, n, n, 1, a, n, b, n, 0, c, n); });
    }
#ifdef PF_ONEDNN_CONV
    OneDnnConv::Sizes s{};
    long long n[6];
    if (library && std::sscanf(line, "conv %lld %lld %lld %lld %lld %lld %d %lf", n, n + 1, n + 2,
                               n + 3, n + 4, n + 5, &s.both, &seconds) == 8) {
      s = {n[0], n[1], n[2], n[3], n[4], n[5], s.both};
      if (!conv || conv->sizes != s) conv.emplace(library, s);
      if (conv->works()) rate = best_rate(seconds, conv->flops(), [&] { conv->run(); });
    }
#endif
    std::printf("%.6g\n", rate);
    std::fflush(stdout);
  }
}
