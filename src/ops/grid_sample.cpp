// Values of images at places of a grid. Where the gradient is differentiated again, and where a
// device has no kernel for it, it is that of the formula written in operations.
#include <array>
#include <string>

#include "core/backends.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/space.h"
#include "pyflame/autograd.h"
#include "table/kernels/grid_sample.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

constexpr const char* kOp = "grid_sample";
enum Mode : int64_t { kLinear, kNearest, kCubic };
enum Padding : int64_t { kZeros, kBorder, kReflection };

struct Sampling {
  int dims;
  Mode mode;
  Padding padding;
  bool align;
};

template <class K>
bool has_kernel(const Tensor& x, const Tensor& grid) {
  return backend_of(runs_on({x, grid}))->kernel_find(K::kInfo.name) != nullptr;
}

// ---- the formula --------------------------------------------------------------------------------

// Places within [0, size - 1], as kernels/grid_place.h has them.
Tensor inside(Tensor u, int64_t size, const Sampling& s) {
  const auto last = static_cast<double>(size - 1);
  if (s.padding == kReflection) {
    const double low = s.align ? 0 : -0.5, span = s.align ? last : last + 1;
    if (!(span > 0)) return zeros_like(u);
    const Tensor far = abs(sub(u, Scalar(low)));
    Tensor flips, odd;
    {
      NoGrad off;
      flips = floor(div(far, Scalar(span)));
      odd = ne(flips, mul(floor(div(flips, Scalar(2.0))), Scalar(2.0)));
    }
    const Tensor rest = sub(far, mul(flips, Scalar(span)));
    u = add(where(odd, rsub(rest, Scalar(span)), rest), Scalar(low));
  }
  if (s.padding == kZeros) return u;
  // At both ends the slope is 0.
  const Tensor within = logical_and(gt(u, Scalar(0.0)), lt(u, Scalar(last)));
  return where(within, u,
               clamp(where(ge(u, Scalar(last)), full_like(u, Scalar(last)), zeros_like(u)),
                     Scalar(0.0), Scalar(last)));
}

struct Place {
  std::vector<Tensor> at, weight;  // int64 indices; weights, 0 where nothing is there
};
Place place(const Tensor& g, int64_t size, const Sampling& s) {
  const auto wide = static_cast<double>(s.align ? size - 1 : size);
  Tensor u = s.align ? mul(div(add(g, Scalar(1.0)), Scalar(2.0)), Scalar(wide))
                     : div(add(mul(add(g, Scalar(1.0)), Scalar(wide)), Scalar(-1.0)), Scalar(2.0));
  Place p;
  // One element, if it is there, with its weight.
  const auto take = [&](const Tensor& where_to, const Tensor& w) {
    NoGrad off;
    const Tensor there =
        logical_and(ge(where_to, Scalar(0.0)), lt(where_to, Scalar(static_cast<double>(size))));
    p.at.push_back(to(where(there, where_to, Scalar(0.0)), DType::Int64));
    EnableGrad on;
    p.weight.push_back(where(there, w, zeros_like(w)));
  };
  const auto floored = [](const Tensor& t) {
    NoGrad off;
    return floor(t);
  };
  if (s.mode == kCubic) {
    const Tensor low = floored(u), t = sub(u, low), r = rsub(t, Scalar(1.0));
    constexpr double a = -0.75;
    const auto near = [](const Tensor& v) {
      const Tensor square = mul(v, v);
      return add(mul(add(mul(v, Scalar(a + 2)), Scalar(-(a + 3))), square), Scalar(1.0));
    };
    const auto far = [](const Tensor& v0) {
      const Tensor v = add(v0, Scalar(1.0));
      const Tensor inner = add(mul(v, Scalar(a)), Scalar(-5 * a));
      return add(mul(add(mul(inner, v), Scalar(8 * a)), v), Scalar(-4 * a));
    };
    const Tensor weights[] = {far(t), near(t), near(r), far(r)};
    for (int k = 0; k < 4; ++k) {
      Tensor tap;
      {
        NoGrad off;
        tap = inside(add(low, Scalar(static_cast<double>(k - 1))), size, s);
      }
      take(tap, weights[k]);
    }
    return p;
  }
  u = inside(u, size, s);
  if (s.mode == kNearest) {
    Tensor tap;
    {
      NoGrad off;
      tap = round(u);
    }
    take(tap, ones_like(u));
    return p;
  }
  const Tensor low = floored(u), t = sub(u, low);
  take(low, rsub(t, Scalar(1.0)));
  take(add(low, Scalar(1.0)), t);
  return p;
}

// x [n, c, ...], grid [n, points, dims]: [n, c, points], in float32 or float64.
Tensor by_formula(const Tensor& x, const Tensor& grid, const Sampling& s) {
  const int64_t n = x->shape[0], c = x->shape[1], points = grid->shape[1];
  const Tensor values = reshape(ops::widened(x), {n, c, ops::space_of(x->shape)});
  const Tensor wide = ops::widened(grid);
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(s.dims));
  for (int d = 0; d < s.dims; ++d)
    places.push_back(place(select(wide, 2, s.dims - 1 - d), x->shape[d + 2], s));
  const size_t taps = places[0].at.size();
  size_t all = 1;
  for (int d = 0; d < s.dims; ++d) all *= taps;
  Tensor sum;
  for (size_t tap = 0; tap < all; ++tap) {
    Tensor at, w;
    size_t rest = tap;
    for (int d = 0; d < s.dims; ++d, rest /= taps) {
      const Place& p = places[static_cast<size_t>(d)];
      const Tensor &here = p.at[rest % taps], &weight = p.weight[rest % taps];
      at = at.defined() ? add(mul(at, Scalar(x->shape[d + 2])), here) : here;
      w = w.defined() ? mul(w, weight) : weight;
    }
    at = expand(unsqueeze(at, 1), {n, c, points});
    w = unsqueeze(w, 1);
    // What is inf beside a weight of 0 takes no part.
    Tensor there;
    {
      NoGrad off;
      there = ne(w, Scalar(0.0));
    }
    Tensor term = mul(gather(values, 2, at), w);
    term = where(there, term, mul(w, Scalar(0.0)));
    sum = sum.defined() ? add(sum, term) : term;
  }
  return sum;
}

// ---- kernels ------------------------------------------------------------------------------------

struct Operands {
  Tensor x, grid;  // dense
  MemoryFormat format;
};
Operands operands(const Tensor& x, const Tensor& grid) {
  const MemoryFormat f = ops::space_format(x);
  return {f == MemoryFormat::Contiguous ? ops::dense(x) : x, ops::dense(grid), f};
}
kernels::GridSample::Numbers<Scalar> numbers(const Dims& x, const Dims& grid, const Sampling& s,
                                             MemoryFormat format) {
  const auto of = [](int64_t v) { return Scalar(v); };
  const bool deep = s.dims == 3;
  return {of(x[0]),
          of(x[1]),
          of(grid[1]),
          of(deep ? x[2] : 1),
          of(x[x.size() - 2]),
          of(x[x.size() - 1]),
          of(s.dims),
          of(s.mode),
          of(s.padding),
          of(s.align),
          of(format != MemoryFormat::Contiguous)};
}

Grads gradients(const Tensor& dy, const Tensor& x, const Tensor& grid, const Sampling& s,
                bool for_x, bool for_grid);

// grid is [n, points, dims]; the result has the places `shape` in place of x's.
Tensor sample(const Tensor& x, const Tensor& grid, const Dims& shape, const Sampling& s) {
  Tensor y;
  const Operands o = operands(x, grid);
  if (has_kernel<kernels::GridSample>(x, grid)) {
    y = ops::fresh_in(shape, x->dtype, runs_on({x, grid}), o.format);
    engine::call<kernels::GridSample>({.y = y, .x = o.x, .grid = o.grid},
                                      numbers(x->shape, grid->shape, s, o.format), {.op = kOp});
  } else {
    NoGrad off;
    y = reshape(to(by_formula(x, grid, s), x->dtype), shape.vec());
    if (o.format != MemoryFormat::Contiguous) y = contiguous(y, o.format);
  }
  if (autograd::wanted({x, grid}))
    autograd::attach(kOp, {y}, {x, grid}, {Saved(x), Saved(grid)}, [s](const Context& c) -> Grads {
      return gradients(c.grad(), c.saved(0), c.saved(1), s, c.needs(0), c.needs(1));
    });
  return y;
}

// By the formula, which can be differentiated again.
Grads formula_gradients(const Tensor& dy, const Tensor& x, const Tensor& grid, const Sampling& s,
                        bool for_x, bool for_grid) {
  const bool again = grad_enabled();
  EnableGrad on;
  const auto leaf = [again](const Tensor& t, bool wanted) {
    if (again && t.requires_grad()) return t;
    Tensor r = t.detach();
    return wanted ? r.requires_grad_() : r;
  };
  const Tensor a = leaf(x, for_x), b = leaf(grid, for_grid);
  const Tensor y = by_formula(a, b, s);
  const Tensor g = ops::widened(reshape(dy, y->shape.vec()));
  std::vector<Tensor> inputs;
  if (for_x) inputs.push_back(a);
  if (for_grid) inputs.push_back(b);
  const Tensor outputs[] = {y}, grads[] = {g};
  std::vector<Tensor> found = grad(outputs, inputs, grads, again, again, true);
  for (size_t i = 0; i < found.size(); ++i)
    if (!found[i].defined()) found[i] = zeros_like(inputs[i]);
  Grads r(2);
  if (for_x) r[0] = found[0];
  if (for_grid) r[1] = found.back();
  return r;
}

Grads gradients(const Tensor& dy, const Tensor& x, const Tensor& grid, const Sampling& s,
                bool for_x, bool for_grid) {
  if (grad_enabled()) return formula_gradients(dy, x, grid, s, for_x, for_grid);
  const Operands o = operands(x, grid);
  const Tensor g = contiguous(dy, o.format);
  const auto n = numbers(x->shape, grid->shape, s, o.format);
  Grads r(2);
  const bool own_x = has_kernel<kernels::GridSampleInput>(x, grid);
  if (for_x && own_x) {
    const Tensor dx =
        ops::fresh_in(x->shape, ops::wide_type(x->dtype), runs_on({x, grid}), o.format);
    engine::call<kernels::GridSampleInput>({.dx = dx, .dy = g, .grid = o.grid}, n, {.op = kOp});
    r[0] = to(dx, x->dtype);
  } else if (for_x) {
    r[0] = formula_gradients(dy, x, grid, s, true, false)[0];
  }
  if (for_grid && has_kernel<kernels::GridSampleGrid>(x, grid)) {
    r[1] = make_tensor(grid->shape, grid->dtype, runs_on({x, grid}));
    engine::call<kernels::GridSampleGrid>({.dgrid = r[1], .dy = g, .x = o.x, .grid = o.grid}, n,
                                          {.op = kOp});
  } else if (for_grid) {
    r[1] = formula_gradients(dy, x, grid, s, false, true)[1];
  }
  return r;
}

template <size_t N>
int64_t choice(const std::string& given, const std::array<const char*, N>& names,
               const char* what) {
  std::string all;
  for (size_t i = 0; i < N; ++i) {
    if (given == names[i]) return static_cast<int64_t>(i);
    all += (i ? ", '" : "'") + std::string(names[i]) + "'";
  }
  PF_FAIL(ValueError, kOp, "got ", what, " '", given, "'; expected one of ", all);
}

}  // namespace

Tensor grid_sampler(const Tensor& input, const Tensor& grid, const std::string& mode,
                    const std::string& padding_mode, bool align_corners) {
  PF_AUTOCAST("grid_sampler", PromoteElseRaise, grid_sampler, input, grid, mode, padding_mode,
              align_corners);
  ops::check_floating(input, kOp);
  ops::check_floating(grid, kOp, "grid");
  const int dims = input->shape.size() - 2;
  const Sampling s{
      .dims = dims,
      .mode = static_cast<Mode>(choice<3>(mode, {"bilinear", "nearest", "bicubic"}, "mode")),
      .padding = static_cast<Padding>(
          choice<3>(padding_mode, {"zeros", "border", "reflection"}, "padding_mode")),
      .align = align_corners};
  const Dims &in = input->shape, &at = grid->shape;
  PF_CHECK((dims == 2 || dims == 3) && at.size() == in.size(), ShapeError, kOp,
           "got input of shape ", in, " and grid of shape ", at,
           "; expected 4 dimensions of both, or 5; reshape them");
  PF_CHECK(at[0] == in[0] && at[at.size() - 1] == dims, ShapeError, kOp, "got input of shape ", in,
           " and grid of shape ", at, "; expected a grid of ", in[0], " examples with ", dims,
           " numbers for each place; reshape it");
  PF_CHECK(input->dtype == grid->dtype, DTypeError, kOp, "got input of dtype ", input->dtype,
           " and grid of ", grid->dtype, "; expected one dtype; convert with .to(dtype)");
  PF_CHECK(s.mode != kCubic || dims == 2, NotSupportedError, kOp,
           "got mode 'bicubic' for input of shape ", in,
           "; expected 4 dimensions; use 'bilinear' or 'nearest'");
  ops::check_device(input, grid, kOp);
  for (int d = 2; d < in.size(); ++d)
    PF_CHECK(in[d] > 0, ShapeError, kOp, "got input of shape ", in,
             "; expected sizes of space of at least 1");
  Dims shape{in[0], in[1]};
  int64_t points = 1;
  for (int d = 1; d <= dims; ++d) {
    shape.push_back(at[d]);
    points *= at[d];
  }
  checked_numel(shape, kOp);
  if (ops::space_of(shape) == 0 || in[0] == 0 || in[1] == 0) {
    // Nothing is looked up; both take part all the same.
    const Tensor none = zeros(shape.vec(), input->dtype, input->storage->device);
    return add(add(none, mul(sum(input), Scalar(0.0))), mul(sum(grid), Scalar(0.0)));
  }
  return sample(input, reshape(grid, {at[0], points, dims}), shape, s);
}

Tensor affine_grid_generator(const Tensor& theta, const IntList& size, bool align_corners) {
  constexpr const char* op = "affine_grid";
  ops::check_floating(theta, op, "theta");
  const auto dims = static_cast<int>(size.size()) - 2;
  PF_CHECK(dims == 2 || dims == 3, ValueError, op, "got a size of ", size.size(),
           " numbers; expected [N, C, H, W] or [N, C, D, H, W]");
  for (int64_t v : size)
    PF_CHECK(v > 0, ValueError, op, "got a size with ", v, "; expected at least 1 everywhere");
  PF_CHECK(theta->shape == (Dims{size[0], dims, dims + 1}), ShapeError, op, "got theta of shape ",
           theta->shape, "; expected ", Dims{size[0], dims, dims + 1},
           " for this size; reshape it");
  const DType wide = ops::wide_type(theta->dtype);
  IntList places(size.begin() + 2, size.end());
  places.push_back(dims + 1);
  checked_numel(Dims(places), op);
  // Rows (x, y, [z,] 1) of all places.
  std::vector<Tensor> parts;
  for (int d = dims; d-- > 0;) {
    const int64_t n = size[static_cast<size_t>(d) + 2];
    const auto count = static_cast<double>(n);
    const double end = n == 1 ? 0 : align_corners ? 1 : (count - 1) / count;
    IntList shape(static_cast<size_t>(dims) + 1, 1), all = places;
    shape[static_cast<size_t>(d)] = n;
    all.back() = 1;
    const Tensor line = n == 1
                            ? zeros({1}, wide, theta->storage->device)
                            : linspace(Scalar(-end), Scalar(end), n, wide, theta->storage->device);
    parts.push_back(expand(reshape(line, shape), all));
  }
  IntList all = places;
  all.back() = 1;
  parts.push_back(ones(all, wide, theta->storage->device));
  Tensor base = cat(parts, -1);
  base = to(reshape(base, {base->numel / (dims + 1), dims + 1}), theta->dtype);
  IntList shape{size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(dims);
  return reshape(matmul(base, transpose(theta, 1, 2)), shape);
}

namespace {

const ops::Family kSampling("sampling", [](ops::Family& f) {
  f.op(&grid_sampler,
       {"grid_sampler(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', "
        "bool align_corners=False) -> Tensor",
        "nn.functional.grid_sample: input [N, C, (D,) H, W] at the places grid [N, ..., 2 or 3], "
        "from -1 to 1 over it, x first. mode: bilinear, nearest or bicubic; what lies outside: "
        "zeros, border, reflection.",
        ops::kSpecial});
  f.op(&affine_grid_generator,
       {"affine_grid_generator(Tensor theta, int[] size, bool align_corners=False) -> Tensor",
        "nn.functional.affine_grid: theta [N, 2, 3] or [N, 3, 4] times the places of a result "
        "[N, C, (D,) H, W].",
        ops::kSpecial});
});

}  // namespace
}  // namespace pyflame
