#include "schema.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace pyflame::python {

namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Splits at commas outside brackets and quotes.
std::vector<std::string_view> split(std::string_view s) {
  std::vector<std::string_view> parts;
  int depth = 0;
  char quote = 0;
  size_t start = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    char c = s[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '(') {
      ++depth;
    } else if (c == ']' || c == ')') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(trim(s.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (!trim(s.substr(start)).empty()) parts.push_back(trim(s.substr(start)));
  return parts;
}

[[noreturn]] void bad(const std::string& text, std::string_view what) {
  throw std::invalid_argument("pyflame: bad schema '" + text + "': " + std::string(what));
}

Type parse_type(const std::string& text, std::string_view s) {
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"Tensor", Type::Tensor}, {"Tensor[]", Type::TensorList}, {"int", Type::Int},
      {"int[]", Type::IntList}, {"float", Type::Float},         {"float[]", Type::FloatList},
      {"bool", Type::Bool},     {"Scalar", Type::Scalar},       {"str", Type::Str},
      {"dtype", Type::DType},   {"device", Type::Device},       {"Device", Type::Device}};
  for (auto [name, type] : kTypes)
    if (s == name) return type;
  bad(text, "unknown type " + std::string(s));
}

double parse_float(const std::string& s) {
  if (s == "inf") return std::numeric_limits<double>::infinity();
  if (s == "-inf") return -std::numeric_limits<double>::infinity();
  if (s == "nan") return std::nan("");
  return std::stod(s);
}
bool looks_integer(const std::string& s) {
  return !s.empty() && s.find_first_not_of("+-0123456789") == std::string::npos;
}

ops::Value parse_default(const std::string& text, const Param& p) {
  const std::string& s = p.default_text;
  if (s == "None") return {};
  auto inner = [&] { return split(std::string_view(s).substr(1, s.size() - 2)); };
  bool bracketed = !s.empty() && (s[0] == '[' || s[0] == '(');
  switch (p.type) {
    case Type::Int:
      return ops::Value(static_cast<int64_t>(std::stoll(s)));
    case Type::Float:
      return ops::Value(parse_float(s));
    case Type::Bool:
      if (s != "True" && s != "False") bad(text, "a bool is True or False");
      return ops::Value(s == "True");
    case Type::Scalar:
      if (s == "True" || s == "False") return ops::Value(Scalar(s == "True"));
      if (looks_integer(s)) return ops::Value(Scalar(static_cast<int64_t>(std::stoll(s))));
      return ops::Value(Scalar(parse_float(s)));
    case Type::IntList: {
      ops::IntList list;
      if (!bracketed) {
        list.push_back(std::stoll(s));
      } else {
        for (std::string_view v : inner()) list.push_back(std::stoll(std::string(v)));
      }
      return ops::Value(std::move(list));
    }
    case Type::FloatList: {
      std::vector<double> list;
      if (!bracketed) {
        list.push_back(parse_float(s));
      } else {
        for (std::string_view v : inner()) list.push_back(parse_float(std::string(v)));
      }
      return ops::Value(std::move(list));
    }
    case Type::TensorList:
      return ops::Value(ops::TensorList{});
    case Type::Str:
      if (s.size() < 2) bad(text, "a text default needs quotes");
      return ops::Value(s.substr(1, s.size() - 2));
    case Type::DType: {
      std::string n = s.substr(s.rfind('.') + 1);
      return ops::Value(dtype_from_name(n));
    }
    case Type::Device:
      return ops::Value(parse_device(bracketed || s[0] != '\'' ? s : s.substr(1, s.size() - 2)));
    case Type::Tensor:
      bad(text, "the default of a tensor is None");
  }
  return {};
}

}  // namespace

bool Schema::has(std::string_view param) const {
  for (const Param& p : params)
    if (p.name == param) return true;
  return false;
}

Schema parse_schema(const std::string& text) {
  Schema s;
  size_t open = text.find('(');
  size_t arrow = text.rfind("->");
  if (open == std::string::npos) bad(text, "no parameter list");
  size_t close = text.rfind(')', arrow == std::string::npos ? std::string::npos : arrow);
  if (close == std::string::npos || close < open) bad(text, "no closing bracket");
  s.name = std::string(trim(std::string_view(text).substr(0, open)));
  bool keyword_only = false;
  for (std::string_view part : split(std::string_view(text).substr(open + 1, close - open - 1))) {
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    Param p;
    p.keyword_only = keyword_only;
    size_t eq = part.find('=');
    std::string_view head = trim(part.substr(0, eq));
    size_t space = head.rfind(' ');
    if (space == std::string_view::npos) bad(text, "a parameter needs type and name");
    std::string_view names = trim(head.substr(space + 1));
    for (size_t bar; (bar = names.rfind('|')) != std::string_view::npos;
         names = names.substr(0, bar))
      p.aliases.emplace_back(names.substr(bar + 1));
    p.name = std::string(names);
    std::string_view type = trim(head.substr(0, space));
    if (!type.empty() && type.back() == '?') {
      p.optional = true;
      type.remove_suffix(1);
    }
    p.type = parse_type(text, trim(type));
    if (eq != std::string_view::npos) {
      p.has_default = true;
      p.default_text = std::string(trim(part.substr(eq + 1)));
      p.default_value = parse_default(text, p);
      if (p.default_text == "None") p.optional = true;
    }
    p.py_name = PyUnicode_InternFromString(p.name.c_str());
    s.params.push_back(std::move(p));
    if (!keyword_only) ++s.positional;
  }
  if (arrow != std::string::npos)
    s.result = std::string(trim(std::string_view(text).substr(arrow + 2)));
  if (!s.result.empty() && s.result.front() == '(') {
    for (std::string_view part : split(std::string_view(s.result).substr(1, s.result.size() - 2))) {
      size_t space = part.rfind(' ');
      if (space != std::string_view::npos)
        s.result_names.emplace_back(trim(part.substr(space + 1)));
    }
  }
  return s;
}

std::string without_aliases(std::string text) {
  for (size_t bar; (bar = text.find('|')) != std::string::npos;)
    text.erase(bar, text.find_first_of("|=,) ", bar + 1) - bar);
  return text;
}

const char* type_text(Type t, bool optional) {
  switch (t) {
    case Type::Tensor:
      return optional ? "a Tensor or None" : "a Tensor";
    case Type::TensorList:
      return "a tuple or list of Tensors";
    case Type::Int:
      return optional ? "an int or None" : "an int";
    case Type::IntList:
      return optional ? "an int, a tuple of ints or None" : "a tuple of ints";
    case Type::Float:
      return optional ? "a float or None" : "a float";
    case Type::FloatList:
      return "a tuple of floats";
    case Type::Bool:
      return optional ? "a bool or None" : "a bool";
    case Type::Scalar:
      return optional ? "a number or None" : "a number";
    case Type::Str:
      return optional ? "a str or None" : "a str";
    case Type::DType:
      return optional ? "a dtype or None" : "a dtype";
    case Type::Device:
      return optional ? "a device or None" : "a device";
  }
  return "";
}

std::string annotation(const Param& p) {
  const char* base = "";
  switch (p.type) {
    case Type::Tensor:
      base = "Tensor";
      break;
    case Type::TensorList:
      base = "Sequence[Tensor]";
      break;
    case Type::Int:
      base = "_int";
      break;
    case Type::IntList:
      base = "_int | Sequence[_int]";
      break;
    case Type::Float:
      base = "_float";
      break;
    case Type::FloatList:
      base = "Sequence[_float]";
      break;
    case Type::Bool:
      base = "_bool";
      break;
    case Type::Scalar:
      base = "Number";
      break;
    case Type::Str:
      base = "str";
      break;
    case Type::DType:
      base = "dtype";
      break;
    case Type::Device:
      base = "device | str";
      break;
  }
  return std::string(base) + (p.optional ? " | None" : "");
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
      ops::TensorList list;
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
      ops::IntList list;
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
      if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
      std::vector<double> list;
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
