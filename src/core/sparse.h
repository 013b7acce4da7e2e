// Sparse tensors: a TensorImpl of the whole shape whose storage has no memory but parts, which are
// dense tensors. To read the storage raises, so what knows nothing of them never sees zeros.
#pragma once

#include "core/tensor_impl.h"

namespace pyflame {

struct SparseParts {
  Tensor indices;          // coordinates [sparse dimensions, n]; of rows: columns [n]
  Tensor rows;             // where rows begin, [rows + 1]; undefined: coordinates
  Tensor values;           // [n, dense dimensions]; may have a history
  bool coalesced = false;  // coordinates are in order, each of them once
};

Tensor make_sparse(const Dims& shape, SparseParts parts);

inline const SparseParts* sparse_parts(const Tensor& t) {
  return t->storage->sparse;
}
// Other parts in place of those that it has, for all who look at the storage.
void set_sparse_parts(const Tensor& t, SparseParts parts);

}  // namespace pyflame
