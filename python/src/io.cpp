// Files from Python: trees of values (pf.save, pf.load) and plain safetensors.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <vector>

#include "common.h"
#include "engine/engine.h"
#include "files/file.h"
#include "io/stored.h"
#include "pyflame/io.h"

namespace pyflame::python {

namespace {

using io::Tree;

// Makes a tree of Python's values. What is not of one of the plain types exactly is asked of
// `describe` (serialization): a pair of a type's name and a plain value, or why there is none.
class Describer {
 public:
  explicit Describer(PyObject* describe) : describe_(describe) {}

  Tree tree(PyObject* o, int depth = 0, bool described = false) {
    PF_CHECK(depth <= io::kMaxTreeDepth, ValueError, "save", "got values nested deeper than ",
             io::kMaxTreeDepth,
             "; expected a flatter tree without cycles; check for a list or dict "
             "that contains itself");
    if (o == Py_None) return {};
    if (PyBool_Check(o)) return {o == Py_True};
    if (Py_TYPE(o) == TensorType) return {tensor_of(o)};
    if (PyLong_CheckExact(o)) return integer(o);
    if (PyFloat_CheckExact(o)) return {PyFloat_AS_DOUBLE(o)};
    if (PyUnicode_CheckExact(o)) {
      Py_ssize_t size = 0;
      if (const char* text = PyUnicode_AsUTF8AndSize(o, &size))
        return {std::string(text, static_cast<size_t>(size))};
      if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw_python_error();
      PyErr_Clear();  // half a surrogate pair, as in names of files that are not UTF-8
      return special(o, depth, described);
    }
    if (PyBytes_CheckExact(o))
      return {
          Tree::Bytes{std::string(PyBytes_AS_STRING(o), static_cast<size_t>(PyBytes_GET_SIZE(o)))}};
    if (PyList_CheckExact(o)) return {items(o, depth)};
    if (PyTuple_CheckExact(o)) return {Tree::Tuple{items(o, depth)}};
    if (PyDict_CheckExact(o)) {
      Tree::Dict dict;
      PyObject *key, *value;
      Py_ssize_t at = 0;
      while (PyDict_Next(o, &at, &key, &value)) {
        nb::object k = nb::borrow(key), v = nb::borrow(value);  // describe may change the dict
        Step step(this, key, 0);
        Tree name = tree(key, depth + 1);
        dict.items.push_back({std::move(name), tree(value, depth + 1)});
      }
      return {std::move(dict)};
    }
    return special(o, depth, described);
  }

 private:
  // A step on the way to a value, for errors: a key, or an index when there is none.
  struct Step {
    Step(Describer* to, PyObject* key, Py_ssize_t index) : of(to) {
      to->steps_.push_back({key, index});
    }
    ~Step() { of->steps_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    Describer* of;
  };

  static Tree integer(PyObject* o) {
    int overflow = 0;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (v == -1 && PyErr_Occurred()) throw_python_error();
    if (!overflow) return {static_cast<int64_t>(v)};
    // Decimal text takes time that grows with the square, so Python has a limit for it, which
    // programs may lower to 640 digits. Hexadecimal text has none.
    nb::object bits = nb::steal(PyObject_CallMethod(o, "bit_length", nullptr));
    if (!bits.is_valid()) throw_python_error();
    nb::object text = nb::steal(PyNumber_ToBase(o, nb::cast<int64_t>(bits) > 2000 ? 16 : 10));
    if (!text.is_valid()) throw_python_error();
    return {Tree::BigInt{nb::cast<std::string>(text)}};
  }

  Tree::List items(PyObject* o, int depth) {
    Tree::List list;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(o, i));
      Step step(this, nullptr, i);
      list.push_back(tree(item.ptr(), depth + 1));
    }
    return list;
  }

  Tree special(PyObject* o, int depth, bool described) {
    nb::object found = nb::steal(PyObject_CallOneArg(describe_, o));
    if (!found.is_valid()) throw_python_error();
    if (described || !PyTuple_Check(found.ptr())) refuse(o, found.ptr());
    Tree::Typed typed;
    typed.type = nb::cast<std::string>(nb::handle(PyTuple_GET_ITEM(found.ptr(), 0)));
    typed.of.push_back(tree(PyTuple_GET_ITEM(found.ptr(), 1), depth, true));
    return {std::move(typed)};
  }

  [[noreturn]] void refuse(PyObject* o, PyObject* why) {
    nb::object at = nb::steal(PyUnicode_FromString(steps_.empty() ? "" : " at obj"));
    for (const auto& [key, index] : steps_) {
      PyObject* more = key ? PyUnicode_FromFormat("%U[%R]", at.ptr(), key)
                           : PyUnicode_FromFormat("%U[%zd]", at.ptr(), index);
      if (!more) throw_python_error();
      at = nb::steal(more);
    }
    PyErr_Format(
        PyExc_TypeError,
        "pf.save: got a value of type '%s'%U; expected tensors, numbers, text, bytes, None, "
        "lists, tuples, dicts and sets of them, and the types that docs/files.md lists; %S",
        Py_TYPE(o)->tp_name, at.ptr(), why);
    throw_python_error();
  }

  PyObject* describe_;
  std::vector<std::pair<PyObject*, Py_ssize_t>> steps_;
};

// `rebuild` (serialization) makes a value of a type's name and a plain value, or raises.
nb::object to_python(const Tree& tree, PyObject* rebuild) {
  return std::visit(
      [&](const auto& v) -> nb::object {
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
          const bool hex = v.digits.find('x') != std::string::npos;
          PyObject* n = PyLong_FromString(v.digits.c_str(), nullptr, hex ? 16 : 10);
          if (!n) throw_python_error();
          return nb::steal(n);
        } else if constexpr (std::is_same_v<T, Tree::Bytes>) {
          return nb::bytes(v.data.data(), v.data.size());
        } else if constexpr (std::is_same_v<T, Tree::List>) {
          nb::list list;
          for (const Tree& item : v) list.append(to_python(item, rebuild));
          return list;
        } else if constexpr (std::is_same_v<T, Tree::Tuple>) {
          nb::list list;
          for (const Tree& item : v.items) list.append(to_python(item, rebuild));
          return nb::steal(PyList_AsTuple(list.ptr()));
        } else if constexpr (std::is_same_v<T, Tree::Typed>) {
          nb::object of = to_python(v.of[0], rebuild);
          nb::object made = nb::steal(
              PyObject_CallFunctionObjArgs(rebuild, nb::cast(v.type).ptr(), of.ptr(), nullptr));
          if (!made.is_valid()) throw_python_error();
          return made;
        } else {
          nb::dict dict;
          for (const auto& [key, value] : v.items) {
            nb::object k = to_python(key, rebuild);
            nb::object item = to_python(value, rebuild);
            if (PyDict_SetItem(dict.ptr(), k.ptr(), item.ptr()) < 0) {
              if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw_python_error();
              PyErr_Clear();
              PF_FAIL(FileError, "load",
                      "a dict of the file has a key that cannot be one; expected text, numbers and "
                      "the like; the file is damaged: restore it from a copy");
            }
          }
          return dict;
        }
      },
      tree.value);
}

// A path as the file system has it: any bytes but NUL. Text that stands for such bytes (surrogates)
// becomes them again.
std::string path_of(nb::handle path) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(path.ptr(), &bytes)) throw_python_error();
  nb::object owner = nb::steal(bytes);
  return std::string(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
}

// Hands a file's bytes to a Python function.
io::Sink to_function(nb::handle write) {
  return [write](const void* data, size_t size) {
    auto* bytes = static_cast<char*>(const_cast<void*>(data));
    nb::object view =
        nb::steal(PyMemoryView_FromMemory(bytes, static_cast<Py_ssize_t>(size), PyBUF_READ));
    if (!view.is_valid()) throw_python_error();
    nb::object result = nb::steal(PyObject_CallOneArg(write.ptr(), view.ptr()));
    std::optional<nb::python_error> error;
    if (!result.is_valid()) error.emplace();
    // Nobody may keep what shows memory that is about to go, a traceback neither.
    nb::object released = nb::steal(PyObject_CallMethod(view.ptr(), "release", nullptr));
    if (error) throw nb::python_error(std::move(*error));
    if (!released.is_valid()) throw_python_error();
  };
}

Device device_or_cpu(nb::handle device) {
  return device.is_none() ? Device{}.afloat() : to_device(device.ptr());
}

io::Load how(bool mmap) {
  return mmap ? io::Load::Map : io::Load::Copy;
}

io::Placing placing_of(nb::handle device, bool mmap, nb::handle place) {
  io::Placing placing{device_or_cpu(device), how(mmap), {}};
  if (!place.is_none())
    placing.place = [place](const Tensor& t) {
      nb::object moved = nb::steal(PyObject_CallOneArg(place.ptr(), nb::steal(wrap(t)).ptr()));
      if (!moved.is_valid()) throw_python_error();
      return tensor_of(moved.ptr());  // serialization has checked that it is one
    };
  return placing;
}

// The buffer of an object, held.
struct View {
  explicit View(PyObject* o) {
    if (PyObject_GetBuffer(o, &buffer, PyBUF_SIMPLE) < 0) throw_python_error();
  }
  ~View() { PyBuffer_Release(&buffer); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  Py_buffer buffer;
};

// Text that safetensors can hold.
std::string utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!utf8) {
    PyErr_Clear();
    PF_FAIL(
        ValueError, "safetensors.save_file",
        "got text with half a surrogate pair; expected what UTF-8 can hold; take it out, or use "
        "pf.save");
  }
  return std::string(utf8, static_cast<size_t>(size));
}

// A file by its path, or, with a name, bytes that `view` holds.
io::SafetensorsFile safetensors_of(nb::handle source, nb::handle name, std::optional<View>& view) {
  if (name.is_none()) return io::SafetensorsFile(path_of(source));
  view.emplace(source.ptr());
  return io::SafetensorsFile(io::Memory{nb::cast<std::string>(name), view->buffer.buf,
                                        static_cast<size_t>(view->buffer.len)});
}

// io::Stored; the buffer that it may show is held.
struct StoredBytes {
  explicit StoredBytes(const std::string& path) : of(path) {}
  StoredBytes(const std::string& name, nb::handle data)
      : view(std::in_place, data.ptr()),
        of(io::Memory{name, view->buffer.buf, static_cast<size_t>(view->buffer.len)}) {}
  std::optional<View> view;
  io::Stored of;
};

}  // namespace

void bind_io(nb::module_& m) {
  m.def(
      "_save_tree",
      [](nb::handle value, nb::handle path, nb::handle describe) {
        io::save_tree(path_of(path), Describer(describe.ptr()).tree(value.ptr()));
      },
      nb::arg("value").none(), nb::arg("path"), nb::arg("describe"));
  m.def(
      "_save_tree_to",
      [](nb::handle value, nb::handle write, nb::handle describe) {
        io::save_tree(to_function(write), Describer(describe.ptr()).tree(value.ptr()));
      },
      nb::arg("value").none(), nb::arg("write"), nb::arg("describe"));
  m.def(
      "_load_tree",
      [](nb::handle path, nb::handle device, bool mmap, nb::handle place, nb::handle rebuild) {
        io::Placing placing = placing_of(device, mmap, place);
        return to_python(io::load_tree(path_of(path), placing), rebuild.ptr());
      },
      nb::arg("path"), nb::arg("device").none(), nb::arg("mmap"), nb::arg("place").none(),
      nb::arg("rebuild"));
  // A whole file in memory; `name` is for errors.
  m.def(
      "_load_tree_from",
      [](nb::handle data, const std::string& name, nb::handle device, nb::handle place,
         nb::handle rebuild) {
        View view(data.ptr());
        io::Memory memory{name, view.buffer.buf, static_cast<size_t>(view.buffer.len)};
        io::Placing placing = placing_of(device, false, place);
        return to_python(io::load_tree(memory, placing), rebuild.ptr());
      },
      nb::arg("data"), nb::arg("name"), nb::arg("device").none(), nb::arg("place").none(),
      nb::arg("rebuild"));
  m.def("_safetensors_data_bytes", [](nb::bytes header, const std::string& name) {
    return io::safetensors_data_bytes({header.c_str(), header.size()}, name);
  });
  // `path` may be a function that takes bytes.
  m.def("_save_safetensors", [](nb::dict tensors, nb::handle path, nb::dict metadata) {
    std::vector<io::NamedTensor> named;
    for (auto [key, value] : tensors) {
      if (!PyUnicode_Check(key.ptr()) || !is_tensor(value.ptr()))
        type_error(
            "pf.safetensors.save_file: got something else than names and tensors; expected "
            "a dict of str to Tensor; use pf.save for other values");
      named.push_back({utf8_of(key), tensor_in(value.ptr())});
    }
    io::Metadata text;
    for (auto [key, value] : metadata) {
      if (!PyUnicode_Check(key.ptr()) || !PyUnicode_Check(value.ptr()))
        type_error(std::string("pf.safetensors.save_file: got metadata with a ") +
                   Py_TYPE((PyUnicode_Check(key.ptr()) ? value : key).ptr())->tp_name +
                   "; expected a dict of str to str; use json.dumps, or pf.save for other values");
      text[utf8_of(key)] = utf8_of(value);
    }
    if (PyCallable_Check(path.ptr()))
      io::save_safetensors(to_function(path), named, text);
    else
      io::save_safetensors(path_of(path), named, text);
  });
  // `source` is a path, or bytes of which errors speak as `name`.
  m.def(
      "_load_safetensors",
      [](nb::handle source, nb::handle device, bool mmap, nb::handle names, nb::handle name) {
        nb::dict out;
        std::optional<View> view;
        const io::SafetensorsFile file = safetensors_of(source, name, view);
        const std::string& path = file.path();
        const Device to = device_or_cpu(device);
        if (names.is_none()) {
          for (const auto& e : file.entries())
            out[nb::cast(e.name)] = nb::steal(wrap(file.tensor(e, how(mmap), to)));
          return out;
        }
        for (nb::handle name : nb::iter(names)) {
          const auto* e = file.find(nb::cast<std::string>(name));
          PF_CHECK(e, ValueError, "load", "'", path, "' has no tensor '",
                   nb::cast<std::string>(name),
                   "'; expected names of the file; pyflame.safetensors.metadata() lists them");
          out[name] = nb::steal(wrap(file.tensor(*e, how(mmap), to)));
        }
        return out;
      },
      nb::arg("source"), nb::arg("device").none(), nb::arg("mmap"), nb::arg("names").none(),
      nb::arg("name").none());
  // Names, dtypes and shapes without reading the data.
  m.def(
      "_inspect_safetensors",
      [](nb::handle source, nb::handle name) {
        std::optional<View> view;
        const io::SafetensorsFile file = safetensors_of(source, name, view);
        nb::dict tensors, metadata;
        for (const auto& e : file.entries())
          tensors[nb::cast(e.name)] = nb::make_tuple(
              e.unknown.empty() ? nb::steal(wrap(e.dtype)) : nb::object(nb::cast(e.unknown)),
              nb::steal(wrap_size(e.shape)));
        for (const auto& [key, value] : file.metadata()) metadata[nb::cast(key)] = nb::cast(value);
        return nb::make_tuple(tensors, metadata);
      },
      nb::arg("source"), nb::arg("name").none());
  nb::class_<StoredBytes>(m, "_Stored")
      .def(
          "__init__",
          [](StoredBytes* self, nb::handle path, nb::handle data) {
            if (data.is_none())
              new (self) StoredBytes(path_of(path));
            else
              new (self) StoredBytes(nb::cast<std::string>(path), data);
          },
          nb::arg("path"), nb::arg("data").none())
      .def_prop_ro("size", [](const StoredBytes& s) { return s.of.size(); })
      .def("read",
           [](const StoredBytes& s, uint64_t at, size_t size) {
             PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
             if (!bytes) throw_python_error();
             nb::object owner = nb::steal(bytes);
             s.of.read(at, PyBytes_AS_STRING(bytes), size);
             return owner;
           })
      // `count` elements from byte `at`, which may be swapped.
      .def(
          "tensor",
          [](const StoredBytes& s, uint64_t at, int64_t count, nb::handle dtype, nb::handle device,
             bool mmap, bool swapped) {
            Tensor t = s.of.tensor(at, Dims{count}, to_dtype(dtype.ptr()), how(mmap),
                                   device_or_cpu(device), swapped);
            return nb::steal(wrap(t));
          },
          nb::arg("at"), nb::arg("count"), nb::arg("dtype"), nb::arg("device").none(),
          nb::arg("mmap"), nb::arg("swapped"));
  // Hands a tensor's elements, row-major, to a function that takes bytes.
  m.def("_give_bytes", [](nb::handle tensor, nb::handle take) {
    const Tensor plain = contiguous(tensor_in(tensor.ptr()));
    const size_t size = nbytes(plain->dtype, plain->numel);
    if (size == 0) return;
    if (plain->storage->device.is_cpu()) {
      to_function(take)(engine::host_data(plain, "save"), size);
      check_mapped(plain->storage->data, "save");
    } else {
      std::vector<char> staging(size);
      engine::copy_to_host(staging.data(), plain);
      to_function(take)(staging.data(), size);
    }
  });
  // A file that appears whole or not at all: `produce` is called with a function that writes.
  m.def("_write_file_by", [](nb::handle path, nb::handle produce) {
    files::AtomicFile file(path_of(path), "save");
    nb::object write = nb::cpp_function([&file](nb::handle data) {
      View view(data.ptr());
      file.write(view.buffer.buf, static_cast<size_t>(view.buffer.len));
    });
    nb::object done = nb::steal(PyObject_CallOneArg(produce.ptr(), write.ptr()));
    if (!done.is_valid()) throw_python_error();
    file.commit();
  });
  m.def("_write_file", [](nb::handle path, nb::bytes data) {
    io::write_file_atomically(path_of(path), data.c_str(), data.size());
  });
}

}  // namespace pyflame::python
