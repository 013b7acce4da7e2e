// C++ error classes as Python exceptions, and back.
#include <cstring>
#include <new>

#include "common.h"
#include "core/interrupt.h"
#include "pyflame/error.h"

namespace pyflame::python {

namespace {

struct Classes {
  PyObject *base, *shape, *dtype, *value, *index, *device, *memory, *autograd, *file, *unsupported,
      *backend, *linalg;
} classes;

PyObject* make(PyObject* module, const char* name, PyObject* second, const char* doc) {
  Obj bases(second ? PyTuple_Pack(2, classes.base, second) : Py_BuildValue("(O)", classes.base));
  std::string full = std::string("pyflame.") + name;
  PyObject* cls = check(PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.get(), nullptr));
  check(PyModule_AddObjectRef(module, name, cls));
  return cls;
}

// What names a file may hold bytes that are no text: they are shown as \xff.
void set(PyObject* cls, const char* what) {
  Obj text(
      PyUnicode_DecodeUTF8(what, static_cast<Py_ssize_t>(std::strlen(what)), "backslashreplace"));
  if (text.get()) PyErr_SetObject(cls, text.get());
}

}  // namespace

void init_errors(PyObject* module) {
  classes.base = check(PyErr_NewExceptionWithDoc("pyflame.PyFlameError",
                                                 "Base of everything PyFlame raises on purpose.",
                                                 PyExc_RuntimeError, nullptr));
  check(PyModule_AddObjectRef(module, "PyFlameError", classes.base));
  classes.shape =
      make(module, "ShapeError", PyExc_ValueError, "Sizes, strides or dimensions do not fit.");
  classes.dtype = make(module, "DTypeError", PyExc_TypeError, "A dtype is not allowed here.");
  classes.value =
      make(module, "ValueError", PyExc_ValueError, "An argument has a value out of its domain.");
  classes.index =
      make(module, "IndexError", PyExc_IndexError, "An index or dimension is out of range.");
  classes.device = make(module, "DeviceError", nullptr,
                        "A device is missing or unusable, or operands live on different devices.");
  classes.memory = make(module, "OutOfMemoryError", PyExc_MemoryError,
                        "An allocation failed; the state stays usable.");
  classes.autograd = make(module, "AutogradError", nullptr,
                          "A freed graph, an in-place write to a saved tensor and the like.");
  classes.file =
      make(module, "FileError", PyExc_OSError, "A file is missing, truncated or malformed.");
  classes.unsupported = make(module, "NotSupportedError", PyExc_NotImplementedError,
                             "A defined combination that this build cannot run.");
  classes.backend = make(module, "BackendError", nullptr,
                         "A backend reported a failed launch, copy or compilation.");
  classes.linalg =
      make(module, "LinAlgError", nullptr,
           "A matrix is singular, not positive definite or not finite, or an iteration "
           "did not converge.");
}

std::string text_of(PyObject* o) {
  Obj bytes(check(PyUnicode_AsEncodedString(o, "utf-8", "backslashreplace")));
  return {PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

void type_error(const std::string& message) {
  PyErr_SetString(PyExc_TypeError, message.c_str());
  throw PythonError();
}

void raise_current() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "pyflame: error without exception");
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const Interrupted& e) {
    if (!e.first())
      set(classes.base, Interrupted::kText);
    else if (PyErr_CheckSignals() == 0)
      PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const ShapeError& e) {
    set(classes.shape, e.what());
  } catch (const DTypeError& e) {
    set(classes.dtype, e.what());
  } catch (const ValueError& e) {
    set(classes.value, e.what());
  } catch (const IndexError& e) {
    set(classes.index, e.what());
  } catch (const DeviceError& e) {
    set(classes.device, e.what());
  } catch (const OutOfMemoryError& e) {
    set(classes.memory, e.what());
  } catch (const AutogradError& e) {
    set(classes.autograd, e.what());
  } catch (const FileError& e) {
    set(classes.file, e.what());
  } catch (const NotSupportedError& e) {
    set(classes.unsupported, e.what());
  } catch (const BackendError& e) {
    set(classes.backend, e.what());
  } catch (const LinAlgError& e) {
    set(classes.linalg, e.what());
  } catch (const Error& e) {
    set(classes.base, e.what());
  } catch (const std::bad_alloc&) {
    set(classes.memory, "pf: the host is out of memory; free tensors or use less");
  } catch (const std::exception& e) {
    set(classes.base, e.what());
  } catch (...) {
    set(classes.base, "pf: unknown C++ exception");
  }
}

void throw_python_error() {
  throw nb::python_error();
}

}  // namespace pyflame::python
