#include "core/sparse.h"

#include <exception>
#include <utility>

#include "core/upcalls.h"

namespace pyflame {

namespace {

const std::exception_ptr& no_memory() {
  static const auto* error = new std::exception_ptr([] {
    try {
      PF_FAIL(NotSupportedError, "sparse",
              "got a sparse tensor; expected dense ones for this operation; call to_dense() first");
    } catch (...) {
      return std::current_exception();
    }
  }());
  return *error;
}

}  // namespace

Tensor make_sparse(const Dims& shape, SparseParts parts) {
  TensorImpl* t = TensorImpl::create();
  t->dtype = parts.values->dtype;
  t->floating = parts.values->floating;
  t->numel = checked_numel(shape, "sparse");
  t->shape = shape;
  t->strides = shape;
  for (int i = 0; i < shape.size(); ++i) t->strides[i] = 0;
  t->contiguous = false;
  Storage* s = Storage::create(parts.values->storage->device, 0);
  t->storage = StorageHandle::share(s);
  const Tensor r = Tensor::adopt(t);
  s->poisoned = true;
  s->error = no_memory();
  s->sparse = new SparseParts(std::move(parts));
  return r;
}

void set_sparse_parts(const Tensor& t, SparseParts parts) {
  const SparseParts before = std::exchange(*t->storage->sparse, std::move(parts));
  ++t->storage->version;
}

void drop_sparse(Storage& s) noexcept {
  delete std::exchange(s.sparse, nullptr);
}

}  // namespace pyflame
