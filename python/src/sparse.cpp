// Sparse tensors, as python/pyflame/sparse makes them: objects of its class, and their parts.
#include "ops/sparse.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "common.h"

namespace pyflame::python {

namespace {

Tensor or_none(nb::handle o) {
  return o.is_none() ? Tensor() : nb::cast<Tensor>(o);
}

SparseParts parts(const Tensor& indices, nb::handle rows, const Tensor& values, bool coalesced) {
  return {.indices = indices, .rows = or_none(rows), .values = values, .coalesced = coalesced};
}

const SparseParts& parts_of(const Tensor& t) {
  const SparseParts* p = sparse_parts(t);
  PF_CHECK(p, ValueError, "sparse", "got a dense tensor; expected a sparse one; call to_sparse()");
  return *p;
}

}  // namespace

PyObject* wrap_sparse(Tensor t) {
  static PyObject* cls = [] {
    Obj import(check(PyImport_ImportModule("pyflame.sparse._tensor")));
    return check(PyObject_GetAttrString(import.get(), "SparseTensor"));
  }();
  return wrap_as(reinterpret_cast<PyTypeObject*>(cls), std::move(t));
}

void init_sparse(nb::module_& m) {
  m.def(
      "_sparse_tensor",
      [](const std::vector<int64_t>& shape, const Tensor& indices, nb::handle rows,
         const Tensor& values, bool coalesced) {
        return make_sparse(Dims(shape), parts(indices, rows, values, coalesced));
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def("_sparse_parts", [](const Tensor& t) {
    const SparseParts& p = parts_of(t);
    return nb::make_tuple(p.indices, p.rows, p.values, p.coalesced);
  });
  m.def(
      "_sparse_set",
      [](const Tensor& t, const Tensor& indices, nb::handle rows, const Tensor& values,
         bool coalesced) {
        parts_of(t);
        PF_CHECK(values->dtype == t->dtype, DTypeError, "sparse", "got values of dtype ",
                 values->dtype, " for a tensor of dtype ", t->dtype, "; expected one dtype");
        set_sparse_parts(t, parts(indices, rows, values, coalesced));
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def("_sparse_coordinates", [](const Tensor& t) { return ops::coordinates(parts_of(t)); });
  m.def("_sparse_to_dense", [](const Tensor& t) {
    parts_of(t);
    return ops::dense_of(t);
  });
  m.def("_sparse_rows", &ops::row_numbers);
  m.def("_sparse_starts", &ops::row_starts);
  m.def("_sparse_sums", &ops::sums_of);
  m.def("_sparse_order", &ops::sparse_order);
  m.def(
      "_sparse_product",
      [](const Tensor& starts, const Tensor& columns, nb::handle values, nb::handle order,
         const Tensor& dense) {
        return ops::sparse_product(starts, columns, or_none(values), or_none(order), dense);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg());
  m.def("_sparse_dots", &ops::sparse_dots);
}

}  // namespace pyflame::python
