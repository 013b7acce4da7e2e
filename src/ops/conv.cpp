// Convolutions and transposed convolutions over one to three dimensions of space. The convolution,
// its gradient by the input and that by the weight are bilinear, and the derivatives of each are
// the other two: so every order of derivative is one of three kernels. Where a backend has none
// they are written as products over the columns that the taps see.
#include <array>
#include <string>

#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/conv.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

using Space = std::array<int64_t, 3>;

// How the taps of a convolution over `dims` dimensions lie; those are the last ones of each list.
struct Taps {
  int dims;
  Space stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  int64_t groups = 1;
  const char* op;

  int64_t at(const Space& s, int d) const { return s[static_cast<size_t>(3 - dims + d)]; }
  kernels::Conv::Numbers<Scalar> numbers() const {
    const auto of = [](int64_t v) { return Scalar(v); };
    return {of(stride[0]),  of(stride[1]),   of(stride[2]),   of(padding[0]),  of(padding[1]),
            of(padding[2]), of(dilation[0]), of(dilation[1]), of(dilation[2]), of(groups)};
  }
};

// How a result lies that follows `x`: what is channels-last stays so.
MemoryFormat format_of(const Tensor& x) {
  if (!x->contiguous)
    for (const MemoryFormat f : {MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d})
      if (lies_in(f, x->shape, x->strides)) return f;
  return MemoryFormat::Contiguous;
}
Tensor fresh(const Dims& shape, const Tensor& like, MemoryFormat format) {
  Tensor t = make_tensor(shape, like->dtype, like->storage->device);
  if (format != MemoryFormat::Contiguous) lay_out(*t.impl(), strides_in(format, shape, "conv"));
  return t;
}
// Dense in one of the formats; in this one if it is `asked` for.
Tensor packed(const Tensor& t, bool asked, MemoryFormat format) {
  if (asked) return contiguous(t, format);
  return format_of(t) == MemoryFormat::Contiguous ? ops::dense(t) : t;
}

// Each channel by itself: kernels for that take no gradient in another layout than the rest.
bool by_channel(const Dims& w, const Taps& p) {
  return w[1] == 1 && w[0] == p.groups;
}
// One number for each channel of a result of so many dimensions of space.
Tensor beside_channels(const Tensor& t, int dims) {
  IntList shape(static_cast<size_t>(dims) + 2, 1);
  shape[1] = t->numel;
  return reshape(t, shape);
}

Tensor with_bias(const Tensor& y, const Tensor& bias, int dims) {
  return bias.defined() ? add(y, beside_channels(bias, dims)) : y;
}

// ---- the three ----------------------------------------------------------------------------------

Tensor conv_input(const Tensor& dy, const Tensor& w, const Dims& x, MemoryFormat format,
                  const Taps& p, bool transposed = false);
Tensor conv_weight(const Tensor& dy, const Tensor& x, const Dims& w, const Taps& p,
                   MemoryFormat format);
// The gradient of a weight that is the same for all samples of a vmap is summed over them: they are
// examples as others are.
Tensor weight_gradient(Tensor dy, Tensor x, const Tensor& w, const Taps& p) {
  if (hiding() && !ops::hides({w})) [[unlikely]] {
    engine::Levels levels;
    levels.add(dy);
    levels.add(x);
    for (const engine::Level& l : autograd::summed_levels(levels)) {
      dy = flatten(ops::show(dy, 0, l), 0, 1);
      x = flatten(ops::show(x, 0, l), 0, 1);
    }
  }
  // As the weight lies, for its optimizer reads both.
  return conv_weight(dy, x, w->shape, p, format_of(w));
}
Tensor channel_sums(const Tensor& dy) {
  IntList dims{0};
  for (int d = 2; d < dy->shape.size(); ++d) dims.push_back(d);
  return sum(dy, dims);
}

// Weights of calls without gradients stay for long, more likely than not.
constexpr int8_t kForgets = -1, kWeight = kernels::tensors<kernels::Conv>.weight;
static_assert(kWeight == kernels::tensors<kernels::ConvInput>.weight);

// y of a known shape; the bias may be undefined.
Tensor conv_of(const Tensor& x, const Tensor& w, const Tensor& bias, const Dims& shape,
               const Taps& p) {
  Tensor y = fresh(shape, x, format_of(x));
  const bool wanted = autograd::wanted({x, w, bias});
  if (y->numel > 0)
    engine::call<kernels::Conv>({.y = y, .x = x, .weight = w, .bias = bias}, p.numbers(),
                                {.op = p.op, .keeps = wanted ? kForgets : kWeight});
  if (wanted)
    autograd::attach(p.op, {y}, {x, w, bias}, {Saved(x), Saved(w)},
                     [p, biased = bias.defined()](const Context& c) -> Grads {
                       const Tensor x = c.saved(0), w = c.saved(1), &g = c.grad();
                       Grads r(3);
                       if (c.needs(0)) r[0] = conv_input(g, w, x->shape, format_of(x), p);
                       if (c.needs(1)) r[1] = weight_gradient(g, x, w, p);
                       if (biased && c.needs(2)) r[2] = channel_sums(g);
                       return r;
                     });
  return y;
}

Tensor conv_input(const Tensor& given, const Tensor& w, const Dims& x, MemoryFormat format,
                  const Taps& p, bool transposed) {
  const Tensor dy = packed(given, by_channel(w->shape, p), format);
  Tensor dx = fresh(x, dy, format);
  const bool wanted = autograd::wanted({dy, w});
  if (dy->numel == 0 || w->numel == 0 || dx->numel == 0) {
    dx = zeros(x.vec(), dy->dtype, dy->storage->device);
  } else {
    engine::call<kernels::ConvInput>(
        {.dx = dx, .dy = dy, .weight = w}, p.numbers(),
        {.op = p.op, .keeps = transposed && !wanted ? kWeight : kForgets});
  }
  if (wanted)
    autograd::attach(
        p.op, {dx}, {dy, w}, {Saved(dy), Saved(w)}, [p, format](const Context& c) -> Grads {
          const Tensor dy = c.saved(0), w = c.saved(1), g = c.grad();
          Grads r(2);
          const Tensor x =
              g->contiguous || format == MemoryFormat::Contiguous ? g : contiguous(g, format);
          if (c.needs(0)) r[0] = conv_of(x, w, {}, dy->shape, p);
          if (c.needs(1)) r[1] = weight_gradient(dy, x, w, p);
          return r;
        });
  return dx;
}

Tensor conv_weight(const Tensor& given, const Tensor& x, const Dims& w, const Taps& p,
                   MemoryFormat format) {
  const Tensor dy = packed(given, by_channel(w, p), format_of(x));
  Tensor dw = fresh(w, dy, format);
  if (dy->numel == 0 || x->numel == 0 || dw->numel == 0) {
    dw = zeros(w.vec(), dy->dtype, dy->storage->device);
  } else {
    engine::call<kernels::ConvWeight>({.dweight = dw, .dy = dy, .x = x}, p.numbers(), {.op = p.op});
  }
  if (autograd::wanted({dy, x}))
    autograd::attach(p.op, {dw}, {dy, x}, {Saved(dy), Saved(x)}, [p](const Context& c) -> Grads {
      const Tensor dy = c.saved(0), x = c.saved(1), &w = c.grad();
      Grads r(2);
      if (c.needs(0)) r[0] = conv_of(x, w, {}, dy->shape, p);
      if (c.needs(1)) r[1] = conv_input(dy, w, x->shape, format_of(x), p);
      return r;
    });
  return dw;
}

// ---- arguments ----------------------------------------------------------------------------------

// One number, or one for each dimension of space.
Space spread(const IntList& given, int dims, int64_t least, const char* op, const char* what) {
  const auto n = static_cast<int>(given.size());
  PF_CHECK(n == 1 || n == dims, ValueError, op, "got ", n, " numbers for ", what, "; expected ",
           dims == 1 ? "1" : "1 or " + std::to_string(dims), "; pass one for each dimension");
  Space r{1, 1, 1};
  for (int d = 0; d < dims; ++d) {
    const int64_t v = given[static_cast<size_t>(n == 1 ? 0 : d)];
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    PF_CHECK(v >= least && v <= kMost, ValueError, op, "got ", what, " ", v, "; expected at least ",
             least, " and at most ", kMost, "; correct it");
    r[static_cast<size_t>(3 - dims + d)] = v;
  }
  if (least == 0)
    for (int d = 0; d < 3 - dims; ++d) r[static_cast<size_t>(d)] = 0;
  return r;
}

Taps taps_of(int dims, const IntList& stride, const IntList& padding, const IntList& dilation,
             int64_t groups, const char* op) {
  return {.dims = dims,
          .stride = spread(stride, dims, 1, op, "stride"),
          .padding = spread(padding, dims, 0, op, "padding"),
          .dilation = spread(dilation, dims, 1, op, "dilation"),
          .groups = groups,
          .op = op};
}

struct Checked {
  Tensor x, w, bias;
  bool batched;
};
// A transposed convolution has the channels of the input in the first dimension of its weight.
Checked check(const Tensor& input, const Tensor& weight, const Tensor& bias, const Taps& p,
              bool transposed) {
  const char* op = p.op;
  ops::check_defined(input, op);
  ops::check_defined(weight, op, "weight");
  if (!is_complex(input) || !is_complex(weight)) {
    ops::check_arithmetic(input, op);
    ops::check_arithmetic(weight, op);
  }
  const int n = p.dims;
  PF_CHECK(input->shape.size() == n + 2 || input->shape.size() == n + 1, ShapeError, op,
           "got input of shape ", input->shape, "; expected ", n + 2,
           " dimensions (batch, channels and ", n, " of space), or ", n + 1,
           " without a batch; reshape it");
  PF_CHECK(weight->shape.size() == n + 2, ShapeError, op, "got weight of shape ", weight->shape,
           "; expected ", n + 2, " dimensions; reshape it");
  PF_CHECK(p.groups >= 1, ValueError, op, "got groups ", p.groups, "; expected at least 1");
  PF_CHECK(input->dtype == weight->dtype && (!bias.defined() || bias->dtype == input->dtype),
           DTypeError, op, "got input of dtype ", input->dtype, ", weight of ", weight->dtype,
           bias.defined() ? " and bias of " + std::string(info(bias->dtype).name) : std::string(),
           "; expected one dtype; convert with .to(dtype)");
  PF_CHECK(input->dtype != DType::Bool, DTypeError, op, "got ", input->dtype,
           "; expected numbers; convert with .to(dtype)");
  ops::check_device(input, weight, op);
  const bool batched = input->shape.size() == n + 2;
  const int64_t channels = input->shape[batched ? 1 : 0];
  const int64_t takes = transposed ? weight->shape[0] : weight->shape[1] * p.groups;
  PF_CHECK(weight->shape[0] % p.groups == 0 && weight->shape[0] > 0, ShapeError, op,
           "got weight of shape ", weight->shape, " for ", p.groups,
           " groups; expected a first size that they divide; change groups");
  PF_CHECK(channels == takes, ShapeError, op, "got input of shape ", input->shape,
           ", weight of shape ", weight->shape, " and ", p.groups, " groups; expected ", takes,
           " channels; change the input or the weight");
  const int64_t outs = transposed ? weight->shape[1] * p.groups : weight->shape[0];
  if (bias.defined()) {
    ops::check_device(input, bias, op);
    PF_CHECK(bias->shape == Dims{outs}, ShapeError, op, "got bias of shape ", bias->shape,
             "; expected ", Dims{outs}, ", one for each channel of the result; reshape it");
  }
  for (int d = 0; d < n; ++d)
    PF_CHECK(weight->shape[d + 2] > 0, ShapeError, op, "got weight of shape ", weight->shape,
             "; expected sizes of at least 1");
  return {batched ? input : unsqueeze(input, 0), weight, bias.defined() ? ops::dense(bias) : bias,
          batched};
}

// The CPU's kernels are not made for 16 bits: those are calculated with in float32.
bool widens(const Tensor& x, const Tensor& w) {
  const DeviceType on = runs_on({x, w}).type;
  return ops::is_narrow(x) && on != DeviceType::ROCm && on != DeviceType::CUDA;
}
Tensor widened(const Tensor& t) {
  return t.defined() ? ops::widened(t) : t;
}

Tensor conv(const Tensor& input, const Tensor& weight, const Tensor& bias, const IntList& stride,
            const IntList& padding, const IntList& dilation, int64_t groups, int dims,
            const char* op) {
  PF_AUTOCAST("conv1d conv2d conv3d", Lower, conv, input, weight, bias, stride, padding, dilation,
              groups, dims, op);
  const Taps p = taps_of(dims, stride, padding, dilation, groups, op);
  const Checked c = check(input, weight, bias, p, false);
  Dims shape{c.x->shape[0], c.w->shape[0]};
  for (int d = 0; d < dims; ++d) {
    const int64_t size = c.x->shape[d + 2] + 2 * p.at(p.padding, d);
    const int64_t reach = p.at(p.dilation, d) * (c.w->shape[d + 2] - 1) + 1;
    PF_CHECK(size >= reach, ShapeError, op, "got input of shape ", input->shape,
             " and weight of shape ", weight->shape, ", whose taps reach over ", reach, " of the ",
             size, " padded elements in dimension ", d,
             " of space; expected them to fit; pad more or use a smaller kernel");
    shape.push_back((size - reach) / p.at(p.stride, d) + 1);
  }
  checked_numel(shape, op);
  if (is_complex(c.x)) {
    const auto of_parts = [&](const Tensor& x, const Tensor& w) {
      return conv_of(x, w, {}, shape, p);
    };
    const Tensor y =
        with_bias(ops::product_of_parts(ops::parts(c.x), ops::parts(c.w), of_parts), c.bias, dims);
    return c.batched ? y : squeeze(y, 0);
  }
  Tensor y = widens(c.x, c.w)
                 ? to(conv_of(widened(c.x), widened(c.w), widened(c.bias), shape, p), c.x->dtype)
                 : conv_of(c.x, c.w, c.bias, shape, p);
  return c.batched ? y : squeeze(y, 0);
}

// padding='same' or 'valid'. Where the two ends differ by one, the last one has more.
Tensor conv_named(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const IntList& stride, const std::string& padding, const IntList& dilation,
                  int64_t groups, int dims, const char* op) {
  PF_CHECK(padding == "same" || padding == "valid", ValueError, op, "got padding '", padding,
           "'; expected 'same', 'valid' or numbers");
  if (padding == "valid") return conv(input, weight, bias, stride, {0}, dilation, groups, dims, op);
  ops::check_defined(weight, op, "weight");
  PF_CHECK(weight->shape.size() == dims + 2, ShapeError, op, "got weight of shape ", weight->shape,
           "; expected ", dims + 2, " dimensions; reshape it");
  for (int64_t s : spread(stride, dims, 1, op, "stride"))
    PF_CHECK(s == 1, ValueError, op, "got padding 'same' and a stride of ", s,
             "; expected a stride of 1; pass the padding in numbers");
  const Space d = spread(dilation, dims, 1, op, "dilation");
  IntList both, more;
  bool even = true;
  for (int i = 0; i < dims; ++i) {
    const int64_t all = d[static_cast<size_t>(3 - dims + i)] * (weight->shape[i + 2] - 1);
    both.push_back(all / 2);
    more.insert(more.begin(), {int64_t{0}, all % 2});
    even = even && all % 2 == 0;
  }
  return conv(even ? input : pad(input, more), weight, bias, stride, both, dilation, groups, dims,
              op);
}

Tensor conv_transpose(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const IntList& stride, const IntList& padding, const IntList& output_padding,
                      int64_t groups, const IntList& dilation, int dims, const char* op) {
  PF_AUTOCAST("conv_transpose1d conv_transpose2d conv_transpose3d", Lower, conv_transpose, input,
              weight, bias, stride, padding, output_padding, groups, dilation, dims, op);
  const Taps p = taps_of(dims, stride, padding, dilation, groups, op);
  const Space more = spread(output_padding, dims, 0, op, "output_padding");
  const Checked c = check(input, weight, bias, p, true);
  Dims shape{c.x->shape[0], c.w->shape[1] * groups};
  for (int d = 0; d < dims; ++d) {
    const int64_t step = p.at(p.stride, d), spacing = p.at(p.dilation, d), extra = p.at(more, d);
    PF_CHECK(extra < step || extra < spacing, ValueError, op, "got output_padding ", extra,
             " for a stride of ", step, " and a dilation of ", spacing,
             "; expected less than one of them; pad the result instead");
    const double size = (double(c.x->shape[d + 2]) - 1) * double(step) -
                        2 * double(p.at(p.padding, d)) +
                        double(spacing) * (double(c.w->shape[d + 2]) - 1) + double(extra) + 1;
    PF_CHECK(size >= 1 && size < 0x1p53, ShapeError, op, "got input of shape ", input->shape,
             ", weight of shape ", weight->shape, ", stride ", step, " and padding ",
             p.at(p.padding, d), ", which give ", size, " elements in dimension ", d,
             " of space; expected at least 1 and no more than memory holds; change one of them");
    shape.push_back(static_cast<int64_t>(size));
  }
  checked_numel(shape, op);
  const auto of_parts = [&](const Tensor& x, const Tensor& w) {
    return conv_input(x, w, shape, format_of(x), p, true);
  };
  const bool wide = widens(c.x, c.w);
  Tensor y = is_complex(c.x) ? ops::product_of_parts(ops::parts(c.x), ops::parts(c.w), of_parts)
                             : of_parts(wide ? widened(c.x) : c.x, wide ? widened(c.w) : c.w);
  y = with_bias(y, wide ? widened(c.bias) : c.bias, dims);
  if (wide) y = to(y, c.x->dtype);
  return c.batched ? y : squeeze(y, 0);
}

}  // namespace

#define PF_CONV(N)                                                                                \
  Tensor conv##N##d(const Tensor& input, const Tensor& weight, const Tensor& bias,                \
                    const IntList& stride, const IntList& padding, const IntList& dilation,       \
                    int64_t groups) {                                                             \
    return conv(input, weight, bias, stride, padding, dilation, groups, N, "conv" #N "d");        \
  }                                                                                               \
  Tensor conv_transpose##N##d(const Tensor& input, const Tensor& weight, const Tensor& bias,      \
                              const IntList& stride, const IntList& padding,                      \
                              const IntList& output_padding, int64_t groups,                      \
                              const IntList& dilation) {                                          \
    return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, \
                          N, "conv_transpose" #N "d");                                            \
  }                                                                                               \
  static Tensor conv##N##d_named(const Tensor& input, const Tensor& weight, const Tensor& bias,   \
                                 const IntList& stride, const std::string& padding,               \
                                 const IntList& dilation, int64_t groups) {                       \
    return conv_named(input, weight, bias, stride, padding, dilation, groups, N, "conv" #N "d");  \
  }
PF_CONV(1)
PF_CONV(2)
PF_CONV(3)
#undef PF_CONV

namespace {

#define PF_CONV_ROWS(N, SPACE)                                                                     \
  f.op(&conv##N##d,                                                                                \
       {"conv" #N "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], int[] "     \
        "padding=[0], int[] dilation=[1], int groups=1) -> Tensor",                                \
        "The cross-correlation of input [N, C, " SPACE                                             \
        "] (or without N) with weight [O, C / groups, ...], plus bias [O]: each size becomes "     \
        "floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1. What is "             \
        "channels-last stays so.",                                                                 \
        kBoth});                                                                                   \
  f.op(&conv##N##d_named,                                                                          \
       {"conv" #N "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], str "       \
        "padding='valid', int[] dilation=[1], int groups=1) -> Tensor",                            \
        "The same with padding='valid' (none) or 'same' (the size stays, for a stride of 1).",     \
        kBoth});                                                                                   \
  f.op(                                                                                            \
      &conv_transpose##N##d,                                                                       \
      {"conv_transpose" #N "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1], "  \
       "int[] padding=[0], int[] output_padding=[0], int groups=1, int[] dilation=[1]) -> Tensor", \
       "The gradient of a convolution by its input, as an operation: weight is [C, O / groups, "   \
       "...], each size becomes (size - 1) stride - 2 padding + dilation (kernel - 1) + "          \
       "output_padding + 1.",                                                                      \
       kBoth});

const ops::Family kConvolution("convolution", [](ops::Family& f) {
  constexpr unsigned kBoth = ops::kFunction | ops::kFunctional;
  PF_CONV_ROWS(1, "L")
  PF_CONV_ROWS(2, "H, W")
  PF_CONV_ROWS(3, "D, H, W")
});
#undef PF_CONV_ROWS

}  // namespace
}  // namespace pyflame
