// What operations are built of: operands of one kind and place, bare results, views with a history.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/functions.h"

namespace pyflame::ops {

// Whether host kernels run there: the test backend's are those of the CPU.
inline bool on_host(const Device& d) {
  return d.type == DeviceType::CPU || d.type == DeviceType::Paranoid;
}

// Where the elements of a view lie.
struct Geometry {
  Dims shape;
  Dims strides;
  int64_t offset = 0;
};
inline Geometry geometry_of(const Tensor& t) {
  return {t->shape, t->strides, t->offset};
}
inline Geometry packed(const Dims& shape) {
  return {shape, contiguous_strides(shape), 0};
}

// Zeros of `shape` with the elements of `g` added at the places of a view of a contiguous tensor
// of that shape: the gradient of such a view. Differentiable.
Tensor scatter_view(const Tensor& g, const Dims& shape, const Geometry& view);

// Sums a gradient down to the shape of the operand it belongs to (undoes broadcasting).
Tensor sum_to(const Tensor& grad, const Dims& shape);
// Of 16 bits, not rounded to these: float32, without a history. On GPUs.
Tensor whole_sum(const Tensor& x, const IntList& dims);

// zeros.scatter_add(dim, index, g): the gradient of gather, sort and their kin. Differentiable.
Tensor gather_backward(const Tensor& g, int dim, const Tensor& index, const Dims& shape);

void check_defined(const Tensor& t, const char* op);
// A number beside a tensor, in a dtype that holds it.
Tensor number_like(Scalar s, const Tensor& like, const char* op);
void check_same_device(const Tensor& a, const Tensor& b, const char* op);
// `t` where an operation on it and the others runs: before what begins with a copy that others are
// then written into. Differentiable.
Tensor beside(const Tensor& t, std::initializer_list<Tensor> others, const char* op);
// Indices as int64 (any integer dtype comes in), DTypeError otherwise.
Tensor as_index(const Tensor& index, const char* op);

// Row and column numbers of a triangle, [2, N], row by row.
Tensor triangle_indices(int64_t rows, int64_t columns, int64_t offset, bool upper, DType dtype,
                        Device device);

// Elements behind examples and channels, the first two dimensions.
inline int64_t space_of(const Dims& shape) {
  int64_t n = 1;
  for (int d = 2; d < shape.size(); ++d) n *= shape[d];
  return n;
}

// Whether pictures or volumes lie with their channels last, perhaps with gaps. Not within a vmap,
// where results may still get dimensions.
bool channels_lie_last(const Tensor& t);
// Views of them as [N, ..., C], and back.
Tensor channels_to_end(const Tensor& t);
Tensor channels_from_end(const Tensor& t);

// A copy in row-major order that no autograd sees.
Tensor raw_clone(const Tensor& t);
void raw_clone_into(const Tensor& fresh, const Tensor& t);
Tensor raw_full(const Dims& shape, DType dtype, Device device, Scalar value);
// Runs the kernel "copy" (same dtype, shapes equal).
void raw_copy(const Tensor& dst, const Tensor& src);

// The same view with other geometry, without history.
inline Tensor raw_view(const Tensor& t, const Geometry& g) {
  return make_view(t, g.shape, g.strides, g.offset);
}

// autograd::view, with nothing made of its functions where no gradient can flow.
template <class Replay, class Backward>
Tensor viewed(const Tensor& base, Tensor result, Replay&& replay, const char* name,
              Backward&& backward) {
  if (!has_gradient(base->dtype)) return result;
  return autograd::view(base, std::move(result), std::forward<Replay>(replay), name,
                        std::forward<Backward>(backward));
}

// An in-place write to `self` by `write`, whose gradient with respect to `inputs` (self is the
// first of them) is `backward`.
void write_inplace(Tensor& self, const char* op, std::initializer_list<Tensor> inputs,
                   std::vector<autograd::Saved> saved, autograd::BackwardFn backward,
                   const std::function<void()>& write);

// What products are multiplied by: a whole number for integers, whose fractions would be dropped.
Scalar factor_for(DType operand, Scalar factor, const char* op, const char* what);

// A size times a number of repeats; ShapeError when it is no size. checked_numel() cannot see that
// where another size is 0.
inline int64_t checked_size(int64_t size, int64_t repeats, const char* op) {
  int64_t r;
  PF_CHECK(!__builtin_mul_overflow(size, repeats, &r), ShapeError, op, "got a dimension of ", size,
           " times ", repeats, "; expected less than 2^63 together; use smaller sizes");
  return r;
}

inline Dims without(const Dims& d, int at) {
  Dims r = d;
  r.erase(at);
  return r;
}

}  // namespace pyflame::ops
