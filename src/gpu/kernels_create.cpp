// Launchers of kernels that make values: arange, linspace, eye, random numbers.
#include <cmath>

#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 1 << 16;

bool is_float_type(DType t) {
  return t == DType::Float32 || t == DType::Float64 || t == DType::Float16 || t == DType::BFloat16;
}

Function creator(const KernelArgs& a, const char* entry) {
  return a.compile("create.h", Defines().type("PF_T", a.dtype(0)).text("PF_INDEX", "pf_u64"),
                   entry);
}

void arange(const KernelArgs& a) {
  const int64_t n = numel(a.tensor(0));
  if (!n) return;
  a.launch(creator(a, "pf_arange"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0, a.data(0), n,
           a.f(0), a.f(1), a.i(0), a.i(1), static_cast<int>(!is_float_type(a.dtype(0))));
}

void linspace(const KernelArgs& a) {
  const int64_t n = numel(a.tensor(0));
  if (!n) return;
  const double step = n > 1 ? (a.f(1) - a.f(0)) / static_cast<double>(n - 1) : 0;
  a.launch(creator(a, "pf_linspace"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0, a.data(0), n,
           a.f(0), a.f(1), step, a.f(2));
}

void eye(const KernelArgs& a) {
  const int64_t n = numel(a.tensor(0));
  if (!n) return;
  a.launch(creator(a, "pf_eye"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0, a.data(0), n,
           a.tensor(0).shape[1]);
}

// attrs: as on the CPU
void triangle_indices(const KernelArgs& a) {
  const int64_t n = a.tensor(0).shape[1];
  if (!n) return;
  a.launch(creator(a, "pf_triangle_indices"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0,
           a.data(0), n, static_cast<int>(a.i(0)), a.i(1), a.i(2), a.i(3), a.i(4));
}

// ---- random numbers ----------------------------------------------------------------------------

// The bits that a value of [0, 1) may have so that storing it never rounds up to 1.
int64_t unit_bits(DType t) {
  return t == DType::BFloat16 ? 8 : t == DType::Float16 ? 11 : 24;
}

struct Random {
  Space s;
  Function f;
  Grid grid;
};

// `values`: how many one counter gives.
Random random(const KernelArgs& a, const Space& s, int values, bool floats, const char* entry,
              Defines extra = {}) {
  const char* index = s.small() ? "pf_u32" : "pf_u64";
  Defines d = std::move(extra).type("PF_T", a.dtype(0)).text("PF_INDEX", index);
  if (floats) d = std::move(d).value("PF_FLOATS", 1).value("PF_UNIT_BITS", unit_bits(a.dtype(0)));
  if (floats && a.dtype(0) == DType::Float64) d = std::move(d).value("PF_DOUBLE", 1);
  return {s, a.compile("random.h", d, entry),
          blocks_for(ceil_div(s.numel, values), kBlock, kMostBlocks)};
}

int floats_each(DType t) {
  return t == DType::Float64 ? 2 : 4;
}

void uniform(const KernelArgs& a) {
  const Space s = make_space({&a.tensor(0)});
  if (!s.numel) return;
  const Random r = random(a, s, floats_each(a.dtype(0)), true, "pf_uniform");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(0), a.i(0), a.i(1), a.f(2), a.f(3));
}
void normal(const KernelArgs& a) {
  const Space s = make_space({&a.tensor(0)});
  if (!s.numel) return;
  const Random r = random(a, s, floats_each(a.dtype(0)), true, "pf_normal");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(0), a.i(0), a.i(1), a.f(2), a.f(3));
}
void exponential(const KernelArgs& a) {
  const Space s = make_space({&a.tensor(0)});
  if (!s.numel) return;
  const Random r = random(a, s, floats_each(a.dtype(0)), true, "pf_exponential");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(0), a.i(0), a.i(1), a.f(2));
}
void randint(const KernelArgs& a) {
  const Space s = make_space({&a.tensor(0)});
  if (!s.numel) return;
  const Random r = random(a, s, 2, false, "pf_randint");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(0), a.i(0), a.i(1), a.i(2), a.i(3));
}
void bernoulli(const KernelArgs& a) {
  if (!a.has(1)) {
    const Space s = make_space({&a.tensor(0)});
    if (!s.numel) return;
    const Random r = random(a, s, 4, false, "pf_bernoulli");
    return a.launch(r.f, r.grid, kBlock, 0, s, a.data(0), a.i(0), a.i(1), a.f(2));
  }
  const Space s = make_space({&a.tensor(0), &a.tensor(1)});
  if (!s.numel) return;
  const Random r =
      random(a, s, 4, false, "pf_bernoulli_each", Defines().type("PF_PROBS", a.dtype(1)));
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(0), a.data(1), a.i(0), a.i(1));
}

// attrs: seed, offset, p
void dropout(const KernelArgs& a) {
  const Space s = make_space({&a.tensor(0), &a.tensor(1)});
  if (!s.numel) return;
  const double p = a.f(2), bound = std::ceil(p * 0x1p32);
  const bool none = bound >= 0x1p32;
  const uint32_t threshold = none ? 0 : static_cast<uint32_t>(bound);
  const double scale = none ? 0.0 : 1.0 / (1.0 - p);
  const Random r = random(a, s, 4, true, "pf_dropout");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(0), a.data(1), a.i(0), a.i(1), threshold, scale);
}

}  // namespace

PF_GPU_KERNEL("arange", arange)
PF_GPU_KERNEL("linspace", linspace)
PF_GPU_KERNEL("eye", eye)
PF_GPU_KERNEL("triangle_indices", triangle_indices)
PF_GPU_KERNEL("uniform", uniform)
PF_GPU_KERNEL("normal", normal)
PF_GPU_KERNEL("exponential", exponential)
PF_GPU_KERNEL("randint", randint)
PF_GPU_KERNEL("bernoulli", bernoulli)
PF_GPU_KERNEL("dropout", dropout)

}  // namespace pyflame::gpu
