// Launchers of kernels that make values: arange, linspace, eye, random numbers.
#include <cmath>

#include "gpu/kernel.h"
#include "table/kernels/create.h"
#include "table/kernels/random.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 1 << 16;

bool is_float_type(DType t) {
  return t == DType::Float32 || t == DType::Float64 || t == DType::Float16 || t == DType::BFloat16;
}

template <class K>
Function creator(const KernelArgs& a, const char* entry) {
  return a.compile("create.h",
                   Defines().type("PF_T", a.dtype(tensors<K>.out)).text("PF_INDEX", "pf_u64"),
                   entry);
}

void arange(const KernelArgs& a) {
  constexpr auto at = tensors<Arange>;
  constexpr auto number = numbers<Arange>;
  const int64_t n = numel(a.tensor(at.out));
  if (!n) return;
  a.launch(creator<Arange>(a, "pf_arange"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0,
           a.data(at.out), n, a.f(number.start), a.f(number.step), a.i(number.start),
           a.i(number.step), static_cast<int>(!is_float_type(a.dtype(at.out))));
}

void linspace(const KernelArgs& a) {
  constexpr auto at = tensors<Linspace>;
  constexpr auto number = numbers<Linspace>;
  const int64_t n = numel(a.tensor(at.out));
  if (!n) return;
  const double step =
      n > 1 ? (a.f(number.end) - a.f(number.start)) / static_cast<double>(n - 1) : 0;
  a.launch(creator<Linspace>(a, "pf_linspace"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0,
           a.data(at.out), n, a.f(number.start), a.f(number.end), step, a.f(number.base));
}

void eye(const KernelArgs& a) {
  constexpr auto at = tensors<Eye>;
  const int64_t n = numel(a.tensor(at.out));
  if (!n) return;
  a.launch(creator<Eye>(a, "pf_eye"), blocks_for(n, kBlock, kMostBlocks), kBlock, 0, a.data(at.out),
           n, a.tensor(at.out).shape[1]);
}

void triangle_indices(const KernelArgs& a) {
  constexpr auto at = tensors<TriangleIndices>;
  constexpr auto number = numbers<TriangleIndices>;
  const int64_t n = a.tensor(at.out).shape[1];
  if (!n) return;
  a.launch(creator<TriangleIndices>(a, "pf_triangle_indices"), blocks_for(n, kBlock, kMostBlocks),
           kBlock, 0, a.data(at.out), n, static_cast<int>(a.i(number.upper)), a.i(number.columns),
           a.i(number.low), a.i(number.slope), a.i(number.shortest));
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

// `t`: of the result; `values`: how many one counter gives.
Random random(const KernelArgs& a, const Space& s, DType t, int values, bool floats,
              const char* entry, Defines extra = {}) {
  const char* index = s.small() ? "pf_u32" : "pf_u64";
  Defines d = std::move(extra).type("PF_T", t).text("PF_INDEX", index);
  if (floats) d = std::move(d).value("PF_FLOATS", 1).value("PF_UNIT_BITS", unit_bits(t));
  if (floats && t == DType::Float64) d = std::move(d).value("PF_DOUBLE", 1);
  return {s, a.compile("random.h", d, entry),
          blocks_for(ceil_div(s.numel, values), kBlock, kMostBlocks)};
}

int floats_each(DType t) {
  return t == DType::Float64 ? 2 : 4;
}

void uniform(const KernelArgs& a) {
  constexpr auto at = tensors<Uniform>;
  constexpr auto number = numbers<Uniform>;
  const Space s = make_space({&a.tensor(at.out)});
  if (!s.numel) return;
  const Random r = random(a, s, a.dtype(at.out), floats_each(a.dtype(at.out)), true, "pf_uniform");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.i(number.seed), a.i(number.offset),
           a.f(number.from), a.f(number.to));
}
void normal(const KernelArgs& a) {
  constexpr auto at = tensors<Normal>;
  constexpr auto number = numbers<Normal>;
  const Space s = make_space({&a.tensor(at.out)});
  if (!s.numel) return;
  const Random r = random(a, s, a.dtype(at.out), floats_each(a.dtype(at.out)), true, "pf_normal");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.i(number.seed), a.i(number.offset),
           a.f(number.mean), a.f(number.std));
}
void exponential(const KernelArgs& a) {
  constexpr auto at = tensors<Exponential>;
  constexpr auto number = numbers<Exponential>;
  const Space s = make_space({&a.tensor(at.out)});
  if (!s.numel) return;
  const Random r =
      random(a, s, a.dtype(at.out), floats_each(a.dtype(at.out)), true, "pf_exponential");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.i(number.seed), a.i(number.offset),
           a.f(number.rate));
}
void randint(const KernelArgs& a) {
  constexpr auto at = tensors<Randint>;
  constexpr auto number = numbers<Randint>;
  const Space s = make_space({&a.tensor(at.out)});
  if (!s.numel) return;
  const Random r = random(a, s, a.dtype(at.out), 2, false, "pf_randint");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.i(number.seed), a.i(number.offset),
           a.i(number.low), a.i(number.range));
}
void bernoulli(const KernelArgs& a) {
  constexpr auto at = tensors<Bernoulli>;
  constexpr auto number = numbers<Bernoulli>;
  if (!a.has(at.probs)) {
    const Space s = make_space({&a.tensor(at.out)});
    if (!s.numel) return;
    const Random r = random(a, s, a.dtype(at.out), 4, false, "pf_bernoulli");
    return a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.i(number.seed), a.i(number.offset),
                    a.f(number.p));
  }
  const Space s = make_space({&a.tensor(at.out), &a.tensor(at.probs)});
  if (!s.numel) return;
  const Random r = random(a, s, a.dtype(at.out), 4, false, "pf_bernoulli_each",
                          Defines().type("PF_PROBS", a.dtype(at.probs)));
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.data(at.probs), a.i(number.seed),
           a.i(number.offset));
}

void dropout(const KernelArgs& a) {
  constexpr auto at = tensors<Dropout>;
  constexpr auto number = numbers<Dropout>;
  const Space s = make_space({&a.tensor(at.out), &a.tensor(at.x)});
  if (!s.numel) return;
  const double p = a.f(number.p), bound = std::ceil(p * 0x1p32);
  const bool none = bound >= 0x1p32;
  const uint32_t threshold = none ? 0 : static_cast<uint32_t>(bound);
  const double scale = none ? 0.0 : 1.0 / (1.0 - p);
  const Random r = random(a, s, a.dtype(at.out), 4, true, "pf_dropout");
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.data(at.x), a.i(number.seed),
           a.i(number.offset), threshold, scale);
}

}  // namespace

PF_GPU_KERNEL(Arange::kInfo, arange)
PF_GPU_KERNEL(Linspace::kInfo, linspace)
PF_GPU_KERNEL(Eye::kInfo, eye)
PF_GPU_KERNEL(TriangleIndices::kInfo, triangle_indices)
PF_GPU_KERNEL(Uniform::kInfo, uniform)
PF_GPU_KERNEL(Normal::kInfo, normal)
PF_GPU_KERNEL(Exponential::kInfo, exponential)
PF_GPU_KERNEL(Randint::kInfo, randint)
PF_GPU_KERNEL(Bernoulli::kInfo, bernoulli)
PF_GPU_KERNEL(Dropout::kInfo, dropout)

}  // namespace pyflame::gpu
