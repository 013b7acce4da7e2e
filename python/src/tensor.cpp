// class Tensor: allocation, number slots, comparisons, sequence protocol.
#include "common.h"
#include "cycles.h"
#include "ops/complex.h"
#include "ops/pointwise.h"

namespace pyflame::python {

PyTypeObject* TensorType;

namespace {

// ---- life ---------------------------------------------------------------------------------------
// Dead wrappers of the plain class are kept: most operations in a loop free as many as they make.
constexpr int kFreeMax = 256;
PyTensor* free_list[kFreeMax];
int free_count = 0;

inline PyTensor* allocate() {
  PyTensor* self;
  if (free_count > 0) {
    self = free_list[--free_count];
    _Py_NewReference(reinterpret_cast<PyObject*>(self));
  } else {
    self = PyObject_GC_New(PyTensor, TensorType);
    if (!self) throw PythonError();
  }
  self->dict = nullptr;
  self->weakrefs = nullptr;
  return self;  // untracked: it joins the collector when it gets a __dict__
}

void tensor_dealloc(PyObject* o) {
  auto* self = reinterpret_cast<PyTensor*>(o);
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  if (self->weakrefs) PyObject_ClearWeakRefs(o);
  Tensor last = std::move(self->tensor);
  if (last.defined() && last->wrapper == o) last->wrapper = nullptr;
  Py_CLEAR(self->dict);
  if (type == TensorType && free_count < kFreeMax) {
    free_list[free_count++] = self;
  } else {
    self->tensor.~Tensor();
    type->tp_free(o);
    Py_DECREF(type);
  }
}

int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<PyTensor*>(o)->dict);
  Py_VISIT(Py_TYPE(o));
  return visit_graph(tensor_of(o), visit, arg);
}
int tensor_clear(PyObject* o) {
  clear_graph(tensor_of(o));
  Py_CLEAR(reinterpret_cast<PyTensor*>(o)->dict);
  return 0;
}
int tensor_setattr(PyObject* o, PyObject* name, PyObject* value) {
  auto* self = reinterpret_cast<PyTensor*>(o);
  bool had = self->dict != nullptr;
  int rc = PyObject_GenericSetAttr(o, name, value);
  if (!had && self->dict) track(o);
  return rc;
}

// ---- operands -----------------------------------------------------------------------------------
// Python's own numbers, quickly; NumPy's scalars and others by to_scalar.
inline bool number(PyObject* o, Scalar* s) {
  if (PyFloat_CheckExact(o)) {
    *s = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  return to_scalar(o, s);
}

// NumPy arrays as operands are copied, as PyTorch does. A complex number is a tensor without
// dimensions, as wide as the operand beside it.
Tensor array_operand(PyObject* o, const Tensor& beside) {
  if (std::complex<double> z; to_complex(o, &z))
    return to(from_host(&z, {}, DType::Complex128, beside->device()), complex_type(beside->dtype));
  if (PyObject_HasAttrString(o, "__array_interface__"))
    return tensor_from_data(o, nullptr, nullptr, true, "tensor");
  return {};
}

template <class TT, class TS, class ST>
inline PyObject* binary_plain(PyObject* a, PyObject* b, TT tt, TS ts, ST st) {
  return guarded([&]() -> PyObject* {
    Scalar s;
    if (is_tensor(a)) [[likely]] {
      if (is_tensor(b)) return wrap(tt(tensor_of(a), tensor_of(b)));
      if (number(b, &s)) return wrap(ts(tensor_of(a), s));
      Tensor t = array_operand(b, tensor_of(a));
      if (t.defined()) return wrap(tt(tensor_of(a), t));
    } else if (number(a, &s)) {
      return wrap(st(s, tensor_of(b)));
    } else {
      Tensor t = array_operand(a, tensor_of(b));
      if (t.defined()) return wrap(tt(t, tensor_of(b)));
    }
    refuse_pytorch(a, b);
    Py_RETURN_NOTIMPLEMENTED;
  });
}

// A number on the left of a subclass's operand becomes a tensor: methods begin with one.
template <class F>
PyObject* binary_kept(const char* name, PyObject* a, PyObject* b, F&& run) {
  return guarded([&]() -> PyObject* {
    Scalar s;
    Obj left;
    if (!is_tensor(a) && number(a, &s)) left = Obj(check(wrap(number_like(s, tensor_of(b)))));
    PyObject* args[2] = {left ? left.get() : a, b};
    return with_classes(nullptr, name, args, 2, nullptr, run);
  });
}

template <class TT, class TS, class ST>
inline PyObject* binary(const char* name, PyObject* a, PyObject* b, TT tt, TS ts, ST st) {
  if (!asking()) [[likely]]
    return binary_plain(a, b, tt, ts, st);
  return binary_kept(name, a, b, [&] { return binary_plain(a, b, tt, ts, st); });
}

template <table::OpId OP>
PyObject* row(PyObject* a, PyObject* b) {
  return binary(
      table::kRowTable[OP].name, a, b,
      [](const Tensor& x, const Tensor& y) { return ops::binary_fast(OP, x, y); },
      [](const Tensor& x, Scalar y) { return ops::binary_fast(OP, x, y); },
      [](Scalar x, const Tensor& y) { return ops::binary_fast(OP, x, y); });
}
PyObject* nb_pow(PyObject* a, PyObject* b, PyObject* mod) {
  if (mod != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary(
      "pow", a, b, [](const Tensor& x, const Tensor& y) { return pow(x, y); },
      [](const Tensor& x, Scalar y) { return pow(x, y); },
      [](Scalar x, const Tensor& y) { return pow(number_like(x, y), y); });
}
PyObject* nb_matmul(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(a) || !is_tensor(b)) {
      refuse_pytorch(a, b);
      Py_RETURN_NOTIMPLEMENTED;
    }
    return keeping("matmul", {a, b}, [&] { return wrap(matmul(tensor_of(a), tensor_of(b))); });
  });
}

// Operators without a C++ function: the registry has them.
template <size_t N>
struct Name {
  char text[N];
  consteval Name(const char (&s)[N]) { std::copy_n(s, N, text); }  // NOLINT: implicit
};
PyObject* by_name_plain(const char* name, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Scalar s;
    if (is_tensor(a)) {
      if (is_tensor(b) || number(b, &s)) return call_op(name, {a, b});
      refuse_pytorch(b);
      Py_RETURN_NOTIMPLEMENTED;
    }
    if (!number(a, &s)) {
      refuse_pytorch(a);
      Py_RETURN_NOTIMPLEMENTED;
    }
    Obj left(check(wrap(number_like(s, tensor_of(b)))));
    return call_op(name, {left.get(), b});
  });
}
PyObject* by_name(const char* name, PyObject* a, PyObject* b) {
  if (!asking()) [[likely]]
    return by_name_plain(name, a, b);
  return binary_kept(name, a, b, [&] { return by_name_plain(name, a, b); });
}
template <Name kName>
PyObject* named(PyObject* a, PyObject* b) {
  return by_name(kName.text, a, b);
}
PyObject* nb_invert(PyObject* a) {
  return guarded(
      [&] { return keeping("bitwise_not", {a}, [&] { return call_op("bitwise_not", {a}); }); });
}
PyObject* nb_divmod(PyObject* a, PyObject* b) {
  Obj q(by_name("floor_divide", a, b));
  if (!q || q.get() == Py_NotImplemented) return q.release();
  Obj r(by_name("remainder", a, b));
  return r ? PyTuple_Pack(2, q.get(), r.get()) : nullptr;
}

PyObject* inplace(const char* name, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Scalar s;
    if (is_tensor(a) && (is_tensor(b) || number(b, &s)))
      return keeping(name, {a, b}, [&]() -> PyObject* {
        Obj r(call_op(name, {a, b}));
        if (!r || r.get() == Py_NotImplemented) return r.release();
        return Py_NewRef(a);
      });
    refuse_pytorch(b);
    Py_RETURN_NOTIMPLEMENTED;
  });
}
template <Name kName, class... Modulus>
PyObject* inplace_named(PyObject* a, PyObject* b, Modulus...) {
  return inplace(kName.text, a, b);
}
PyObject* nb_iadd(PyObject* a, PyObject* b) {
  if (is_tensor(b))
    return guarded([&] {
      return keeping("add_", {a, b}, [&] {
        add_(tensor_of(a), tensor_of(b));
        return Py_NewRef(a);
      });
    });
  return inplace("add_", a, b);
}

PyObject* nb_neg(PyObject* a) {
  return guarded([&] { return keeping("neg", {a}, [&] { return wrap(neg(tensor_of(a))); }); });
}
PyObject* nb_pos(PyObject* a) {
  Py_INCREF(a);
  return a;
}
PyObject* nb_abs(PyObject* a) {
  return guarded([&] { return keeping("abs", {a}, [&] { return wrap(abs(tensor_of(a))); }); });
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  namespace o = ops::op;
  switch (op) {
    case Py_LT:
      return row<o::lt>(a, b);
    case Py_LE:
      return row<o::le>(a, b);
    case Py_GT:
      return row<o::gt>(a, b);
    case Py_GE:
      return row<o::ge>(a, b);
    case Py_EQ:
      return row<o::eq>(a, b);
    default:
      return row<o::ne>(a, b);
  }
}

// ---- as a number --------------------------------------------------------------------------------
Scalar single(PyObject* o, const char* op) {
  const Tensor& t = tensor_of(o);
  if (t->numel != 1)
    PF_FAIL(ValueError, op, "got a tensor of shape ", t->shape, " with ", t->numel,
            " elements; expected exactly one element; reduce it first, for example with .sum(), "
            ".any() or .all(), or index it");
  return t.item();
}
bool is_one_complex(PyObject* o) {
  const Tensor& t = tensor_of(o);
  return t->numel == 1 && info(t->dtype).kind == Kind::Complex;
}
PyObject* whole(Scalar s) {
  return s.is_unsigned() ? PyLong_FromUnsignedLongLong(static_cast<uint64_t>(s.i))
                         : PyLong_FromLongLong(s.i);
}
int nb_bool(PyObject* o) {
  return guarded_int([&]() -> int {
    if (is_one_complex(o)) return read_complex(tensor_of(o))[0] != 0.0;
    Scalar s = single(o, "Tensor.__bool__");
    return s.is_float() ? s.f != 0 : s.i != 0;
  });
}
PyObject* nb_float(PyObject* o) {
  return guarded([&] { return PyFloat_FromDouble(single(o, "Tensor.__float__").to_double()); });
}
PyObject* nb_int(PyObject* o) {
  return guarded([&] {
    Scalar s = single(o, "Tensor.__int__");
    return s.is_float() ? PyLong_FromDouble(s.f) : whole(s);
  });
}
PyObject* nb_index(PyObject* o) {
  return guarded([&] {
    const Tensor& t = tensor_of(o);
    if (t->numel != 1 || !is_integral(t->dtype, true))
      type_error("only integer tensors of a single element can be converted to an index");
    return whole(single(o, "Tensor.__index__"));
  });
}

// ---- sequence -----------------------------------------------------------------------------------
Py_ssize_t length(PyObject* o) {
  const Tensor& t = tensor_of(o);
  if (t->shape.empty()) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return t->shape[0];
}
PyObject* iterate(PyObject* o) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(o);
    if (t->shape.empty()) type_error("iteration over a 0-d tensor");
    Obj rows(check(keeping("unbind", {o}, [&] {
      const TensorList parts = unbind(t, 0);
      Obj r(check(PyTuple_New(static_cast<Py_ssize_t>(parts.size()))));
      for (size_t i = 0; i < parts.size(); ++i)
        PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), check(wrap(parts[i])));
      return r.release();
    })));
    return PyObject_GetIter(rows.get());
  });
}
int contains(PyObject* o, PyObject* value) {
  Obj hits(compare(o, value, Py_EQ));
  if (!hits) return -1;
  if (!is_tensor(hits.get())) return 0;
  return guarded_int([&] { return any(tensor_of(hits.get())).item().i != 0; });
}
Py_hash_t hash(PyObject* o) {
  auto y = reinterpret_cast<size_t>(o);
  auto h = static_cast<Py_hash_t>((y >> 4) | (y << (8 * sizeof(y) - 4)));
  return h == -1 ? -2 : h;
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
    {}};

PyType_Slot slots[] = {
    {Py_tp_new, slot(tensor_new)},
    {Py_tp_dealloc, slot(tensor_dealloc)},
    {Py_tp_traverse, slot(tensor_traverse)},
    {Py_tp_clear, slot(tensor_clear)},
    {Py_tp_setattro, slot(tensor_setattr)},
    {Py_tp_members, members},
    {Py_tp_methods, kTensorMethods},
    {Py_tp_getset, kTensorProperties},
    {Py_tp_richcompare, slot(compare)},
    {Py_tp_hash, slot(hash)},
    {Py_tp_iter, slot(iterate)},
    {Py_tp_doc, const_cast<char*>("An array of numbers of one dtype on one device.\n\n"
                                  "Make one with pyflame.tensor, zeros, randn and the like.")},
    {Py_nb_add, slot(row<table::op::add>)},
    {Py_nb_subtract, slot(row<table::op::sub>)},
    {Py_nb_multiply, slot(row<table::op::mul>)},
    {Py_nb_true_divide, slot(row<table::op::div>)},
    {Py_nb_power, slot(nb_pow)},
    {Py_nb_matrix_multiply, slot(nb_matmul)},
    {Py_nb_floor_divide, slot(named<"floor_divide">)},
    {Py_nb_remainder, slot(named<"remainder">)},
    {Py_nb_divmod, slot(nb_divmod)},
    {Py_nb_and, slot(named<"bitwise_and">)},
    {Py_nb_or, slot(named<"bitwise_or">)},
    {Py_nb_xor, slot(named<"bitwise_xor">)},
    {Py_nb_lshift, slot(named<"bitwise_left_shift">)},
    {Py_nb_rshift, slot(named<"bitwise_right_shift">)},
    {Py_nb_invert, slot(nb_invert)},
    {Py_nb_negative, slot(nb_neg)},
    {Py_nb_positive, slot(nb_pos)},
    {Py_nb_absolute, slot(nb_abs)},
    {Py_nb_inplace_add, slot(nb_iadd)},
    {Py_nb_inplace_subtract, slot(inplace_named<"sub_">)},
    {Py_nb_inplace_multiply, slot(inplace_named<"mul_">)},
    {Py_nb_inplace_true_divide, slot(inplace_named<"div_">)},
    {Py_nb_inplace_power, slot((inplace_named<"pow_", PyObject*>))},
    {Py_nb_inplace_floor_divide, slot(inplace_named<"floor_divide_">)},
    {Py_nb_inplace_remainder, slot(inplace_named<"remainder_">)},
    {Py_nb_inplace_and, slot(inplace_named<"bitwise_and_">)},
    {Py_nb_inplace_or, slot(inplace_named<"bitwise_or_">)},
    {Py_nb_inplace_xor, slot(inplace_named<"bitwise_xor_">)},
    {Py_nb_inplace_lshift, slot(inplace_named<"bitwise_left_shift_">)},
    {Py_nb_inplace_rshift, slot(inplace_named<"bitwise_right_shift_">)},
    {Py_nb_bool, slot(nb_bool)},
    {Py_nb_float, slot(nb_float)},
    {Py_nb_int, slot(nb_int)},
    {Py_nb_index, slot(nb_index)},
    {Py_mp_length, slot(length)},
    {Py_sq_length, slot(length)},
    {Py_sq_contains, slot(contains)},
    {Py_mp_subscript, slot(tensor_subscript)},
    {Py_mp_ass_subscript, slot(tensor_assign_subscript)},
    {Py_bf_getbuffer, slot(tensor_getbuffer)},
    {0, nullptr}};

PyType_Spec spec = {"pyflame.Tensor", sizeof(PyTensor), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

[[noreturn]] void no_tensor_in(PyObject* o) {
  if (!is_tensor(o))
    type_error(std::string("pf: got a ") + Py_TYPE(o)->tp_name + "; expected a Tensor");
  type_error(std::string("pf: got an object of ") + Py_TYPE(o)->tp_name +
             " without a tensor inside; expected one that holds values; call the class or "
             "Tensor.as_subclass, or Tensor's __init__ where a subclass has its own");
}
std::vector<Tensor> tensors_in(nb::handle list) {
  std::vector<Tensor> r;
  for (nb::handle h : list) r.push_back(tensor_in(h.ptr()));
  return r;
}

PyObject* wrap(Tensor t) {
  TensorImpl* impl = t.impl();
  if (!impl) Py_RETURN_NONE;
  if (auto* o = static_cast<PyObject*>(impl->wrapper)) {
    if (Py_REFCNT(o) > 0) {  // 0: it is being destroyed just now
      Py_INCREF(o);
      if (impl->meta && node_objects.load(std::memory_order_relaxed)) [[unlikely]]
        track(o);
      return o;
    }
  }
  if (impl->storage->sparse) [[unlikely]]
    return wrap_sparse(std::move(t));
  PyTensor* self = allocate();
  new (&self->tensor) Tensor(std::move(t));
  impl->wrapper = self;
  if (impl->meta && node_objects.load(std::memory_order_relaxed)) [[unlikely]]
    track(reinterpret_cast<PyObject*>(self));
  return reinterpret_cast<PyObject*>(self);
}

PyObject* wrap_as(PyTypeObject* cls, Tensor t) {
  if (cls == TensorType) return wrap(std::move(t));
  if (!PyType_IsSubtype(cls, TensorType)) type_error("expected a subclass of pyflame.Tensor");
  note_subclass(cls);
  auto* self = reinterpret_cast<PyTensor*>(check(cls->tp_alloc(cls, 0)));
  new (&self->tensor) Tensor(std::move(t));
  self->tensor->wrapper = self;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* wrap_tuple(const TensorList& list) {
  Obj r(check(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
  for (size_t i = 0; i < list.size(); ++i)
    PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), check(wrap(list[i])));
  return r.release();
}

Tensor number_like(Scalar s, const Tensor& like) {
  auto rank = [](Kind k) { return k == Kind::Bool ? 0 : k == Kind::Float ? 2 : 1; };
  int mine = s.is_float() ? 2 : s.is_bool() ? 0 : 1;
  DType t = rank(info(like->dtype).kind) >= mine ? like->dtype
            : mine == 2                          ? default_dtype()
                                                 : DType::Int64;
  return scalar_tensor(s, t, like->storage->device);
}

void init_tensor(PyObject* module) {
  PyObject* t = check(PyType_FromSpec(&spec));
  TensorType = reinterpret_cast<PyTypeObject*>(t);
  // NumPy lets us handle array + tensor, and knows not to treat a tensor as a sequence of rows.
  Obj priority(PyFloat_FromDouble(1000.0));
  check(PyObject_SetAttrString(t, "__array_priority__", priority.get()));
  check(PyModule_AddObjectRef(module, "Tensor", t));
}

}  // namespace pyflame::python
