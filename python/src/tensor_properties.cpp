// Attributes of Tensor.
#include "common.h"
#include "core/inference.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "engine/other_memory.h"
#include "ops/complex.h"

namespace pyflame::python {

void take_values(TensorImpl* t, const Tensor& from) {
  const bool shares = t->storage == from->storage;
  if (!shares || t->offset != from->offset || t->dtype != from->dtype ||
      !(t->shape == from->shape) || !(t->strides == from->strides))
    autograd::leave_memory(Tensor::share(t), from->shape, from->dtype, shares);
  t->storage = StorageHandle::share(from->storage.get());
  t->hidden = from->hidden;
  t->floating = from->floating;
  t->dtype = from->dtype;
  t->contiguous = from->contiguous;
  t->numel = from->numel;
  t->offset = from->offset;
  t->shape = from->shape;
  t->strides = from->strides;
}

namespace {

PyObject* get_shape(PyObject* o, void*) {
  return wrap_size(tensor_of(o)->shape);
}
PyObject* get_dtype(PyObject* o, void*) {
  return wrap(tensor_of(o)->dtype);
}
PyObject* get_output_nr(PyObject* o, void*) {
  const Tensor& t = tensor_of(o);
  return PyLong_FromUnsignedLong(autograd::grad_fn(t) ? t->meta->output_nr : 0);
}
PyObject* get_base(PyObject* o, void*) {
  const Tensor& t = tensor_of(o);
  if (!t->meta || !t->meta->base.defined()) Py_RETURN_NONE;
  return wrap(t->meta->base);
}
PyObject* get_device(PyObject* o, void*) {
  return wrap(tensor_of(o)->device());
}
PyObject* get_requires_grad(PyObject* o, void*) {
  return PyBool_FromLong(tensor_of(o).requires_grad());
}
int set_requires_grad(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    if (!value || !PyBool_Check(value)) type_error("requires_grad must be True or False");
    tensor_of(o).requires_grad_(value == Py_True);
    return 0;
  });
}
PyObject* get_grad(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(o);
    Tensor g = t.grad();
    if (!g.defined() && !t.is_leaf() && !t->meta->retained &&
        PyErr_WarnEx(
            PyExc_UserWarning,
            "pf.Tensor.grad: the tensor is the result of an operation, in which backward() "
            "keeps no gradient; call retain_grad() on it first, or ask the leaf",
            1) < 0)
      throw PythonError();
    return wrap(std::move(g));
  });
}
int set_grad(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    Tensor& t = tensor_of(o);
    if (!value || value == Py_None) {
      t.set_grad({});
      return 0;
    }
    if (!is_tensor(value)) refuse_pytorch(value);
    if (!is_tensor(value))
      type_error(std::string("grad must be a Tensor or None, not ") + Py_TYPE(value)->tp_name);
    const Tensor& g = tensor_of(value);
    if (!(g->shape == t->shape))
      PF_FAIL(ShapeError, "Tensor.grad", "got a gradient of shape ", g->shape,
              " for a tensor of shape ", t->shape, "; expected the same shape; reshape it");
    if (g->dtype != t->dtype)
      PF_FAIL(DTypeError, "Tensor.grad", "got a gradient of dtype ", g->dtype,
              " for a tensor of dtype ", t->dtype, "; expected the same dtype; cast it with .to()");
    if (g->storage->device != t->storage->device)
      PF_FAIL(DeviceError, "Tensor.grad", "got a gradient on ", g->storage->device,
              " for a tensor on ", t->storage->device, "; move it with .to()");
    if (g.impl() == t.impl())
      PF_FAIL(AutogradError, "Tensor.grad", "got the tensor itself as its gradient",
              "; expected another one; copy it with .clone()");
    t.set_grad(g);
    return 0;
  });
}
PyObject* get_grad_fn(PyObject* o, void*) {
  track(o);  // it may be held by what the node is given
  return guarded([&] { return grad_fn_of(tensor_of(o)); });
}
PyObject* get_is_leaf(PyObject* o, void*) {
  return PyBool_FromLong(tensor_of(o).is_leaf());
}
PyObject* get_retains_grad(PyObject* o, void*) {
  const Tensor& t = tensor_of(o);
  return PyBool_FromLong(t->meta && t->meta->retained);
}
PyObject* get_data(PyObject* o, void*) {
  return guarded([&] {
    return keeping("detach", {o}, [&] {
      Tensor data = tensor_of(o).detach();
      data->apart = true;
      return wrap(std::move(data));
    });
  });
}
int set_data(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    if (!value || !is_tensor(value)) type_error("data must be a Tensor");
    TensorImpl* t = tensor_of(o).impl();
    Tensor from = tensor_of(value);
    PF_CHECK(!tensor_of(o).requires_grad() || has_gradient(from->dtype), DTypeError, "Tensor.data",
             "got a ", name(from->dtype),
             " tensor for one that requires grad; expected a float dtype");
    take_values(t, from);
    return 0;
  });
}
PyObject* get_ndim(PyObject* o, void*) {
  return PyLong_FromLong(tensor_of(o)->shape.size());
}
PyObject* get_t_plain(PyObject* o) {
  return guarded([&] {
    const Tensor& t = tensor_of(o);
    std::vector<int64_t> order;
    for (int i = t->shape.size() - 1; i >= 0; --i) order.push_back(i);
    return wrap(permute(t, order));
  });
}
PyObject* get_mt_plain(PyObject* o) {
  return guarded([&] {
    const Tensor& t = tensor_of(o);
    PF_CHECK(t->shape.size() != 1, ShapeError, "Tensor.mT", "got shape ", t->shape,
             "; expected at least 2 dimensions, or none; use unsqueeze");
    if (t->shape.empty()) return wrap(permute(t, {}));
    return wrap(transpose(t, -2, -1));
  });
}
PyObject* get_mh_plain(PyObject* o) {
  return guarded([&] { return wrap(adjoint(tensor_of(o))); });
}
PyObject* get_h_plain(PyObject* o) {
  return guarded([&] {
    const Tensor& t = tensor_of(o);
    PF_CHECK(t->shape.size() == 2 || t->shape.empty(), ShapeError, "Tensor.H", "got shape ",
             t->shape, "; expected a matrix; use mH for batches");
    return wrap(conj(t->shape.empty() ? t : transpose(t, 0, 1)));
  });
}
PyObject* get_t(PyObject* o, void*) {
  return guarded([&] { return keeping("T", {o}, [&] { return get_t_plain(o); }); });
}
PyObject* get_mt(PyObject* o, void*) {
  return guarded([&] { return keeping("mT", {o}, [&] { return get_mt_plain(o); }); });
}
PyObject* get_h(PyObject* o, void*) {
  return guarded([&] { return keeping("H", {o}, [&] { return get_h_plain(o); }); });
}
PyObject* get_mh(PyObject* o, void*) {
  return guarded([&] { return keeping("mH", {o}, [&] { return get_mh_plain(o); }); });
}
PyObject* get_real(PyObject* o, void*) {
  return guarded(
      [&] { return keeping("real", {o}, [&] { return wrap(pyflame::real(tensor_of(o))); }); });
}
PyObject* get_imag(PyObject* o, void*) {
  return guarded(
      [&] { return keeping("imag", {o}, [&] { return wrap(pyflame::imag(tensor_of(o))); }); });
}
// Writes a part of a complex tensor: what `z.real.copy_(value)` writes.
int set_part(PyObject* o, PyObject* value, const char* name, Tensor (*part)(const Tensor&)) {
  return guarded_int([&] {
    Tensor to = part(tensor_of(o));
    if (value && is_tensor(value)) {
      copy_(to, tensor_of(value));
    } else {
      if (!value || !(PyFloat_Check(value) || PyLong_Check(value)))
        type_error(std::string("pf.Tensor.") + name + ": got " +
                   (value ? Py_TYPE(value)->tp_name : "nothing") +
                   "; expected a Tensor or a number; the part cannot be deleted");
      const double number = PyFloat_AsDouble(value);
      if (number == -1 && PyErr_Occurred()) throw PythonError();
      fill_(to, number);
    }
    return 0;
  });
}
int set_real(PyObject* o, PyObject* value, void*) {
  return set_part(o, value, "real", pyflame::real);
}
int set_imag(PyObject* o, PyObject* value, void*) {
  return set_part(o, value, "imag", pyflame::imag);
}
PyObject* get_itemsize(PyObject* o, void*) {
  return PyLong_FromSize_t(itemsize(tensor_of(o)->dtype));
}
PyObject* get_nbytes(PyObject* o, void*) {
  const Tensor& t = tensor_of(o);
  return PyLong_FromSize_t(nbytes(t->dtype, t->numel));
}
PyObject* get_is_cuda(PyObject* o, void*) {
  return PyBool_FromLong(on_gpu(tensor_of(o)));
}
PyObject* get_is_cpu(PyObject* o, void*) {
  return PyBool_FromLong(tensor_of(o)->storage->device.is_cpu());
}
PyObject* get_is_meta(PyObject* o, void*) {
  return PyBool_FromLong(tensor_of(o)->storage->device.type == DeviceType::Meta);
}
PyObject* get_false(PyObject*, void*) {
  Py_RETURN_FALSE;
}
PyObject* get_layout(PyObject*, void*) {
  static PyObject* strided = nullptr;
  if (strided == nullptr)
    if (PyObject* m = PyImport_ImportModule("pyflame._layouts")) {
      strided = PyObject_GetAttrString(m, "strided");
      Py_DECREF(m);
    }
  Py_XINCREF(strided);
  return strided;
}
PyObject* get_version(PyObject* o, void*) {
  if (made_for_inference(*tensor_of(o).impl())) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "pf.Tensor._version: Inference tensors do not track version counter; clone() it");
    return nullptr;
  }
  return PyLong_FromUnsignedLong(seen_version(*tensor_of(o)->storage));
}

}  // namespace

PyGetSetDef kTensorProperties[] = {
    {"shape", get_shape, nullptr, "Sizes of the dimensions, a Size (tuple).", nullptr},
    {"dtype", get_dtype, nullptr, "Type of the elements.", nullptr},
    {"device", get_device, nullptr, "Where the elements live.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "True when gradients flow to this tensor.", nullptr},
    {"grad", get_grad, set_grad, "The gradient accumulated by backward(), or None.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "Node of the operation that made it; None for a leaf.",
     nullptr},
    {"is_leaf", get_is_leaf, nullptr, "True when it is no result of a recorded operation.",
     nullptr},
    {"retains_grad", get_retains_grad, nullptr, "True after retain_grad() of a result.", nullptr},
    {"data", get_data, set_data, "The same values without history.", nullptr},
    {"_base", get_base, nullptr,
     "The tensor whose history writes to this view join; None where none is kept (integers, under "
     "no_grad()).",
     nullptr},
    {"output_nr", get_output_nr, nullptr, "Which result of its grad_fn it is.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"T", get_t, nullptr, "View with the dimensions reversed.", nullptr},
    {"mT", get_mt, nullptr, "View with the last two dimensions swapped.", nullptr},
    {"H", get_h, nullptr, "Conjugate transpose of a matrix.", nullptr},
    {"mH", get_mh, nullptr, "Conjugate transpose of the last two dimensions.", nullptr},
    {"real", get_real, set_real, "The real part, a view; of real numbers the tensor itself.",
     nullptr},
    {"imag", get_imag, set_imag, "The imaginary part, a view.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"is_cuda", get_is_cuda, nullptr, "True on a GPU of any vendor.", nullptr},
    {"is_cpu", get_is_cpu, nullptr, "True on the CPU.", nullptr},
    {"is_sparse", get_false, nullptr, "True in the layout pf.sparse_coo.", nullptr},
    {"is_sparse_csr", get_false, nullptr, "True in the layout pf.sparse_csr.", nullptr},
    {"is_quantized", get_false, nullptr, "False.", nullptr},
    {"is_meta", get_is_meta, nullptr, "True on the device meta: a shape without values.", nullptr},
    {"is_ipu", get_false, nullptr, "False.", nullptr},
    {"is_maia", get_false, nullptr, "False.", nullptr},
    {"is_mkldnn", get_false, nullptr, "False.", nullptr},
    {"is_mps", get_false, nullptr, "False.", nullptr},
    {"is_mtia", get_false, nullptr, "False.", nullptr},
    {"is_vulkan", get_false, nullptr, "False.", nullptr},
    {"is_xla", get_false, nullptr, "False.", nullptr},
    {"is_xpu", get_false, nullptr, "False.", nullptr},
    {"is_nested", get_false, nullptr, "False.", nullptr},
    {"layout", get_layout, nullptr, "pf.strided, pf.sparse_coo or pf.sparse_csr.", nullptr},
    {"_version", get_version, nullptr, "Counts in-place writes.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

}  // namespace pyflame::python
