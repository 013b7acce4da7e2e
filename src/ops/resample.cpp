// Interpolation: each dimension of space is a product with a banded matrix (table/resample.h), two
// of them in one kernel. It is linear, so its gradient is the transposed product, and so on.
#include "table/resample.h"

#include <array>
#include <cmath>
#include <string>

#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/space.h"
#include "table/kernels/resample.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using table::Rule;

constexpr const char* kOp = "interpolate";
constexpr int64_t kMostSize = (int64_t{1} << 31) - 1;

struct Axis {
  int64_t in = 1, out = 1;
  double scale = 1;
};
// What is done with the last dimensions of a tensor.
struct Plan {
  Rule rule;
  bool align;
  int dims;
  std::array<Axis, 3> axes;  // the first `dims` of them
};

// Dimensions a and b of what lies as [outer, a, b, inner].
void run(const Tensor& y, const Tensor& x, const Plan& p, const Axis* a, const Axis* b,
         int64_t outer, int64_t inner, bool back) {
  const Axis none;
  const auto size = [back](const Axis& s, bool result) {
    return Scalar(result != back ? s.out : s.in);
  };
  const Axis &first = a ? *a : none, &second = b ? *b : none;
  const auto rule = [&p](const Axis* s) {
    return Scalar(static_cast<int64_t>(s ? p.rule : Rule::Nearest));
  };
  engine::call<kernels::Resample>({.y = y, .x = x},
                                  {.outer = Scalar(outer),
                                   .in_a = size(first, false),
                                   .in_b = size(second, false),
                                   .inner = Scalar(inner),
                                   .out_a = size(first, true),
                                   .out_b = size(second, true),
                                   .rule_a = rule(a),
                                   .rule_b = rule(b),
                                   .scale_a = Scalar(first.scale),
                                   .scale_b = Scalar(second.scale),
                                   .align = Scalar(int64_t{p.align}),
                                   .transposed = Scalar(int64_t{back})},
                                  {.op = kOp});
}

Tensor resampled(const Tensor& given, const Plan& p, bool back) {
  const MemoryFormat format = ops::space_format(given);
  const Tensor x = format == MemoryFormat::Contiguous ? ops::dense(given) : given;
  Dims shape = x->shape;
  for (int d = 0; d < p.dims; ++d) {
    const Axis& s = p.axes[static_cast<size_t>(d)];
    shape[d + 2] = back ? s.in : s.out;
  }
  Tensor y = ops::fresh_in(shape, x->dtype, x->storage->device, format);
  const bool beside = format != MemoryFormat::Contiguous;
  const int64_t outer = beside ? shape[0] : shape[0] * shape[1], inner = beside ? shape[1] : 1;
  if (y->numel == 0) return y;
  if (p.dims < 3) {
    const Axis* last = &p.axes[static_cast<size_t>(p.dims - 1)];
    run(y, x, p, p.dims == 2 ? p.axes.data() : nullptr, last, outer, inner, back);
  } else {  // the outermost by itself, where there is less to be done
    const Axis &d = p.axes[0], &h = p.axes[1], &w = p.axes[2];
    const bool early = back ? d.in <= d.out : d.out <= d.in;
    Dims between = x->shape;
    for (int i = early ? 0 : 1; i < (early ? 1 : 3); ++i) between[i + 2] = shape[i + 2];
    const bool narrow = x->dtype == DType::UInt8 || ops::is_narrow(x);
    NoGrad off;
    const DType type = narrow ? DType::Float32 : x->dtype;
    const Tensor source = narrow ? to(x, type) : x;
    const Tensor middle = ops::fresh_in(between, type, x->storage->device, format);
    const Tensor result = narrow ? ops::fresh_in(shape, type, x->storage->device, format) : y;
    const auto planes = [&](const Tensor& r, const Tensor& s) {
      run(r, s, p, &h, &w, outer * r->shape[2], inner, back);
    };
    const auto depth = [&](const Tensor& r, const Tensor& s) {
      run(r, s, p, &d, nullptr, outer, r->shape[3] * r->shape[4] * inner, back);
    };
    if (early) {
      depth(middle, source);
      planes(result, middle);
    } else {
      planes(middle, source);
      depth(result, middle);
    }
    if (narrow) y = to(result, x->dtype);
  }
  return y;
}

Tensor resample(const Tensor& x, const Plan& p, bool back) {
  Tensor y = resampled(x, p, back);
  if (autograd::wanted({x}))
    autograd::attach(kOp, {y}, {x}, {}, [p, back](const Context& c) -> Grads {
      return {resample(c.grad(), p, !back)};
    });
  return y;
}

struct Mode {
  const char* name;
  int dims;  // 0: any
  Rule rule, wide;
};
constexpr Mode kModes[] = {{"nearest", 0, Rule::Nearest, Rule::Nearest},
                           {"nearest-exact", 0, Rule::NearestExact, Rule::NearestExact},
                           {"area", 0, Rule::Area, Rule::Area},
                           {"linear", 1, Rule::Linear, Rule::Linear},
                           {"bilinear", 2, Rule::Linear, Rule::LinearWide},
                           {"trilinear", 3, Rule::Linear, Rule::Linear},
                           {"bicubic", 2, Rule::Cubic, Rule::CubicWide},
                           {"lanczos", 2, Rule::LanczosWide, Rule::LanczosWide}};

template <class T>
T nth(const std::vector<T>& given, int d, int dims, const char* what, const char* rest) {
  const auto n = static_cast<int>(given.size());
  PF_CHECK(n == 1 || n == dims, ValueError, kOp, "got ", n, " numbers for ", what, " and ", dims,
           " dimensions of space; expected one", rest, "; pass one for each dimension");
  return given[static_cast<size_t>(n == 1 ? 0 : d)];
}

}  // namespace

Tensor interpolate(const Tensor& input, const std::optional<IntList>& size,
                   const std::optional<std::vector<double>>& scale_factor, const std::string& mode,
                   std::optional<bool> align_corners, std::optional<bool> recompute_scale_factor,
                   bool antialias) {
  ops::check_defined(input, kOp, "input");
  const Mode* m = nullptr;
  for (const Mode& each : kModes)
    if (mode == each.name) m = &each;
  PF_CHECK(m, NotSupportedError, kOp, "got mode '", mode,
           "'; expected 'nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic', 'trilinear', "
           "'lanczos' or 'area'");
  const int dims = input->shape.size() - 2;
  PF_CHECK(dims >= 1 && dims <= 3, NotSupportedError, kOp, "got input of shape ", input->shape,
           "; expected a batch, channels and 1 to 3 dimensions of space; reshape it");
  const bool lanczos = m->rule == Rule::LanczosWide;
  const bool corners = m->rule == Rule::Linear || m->rule == Rule::Cubic || lanczos;
  PF_CHECK(corners || !align_corners, ValueError, kOp, "got align_corners for mode '", mode,
           "'; expected it for linear, bilinear, bicubic and trilinear; leave it out");
  PF_CHECK(!antialias || (m->dims == 2 && dims == 2), ValueError, kOp, "got antialias for mode '",
           mode, "' and input of shape ", input->shape,
           "; expected bilinear, bicubic or lanczos and 4 dimensions; leave it out");
  PF_CHECK(m->dims == 0 || m->dims == dims, NotSupportedError, kOp, "got mode '", mode,
           "' and input of shape ", input->shape, "; expected ", m->dims + 2,
           " dimensions; use another mode or reshape it");
  PF_CHECK(!lanczos || (antialias && !align_corners.value_or(false)), ValueError, kOp,
           "got mode 'lanczos' ", antialias ? "with align_corners" : "without antialias",
           "; expected antialias=True and no align_corners; pass these or use 'bicubic'");
  PF_CHECK(size.has_value() != scale_factor.has_value(), ValueError, kOp, "got ",
           size ? "both size and scale_factor" : "neither size nor scale_factor",
           "; expected one of them");
  const bool recompute = recompute_scale_factor.value_or(false);
  PF_CHECK(!recompute || scale_factor, ValueError, kOp,
           "got recompute_scale_factor with a size; expected a scale_factor; leave it out");
  const bool bytes =
      input->dtype == DType::UInt8 && m->rule != Rule::Area && (m->dims == 2 || m->dims == 0);
  PF_CHECK(bytes || is_float(input->dtype), DTypeError, kOp, "got ", input->dtype, " for mode '",
           mode, "'; expected floats",
           m->rule == Rule::Area ? "" : ", or uint8 for nearest, bilinear, bicubic and lanczos",
           "; convert with .to(dtype)");
  Plan p{.rule = antialias ? m->wide : m->rule,
         .align = align_corners.value_or(false),
         .dims = dims,
         .axes = {}};
  Dims shape = input->shape;
  for (int d = 0; d < dims; ++d) {
    Axis& s = p.axes[static_cast<size_t>(d)];
    s.in = input->shape[d + 2];
    double factor = 0;
    if (size) {
      s.out = nth(*size, d, dims, "size", "");
    } else {
      factor = nth(*scale_factor, d, dims, "scale_factor", " or one for each");
      const double to = std::floor(static_cast<double>(s.in) * factor);
      PF_CHECK(factor > 0 && to <= static_cast<double>(kMostSize), ValueError, kOp,
               "got scale_factor ", factor, " for a size of ", s.in,
               "; expected one above 0 whose result has less than 2^31 elements");
      s.out = static_cast<int64_t>(to);
      if (recompute || m->rule == Rule::Area) factor = 0;
    }
    PF_CHECK(s.in > 0 && s.out > 0 && s.in <= kMostSize && s.out <= kMostSize, ShapeError, kOp,
             "got input of shape ", input->shape, " and a result of ", s.out,
             " elements in dimension ", d,
             " of space; expected both to have at least 1 and less "
             "than 2^31; change the size");
    shape[d + 2] = s.out;
    // As in PyTorch, a filter has nothing to do where the size stays, whatever the factor was.
    if (antialias && s.in == s.out) factor = 0;
    s.scale = table::scale_of(s.in, s.out, p.align, factor);
  }
  checked_numel(shape, kOp);
  return resample(input, p, false);
}

namespace {

const ops::Family kResampling("resampling", [](ops::Family& f) {
  f.op(&interpolate,
       {"interpolate(Tensor input, int[]? size=None, float[]? scale_factor=None, str "
        "mode='nearest', bool? align_corners=None, bool? recompute_scale_factor=None, bool "
        "antialias=False) -> Tensor",
        "Input [N, C, space...] at another size: `size`, or `scale_factor` times its own, one "
        "number or one for each dimension. mode: nearest, nearest-exact, area, linear (3-d), "
        "bilinear, bicubic and lanczos (4-d; the last with antialias only), trilinear (5-d). "
        "What is channels-last stays so.",
        ops::kFunctional});
});

}  // namespace
}  // namespace pyflame
