// nanobind's functions with errors in our words. A call whose arguments fit none of a function's
// forms, or in which a value is not of the type that it is read as, says what was given and what is
// expected; everything else is handed through. Functions written in Python stand behind the same
// object where modes of torch.overrides are asked for them: it costs less than a decorator.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "common.h"

namespace pyflame::python {

namespace {

struct PyFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* inner;
  bool asks;  // modes say what it does
};
PyTypeObject* FunctionType;

// Functions of nanobind that make tensors, for which PyTorch asks modes, too.
constexpr const char* kAsking[] = {"tensor", "as_tensor", "asarray", "frombuffer"};

PyObject* inner_of(PyObject* o) {
  return reinterpret_cast<PyFunction*>(o)->inner;
}

std::string attribute(PyObject* o, const char* name) {
  Obj value(PyObject_GetAttrString(o, name));
  PyErr_Clear();
  return value && PyUnicode_Check(value.get()) ? text_of(value.get()) : "";
}

// The forms that nanobind lists as "1. name(x: int) -> int", one a line; of a method without self.
std::string forms(const std::string& text, const std::string& doc) {
  std::ostringstream out;
  std::istringstream lines(text);
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    const size_t dot = line.find(". ");
    if (line.rfind("    ", 0) != 0 || dot == std::string::npos) continue;
    out << (count++ ? " or " : "") << line.substr(dot + 2, line.rfind(" -> ") - dot - 2);
  }
  if (!count) out << doc.substr(0, std::min(doc.find(" -> "), doc.find('\n')));
  return out.str();
}

std::string in_our_words(PyObject* inner, const std::string& text, PyObject* const* args,
                         Py_ssize_t nargs, PyObject* kwnames) {
  std::string name = attribute(inner, "__name__");
  while (!name.empty() && name[0] == '_') name.erase(0, 1);
  std::ostringstream m;
  m << "pf." << name << ": got (";
  const Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  for (Py_ssize_t i = 0; i < total; ++i) {
    if (i) m << ", ";
    if (i >= nargs) m << text_of(PyTuple_GET_ITEM(kwnames, i - nargs)) << "=";
    m << describe(args[i]);
  }
  m << "); expected " << forms(text, attribute(inner, "__doc__"))
    << "; change the arguments to fit";
  return m.str();
}

void rephrase(PyObject* inner, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_RuntimeError))
    return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Obj shown(value ? PyObject_Str(value) : nullptr);
  const char* text = shown ? PyUnicode_AsUTF8(shown.get()) : nullptr;
  if (!text || !(std::strstr(text, "incompatible function arguments") ||
                 std::strcmp(text, "std::bad_cast") == 0)) {
    PyErr_Restore(type, value, trace);
    return;
  }
  const std::string ours = in_our_words(inner, text, args, nargs, kwnames);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_SetString(PyExc_TypeError, ours.c_str());
}

PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  PyObject* inner = inner_of(self);
  if (asking() && reinterpret_cast<PyFunction*>(self)->asks && mode_is_on()) [[unlikely]]
    return guarded(
        [&] { return with_modes(self, nullptr, args, PyVectorcall_NARGS(nargsf), kwnames, {}); });
  PyObject* r = PyObject_Vectorcall(inner, args, nargsf, kwnames);
  if (!r) [[unlikely]]
    return guarded([&]() -> PyObject* {
      rephrase(inner, args, PyVectorcall_NARGS(nargsf), kwnames);
      return nullptr;
    });
  return r;
}
PyObject* getattr(PyObject* self, PyObject* name) {
  // nanobind's functions cannot be pickled.
  if (PyUnicode_Check(name) && (equals(name, "__reduce__") || equals(name, "__reduce_ex__")))
    return PyObject_GenericGetAttr(self, name);
  return PyObject_GetAttr(inner_of(self), name);
}
PyObject* repr(PyObject* self) {
  return guarded([&] {
    return PyUnicode_FromFormat("<function pyflame.%s>",
                                attribute(inner_of(self), "__name__").c_str());
  });
}
PyObject* reduce(PyObject* self, PyObject*) {  // by its name in the module
  return PyObject_GetAttrString(inner_of(self), "__qualname__");
}
void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_DECREF(inner_of(self));
  type->tp_free(self);
  Py_DECREF(type);
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(inner_of(self));
  Py_VISIT(Py_TYPE(self));
  return 0;
}

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PyFunction, vectorcall), READONLY, nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_call, slot(PyVectorcall_Call)},
                       {Py_tp_descr_get, slot(bind_method)},
                       {Py_tp_getattro, slot(getattr)},
                       {Py_tp_repr, slot(repr)},
                       {Py_tp_dealloc, slot(dealloc)},
                       {Py_tp_traverse, slot(traverse)},
                       {Py_tp_members, members},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"pyflame.Function", sizeof(PyFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

PyObject* behind(PyObject* o, bool asks) {
  auto* f = PyObject_GC_New(PyFunction, FunctionType);
  if (!f) throw PythonError();
  f->vectorcall = call;
  f->inner = Py_NewRef(o);
  f->asks = asks;
  auto* made = reinterpret_cast<PyObject*>(f);
  PyObject_GC_Track(made);
  return made;
}

// A wrapper for what nanobind has made, a method's too; null for anything else.
PyObject* wrapped(PyObject* name, PyObject* o) {
  if (std::strcmp(Py_TYPE(o)->tp_name, "nanobind.nb_func") != 0 &&
      std::strcmp(Py_TYPE(o)->tp_name, "nanobind.nb_method") != 0)
    return nullptr;
  return behind(o, std::any_of(std::begin(kAsking), std::end(kAsking),
                               [&](const char* n) { return equals(name, n); }));
}

void wrap_all(PyObject* owner, PyObject* dict) {
  Obj names(check(PyDict_Keys(dict)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* name = PyList_GET_ITEM(names.get(), i);
    PyObject* value = PyDict_GetItem(dict, name);
    const char* text = PyUnicode_AsUTF8(name);
    if (PyType_Check(value) && PyModule_Check(owner) &&
        std::strncmp(Py_TYPE(value)->tp_name, "nanobind.nb_type", 16) == 0)
      wrap_all(value, reinterpret_cast<PyTypeObject*>(value)->tp_dict);
    if (!text || (text[0] == '_' && text[1] == '_')) continue;
    Obj made(wrapped(name, value));
    if (made) check(PyObject_SetAttr(owner, name, made.get()));
  }
}

}  // namespace

void init_functions(PyObject* module) {
  FunctionType = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)));
  wrap_all(module, PyModule_GetDict(module));
  static PyMethodDef more[] = {
      {"_asking", [](PyObject*, PyObject* o) { return guarded([&] { return behind(o, true); }); },
       METH_O, "A function written in Python, for which modes of torch.overrides are asked."},
      {}};
  check(PyModule_AddFunctions(module, more));
}

}  // namespace pyflame::python
