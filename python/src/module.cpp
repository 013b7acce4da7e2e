// pyflame._C: everything that the Python package has from C++.
#include "common.h"

void bind_debug(nanobind::module_& m);

namespace pyflame::python {
void bind_io(nb::module_& m);
void init_user_kernel(nb::module_& m);
}  // namespace pyflame::python

NB_MODULE(_C, m) {
  namespace py = pyflame::python;
  nanobind::set_leak_warnings(false);  // tensors that live until the process ends are no news
  nanobind::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const pyflame::Error&) {
      py::raise_current();
    } catch (const py::PythonError&) {
      py::raise_current();
    }
  });
  m.attr("__version__") = PYFLAME_VERSION;
  try {
    py::init_errors(m.ptr());
    py::init_types(m.ptr());
    py::init_tensor(m.ptr());
    py::init_registry(m);
    py::init_creation(m);
    py::init_interop(m);
    py::init_autograd(m);
    py::init_amp(m);
    py::init_runtime(m);
    py::init_memory(m);
    py::bind_io(m);
    bind_debug(m);
    py::init_user_kernel(m);
    py::init_functions(m.ptr());
  } catch (const py::PythonError&) {
    throw nanobind::python_error();
  }
}
