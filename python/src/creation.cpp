// pf.tensor, as_tensor, asarray: tensors from Python's numbers, nested lists, arrays, tensors.
#include <nanobind/stl/optional.h>

#include <cstring>

#include "common.h"

namespace pyflame::python {

namespace {

bool has_attr(PyObject* o, const char* name) {
  return PyObject_HasAttrString(o, name) == 1;
}
bool is_list(PyObject* o) {
  return PyList_Check(o) || PyTuple_Check(o);
}
// Other sequences (range, deque), which are read as lists; tensors, arrays and texts are none.
bool is_sequence(PyObject* o) {
  return !is_list(o) && PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) &&
         !PyByteArray_Check(o) && !is_tensor(o);
}
// Arrays of others: anything that shows its memory or can make an array of itself.
bool is_array(PyObject* o) {
  return !is_tensor(o) && !PyBytes_Check(o) && !PyByteArray_Check(o) && !PyType_Check(o) &&
         (PyObject_CheckBuffer(o) || has_attr(o, "__array__") ||
          has_attr(o, "__array_interface__"));
}

int rank(Scalar s) {
  return s.is_float() ? 2 : s.is_bool() ? 0 : 1;
}

// ---- nested lists -------------------------------------------------------------------------------
struct Gather {
  explicit Gather(const char* name) : op(name) {}

  const char* op;
  std::vector<Scalar> values;
  std::vector<double> imaginary;  // of each value, once there is a complex one
  std::vector<int64_t> shape;
  int kind = -1;               // highest of bool 0, int 1, float 2, complex 3
  std::optional<DType> typed;  // of NumPy scalars and tensors among the elements
  bool untyped = false;        // there were plain Python numbers
  Obj overflow;                // an int beyond 64 bits
  Obj last_type;               // of NumPy's scalars the last, and its dtype
  DType last_dtype = DType::Float32;

  // The first element of each level says how long all are. A tensor there is a number, as in
  // PyTorch; an array is a list of its rows.
  void find_shape(PyObject* data) {
    Obj held = Obj::share(data);  // what elements run as Python code may change the lists
    for (int depth = 0;; ++depth) {
      if (is_tensor(held.get())) return;
      if (!is_array(held.get()) && is_sequence(held.get()))
        held = Obj(check(PySequence_List(held.get())));
      PyObject* o = held.get();
      if (is_list(o)) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
        shape.push_back(n);
        if (n == 0) return;
        held = Obj::share(PySequence_Fast_GET_ITEM(o, 0));
      } else if (!is_number(o) && is_array(o)) {
        Tensor t = tensor_from_data(o, nullptr, nullptr, true, op);
        for (int64_t s : t->shape) shape.push_back(s);
        return;
      } else {
        return;
      }
      if (depth > kMaxDims)
        PF_FAIL(ShapeError, op, "got lists nested more than ", kMaxDims,
                " deep; expected fewer dimensions; check for a list that contains itself");
    }
  }

  static bool is_number(PyObject* o) {
    Scalar s;
    std::complex<double> c;
    return PyLong_Check(o) || PyFloat_Check(o) || to_complex(o, &c) || to_scalar(o, &s);
  }

  void push(Scalar s) {
    values.push_back(s);
    kind = std::max(kind, rank(s));
    if (!imaginary.empty()) imaginary.push_back(0);
  }
  void push(const std::complex<double>& c) {
    if (imaginary.empty()) imaginary.resize(values.size());
    values.emplace_back(c.real());
    imaginary.push_back(c.imag());
    kind = 3;
  }

  void note(DType t) { typed = typed ? promote(*typed, t) : t; }

  void add(const Tensor& t, size_t depth) {
    const auto rest = static_cast<int>(shape.size() - depth);
    if (rest == 0 && t->numel != 1)
      PF_FAIL(ValueError, op, "got a tensor of shape ", t->shape,
              " among numbers; expected tensors of one element, which are read as numbers; join "
              "larger ones with pyflame.stack or pyflame.cat");
    bool fits = t->shape.size() >= rest;
    for (int i = 0; fits && i < t->shape.size(); ++i)
      fits = t->shape[i] == (i < rest ? shape[depth + static_cast<size_t>(i)] : 1);
    if (!fits) ragged(depth, t->shape.empty() ? 0 : t->shape[0]);
    note(t->dtype);
    if (info(t->dtype).kind == Kind::Complex) {
      for (const std::complex<double>& c : read_complex(t)) push(c);
      return;
    }
    for (Scalar s : read_values(t)) push(s);
  }

  [[noreturn]] void ragged(size_t depth, int64_t n) {
    PF_FAIL(ValueError, op, "got nested lists of different lengths (", n, " at depth ", depth,
            ", the first has ", depth < shape.size() ? shape[depth] : 0,
            "); expected a regular array; pad the shorter ones");
  }

  // The dtype that a number says it has, such as one of NumPy.
  void note_type(PyObject* o) {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
    if (type == last_type.get()) return note(last_dtype);
    if (!has_attr(o, "dtype")) {
      untyped = true;
      return;
    }
    Obj dtype(check(PyObject_GetAttrString(o, "dtype")));
    Obj name(check(PyObject_GetAttrString(dtype.get(), "name")));
    if (!PyUnicode_Check(name.get())) return;
    const DType found = dtype_from_name(text_of(name.get()));
    note(found);
    if (std::strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) == 0) {  // a type there has one dtype
      last_type = Obj::share(type);
      last_dtype = found;
    }
  }

  void collect_items(PyObject* list, size_t depth) {
    const auto check_length = [&] {
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
      if (depth >= shape.size() || n != shape[depth]) ragged(depth, n);
    };
    check_length();
    for (Py_ssize_t i = 0; i < shape[depth]; ++i) {
      check_length();  // __float__ of an element may have changed the list
      collect(Obj::share(PySequence_Fast_GET_ITEM(list, i)).get(), depth + 1);
    }
  }

  void collect(PyObject* o, size_t depth) {
    if (is_list(o)) return collect_items(o, depth);
    if (is_tensor(o)) return add(tensor_of(o), depth);
    Scalar s;
    std::complex<double> c;
    bool wide = false;
    if (PyLong_CheckExact(o)) {
      s = integer_scalar(o, &wide);
      if (wide) overflow = Obj::share(o);
      untyped = true;
    } else if (!PyFloat_CheckExact(o) && to_complex(o, &c)) {
      untyped = true;
      if (depth != shape.size()) ragged(depth, 0);
      return push(c);
    } else if (to_scalar(o, &s)) {
      if (PyFloat_CheckExact(o) || PyBool_Check(o))
        untyped = true;
      else
        note_type(o);
    } else if (is_array(o)) {
      return add(tensor_from_data(o, nullptr, nullptr, true, op), depth);
    } else if (is_sequence(o)) {
      Obj list(check(PySequence_List(o)));
      return collect_items(list.get(), depth);
    } else {
      type_error(std::string("pf.") + op + ": got an element of type " + Py_TYPE(o)->tp_name +
                 "; expected numbers, nested lists or tuples of numbers, arrays or tensors");
    }
    if (depth != shape.size()) ragged(depth, 0);
    const int before = kind;
    push(s);
    if (wide) kind = std::max(before, 1);  // an integer still
  }

  DType dtype() const {
    if (typed && !untyped) return *typed;
    DType plain = kind == 0                           ? DType::Bool
                  : kind == 1                         ? DType::Int64
                  : kind == 2                         ? default_dtype()
                  : default_dtype() == DType::Float64 ? DType::Complex128
                                                      : DType::Complex64;
    return typed ? promote(*typed, plain) : plain;
  }
};

// Negative numbers have no place in an unsigned dtype here, where fill_ wraps them.
template <class T>
T whole(Scalar s, const char* op, DType t) {
  check_range(s, t, op);
  PF_CHECK(info(t).kind == Kind::Int || s.is_unsigned() || s.to_double() > -1, ValueError, op,
           "got the number ", s.to_double(), "; it does not fit in ", t, "; choose a signed dtype");
  if constexpr (std::is_same_v<T, uint64_t>)
    if (s.is_float()) return static_cast<T>(s.f);
  return static_cast<T>(s.to_int());
}

template <class T, class F>
void store_all(std::vector<char>* bytes, const std::vector<Scalar>& values, F&& convert) {
  T* p = reinterpret_cast<T*>(bytes->data());
  for (Scalar s : values) *p++ = convert(s);
}

std::vector<char> encode(const std::vector<Scalar>& v, DType t, const char* op) {
  std::vector<char> b(nbytes(t, static_cast<int64_t>(v.size())));
  auto real = [](Scalar s) { return s.to_double(); };
  auto single = [](Scalar s) { return static_cast<float>(s.to_double()); };
  switch (t) {
    case DType::Float32:
      store_all<float>(&b, v, single);
      break;
    case DType::Float64:
      store_all<double>(&b, v, real);
      break;
    case DType::Float16:
      store_all<float16>(&b, v, [&](Scalar s) { return to_float16(single(s)); });
      break;
    case DType::BFloat16:
      store_all<bfloat16>(&b, v, [&](Scalar s) { return to_bfloat16(single(s)); });
      break;
    case DType::Bool:
      store_all<uint8_t>(&b, v,
                         [](Scalar s) -> uint8_t { return s.is_float() ? s.f != 0 : s.i != 0; });
      break;
#define PF_INTEGER(ID, T)                                              \
  case DType::ID:                                                      \
    store_all<T>(&b, v, [&](Scalar s) { return whole<T>(s, op, t); }); \
    break
      PF_INTEGER(Int64, int64_t);
      PF_INTEGER(Int32, int32_t);
      PF_INTEGER(Int16, int16_t);
      PF_INTEGER(Int8, int8_t);
      PF_INTEGER(UInt8, uint8_t);
      PF_INTEGER(UInt16, uint16_t);
      PF_INTEGER(UInt32, uint32_t);
      PF_INTEGER(UInt64, uint64_t);
#undef PF_INTEGER
    default:  // by conversion
      break;
  }
  return b;
}

// A tensor of `values`, whose imaginary parts are `imaginary` or 0.
Tensor tensor_of_values(const std::vector<Scalar>& values, const std::vector<double>& imaginary,
                        const std::vector<int64_t>& shape, DType t, Device device, const char* op) {
  const Kind kind = info(t).kind;
  if (kind == Kind::Complex) {
    std::vector<std::complex<double>> all;
    for (size_t i = 0; i < values.size(); ++i)
      all.emplace_back(values[i].to_double(), imaginary.empty() ? 0 : imaginary[i]);
    return to(from_host(all.data(), shape, DType::Complex128, device), t);
  }
  for (double v : imaginary)
    PF_CHECK(v == 0, DTypeError, op, "got a complex number for ", t,
             "; expected real numbers; take their .real or choose a complex dtype");
  if (info(t).storage_only && kind != Kind::UInt) {  // float8 and int4
    const DType wide = kind == Kind::Float ? DType::Float64 : DType::Int8;
    if (kind == Kind::Int)
      for (Scalar s : values) check_range(s, t, op);
    return to(tensor_of_values(values, {}, shape, wide, device, op), t);
  }
  return from_host(encode(values, t, op).data(), shape, t, device);
}

Tensor from_nested(PyObject* data, std::optional<DType> dtype, Device device, const char* op) {
  Gather g(op);
  g.find_shape(data);
  g.collect(data, 0);
  DType t = dtype ? *dtype : g.values.empty() && !g.typed ? default_dtype() : g.dtype();
  if (g.overflow && is_integral(t)) {
    Obj text(check(PyObject_Str(g.overflow.get())));
    PF_FAIL(ValueError, op, "got the number ", text_of(text.get()),
            "; it does not fit in 64 bits; pass a float or dtype=pyflame.float64");
  }
  return tensor_of_values(g.values, g.imaginary, g.shape, t, device, op);
}

Device device_or_current(PyObject* device) {
  return device && device != Py_None ? to_usable_device(device) : pyflame::get_device();
}
std::optional<DType> dtype_or_none(PyObject* dtype) {
  if (!dtype || dtype == Py_None) return {};
  return to_dtype(dtype);
}

Tensor with_grad(Tensor t, bool requires_grad) {
  if (requires_grad) t.requires_grad_(true);
  return t;
}

// The device= of Tensor(...), null when there is none.
PyObject* only_device(PyObject* kwargs) {
  PyObject *name, *value, *device = nullptr;
  Py_ssize_t at = 0;
  while (kwargs && PyDict_Next(kwargs, &at, &name, &value)) {
    if (!equals(name, "device"))
      type_error("pf.Tensor: got an unexpected keyword argument '" + text_of(name) +
                 "'; expected none but device; pyflame.tensor takes more");
    device = value;
  }
  return device;
}

}  // namespace

Tensor tensor_from_data(PyObject* data, PyObject* dtype, PyObject* device, bool copy,
                        const char* op) {
  std::optional<DType> type = dtype_or_none(dtype);
  if (is_tensor(data)) {
    const Tensor& source = tensor_of(data);
    Device d = device && device != Py_None ? to_usable_device(device) : source->storage->device;
    Tensor t = copy ? source.detach() : source;
    Tensor r = to(move_to(t, d), type.value_or(t->dtype));
    return copy && r.impl() == t.impl() ? clone(t) : r;
  }
  Scalar number;
  if (PyFloat_CheckExact(data) || PyBool_Check(data)) {
    to_scalar(data, &number);
    DType t = type.value_or(number.is_float() ? default_dtype() : DType::Bool);
    if (is_float(t) || number.is_bool())
      return tensor_of_values({number}, {}, {}, t, device_or_current(device), op);
  }
  if (is_list(data) || PyLong_CheckExact(data) || PyComplex_CheckExact(data))
    return from_nested(data, type, device_or_current(device), op);
  if (is_array(data) && !(Py_TYPE(data)->tp_as_number && to_scalar(data, &number))) {
    Obj array = Obj::share(data);
    if (!PyObject_CheckBuffer(data)) {
      Obj numpy(check(PyImport_ImportModule("numpy")));
      array = Obj(
          check(in_python([&] { return PyObject_CallMethod(numpy.get(), "asarray", "O", data); })));
    }
    Device d = device_or_current(device);
    if (copy || !d.is_cpu()) {
      Tensor t = tensor_from_buffer(array.get(), op, true);
      return to(move_to(t, d), type.value_or(t->dtype));
    }
    Tensor t = tensor_from_buffer(array.get(), op, false);
    return to(t, type.value_or(t->dtype));
  }
  if (to_scalar(data, &number)) return from_nested(data, type, device_or_current(device), op);
  if (PySequence_Check(data) && !PyUnicode_Check(data) && !PyBytes_Check(data)) {
    Obj list(check(PySequence_List(data)));
    return from_nested(list.get(), type, device_or_current(device), op);
  }
  return from_nested(data, type, device_or_current(device), op);  // says what is wrong
}

PyObject* tensor_new(PyTypeObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    // What a subclass's __init__ takes beside the data is its own.
    const bool ours = cls->tp_init == TensorType->tp_init;
    PyObject* device = ours ? only_device(kwargs) : nullptr;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject* first = n ? PyTuple_GET_ITEM(args, 0) : nullptr;
    if (ours && n > 1 && !is_integer(first))
      type_error("pf.Tensor: got " + std::to_string(n) +
                 " arguments; expected sizes, or one list of values, array or tensor; join several "
                 "in a list");
    Tensor t;
    if (n == 0) {
      t = empty({0}, {}, device_or_current(device));
    } else if (is_tensor(first)) {
      t = tensor_of(first).detach();
    } else if (is_integer(first) || Py_TYPE(first) == SizeType) {
      std::vector<int64_t> size;
      if (!to_int_list(n == 1 ? first : args, &size))
        type_error("pf.Tensor: expected sizes, a list of values, an array or a tensor");
      t = empty(size, {}, device_or_current(device));
    } else {
      Obj dtype(wrap(default_dtype()));
      t = tensor_from_data(first, dtype.get(), device, true, "Tensor");
    }
    return wrap_as(cls, std::move(t));
  });
}

void init_creation(nb::module_& m) {
  m.def(
      "tensor",
      [](nb::handle data, nb::handle dtype, nb::handle device, bool requires_grad, bool pin) {
        Tensor t = tensor_from_data(data.ptr(), dtype.ptr(), device.ptr(), true, "tensor");
        return with_grad(pin ? pinned(t) : t, requires_grad);
      },
      nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("requires_grad") = false,
      nb::arg("pin_memory") = false,
      "A tensor from a number, nested lists, an array or a tensor; always a copy.");
  m.def(
      "as_tensor",
      [](nb::handle data, nb::handle dtype, nb::handle device) {
        return tensor_from_data(data.ptr(), dtype.ptr(), device.ptr(), false, "as_tensor");
      },
      nb::arg("data").none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      "Like tensor(), but shares memory with the data where possible.");
  m.def(
      "asarray",
      [](nb::handle data, nb::handle dtype, nb::handle device, nb::handle copy,
         bool requires_grad) {
        bool force = copy.ptr() == Py_True;
        return with_grad(tensor_from_data(data.ptr(), dtype.ptr(), device.ptr(), force, "asarray"),
                         requires_grad);
      },
      nb::arg("obj").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
      nb::arg("requires_grad") = false, "Like as_tensor(); copy=True always copies.");
}

}  // namespace pyflame::python
