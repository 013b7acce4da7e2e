// Pooling over one to three dimensions of space (table/kernels/pool.h). The largest elements are
// linear in the input once their places are known, and averages are: so each has a kernel forward
// and one backward, which are each other's derivatives.
#include <array>
#include <cmath>

#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/space.h"
#include "table/kernels/pool.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

using Space = std::array<int64_t, 3>;

// Windows over the last `dims` dimensions of space; those are the last ones of each list.
struct Windows {
  int dims;
  const char* op;
  Space in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1};
  Space padding{0, 0, 0}, dilation{1, 1, 1};
  bool adaptive = false, counts_padding = false;
  int64_t divisor = 0;

  size_t at(int d) const { return static_cast<size_t>(3 - dims + d); }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

int64_t nth(const IntList& list, int d, int dims, const char* op, const char* name) {
  const auto n = static_cast<int>(list.size());
  PF_CHECK(n == 1 || n == dims, ValueError, op, "got ", n, " numbers for ", name,
           "; expected one, or one for each of ", dims, " dimensions");
  return list[static_cast<size_t>(n == 1 ? 0 : d)];
}

// Sizes of the input, which has a batch or not.
void look(Windows& w, const Tensor& x) {
  ops::check_defined(x, w.op);
  const int n = x->shape.size();
  PF_CHECK(n == w.dims + 1 || n == w.dims + 2, ShapeError, w.op, "got input of shape ", x->shape,
           "; expected [N, C, ...] or [C, ...] with ", w.dims, " dimensions of space; reshape it");
  for (int d = 0; d < w.dims; ++d) {
    const int64_t size = x->shape[n - w.dims + d];
    PF_CHECK(size > 0, ShapeError, w.op, "got input of shape ", x->shape,
             "; expected at least one element in each dimension of space");
    w.in[w.at(d)] = size;
  }
}
Windows windows(const Tensor& x, int dims, const char* op, const IntList& kernel,
                const IntList& stride, const IntList& padding, const IntList& dilation,
                bool ceil_mode) {
  Windows w{.dims = dims, .op = op};
  look(w, x);
  PF_CHECK(x->shape[x->shape.size() - dims - 1] > 0, ShapeError, op, "got input of shape ",
           x->shape, ", without channels; expected at least one: only a batch may be empty");
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int d = 0; d < dims; ++d) {
    const size_t i = w.at(d);
    const int64_t k = w.kernel[i] = nth(kernel, d, dims, op, "kernel_size");
    const int64_t s = w.stride[i] = stride.empty() ? k : nth(stride, d, dims, op, "stride");
    const int64_t p = w.padding[i] = nth(padding, d, dims, op, "padding");
    const int64_t a = w.dilation[i] = nth(dilation, d, dims, op, "dilation");
    PF_CHECK(k > 0 && s > 0 && a > 0 && k < kMost && s < kMost && a < kMost, ValueError, op,
             "got kernel_size ", k, ", stride ", s, " and dilation ", a,
             "; expected all to be at least 1 and less than 2^31");
    PF_CHECK(p >= 0 && p <= ((k - 1) * a + 1) / 2, ValueError, op, "got padding ", p,
             " for windows of ", (k - 1) * a + 1,
             " elements; expected at least 0 and at most half of a window; pad the input");
    const int64_t room = w.in[i] + 2 * p - a * (k - 1) - 1;
    int64_t out = room < 0 && !ceil_mode ? 0 : (room + (ceil_mode ? s - 1 : 0)) / s + 1;
    // A window begins inside, or in the padding before.
    if (ceil_mode && (out - 1) * s >= w.in[i] + p) --out;
    PF_CHECK(out > 0 && room + s > 0, ShapeError, op, "got input of shape ", x->shape,
             ", smaller than windows of ", (k - 1) * a + 1, " elements, dimension ", d,
             " of space; expected a larger input or more padding");
    w.out[i] = out;
  }
  return w;
}
Windows adaptive(const Tensor& x, int dims, const char* op, const IntList& size) {
  Windows w{.dims = dims, .op = op};
  look(w, x);
  w.adaptive = true;
  for (int d = 0; d < dims; ++d) {
    const int64_t out = w.out[w.at(d)] = nth(size, d, dims, op, "output_size");
    PF_CHECK(out >= 0 && out < (int64_t{1} << 31), ValueError, op, "got output_size ", out,
             "; expected at least 0 and less than 2^31");
  }
  return w;
}

// ---- the largest -------------------------------------------------------------------------------

kernels::PoolMax::Numbers<Scalar> numbers(const Windows& w, const Dims& shape,
                                          MemoryFormat format) {
  const bool beside = format != MemoryFormat::Contiguous;
  int64_t outer = 1;
  for (int d = 0; d < shape.size() - w.dims; ++d) outer *= shape[d];
  const int64_t inner = beside ? shape[1] : 1;
  const auto of = [](int64_t v) { return Scalar(v); };
  return {of(outer / inner),
          of(w.in[0]),
          of(w.in[1]),
          of(w.in[2]),
          of(inner),
          of(w.out[0]),
          of(w.out[1]),
          of(w.out[2]),
          of(w.kernel[0]),
          of(w.kernel[1]),
          of(w.kernel[2]),
          of(w.stride[0]),
          of(w.stride[1]),
          of(w.stride[2]),
          of(w.padding[0]),
          of(w.padding[1]),
          of(w.padding[2]),
          of(w.dilation[0]),
          of(w.dilation[1]),
          of(w.dilation[2]),
          of(int64_t{w.adaptive}),
          of(int64_t{w.counts_padding}),
          of(w.divisor)};
}
// Channels-last is that of inputs with a batch: [C, D, H, W] is no picture of C items.
MemoryFormat format_of(const Windows& w, const Tensor& x) {
  return x->shape.size() == w.dims + 2 ? ops::space_format(x) : MemoryFormat::Contiguous;
}
// Row-major, or as it is where that is channels-last.
Tensor packed(const Tensor& x, MemoryFormat format) {
  return format == MemoryFormat::Contiguous ? ops::dense(x) : contiguous(x, format);
}
Dims shape_of(const Windows& w, const Dims& x, bool results) {
  Dims shape = x;
  for (int d = 0; d < w.dims; ++d)
    shape[x.size() - w.dims + d] = results ? w.out[w.at(d)] : w.in[w.at(d)];
  return shape;
}

Tensor picked(const Tensor& given, const Tensor& index, const Windows& w, MemoryFormat format);
// What the windows got, in the places of x.
Tensor placed(const Tensor& given, const Tensor& index, const Windows& w, MemoryFormat format) {
  const Tensor dy = packed(given, format);
  Tensor dx = ops::fresh_in(shape_of(w, dy->shape, false), dy->dtype, dy->storage->device, format);
  if (dy->numel == 0)
    zero_(dx);
  else
    engine::call<kernels::PoolMaxInput>({.dx = dx, .dy = dy, .index = index},
                                        numbers(w, dx->shape, format), {.op = w.op});
  if (autograd::wanted({dy}))
    autograd::attach(w.op, {dx}, {dy}, {Saved(index)}, [w, format](const Context& c) -> Grads {
      return {picked(c.grad(), c.saved(0), w, format)};
    });
  return dx;
}
Tensor picked(const Tensor& given, const Tensor& index, const Windows& w, MemoryFormat format) {
  const Tensor x = packed(given, format);
  Tensor y = ops::fresh_in(shape_of(w, x->shape, true), x->dtype, x->storage->device, format);
  if (y->numel > 0)
    engine::call<kernels::PoolMaxPick>({.y = y, .x = x, .index = index},
                                       numbers(w, x->shape, format), {.op = w.op});
  if (autograd::wanted({x}))
    autograd::attach(w.op, {y}, {x}, {Saved(index)}, [w, format](const Context& c) -> Grads {
      return {placed(c.grad(), c.saved(0), w, format)};
    });
  return y;
}

// With indices where they are asked for; places that only the gradient needs are bytes.
std::pair<Tensor, Tensor> largest(const Tensor& input, const Windows& w, bool indices) {
  const MemoryFormat format = format_of(w, input);
  const Tensor x = packed(input, format);
  PF_CHECK(x->dtype != DType::Bool, DTypeError, w.op,
           "got bool; expected numbers; convert with .to(dtype)");
  const Dims shape = shape_of(w, x->shape, true);
  checked_numel(shape, w.op);
  Tensor y = ops::fresh_in(shape, x->dtype, x->storage->device, format);
  const bool graded = autograd::wanted({x});
  if (!indices && !graded) {
    if (y->numel > 0)
      engine::call<kernels::PoolMaxValues>({.y = y, .x = x}, numbers(w, x->shape, format),
                                           {.op = w.op});
    return {y, Tensor()};
  }
  const bool bytes = !indices && !w.adaptive && w.taps() < 255;
  Tensor index =
      ops::fresh_in(shape, bytes ? DType::UInt8 : DType::Int64, x->storage->device, format);
  if (y->numel > 0)
    engine::call<kernels::PoolMax>({.y = y, .index = index, .x = x}, numbers(w, x->shape, format),
                                   {.op = w.op});
  if (graded)
    autograd::attach(w.op, {y}, {x}, {Saved(index)}, [w, format](const Context& c) -> Grads {
      return {placed(c.grad(), c.saved(0), w, format)};
    });
  return {y, index};
}

// ---- averages -----------------------------------------------------------------------------------

// Of the windows, or, `back`, what each element of x has of the windows it is in.
Tensor average(const Tensor& given, const Windows& w, MemoryFormat format, bool back) {
  const Tensor from = packed(given, format);
  Tensor to =
      ops::fresh_in(shape_of(w, from->shape, !back), from->dtype, from->storage->device, format);
  if (from->numel == 0) {
    zero_(to);
  } else if (to->numel > 0) {
    const auto all = numbers(w, to->shape, format);
    if (back)
      engine::call<kernels::PoolAverageInput>({.dx = to, .dy = from}, all, {.op = w.op});
    else
      engine::call<kernels::PoolAverage>({.y = to, .x = from}, all, {.op = w.op});
  }
  if (autograd::wanted({from}))
    autograd::attach(w.op, {to}, {from}, {}, [w, format, back](const Context& c) -> Grads {
      return {average(c.grad(), w, format, !back)};
    });
  return to;
}
Tensor averaged(const Tensor& input, const Windows& w) {
  PF_CHECK(is_float(input->dtype), DTypeError, w.op, "got ", input->dtype,
           "; expected floats; convert with .to(dtype)");
  checked_numel(shape_of(w, input->shape, true), w.op);
  if (w.adaptive && w.out == Space{1, 1, 1}) {  // of everything
    IntList dims;
    for (int d = 1; d <= w.dims; ++d) dims.push_back(-d);
    return mean(input, dims, true);
  }
  return average(input, w, format_of(w, input), false);
}
Tensor avg_pool(const Tensor& input, int dims, const char* op, const IntList& kernel,
                const IntList& stride, const IntList& padding, bool ceil_mode,
                bool count_include_pad, std::optional<int64_t> divisor) {
  Windows w = windows(input, dims, op, kernel, stride, padding, {1}, ceil_mode);
  PF_CHECK(!divisor || *divisor != 0, ValueError, op,
           "got divisor_override=0; expected another number, or None");
  w.counts_padding = count_include_pad;
  w.divisor = divisor.value_or(0);
  return averaged(input, w);
}

}  // namespace

#define PF_POOL(N)                                                                              \
  Tensor max_pool##N##d(const Tensor& input, const IntList& kernel_size, const IntList& stride, \
                        const IntList& padding, const IntList& dilation, bool ceil_mode) {      \
    const char* op = "max_pool" #N "d";                                                         \
    return largest(input,                                                                       \
                   windows(input, N, op, kernel_size, stride, padding, dilation, ceil_mode),    \
                   false)                                                                       \
        .first;                                                                                 \
  }                                                                                             \
  std::pair<Tensor, Tensor> max_pool##N##d_with_indices(                                        \
      const Tensor& input, const IntList& kernel_size, const IntList& stride,                   \
      const IntList& padding, const IntList& dilation, bool ceil_mode) {                        \
    const char* op = "max_pool" #N "d";                                                         \
    return largest(                                                                             \
        input, windows(input, N, op, kernel_size, stride, padding, dilation, ceil_mode), true); \
  }                                                                                             \
  std::pair<Tensor, Tensor> adaptive_max_pool##N##d(const Tensor& input,                        \
                                                    const IntList& output_size) {               \
    return largest(input, adaptive(input, N, "adaptive_max_pool" #N "d", output_size), true);   \
  }                                                                                             \
  Tensor adaptive_avg_pool##N##d(const Tensor& input, const IntList& output_size) {             \
    return averaged(input, adaptive(input, N, "adaptive_avg_pool" #N "d", output_size));        \
  }
PF_POOL(1)
PF_POOL(2)
PF_POOL(3)
#undef PF_POOL
Tensor avg_pool1d(const Tensor& input, const IntList& kernel_size, const IntList& stride,
                  const IntList& padding, bool ceil_mode, bool count_include_pad) {
  return avg_pool(input, 1, "avg_pool1d", kernel_size, stride, padding, ceil_mode,
                  count_include_pad, {});
}
Tensor avg_pool2d(const Tensor& input, const IntList& kernel_size, const IntList& stride,
                  const IntList& padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override) {
  return avg_pool(input, 2, "avg_pool2d", kernel_size, stride, padding, ceil_mode,
                  count_include_pad, divisor_override);
}
Tensor avg_pool3d(const Tensor& input, const IntList& kernel_size, const IntList& stride,
                  const IntList& padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override) {
  PF_AUTOCAST("avg_pool3d", FollowElseRaise, avg_pool3d, input, kernel_size, stride, padding,
              ceil_mode, count_include_pad, divisor_override);
  return avg_pool(input, 3, "avg_pool3d", kernel_size, stride, padding, ceil_mode,
                  count_include_pad, divisor_override);
}

namespace {

#define PF_POOL_ROWS(N)                                                                           \
  f.op(&max_pool##N##d,                                                                           \
       {"max_pool" #N "d(Tensor input, int[] kernel_size, int[] stride=[], int[] padding=[0], "   \
        "int[] dilation=[1], bool ceil_mode=False) -> Tensor",                                    \
        "The largest element of each window of input [N, C, ...] (or without N): each size "      \
        "becomes floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1, with "  \
        "ceil for floor in ceil_mode. The stride is kernel_size if none is given. NaN is larger " \
        "than anything. What is channels-last stays so.",                                         \
        ops::kFunction});                                                                         \
  f.op(&max_pool##N##d_with_indices,                                                              \
       {"max_pool" #N "d_with_indices(Tensor input, int[] kernel_size, int[] stride=[], int[] "   \
        "padding=[0], int[] dilation=[1], bool ceil_mode=False) -> (Tensor values, Tensor "       \
        "indices)",                                                                               \
        "max_pool" #N "d, and the place of each in its plane, counted row-major, as int64.",      \
        ops::kFunction});                                                                         \
  f.op(&adaptive_max_pool##N##d,                                                                  \
       {"adaptive_max_pool" #N "d(Tensor input, int[] output_size) -> (Tensor values, Tensor "    \
        "indices)",                                                                               \
        "The largest element of each of output_size windows that cover a dimension evenly, and "  \
        "its place in its plane.",                                                                \
        ops::kFunction});                                                                         \
  f.op(&adaptive_avg_pool##N##d,                                                                  \
       {"adaptive_avg_pool" #N "d(Tensor input, int[] output_size) -> Tensor",                    \
        "The average of each of output_size windows that cover a dimension evenly.",              \
        ops::kFunction});

const ops::Family kPooling("pooling", [](ops::Family& f) {
  PF_POOL_ROWS(1)
  PF_POOL_ROWS(2)
  PF_POOL_ROWS(3)
  constexpr const char* kAverage =
      "The average of each window of input [N, C, ...] (or without N), of sizes as in max_pool. "
      "Padding is counted as zeros, or with count_include_pad=False not at all; "
      "divisor_override divides in place of the number of elements.";
  f.op(&avg_pool1d, {"avg_pool1d(Tensor input, int[] kernel_size, int[] stride=[], int[] "
                     "padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
                     kAverage, ops::kFunction});
  f.op(&avg_pool2d,
       {"avg_pool2d(Tensor input, int[] kernel_size, int[] stride=[], int[] padding=[0], bool "
        "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        kAverage, ops::kFunction});
  f.op(&avg_pool3d,
       {"avg_pool3d(Tensor input, int[] kernel_size, int[] stride=[], int[] padding=[0], bool "
        "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        kAverage, ops::kFunction});
});
#undef PF_POOL_ROWS

}  // namespace
}  // namespace pyflame
