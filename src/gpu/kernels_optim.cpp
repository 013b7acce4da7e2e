// Steps of optimizers, norms and clipping over lists of tensors (kernels/adamw.h, sgd.h,
// optim_step.h, multi_*.h).
#include <cmath>
#include <cstring>
#include <vector>

#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/optim_args.h"
#include "table/kernels/optim.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kThreads = 256;

// `count` tensors from `first` on; array k of tensor i is tensor first + k * count + i. `random`:
// the first counter of what is rounded at random.
struct Table {
  pf_list list{};
  int64_t blocks = 0;
  DType dtype = DType::Float32;
  bool alike = true;  // all of that dtype
  Table(const KernelArgs& a, int first, int count, int arrays, int64_t chunk, uint64_t random = 0) {
    const auto n = static_cast<size_t>(count);
    std::vector<char> bytes(n * sizeof(pf_entry_of) + (n + 1) * sizeof(pf_i64));
    std::vector<int64_t> starts(n + 1);
    for (size_t i = 0; i < n; ++i) {
      const int at = first + static_cast<int>(i);
      pf_entry_of e{};
      e.count = numel(a.tensor(at));
      e.random = random;
      random += static_cast<uint64_t>((e.count + 7) / 8);
      if (i == 0) dtype = a.dtype(at);
      alike = alike && a.dtype(at) == dtype;
      e.dtype = static_cast<int32_t>(a.dtype(at));
      e.aligned = 1;
      for (int k = 0; k < arrays; ++k) {
        e.data[k] = a.data(at + k * count);
        if (!aligned(e.data[k], 16)) e.aligned = 0;
      }
      std::memcpy(bytes.data() + i * sizeof(pf_entry_of), &e, sizeof e);
      starts[i] = blocks;
      blocks += ceil_div(e.count, chunk);
    }
    starts[n] = blocks;
    std::memcpy(bytes.data() + n * sizeof(pf_entry_of), starts.data(), (n + 1) * sizeof(pf_i64));
    if (blocks == 0) return;
    char* p = static_cast<char*>(a.upload(bytes.data(), bytes.size()));
    list = {reinterpret_cast<const pf_entry_of*>(p),
            reinterpret_cast<const pf_i64*>(p + n * sizeof(pf_entry_of)), count, 0, chunk};
  }
  // Of a step that reads `arrays` of the first ones beside gradients and, from memory of its own,
  // writes them. (Outside of a graph the table itself may be on its way still.)
  void look_for_steady(const KernelArgs& a, int arrays) {
    list.steady = 1;
    for (int i = 0; i < arrays * list.count && list.steady; ++i) list.steady = a.steady(i, true);
  }
  // For kernels/multi.h.
  Defines only(Defines d) const { return alike ? std::move(d).type("PF_ONLY", dtype) : d; }
};
static_assert(static_cast<int>(DType::Float32) == 0 && static_cast<int>(DType::Float64) == 1 &&
                  static_cast<int>(DType::Float16) == 2 && static_cast<int>(DType::BFloat16) == 3,
              "pf_by_dtype of kernels/multi.h");

// Four accesses of 16 bytes of every array for each thread; two for 16-bit dtypes, which take more
// registers for as many bytes; one where so few elements would leave compute units idle. `count`
// parameters, the first tensors.
int64_t optimizer_chunk(const KernelArgs& a, int count) {
  const auto size = static_cast<int64_t>(itemsize(a.dtype(0)));
  int64_t all = 0;
  for (int i = 0; i < count; ++i) all += numel(a.tensor(i));
  const int64_t one = kThreads * 16 / size, most = (size < 4 ? 2 : 4) * one;
  return all < most * a.traits().compute_units ? one : most;
}

// Of adamw.h and sgd.h: `states` arrays behind the parameters, gradients in the last of `arrays`,
// and weights in front of these.
Defines step_defines(const KernelArgs& a, int count, int states, int arrays, int64_t weights,
                     bool random) {
  const DType type = a.dtype(0);
  Defines d = Defines()
                  .type("PF_T", type)
                  .type("PF_S", states > 0 ? a.dtype(count) : type)
                  .type("PF_G", a.dtype((arrays - 1) * count))
                  .value("PF_WEIGHTS", weights)
                  .value("PF_RANDOM", random);
  return weights ? std::move(d).type("PF_W", a.dtype((arrays - 2) * count)) : d;
}

void sgd(const KernelArgs& a) {
  constexpr auto number = numbers<Sgd>;
  const DType type = a.dtype(0);  // of all
  const int n = static_cast<int>(a.i(number.count));
  const double momentum = a.f(number.momentum), decay = a.f(number.weight_decay);
  const int64_t weights = a.i(number.weights);
  const bool random = a.i(number.random) != 0;
  const int arrays = 2 + (momentum != 0) + (weights != 0);
  const auto seed = static_cast<uint64_t>(a.i(number.seed));
  Table t(a, 0, n, arrays, optimizer_chunk(a, n), static_cast<uint64_t>(a.i(number.offset)));
  if (t.blocks == 0) return;
  t.look_for_steady(a, 1 + (momentum != 0));
  const pf_sgd<double> s{seed,
                         -a.f(number.lr),
                         momentum,
                         1 - a.f(number.dampening),
                         decay,
                         a.i(number.maximize) != 0 ? -1.0 : 1.0,
                         decay != 0,
                         a.i(number.nesterov) != 0,
                         a.i(number.first_step) != 0,
                         0};
  const Defines d = step_defines(a, n, momentum != 0 ? 1 : 0, arrays, weights, random)
                        .value("PF_MOMENTUM", momentum != 0);
  const Function f = a.compile("sgd.h", d, "sgd");
  if (type == DType::Float64) return a.launch(f, Grid(t.blocks), kThreads, 0, t.list, s);
  const auto to = [](double v) { return static_cast<float>(v); };
  const pf_sgd<float> narrow{seed,       to(s.rate), to(s.momentum), to(s.undamped), to(s.decay),
                             to(s.sign), s.decays,   s.nesterov,     s.first,        0};
  a.launch(f, Grid(t.blocks), kThreads, 0, t.list, narrow);
}

void adamw(const KernelArgs& a) {
  constexpr auto number = numbers<AdamW>;
  const DType type = a.dtype(0);  // of all
  const int n = static_cast<int>(a.i(number.count));
  const double lr = a.f(number.lr), step = static_cast<double>(a.i(number.step));
  const double beta1 = a.f(number.beta1), beta2 = a.f(number.beta2);
  const double decay = a.f(number.weight_decay);
  const bool decoupled = a.i(number.decoupled) != 0, amsgrad = a.i(number.amsgrad) != 0;
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  const int64_t weights = a.i(number.weights);
  const bool random = a.i(number.random) != 0;
  const int arrays = 4 + amsgrad + (weights != 0);
  const auto seed = static_cast<uint64_t>(a.i(number.seed));
  Table t(a, 0, n, arrays, optimizer_chunk(a, n), static_cast<uint64_t>(a.i(number.offset)));
  if (t.blocks == 0) return;
  t.look_for_steady(a, 3 + amsgrad);
  const pf_adam<double> s{seed,
                          1 - beta1,
                          beta2,
                          1 - beta2,
                          a.f(number.eps),
                          decoupled ? 1 - lr * decay : decay,
                          1 / std::sqrt(correction2),
                          -lr / correction1,
                          a.i(number.maximize) != 0 ? -1.0 : 1.0,
                          decay != 0,
                          decoupled};
  const Defines d = step_defines(a, n, 2, arrays, weights, random).value("PF_AMSGRAD", amsgrad);
  const Function f = a.compile("adamw.h", d, "adamw");
  if (type == DType::Float64) return a.launch(f, Grid(t.blocks), kThreads, 0, t.list, s);
  const auto to = [](double v) { return static_cast<float>(v); };
  const pf_adam<float> narrow{seed,       to(s.c1),   to(s.b2),   to(s.c2), to(s.eps),  to(s.decay),
                              to(s.root), to(s.size), to(s.sign), s.decays, s.decoupled};
  a.launch(f, Grid(t.blocks), kThreads, 0, t.list, narrow);
}

void optim_step(const KernelArgs& a) {
  constexpr auto number = numbers<OptimStep>;
  static_assert(PF_STEP_NUMBERS == kStepNumbers);
  const DType type = a.dtype(0);  // of all
  const int64_t rule = a.i(number.rule);
  const int arrays = kStepRules[rule].states + 2;
  const int n = static_cast<int>(a.i(number.count));
  Table t(a, 0, n, arrays, optimizer_chunk(a, n));
  if (t.blocks == 0) return;
  t.look_for_steady(a, arrays - 1);
  pf_step<double> s{};
  for (int k = 0; k < kStepNumbers; ++k) s.numbers[k] = a.f(number.n0 + k);
  s.decay = a.f(number.decay);
  s.sign = a.i(number.maximize) != 0 ? -1.0 : 1.0;
  s.decays = static_cast<pf_i32>(a.i(number.decays));
  const Defines d = Defines().type("PF_T", type).value("PF_RULE", rule).value("PF_ARRAYS", arrays);
  const Function f = a.compile("optim_step.h", d, "optim_step");
  if (type == DType::Float64) return a.launch(f, Grid(t.blocks), kThreads, 0, t.list, s);
  pf_step<float> narrow{};
  for (int k = 0; k < kStepNumbers; ++k) narrow.numbers[k] = static_cast<float>(s.numbers[k]);
  narrow.decay = static_cast<float>(s.decay);
  narrow.sign = static_cast<float>(s.sign);
  narrow.decays = s.decays;
  a.launch(f, Grid(t.blocks), kThreads, 0, t.list, narrow);
}

constexpr int64_t kChunk = 16384;  // elements of a block

Function norm_function(const KernelArgs& a, const char* entry, int64_t kind, const Table& t) {
  return a.compile("multi_norm.h", t.only(Defines().value("PF_KIND", kind)), entry);
}
Function clip_function(const KernelArgs& a, const char* entry, const Table& t) {
  return a.compile("multi_clip.h", t.only(Defines()), entry);
}

void multi_norm(const KernelArgs& a) {
  constexpr int kNorm = tensors<MultiNorm>.norm, kFirst = kNorm + 1;
  const double p = a.f(numbers<MultiNorm>.p);
  const int64_t kind = std::isinf(p) ? 0 : p == 1 ? 1 : p == 2 ? 2 : 3;
  const Table t(a, kFirst, a.ntensors - kFirst, 1, kChunk);
  void* partial = a.workspace(sizeof(double) * static_cast<size_t>(t.blocks + 1));
  if (t.blocks > 0)
    a.launch(norm_function(a, "multi_norm", kind, t), Grid(t.blocks), kThreads, 0, t.list, partial,
             p);
  const int32_t wide = a.dtype(kNorm) == DType::Float64;
  a.launch(norm_function(a, "multi_norm_finish", kind, t), Grid(1), kThreads, 0, partial, t.blocks,
           p, a.data(kNorm), wide);
}

void multi_clip_norm(const KernelArgs& a) {
  const int n = a.ntensors - 1;
  const Table t(a, 0, n, 1, kChunk);
  if (t.blocks == 0) return;
  const int32_t wide = a.dtype(n) == DType::Float64;
  a.launch(norm_function(a, "multi_clip_norm", 2, t), Grid(t.blocks), kThreads, 0, t.list,
           a.data(n), wide, a.f(numbers<MultiClipNorm>.most));
}

void multi_clip_value(const KernelArgs& a) {
  const Table t(a, 0, a.ntensors, 1, kChunk);
  if (t.blocks == 0) return;
  a.launch(clip_function(a, "multi_clip_value", t), Grid(t.blocks), kThreads, 0, t.list,
           a.f(numbers<MultiClipValue>.bound));
}

void multi_nonfinite(const KernelArgs& a) {
  constexpr int kFound = tensors<MultiNonfinite>.found, kFirst = kFound + 1;
  a.fill(a.data(kFound), 0, 1);
  const Table t(a, kFirst, a.ntensors - kFirst, 1, kChunk);
  if (t.blocks == 0) return;
  a.launch(clip_function(a, "multi_nonfinite", t), Grid(t.blocks), kThreads, 0, t.list,
           a.data(kFound));
}

}  // namespace

PF_GPU_TOGETHER("multi_norm.h", "multi_norm multi_norm_finish multi_clip_norm")
PF_GPU_KERNEL(Sgd::kInfo, sgd)
PF_GPU_KERNEL(AdamW::kInfo, adamw)
PF_GPU_KERNEL(OptimStep::kInfo, optim_step)
PF_GPU_KERNEL(MultiNorm::kInfo, multi_norm)
PF_GPU_KERNEL(MultiClipNorm::kInfo, multi_clip_norm)
PF_GPU_KERNEL(MultiClipValue::kInfo, multi_clip_value)
PF_GPU_KERNEL(MultiNonfinite::kInfo, multi_nonfinite)

}  // namespace pyflame::gpu
