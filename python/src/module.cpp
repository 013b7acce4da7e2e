// pyflame._C: everything that the Python package has from C++.
#include <signal.h>

#include <utility>

#include "common.h"
#include "core/interrupt.h"

void bind_debug(nanobind::module_& m);

namespace pyflame::python {
void bind_io(nb::module_& m);
void bind_mapped(nb::module_& m);
void init_user_kernel(nb::module_& m);
void init_sparse(nb::module_& m);
void init_flops(nb::module_& m);

namespace {

// What the process has is registered once, in one interpreter, and for good.
PyObject* g_module = nullptr;  // owned until the package is imported: a retry finds it
PyInterpreterState* g_interpreter = nullptr;
bool g_imported = false;  // the package, too: its __init__ has run to its end

void refuse_import(const char* why) {
  PyErr_Format(
      PyExc_ImportError,
      "pyflame: it is in this process already, and %s; expected one import in each process; "
      "start another process, or leave pyflame's entries in sys.modules",
      why);
}

void bind(nb::module_ m) {
  nb::set_leak_warnings(false);  // tensors that live until the process ends are no news
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error&) {
      raise_current();
    } catch (const PythonError&) {
      raise_current();
    } catch (const Interrupted&) {
      raise_current();
    }
  });
  m.attr("__version__") = PYFLAME_VERSION;
  m.def("_import_begins", [] {
    if (!g_imported) return;
    refuse_import("its modules were taken out of sys.modules");
    throw_python_error();
  });
  m.def("_import_ended", [] {
    if (!std::exchange(g_imported, true)) Py_DECREF(g_module);
  });
  init_errors(m.ptr());
  init_types(m.ptr());
  init_tensor(m.ptr());
  init_registry(m);
  init_creation(m);
  init_interop(m);
  init_autograd(m);
  init_func(m);
  init_amp(m);
  init_runtime(m);
  init_memory(m);
  bind_io(m);
  bind_mapped(m);
  bind_debug(m);
  init_user_kernel(m);
  init_sparse(m);
  init_flops(m);
  init_capture(m);
  init_replay(m);
  init_functions(m.ptr());
}

// ---- the module itself --------------------------------------------------------------------------
// By hand, not by NB_MODULE: a KeyboardInterrupt between the making of a module and its
// initialization frees one that nanobind has never seen, and its own definition then counts down
// what is not there.
struct ModuleState {
  bool bound;  // nanobind counts this module
};
ModuleState* state_of(PyObject* module) {
  return static_cast<ModuleState*>(PyModule_GetState(module));
}

// The module itself once more where its first import was interrupted behind our back (a signal
// between the module's making and importlib's entry of it).
PyObject* create(PyObject* spec, PyModuleDef*) {
  if (g_interpreter) {
    if (PyInterpreterState_Get() != g_interpreter)
      return refuse_import("another interpreter imported it"), nullptr;
    if (g_imported) return refuse_import("its modules were taken out of sys.modules"), nullptr;
    return Py_NewRef(g_module);
  }
  PyObject* name = PyObject_GetAttrString(spec, "name");
  PyObject* module = name ? PyModule_NewObject(name) : nullptr;
  Py_XDECREF(name);
  return module;
}

// No signal reaches this thread, as long as it lives.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t all;
    sigfillset(&all);
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, s);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

int execute(PyObject* module) {
  const SignalsWait later;  // a handler that raises would leave half a module
  if (module == g_module) {
    state_of(module)->bound = true;
    return 0;
  }
  if (PyErr_CheckSignals() < 0) return -1;
  // Of two that were made before either was initialized one is late.
  if (g_interpreter) return refuse_import("it is being imported"), -1;
  g_interpreter = PyInterpreterState_Get();
  g_module = Py_NewRef(module);
  nb::detail::nb_module_exec(NB_DOMAIN_STR, module);
  try {
    bind(nb::borrow<nb::module_>(module));
    state_of(module)->bound = true;
    return 0;
  } catch (const PythonError&) {
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_ImportError, e.what());
  }
  g_interpreter = nullptr;
  Py_CLEAR(g_module);
  return -1;
}

void release_module(void* module) {
  const ModuleState* state = state_of(static_cast<PyObject*>(module));
  if (state && state->bound) nb::detail::nb_module_free(module);
}

PyModuleDef_Slot slots[] = {
    {Py_mod_create, reinterpret_cast<void*>(&create)},
    {Py_mod_exec, reinterpret_cast<void*>(&execute)},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_C", nullptr, sizeof(ModuleState), nullptr, slots, nullptr, nullptr,
    &release_module};

}  // namespace
}  // namespace pyflame::python

extern "C" NB_EXPORT PyObject* PyInit__C() {
  return PyModuleDef_Init(&pyflame::python::definition);
}
