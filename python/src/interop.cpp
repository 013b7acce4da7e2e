// Sharing memory: buffer protocol and DLPack, both ways.
#include <algorithm>
#include <memory>
#include <optional>

#include "common.h"
#include "core/backends.h"
#include "core/mapped.h"
#include "core/sparse.h"
#include "engine/capture.h"
#include "engine/engine.h"
#include "engine/hidden.h"

namespace pyflame::python {

namespace {

// ---- buffer protocol: formats -------------------------------------------------------------------
constexpr std::pair<DType, const char*> kFormats[] = {
    {DType::Float32, "f"},    {DType::Float64, "d"},    {DType::Float16, "e"}, {DType::Int64, "l"},
    {DType::Int32, "i"},      {DType::Int16, "h"},      {DType::Int8, "b"},    {DType::UInt8, "B"},
    {DType::Bool, "?"},       {DType::UInt16, "H"},     {DType::UInt32, "I"},  {DType::UInt64, "L"},
    {DType::Complex64, "Zf"}, {DType::Complex128, "Zd"}};

const char* format_of(DType t) {
  for (auto [d, f] : kFormats)
    if (d == t) return f;
  return nullptr;
}

DType dtype_of(const char* format, Py_ssize_t itemsize, const char* op) {
  const char* f = format ? format : "B";
  if (*f == '>' || *f == '!')
    PF_FAIL(DTypeError, op, "got big-endian values (format '", f,
            "'); expected the machine's byte order; convert with array.astype(array.dtype."
            "newbyteorder('='))");
  if (*f == '@' || *f == '=' || *f == '<') ++f;
  std::string_view s(f);
  auto integer = [&](bool is_signed) {
    for (auto [d, unused] : kFormats) {
      Kind k = info(d).kind;
      if (static_cast<Py_ssize_t>(itemsize) == static_cast<Py_ssize_t>(pyflame::itemsize(d)) &&
          k == (is_signed ? Kind::Int : Kind::UInt))
        return d;
    }
    return DType::Int64;
  };
  if (s.size() == 1 && std::strchr("bhilqn", s[0])) return integer(true);
  if (s.size() == 1 && std::strchr("BHILQNc", s[0])) return integer(false);
  for (auto [d, text] : kFormats)
    if (s == text) return d;
  PF_FAIL(DTypeError, op, "got elements of format '", f,
          "'; expected numbers or bools; convert the array first, for example with "
          ".astype('float32')");
}

// NumPy cannot show ml_dtypes' types through the buffer protocol: their bits travel as integers.
std::optional<DType> extension_dtype(PyObject* owner) {
  Obj dtype(PyObject_GetAttrString(owner, "dtype"));
  Obj name(dtype ? PyObject_GetAttrString(dtype.get(), "name") : nullptr);
  if (!name) {  // whose properties may be Python, where a signal's handler raises
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
    PyErr_Clear();
  }
  if (!name || !PyUnicode_Check(name.get())) return {};
  const std::string text = text_of(name.get());
  for (const DTypeInfo& row : kDTypes)
    if (row.kind == Kind::Float && row.typestr.empty() && text == row.name) return row.id;
  return {};
}

// A captured step that copies an array looks at all of it before each call.
void told_of_array(PyObject* array) {
  const nb::object recording = nb::module_::import_("pyflame._live").attr("recording");
  const nb::object arrays = recording.is_none() ? recording : nb::object(recording.attr("arrays"));
  if (!arrays.is_none()) arrays.attr("append")(nb::borrow(array));
}

}  // namespace

Tensor tensor_from_buffer(PyObject* owner, const char* op, bool copy) {
  std::optional<DType> extension = extension_dtype(owner);
  Obj source = Obj::share(owner);
  if (extension)
    source = Obj(check(
        PyObject_CallMethod(owner, "view", "s", itemsize(*extension) == 2 ? "uint16" : "uint8")));
  Obj memory(PyMemoryView_FromObject(source.get()));
  if (!memory) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError();  // KeyboardInterrupt
    PyErr_Clear();
    type_error(std::string("pf.") + op + ": got an object of type " + Py_TYPE(owner)->tp_name +
               " whose memory cannot be shared; expected an array of numbers or bools; convert "
               "it first, for example with numpy.asarray(x, dtype='float32')");
  }
  Py_buffer* b = PyMemoryView_GET_BUFFER(memory.get());
  const DType dtype = extension.value_or(dtype_of(b->format, b->itemsize, op));
  Dims shape(std::span<const int64_t>(b->shape, static_cast<size_t>(b->ndim)));
  if (copy) {
    if (engine::capturing()) told_of_array(owner);
    std::vector<char> bytes(static_cast<size_t>(b->len));
    if (b->len) check(PyBuffer_ToContiguous(bytes.data(), b, b->len, 'C'));
    return from_host(bytes.data(), shape.vec(), dtype, Device{}.afloat());
  }
  Dims strides = contiguous_strides(shape);
  if (b->strides && numel(shape) > 0) {
    for (int i = 0; i < b->ndim; ++i) {
      if (b->strides[i] < 0)
        PF_FAIL(ValueError, op,
                "got an array with negative strides; expected positive ones; "
                "copy it first with .copy() or use pyflame.tensor");
      if (b->strides[i] % b->itemsize)
        PF_FAIL(ValueError, op,
                "got strides that are no multiple of the element size; copy the "
                "array first with .copy()");
      strides[i] = b->strides[i] / b->itemsize;
    }
  }
  if (reinterpret_cast<uintptr_t>(b->buf) % static_cast<uintptr_t>(b->itemsize))
    PF_FAIL(ValueError, op,
            "got memory that is not aligned to its elements; copy the array first "
            "with .copy()");
  const auto held = std::make_shared<ReleasedLater>(std::move(memory));
  return wrap_foreign(b->buf, shape, strides, dtype, Device{}.afloat(), b->readonly != 0,
                      [held] {});
}

// ---- buffer protocol: export --------------------------------------------------------------------
// What a buffer keeps alive: the memory, not the tensor, which may get other memory (`.data = `,
// module.double()) while the buffer is in use.
namespace {

struct PyExport {
  PyObject_HEAD Tensor memory;
};
PyTypeObject* ExportType = nullptr;

Tensor alias_of(const Tensor& t) {
  return make_view(t, t->shape, t->strides, t->offset);
}
PyObject* make_export(const Tensor& t) {
  auto* e = PyObject_New(PyExport, ExportType);
  if (!e) throw PythonError();
  new (&e->memory) Tensor(alias_of(t));
  return reinterpret_cast<PyObject*>(e);
}
void export_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  reinterpret_cast<PyExport*>(o)->memory.~Tensor();
  PyObject_Free(o);
  Py_DECREF(type);
}
void export_release(PyObject*, Py_buffer* view) {
  delete[] static_cast<Py_ssize_t*>(view->internal);
  view->internal = nullptr;
}
PyType_Slot export_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(&export_dealloc)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(&export_release)},
    {Py_tp_doc, const_cast<char*>("Memory of a tensor, kept for those who were shown it.")},
    {0, nullptr}};
PyType_Spec export_spec = {"pyflame._C.Export", sizeof(PyExport), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, export_slots};

// Pages of a mapped file that went away before are told of; those that go later read as zeros.
void check_shown_of(const Tensor& t, const char* op) {
  if (t->numel == 0 || !t->storage->device.is_cpu()) return;
  int64_t last = t->offset;
  for (int i = 0; i < t->shape.size(); ++i) last += (t->shape[i] - 1) * t->strides[i];
  const auto* data = static_cast<const char*>(t->storage->data);
  if (data) check_shown(data + (last + 1) * static_cast<int64_t>(itemsize(t->dtype)) - 1, op);
}

}  // namespace

int tensor_getbuffer(PyObject* o, Py_buffer* view, int flags) {
  view->obj = nullptr;
  auto refuse = [&](const std::string& why) {
    PyErr_SetString(PyExc_BufferError, why.c_str());
    return -1;
  };
  try {
    const Tensor& given = tensor_of(o);
    if (given.requires_grad())
      return refuse("a tensor that requires grad does not show its memory; use .detach()");
    const Tensor t = alias_of(given);  // which another thread cannot give other memory
    const char* format = format_of(t->dtype);
    if (!format)
      return refuse("the buffer protocol has no format for " + std::string(name(t->dtype)) +
                    "; convert with .float() first, or .view(pyflame.uint8) for its bits");
    if (!backend_of(t->storage->device)->host_readable)
      return refuse("memory of " + t->storage->device.str() + " cannot be read; use .cpu()");
    if ((flags & PyBUF_WRITABLE) && t->storage->readonly) return refuse("the memory is read-only");
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !t->contiguous)
      return refuse("the tensor is not contiguous; use .contiguous()");
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !t->contiguous)
      return refuse("the tensor is not contiguous; use .contiguous()");
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
      std::vector<int64_t> shape = t->shape.vec(), strides = t->strides.vec();
      std::reverse(shape.begin(), shape.end());
      std::reverse(strides.begin(), strides.end());
      if (!is_contiguous(Dims(shape), Dims(strides)))
        return refuse("the tensor is not in column-major order; use memoryview or .contiguous()");
    }
    const int n = t->shape.size();
    static char nothing[16];
    void* data = engine::host_data(t, "buffer", !t->storage->readonly);
    check_shown_of(t, "buffer");
    engine::mark_foreign(t);
    Obj keeper(make_export(t));
    auto* geometry = new Py_ssize_t[static_cast<size_t>(2 * n + 1)];
    const auto size = static_cast<Py_ssize_t>(itemsize(t->dtype));
    for (int i = 0; i < n; ++i) {
      geometry[i] = t->shape[i];
      geometry[n + i] = t->strides[i] * size;
    }
    view->obj = keeper.release();
    view->buf = data ? data : nothing;
    view->len = t->numel * size;
    view->readonly = t->storage->readonly;
    view->itemsize = size;
    view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
    view->ndim = n;
    view->shape = (flags & PyBUF_ND) ? geometry : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? geometry + n : nullptr;
    view->suboffsets = nullptr;
    view->internal = geometry;
    return 0;
  } catch (...) {
    raise_current();
    return -1;
  }
}

// ---- DLPack -------------------------------------------------------------------------------------
namespace {

struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
constexpr uint64_t kReadOnly = 1;  // a flag of DLManagedVersioned
enum DLCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3Fn = 10,
  kFloat8E4M3Fnuz = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2Fnuz = 13,
  kFloat8E8M0Fnu = 14
};
enum DLDeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11 };

DLDataType dl_dtype(DType t) {
  const DTypeInfo& i = info(t);
  uint8_t code = kFloat;
  switch (i.kind) {
    case Kind::Bool:
      code = kBool;
      break;
    case Kind::UInt:
      code = kUInt;
      break;
    case Kind::Int:
      code = kInt;
      break;
    case Kind::Complex:
      code = kComplex;
      break;
    case Kind::Float:
      code = t == DType::BFloat16         ? kBfloat
             : t == DType::Float8E4M3     ? kFloat8E4M3Fn
             : t == DType::Float8E5M2     ? kFloat8E5M2
             : t == DType::Float8E4M3FNUZ ? kFloat8E4M3Fnuz
             : t == DType::Float8E5M2FNUZ ? kFloat8E5M2Fnuz
             : t == DType::Float8E8M0     ? kFloat8E8M0Fnu
                                          : kFloat;
  }
  return {code, static_cast<uint8_t>(i.bits), 1};
}
DType from_dl(DLDataType d) {
  for (const DTypeInfo& i : kDTypes) {
    DLDataType mine = dl_dtype(i.id);
    if (mine.code == d.code && mine.bits == d.bits && d.bits >= 8 && d.lanes == 1) return i.id;
  }
  PF_FAIL(DTypeError, "from_dlpack", "got a DLPack type with code ", int{d.code}, ", ", int{d.bits},
          " bits and ", d.lanes, " lanes; expected one of pyflame's dtypes");
}
DLDevice dl_device(Device d) {
  switch (d.type) {
    case DeviceType::ROCm:
      return {kRocm, d.index};
    case DeviceType::CUDA:
      return {kCuda, d.index};
    default:
      return {kCpu, 0};
  }
}

template <class M>
struct Export {
  M managed{};
  Tensor tensor;
  Dims shape, strides;
};
template <class M>
void delete_export(M* m) {
  delete static_cast<Export<M>*>(m->context);
}
template <class M>
void capsule_destructor(PyObject* capsule) {
  const char* name = PyCapsule_GetName(capsule);
  if (!name || std::strncmp(name, "dltensor", 8) != 0) return;  // used: its consumer deletes it
  auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  if (m && m->deleter) m->deleter(m);
}

template <class M>
PyObject* export_capsule(const Tensor& given, const char* name) {
  auto e = std::make_unique<Export<M>>();
  e->tensor = alias_of(given);
  const Tensor& t = e->tensor;  // which another thread cannot give other memory
  e->shape = t->shape;
  e->strides = t->strides;
  DLTensor& d = e->managed.tensor;
  d.data = engine::device_data(t);
  engine::mark_foreign(t);
  d.device = dl_device(t->storage->device);
  d.ndim = t->shape.size();
  d.dtype = dl_dtype(t->dtype);
  d.shape = e->shape.data();
  d.strides = e->strides.data();
  d.byte_offset = 0;
  e->managed.context = e.get();
  e->managed.deleter = delete_export<M>;
  if constexpr (std::is_same_v<M, DLManagedVersioned>) {
    e->managed.major = 1;
    e->managed.minor = 0;
    e->managed.flags = t->storage->readonly ? kReadOnly : 0;
  }
  PyObject* capsule = check(PyCapsule_New(&e->managed, name, capsule_destructor<M>));
  static_cast<void>(e.release());  // the capsule's from here on
  return capsule;
}

nb::object dlpack(const Tensor& self, nb::handle, nb::handle max_version, nb::handle device,
                  nb::handle copy) {
  PF_CHECK(!self.requires_grad(), ValueError, "Tensor.__dlpack__",
           "got a tensor that requires grad; expected one without history; use .detach()");
  PF_CHECK(backend_of(self->storage->device)->host_readable || !self->storage->device.is_cpu(),
           DeviceError, "Tensor.__dlpack__", "memory of ", self->storage->device,
           " cannot be shared; use .cpu()");
  PF_CHECK(self->storage->device.type != DeviceType::Paranoid, DeviceError, "Tensor.__dlpack__",
           "memory of ", self->storage->device, " cannot be shared; use .cpu()");
  PF_CHECK(info(self->dtype).bits >= 8, DTypeError, "Tensor.__dlpack__", "got dtype ", self->dtype,
           ", two elements in a byte; expected whole bytes; convert first with .to(pyflame.int8)");
  (void)device;
  Tensor t = copy.ptr() == Py_True ? clone(self) : self;
  bool versioned = false;
  if (!max_version.is_none()) {
    int major = 0, minor = 0;
    if (!PyTuple_Check(max_version.ptr()) || PyTuple_GET_SIZE(max_version.ptr()) != 2)
      type_error("pf.Tensor.__dlpack__: got max_version " + describe(max_version.ptr()) +
                 "; expected a tuple of two ints, or None");
    if (!PyArg_ParseTuple(max_version.ptr(), "ii:__dlpack__", &major, &minor)) throw PythonError();
    versioned = major >= 1;
  }
  check_shown_of(t, "Tensor.__dlpack__");
  if (versioned) return nb::steal(export_capsule<DLManagedVersioned>(t, "dltensor_versioned"));
  PF_CHECK(!t->storage->readonly, ValueError, "Tensor.__dlpack__",
           "got read-only memory; the old DLPack interface cannot say so; use .clone()");
  return nb::steal(export_capsule<DLManaged>(t, "dltensor"));
}

template <class M>
Tensor import_capsule(PyObject* capsule, const char* name, const char* used) {
  auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  if (!m) throw PythonError();
  const DLTensor& d = m->tensor;
  Device device;
  switch (d.device.type) {
    case kCpu:
    case kCudaHost:
    case kRocmHost:
      break;
    case kCuda:
      device = {DeviceType::CUDA, static_cast<int8_t>(d.device.id)};
      break;
    case kRocm:
      device = {DeviceType::ROCm, static_cast<int8_t>(d.device.id)};
      break;
    default:
      PF_FAIL(DeviceError, "from_dlpack", "got memory of DLPack device type ", d.device.type,
              "; expected CPU, CUDA or ROCm memory; copy it to the CPU first");
  }
  PF_CHECK(d.ndim >= 0 && d.ndim <= kMaxDims, ShapeError, "from_dlpack", "got an array of ", d.ndim,
           " dimensions; expected 0 to ", kMaxDims, "; reshape it where it was made");
  PF_CHECK(d.shape || d.ndim == 0, ShapeError, "from_dlpack", "got an array of ", d.ndim,
           " dimensions without a shape; expected one; its maker has left it out");
  Dims shape(std::span<const int64_t>(d.shape, static_cast<size_t>(d.ndim)));
  Dims strides = d.strides ? Dims(std::span<const int64_t>(d.strides, static_cast<size_t>(d.ndim)))
                           : contiguous_strides(shape);
  for (int i = 0; i < strides.size(); ++i)
    if (strides[i] < 0)
      PF_FAIL(ValueError, "from_dlpack",
              "got an array with negative strides; expected positive ones; copy it first");
  DType dtype = from_dl(d.dtype);
  bool readonly = false;
  if constexpr (std::is_same_v<M, DLManagedVersioned>) {
    PF_CHECK(m->major == 1, NotSupportedError, "from_dlpack", "got DLPack version ", m->major,
             "; expected version 1");
    readonly = m->flags & kReadOnly;
  }
  // The producer's deleter may need the GIL: it runs when this capsule is dropped from the queue.
  Obj own(check(PyCapsule_New(m, nullptr, nullptr)));
  const auto owner = std::make_shared<ReleasedLater>(std::move(own));
  check(PyCapsule_SetName(capsule, used));
  check(PyCapsule_SetDestructor(owner->object, [](PyObject* c) {  // ours to delete only now
    auto* p = static_cast<M*>(PyCapsule_GetPointer(c, nullptr));
    if (p->deleter) p->deleter(p);
  }));
  // How far its elements reach, in numbers that may be anything.
  const int64_t count = checked_numel(shape, "from_dlpack");
  int64_t last = 0, end = 0;
  bool fits = d.byte_offset <= static_cast<uint64_t>(INT64_MAX);
  for (int i = 0; count > 0 && i < shape.size(); ++i) {
    int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  fits = fits && !__builtin_mul_overflow(last + 1, static_cast<int64_t>(itemsize(dtype)), &end) &&
         !__builtin_add_overflow(end, static_cast<int64_t>(d.byte_offset), &end);
  PF_CHECK(
      fits, ValueError, "from_dlpack", "got an array of shape ", shape, " and strides ", strides,
      " at ", d.byte_offset,
      " bytes behind its memory's begin; expected less than 2^63 bytes; its maker has them wrong");
  PF_CHECK(d.data || count == 0, ValueError, "from_dlpack", "got an array of shape ", shape,
           " without memory; expected an address; its maker has left it out");
  if (device.is_cpu()) device.floating = true;
  return wrap_foreign(static_cast<char*>(d.data) + d.byte_offset, shape, strides, dtype, device,
                      readonly, [owner] {});
}

Tensor from_dlpack(nb::handle source) {
  Obj capsule;
  if (PyCapsule_CheckExact(source.ptr())) {
    capsule = Obj::share(source.ptr());
  } else {
    Obj method(PyObject_GetAttrString(source.ptr(), "__dlpack__"));
    if (!method) {
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
      PyErr_Clear();
      type_error(std::string("pf.from_dlpack: got an object of type ") +
                 Py_TYPE(source.ptr())->tp_name +
                 "; expected one with __dlpack__, such as an array of another library");
    }
    Obj args(check(PyTuple_New(0))), kwargs(check(Py_BuildValue("{s(ii)}", "max_version", 1, 0)));
    capsule = Obj(in_python([&] { return PyObject_Call(method.get(), args.get(), kwargs.get()); }));
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // an older producer
      PyErr_Clear();
      capsule = Obj(in_python([&] { return PyObject_Call(method.get(), args.get(), nullptr); }));
    }
    if (!capsule) throw PythonError();
  }
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned"))
    return import_capsule<DLManagedVersioned>(capsule.get(), "dltensor_versioned",
                                              "used_dltensor_versioned");
  if (PyCapsule_IsValid(capsule.get(), "dltensor"))
    return import_capsule<DLManaged>(capsule.get(), "dltensor", "used_dltensor");
  if (!PyCapsule_CheckExact(capsule.get()))
    type_error(std::string("pf.from_dlpack: __dlpack__ gave an object of type ") +
               Py_TYPE(capsule.get())->tp_name + "; expected a capsule; give an array");
  const char* name = PyCapsule_GetName(capsule.get());
  const bool used = name && std::string_view(name).starts_with("used_dltensor");
  PF_FAIL(ValueError, "from_dlpack", "got a capsule ",
          used ? "that was used before; make a new one"
               : "of something else; expected one with the name dltensor; give an array");
}

Tensor frombuffer(nb::handle buffer, nb::handle dtype, int64_t count, int64_t offset,
                  bool requires_grad) {
  Obj memory(check(PyMemoryView_FromObject(buffer.ptr())));
  Py_buffer* b = PyMemoryView_GET_BUFFER(memory.get());
  const DType t = to_dtype(dtype.ptr());
  PF_CHECK(info(t).bits >= 8, DTypeError, "frombuffer", "got dtype ", t,
           ", two elements in a byte; expected whole bytes; use dtype=pyflame.uint8 and "
           ".view(pyflame.int4)");
  const auto size = static_cast<int64_t>(itemsize(t));
  PF_CHECK(PyBuffer_IsContiguous(b, 'C'), ValueError, "frombuffer",
           "got memory that is not contiguous; copy it first");
  PF_CHECK(offset >= 0 && offset <= b->len, ValueError, "frombuffer", "got offset ", offset,
           " for a buffer of ", b->len, " bytes; expected an offset inside it");
  if (count < 0) {
    PF_CHECK((b->len - offset) % size == 0, ValueError, "frombuffer", "got ", b->len - offset,
             " bytes after the offset; expected a multiple of ", size, "; pass count=");
    count = (b->len - offset) / size;
  }
  PF_CHECK(count <= (b->len - offset) / size, ValueError, "frombuffer", "got count ", count, " of ",
           size, " bytes each with offset ", offset, " for a buffer of ", b->len,
           " bytes; expected fewer");
  char* data = static_cast<char*>(b->buf) + offset;
  PF_CHECK(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) == 0, ValueError,
           "frombuffer", "got offset ", offset, "; the memory there is not aligned to ", size,
           " bytes; copy the buffer first");
  const auto held = std::make_shared<ReleasedLater>(std::move(memory));
  Tensor r =
      wrap_foreign(data, Dims{count}, Dims{1}, t, Device{}.afloat(), b->readonly != 0, [held] {});
  if (requires_grad) r.requires_grad_(true);
  return r;
}

// Memory that nobody writes while the tensor is there (utils/data/shared.py): operations on it may
// wait, as on our own.
Tensor shared_tensor(nb::handle buffer, nb::handle dtype, int64_t count, int64_t offset) {
  Tensor flat = frombuffer(buffer, dtype, count, offset, false);
  flat->storage->foreign = false;
  return flat;
}

Tensor from_numpy(nb::handle array) {
  if (!PyObject_CheckBuffer(array.ptr()) || is_tensor(array.ptr()))
    type_error(std::string("pf.from_numpy: got an object of type ") +
               Py_TYPE(array.ptr())->tp_name +
               "; expected a NumPy array; use pyflame.tensor for numbers, lists and tensors");
  return tensor_from_buffer(array.ptr(), "from_numpy", false);
}

nb::object numpy_of(nb::handle self, bool force) {
  Tensor t = tensor_in(self.ptr());
  PF_CHECK(!sparse_parts(t), NotSupportedError, "Tensor.numpy",
           "got a sparse tensor; expected a dense one; use tensor.to_dense().numpy()");
  PyObject* source = self.ptr();
  const DeviceScope here{Device{}};
  Obj owned;
  engine::refuse_to_read(t);  // else NumPy asks for the array in one way after the other
  if (t.requires_grad()) {
    PF_CHECK(force, AutogradError, "Tensor.numpy",
             "got a tensor that requires grad; expected one without history; use "
             "tensor.detach().numpy()");
    t = t.detach();
  }
  // From another device the values are copied: people write tensor.numpy() wherever it lives.
  if (!t->storage->device.is_cpu()) t = move_to(t, Device{});
  check_shown_of(t, "Tensor.numpy");
  if (!format_of(t->dtype)) {
    PF_CHECK(
        force, DTypeError, "Tensor.numpy", "got dtype ", t->dtype,
        "; NumPy has no such type; convert first with tensor.float().numpy(), or show its bits "
        "with tensor.view(pyflame.uint8).numpy()");
    t = to(t, is_float(t->dtype) ? DType::Float32 : DType::Int8);
  }
  if (t.impl() != tensor_of(self.ptr()).impl()) {
    owned = Obj(check(wrap(t)));
    source = owned.get();
  }
  return in_python([&] {
    Obj numpy(check(PyImport_ImportModule("numpy")));
    return nb::steal<nb::object>(check(PyObject_CallMethod(numpy.get(), "asarray", "O", source)));
  });
}

}  // namespace

void init_interop(nb::module_& m) {
  ExportType = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&export_spec)));
  m.def("from_numpy", &from_numpy, nb::arg("ndarray"),
        "A tensor that shares the memory of a NumPy array (read-only if the array is).");
  m.def("_shared_tensor", &shared_tensor);
  m.def("frombuffer", &frombuffer, nb::arg("buffer"), nb::kw_only(), nb::arg("dtype"),
        nb::arg("count") = -1, nb::arg("offset") = 0, nb::arg("requires_grad") = false,
        "A 1-d tensor over the bytes of an object with the buffer protocol.");
  m.def("from_dlpack", &from_dlpack, nb::arg("ext_tensor"),
        "A tensor that shares the memory of another library's array.");
  m.def("_numpy", &numpy_of);
  m.def("_dlpack", &dlpack, nb::arg("self"), nb::arg("stream").none(),
        nb::arg("max_version").none(), nb::arg("dl_device").none(), nb::arg("copy").none());
  m.def("_dlpack_device", [](const Tensor& t) {
    DLDevice d = dl_device(t->storage->device);
    return nb::make_tuple(d.type, d.id);
  });
}

}  // namespace pyflame::python
