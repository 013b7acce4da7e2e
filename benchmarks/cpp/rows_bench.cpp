// Row kernels, reductions, losses and the optimizer step, each in alternation with a streaming copy
// of as many bytes as the kernel must move: the state of the machine changes within minutes, and so
// only the fraction says something. Prints medians. The arguments name what to run (all by
// default).
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "cpu/kernel.h"
#include "cpu/threads.h"

using namespace pyflame;

namespace {

int rounds = 15;

size_t as_size(int64_t n) {
  return static_cast<size_t>(n);
}

float* buffer(size_t n) {
  constexpr size_t kHuge = size_t{2} << 20;
  const size_t bytes = (n * 4 + kHuge - 1) / kHuge * kHuge;
  void* p = std::aligned_alloc(kHuge, bytes);
  madvise(p, bytes, MADV_HUGEPAGE);
  uint64_t s = 88172645463325252ull;
  float* f = static_cast<float*>(p);
  for (size_t i = 0; i < n; ++i) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    f[i] = static_cast<float>(static_cast<double>(s >> 40) / (1 << 23)) - 1;
  }
  return f;
}

// bytes / 2 read and as many written, past the caches.
void stream_copy(float* to, const float* from, int64_t n) {
  cpu::parallel_for(n / 16, 4096, [=](int64_t begin, int64_t end) {
#ifdef __x86_64__
    for (int64_t i = begin * 16; i < end * 16; i += 8) {
      _mm_prefetch(reinterpret_cast<const char*>(from + i + 512), _MM_HINT_T0);
      _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
    }
    _mm_sfence();
#else
    std::memcpy(to + begin * 16, from + begin * 16, static_cast<size_t>(end - begin) * 64);
#endif
  });
}

template <class T>
DType type_of();
template <>
DType type_of<float>() {
  return DType::Float32;
}
template <>
DType type_of<int64_t>() {
  return DType::Int64;
}
template <class T>
pf_tensor tensor(T* p, std::vector<int64_t> shape) {
  pf_tensor t{};
  t.data = p;
  t.dtype = static_cast<uint8_t>(type_of<T>());
  t.ndim = static_cast<int32_t>(shape.size());
  int64_t step = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    t.shape[d] = shape[static_cast<size_t>(d)];
    t.strides[d] = step;
    step *= t.shape[d];
  }
  return t;
}
void call(const char* name, std::vector<pf_tensor> tensors, std::vector<double> attrs = {}) {
  std::vector<pf_scalar> scalars;
  for (double a : attrs) scalars.push_back({a, static_cast<int64_t>(a)});
  pf_index_error error{};
  cpu::find_kernel(name)({tensors.data(), static_cast<int>(tensors.size()), scalars.data(),
                          static_cast<int>(scalars.size()), &error});
}

// With one thread its CPU time, which does not count what other processes take.
double now() {
  timespec t;
  clock_gettime(cpu::num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(const std::function<void()>& fn) {
  const double start = now();
  fn();
  return now() - start;
}

// `moved` floats are read or written by `fn`; the copy of moved / 2 floats moves as many.
void race(const char* name, int64_t moved, const std::function<void()>& fn) {
  static float *from = nullptr, *to = nullptr;
  constexpr int64_t kCopied = int64_t{1} << 24;
  if (!from) from = buffer(kCopied), to = buffer(kCopied);
  fn();
  std::vector<double> mine, copy, share;
  for (int i = 0; i < rounds; ++i) {
    copy.push_back(seconds([&] { stream_copy(to, from, kCopied); }) * static_cast<double>(moved) /
                   (2.0 * kCopied));
    mine.push_back(seconds(fn));
    share.push_back(copy.back() / mine.back());
  }
  for (auto* v : {&mine, &copy, &share}) std::sort(v->begin(), v->end());
  const size_t m = mine.size() / 2;
  std::printf("%-34s %8.3f ms of copy's %8.3f: %5.1f%%   best %8.3f of %8.3f: %5.1f%%\n", name,
              mine[m] * 1e3, copy[m] * 1e3, share[m] * 100, mine[0] * 1e3, copy[0] * 1e3,
              copy[0] / mine[0] * 100);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = [&](const char* name) {
    if (argc < 2) return true;
    for (int i = 1; i < argc; ++i)
      if (std::string(name).find(argv[i]) != std::string::npos) return true;
    return false;
  };
  if (const char* r = std::getenv("ROUNDS")) rounds = std::atoi(r);
  if (const char* t = std::getenv("THREADS")) cpu::set_num_threads(std::atoi(t));
  std::printf("%d threads\n", cpu::num_threads());
  {
    const int64_t rows = 16384, n = 1024, all = rows * n;
    float *x = buffer(as_size(all)), *y = buffer(as_size(all)), *g = buffer(as_size(all));
    float* d = buffer(as_size(all));
    std::vector<float> w(as_size(n), 1), b(as_size(n), 0), dw(as_size(n)), db(as_size(n));
    std::vector<float> mean(as_size(2 * rows)), rstd(as_size(rows)), out(as_size(rows));
    const auto t = [&](float* p) { return tensor(p, {rows, n}); };
    const auto v = [&](std::vector<float>& p) {
      return tensor(p.data(), {static_cast<int64_t>(p.size())});
    };
    if (wanted("softmax")) {
      race("softmax 16384x1024", 2 * all, [&] { call("softmax", {t(y), t(x)}); });
      race("softmax backward", 3 * all, [&] { call("softmax_backward", {t(d), t(g), t(y)}); });
      race("log_softmax", 2 * all, [&] { call("log_softmax", {t(y), t(x)}); });
      race("log_softmax backward", 3 * all, [&] {
        call("log_softmax_backward", {t(d), t(g), t(y)});
      });
    }
    const auto forward = [&] {
      call("layer_norm", {t(y), v(mean), v(rstd), t(x), v(w), v(b)}, {double(n), 1e-5});
    };
    const auto backward = [&] {
      call("layer_norm_backward", {t(d), v(dw), v(db), t(g), t(x), v(mean), v(rstd), v(w)},
           {double(n)});
    };
    if (wanted("layer_norm")) {
      race("layer_norm 16384x1024", 2 * all, forward);
      race("layer_norm backward", 3 * all, backward);
      race("layer_norm forward + backward", 5 * all, [&] { forward(), backward(); });
      race("rms_norm", 2 * all, [&] {
        call("rms_norm", {t(y), v(rstd), t(x), v(w)}, {double(n), 1e-5});
      });
    }
    if (wanted("sum")) {
      float total;
      race("sum over rows (axis 1)", all, [&] { call("sum", {v(out), t(x), {}}, {2, 0, 0}); });
      race("sum over columns (axis 0)", all, [&] { call("sum", {v(dw), t(x), {}}, {1, 0, 0}); });
      race("sum of everything", all, [&] {
        call("sum", {tensor(&total, {}), t(x), {}}, {3, 0, 0});
      });
      race("maximum of everything", all, [&] { call("amax", {tensor(&total, {}), t(x)}, {3}); });
    }
    for (float* p : {x, y, g, d}) std::free(p);
  }
  if (wanted("cross_entropy")) {
    const int64_t rows = 2048, n = 50304, all = rows * n;
    float *x = buffer(as_size(all)), *d = buffer(as_size(all));
    std::vector<int64_t> target(as_size(rows), 17);
    std::vector<float> stats(as_size(2 * rows));
    float loss, total, one = 1;
    const auto forward = [&] {
      call("cross_entropy",
           {tensor(&loss, {}),
            tensor(stats.data(), {rows, 2}),
            tensor(&total, {}),
            tensor(x, {rows, n}),
            tensor(target.data(), {rows}),
            {}},
           {-100, 0, 1});
    };
    const auto backward = [&] {
      call("cross_entropy_backward",
           {tensor(d, {rows, n}),
            tensor(&one, {}),
            tensor(x, {rows, n}),
            tensor(target.data(), {rows}),
            tensor(stats.data(), {rows, 2}),
            tensor(&total, {}),
            {}},
           {-100, 0, 1});
    };
    race("cross_entropy 2048x50304", all, forward);
    race("cross_entropy backward", 2 * all, backward);
    race("cross_entropy forward + backward", 3 * all, [&] { forward(), backward(); });
    std::free(x), std::free(d);
  }
  if (wanted("adamw")) {
    const int64_t n = 10'000'000;
    float* a[4];
    for (float*& p : a) p = buffer(as_size(n));
    for (int64_t i = 0; i < n; ++i) a[2][i] = a[2][i] * a[2][i];
    race("adamw, 10 M parameters", 7 * n, [&] {
      call("adamw", {tensor(a[0], {n}), tensor(a[1], {n}), tensor(a[2], {n}), tensor(a[3], {n})},
           {0, 0, 1, 1e-3, 0.9, 0.999, 1e-8, 0.01, 10, 1, 0, 0, 0, 0});
    });
    race("sgd with momentum", 5 * n, [&] {
      call("sgd", {tensor(a[0], {n}), tensor(a[1], {n}), tensor(a[3], {n})},
           {0, 0, 1, 1e-3, 0.9, 0, 0.01, 0, 0, 0, 0, 0});
    });
    float norm;
    race("multi_norm", n, [&] { call("multi_norm", {tensor(&norm, {}), tensor(a[3], {n})}, {2}); });
    for (float* p : a) std::free(p);
  }
}
