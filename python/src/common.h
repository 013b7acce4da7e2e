// What the files of the Python module share. Tensor is a plain CPython type with raw slots
// (31 ns a call instead of 60); nanobind serves the many small functions around it.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <structmember.h>

#include <atomic>
#include <complex>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lock.h"
#include "core/tensor_impl.h"
#include "core/values.h"
#include "ops/functions.h"
#include "pyflame/autograd.h"
#include "pyflame/random.h"

namespace pyflame::python {

namespace nb = nanobind;

// ---- owned references ---------------------------------------------------------------------------
class Obj {
 public:
  Obj() = default;
  explicit Obj(PyObject* stolen) : p_(stolen) {}
  Obj(Obj&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Obj& operator=(Obj&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Obj() { Py_XDECREF(p_); }
  static Obj share(PyObject* p) {
    Py_XINCREF(p);
    return Obj(p);
  }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// Thrown when a Python exception is already set; guarded() hands it on.
struct PythonError {};
inline PyObject* check(PyObject* p) {
  if (!p) throw PythonError();
  return p;
}
inline void check(int rc) {
  if (rc < 0) throw PythonError();
}
[[noreturn]] void type_error(const std::string& message);

// ---- text ---------------------------------------------------------------------------------------
// The UTF-8 of a str; halves of surrogate pairs, which it cannot hold, as \udc80.
std::string text_of(PyObject*);
inline PyObject* str(std::string_view s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}
inline bool equals(PyObject* name, const char* text) {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

// ---- functions in tables of types ---------------------------------------------------------------
template <class F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}
template <class F>
PyCFunction fn(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}
// tp_descr_get of what becomes a method when it is found on an object.
inline PyObject* bind_method(PyObject* self, PyObject* obj, PyObject*) {
  return obj && obj != Py_None ? PyMethod_New(self, obj) : Py_NewRef(self);
}

// ---- errors: errors.cpp -------------------------------------------------------------------------
void init_errors(PyObject* module);
void raise_current() noexcept;  // the C++ exception in flight becomes a Python exception
// Turns the Python exception that is set into a C++ one, to cross the engine; keeps it intact.
[[noreturn]] void throw_python_error();

// A thread that wants the GIL while the interpreter ends does not come back: Python up to 3.13 ends
// it by pthread_exit, which unwinds the C++ frames above, without the GIL, and past `noexcept` ends
// the process. It stays here instead, until the process is gone.
[[noreturn]] void stay() noexcept;
// For calls into Python: they may wait for the GIL.
template <class F>
inline auto in_python(F&& f) {
  try {
    return f();
  } catch (abi::__forced_unwind&) {
    stay();
  }
}

// What `f` gives; `failed`, with Python's error set, where it throws.
template <class R, class F>
inline R guarded_as(F&& f, R failed) noexcept {
  try {
    return f();
  } catch (abi::__forced_unwind&) {
    stay();
  } catch (...) {
    raise_current();
    return failed;
  }
}
template <class F>
inline PyObject* guarded(F&& f) noexcept {
  return guarded_as<PyObject*>(f, nullptr);
}
template <class F>
inline int guarded_int(F&& f) noexcept {
  return guarded_as<int>(f, -1);
}

// ---- Python-owned things in C++ hands: runtime.cpp ----------------------------------------------
// Drops a reference from any thread, with or without the GIL: without, it waits in a queue that
// the next call from Python drains.
void release_later(PyObject*) noexcept;
// Owns a reference that is dropped so.
struct ReleasedLater {
  explicit ReleasedLater(Obj stolen) : object(stolen.release()) {}
  ~ReleasedLater() { release_later(object); }
  ReleasedLater(const ReleasedLater&) = delete;
  ReleasedLater& operator=(const ReleasedLater&) = delete;
  PyObject* object;
};
void drain_released() noexcept;
extern std::atomic<bool> released_waiting;
inline void drain_if_needed() {
  if (released_waiting.load(std::memory_order_relaxed)) [[unlikely]]
    drain_released();
}
// A Python callable or object held by a C++ closure.
class Held {
 public:
  explicit Held(PyObject* p) : p_(p) { Py_INCREF(p); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();
  PyObject* get() const { return p_; }

 private:
  PyObject* p_;
};
class WithGil {
 public:
  WithGil() : state_(in_python([] { return PyGILState_Ensure(); })) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  OffWork outside_;  // first: whoever waits for the GIL must not be waited for by a fork
  PyGILState_STATE state_;
};
void init_runtime(nb::module_& m);

// ---- dtype, device, Size: types.cpp -------------------------------------------------------------
struct PyDType {
  PyObject_HEAD DType value;
};
struct PyDevice {
  PyObject_HEAD Device value;
  bool numbered;  // of the one CPU: it was named cpu:0, which is shown
};
extern PyTypeObject* DTypeType;
extern PyTypeObject* DeviceType_;
extern PyTypeObject* SizeType;
void init_types(PyObject* module);
PyObject* wrap(DType);  // new reference
PyObject* wrap(Device);
PyObject* wrap_size(const Dims&);
bool is_dtype_like(PyObject*);  // dtype objects and Python's float, int, bool
bool is_device_like(PyObject*);
DType to_dtype(PyObject*);
Device to_device(PyObject*);
Device to_usable_device(PyObject*);  // DeviceError with the reason when it is not there

// A value of memory_format=: raises unless results, which are row-major, keep it.
// Preserve for None. Raises for what is none.
MemoryFormat to_memory_format(PyObject*, const char* op);
// Whether the elements lie in the order that a memory_format names.
bool is_contiguous_as(const Tensor&, PyObject* format);

// ---- numbers ----------------------------------------------------------------------------------
// Python numbers, NumPy scalars, objects with __index__. False without error when it is none.
bool to_scalar(PyObject*, Scalar*);
// Of a Python int. ValueError beyond 64 bits; with `wide`, that is set and the nearest float given.
Scalar integer_scalar(PyObject*, bool* wide = nullptr);
bool is_integer(PyObject*);  // int (not bool) or something with __index__
int64_t to_int64(PyObject*, const char* what);
PyObject* wrap(Scalar);
PyObject* wrap(const std::complex<double>&);
bool to_complex(PyObject*, std::complex<double>*);  // complex numbers only, of Python or NumPy
// The error of __float__ or __index__ that an object has raised: cleared where it says that the
// object is no number, thrown where it is another (KeyboardInterrupt, MemoryError).
void clear_no_number();
// True or False of any object; its __bool__ may raise.
bool truth(PyObject*);
// Fills `out` from an int, a list or tuple of ints or a 1-d tensor of them. False without error
// when it is none.
bool to_int_list(PyObject*, std::vector<int64_t>* out);

// ---- Tensor: tensor.cpp -------------------------------------------------------------------------
struct PyTensor {
  PyObject_HEAD Tensor tensor;
  PyObject* dict;
  PyObject* weakrefs;
};
extern PyTypeObject* TensorType;
void init_tensor(PyObject* module);
// How many Python objects nodes of the tape hold (cycles.h). While there are any, tensors with a
// history are known to Python's collector.
extern std::atomic<int64_t> node_objects;
inline void track(PyObject* o) {
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}
inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == TensorType || PyType_IsSubtype(Py_TYPE(o), TensorType);
}
inline Tensor& tensor_of(PyObject* o) {
  return reinterpret_cast<PyTensor*>(o)->tensor;
}
// Of any object; TypeError where it is no tensor, or one with nothing inside: Tensor.__new__(cls),
// or a subclass whose __init__ does not call the base's.
[[noreturn]] void no_tensor_in(PyObject* o);
inline Tensor& tensor_in(PyObject* o) {
  if (!is_tensor(o) || !tensor_of(o).defined()) [[unlikely]]
    no_tensor_in(o);
  return tensor_of(o);
}
std::vector<Tensor> tensors_in(nb::handle list);  // of each
// What dtypes, sizes and types of tensors are said to belong to: "pyflame", or "torch" in a program
// that imports that (`pyflame run`).
std::string& shown_package();
inline bool on_gpu(const Tensor& t) {  // of any vendor
  const DeviceType d = t->storage->device.type;
  return d == DeviceType::ROCm || d == DeviceType::CUDA;
}
PyObject* wrap(Tensor);                        // new reference; None when undefined
PyObject* wrap_as(PyTypeObject* cls, Tensor);  // always a fresh object of that class
PyObject* wrap_tuple(const TensorList&);
PyObject* wrap_sparse(Tensor);  // of a sparse tensor, as an object of its class: sparse.cpp
// The number as a 0-d tensor of the dtype that promotion with `like` would give it.
Tensor number_like(Scalar, const Tensor& like);

// ---- subclasses of Tensor: subclass.cpp ---------------------------------------------------------
// 0 where no operation has to ask: there was no object of a subclass that operations keep
// (Parameter is none), and no thread is within a mode of torch.overrides.
extern std::atomic<int> overrides;
inline bool asking() {
  return overrides.load(std::memory_order_relaxed) != 0;
}
void note_subclass(PyTypeObject*);
// `run()`, an operation on the arguments (vectorcall's way), whose results become objects of the
// operands' subclass; or what that class's own __torch_function__ gives. `func` is the operation as
// Python knows it; null for the method `name` of Tensor.
PyObject* with_classes(PyObject* func, const char* name, PyObject* const* args, Py_ssize_t nargs,
                       PyObject* kwnames, const std::function<PyObject*()>& run);
// What __torch_function__ of arguments that are no tensors makes of a call which fits no form of
// the operation; null, without an error, when none has one.
// TypeError that says how to convert, where one is a tensor of PyTorch's.
void refuse_pytorch(PyObject* a, PyObject* b = nullptr);
PyObject* ask_others(PyObject* func, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
// The same where only modes are asked.
bool mode_is_on();
PyObject* with_modes(PyObject* func, const char* name, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* kwnames, const std::function<PyObject*()>& run);
// with_classes for a method or slot of Tensor; nothing but a load where nobody is to be asked.
template <class F>
inline PyObject* keeping(const char* name, std::initializer_list<PyObject*> operands, F&& run) {
  if (!asking()) [[likely]]
    return run();
  return with_classes(nullptr, name, operands.begin(), static_cast<Py_ssize_t>(operands.size()),
                      nullptr, run);
}
void init_modes(nb::module_& m);
PyObject* tensor_torch_function(PyObject* cls, PyObject* args, PyObject* kwargs);
PyObject* tensor_as_subclass(PyObject* self, PyObject* cls);

extern PyMethodDef kTensorMethods[];                                    // tensor_methods.cpp
extern PyGetSetDef kTensorProperties[];                                 // tensor_properties.cpp
void take_values(TensorImpl*, const Tensor& from);                      // what `.data = from` does
PyObject* tensor_new(PyTypeObject*, PyObject* args, PyObject* kwargs);  // creation.cpp
PyObject* tensor_subscript(PyObject*, PyObject* key);                   // indexing.cpp
int tensor_assign_subscript(PyObject*, PyObject* key, PyObject* value);
int tensor_getbuffer(PyObject*, Py_buffer*, int flags);  // interop.cpp

// ---- creation.cpp, interop.cpp ------------------------------------------------------------------
void init_creation(nb::module_& m);
void init_interop(nb::module_& m);
// pf.tensor(data): always a copy.
Tensor tensor_from_data(PyObject* data, PyObject* dtype, PyObject* device, bool copy,
                        const char* op);
// Memory of an object with the buffer protocol, shared or copied.
Tensor tensor_from_buffer(PyObject* owner, const char* op, bool copy);
inline Tensor move_to(const Tensor& t, Device d, bool non_blocking = false) {
  return to(t, d, non_blocking);
}

// ---- the registry: registry.cpp -----------------------------------------------------------------
void init_registry(nb::module_& m);
// The callable of an operation (borrowed), null when there is none of that name.
PyObject* find_op(const char* name);
// Calls operation `name` with positional arguments; NotImplemented when there is none.
PyObject* call_op(const char* name, std::initializer_list<PyObject*> args);

// "Tensor[2, 3]", "list of str": an argument as errors tell of it.
std::string describe(PyObject*);

// ---- functions.cpp ------------------------------------------------------------------------------
// Puts all functions of nanobind in the module behind ours, which say in our words what does not
// fit.
void init_functions(PyObject* module);

// ---- capture.cpp, replay.cpp --------------------------------------------------------------------
void init_capture(nb::module_& m);
void init_replay(nb::module_& m);
void about_to_set(RandomState);  // a capture may not be able to follow

// ---- memory.cpp ---------------------------------------------------------------------------------
void init_memory(nb::module_& m);
// In pinned memory for a device: without one for the current device, or else the first GPU. The
// tensor itself where there is none.
Tensor pinned(const Tensor&, PyObject* device = nullptr);
PyObject* tensor_pin_memory(PyObject* self, PyObject* args, PyObject* kwargs);
PyObject* tensor_is_pinned(PyObject* self, PyObject* args, PyObject* kwargs);
PyObject* tensor_record_stream(PyObject* self, PyObject* stream);

// ---- amp.cpp ------------------------------------------------------------------------------------
void init_amp(nb::module_& m);

// ---- autograd.cpp -----------------------------------------------------------------------------
void init_autograd(nb::module_& m);
void init_func(nb::module_& m);       // func.cpp
void init_node(nb::module_& m);       // node.cpp
PyObject* grad_fn_of(const Tensor&);  // new reference, None for a leaf
PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* kwargs);
PyObject* tensor_register_hook(PyObject* self, PyObject* hook);
PyObject* tensor_register_accumulated(PyObject* self, PyObject* hook);
PyObject* tensor_retain_grad(PyObject* self, PyObject*);

}  // namespace pyflame::python

namespace nanobind::detail {
template <>
struct type_caster<pyflame::Tensor> {
  NB_TYPE_CASTER(pyflame::Tensor, const_name("pyflame.Tensor"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (!pyflame::python::is_tensor(src.ptr())) return false;
    value = pyflame::python::tensor_of(src.ptr());
    return value.defined();  // one with nothing inside fits no function
  }
  static handle from_cpp(const pyflame::Tensor& t, rv_policy, cleanup_list*) noexcept {
    return pyflame::python::wrap(t);
  }
};
}  // namespace nanobind::detail
