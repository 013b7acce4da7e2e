#include "arguments.h"

#include "engine/hidden.h"
#include "ops/complex.h"

namespace pyflame::python {

Signature::Signature(const std::string& schema) : table::Schema(table::parse_schema(schema)) {
  for (const Param& p : params) names.push_back(PyUnicode_InternFromString(p.name.c_str()));
}

namespace {
struct Words {
  const char *text, *or_none, *annotation;
};
constexpr Words kWords[] = {
    // by Type
    {"a Tensor", "a Tensor or None", "Tensor"},
    {"a tuple or list of Tensors", "a tuple or list of Tensors", "Sequence[Tensor]"},
    {"an int", "an int or None", "_int"},
    {"a tuple of ints", "an int, a tuple of ints or None", "_int | Sequence[_int]"},
    {"a float", "a float or None", "_float"},
    {"a tuple of floats", "a float, a tuple of floats or None", "_float | Sequence[_float]"},
    {"a bool", "a bool or None", "_bool"},
    {"a number", "a number or None", "Number"},
    {"a str", "a str or None", "str"},
    {"a dtype", "a dtype or None", "dtype"},
    {"a device", "a device or None", "device | str"},
};
static_assert(std::size(kWords) == static_cast<size_t>(Type::Device) + 1);
const Words& words(Type t) {
  return kWords[static_cast<size_t>(t)];
}
}  // namespace

const char* type_text(Type t, bool optional) {
  return optional ? words(t).or_none : words(t).text;
}
std::string annotation(const Param& p) {
  return std::string(words(p.type).annotation) + (p.optional ? " | None" : "");
}

// Parameters of tensors that a complex number may stand in for; other numbers have overloads.
static bool is_number_too(const std::string& name, bool beside_tensors) {
  return name == "other" || name == "exponent" || name == "value" || name == "fill_value" ||
         (beside_tensors && name == "input");
}

// A complex number is as wide as the tensors beside it.
bool convert_complex(const Param& p, PyObject* o, std::span<PyObject* const> beside,
                     ops::Value* out) {
  std::complex<double> z;
  if (p.type != Type::Tensor || is_tensor(o) || !to_complex(o, &z)) return false;
  bool tensors = false;
  DType type = DType::Complex64;
  for (PyObject* other : beside) {
    if (!other || !is_tensor(other)) continue;
    tensors = true;
    if (complex_type(tensor_of(other)->dtype) == DType::Complex128) type = DType::Complex128;
  }
  if (!is_number_too(p.name, tensors)) return false;
  *out = to(from_host(&z, {}, DType::Complex128), type);
  return true;
}

bool convert(const Param& p, PyObject* o, ops::Value* out) {
  if (o == Py_None) {
    if (p.optional) {
      *out = std::monostate{};
      return true;
    }
    if (p.has_default) {
      *out = p.default_value;
      return true;
    }
    return false;
  }
  switch (p.type) {
    case Type::Tensor:
      if (!is_tensor(o)) return false;
      *out = tensor_of(o);
      return true;
    case Type::TensorList: {
      if (!PyTuple_Check(o) && !PyList_Check(o)) {
        if (is_tensor(o) || !PyIter_Check(o)) return false;
        Obj list(check(PySequence_List(o)));  // a generator
        return convert(p, list.get(), out);
      }
      TensorList list;
      Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
      list.reserve(static_cast<size_t>(n));
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(o, i);
        if (item == Py_None) {
          list.emplace_back();
        } else if (is_tensor(item)) {
          list.push_back(tensor_of(item));
        } else {
          return false;
        }
      }
      *out = std::move(list);
      return true;
    }
    case Type::Int:
      if (!is_integer(o)) return false;
      *out = to_int64(o, p.name.c_str());
      return true;
    case Type::IntList: {
      IntList list;
      if (!to_int_list(o, &list)) return false;
      *out = std::move(list);
      return true;
    }
    case Type::Float:
    case Type::Scalar: {
      Scalar s;
      if (is_tensor(o)) {
        // As a number it would lose its gradient without a word.
        if (!tensor_of(o)->shape.empty() || tensor_of(o).requires_grad()) return false;
        if (engine::is_hidden(tensor_of(o))) return false;  // no one number
        if (info(tensor_of(o)->dtype).kind == Kind::Complex) return false;
        s = tensor_of(o).item();
      } else if (!to_scalar(o, &s)) {
        return false;
      }
      if (p.type == Type::Float)
        *out = s.to_double();
      else
        *out = s;
      return true;
    }
    case Type::FloatList: {
      std::vector<double> list;
      if (!PyTuple_Check(o) && !PyList_Check(o)) {
        Scalar s;
        if (is_tensor(o) || !to_scalar(o, &s)) return false;
        list.push_back(s.to_double());
        *out = std::move(list);
        return true;
      }
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
        const Obj item = Obj::share(PySequence_Fast_GET_ITEM(o, i));  // __float__ may change o
        Scalar s;
        if (!to_scalar(item.get(), &s)) return false;
        list.push_back(s.to_double());
      }
      *out = std::move(list);
      return true;
    }
    case Type::Bool:
      if (!PyBool_Check(o)) {
        Scalar s;
        if (PyLong_Check(o) || PyFloat_Check(o) || !to_scalar(o, &s) || !s.is_bool()) return false;
        *out = s.i != 0;
        return true;
      }
      *out = o == Py_True;
      return true;
    case Type::Str: {
      if (!PyUnicode_Check(o)) return false;
      const char* text = PyUnicode_AsUTF8(o);
      if (!text) throw PythonError();
      *out = std::string(text);
      return true;
    }
    case Type::DType:
      if (!is_dtype_like(o)) return false;
      *out = to_dtype(o);
      return true;
    case Type::Device:
      if (!is_device_like(o) && !(PyLong_Check(o) && !PyBool_Check(o))) return false;
      *out = to_usable_device(o);
      return true;
  }
  return false;
}

}  // namespace pyflame::python
