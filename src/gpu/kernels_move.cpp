// Launchers of kernels that move elements: copy, cat, flip, roll, tril and triu, views' gradients.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "gpu/device_text.h"
#include "gpu/move.h"
#include "kernels/move_args.h"
#include "pyflame/error.h"
#include "table/kernels/move.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

Defines moving(const Space& s, const pf_tensor& out, const pf_tensor& in) {
  const auto to = static_cast<DType>(out.dtype), from = static_cast<DType>(in.dtype);
  if (to == from)
    return Defines()
        .value("PF_BYTES", static_cast<int64_t>(itemsize(to)))
        .text("PF_INDEX", index_type(s));
  return Defines().type("PF_TO", to).type("PF_FROM", from).text("PF_INDEX", index_type(s));
}

// Planes whose input is contiguous along the output's rows: through shared memory.
bool transposed(const KernelArgs& a, const Space& s, void* out, const void* in, int64_t bytes) {
  if (s.ndim < 2 || s.numel < 4096) return false;
  const int c = s.ndim - 1;
  if (s.strides[0][c] != 1) return false;
  int r = -1;
  for (int d = 0; d < c; ++d)
    if (s.strides[1][d] == 1) r = d;
  if (r < 0 || s.shape[r] < 16 || s.shape[c] < 16) return false;
  Space planes;
  planes.numel = s.numel / (s.shape[r] * s.shape[c]);
  for (int d = 0; d < c; ++d) {
    if (d == r) continue;
    planes.shape[planes.ndim] = s.shape[d];
    for (int k = 0; k < 2; ++k) planes.strides[k][planes.ndim] = s.strides[k][d];
    ++planes.ndim;
  }
  if (planes.ndim == 0) planes.ndim = 1, planes.shape[0] = 1;
  const int64_t side = bytes <= 4 ? 64 : 32;  // SIDE of kernels/move.h
  const int64_t tiles_r = ceil_div(s.shape[r], side), tiles_c = ceil_div(s.shape[c], side),
                tiles = tiles_r * tiles_c * planes.numel;
  const Function f = a.compile(
      "move.h", Defines().value("PF_BYTES", bytes).text("PF_INDEX", index_type(s)), "pf_transpose");
  a.launch(f, std::min(tiles, kMostBlocks * 16), kBlock, 0, planes, out, in, s.shape[r], s.shape[c],
           s.strides[0][r], s.strides[1][c], tiles_r, tiles_c);
  return true;
}

}  // namespace

namespace {

// The dimensions of a copy in the order of the output's memory: it does not matter to the result.
Space copy_space(const pf_tensor& out, const pf_tensor& in) {
  int order[PF_MAX_DIMS];
  for (int d = 0; d < out.ndim; ++d) {
    int at = d;
    for (; at > 0 && std::abs(out.strides[order[at - 1]]) < std::abs(out.strides[d]); --at)
      order[at] = order[at - 1];
    order[at] = d;
  }
  pf_tensor to = out, from = out;
  const int shift = out.ndim - in.ndim;
  for (int d = 0; d < out.ndim; ++d) {
    const int k = order[d];
    to.shape[d] = from.shape[d] = out.shape[k];
    to.strides[d] = out.strides[k];
    from.strides[d] = k < shift || in.shape[k - shift] == 1 ? 0 : in.strides[k - shift];
  }
  return make_space({&to, &from});
}

// Rows that lie side by side in both go in units of up to 16 bytes. Gives the size of a unit.
int64_t widen(Space& s, const void* out, const void* in, int64_t bytes) {
  const int last = s.ndim - 1;
  if (s.strides[0][last] != 1 || s.strides[1][last] != 1) return bytes;
  int64_t unit = 16;
  const auto fits = [&](int64_t n) { return n * bytes % unit == 0; };
  for (; unit > bytes; unit /= 2) {
    bool all = reinterpret_cast<uintptr_t>(out) % static_cast<size_t>(unit) == 0 &&
               reinterpret_cast<uintptr_t>(in) % static_cast<size_t>(unit) == 0 &&
               fits(s.shape[last]);
    for (int d = 0; d < last; ++d) all = all && fits(s.strides[0][d]) && fits(s.strides[1][d]);
    if (all) break;
  }
  if (unit <= bytes) return bytes;
  const int64_t each = unit / bytes;
  s.numel /= each;
  s.shape[last] /= each;
  for (int d = 0; d < last; ++d)
    for (int k = 0; k < 2; ++k) s.strides[k][d] /= each;
  return unit;
}

}  // namespace

void copy_tensor(const KernelArgs& a, const pf_tensor& out, const pf_tensor& in) {
  Space s = copy_space(out, in);
  if (s.numel == 0) return;
  const auto to_type = static_cast<DType>(out.dtype), from_type = static_cast<DType>(in.dtype);
  // Elements of int4 share bytes.
  if (to_type == from_type && info(to_type).bits >= 8) {
    if (s.contiguous(0) && s.contiguous(1))
      return a.copy(out.data, in.data, nbytes(to_type, s.numel));
    const auto bytes = static_cast<int64_t>(itemsize(to_type));
    if (transposed(a, s, out.data, in.data, bytes)) return;
    const int64_t unit = widen(s, out.data, in.data, bytes);
    const Function f = a.compile("move.h", Defines().text("PF_INDEX", index_type(s)), "pf_copy");
    a.launch(f, blocks_for(s.numel, kBlock, kMostBlocks), kBlock, 0, s, out.data, in.data,
             static_cast<int>(unit));
    return;
  }
  if (info(to_type).storage_only || info(from_type).storage_only) {
    const Function f = a.compile("convert.h",
                                 Defines()
                                     .text("PF_TO", gpu::device_stored(to_type))
                                     .text("PF_FROM", gpu::device_stored(from_type))
                                     .text("PF_INDEX", index_type(s)),
                                 "pf_convert");
    a.launch(f, blocks_for(s.numel, kBlock, kMostBlocks), kBlock, 0, s, out.data, in.data);
    return;
  }
  const Function f = a.compile("move.h", moving(s, out, in), "pf_copy");
  a.launch(f, blocks_for(s.numel, kBlock, kMostBlocks), kBlock, 0, s, out.data, in.data, 0);
}

namespace {

void copy(const KernelArgs& a) {
  constexpr auto at = tensors<Copy>;
  copy_tensor(a, a.tensor(at.out), a.tensor(at.x));
}

void fill(const KernelArgs& a) {
  constexpr auto at = tensors<Fill>;
  constexpr auto number = numbers<Fill>;
  const pf_tensor& out = a.tensor(at.out);
  const Space s = make_space({&out});
  if (s.numel == 0) return;
  const Function f = a.compile(
      "convert.h",
      Defines().text("PF_TO", gpu::device_stored(a.dtype(at.out))).text("PF_INDEX", index_type(s)),
      "pf_fill");
  a.launch(f, blocks_for(s.numel, kBlock, kMostBlocks), kBlock, 0, s, out.data, a.f(number.value),
           a.i(number.value), static_cast<int>(is_integral(a.dtype(at.out))));
}

void* element(const pf_tensor& t, int64_t offset) {
  return static_cast<char*>(t.data) +
         offset * static_cast<int64_t>(itemsize(static_cast<DType>(t.dtype)));
}

constexpr size_t kCopyApart = size_t{4} << 20;  // bytes of a part from which on a launch is nothing

// Parts that each lie as one piece, many to a launch.
bool cat_together(const KernelArgs& a, int dim) {
  constexpr auto at = tensors<Cat>;
  const pf_tensor& out = a.tensor(at.out);
  const DType t = a.dtype(at.out);
  const int64_t bytes = static_cast<int64_t>(itemsize(t));
  if (info(t).bits < 8 || !contiguous(out) || numel(out) == 0) return false;
  int64_t rows = 1, inner = bytes;
  for (int d = 0; d < dim; ++d) rows *= out.shape[d];
  for (int d = dim + 1; d < out.ndim; ++d) inner *= out.shape[d];
  uint64_t bits =
      reinterpret_cast<uintptr_t>(out.data) | 16;  // what all addresses are multiples of
  for (int i = at.part; i < a.ntensors; ++i) {
    if (!a.has(i)) continue;
    const pf_tensor& in = a.tensor(i);
    if (in.dtype != out.dtype || !contiguous(in) || nbytes(t, numel(in)) > kCopyApart) return false;
    bits |= reinterpret_cast<uintptr_t>(in.data) | static_cast<uint64_t>(inner * in.shape[dim]);
  }
  const int64_t unit = int64_t{1} << std::countr_zero(bits);
  pf_cat_parts q{rows, inner * out.shape[dim] / unit, 0, {}, {}};
  const auto launch = [&] {
    const int64_t units = rows * (q.begin[q.count] - q.begin[0]);
    const Defines index = Defines().text("PF_INDEX", units >> 32 ? "pf_u64" : "pf_u32");
    if (units > 0)
      a.launch(a.compile("move.h", index, "pf_cat"), blocks_for(units, kBlock, kMostBlocks), kBlock,
               0, q, out.data, static_cast<int>(unit));
    q.begin[0] = q.begin[q.count];
    q.count = 0;
  };
  for (int i = at.part; i < a.ntensors; ++i) {
    if (!a.has(i) || numel(a.tensor(i)) == 0) continue;
    if (q.count == PF_CAT_MOST) launch();
    q.data[q.count] = a.data(i);
    q.begin[q.count + 1] = q.begin[q.count] + inner * a.tensor(i).shape[dim] / unit;
    ++q.count;
  }
  launch();
  return true;
}

void cat(const KernelArgs& a) {
  constexpr auto arg = tensors<Cat>;
  constexpr auto number = numbers<Cat>;
  const int dim = static_cast<int>(a.i(number.dim));
  if (cat_together(a, dim)) return;
  int64_t at = 0;
  for (int i = arg.part; i < a.ntensors; ++i) {
    if (!a.has(i)) continue;  // an empty one
    const pf_tensor& in = a.tensor(i);
    pf_tensor part = a.tensor(arg.out);
    part.data = element(part, at * part.strides[dim]);
    part.shape[dim] = in.shape[dim];
    copy_tensor(a, part, in);
    at += in.shape[dim];
  }
}

void flip(const KernelArgs& a) {
  constexpr auto at = tensors<Flip>;
  constexpr auto number = numbers<Flip>;
  pf_tensor in = a.tensor(at.x);
  if (numel(in) == 0) return;
  int64_t start = 0;
  for (int d = 0; d < in.ndim; ++d) {
    if (!(a.i(number.dims) >> d & 1)) continue;
    start += (in.shape[d] - 1) * in.strides[d];
    in.strides[d] = -in.strides[d];
  }
  in.data = element(in, start);
  copy_tensor(a, a.tensor(at.out), in);
}

void roll(const KernelArgs& a) {
  constexpr auto at = tensors<Roll>;
  constexpr auto number = numbers<Roll>;
  const int dim = static_cast<int>(a.i(number.dim));
  const int64_t n = a.tensor(at.x).shape[dim], shift = a.i(number.shift);
  pf_tensor out = a.tensor(at.out), in = a.tensor(at.x);
  out.data = element(out, shift * out.strides[dim]);
  out.shape[dim] = in.shape[dim] = n - shift;
  copy_tensor(a, out, in);
  out = a.tensor(at.out), in = a.tensor(at.x);
  in.data = element(in, (n - shift) * in.strides[dim]);
  out.shape[dim] = in.shape[dim] = shift;
  copy_tensor(a, out, in);
}

void triangle(const KernelArgs& a) {
  constexpr auto at = tensors<Triangle>;
  constexpr auto number = numbers<Triangle>;
  const pf_tensor &out = a.tensor(at.out), &in = a.tensor(at.x);
  const Space s = make_space({&out, &in});
  if (s.numel == 0) return;
  const Function f = a.compile("move.h", moving(s, out, in), "pf_triangle");
  a.launch(f, blocks_for(s.numel, kBlock, kMostBlocks), kBlock, 0, s, out.data, in.data,
           out.shape[out.ndim - 2], out.shape[out.ndim - 1], a.i(number.diagonal),
           static_cast<int>(a.i(number.upper) != 0));
}

}  // namespace

PF_GPU_KERNEL(Copy::kInfo, copy)
PF_GPU_KERNEL(Fill::kInfo, fill)
PF_GPU_KERNEL(Cat::kInfo, cat)
PF_GPU_KERNEL(Flip::kInfo, flip)
PF_GPU_KERNEL(Roll::kInfo, roll)
PF_GPU_KERNEL(Triangle::kInfo, triangle)

}  // namespace pyflame::gpu
