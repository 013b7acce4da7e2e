#include "results.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>

#include "ops/complex.h"
#include "ops/record.h"
#include "ops/registry.h"

namespace pyflame::python {

namespace {

// One field a line, as PyTorch prints it.
PyObject* tuple_repr(PyObject* o) {
  const std::string_view name = Py_TYPE(o)->tp_name;  // "pyflame.return_types.max"
  std::string r = shown_package() + std::string(name.substr(name.find('.'))) + "(";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
    Obj value(PyObject_Repr(PyTuple_GET_ITEM(o, i)));
    const char* text = value ? PyUnicode_AsUTF8(value.get()) : nullptr;
    if (!text) return nullptr;
    r += std::string(i ? ",\n" : "\n") + Py_TYPE(o)->tp_members[i].name + "=" + text;
  }
  return PyUnicode_FromString((r + ")").c_str());
}

// One class for all forms of an operation: pyflame.return_types has it by name.
PyTypeObject* named_tuple(const table::Schema& s) {
  static std::unordered_map<std::string, PyTypeObject*> made;
  PyTypeObject*& type = made[s.name];
  if (type) return type;
  auto* fields = new std::vector<PyStructSequence_Field>();  // lives as long as the type
  for (const std::string& f : s.result_names) fields->push_back({strdup(f.c_str()), nullptr});
  fields->push_back({nullptr, nullptr});
  PyStructSequence_Desc desc{strdup(("pyflame.return_types." + s.name).c_str()), "", fields->data(),
                             static_cast<int>(s.result_names.size())};
  type = PyStructSequence_NewType(&desc);
  if (!type) throw PythonError();
  type->tp_repr = tuple_repr;
  return type;
}

// The result is complete before out= is written, so out= may be an operand. A part of one, or an
// index, is a mistake: the operand would not be what it was.
void check_one_out(const table::Schema& s, const std::vector<ops::Value>& values, const Tensor& out,
                   bool fresh) {
  const auto check = [&](const Tensor& t, bool index) {
    if (!t.defined() || t->storage != out->storage || t->numel == 0 || out->numel == 0) return;
    const bool same = t->offset == out->offset && t->shape == out->shape &&
                      t->dtype == out->dtype && t->strides == out->strides;
    const auto begin = [](const Tensor& v) { return v->offset * int64_t(itemsize(v->dtype)); };
    const auto end = [&](const Tensor& v) {
      return begin(v) + v->numel * int64_t(itemsize(v->dtype));
    };
    const bool apart = !t->contiguous || !out->contiguous || end(t) <= begin(out) ||
                       end(out) <= begin(t);  // strided ones may interleave
    PF_CHECK(same ? !index : apart, ValueError, "out", "got out= of ", s.name, " that ",
             same ? "is its index" : "shares a part of its memory with an argument",
             "; expected memory of its own, or the whole of another argument; clone() one of them");
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = s.params[i].name;
    if (const auto* t = std::get_if<Tensor>(&values[i]))
      check(*t, name == "index" || name == "indices");
    else if (const auto* list = std::get_if<TensorList>(&values[i]))
      for (const Tensor& t : *list) {
        PF_CHECK(t.impl() != out.impl(), ValueError, "out", "got out= of ", s.name,
                 " that is one of the tensors in its list; expected memory of its own; clone() it");
        check(t, false);
      }
    // What has no tensors takes its dtype from out=, unless it is told.
    else if (const auto* dtype = std::get_if<DType>(&values[i]); dtype && fresh)
      PF_CHECK(*dtype == out->dtype, DTypeError, "out", "got out= of ", out->dtype,
               " and dtype=", *dtype, " in ", s.name, "; expected the same; leave dtype out");
  }
}

// The tensors of out=: one, or one for each result.
std::span<PyObject*> outs_of(const Extras& extras, PyObject** single) {
  *single = extras.out;
  if (is_tensor(extras.out)) return {single, 1};
  return {PySequence_Fast_ITEMS(extras.out),
          static_cast<size_t>(PySequence_Fast_GET_SIZE(extras.out))};
}

// Without elements it stands for "made for me": it takes memory of the result's shape.
bool wants_memory(const Tensor& out, const Tensor& result) {
  return !(out->shape == result->shape) && out->numel == 0 && out.is_leaf() && !out.requires_grad();
}

void check_fit(const Tensor& out, const Tensor& t, const Extras& extras) {
  if (!(out->shape == t->shape) && !wants_memory(out, t))
    PF_FAIL(ShapeError, "out", "got out= of shape ", out->shape, "; expected ", t->shape,
            "; pass a tensor of that shape or use the result");
  // Kinds may widen (bool, integer, float, complex), as where a result is written in place.
  PF_CHECK(extras.fresh || ops::kind_fits(t->dtype, out->dtype), DTypeError, "out", "got out= of ",
           out->dtype, " for a result of ", t->dtype,
           "; expected one that can hold it; pass out= of another dtype or convert the result");
  PF_CHECK(!extras.recorded || !(is_float(t->dtype) || is_complex(t->dtype)), AutogradError, "out",
           "got out= and operands that require grad; expected one of them, as out= has no history; "
           "leave out= away, or write under no_grad()");
  PF_CHECK(!extras.exact || t->dtype == out->dtype, DTypeError, "out", "got out= of ", out->dtype,
           " for a result of ", t->dtype, "; expected that dtype; convert the result");
}

// As in PyTorch: sums and what is done element by element is converted, with some exceptions.
constexpr std::string_view kExactFamilies[] = {"activation", "diagonals",       "indexing",
                                               "pooling",    "matrix products", "softmax",
                                               "sorting",    "linear algebra"};
constexpr std::string_view kExact[] = {
    "abs",      "all",   "amax",         "amin",        "aminmax",    "any",           "argmax",
    "argmin",   "ceil",  "complex",      "cummax",      "cummin",     "conj_physical", "diff",
    "floor",    "frac",  "heaviside",    "histc",       "histogram",  "isin",          "isneginf",
    "isposinf", "mode",  "logcumsumexp", "multinomial", "nan_to_num", "nanquantile",   "neg",
    "norm",     "polar", "quantile",     "renorm",      "round",      "sgn",           "sign",
    "signbit",  "tril",  "triu",         "trunc",       "where"};
constexpr std::string_view kConverted[] = {"addr",
                                           "cholesky",
                                           "cholesky_inverse",
                                           "cholesky_solve",
                                           "geqrf",
                                           "kron",
                                           "linalg_cond",
                                           "linalg_eig",
                                           "linalg_eigvals",
                                           "linalg_lstsq",
                                           "linalg_matrix_rank",
                                           "linalg_householder_product",
                                           "linalg_pinv",
                                           "linalg_tensorinv",
                                           "linalg_tensorsolve",
                                           "outer"};

}  // namespace

bool wants_exact_out(const std::string& family, const table::Schema& s) {
  const auto has = [](const auto& names, std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (has(kConverted, s.name)) return false;
  const bool pair = s.result_names.size() > 1 && (s.name == "max" || s.name == "min");
  return pair || has(kExactFamilies, family) || has(kExact, s.name);
}

PyObject* to_python(const table::Schema& schema, ops::Value& v, PyTypeObject** kept) {
  struct Visitor {
    const table::Schema& schema;
    PyTypeObject** kept;
    PyObject* operator()(std::monostate) { Py_RETURN_NONE; }
    PyObject* operator()(bool b) { return PyBool_FromLong(b); }
    PyObject* operator()(int64_t i) { return PyLong_FromLongLong(i); }
    PyObject* operator()(double d) { return PyFloat_FromDouble(d); }
    PyObject* operator()(Scalar s) { return wrap(s); }
    PyObject* operator()(Tensor& t) { return wrap(std::move(t)); }
    PyObject* operator()(const IntList& l) {
      Obj r(check(PyTuple_New(static_cast<Py_ssize_t>(l.size()))));
      for (size_t i = 0; i < l.size(); ++i)
        PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(l[i]));
      return r.release();
    }
    PyObject* operator()(const TensorList& l) {
      if (schema.result_names.size() != l.size() || l.empty()) return wrap_tuple(l);
      if (!*kept) *kept = named_tuple(schema);
      Obj r(check(PyStructSequence_New(*kept)));
      for (size_t i = 0; i < l.size(); ++i)
        PyStructSequence_SetItem(r.get(), static_cast<Py_ssize_t>(i), check(wrap(l[i])));
      return r.release();
    }
    PyObject* operator()(const std::vector<double>& l) {
      Obj r(check(PyTuple_New(static_cast<Py_ssize_t>(l.size()))));
      for (size_t i = 0; i < l.size(); ++i)
        PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), PyFloat_FromDouble(l[i]));
      return r.release();
    }
    PyObject* operator()(DType t) { return wrap(t); }
    PyObject* operator()(Device d) { return wrap(d); }
    PyObject* operator()(const std::string& s) {
      return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
    }
  };
  return check(std::visit(Visitor{schema, kept}, v));
}

PyObject* finish(PyObject* result, const Extras& extras) {
  Obj r(result);
  if (extras.memory_format && is_tensor(r.get())) {
    const Tensor& t = tensor_of(r.get());
    const bool wants = t.requires_grad();
    Tensor laid = contiguous(t.detach(), to_memory_format(extras.memory_format, "empty"));
    if (wants) laid.requires_grad_(true);
    r = Obj(wrap(std::move(laid)));
  }
  if (extras.pin_memory && is_tensor(r.get())) r = Obj(wrap(pinned(tensor_of(r.get()))));
  if (extras.requires_grad && is_tensor(r.get())) tensor_of(r.get()).requires_grad_(true);
  if (extras.out) {
    PyObject* single;
    const std::span<PyObject*> outs = outs_of(extras, &single);
    const bool several = PyTuple_Check(r.get());
    const size_t n = several ? static_cast<size_t>(PyTuple_GET_SIZE(r.get())) : 1;
    bool tensors = several || is_tensor(r.get());
    for (size_t i = 0; several && i < n; ++i)
      tensors &= is_tensor(PyTuple_GET_ITEM(r.get(), static_cast<Py_ssize_t>(i)));
    if (!tensors) type_error("pf: out= needs an operation whose results are tensors");
    if (n != outs.size() || several == is_tensor(extras.out))
      type_error("pf: got out= of " + std::string(several ? "" : "a list of ") +
                 std::to_string(outs.size()) + " tensors; expected " +
                 (several ? "a tuple of " + std::to_string(n) : std::string("one tensor")));
    const auto result_at = [&](size_t i) -> const Tensor& {
      return tensor_of(several ? PyTuple_GET_ITEM(r.get(), static_cast<Py_ssize_t>(i)) : r.get());
    };
    // All are looked at before one of them changes.
    for (size_t i = 0; i < n; ++i) check_fit(tensor_of(outs[i]), result_at(i), extras);
    for (size_t i = 0; i < n; ++i) {
      Tensor& out = tensor_of(outs[i]);
      const Tensor& t = result_at(i);
      if (wants_memory(out, t))
        take_values(out.impl(), empty(t->shape.vec(), out->dtype, out->storage->device));
      copy_(out, t);
    }
    if (!several) {
      Py_INCREF(extras.out);
      return extras.out;
    }
    const bool named = Py_TYPE(r.get()) != &PyTuple_Type;
    Obj made(check(named ? PyStructSequence_New(Py_TYPE(r.get()))
                         : PyTuple_New(static_cast<Py_ssize_t>(n))));
    for (size_t i = 0; i < n; ++i) {
      Py_INCREF(outs[i]);
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), outs[i]);
    }
    return made.release();
  }
  return r.release();
}

void check_out(const table::Schema& s, const std::vector<ops::Value>& arguments,
               const Extras& extras) {
  PyObject* single;
  for (PyObject* out : outs_of(extras, &single))
    check_one_out(s, arguments, tensor_of(out), extras.fresh);
}

bool wants_gradient(const table::Schema& s, const std::vector<ops::Value>& arguments) {
  // What PyTorch has no gradient of, or makes of other operations.
  constexpr std::string_view kFree[] = {"floor_divide",   "heaviside",   "histc",
                                        "linalg_eigvals", "nanquantile", "quantile"};
  if (!grad_enabled() || std::ranges::find(kFree, s.name) != std::end(kFree)) return false;
  const auto wants = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  return std::ranges::any_of(arguments, [&](const ops::Value& v) {
    if (const auto* t = std::get_if<Tensor>(&v)) return wants(*t);
    const auto* list = std::get_if<TensorList>(&v);
    return list && std::ranges::any_of(*list, wants);
  });
}

nb::dict return_types() {
  nb::dict all;
  for (const ops::Op& op : ops::table()) {
    const table::Schema s = table::parse_schema(op.schema);
    if (!s.result_names.empty())
      all[s.name.c_str()] = nb::handle(reinterpret_cast<PyObject*>(named_tuple(s)));
  }
  return all;
}

}  // namespace pyflame::python
