// Sparse tensors (core/sparse.h): what the engine and Python need of them. Their gradients are
// those of the operations that python/pyflame/sparse makes of these.
#pragma once

#include <utility>

#include "core/sparse.h"
#include "ops/building_blocks.h"

namespace pyflame::ops {

// The rows of x added up by their numbers below `count`: [count, ...]. Differentiable.
Tensor sums_of(const Tensor& x, const Tensor& number, int64_t count);

// The number of the row of each of `count` elements, from where rows begin.
Tensor row_numbers(const Tensor& starts, int64_t count);
// The reverse, of ascending numbers of rows below `count`: where each begins, [count + 1].
Tensor row_starts(const Tensor& rows, int64_t count);
// Coordinates [sparse dimensions, n].
Tensor coordinates(const SparseParts& parts);
// Dense, of all elements added up. Differentiable in the values.
Tensor dense_of(const Tensor& sparse);

// The gradient of rows of a table that were picked by `index`: g for each, not added up. Rows with
// the number `skip` are left out.
Tensor picked_rows(const Tensor& g, const Tensor& index, const Dims& shape, int64_t skip);

// Kernels of table/kernels/sparse.h, or the same of other operations; no gradients. What is
// undefined there may be so here.
Tensor sparse_product(const Tensor& starts, const Tensor& columns, const Tensor& values,
                      const Tensor& order, const Tensor& dense);
Tensor sparse_dots(const Tensor& starts, const Tensor& columns, const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> sparse_order(const Tensor& keys, int64_t count);

}  // namespace pyflame::ops
