// Steps of optimizers, norms and clipping over lists of tensors (kernels/adamw.h, sgd.h,
// multi_*.h).
#include <cmath>
#include <cstring>
#include <vector>

#include "gpu/axes.h"
#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

constexpr int kThreads = 256, kArrays = 5;

// pf_entry_of and pf_list of kernels/table.h.
struct Entry {
  void* data[kArrays];
  int64_t count;
  int32_t dtype, aligned;
};
struct List {
  const void* tensors;
  const void* first;
  int64_t count, chunk;
};

// `count` tensors from `first` on; array k of tensor i is tensor first + k * count + i.
struct Table {
  List list{};
  int64_t blocks = 0;
  DType dtype = DType::Float32;
  bool alike = true;  // all of that dtype
  Table(const KernelArgs& a, int first, int count, int arrays, int64_t chunk) {
    const auto n = static_cast<size_t>(count);
    std::vector<char> bytes(n * sizeof(Entry) + (n + 1) * sizeof(int64_t));
    std::vector<int64_t> starts(n + 1);
    for (size_t i = 0; i < n; ++i) {
      const int at = first + static_cast<int>(i);
      Entry e{};
      e.count = numel(a.tensor(at));
      if (i == 0) dtype = a.dtype(at);
      alike = alike && a.dtype(at) == dtype;
      e.dtype = static_cast<int32_t>(a.dtype(at));
      e.aligned = 1;
      for (int k = 0; k < arrays; ++k) {
        e.data[k] = a.data(at + k * count);
        if (!aligned(e.data[k], 16)) e.aligned = 0;
      }
      std::memcpy(bytes.data() + i * sizeof(Entry), &e, sizeof e);
      starts[i] = blocks;
      blocks += ceil_div(e.count, chunk);
    }
    starts[n] = blocks;
    std::memcpy(bytes.data() + n * sizeof(Entry), starts.data(), (n + 1) * sizeof(int64_t));
    if (blocks == 0) return;
    char* p = static_cast<char*>(a.upload(bytes.data(), bytes.size()));
    list = {p, p + n * sizeof(Entry), count, chunk};
  }
  // For kernels/multi.h.
  Defines only(Defines d) const { return alike ? std::move(d).type("PF_ONLY", dtype) : d; }
};
static_assert(static_cast<int>(DType::Float32) == 0 && static_cast<int>(DType::Float64) == 1 &&
                  static_cast<int>(DType::Float16) == 2 && static_cast<int>(DType::BFloat16) == 3,
              "pf_by_dtype of kernels/multi.h");

// Four accesses of 16 bytes of every array for each thread; two for 16-bit dtypes, which take more
// registers for as many bytes.
int64_t optimizer_chunk(DType t) {
  const auto size = static_cast<int64_t>(itemsize(t));
  return int64_t{size < 4 ? 2 : 4} * kThreads * 16 / size;
}

// pf_sgd, pf_adam of kernels/sgd.h, adamw.h: in the compute type.
template <class C>
struct Sgd {
  C rate, momentum, undamped, decay, sign;
  int32_t decays, nesterov, first, unused;
};
template <class C>
struct Adam {
  C c1, b2, c2, eps, decay, root, size, sign;
  int32_t decays, decoupled;
};

// Tensors: params, momentum buffers (if momentum), grads. attrs: how many params, lr, momentum,
// dampening, weight decay, nesterov, maximize, first step.
void sgd(const KernelArgs& a) {
  const int n = static_cast<int>(a.i(0));
  const bool momentum = a.f(2) != 0;
  const Table t(a, 0, n, momentum ? 3 : 2, optimizer_chunk(a.dtype(0)));
  if (t.blocks == 0) return;
  const Sgd<double> s{-a.f(1),     a.f(2),      1 - a.f(3),  a.f(4), a.i(6) != 0 ? -1.0 : 1.0,
                      a.f(4) != 0, a.i(5) != 0, a.i(7) != 0, 0};
  const Defines d = Defines().type("PF_T", a.dtype(0)).value("PF_MOMENTUM", momentum);
  const Function f = a.compile("sgd.h", d, "sgd");
  if (a.dtype(0) == DType::Float64) return a.launch(f, Grid(t.blocks), kThreads, 0, t.list, s);
  const auto to = [](double v) { return static_cast<float>(v); };
  const Sgd<float> narrow{to(s.rate),  to(s.momentum), to(s.undamped),
                          to(s.decay), to(s.sign),     s.decays,
                          s.nesterov,  s.first,        0};
  a.launch(f, Grid(t.blocks), kThreads, 0, t.list, narrow);
}

// Tensors: params, exp_avgs, exp_avg_sqs, [max_exp_avg_sqs,] grads. attrs: how many params, lr,
// beta1, beta2, eps, weight decay, step, decoupled, maximize, amsgrad.
void adamw(const KernelArgs& a) {
  const int n = static_cast<int>(a.i(0));
  const double lr = a.f(1), step = static_cast<double>(a.i(6));
  const bool decoupled = a.i(7) != 0, amsgrad = a.i(9) != 0;
  const double correction1 = 1 - std::pow(a.f(2), step), correction2 = 1 - std::pow(a.f(3), step);
  const Table t(a, 0, n, amsgrad ? 5 : 4, optimizer_chunk(a.dtype(0)));
  if (t.blocks == 0) return;
  const Adam<double> s{1 - a.f(2),
                       a.f(3),
                       1 - a.f(3),
                       a.f(4),
                       decoupled ? 1 - lr * a.f(5) : a.f(5),
                       1 / std::sqrt(correction2),
                       -lr / correction1,
                       a.i(8) != 0 ? -1.0 : 1.0,
                       a.f(5) != 0,
                       decoupled};
  const Defines d = Defines().type("PF_T", a.dtype(0)).value("PF_AMSGRAD", amsgrad);
  const Function f = a.compile("adamw.h", d, "adamw");
  if (a.dtype(0) == DType::Float64) return a.launch(f, Grid(t.blocks), kThreads, 0, t.list, s);
  const auto to = [](double v) { return static_cast<float>(v); };
  const Adam<float> narrow{to(s.c1),   to(s.b2),   to(s.c2),   to(s.eps), to(s.decay),
                           to(s.root), to(s.size), to(s.sign), s.decays,  s.decoupled};
  a.launch(f, Grid(t.blocks), kThreads, 0, t.list, narrow);
}

constexpr int64_t kChunk = 16384;  // elements of a block

Function norm_function(const KernelArgs& a, const char* entry, int64_t kind, const Table& t) {
  return a.compile("multi_norm.h", t.only(Defines().value("PF_KIND", kind)), entry);
}
Function clip_function(const KernelArgs& a, const char* entry, const Table& t) {
  return a.compile("multi_clip.h", t.only(Defines()), entry);
}

// Tensors: norm (0-d float32 or float64), then any contiguous tensors. attrs: p.
void multi_norm(const KernelArgs& a) {
  const double p = a.f(0);
  const int64_t kind = std::isinf(p) ? 0 : p == 1 ? 1 : p == 2 ? 2 : 3;
  const Table t(a, 1, a.ntensors - 1, 1, kChunk);
  void* partial = a.workspace(sizeof(double) * static_cast<size_t>(t.blocks + 1));
  if (t.blocks > 0)
    a.launch(norm_function(a, "multi_norm", kind, t), Grid(t.blocks), kThreads, 0, t.list, partial,
             p);
  const int32_t wide = a.dtype(0) == DType::Float64;
  a.launch(norm_function(a, "multi_norm_finish", kind, t), Grid(1), kThreads, 0, partial, t.blocks,
           p, a.data(0), wide);
}

// Tensors: updated in place, then the norm. attrs: maximum.
void multi_clip_norm(const KernelArgs& a) {
  const int n = a.ntensors - 1;
  const Table t(a, 0, n, 1, kChunk);
  if (t.blocks == 0) return;
  const int32_t wide = a.dtype(n) == DType::Float64;
  a.launch(norm_function(a, "multi_clip_norm", 2, t), Grid(t.blocks), kThreads, 0, t.list,
           a.data(n), wide, a.f(0));
}

// Tensors: updated in place. attrs: bound.
void multi_clip_value(const KernelArgs& a) {
  const Table t(a, 0, a.ntensors, 1, kChunk);
  if (t.blocks == 0) return;
  a.launch(clip_function(a, "multi_clip_value", t), Grid(t.blocks), kThreads, 0, t.list, a.f(0));
}

// Tensors: found (0-d bool), then any.
void multi_nonfinite(const KernelArgs& a) {
  a.fill(a.data(0), 0, 1);
  const Table t(a, 1, a.ntensors - 1, 1, kChunk);
  if (t.blocks == 0) return;
  a.launch(clip_function(a, "multi_nonfinite", t), Grid(t.blocks), kThreads, 0, t.list, a.data(0));
}

}  // namespace

PF_GPU_KERNEL("sgd", sgd)
PF_GPU_KERNEL("adamw", adamw)
PF_GPU_KERNEL("multi_norm", multi_norm)
PF_GPU_KERNEL("multi_clip_norm", multi_clip_norm)
PF_GPU_KERNEL("multi_clip_value", multi_clip_value)
PF_GPU_KERNEL("multi_nonfinite", multi_nonfinite)

}  // namespace pyflame::gpu
