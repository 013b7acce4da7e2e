#include "ops/building_blocks.h"

#include <cmath>

#include "engine/hidden.h"
#include "engine/placement.h"
#include "ops/complex.h"
#include "ops/record.h"
#include "ops/replaced.h"
#include "table/kernels/move.h"

namespace pyflame::ops {

using autograd::Context;
using autograd::Grads;

void check_defined(const Tensor& t, const char* op) {
  PF_CHECK(t.defined(), ValueError, op, "got None; expected a tensor; pass one");
}

Tensor number_like(Scalar s, const Tensor& like, const char* op) {
  check_defined(like, op);
  const DType t = is_float(like->dtype) ? like->dtype
                  : s.is_float()        ? default_dtype()
                                        : DType::Int64;
  return scalar_tensor(s, t, like->storage->device);
}

void check_same_device(const Tensor& a, const Tensor& b, const char* op) {
  if (!(a->storage->device == b->storage->device)) engine::check_source(*a.impl(), *b.impl(), op);
}

Tensor beside(const Tensor& t, std::initializer_list<Tensor> others, const char* op) {
  if (!t->floating) return t;
  engine::Target target(op);
  target.add(*t.impl());
  for (const Tensor& o : others)
    if (o.defined()) target.add(*o.impl());
  const Device d = target.device({});
  return d.floating ? t : engine::bring(t, d, op);
}

Tensor as_index(const Tensor& index, const char* op) {
  check_defined(index, op);
  PF_CHECK(is_integral(index->dtype), DTypeError, op, "got indices of dtype ", index->dtype,
           "; expected an integer dtype; convert with .to(pyflame.int64)");
  return index->dtype == DType::Int64 ? index : to(index, DType::Int64);
}

void raw_copy(const Tensor& dst, const Tensor& src) {
  if (dst->numel > 0)
    engine::call<kernels::Copy>({dst, src}, {.inplace = 1, .takes = engine::Takes::All});
}

void raw_clone_into(const Tensor& fresh, const Tensor& t) {
  if (t->numel > 0)
    engine::call<kernels::Copy>({fresh, t}, {.op = "clone", .takes = engine::Takes::All});
}

Tensor raw_clone(const Tensor& t) {
  Tensor out = make_tensor(t->shape, t->dtype, t->storage->device);
  raw_clone_into(out, t);
  return out;
}

bool channels_lie_last(const Tensor& t) {
  const int n = t->shape.size();
  Dims dense;
  return (n == 4 || n == 5) && !t->contiguous && !engine::among_samples(t) &&
         info(t->dtype).bits >= 8 && dense_strides_like(t->shape, t->strides, &dense) &&
         lies_as(t->shape, dense, channels_last_strides(t->shape));
}
Tensor channels_to_end(const Tensor& t) {
  return t->shape.size() == 4 ? permute(t, {0, 2, 3, 1}) : permute(t, {0, 2, 3, 4, 1});
}
Tensor channels_from_end(const Tensor& t) {
  return t->shape.size() == 4 ? permute(t, {0, 3, 1, 2}) : permute(t, {0, 4, 1, 2, 3});
}

Tensor raw_full(const Dims& shape, DType dtype, Device device, Scalar value) {
  check_range(value, dtype, "full", "the value");
  Tensor out = make_tensor(shape, dtype, device);
  if (out->numel == 0) return out;
  NoGrad off;
  fill_(out, value);
  return out;
}

Tensor sum_to(const Tensor& g, const Dims& shape) {
  if (g->shape == shape) return g;
  IntList dims;
  int shift = g->shape.size() - shape.size();
  for (int i = 0; i < g->shape.size(); ++i)
    if (i < shift || (shape[i - shift] == 1 && g->shape[i] != 1)) dims.push_back(i);
  Tensor r = dims.empty() ? g : sum(g, dims, true);
  return r->shape == shape ? r : reshape(r, shape.vec());
}

Tensor scatter_view(const Tensor& g, const Dims& shape, const Geometry& view) {
  if (is_complex(g)) {  // its parts, side by side
    Geometry parts = view;
    for (int d = 0; d < parts.strides.size(); ++d) parts.strides[d] *= 2;
    parts.offset *= 2;
    parts.shape.push_back(2);
    parts.strides.push_back(1);
    Dims both = shape;
    both.push_back(2);
    return view_as_complex(scatter_view(view_as_real(g), both, parts));
  }
  Tensor out = make_tensor(shape, g->dtype, g->storage->device);
  const bool overlaps = may_self_overlap(view.shape, view.strides);
  constexpr auto number = kernels::numbers<kernels::ScatterView>;
  std::vector<Scalar> numbers(static_cast<size_t>(number.strides));
  numbers[number.offset] = view.offset;
  numbers[number.overlaps] = overlaps;
  numbers.insert(numbers.end(), view.strides.begin(), view.strides.end());
  if (out->numel > 0)
    engine::call(engine::kernel<kernels::ScatterView>(), std::span<const Tensor>(&out, 1),
                 std::span<const Tensor>(&g, 1), numbers,
                 {.takes = overlaps ? engine::Takes::Arithmetic : engine::Takes::Bytes});
  if (autograd::wanted({g}))
    autograd::attach("scatter_view", {out}, {g}, {}, [view](const Context& c) -> Grads {
      return {as_strided(contiguous(c.grad()), view.shape.vec(), view.strides.vec(),
                         contiguous(c.grad())->offset + view.offset)};
    });
  return out;
}

void write_inplace(Tensor& self, const char* op, std::initializer_list<Tensor> inputs,
                   std::vector<autograd::Saved> saved, autograd::BackwardFn backward,
                   const std::function<void()>& write) {
  autograd::check_inplace(self, op);
  Ref<autograd::Node> node;
  if (autograd::wanted(inputs))
    node = autograd::make_node(op, inputs, std::move(saved), std::move(backward));
  write();
  if (node) autograd::rebase(self, std::move(node));
}

Tensor replaced(Tensor t, const char* op, const std::function<Tensor(const Tensor&)>& f, Old old) {
  check_defined(t, op);
  autograd::check_inplace(t, op);
  const Tensor r = f(old == Old::kIsRead && autograd::wanted({t}) ? clone(t) : t);
  PF_CHECK(r->shape == t->shape, ShapeError, op, "got a result of shape ", r->shape,
           " for a tensor of shape ", t->shape,
           "; expected equal shapes; use the form that makes a new tensor");
  PF_CHECK(
      kind_fits(r->dtype, t->dtype), DTypeError, op, "got a ", t->dtype, " tensor for a result of ",
      r->dtype,
      "; it cannot be stored without loss; convert the tensor first or use the form that makes "
      "a new tensor");
  return copy_(t, r);
}

Scalar factor_for(DType operand, Scalar factor, const char* op, const char* what) {
  if (!is_integral(operand, true) || !factor.is_float()) return factor;
  const double f = factor.to_double();
  PF_CHECK(f == std::trunc(f) && std::abs(f) < 9e18, ValueError, op, "got ", what, " ", f, " for ",
           operand,
           "; expected a whole number, for integers have no fractions; convert the tensors with "
           ".to(dtype)");
  return static_cast<int64_t>(f);
}

}  // namespace pyflame::ops
