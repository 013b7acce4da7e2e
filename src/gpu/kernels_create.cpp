// Kernels that make values from their position.
//   -DPF_T=type
#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#include "kernels/space.h"

typedef PF_T T;

// Integers: start and step as whole numbers, wrapping; floats in double.
PF_KERNEL(pf_arange, 256)
(void* out, pf_i64 n, double start, double step, pf_i64 istart, pf_i64 istep, int whole) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    if (whole)
      pf_put<T>(out, static_cast<pf_i64>(i),
                static_cast<pf_i64>(static_cast<pf_u64>(istart) + i * static_cast<pf_u64>(istep)));
    else
      pf_put<T>(out, static_cast<pf_i64>(i), start + static_cast<double>(i) * step);
  }
}

// From both ends to the middle, so that the last one is exactly `end`.
PF_KERNEL(pf_linspace, 256)
(void* out, pf_i64 n, double start, double end, double step, double base) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    const pf_i64 k = static_cast<pf_i64>(i);
    const double v = k < (n + 1) / 2 ? start + step * static_cast<double>(k)
                                     : end - step * static_cast<double>(n - 1 - k);
    pf_put<T>(out, k, base != 0 ? pf_pow(base, v) : v);
  }
}

PF_KERNEL(pf_eye, 256)(void* out, pf_i64 n, pf_i64 columns) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    const pf_i64 k = static_cast<pf_i64>(i);
    pf_put<T>(out, k, k / columns == k % columns);
  }
}

// Rows and columns of a triangle, row by row, as on the CPU (src/cpu/creation.cpp). Slanted rows
// are counted from the shortest: k of them have k * shortest + k * (k - 1) / 2 elements.
PF_KERNEL(pf_triangle_indices, 256)
(void* out, pf_i64 n, int upper, pf_i64 columns, pf_i64 low, pf_i64 slope, pf_i64 shortest) {
  const auto before = [&](pf_i64 k) PF_INLINE { return k * shortest + k * (k - 1) / 2; };
  const pf_i64 all = before(slope);
  const double b = static_cast<double>(shortest) - 0.5;
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    const pf_i64 e = static_cast<pf_i64>(i);
    const pf_i64 rest = upper ? n - 1 - e : e;  // from the shortest row's end
    pf_i64 row, column;
    if (rest < all) {
      // The root of the formula is off by what rounding makes of it; whole numbers decide.
      const double twice = 2.0 * static_cast<double>(rest);
      pf_i64 k = static_cast<pf_i64>(twice / (pf_sqrt(b * b + twice) + b));
      k = k < slope ? k : slope - 1;
      while (before(k) > rest) --k;
      while (k + 1 < slope && before(k + 1) <= rest) ++k;
      row = upper ? low + slope - 1 - k : low + k;
      column = upper ? columns - 1 - (rest - before(k)) : rest - before(k);
    } else {
      const pf_index at = static_cast<pf_index>(upper ? e : e - all);
      const pf_index whole = at / static_cast<pf_index>(columns);
      row = (upper ? 0 : low + slope) + static_cast<pf_i64>(whole);
      column = static_cast<pf_i64>(at - whole * static_cast<pf_index>(columns));
    }
    pf_put<T>(out, e, row);
    pf_put<T>(out, n + e, column);
  }
}

#else  // launchers
#include "gpu/kernel.h"
#include "table/kernels/create.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

// Of n elements.
template <class K, class... A>
void create(const KernelArgs& a, const char* entry, int64_t n, const A&... rest) {
  if (!n) return;
  constexpr auto at = tensors<K>;
  const Function f =
      a.compile("kernels_create.cpp",
                Defines().type("PF_T", a.dtype(at.out)).text("PF_INDEX", "pf_u64"), entry);
  a.launch(f, blocks_for(n, kBlock, kMostBlocks), kBlock, 0, a.data(at.out), n, rest...);
}

void arange(const KernelArgs& a) {
  constexpr auto at = tensors<Arange>;
  constexpr auto number = numbers<Arange>;
  create<Arange>(a, "pf_arange", numel(a.tensor(at.out)), a.f(number.start), a.f(number.step),
                 a.i(number.start), a.i(number.step), static_cast<int>(!is_float(a.dtype(at.out))));
}
void linspace(const KernelArgs& a) {
  constexpr auto number = numbers<Linspace>;
  const int64_t n = numel(a.tensor(tensors<Linspace>.out));
  const double step =
      n > 1 ? (a.f(number.end) - a.f(number.start)) / static_cast<double>(n - 1) : 0;
  create<Linspace>(a, "pf_linspace", n, a.f(number.start), a.f(number.end), step, a.f(number.base));
}
void eye(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(tensors<Eye>.out);
  create<Eye>(a, "pf_eye", numel(out), out.shape[1]);
}
void triangle_indices(const KernelArgs& a) {
  constexpr auto number = numbers<TriangleIndices>;
  create<TriangleIndices>(a, "pf_triangle_indices", a.tensor(tensors<TriangleIndices>.out).shape[1],
                          static_cast<int>(a.i(number.upper)), a.i(number.columns), a.i(number.low),
                          a.i(number.slope), a.i(number.shortest));
}

}  // namespace

PF_GPU_KERNEL(Arange::kInfo, arange)
PF_GPU_KERNEL(Linspace::kInfo, linspace)
PF_GPU_KERNEL(Eye::kInfo, eye)
PF_GPU_KERNEL(TriangleIndices::kInfo, triangle_indices)

}  // namespace pyflame::gpu
#endif
