// Random numbers: the same bits as src/cpu/random.cpp gives. Element i takes word i mod 4 of
// counter offset + i / 4 (values of two words: words 2i and 2i + 1), whatever its place in memory.
//   -DPF_T=type; floats: -DPF_FLOATS=1 -DPF_UNIT_BITS=n, and -DPF_DOUBLE=1 for float64
#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#include "kernels/philox.h"
#include "kernels/space.h"

typedef PF_T T;

PF_DEVICE pf_u64 pf_multiply_high64(pf_u64 a, pf_u64 b) {
  const pf_u64 al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
  const pf_u64 low = al * bl, m1 = ah * bl + (low >> 32), m2 = al * bh + (m1 & 0xffffffffu);
  return ah * bh + (m1 >> 32) + (m2 >> 32);
}

// One counter gives N values: 4, or 2 of two words each. `pick(words, values)` makes them; value k
// of counter b is element N * b + k of `s`.
template <int N, class V, class F>
PF_DEVICE void pf_fill_random(const pf_space& s, void* out, pf_u64 seed, pf_u64 offset, F pick) {
  const pf_u64 n = static_cast<pf_u64>(s.numel);
  for (pf_u64 b = pf_first_item(); b * N < n; b += pf_item_step()) {
    const pf_words w = pf_philox(offset + b, seed);
    V v[N];
    pick(w.w, v);
    PF_UNROLL for (int k = 0; k < N; ++k) {
      if (b * N + k >= n) break;
      pf_i64 at[1];
      pf_offsets<1>(s, static_cast<pf_index>(b * N + k), at);
      pf_put<T>(out, at[0], v[k]);
    }
  }
}
#ifdef PF_FLOATS
typedef pf_compute<T> C;

PF_KERNEL(pf_uniform, 256)
(pf_space s, void* out, pf_u64 seed, pf_u64 offset, double low, double high) {
  const C from = static_cast<C>(low), to = static_cast<C>(high), width = to - from;
#ifdef PF_DOUBLE
  pf_fill_random<2, C>(s, out, seed, offset, [=](const pf_u32* w, C* v) {
    for (int i = 0; i < 2; ++i) {
      const C r = pf_fma(pf_unit_double(w[2 * i], w[2 * i + 1]), width, from);
      v[i] = r < to ? r : from;
    }
  });
#else
  // PF_UNIT_BITS: what the dtype holds without ever rounding up to 1.
  const C unit = static_cast<C>(1.0 / static_cast<double>(1 << PF_UNIT_BITS));
  pf_fill_random<4, C>(s, out, seed, offset, [=](const pf_u32* w, C* v) {
    for (int i = 0; i < 4; ++i) {
      const C r = pf_fma(static_cast<C>(static_cast<pf_i32>(w[i] >> (32 - PF_UNIT_BITS))) * unit,
                         width, from);
      v[i] = r < to ? r : from;
    }
  });
#endif
}

PF_KERNEL(pf_normal, 256)
(pf_space s, void* out, pf_u64 seed, pf_u64 offset, double mean, double std) {
  const C m = static_cast<C>(mean), d = static_cast<C>(std);
#ifdef PF_DOUBLE
  pf_fill_random<2, C>(s, out, seed, offset, [=](const pf_u32* w, C* v) {
    pf_normal_pair(w, v);
    for (int i = 0; i < 2; ++i) v[i] = pf_fma(v[i], d, m);
  });
#else
  pf_fill_random<4, C>(s, out, seed, offset, [=](const pf_u32* w, C* v) {
    pf_normal_pair(w[0], w[1], v);
    pf_normal_pair(w[2], w[3], v + 2);
    for (int i = 0; i < 4; ++i) v[i] = pf_fma(v[i], d, m);
  });
#endif
}

PF_KERNEL(pf_exponential, 256)(pf_space s, void* out, pf_u64 seed, pf_u64 offset, double rate) {
  const C r = static_cast<C>(rate);
#ifdef PF_DOUBLE
  pf_fill_random<2, C>(s, out, seed, offset, [=](const pf_u32* w, C* v) {
    for (int i = 0; i < 2; ++i) v[i] = -pf_log_positive(pf_open_double(w[2 * i], w[2 * i + 1])) / r;
  });
#else
  pf_fill_random<4, C>(s, out, seed, offset, [=](const pf_u32* w, C* v) {
    for (int i = 0; i < 4; ++i) v[i] = -pf_log_positive(pf_open_float(w[i])) / r;
  });
#endif
}

// Kept when word >= threshold. Tensors: out, in over one space.
PF_KERNEL(pf_dropout, 256)
(pf_space s, void* out, const void* in, pf_u64 seed, pf_u64 offset, pf_u32 threshold,
 double scale) {
  const C keep = static_cast<C>(scale);
  const pf_u64 n = static_cast<pf_u64>(s.numel);
  for (pf_u64 b = pf_first_item(); b * 4 < n; b += pf_item_step()) {
    const pf_words w = pf_philox(offset + b, seed);
    PF_UNROLL for (int k = 0; k < 4; ++k) {
      if (b * 4 + k >= n) break;
      pf_i64 at[2];
      pf_offsets<2>(s, static_cast<pf_index>(b * 4 + k), at);
      pf_put<T>(out, at[0], pf_get<T>(in, at[1]) * (w.w[k] >= threshold ? keep : C(0)));
    }
  }
}
#else
PF_KERNEL(pf_randint, 256)
(pf_space s, void* out, pf_u64 seed, pf_u64 offset, pf_i64 low, pf_u64 range) {
  pf_fill_random<2, pf_i64>(s, out, seed, offset, [=](const pf_u32* w, pf_i64* v) {
    for (int i = 0; i < 2; ++i) {
      pf_u64 u = pf_join(w[2 * i], w[2 * i + 1]);
      if (range) u = pf_multiply_high64(u, range);
      v[i] = static_cast<pf_i64>(static_cast<pf_u64>(low) + u);
    }
  });
}

PF_KERNEL(pf_bernoulli, 256)(pf_space s, void* out, pf_u64 seed, pf_u64 offset, double p) {
  pf_fill_random<4, pf_i32>(s, out, seed, offset, [=](const pf_u32* w, pf_i32* v) {
    for (int i = 0; i < 4; ++i) v[i] = static_cast<double>(w[i]) * 0x1p-32 < p;
  });
}

#ifdef PF_PROBS
// Tensors: out, probabilities over one space.
PF_KERNEL(pf_bernoulli_each, 256)
(pf_space s, void* out, const void* probs, pf_u64 seed, pf_u64 offset) {
  const pf_u64 n = static_cast<pf_u64>(s.numel);
  for (pf_u64 b = pf_first_item(); b * 4 < n; b += pf_item_step()) {
    const pf_words w = pf_philox(offset + b, seed);
    PF_UNROLL for (int k = 0; k < 4; ++k) {
      if (b * 4 + k >= n) break;
      pf_i64 at[2];
      pf_offsets<2>(s, static_cast<pf_index>(b * 4 + k), at);
      const double p = pf_cast<double>(pf_get<PF_PROBS>(probs, at[1]));
      pf_put<T>(out, at[0], static_cast<double>(w.w[k]) * 0x1p-32 < p);
    }
  }
}
#endif
#endif

#else  // launchers
#include <cmath>

#include "gpu/kernel.h"
#include "table/kernels/random.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

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
  return {s, a.compile("kernels_random.cpp", d, entry),
          blocks_for(ceil_div(s.numel, values), kBlock, kMostBlocks)};
}

// Numbers from seed and offset alone.
template <class K, class... A>
void fill(const KernelArgs& a, int values, bool floats, const char* entry, const A&... rest) {
  constexpr auto at = tensors<K>;
  const Space s = make_space({&a.tensor(at.out)});
  if (!s.numel) return;
  const Random r = random(a, s, a.dtype(at.out), values, floats, entry);
  a.launch(r.f, r.grid, kBlock, 0, s, a.data(at.out), a.i(numbers<K>.seed), a.i(numbers<K>.offset),
           rest...);
}
template <class K, class... A>
void fill_floats(const KernelArgs& a, const char* entry, const A&... rest) {
  fill<K>(a, a.dtype(tensors<K>.out) == DType::Float64 ? 2 : 4, true, entry, rest...);
}

void uniform(const KernelArgs& a) {
  fill_floats<Uniform>(a, "pf_uniform", a.f(numbers<Uniform>.from), a.f(numbers<Uniform>.to));
}
void normal(const KernelArgs& a) {
  fill_floats<Normal>(a, "pf_normal", a.f(numbers<Normal>.mean), a.f(numbers<Normal>.std));
}
void exponential(const KernelArgs& a) {
  fill_floats<Exponential>(a, "pf_exponential", a.f(numbers<Exponential>.rate));
}
void randint(const KernelArgs& a) {
  fill<Randint>(a, 2, false, "pf_randint", a.i(numbers<Randint>.low), a.i(numbers<Randint>.range));
}
void bernoulli(const KernelArgs& a) {
  constexpr auto at = tensors<Bernoulli>;
  constexpr auto number = numbers<Bernoulli>;
  if (!a.has(at.probs)) return fill<Bernoulli>(a, 4, false, "pf_bernoulli", a.f(number.p));
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

PF_GPU_KERNEL(Uniform::kInfo, uniform)
PF_GPU_KERNEL(Normal::kInfo, normal)
PF_GPU_KERNEL(Exponential::kInfo, exponential)
PF_GPU_KERNEL(Randint::kInfo, randint)
PF_GPU_KERNEL(Bernoulli::kInfo, bernoulli)
PF_GPU_KERNEL(Dropout::kInfo, dropout)

}  // namespace pyflame::gpu
#endif
