// Questions about tensors: whether they are equal, near, alike; what of one is in another.
#include "ops/building_blocks.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "pyflame/autograd.h"
#include "table/kernels/index.h"

namespace pyflame {

bool equal(const Tensor& input, const Tensor& other) {
  ops::check_defined(input, "equal", "input");
  ops::check_defined(other, "equal", "other");
  ops::check_device(input, other, "equal");
  if (!(input->shape == other->shape)) return false;
  if (input->numel == 0) return true;
  NoGrad guard;
  const auto same = [](const Tensor& a, const Tensor& b) { return all(eq(a, b)).item<bool>(); };
  // Large ones that differ mostly differ soon. On a GPU the second wait costs more than it saves.
  constexpr int64_t kFirst = 4096, kLarge = 1 << 16;
  if (input->numel >= kLarge && input->storage->device.is_cpu() && input->contiguous &&
      other->contiguous) {
    const auto first = [](const Tensor& t) { return narrow(reshape(t, {-1}), 0, 0, kFirst); };
    if (!same(first(input), first(other))) return false;
  }
  return same(input, other);
}

bool allclose(const Tensor& input, const Tensor& other, double rtol, double atol, bool equal_nan) {
  ops::check_defined(input, "allclose", "input");
  ops::check_defined(other, "allclose", "other");
  NoGrad guard;
  Tensor near = isclose(input, other, rtol, atol, equal_nan);
  return near->numel == 0 || all(near).item<bool>();
}

namespace {

Tensor isin(const Tensor& elements, const Tensor& test, bool, bool invert) {
  ops::check_defined(elements, "isin");
  ops::check_defined(test, "isin");
  const DType dtype = promote(elements->dtype, test->dtype);
  Tensor x = to(elements.detach(), dtype), values = reshape(to(test.detach(), dtype), {-1});
  Tensor found;
  if (values->numel == 0) {
    found = ops::raw_full(x->shape, DType::Bool, x->storage->device, 0);
  } else {
    Tensor flat = reshape(x, {-1});
    if (values->numel <= 16) {
      const Tensor low = reshape(flat, {-1, 1});
      found = reshape(any(eq(low, reshape(values, {1, -1})), IntList{1}), x->shape.vec());
    } else {
      // Each element beside the first of the sorted values that is not below it.
      if (dtype == DType::Bool) flat = to(flat, DType::UInt8), values = to(values, DType::UInt8);
      const Tensor sorted = contiguous(sort(values).first);
      Tensor at = make_tensor(flat->shape, DType::Int64, flat->storage->device);
      if (flat->numel > 0)
        engine::call<kernels::Searchsorted>({at, flat, sorted}, {.right = false}, {.op = "isin"});
      const Tensor candidate = index_select(sorted, 0, clamp(at, {}, Scalar(sorted->numel - 1)));
      found = reshape(eq(candidate, flat), x->shape.vec());
    }
  }
  return invert ? logical_not(found) : found;
}

bool is_same_size(const Tensor& a, const Tensor& b) {
  ops::check_defined(a, "is_same_size");
  ops::check_defined(b, "is_same_size");
  return a->shape == b->shape;
}

bool is_nonzero(const Tensor& t) {
  ops::check_defined(t, "is_nonzero");
  PF_CHECK(t->numel == 1, ShapeError, "is_nonzero", "got ", t->numel,
           " elements; expected one; use any() or all()");
  return t.item().to_double() != 0;
}

const ops::Family kCompare("comparison", [](ops::Family& f) {
  f.op(&equal, {"equal(Tensor input, Tensor other) -> bool",
                "True when both have the same shape and the same elements.",
                ops::kFunction | ops::kMethod, false});
  f.op(&allclose, {"allclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, "
                   "bool equal_nan=False) -> bool",
                   "True when every |input - other| <= atol + rtol * |other|; shapes broadcast.",
                   ops::kFunction | ops::kMethod, false});
  f.op(&isin, {"isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool "
               "invert=False) -> Tensor",
               "Whether each element is one of test_elements.", ops::kFunction, false});
  f.op(
      +[](const Tensor& elements, Scalar test, bool unique, bool invert) {
        return isin(elements, ops::number_like(test, elements, "isin"), unique, invert);
      },
      {"isin(Tensor elements, Scalar test_elements|test_element, *, bool assume_unique=False, "
       "bool invert=False) -> Tensor",
       "The same for one number.", ops::kFunction, false});
  f.op(
      +[](Scalar element, const Tensor& test, bool unique, bool invert) {
        return isin(ops::number_like(element, test, "isin"), test, unique, invert);
      },
      {"isin(Scalar elements|element, Tensor test_elements, *, bool assume_unique=False, bool "
       "invert=False) -> Tensor",
       "The same for one number.", ops::kFunction, false});
  f.op(&is_same_size, {"is_same_size(Tensor input, Tensor other) -> bool",
                       "Whether both have the same shape.", ops::kFunction | ops::kMethod, false});
  f.op(&is_nonzero, {"is_nonzero(Tensor input) -> bool",
                     "Whether the one element is not 0. ShapeError for more.",
                     ops::kFunction | ops::kMethod, false});
});

}  // namespace

}  // namespace pyflame
