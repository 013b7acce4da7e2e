// Files from Python: trees of values (pf.save, pf.load) and plain safetensors.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "common.h"
#include "pyflame/io.h"

namespace pyflame::python {

namespace {

using io::Tree;

[[noreturn]] void raise_pending() {
  throw nb::python_error();
}

Tree to_tree(PyObject* o, int depth) {
  PF_CHECK(depth <= io::kMaxTreeDepth, ValueError, "save", "got values nested deeper than ",
           io::kMaxTreeDepth,
           "; expected a flatter tree without cycles; check for a list or dict "
           "that contains itself");
  if (o == Py_None) return {};
  if (PyBool_Check(o)) return {o == Py_True};
  if (is_tensor(o)) return {tensor_of(o)};
  if (PyLong_Check(o)) {
    int overflow = 0;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (v == -1 && PyErr_Occurred()) raise_pending();
    if (!overflow) return {static_cast<int64_t>(v)};
    nb::object text = nb::steal(PyNumber_ToBase(o, 10));
    if (!text.is_valid()) raise_pending();
    return {Tree::BigInt{nb::cast<std::string>(text)}};
  }
  if (PyFloat_Check(o)) return {PyFloat_AsDouble(o)};
  if (PyUnicode_Check(o)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(o, &size);
    if (!text) raise_pending();
    return {std::string(text, static_cast<size_t>(size))};
  }
  if (PyBytes_Check(o))
    return {
        Tree::Bytes{std::string(PyBytes_AS_STRING(o), static_cast<size_t>(PyBytes_GET_SIZE(o)))}};
  if (PyList_Check(o) || PyTuple_Check(o)) {
    Tree::List items;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      items.push_back(to_tree(PySequence_Fast_GET_ITEM(o, i), depth + 1));
    if (PyList_Check(o)) return {std::move(items)};
    return {Tree::Tuple{std::move(items)}};
  }
  if (PyDict_Check(o)) {
    Tree::Dict dict;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(o, &at, &key, &value))
      dict.items.push_back({to_tree(key, depth + 1), to_tree(value, depth + 1)});
    return {std::move(dict)};
  }
  std::string type = Py_TYPE(o)->tp_name;
  if (type == "numpy.bool" || type == "numpy.bool_") {
    int truth = PyObject_IsTrue(o);
    if (truth < 0) raise_pending();
    return {truth == 1};
  }
  // NumPy's scalars stand for the numbers they hold; arrays must be made tensors by the caller.
  const bool sized = PyObject_HasAttrString(o, "__len__");
  if (!sized && PyIndex_Check(o)) {
    nb::object n = nb::steal(PyNumber_Index(o));
    if (!n.is_valid()) raise_pending();
    return to_tree(n.ptr(), depth);
  }
  if (!sized && Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) {
    nb::object n = nb::steal(PyNumber_Float(o));
    if (!n.is_valid()) raise_pending();
    return to_tree(n.ptr(), depth);
  }
  PyErr_Format(PyExc_TypeError,
               "pf.save: got a value of type '%s'; expected tensors, numbers, text, bytes, None "
               "and lists, tuples and dicts of them; save its state instead (state_dict(), "
               "pf.from_numpy(array), vars(object))",
               type.c_str());
  raise_pending();
}

nb::object to_python(const Tree& tree) {
  return std::visit(
      [](const auto& v) -> nb::object {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
          return nb::cast(v);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return nb::steal(PyLong_FromLongLong(v));
        } else if constexpr (std::is_same_v<T, double>) {
          return nb::steal(PyFloat_FromDouble(v));
        } else if constexpr (std::is_same_v<T, Tensor>) {
          return nb::steal(wrap(v));
        } else if constexpr (std::is_same_v<T, Tree::BigInt>) {
          PyObject* n = PyLong_FromString(v.digits.c_str(), nullptr, 10);
          if (!n) raise_pending();
          return nb::steal(n);
        } else if constexpr (std::is_same_v<T, Tree::Bytes>) {
          return nb::bytes(v.data.data(), v.data.size());
        } else if constexpr (std::is_same_v<T, Tree::List>) {
          nb::list list;
          for (const Tree& item : v) list.append(to_python(item));
          return list;
        } else if constexpr (std::is_same_v<T, Tree::Tuple>) {
          nb::list list;
          for (const Tree& item : v.items) list.append(to_python(item));
          return nb::steal(PyList_AsTuple(list.ptr()));
        } else {
          nb::dict dict;
          for (const auto& [key, value] : v.items) {
            nb::object k = to_python(key);
            if (PyDict_SetItem(dict.ptr(), k.ptr(), to_python(value).ptr()) < 0) raise_pending();
          }
          return dict;
        }
      },
      tree.value);
}

Device device_or_cpu(nb::handle device) {
  return device.is_none() ? Device{}.afloat() : to_device(device.ptr());
}

io::Load how(bool mmap) {
  return mmap ? io::Load::Map : io::Load::Copy;
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def(
      "_save_tree",
      [](nb::handle value, const std::string& path) {
        io::save_tree(path, to_tree(value.ptr(), 0));
      },
      nb::arg("value").none(), nb::arg("path"));
  m.def(
      "_load_tree",
      [](const std::string& path, nb::handle device, bool mmap) {
        return to_python(io::load_tree(path, device_or_cpu(device), how(mmap)));
      },
      nb::arg("path"), nb::arg("device").none(), nb::arg("mmap"));
  m.def("_save_safetensors", [](nb::dict tensors, const std::string& path, nb::dict metadata) {
    std::vector<io::NamedTensor> named;
    for (auto [key, value] : tensors) {
      if (!PyUnicode_Check(key.ptr()) || !is_tensor(value.ptr()))
        type_error(
            "pf.safetensors.save_file: got something else than names and tensors; expected "
            "a dict of str to Tensor; use pf.save for other values");
      named.push_back({nb::cast<std::string>(key), tensor_of(value.ptr())});
    }
    io::Metadata text;
    for (auto [key, value] : metadata)
      text[nb::cast<std::string>(key)] = nb::cast<std::string>(value);
    io::save_safetensors(path, named, text);
  });
  m.def(
      "_load_safetensors",
      [](const std::string& path, nb::handle device, bool mmap) {
        nb::dict out;
        for (auto& t : io::load_safetensors(path, device_or_cpu(device), how(mmap)))
          out[nb::cast(t.name)] = nb::steal(wrap(t.tensor));
        return out;
      },
      nb::arg("path"), nb::arg("device").none(), nb::arg("mmap"));
  // Names, dtypes and shapes without reading the data.
  m.def("_inspect_safetensors", [](const std::string& path) {
    io::SafetensorsFile file(path);
    nb::dict tensors, metadata;
    for (const auto& e : file.entries())
      tensors[nb::cast(e.name)] =
          nb::make_tuple(nb::steal(wrap(e.dtype)), nb::steal(wrap_size(e.shape)));
    for (const auto& [key, value] : file.metadata()) metadata[nb::cast(key)] = nb::cast(value);
    return nb::make_tuple(tensors, metadata);
  });
  m.def("_write_file", [](const std::string& path, nb::bytes data) {
    io::write_file_atomically(path, data.data(), data.size());
  });
}

}  // namespace pyflame::python
