// What reading and writing by index share.
#pragma once

#include "ops/building_blocks.h"
#include "table/kernels/index.h"

namespace pyflame::ops {

// Indices in their resolved form: int64 tensors, or undefined for a full slice.
struct Indices {
  Tensor self;      // the tensor, with dimensions added for masks of 0 dimensions
  TensorList list;  // one for each dimension of self
};
Indices resolve(const Tensor& self, const TensorList& indices, const char* op);

// The geometry of one indexed read or write.
struct Plan {
  Tensor self;         // dimensions in the order before, indexed, after; no history
  TensorList indices;  // expanded to their common shape
  Dims shape;          // of the result
  int before = 0;      // dimensions before the indexed ones
};
Plan plan_index(const Tensor& self, const TensorList& list, const char* op);

// Reading and its gradient, with indices as `resolve` gives them. Differentiable. `wrap`: negative
// ones count from the end; `what` they are, if not places.
Tensor index_read(const Tensor& self, const TensorList& list, const char* op, bool wrap = true,
                  kernels::Indices what = kernels::Indices::None);
// An empty tensor of that shape, read from `self`.
Tensor nothing_of(const Tensor& self, const Dims& shape);
Tensor index_backward(const Tensor& g, const TensorList& list, const Dims& shape, int64_t skip);
// The same added to `sum`, of g's dtype, which is as wide as sums are; without a history.
void add_at_index(const Tensor& sum, const Tensor& g, const TensorList& list, int64_t skip);

// Runs the kernel "scatter" on `out`.
using kernels::ScatterMode;
using enum kernels::ScatterMode;
void run_scatter(const Tensor& out, int dim, const Tensor& index, const Tensor& src,
                 ScatterMode mode, const char* op, int64_t skip = INT64_MIN);
// A dimension of size 0 cannot be indexed.
void check_not_empty(const Tensor& self, int dim, const Tensor& index, const char* op);

// How many elements are true. Waits for the device.
int64_t count_true(const Tensor& t, const char* op);

}  // namespace pyflame::ops
