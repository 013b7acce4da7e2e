// The launcher of interpolation (kernels/resample.h).
#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/kernel.h"
#include "kernels/resample_args.h"
#include "table/kernels/resample.h"
#include "table/resample.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr auto kNumber = numbers<Resample>;
constexpr int kBlock = 256;

table::Taps taps(const KernelArgs& a, int64_t rule, int64_t in, int64_t out, double scale,
                 bool single) {
  const bool back = a.i(kNumber.transposed) != 0;
  const table::Taps t = table::taps_of(static_cast<table::Rule>(rule), back ? out : in,
                                       back ? in : out, scale, a.i(kNumber.align) != 0, single);
  return back ? table::transposed(t) : t;
}

// Starts, counts and weights, one behind the other.
template <class C>
void append(std::vector<char>& to, const table::Taps& t) {
  const auto words = static_cast<size_t>(ceil_div(2 * t.out, 4) * 4);
  const size_t at = to.size(), ints = words * 4, n = t.start.size();
  to.resize(at + (ints + t.weight.size() * sizeof(C) + 15) / 16 * 16);
  std::memcpy(&to[at], t.start.data(), n * 4);
  std::memcpy(&to[at + n * 4], t.count.data(), n * 4);
  for (size_t i = 0; i < t.weight.size(); ++i) {
    const C w = static_cast<C>(t.weight[i]);
    std::memcpy(&to[at + ints + i * sizeof(C)], &w, sizeof(C));
  }
}

struct Types {
  DType from, to, sums;
};
void launch(const KernelArgs& a, pf_resample r, const Types& t) {
  const int64_t width = r.b.out * r.inner, all = r.outer * r.a.out * width;
  const auto size = static_cast<int64_t>(std::max<size_t>(itemsize(t.from), itemsize(t.to)));
  int64_t vector = 16 / size;
  const auto fits = [&](int64_t n, const void* p) {
    return n % vector == 0 && reinterpret_cast<uintptr_t>(p) % 16 == 0;
  };
  const bool lines = fits(r.inner, r.x) && fits(r.inner, r.y);
  if (!lines) {
    vector = std::min<int64_t>(vector, 4);
    if (!fits(width, r.y)) vector = 1;
  }
  r.items = all / vector;
  const int64_t reach = std::max<int64_t>(all, r.outer * r.a.in * r.b.in * r.inner);
  const Defines defines = Defines()
                              .type("PF_T", t.from)
                              .type("PF_R", t.to)
                              .type("PF_C", t.sums)
                              .value("PF_V", vector)
                              .value("PF_LINES", lines || vector == 1)
                              .value("PF_ONE", r.inner == 1)
                              .text("PF_INDEX", reach < (int64_t{1} << 31) ? "pf_u32" : "pf_u64");
  a.launch(a.compile("resample.h", defines, "resample"), blocks_for(r.items, kBlock), kBlock, 0, r);
}

void resample(const KernelArgs& a) {
  constexpr auto at = tensors<Resample>;
  const DType type = a.dtype(at.x);
  const bool single = type != DType::Float64;
  const DType sums = single ? DType::Float32 : DType::Float64;
  const table::Taps ta = taps(a, a.i(kNumber.rule_a), a.i(kNumber.in_a), a.i(kNumber.out_a),
                              a.f(kNumber.scale_a), single);
  const table::Taps tb = taps(a, a.i(kNumber.rule_b), a.i(kNumber.in_b), a.i(kNumber.out_b),
                              a.f(kNumber.scale_b), single);
  // Along the second dimension alone, for what goes through memory in between.
  const table::Taps none = table::taps_of(table::Rule::Nearest, ta.out, ta.out, 1, false, false);
  const table::Taps keep = table::taps_of(table::Rule::Nearest, tb.in, tb.in, 1, false, false);
  constexpr int64_t kFew = 32;  // elements of x that one of y may read anew
  const bool apart = ta.most > 1 && tb.most > 1 && ta.most * tb.most > kFew;
  std::vector<char> bytes;
  size_t begin[4] = {};
  const table::Taps* of[] = {&ta, &tb, &keep, &none};
  for (int i = 0; i < (apart ? 4 : 2); ++i) {
    begin[i] = bytes.size();
    if (single)
      append<float>(bytes, *of[i]);
    else
      append<double>(bytes, *of[i]);
  }
  const char* tables = static_cast<const char*>(a.upload(bytes.data(), bytes.size()));
  const auto band = [&](int i) {
    return pf_band{reinterpret_cast<const pf_i32*>(tables + begin[i]), of[i]->in, of[i]->out,
                   of[i]->most};
  };
  pf_resample r{a.data(at.x),       a.data(at.y),       band(0), band(1),
                a.i(kNumber.outer), a.i(kNumber.inner), 0};
  if (!apart) return launch(a, r, {type, type, sums});
  void* const middle =
      a.workspace(static_cast<size_t>(r.outer * ta.out * tb.in * r.inner) * (single ? 4 : 8));
  r.y = middle;
  r.b = band(2);
  launch(a, r, {type, sums, sums});
  r.x = middle;
  r.y = a.data(at.y);
  r.a = band(3);
  r.b = band(1);
  launch(a, r, {sums, type, sums});
}

}  // namespace

PF_GPU_KERNEL(Resample::kInfo, resample)

}  // namespace pyflame::gpu
