// Devices, threads, random numbers, default dtype; the GIL and Python-owned memory.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <thread>

#include "common.h"
#include "core/backends.h"
#include "core/lock.h"
#include "core/random_aside.h"
#include "engine/engine.h"
#include "pyflame/random.h"

namespace pyflame::python {

std::atomic<bool> released_waiting{false};

namespace {

Mutex released_mutex;
std::vector<PyObject*>* released = new std::vector<PyObject*>();  // outlives static destructors

bool interpreter_alive() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

int drain_pending(void*) {
  drain_released();
  return 0;
}

// Notices become RuntimeWarning, between two steps of the main thread: who has one may hold locks
// of the engine, or no GIL.
Mutex notice_mutex;
std::vector<std::string>* notices = new std::vector<std::string>();  // outlives static destructors

int warn_pending(void*) {
  std::vector<std::string> list;
  {
    std::lock_guard lock(notice_mutex);
    list.swap(*notices);
  }
  for (const std::string& text : list)
    if (PyErr_WarnEx(PyExc_RuntimeWarning, ("pyflame: " + text).c_str(), 1) < 0) return -1;
  return 0;
}
void queue_notice(const char* text) {
  if (interpreter_alive()) {
    try {
      std::lock_guard lock(notice_mutex);
      notices->emplace_back(text);
    } catch (const std::bad_alloc&) {
      return;
    }
    if (Py_AddPendingCall(warn_pending, nullptr) == 0) return;
  }
  std::fprintf(stderr, "pyflame: %s\n", text);
}

// Whether Ctrl-C is to end what runs: on the main thread, by the handler that raises. A program's
// own may only take note of it, and goes on with the values.
bool hears() {
  if (!interpreter_alive() || !PyGILState_Check() || getpid() != gettid()) return false;
  struct Names {
    PyObject *get = nullptr, *raises = nullptr, *number = nullptr;
    Names() {
      Obj module(PyImport_ImportModule("_signal"));
      if (module.get()) {
        get = PyObject_GetAttrString(module.get(), "getsignal");
        raises = PyObject_GetAttrString(module.get(), "default_int_handler");
        number = PyLong_FromLong(SIGINT);
      }
      PyErr_Clear();
    }
  };
  PyObject *type, *value, *trace;  // of who has an error set already
  static const Names& names = *new Names;
  if (!names.get || !names.raises || !names.number) return false;
  PyErr_Fetch(&type, &value, &trace);
  const Obj now(PyObject_CallOneArg(names.get, names.number));
  PyErr_Restore(type, value, trace);
  return now.get() == names.raises;
}
// The engine is about to work for long, or to wait.
void* release_gil() {
  if (!interpreter_alive() || !PyGILState_Check()) return nullptr;
  return PyEval_SaveThread();
}
void acquire_gil(void* state) {
  if (state) in_python([state] { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); });
}

// The innermost line of Python that is not the package's own.
std::string call_site() {
  if (!interpreter_alive() || !PyGILState_Check()) return {};
  static const std::string own = [] {
    PyObject* package = PyImport_AddModule("pyflame");  // borrowed
    Obj file(package ? PyObject_GetAttrString(package, "__file__") : nullptr);
    const char* text = file && PyUnicode_Check(file.get()) ? PyUnicode_AsUTF8(file.get()) : nullptr;
    if (!text) PyErr_Clear();
    const std::string path = text ? text : "";
    return path.substr(0, path.rfind('/') + 1);
  }();
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  std::string r;
  while (frame && r.empty()) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) PyErr_Clear();
    if (file && (own.empty() || std::string_view(file).substr(0, own.size()) != own))
      r = std::string(file) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return r;
}

}  // namespace

void stay() noexcept {
  for (;;) pause();
}

void release_later(PyObject* o) noexcept {
  if (!o || !interpreter_alive()) return;  // at exit memory goes with the process
  bool first;
  try {
    std::lock_guard lock(released_mutex);
    released->push_back(o);
    first = !released_waiting.exchange(true);
  } catch (const std::bad_alloc&) {
    return;  // one object is not freed, rather than the process ended
  }
  if (first) Py_AddPendingCall(drain_pending, nullptr);
}

void drain_released() noexcept {
  std::vector<PyObject*> list;
  {
    std::lock_guard lock(released_mutex);
    list.swap(*released);
    released_waiting.store(false);
  }
  PyObject *t, *v, *tb;
  PyErr_Fetch(&t, &v, &tb);
  for (PyObject* o : list) Py_DECREF(o);
  PyErr_Restore(t, v, tb);
}

Held::~Held() {
  if (!interpreter_alive()) return;
  if (PyGILState_Check())
    Py_DECREF(p_);
  else
    release_later(p_);
}

namespace {

// ---- modules that are imported when they are first asked for ------------------------------------

// A child of fork() would wait for ever for a module that another thread was importing: a fork
// waits for those threads, for a while. Counted here, where no signal comes in between.
std::atomic<int> importing{0};
thread_local int importing_here = 0;

PyObject* import_module(const char* name) {
  ++importing, ++importing_here;
  PyObject* module = PyImport_ImportModule(name);
  --importing, --importing_here;
  return check(module);
}
void await_imports() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (importing > importing_here && Clock::now() < end) {
    const nb::gil_scoped_release other_threads_go_on;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
void forget_imports() {  // in a child, which has this thread alone
  importing = importing_here;
}

}  // namespace

void init_runtime(nb::module_& m) {
  engine::set_hooks({&release_gil, &acquire_gil, &hears, &call_site});
  set_notice_hook(&queue_notice);
  // Daemon threads that compute finish their kernel and stay (above) before libraries are taken
  // down around them.
  Py_AtExit([] { wait_for_all_work(10000); });

  m.def(
      "set_device", [](nb::handle d) { set_device(to_device(d.ptr())); }, nb::arg("device"),
      "Makes a device the calling thread's current one.");
  m.def(
      "get_device", [] { return nb::steal(wrap(get_device())); },
      "The calling thread's current device.");
  m.def(
      "set_strict", [](bool on) { set_strict(on); }, nb::arg("mode"),
      "Strict mode: what would silently copy a tensor to another device, or take a slow way where "
      "there is a quick one, raises an error that says what to do. PYFLAME_STRICT=1 sets it.");
  init_modes(m);
  m.def("is_strict", &strict, "Whether strict mode is on.");
  m.def(
      "synchronize", [](nb::handle) { synchronize(); }, nb::arg("device") = nb::none(),
      "Waits until everything recorded so far has run; raises what failed.");
  m.def("_import", [](const char* name) { return nb::steal(import_module(name)); });
  m.def("_await_imports", &await_imports);
  m.def("_forget_imports", &forget_imports);
  m.def(
      "flush", [] { flush(); }, "Hands what this thread has recorded to the devices.");
  m.def("backend_status", &backends, "Each backend: 'loaded', 'available' or the reason why not.");
  m.def(
      "device_info",
      [](nb::handle d) {
        nb::dict r;
        for (auto& [key, value] : device_info(d.is_none() ? get_device() : to_device(d.ptr()))) {
          int64_t n = 0;
          auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
          const bool whole = error == std::errc() && end == value.data() + value.size();
          r[key.c_str()] = whole ? nb::cast(n) : nb::cast(value);
        }
        return r;
      },
      nb::arg("device") = nb::none(),
      "What is known of a device (the current one by default) as a dict: name, architecture, "
      "total_memory in bytes, compute_units, and more that depends on the backend.");
  m.def("_show_as", [](const std::string& package) {
    shown_package() = package;
    if (package != "pyflame") any_name_is_meant();
  });
  m.def("_shown_as", [] { return shown_package(); });
  m.def("_device_count", [](const std::string& type) {
    return device_count(type == "rocm"       ? DeviceType::ROCm
                        : type == "cuda"     ? DeviceType::CUDA
                        : type == "paranoid" ? DeviceType::Paranoid
                                             : DeviceType::CPU);
  });
  m.def(
      "set_num_threads",
      [](nb::handle n) {
        if (!is_integer(n.ptr()))
          type_error(std::string("pf.set_num_threads: got an object of type ") +
                     Py_TYPE(n.ptr())->tp_name + "; expected an integer");
        Obj index(check(PyNumber_Index(n.ptr())));
        int beyond = 0;
        const long long value = PyLong_AsLongLongAndOverflow(index.get(), &beyond);
        constexpr auto far = static_cast<long long>(INT_MAX);
        set_num_threads(static_cast<int>(beyond ? beyond * far : std::clamp(value, -far, far)));
      },
      nb::arg("n"), nb::sig("def set_num_threads(n: int) -> None"),
      "CPU threads of one operation, 1 to 1024.");
  m.def("get_num_threads", &get_num_threads, "CPU threads of one operation.");
  m.def(
      "_manual_seed",
      [](uint64_t seed) {
        about_to_set({seed, 0});
        manual_seed(seed);
      },
      nb::arg("seed"));
  m.def("initial_seed", &initial_seed, "The seed of the random generator.");
  m.def("_random_state", [] {
    RandomState s = random_state();
    return nb::make_tuple(s.seed, s.offset);
  });
  static_cast<void>(nb::class_<RandomSource>(m, "_RandomSource"));  // only handed back
  m.def("_set_random_source", &set_random_source, nb::arg("source"));
  nb::class_<RandomTrace>(m, "_RandomTrace")
      .def(nb::init<>())
      .def("__enter__", &RandomTrace::begin)
      .def("__exit__", [](RandomTrace& t, nb::args) { t.end(); })
      .def_prop_ro(
          "first",
          [](const RandomTrace& t) { return nb::make_tuple(t.first.seed, t.first.offset); })
      .def("again", &again, nb::rv_policy::move);
  m.def("_set_random_state", [](uint64_t seed, uint64_t offset) {
    about_to_set({seed, offset});
    set_random_state({seed, offset});
  });
  m.def(
      "get_default_dtype", [] { return nb::steal(wrap(default_dtype())); },
      "The dtype of new float tensors.");
  m.def(
      "set_default_dtype", [](nb::handle d) { set_default_dtype(to_dtype(d.ptr())); }, nb::arg("d"),
      "Changes the dtype of new float tensors.");
  m.def("promote_types", [](nb::handle a, nb::handle b) {
    return nb::steal(wrap(promote(to_dtype(a.ptr()), to_dtype(b.ptr()))));
  });
  m.def(
      "_check_memory_format",
      [](nb::handle format, const std::string& op) { to_memory_format(format.ptr(), op.c_str()); },
      nb::arg("format").none(), nb::arg("op"));
  m.def(
      "is_tensor", [](nb::handle o) { return is_tensor(o.ptr()); }, nb::arg("obj").none(),
      "True for a Tensor.");
}

}  // namespace pyflame::python
