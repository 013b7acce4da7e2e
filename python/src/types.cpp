// dtype objects, devices, Size, and Python numbers as scalars.

#include <algorithm>

#include "common.h"
#include "core/backends.h"

namespace pyflame::python {

PyTypeObject* DTypeType;
PyTypeObject* DeviceType_;
PyTypeObject* SizeType;

std::string& shown_package() {
  static std::string name = "pyflame";
  return name;
}

namespace {

PyObject* dtypes[kNumDTypes];

// ---- dtype --------------------------------------------------------------------------------------
DType dtype_of(PyObject* o) {
  return reinterpret_cast<PyDType*>(o)->value;
}
PyObject* dtype_repr(PyObject* o) {
  return str(shown_package() + "." + std::string(name(dtype_of(o))));
}
PyObject* dtype_reduce(PyObject* o, PyObject*) {
  return str(name(dtype_of(o)));
}
PyObject* dtype_name(PyObject* o, void*) {
  return str(name(dtype_of(o)));
}
PyObject* dtype_itemsize(PyObject* o, void*) {
  return PyLong_FromSize_t(itemsize(dtype_of(o)));
}
PyObject* dtype_bits(PyObject* o, void*) {
  return PyLong_FromLong(info(dtype_of(o)).bits);
}
PyObject* dtype_is_float(PyObject* o, void*) {
  return PyBool_FromLong(is_float(dtype_of(o)));
}
PyObject* dtype_is_complex(PyObject* o, void*) {
  return PyBool_FromLong(info(dtype_of(o)).kind == Kind::Complex);
}
PyObject* dtype_is_signed(PyObject* o, void*) {
  Kind k = info(dtype_of(o)).kind;
  return PyBool_FromLong(k != Kind::UInt && k != Kind::Bool);
}
PyGetSetDef dtype_getset[] = {
    {"name", dtype_name, nullptr, "Name without the package: 'float32'.", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"bits", dtype_bits, nullptr, "Bits of one element.", nullptr},
    {"is_floating_point", dtype_is_float, nullptr, "True for float dtypes.", nullptr},
    {"is_complex", dtype_is_complex, nullptr, "True for complex dtypes.", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "True when negative values exist.", nullptr},
    {}};
PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, nullptr}, {}};
PyType_Slot dtype_slots[] = {
    {Py_tp_repr, slot(dtype_repr)},
    {Py_tp_getset, dtype_getset},
    {Py_tp_methods, dtype_methods},
    {Py_tp_doc, const_cast<char*>("The type of a tensor's elements: pyflame.float32 and so on.")},
    {0, nullptr}};
PyType_Spec dtype_spec = {"pyflame.dtype", sizeof(PyDType), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

// ---- device -------------------------------------------------------------------------------------
// Kinds that PyTorch's programs ask about, and that are not here: they can be named and compared.
constexpr const char* kElsewhere[] = {"mps",    "xpu",   "xla",    "hpu",          "ipu",  "mtia",
                                      "maia",   "ve",    "fpga",   "vulkan",       "lazy", "mkldnn",
                                      "opengl", "ideep", "opencl", "privateuseone"};
struct NamedDevice : PyDevice {
  const char* elsewhere;  // one of those, or null
  int number;             // -1: none was named
};
const NamedDevice* elsewhere(PyObject* o) {
  const auto* d = reinterpret_cast<NamedDevice*>(o);
  return Py_TYPE(o) == DeviceType_ && d->elsewhere ? d : nullptr;
}
std::string name_of(const NamedDevice* d) {
  return d->elsewhere + (d->number < 0 ? "" : ":" + std::to_string(d->number));
}
// The device of such a name, or null where the name is another's.
PyObject* named_elsewhere(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  const auto* found = std::ranges::find(kElsewhere, kind);
  if (found == std::end(kElsewhere)) return nullptr;
  int number = -1;
  if (kind.size() < name.size()) try {  // as "cpu:1" is read
      number = parse_device("cuda" + std::string(name.substr(kind.size()))).index;
    } catch (const DeviceError&) {
      PF_FAIL(DeviceError, "device", "got '", name, "'; the index after ':' must be 0 to 127");
    }
  auto* d = reinterpret_cast<NamedDevice*>(check(wrap(Device{})));
  d->elsewhere = *found;
  d->number = number;
  return reinterpret_cast<PyObject*>(d);
}
Device device_of(PyObject* o) {
  return reinterpret_cast<PyDevice*>(o)->value;
}
// Whether its number is told: the one CPU, and meta, have none unless they were named by it.
bool has_number(PyObject* o) {
  const Device d = device_of(o);
  return (!d.is_cpu() && d.type != DeviceType::Meta) || reinterpret_cast<PyDevice*>(o)->numbered;
}
std::string backend_name(Device d) {
  std::string s = d.str();
  return s.substr(0, s.find(':'));
}
PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"type", "index", nullptr};
    PyObject *type, *index = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names), &type,
                                     &index))
      return nullptr;
    if (Py_TYPE(type) == DeviceType_ && index == Py_None) return Py_NewRef(type);
    if (index == Py_None && !PyUnicode_Check(type)) return wrap(to_device(type));
    if (!PyUnicode_Check(type)) type_error("pf.device: an index needs a device type as text");
    std::string name = check(PyUnicode_AsUTF8(type) ? type : nullptr) ? PyUnicode_AsUTF8(type) : "";
    if (index != Py_None) name += ":" + std::to_string(to_int64(index, "device index"));
    if (PyObject* other = named_elsewhere(name)) return other;
    Obj made(check(wrap(parse_device(name))));
    reinterpret_cast<PyDevice*>(made.get())->numbered = name.find(':') != std::string::npos;
    return made.release();
  });
}
// PyTorch's programs know GPUs of either vendor as cuda, which names an AMD one where there is no
// other.
Device shown(Device d) {
  if (d.type == DeviceType::ROCm && shown_package() != "pyflame" &&
      device_count(DeviceType::CUDA) == 0)
    d.type = DeviceType::CUDA;
  return d;
}
PyObject* device_repr(PyObject* o) {
  if (const NamedDevice* d = elsewhere(o))
    return d->number < 0
               ? PyUnicode_FromFormat("device(type='%s')", d->elsewhere)
               : PyUnicode_FromFormat("device(type='%s', index=%d)", d->elsewhere, d->number);
  const Device d = shown(device_of(o));
  const std::string b = backend_name(d);
  return has_number(o) ? PyUnicode_FromFormat("device(type='%s', index=%d)", b.c_str(), d.index)
                       : PyUnicode_FromFormat("device(type='%s')", b.c_str());
}
PyObject* device_str(PyObject* o) {
  if (const NamedDevice* d = elsewhere(o)) return str(name_of(d));
  const Device d = shown(device_of(o));
  const std::string b = backend_name(d);
  return str(has_number(o) ? b + ":" + std::to_string(d.index) : b);
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !(Py_TYPE(b) == DeviceType_ || PyUnicode_Check(b)))
    Py_RETURN_NOTIMPLEMENTED;
  bool equal = false;
  try {
    if (const NamedDevice* d = elsewhere(a)) {
      const NamedDevice* other = elsewhere(b);
      equal = other ? name_of(d) == name_of(other) : PyUnicode_Check(b) && name_of(d) == text_of(b);
    } else if (!elsewhere(b)) {
      equal = device_of(a) == to_device(b);
    }
  } catch (const Error&) {  // not the name of a device
  } catch (const PythonError&) {
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return nullptr;
    PyErr_Clear();  // nor is half a surrogate pair
  } catch (...) {
    raise_current();
    return nullptr;
  }
  return PyBool_FromLong(equal == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* o) {  // equal to the hash of its name: they compare equal
  const NamedDevice* d = elsewhere(o);
  Obj s(str(d ? name_of(d) : shown(device_of(o)).str()));
  return s ? PyObject_Hash(s.get()) : -1;
}
PyObject* device_type(PyObject* o, void*) {
  if (const NamedDevice* other = elsewhere(o)) return str(other->elsewhere);
  Device d = device_of(o);
  if (d.type == DeviceType::ROCm || d.type == DeviceType::CUDA) return str("cuda");
  return str(backend_name(d));
}
PyObject* device_backend(PyObject* o, void*) {
  if (const NamedDevice* other = elsewhere(o)) return str(other->elsewhere);
  return str(backend_name(device_of(o)));
}
PyObject* device_index(PyObject* o, void*) {
  if (const NamedDevice* other = elsewhere(o); other && other->number >= 0)
    return PyLong_FromLong(other->number);
  if (!has_number(o)) Py_RETURN_NONE;
  return PyLong_FromLong(device_of(o).index);
}
PyObject* device_reduce(PyObject* o, PyObject*) {
  return Py_BuildValue("(O(N))", DeviceType_, device_str(o));
}
thread_local std::vector<Device> entered;
PyObject* device_enter(PyObject* o, PyObject*) {
  return guarded([&] {
    Device before = get_device();
    set_device(to_device(o));
    entered.push_back(before);
    Py_INCREF(o);
    return o;
  });
}
PyObject* device_exit(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (!entered.empty()) {
      Device before = entered.back();
      entered.pop_back();
      set_device(before);
    }
    Py_RETURN_NONE;
  });
}
PyGetSetDef device_getset[] = {
    {"type", device_type, nullptr, "'cpu', 'meta', or 'cuda' for a GPU of any vendor.", nullptr},
    {"backend", device_backend, nullptr, "'cpu', 'rocm' or 'cuda': which one it really is.",
     nullptr},
    {"index", device_index, nullptr, "Number of the GPU; None for the CPU, unless named cpu:0.",
     nullptr},
    {}};
PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, nullptr},
    {"__enter__", device_enter, METH_NOARGS, "Makes it the thread's current device."},
    {"__exit__", device_exit, METH_VARARGS, nullptr},
    {}};
PyType_Slot device_slots[] = {
    {Py_tp_new, slot(device_new)},
    {Py_tp_repr, slot(device_repr)},
    {Py_tp_str, slot(device_str)},
    {Py_tp_hash, slot(device_hash)},
    {Py_tp_richcompare, slot(device_compare)},
    {Py_tp_getset, device_getset},
    {Py_tp_methods, device_methods},
    {Py_tp_doc,
     const_cast<char*>("device(type, index=None)\n--\n\nA device: pyflame.device('cpu'), "
                       "device('gpu:0'), device('rocm', 1).")},
    {0, nullptr}};
PyType_Spec device_spec = {"pyflame.device", sizeof(NamedDevice), 0, Py_TPFLAGS_DEFAULT,
                           device_slots};

// ---- Size ---------------------------------------------------------------------------------------
PyObject* as_size(PyObject* tuple) {  // steals; passes errors and other types on
  if (!tuple || Py_TYPE(tuple) == SizeType || !PyTuple_Check(tuple)) return tuple;
  Obj t(tuple);
  Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  PyObject* r = SizeType->tp_alloc(SizeType, n);
  if (!r) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Py_INCREF(PyTuple_GET_ITEM(tuple, i));
    PyTuple_SET_ITEM(r, i, PyTuple_GET_ITEM(tuple, i));
  }
  return r;
}
PyObject* size_numel(PyObject* o, PyObject*) {
  Obj n(PyLong_FromLong(1));  // Python's ints: the product may be beyond 64 bits
  for (Py_ssize_t i = 0; n && i < PyTuple_GET_SIZE(o); ++i)
    n = Obj(PyNumber_Multiply(n.get(), PyTuple_GET_ITEM(o, i)));
  return n.release();
}
PyObject* size_new(PyTypeObject* cls, PyObject* args, PyObject* kwargs) {
  Obj t(PyTuple_Type.tp_new(cls, args, kwargs));
  if (!t) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(t.get(), i);
    if (!PyLong_CheckExact(item)) {
      PyObject* index =
          PyBool_Check(item) ? PyLong_FromLong(item == Py_True) : PyNumber_Index(item);
      if (!index && !PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
      if (!index)
        return PyErr_Format(PyExc_TypeError,
                            "pf.Size: got a %s at place %zd; expected ints; convert it with int()",
                            Py_TYPE(item)->tp_name, i);
      PyTuple_SET_ITEM(t.get(), i, index);
      Py_DECREF(item);
      item = index;
    }
    int over = 0;
    PyLong_AsLongLongAndOverflow(item, &over);
    if (over)
      return PyErr_Format(PyExc_ValueError,
                          "pf.Size: got %S at place %zd; expected ints of 64 bits; use a tuple",
                          item, i);
  }
  return t.release();
}
// (4,) + size is a Size, too.
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_repr(PyObject* o) {
  Obj list(PySequence_List(o));
  if (!list) return nullptr;
  return PyUnicode_FromFormat("%s.Size(%R)", shown_package().c_str(), list.get());
}
PyObject* size_subscript(PyObject* o, PyObject* key) {
  return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(o, key));
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_repeat(PyObject* a, Py_ssize_t n) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n));
}
PyObject* size_reduce(PyObject* o, PyObject*) {
  return Py_BuildValue("(O(N))", SizeType, PySequence_Tuple(o));
}
PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "numel($self)\n--\n\nProduct of the sizes."},
    {"__reduce__", size_reduce, METH_NOARGS, nullptr},
    {}};
PyType_Slot size_slots[] = {
    {Py_tp_new, slot(size_new)},
    {Py_tp_repr, slot(size_repr)},
    {Py_mp_subscript, slot(size_subscript)},
    {Py_nb_add, slot(size_add)},
    {Py_sq_concat, slot(size_concat)},
    {Py_sq_repeat, slot(size_repeat)},
    {Py_tp_methods, size_methods},
    {Py_tp_doc, const_cast<char*>("The shape of a tensor: a tuple of ints.")},
    {0, nullptr}};
PyType_Spec size_spec = {"pyflame.Size", 0, 0, Py_TPFLAGS_DEFAULT, size_slots};

PyTypeObject* add_type(PyObject* module, PyType_Spec* spec, PyObject* bases, const char* name) {
  PyObject* t = check(PyType_FromSpecWithBases(spec, bases));
  check(PyModule_AddObjectRef(module, name, t));
  return reinterpret_cast<PyTypeObject*>(t);
}

}  // namespace

void init_types(PyObject* module) {
  DTypeType = add_type(module, &dtype_spec, nullptr, "dtype");
  DeviceType_ = add_type(module, &device_spec, nullptr, "device");
  SizeType = add_type(module, &size_spec, reinterpret_cast<PyObject*>(&PyTuple_Type), "Size");
  for (const DTypeInfo& row : kDTypes) {
    auto* o = PyObject_New(PyDType, DTypeType);
    o->value = row.id;
    dtypes[static_cast<int>(row.id)] = reinterpret_cast<PyObject*>(o);
    check(PyModule_AddObjectRef(module, std::string(row.name).c_str(),
                                reinterpret_cast<PyObject*>(o)));
  }
  static constexpr std::pair<const char*, DType> aliases[] = {
      {"float", DType::Float32}, {"double", DType::Float64}, {"half", DType::Float16},
      {"long", DType::Int64},    {"int", DType::Int32},      {"short", DType::Int16}};
  for (auto [alias, t] : aliases)
    check(PyModule_AddObjectRef(module, alias, dtypes[static_cast<int>(t)]));
}

PyObject* wrap(DType t) {
  PyObject* o = dtypes[static_cast<int>(t)];
  Py_INCREF(o);
  return o;
}
PyObject* wrap(Device d) {
  auto* o = PyObject_New(NamedDevice, DeviceType_);
  if (!o) return nullptr;
  o->value = d;
  o->numbered = false;
  o->elsewhere = nullptr;
  o->number = -1;
  return reinterpret_cast<PyObject*>(o);
}
PyObject* wrap_size(const Dims& dims) {
  PyObject* r = SizeType->tp_alloc(SizeType, dims.size());
  if (!r) return nullptr;
  for (int i = 0; i < dims.size(); ++i) PyTuple_SET_ITEM(r, i, PyLong_FromLongLong(dims[i]));
  return r;
}

bool is_dtype_like(PyObject* o) {
  return Py_TYPE(o) == DTypeType || o == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
         o == reinterpret_cast<PyObject*>(&PyLong_Type) ||
         o == reinterpret_cast<PyObject*>(&PyBool_Type);
}
DType to_dtype(PyObject* o) {
  if (Py_TYPE(o) == DTypeType) return dtype_of(o);
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::Float64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::Int64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::Bool;
  type_error(std::string("pf.dtype: got an object of type ") + Py_TYPE(o)->tp_name +
             "; expected a dtype such as pyflame.float32");
}
bool is_device_like(PyObject* o) {
  return Py_TYPE(o) == DeviceType_ || PyUnicode_Check(o);
}
Device to_device(PyObject* o) {
  if (const NamedDevice* d = elsewhere(o))
    PF_FAIL(DeviceError, "device", "got '", name_of(d),
            "'; there is no such device in PyFlame; expected cpu, or cuda for a GPU");
  if (Py_TYPE(o) == DeviceType_) return device_of(o);
  if (PyUnicode_Check(o)) {
    Py_ssize_t n;
    const char* s = PyUnicode_AsUTF8AndSize(o, &n);
    if (!s) throw PythonError();
    return parse_device({s, static_cast<size_t>(n)});
  }
  if (PyLong_Check(o) && !PyBool_Check(o))  // PyTorch: a bare number is a GPU
    return parse_device("gpu:" + std::to_string(to_int64(o, "device")));
  type_error(std::string("pf.device: got an object of type ") + Py_TYPE(o)->tp_name +
             "; expected a device, its name ('cpu', 'gpu:0') or the number of a GPU");
}

MemoryFormat to_memory_format(PyObject* o, const char* op) {
  if (!o || o == Py_None) return MemoryFormat::Preserve;
  if (!PyUnicode_Check(o))
    type_error(std::string("pf.") + op + ": got a memory_format of type " + Py_TYPE(o)->tp_name +
               "; expected pyflame.contiguous_format, preserve_format, channels_last or "
               "channels_last_3d");
  return memory_format_from(text_of(o), op);
}

bool is_contiguous_as(const Tensor& t, PyObject* name) {
  const MemoryFormat format = to_memory_format(name, "Tensor.is_contiguous");
  return format == MemoryFormat::Preserve ? t->contiguous : lies_in(format, t->shape, t->strides);
}

Device to_usable_device(PyObject* o) {
  Device d = to_device(o);
  if (!d.is_cpu()) usable_backend_of(d);
  return d;
}

// ---- numbers ------------------------------------------------------------------------------------
namespace {
bool has_index(PyObject* o) {
  auto* n = Py_TYPE(o)->tp_as_number;
  return n && n->nb_index;
}
bool is_numpy_bool(PyObject* o) {
  const char* n = Py_TYPE(o)->tp_name;
  return std::strcmp(n, "numpy.bool_") == 0 || std::strcmp(n, "numpy.bool") == 0;
}
}  // namespace

Scalar integer_scalar(PyObject* o, bool* wide) {
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (v == -1 && PyErr_Occurred()) throw PythonError();
  if (!overflow) return Scalar(static_cast<int64_t>(v));
  if (overflow > 0) {
    const unsigned long long u = PyLong_AsUnsignedLongLong(o);
    if (!PyErr_Occurred()) return Scalar::of_unsigned(u);
    PyErr_Clear();
  }
  if (!wide)
    PF_FAIL(ValueError, "number", "got an integer of more than 64 bits; expected one that an ",
            "integer dtype holds; pass a float where its value may be rounded");
  *wide = true;
  const double d = PyLong_AsDouble(o);
  if (d == -1.0 && PyErr_Occurred()) throw PythonError();
  return Scalar(d);
}

void clear_no_number() {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError) &&
      !PyErr_ExceptionMatches(PyExc_OverflowError))
    throw PythonError();
  PyErr_Clear();
}

bool truth(PyObject* o) {
  const int v = PyObject_IsTrue(o);
  check(v);
  return v != 0;
}

bool to_scalar(PyObject* o, Scalar* out) {
  if (PyFloat_CheckExact(o)) {
    *out = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyBool_Check(o)) {
    *out = Scalar(o == Py_True);
    return true;
  }
  if (PyLong_Check(o)) {
    *out = integer_scalar(o);
    return true;
  }
  if (PyFloat_Check(o)) {
    *out = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (is_tensor(o) || PyUnicode_Check(o)) return false;
  if (is_numpy_bool(o)) {
    *out = Scalar(truth(o));
    return true;
  }
  auto* n = Py_TYPE(o)->tp_as_number;
  if (!n) return false;
  // An array has __float__ and __index__ too, which fail when it has several elements.
  if (Py_TYPE(o)->tp_as_sequence && Py_TYPE(o)->tp_as_sequence->sq_length) return false;
  if (n->nb_index) {
    Obj i(PyNumber_Index(o));
    if (!i) {
      clear_no_number();
      return false;
    }
    *out = integer_scalar(i.get());
    return true;
  }
  if (n->nb_float && !PyComplex_Check(o)) {
    double d = PyFloat_AsDouble(o);
    if (d == -1.0 && PyErr_Occurred()) {
      clear_no_number();
      return false;
    }
    *out = Scalar(d);
    return true;
  }
  return false;
}

bool is_integer(PyObject* o) {
  if (PyLong_CheckExact(o)) return true;
  if (PyBool_Check(o)) return false;
  if (PyLong_Check(o)) return true;
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    return t->numel == 1 && pyflame::is_integral(t->dtype);
  }
  return has_index(o) && !is_numpy_bool(o) &&
         !(Py_TYPE(o)->tp_as_sequence && Py_TYPE(o)->tp_as_sequence->sq_length);
}

int64_t to_int64(PyObject* o, const char* what) {
  if (PyLong_CheckExact(o)) {
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return v;
  }
  Obj index(PyNumber_Index(o));
  if (!index) throw PythonError();
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (v == -1 && !overflow && PyErr_Occurred()) throw PythonError();
  if (overflow) {
    PyErr_Format(PyExc_OverflowError, "pf: %s does not fit in 64 bits", what);
    throw PythonError();
  }
  return v;
}

PyObject* wrap(Scalar s) {
  if (s.is_float()) return PyFloat_FromDouble(s.f);
  if (s.is_bool()) return PyBool_FromLong(s.i != 0);
  if (s.is_unsigned()) return PyLong_FromUnsignedLongLong(static_cast<uint64_t>(s.i));
  return PyLong_FromLongLong(s.i);
}
PyObject* wrap(const std::complex<double>& v) {
  return PyComplex_FromDoubles(v.real(), v.imag());
}
bool to_complex(PyObject* o, std::complex<double>* out) {
  if (is_tensor(o)) return false;
  const std::string_view type = Py_TYPE(o)->tp_name;
  if (!PyComplex_Check(o) && type != "numpy.complex64") return false;
  const Py_complex c = PyComplex_AsCComplex(o);
  if (c.real == -1 && PyErr_Occurred()) throw PythonError();
  *out = {c.real, c.imag};
  return true;
}

bool to_int_list(PyObject* o, std::vector<int64_t>* out) {
  if (is_integer(o)) {
    out->push_back(to_int64(o, "a size"));
    return true;
  }
  if (!PyTuple_Check(o) && !PyList_Check(o)) {
    if (!is_tensor(o) || tensor_of(o)->shape.size() != 1 ||
        !pyflame::is_integral(tensor_of(o)->dtype))
      return false;
    for (Scalar s : read_values(tensor_of(o))) {
      Obj number(check(wrap(s)));
      out->push_back(to_int64(number.get(), "a size"));
    }
    return true;
  }
  out->reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(o)));
  // __index__ of an item may change the list.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    const Obj item = Obj::share(PySequence_Fast_GET_ITEM(o, i));
    if (!is_integer(item.get())) return false;
    out->push_back(to_int64(item.get(), "a size"));
  }
  return true;
}

}  // namespace pyflame::python
