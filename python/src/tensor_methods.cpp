// Methods of Tensor that are no operations of the table: geometry, conversion, reading values.
#include <optional>

#include "common.h"
#include "core/backends.h"
#include "core/inference.h"
#include "engine/engine.h"

namespace pyflame::python {

namespace {

// ---- geometry -----------------------------------------------------------------------------------
bool parse_dim(PyObject* args, PyObject* kwargs, const char* format, PyObject** dim) {
  static const char* names[] = {"dim", nullptr};
  return PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), dim);
}
PyObject* size(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject* dim = Py_None;
    if (!parse_dim(args, kwargs, "|O:size", &dim)) return nullptr;
    const Dims& shape = tensor_of(o)->shape;
    if (dim == Py_None) return wrap_size(shape);
    int64_t d = to_int64(dim, "dim");
    PF_CHECK(!shape.empty(), IndexError, "Tensor.size", "got dimension ", d,
             " of a 0-d tensor; it has none; call size() without arguments");
    return PyLong_FromLongLong(shape[wrap_dim(d, shape.size(), "Tensor.size")]);
  });
}
PyObject* stride(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject* dim = Py_None;
    if (!parse_dim(args, kwargs, "|O:stride", &dim)) return nullptr;
    const Dims& strides = tensor_of(o)->strides;
    if (dim != Py_None)
      return PyLong_FromLongLong(
          strides[wrap_dim(to_int64(dim, "dim"), strides.size(), "Tensor.stride")]);
    Obj r(check(PyTuple_New(strides.size())));
    for (int i = 0; i < strides.size(); ++i)
      PyTuple_SET_ITEM(r.get(), i, PyLong_FromLongLong(strides[i]));
    return r.release();
  });
}
PyObject* storage_offset(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(tensor_of(o)->offset);
}
PyObject* dim(PyObject* o, PyObject*) {
  return PyLong_FromLong(tensor_of(o)->shape.size());
}
PyObject* numel(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(tensor_of(o)->numel);
}
PyObject* element_size(PyObject* o, PyObject*) {
  return PyLong_FromSize_t(itemsize(tensor_of(o)->dtype));
}
PyObject* is_contiguous(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"memory_format", nullptr};
    PyObject* format = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_contiguous", const_cast<char**>(names),
                                     &format))
      return nullptr;
    return PyBool_FromLong(is_contiguous_as(tensor_of(o), format));
  });
}
PyObject* is_floating_point(PyObject* o, PyObject*) {
  return PyBool_FromLong(is_float(tensor_of(o)->dtype));
}
PyObject* is_complex(PyObject* o, PyObject*) {
  return PyBool_FromLong(info(tensor_of(o)->dtype).kind == Kind::Complex);
}
PyObject* is_signed(PyObject* o, PyObject*) {
  Kind k = info(tensor_of(o)->dtype).kind;
  return PyBool_FromLong(k != Kind::UInt && k != Kind::Bool);
}
PyObject* data_ptr(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromVoidPtr(engine::shared_data(tensor_of(o))); });
}
PyObject* get_device(PyObject* o, PyObject*) {
  Device d = tensor_of(o)->storage->device;
  return PyLong_FromLong(d.is_cpu() ? -1 : d.index);
}
PyObject* no(PyObject*, PyObject*) {
  Py_RETURN_FALSE;
}
PyObject* is_set_to(PyObject* o, PyObject* other) {
  return guarded([&] {
    if (!is_tensor(other)) type_error("is_set_to() takes a Tensor");
    const Tensor &a = tensor_of(o), &b = tensor_of(other);
    return PyBool_FromLong(a->storage == b->storage && a->offset == b->offset &&
                           a->shape == b->shape && a->strides == b->strides);
  });
}
PyObject* shares_storage(PyObject* o, PyObject* other) {
  return guarded([&] {
    if (!is_tensor(other)) type_error("_shares_storage() takes a Tensor");
    return PyBool_FromLong(tensor_of(o)->storage == tensor_of(other)->storage);
  });
}
PyObject* storage_bytes(PyObject* o, PyObject*) {
  return PyLong_FromSize_t(tensor_of(o)->storage->nbytes);
}
PyObject* bytes(PyObject* o, PyObject*) {
  return guarded([&] {
    Tensor t = contiguous(tensor_of(o).detach());
    Obj r(check(
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(nbytes(t->dtype, t->numel)))));
    engine::copy_to_host(PyBytes_AS_STRING(r.get()), t);
    return r.release();
  });
}
PyObject* storage_key(PyObject* o, PyObject*) {
  return PyLong_FromVoidPtr(tensor_of(o)->storage.get());
}

// ---- values -------------------------------------------------------------------------------------
PyObject* item(PyObject* o, PyObject*) {
  return guarded([&] {
    const Tensor& t = tensor_of(o);
    if (t->numel != 1)
      PF_FAIL(ValueError, "Tensor.item", "got a tensor of shape ", t->shape, " with ", t->numel,
              " elements; expected exactly one; index it or reduce it, or use tolist()");
    if (info(t->dtype).kind == Kind::Complex) return wrap(read_complex(t)[0]);
    return wrap(t.item());
  });
}
PyObject* to_complex_number(PyObject* o, PyObject*) {
  Obj number(item(o, nullptr));
  if (!number || PyComplex_CheckExact(number.get())) return number.release();
  const double real = PyFloat_AsDouble(number.get());
  return real == -1 && PyErr_Occurred() ? nullptr : PyComplex_FromDoubles(real, 0);
}
template <class T>
PyObject* nested(const std::vector<T>& values, const Dims& shape, int d, size_t* at) {
  if (d == shape.size()) return check(wrap(values[(*at)++]));
  Obj list(check(PyList_New(shape[d])));
  for (int64_t i = 0; i < shape[d]; ++i) {
    if ((*at & 0xffff) == 0xffff && PyErr_CheckSignals() != 0) check(nullptr);
    PyList_SET_ITEM(list.get(), i, nested(values, shape, d + 1, at));
  }
  return list.release();
}
PyObject* tolist(PyObject* o, PyObject*) {
  return guarded([&] {
    const Tensor& t = tensor_of(o);
    size_t at = 0;
    if (info(t->dtype).kind == Kind::Complex) return nested(read_complex(t), t->shape, 0, &at);
    return nested(read_values(t), t->shape, 0, &at);
  });
}

// ---- conversion ---------------------------------------------------------------------------------
PyObject* converted(PyObject* o, Tensor t) {
  if (t.impl() == tensor_of(o).impl()) {
    Py_INCREF(o);
    return o;
  }
  return wrap(std::move(t));
}
using WithKeywords = PyObject*(PyObject*, PyObject*, PyObject*);
// Python's tuple and dict of arguments in vectorcall's way.
template <class F>
PyObject* flat(PyObject* o, PyObject* args, PyObject* kwargs, F&& call) {
  std::vector<PyObject*> all{o};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) all.push_back(PyTuple_GET_ITEM(args, i));
  const auto nargs = static_cast<Py_ssize_t>(all.size());
  Obj names(check(kwargs ? PySequence_Tuple(kwargs) : PyTuple_New(0)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
    all.push_back(PyDict_GetItemWithError(kwargs, PyTuple_GET_ITEM(names.get(), i)));
  return call(all.data(), nargs, names.get());
}
PyObject* is_inference(PyObject* o, PyObject*) {
  return PyBool_FromLong(made_for_inference(*tensor_of(o).impl()));
}
// A method with Python's arguments, as an operation that subclasses keep.
PyObject* kept(const char* name, WithKeywords* method, PyObject* o, PyObject* args,
               PyObject* kwargs) {
  if (!asking()) [[likely]]
    return method(o, args, kwargs);
  return guarded([&] {
    return flat(o, args, kwargs, [&](PyObject* const* all, Py_ssize_t nargs, PyObject* names) {
      return with_classes(nullptr, name, all, nargs, names,
                          [&] { return method(o, args, kwargs); });
    });
  });
}
constexpr const char* cast_name(DType t) {
  switch (t) {
    case DType::Float32:
      return "float";
    case DType::Float64:
      return "double";
    case DType::Float16:
      return "half";
    case DType::BFloat16:
      return "bfloat16";
    case DType::Int64:
      return "long";
    case DType::Int32:
      return "int";
    case DType::Int16:
      return "short";
    case DType::Int8:
      return "char";
    case DType::UInt8:
      return "byte";
    default:
      return "bool";
  }
}
// The only argument of float() and its like; most calls have none.
MemoryFormat parse_format(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                          const char* name) {
  const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  if (nargs + named == 0) return MemoryFormat::Preserve;
  const bool right =
      nargs == 0 && named == 1 && equals(PyTuple_GET_ITEM(kwnames, 0), "memory_format");
  if (!right)
    type_error(std::string("pf.Tensor.") + name + ": got " + std::to_string(nargs + named) +
               " arguments; expected none but memory_format=; use to() for others");
  return to_memory_format(args[0], (std::string("Tensor.") + name).c_str());
}
template <DType D>
PyObject* cast(PyObject* o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* name = cast_name(D);
    const MemoryFormat format = parse_format(args, nargs, kwnames, name);
    return keeping(name, {o},
                   [&] { return converted(o, contiguous(to(tensor_of(o), D), format)); });
  });
}
PyObject* cpu(PyObject* o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    const MemoryFormat format = parse_format(args, nargs, kwnames, "cpu");
    return keeping("cpu", {o}, [&] {
      return converted(o, contiguous(move_to(tensor_of(o), Device{}), format));
    });
  });
}
PyObject* cuda_plain(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device", "non_blocking", "memory_format", nullptr};
    PyObject *device = Py_None, *format = Py_None;
    int non_blocking = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OpO:cuda", const_cast<char**>(names), &device,
                                     &non_blocking, &format))
      return nullptr;
    Device d = device == Py_None ? parse_device("gpu") : to_usable_device(device);
    return converted(o, contiguous(move_to(tensor_of(o), d, non_blocking != 0),
                                   to_memory_format(format, "Tensor.cuda")));
  });
}

PyObject* cuda(PyObject* o, PyObject* args, PyObject* kwargs) {
  return kept("cuda", cuda_plain, o, args, kwargs);
}

// to(dtype), to(device), to(device, dtype), to(other), each with non_blocking= and copy=
PyObject* to_plain(PyObject* o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    PyObject *dtype = nullptr, *device = nullptr, *other = nullptr;
    bool copy = false, non_blocking = false;
    MemoryFormat format = MemoryFormat::Preserve;
    Py_ssize_t at = 0;
    if (nargs > 0) {
      if (is_dtype_like(args[0])) {
        dtype = args[at++];
      } else if (is_tensor(args[0])) {
        other = args[at++];
      } else {
        device = args[at++];
        if (nargs > 1 && (is_dtype_like(args[1]) || args[1] == Py_None)) dtype = args[at++];
      }
    }
    if (at < nargs) non_blocking = truth(args[at++]);
    if (at < nargs) copy = truth(args[at++]);
    if (at < nargs)
      type_error(
          "pf.to: got too many arguments; expected to(device, dtype, non_blocking, copy), "
          "to(dtype, ...) or to(other, ...)");
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
      PyObject *name = PyTuple_GET_ITEM(kwnames, k), *value = args[nargs + k];
      if (equals(name, "dtype")) {
        dtype = value;
      } else if (equals(name, "device")) {
        device = value;
      } else if (equals(name, "other")) {
        other = value;
      } else if (equals(name, "copy")) {
        copy = truth(value);
      } else if (equals(name, "non_blocking")) {
        non_blocking = truth(value);
      } else if (equals(name, "memory_format")) {
        format = to_memory_format(value, "to");
      } else {
        type_error(std::string("pf.to: got an unexpected keyword argument '") + text_of(name) +
                   "'; expected device, dtype, other, non_blocking, copy, memory_format");
      }
    }
    const Tensor& t = tensor_of(o);
    std::optional<Device> d;
    DType type = t->dtype;
    if (other && !is_tensor(other))
      type_error(std::string("pf.to: got other of type ") + Py_TYPE(other)->tp_name +
                 "; expected a Tensor; give a dtype as dtype= and a device as device=");
    if (other) {
      d = tensor_of(other)->device();
      type = tensor_of(other)->dtype;
    }
    if (device && device != Py_None) d = to_usable_device(device);
    if (dtype && dtype != Py_None) type = to_dtype(dtype);
    // The narrower type travels.
    Tensor r = !d ? pyflame::to(t, type)
               : itemsize(type) < itemsize(t->dtype)
                   ? move_to(pyflame::to(t, type), *d, non_blocking)
                   : pyflame::to(move_to(t, *d, non_blocking), type);
    r = contiguous(r, format);
    if (copy && r.impl() == t.impl()) r = clone(t, MemoryFormat::Preserve);
    return converted(o, std::move(r));
  });
}

PyObject* to_method(PyObject* o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (!asking()) [[likely]]
    return to_plain(o, args, nargs, kwnames);
  return guarded([&] {
    std::vector<PyObject*> all{o};
    all.insert(all.end(), args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    return with_classes(nullptr, "to", all.data(), nargs + 1, kwnames,
                        [&] { return to_plain(o, args, nargs, kwnames); });
  });
}

constexpr std::pair<DType, const char*> kTypeNames[] = {
    {DType::Float32, "FloatTensor"}, {DType::Float64, "DoubleTensor"},
    {DType::Float16, "HalfTensor"},  {DType::BFloat16, "BFloat16Tensor"},
    {DType::Int64, "LongTensor"},    {DType::Int32, "IntTensor"},
    {DType::Int16, "ShortTensor"},   {DType::Int8, "CharTensor"},
    {DType::UInt8, "ByteTensor"},    {DType::Bool, "BoolTensor"}};

// On a GPU where the type's name says so (pyflame.cuda.FloatTensor), else on the CPU.
Tensor of_type(const Tensor& t, DType d, bool gpu) {
  if (gpu == on_gpu(t)) return to(t, d);
  return to(move_to(t, gpu ? parse_device("gpu") : Device{}), d);
}

PyObject* type_plain(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"dtype", "non_blocking", nullptr};
    PyObject *dtype = Py_None, *ignored;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:type", const_cast<char**>(names), &dtype,
                                     &ignored))
      return nullptr;
    const Tensor& t = tensor_of(o);
    if (dtype == Py_None) {
      const std::string package = shown_package() + (on_gpu(t) ? ".cuda." : ".");
      const char* where = package.c_str();
      for (auto [d, n] : kTypeNames)
        if (d == t->dtype) return PyUnicode_FromFormat("%s%s", where, n);
      return PyUnicode_FromFormat("%s%s", where, std::string(name(t->dtype)).c_str());
    }
    if (PyUnicode_Check(dtype)) {
      const char* text = PyUnicode_AsUTF8(dtype);
      if (!text) throw PythonError();
      const std::string full = text;
      const std::string s = full.substr(full.rfind('.') + 1);
      for (auto [d, n] : kTypeNames)
        if (s == n) return converted(o, of_type(t, d, full.find("cuda.") != std::string::npos));
      return converted(o, to(t, dtype_from_name(s)));
    }
    if (PyType_Check(dtype) && PyObject_HasAttrString(dtype, "dtype") &&
        PyObject_HasAttrString(dtype, "is_cuda")) {  // pyflame.FloatTensor and its like
      Obj d(check(PyObject_GetAttrString(dtype, "dtype")));
      Obj gpu(check(PyObject_GetAttrString(dtype, "is_cuda")));
      return converted(o, of_type(t, to_dtype(d.get()), gpu.get() == Py_True));
    }
    return converted(o, to(t, to_dtype(dtype)));
  });
}
PyObject* type(PyObject* o, PyObject* args, PyObject* kwargs) {
  return kept("type", type_plain, o, args, kwargs);
}
PyObject* type_as(PyObject* o, PyObject* other) {
  return guarded([&] {
    if (!is_tensor(other))
      type_error(std::string("pf.Tensor.type_as: got ") + Py_TYPE(other)->tp_name +
                 "; expected a Tensor");
    return keeping("type_as", {o, other}, [&] {
      const Tensor& like = tensor_of(other);
      return converted(o, to(move_to(tensor_of(o), like->device()), like->dtype));
    });
  });
}

// ---- autograd -----------------------------------------------------------------------------------
PyObject* detach(PyObject* o, PyObject*) {
  return guarded(
      [&] { return keeping("detach", {o}, [&] { return wrap(tensor_of(o).detach()); }); });
}
PyObject* pin_memory(PyObject* o, PyObject* args, PyObject* kwargs) {
  return kept("pin_memory", tensor_pin_memory, o, args, kwargs);
}
PyObject* requires_grad_(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"requires_grad", nullptr};
    int on = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:requires_grad_", const_cast<char**>(names),
                                     &on))
      return nullptr;
    tensor_of(o).requires_grad_(on != 0);
    Py_INCREF(o);
    return o;
  });
}
PyObject* make_subclass(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *cls, *data;
    int requires_grad = 0;
    if (!PyArg_ParseTuple(args, "OO|p:_make_subclass", &cls, &data, &requires_grad)) return nullptr;
    if (!PyType_Check(cls) || !is_tensor(data)) type_error("_make_subclass(cls, tensor)");
    PF_CHECK(!tensor_of(data)->storage->sparse, NotSupportedError, "Parameter",
             "got a sparse tensor; expected a dense one; make its values a parameter");
    Obj r(wrap_as(reinterpret_cast<PyTypeObject*>(cls), tensor_of(data).detach()));
    if (requires_grad) tensor_of(r.get()).requires_grad_(true);
    return r.release();
  });
}

constexpr int kKw = METH_VARARGS | METH_KEYWORDS;

const char* name_of(PyCFunction method) {
  const PyMethodDef* m = kTensorMethods;
  while (m->ml_meth != method) ++m;
  return m->ml_name;
}
// Methods that read values or belong to autograd: modes are asked for them, subclasses are not.
template <PyCFunction METHOD>
PyObject* told(PyObject* o, PyObject* arg) {
  if (!asking()) [[likely]]
    return METHOD(o, arg);
  return guarded([&] {
    PyObject* args[] = {o, arg};
    return with_modes(nullptr, name_of(told<METHOD>), args, arg ? 2 : 1, nullptr,
                      [&] { return METHOD(o, arg); });
  });
}
template <WithKeywords* METHOD>
PyObject* told(PyObject* o, PyObject* args, PyObject* kwargs) {
  if (!asking()) [[likely]]
    return METHOD(o, args, kwargs);
  return guarded([&] {
    return flat(o, args, kwargs, [&](PyObject* const* all, Py_ssize_t nargs, PyObject* names) {
      return with_modes(nullptr, name_of(fn(told<METHOD>)), all, nargs, names,
                        [&] { return METHOD(o, args, kwargs); });
    });
  });
}

}  // namespace

PyMethodDef kTensorMethods[] = {
    {"size", fn(size), kKw,
     "size($self, dim=None)\n--\n\nThe shape, or the size of one dimension."},
    {"stride", fn(stride), kKw, "stride($self, dim=None)\n--\n\nSteps in elements."},
    {"storage_offset", storage_offset, METH_NOARGS, "First element's place in its storage."},
    {"dim", dim, METH_NOARGS, "Number of dimensions."},
    {"ndimension", dim, METH_NOARGS, "Number of dimensions."},
    {"numel", numel, METH_NOARGS, "Number of elements."},
    {"nelement", numel, METH_NOARGS, "Number of elements."},
    {"element_size", element_size, METH_NOARGS, "Bytes of one element."},
    {"is_contiguous", fn(is_contiguous), kKw, "True when elements lie in row-major order."},
    {"is_floating_point", is_floating_point, METH_NOARGS, "True for float dtypes."},
    {"is_complex", is_complex, METH_NOARGS, "True for complex dtypes."},
    {"is_signed", is_signed, METH_NOARGS, "True for dtypes with negative values."},
    {"is_pinned", fn(tensor_is_pinned), kKw,
     "is_pinned(device=None): True when it is in memory that GPUs read directly."},
    {"is_inference", is_inference, METH_NOARGS, "True where it was made within inference_mode()."},
    {"pin_memory", fn(pin_memory), kKw,
     "pin_memory(device=None): a copy in memory that GPUs read directly, from which copies with "
     "non_blocking=True do not wait; itself when it is there or there is no GPU."},
    {"record_stream", tensor_record_stream, METH_O,
     "record_stream(stream): its memory is not used again before the stream has come to this "
     "point. Needed only for work that PyFlame does not run itself."},
    {"data_ptr", told<data_ptr>, METH_NOARGS,
     "Address of the first element; runs what is pending."},
    {"get_device", get_device, METH_NOARGS, "Number of the GPU, -1 for the CPU."},
    {"is_set_to", is_set_to, METH_O, "True when it is the same view of the same storage."},
    {"_shares_storage", shares_storage, METH_O, "True when both look at the same memory."},
    {"_storage_bytes", storage_bytes, METH_NOARGS, nullptr},
    {"_bytes", bytes, METH_NOARGS, "The elements as bytes, row-major."},
    {"_storage_key", storage_key, METH_NOARGS, "Identifies the storage while it lives."},
    {"item", told<item>, METH_NOARGS, "item($self)\n--\n\nThe one element as a Python number."},
    {"__complex__", told<to_complex_number>, METH_NOARGS,
     "The one element as a Python complex number."},
    {"tolist", told<tolist>, METH_NOARGS, "tolist($self)\n--\n\nThe elements as nested lists."},
    {"to", fn(to_method), METH_FASTCALL | METH_KEYWORDS,
     "to(dtype), to(device, dtype), to(other): converted or moved; itself when nothing changes."},
    {"type", fn(type), kKw, "type(dtype=None): converted, or the name of its type."},
    {"type_as", type_as, METH_O, "Converted to the dtype and device of another tensor."},
    {"float", fn(cast<DType::Float32>), METH_FASTCALL | METH_KEYWORDS, "To float32."},
    {"double", fn(cast<DType::Float64>), METH_FASTCALL | METH_KEYWORDS, "To float64."},
    {"cfloat", fn(cast<DType::Complex64>), METH_FASTCALL | METH_KEYWORDS, "To complex64."},
    {"cdouble", fn(cast<DType::Complex128>), METH_FASTCALL | METH_KEYWORDS, "To complex128."},
    {"is_conj", no, METH_NOARGS, "False: conjugates are calculated at once."},
    {"is_neg", no, METH_NOARGS, "False: negatives are calculated at once."},
    {"half", fn(cast<DType::Float16>), METH_FASTCALL | METH_KEYWORDS, "To float16."},
    {"bfloat16", fn(cast<DType::BFloat16>), METH_FASTCALL | METH_KEYWORDS, "To bfloat16."},
    {"long", fn(cast<DType::Int64>), METH_FASTCALL | METH_KEYWORDS, "To int64."},
    {"int", fn(cast<DType::Int32>), METH_FASTCALL | METH_KEYWORDS, "To int32."},
    {"short", fn(cast<DType::Int16>), METH_FASTCALL | METH_KEYWORDS, "To int16."},
    {"char", fn(cast<DType::Int8>), METH_FASTCALL | METH_KEYWORDS, "To int8."},
    {"byte", fn(cast<DType::UInt8>), METH_FASTCALL | METH_KEYWORDS, "To uint8."},
    {"bool", fn(cast<DType::Bool>), METH_FASTCALL | METH_KEYWORDS, "To bool."},
    {"cpu", fn(cpu), METH_FASTCALL | METH_KEYWORDS, "On the CPU; itself when it is there."},
    {"cuda", fn(cuda), kKw, "On a GPU of any vendor."},
    {"detach", detach, METH_NOARGS, "The same values without history; shares memory."},
    {"requires_grad_", fn(told<requires_grad_>), kKw, "Sets requires_grad; returns the tensor."},
    {"backward", fn(told<tensor_backward>), kKw,
     "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
     "Computes gradients of this tensor and adds them to the .grad of the leaves."},
    {"register_hook", told<tensor_register_hook>, METH_O,
     "Calls hook(grad) when this tensor's gradient is computed; returns a handle with remove()."},
    {"register_post_accumulate_grad_hook", tensor_register_accumulated, METH_O,
     "Calls hook(tensor) when a backward pass has added to the .grad of this leaf; returns a "
     "handle with remove()."},
    {"retain_grad", told<tensor_retain_grad>, METH_NOARGS, "Keeps .grad of a result, too."},
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, nullptr},
    {"as_subclass", tensor_as_subclass, METH_O,
     "as_subclass(cls): the same memory and history as an object of a subclass of Tensor."},
    {"__torch_function__", fn(tensor_torch_function), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "__torch_function__(func, types, args=(), kwargs=None): func(*args, **kwargs), its results of "
     "this class. A subclass may define its own, and call this one by super(); None switches it "
     "off."},
    {}};

}  // namespace pyflame::python
