// Operations as Python callables: one object per name, made from the rows of the registry. It
// is a function of the package, a method of Tensor, or both. Schemas are parsed at the first call.
#include "ops/registry.h"
#include "engine/capture.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "arguments.h"
#include "core/random_aside.h"
#include "ops/autocast.h"
#include "ops/pointwise.h"
#include "ops/pointwise_text.h"
#include "pyflame/random.h"
#include "results.h"
#include "table/score.h"

namespace pyflame::python {

namespace {

struct Overload {
  size_t row;
  Signature schema;
  std::function<ops::Value(std::vector<ops::Value>&)> call;
  bool old = false;                     // ops::kOld
  PyTypeObject* named_tuple = nullptr;  // of its results: to_python()
};

struct OpSet {
  std::string name;
  std::vector<size_t> rows;
  std::vector<Overload> overloads;  // parsed: rows.size() of them, or none yet
  const char* module = "pyflame";
  int quick = -1, quick_arity = 0;  // ops::Op::quick when the overloads agree on it
};

struct PyOp {
  PyObject_HEAD vectorcallfunc vectorcall;
  OpSet* set;
};
PyTypeObject* OpType;

enum Use { kAsFunction, kAsMethod, kAsFunctional, kAsSpecial, kUses };
constexpr unsigned kUseFlag[kUses] = {ops::kFunction, ops::kMethod, ops::kFunctional,
                                      ops::kSpecial};
PyObject* by_use[kUses];                             // dict: name -> op
std::unordered_map<std::string, PyObject*> by_name;  // borrowed from by_use
size_t rows_seen = 0;

OpSet& set_of(PyObject* o) {
  return *reinterpret_cast<PyOp*>(o)->set;
}

void parse(OpSet& set) {
  for (size_t i = set.overloads.size(); i < set.rows.size(); ++i) {
    const ops::Op& op = ops::table()[set.rows[i]];
    Overload o{set.rows[i], Signature(op.schema), op.call};
    o.old = (op.where & ops::kOld) != 0;
    if (i == 0) set.quick = op.quick;
    if (op.quick != set.quick) set.quick = -1;
    if (set.quick >= 0) set.quick_arity = table::operand_count(static_cast<table::OpId>(set.quick));
    set.overloads.push_back(std::move(o));
  }
}

// ---- binding arguments --------------------------------------------------------------------------

// Where a keyword goes: index of the parameter, -1 when it is an extra, -2 when unknown.
int find_keyword(const Signature& s, PyObject* name, PyObject* value, Extras* extras) {
  const int n = static_cast<int>(s.params.size());
  for (int i = 0; i < n; ++i)
    if (s.names[i] == name) return i;
  for (int i = 0; i < n; ++i)
    if (PyUnicode_Compare(s.names[i], name) == 0) return i;
  for (int i = 0; i < n; ++i)
    for (const std::string& alias : s.params[i].aliases)
      if (equals(name, alias.c_str())) return i;
  // NumPy's names, which PyTorch takes for any operation.
  static constexpr std::pair<const char*, const char*> kEverywhere[] = {
      {"axis", "dim"}, {"keepdims", "keepdim"}, {"self", "input"}, {"x", "input"},
      {"a", "input"},  {"x1", "input"},         {"x2", "other"}};
  for (auto [alias, meant] : kEverywhere)
    if (equals(name, alias))
      for (int i = 0; i < n; ++i)
        if (s.params[i].name == meant) return i;
  if (equals(name, "out")) {
    if (value != Py_None) extras->out = value;
    extras->fresh = true;
    for (const Param& p : s.params)
      extras->fresh &= p.type != Type::Tensor && p.type != Type::TensorList;
    if (value == Py_None || is_tensor(value)) return -1;
    if (!PyTuple_Check(value) && !PyList_Check(value)) return -2;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      if (!is_tensor(PySequence_Fast_GET_ITEM(value, i))) return -2;
    return -1;
  }
  if (equals(name, "generator")) {
    if (value == Py_None) return -1;
    if (!PyObject_HasAttrString(value, "_state"))
      type_error("pf." + s.name + ": got a generator of type " + Py_TYPE(value)->tp_name +
                 "; expected a pyflame.Generator");
    extras->generator = value;
    return -1;
  }
  const bool creates = s.has("device") || s.has("dtype") ||
                       (s.name.size() > 5 && s.name.rfind("_like") == s.name.size() - 5);
  if (equals(name, "requires_grad") && creates && PyBool_Check(value)) {
    extras->requires_grad = value == Py_True;
    return -1;
  }
  if (creates && equals(name, "pin_memory")) {
    if (value != Py_None && !PyBool_Check(value))
      type_error("pf." + s.name + ": got pin_memory of type " + Py_TYPE(value)->tp_name +
                 "; expected True or False");
    extras->pin_memory = value == Py_True;
    return -1;
  }
  if (creates && equals(name, "layout")) {
    if (value != Py_None && !(PyUnicode_Check(value) && equals(value, "strided")))
      PF_FAIL(NotSupportedError, s.name.c_str(),
              "got a layout other than pyflame.strided; tensors "
              "are dense: leave it away");
    return -1;
  }
  if (equals(name, "memory_format") && creates) {
    to_memory_format(value, s.name.c_str());  // whether it is one
    extras->memory_format = value;
    return -1;
  }
  return -2;
}

}  // namespace

// A class by its own name: the plain ones are told from their objects.
static std::string class_name(PyObject* o) {
  if (is_tensor(o)) return "Tensor";
  if (PyType_Check(o))
    return std::string("the class ") + reinterpret_cast<PyTypeObject*>(o)->tp_name;
  return Py_TYPE(o)->tp_name;
}

std::string describe(PyObject* o) {
  if (is_tensor(o)) {
    std::ostringstream s;
    const Tensor& t = tensor_of(o);
    s << "Tensor" << t->shape;
    if (t->dtype != DType::Float32) s << " " << t->dtype;
    if (t.requires_grad()) s << " that requires grad";
    return s.str();
  }
  if (PyTuple_Check(o) || PyList_Check(o)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    std::string kind = PyTuple_Check(o) ? "tuple" : "list";
    if (n == 0) return "empty " + kind;
    std::vector<std::string> classes;  // up to three, of the first elements
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(n, 1000) && classes.size() < 3; ++i) {
      std::string name = class_name(PySequence_Fast_GET_ITEM(o, i));
      if (std::ranges::find(classes, name) == classes.end()) classes.push_back(std::move(name));
    }
    std::string text = kind + " of " + classes[0];
    for (size_t i = 1; i < classes.size(); ++i) text += " and " + classes[i];
    return text;
  }
  return class_name(o);
}

namespace {

constexpr int kMaxParams = 24;

// Fills `values`; false with the reason when the arguments do not fit.
bool bind_arguments(const Signature& s, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                    std::vector<ops::Value>* values, Extras* extras, std::string* why) {
  const int n = static_cast<int>(s.params.size());
  PyObject* given[kMaxParams] = {};
  values->clear();
  values->resize(static_cast<size_t>(n));
  int spread = -1;  // the parameter whose value was given as several arguments
  if (nargs > s.positional) {
    const Param* last = s.positional > 0 ? &s.params[s.positional - 1] : nullptr;
    const bool ints = last && last->type == Type::IntList;
    const bool tensors = last && last->type == Type::TensorList;
    PyObject* first = last ? args[s.positional - 1] : nullptr;
    if (!last || !((ints && is_integer(first)) || (tensors && is_tensor(first)))) {
      if (why) {
        std::ostringstream m;
        m << "takes " << s.positional << " positional arguments, " << nargs << " were given";
        *why = m.str();
      }
      return false;
    }
    const Py_ssize_t count = nargs - s.positional + 1;
    ops::Value& value = (*values)[static_cast<size_t>(s.positional - 1)];
    if (ints) {
      IntList list;
      list.reserve(static_cast<size_t>(count));
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = args[s.positional - 1 + i];
        if (!is_integer(item)) {
          if (why) *why = "argument '" + last->name + "' must be ints, not " + describe(item);
          return false;
        }
        list.push_back(to_int64(item, last->name.c_str()));
      }
      value = std::move(list);
    } else {
      TensorList list;
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = args[s.positional - 1 + i];
        if (!is_tensor(item)) {
          if (why) *why = "argument '" + last->name + "' must be Tensors, not " + describe(item);
          return false;
        }
        list.push_back(tensor_of(item));
      }
      value = std::move(list);
    }
    spread = s.positional - 1;
    for (int i = 0; i < s.positional - 1; ++i) given[i] = args[i];
    given[spread] = args[spread];
  } else {
    for (Py_ssize_t i = 0; i < nargs; ++i) given[i] = args[i];
    // meshgrid(a): a single tensor where a list is expected
    if (nargs == s.positional && nargs > 0 && s.params[nargs - 1].type == Type::TensorList &&
        is_tensor(args[nargs - 1])) {
      spread = static_cast<int>(nargs) - 1;
      (*values)[static_cast<size_t>(spread)] = TensorList{tensor_of(args[spread])};
    }
  }
  if (kwnames) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
      PyObject* name = PyTuple_GET_ITEM(kwnames, k);
      PyObject* value = args[nargs + k];
      int at = find_keyword(s, name, value, extras);
      if (at == -2 || (at >= 0 && given[at])) {
        if (why)
          *why = std::string(at == -2 ? "unexpected keyword argument '"
                                      : "several values for argument '") +
                 text_of(name) + "'";
        return false;
      }
      if (at >= 0) given[at] = value;
    }
  }
  for (int i = 0; i < n; ++i) {
    const Param& p = s.params[i];
    if (!given[i]) {
      if (!p.has_default) {
        if (why) *why = "missing argument '" + p.name + "'";
        return false;
      }
      (*values)[static_cast<size_t>(i)] = p.default_value;
    } else if (i != spread && !convert(p, given[i], &(*values)[static_cast<size_t>(i)])) {
      const std::span<PyObject* const> all(&given[0], static_cast<size_t>(n));
      if (convert_complex(p, given[i], all, &(*values)[static_cast<size_t>(i)])) continue;
      if (why)
        *why = "argument '" + p.name + "' must be " + type_text(p.type, p.optional) + ", not " +
               describe(given[i]);
      return false;
    }
  }
  return true;
}

[[noreturn]] void no_match(const OpSet& set, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames) {
  std::ostringstream m;
  m << "pf." << set.name << ": got (";
  Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  for (Py_ssize_t i = 0; i < total; ++i) {
    if (i) m << ", ";
    if (i >= nargs) m << text_of(PyTuple_GET_ITEM(kwnames, i - nargs)) << "=";
    m << describe(args[i]);
  }
  m << "); expected ";
  if (set.overloads.size() > 1) m << "one of";
  std::vector<ops::Value> values;
  bool array = false;
  for (Py_ssize_t i = 0; i < total; ++i)
    array = array || std::strcmp(Py_TYPE(args[i])->tp_name, "numpy.ndarray") == 0;
  for (const Overload& o : set.overloads) {
    if (o.old) continue;
    Extras extras;
    std::string why;
    bind_arguments(o.schema, args, nargs, kwnames, &values, &extras, &why);
    const std::string schema = table::without_aliases(ops::table()[o.row].schema);
    m << (set.overloads.size() > 1 ? "\n    " : "") << schema << "  [" << why << "]";
  }
  m << (set.overloads.size() > 1 ? "\n" : "; ");
  if (array)
    m << "turn NumPy arrays into tensors with pyflame.from_numpy or pyflame.tensor";
  else
    m << "change the arguments to fit; help(pyflame." << set.name << ") says more";
  type_error(m.str());
}

// Runs with the random state of a Generator object, and writes the state back.
class WithGenerator {
 public:
  explicit WithGenerator(PyObject* g) : g_(g) {
    if (!g_) return;
    Obj state(check(PyObject_GetAttrString(g_, "_state")));
    RandomState s;
    unsigned long long seed, offset;
    if (!PyArg_ParseTuple(state.get(), "KK", &seed, &offset)) throw PythonError();
    s.seed = seed;
    s.offset = offset;
    engine::break_capture("random", "numbers of another generator");
    RandomSource own;
    own.state = s;
    before_ = set_random_source(own);
  }
  ~WithGenerator() {
    if (!g_) return;
    const RandomState s = *set_random_source(before_).state;
    Obj state(Py_BuildValue("(KK)", static_cast<unsigned long long>(s.seed),
                            static_cast<unsigned long long>(s.offset)));
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    if (!state || PyObject_SetAttrString(g_, "_state", state.get()) < 0) PyErr_WriteUnraisable(g_);
    PyErr_Restore(t, v, tb);
  }

 private:
  PyObject* g_;
  RandomSource before_;
};

// A pointwise operation of tensors alone: nothing to bind. Null when the call is no such one.
PyObject* run_quick(const OpSet& set, PyObject* const* args, Py_ssize_t nargs) {
  const auto row = static_cast<table::OpId>(set.quick);
  if (nargs == 1 && is_tensor(args[0])) return wrap(ops::unary_fast(row, tensor_of(args[0])));
  if (nargs == 2 && is_tensor(args[0]) && is_tensor(args[1]))
    return wrap(ops::binary_fast(row, tensor_of(args[0]), tensor_of(args[1])));
  return nullptr;
}

PyObject* run_any(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  OpSet& set = set_of(self);
  // The vector of a call that has ended is used again; nested calls take a fresh one.
  static std::vector<ops::Value> spare;
  drain_if_needed();
  if (set.overloads.size() != set.rows.size()) [[unlikely]]
    parse(set);
  if (set.quick >= 0 && nargs == set.quick_arity && !kwnames)
    if (PyObject* result = run_quick(set, args, nargs)) return result;
  std::vector<ops::Value> values = std::move(spare);
  for (Overload& o : set.overloads) {
    Extras extras;
    if (!bind_arguments(o.schema, args, nargs, kwnames, &values, &extras, nullptr)) continue;
    if (o.old) [[unlikely]]
      check(PyErr_WarnFormat(PyExc_UserWarning, 1,
                             "pf.%s: factors among the tensors are an old order of arguments; pass "
                             "alpha=, beta= or value= as keywords",
                             set.name.c_str()));
    if (extras.out) [[unlikely]] {
      check_out(o.schema, values, extras);
      extras.recorded = wants_gradient(o.schema, values);
      const size_t at = static_cast<size_t>(&o - set.overloads.data());
      extras.exact = wants_exact_out(ops::table()[set.rows[at]].family, o.schema);
    }
    PyObject* result;
    if (extras.generator) {
      WithGenerator with(extras.generator);
      ops::Value v = o.call(values);
      result = to_python(o.schema, v, &o.named_tuple);
    } else {
      ops::Value v = o.call(values);
      result = to_python(o.schema, v, &o.named_tuple);
    }
    values.clear();
    spare = std::move(values);
    if (extras.change_results()) [[unlikely]]
      return finish(result, extras);
    return result;
  }
  if (PyObject* result = ask_others(self, args, nargs, kwnames)) return result;
  no_match(set, args, nargs, kwnames);
}

// Memory is asked for by what an operation is made of; the error names what the caller called.
PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  try {
    return run_any(self, args, nargs, kwnames);
  } catch (const OutOfMemoryError& e) {
    const std::string text = e.what();
    const size_t colon = text.find(": ");
    if (text.rfind("pf.", 0) != 0 || colon == std::string::npos) throw;
    throw OutOfMemoryError("pf." + set_of(self).name + text.substr(colon));
  }
}

PyObject* op_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return guarded([&] {
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (asking()) [[unlikely]]
      return with_classes(self, nullptr, args, nargs, kwnames,
                          [&] { return run(self, args, nargs, kwnames); });
    return run(self, args, nargs, kwnames);
  });
}

// ---- the type of the callables ------------------------------------------------------------------
PyObject* op_repr(PyObject* o) {
  return PyUnicode_FromFormat("<operation pyflame.%s>", set_of(o).name.c_str());
}
PyObject* op_name(PyObject* o, void*) {
  return str(set_of(o).name);
}
PyObject* op_module(PyObject* o, void*) {
  return PyUnicode_FromString(set_of(o).module);
}
std::string python_signature(const table::Schema& s) {
  std::string r = "(";
  bool star = false;
  for (size_t i = 0; i < s.params.size(); ++i) {
    const Param& p = s.params[i];
    if (i) r += ", ";
    if (p.keyword_only && !star) {
      r += "*, ";
      star = true;
    }
    r += p.name;
    if (p.has_default) r += "=" + p.default_text;
  }
  return r + ")";
}
PyObject* op_doc(PyObject* o, void*) {
  return guarded([&] {
    OpSet& set = set_of(o);
    parse(set);
    std::string doc;
    for (const Overload& v : set.overloads)
      if (!v.old)
        doc += set.name + python_signature(v.schema) +
               (v.schema.result.empty() ? "" : " -> " + v.schema.result) + "\n";
    std::string last;
    for (const Overload& v : set.overloads) {
      const std::string& d = ops::table()[v.row].doc;
      if (!d.empty() && d != last) doc += "\n" + d + "\n";
      last = d;
    }
    return str(doc);
  });
}
PyObject* op_text_signature(PyObject* o, void*) {
  return guarded([&] {
    parse(set_of(o));
    return str(python_signature(set_of(o).overloads.front().schema));
  });
}
// `what` is the name of the function of pyflame._signature that says it.
PyObject* op_signature(PyObject* o, void* what) {
  return guarded([&] {
    Obj helper(check(PyImport_ImportModule("pyflame._signature")));
    return check(in_python(
        [&] { return PyObject_CallMethod(helper.get(), static_cast<const char*>(what), "O", o); }));
  });
}
PyObject* op_schemas(PyObject* o, void*) {
  return guarded([&] {
    OpSet& set = set_of(o);
    Obj r(check(PyTuple_New(static_cast<Py_ssize_t>(set.rows.size()))));
    for (size_t i = 0; i < set.rows.size(); ++i)
      PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i),
                       check(str(ops::table()[set.rows[i]].schema)));
    return r.release();
  });
}
PyObject* op_family(PyObject* o, void*) {
  return str(ops::table()[set_of(o).rows.front()].family);
}
PyObject* op_reduce(PyObject* o, PyObject*) {
  return str(set_of(o).name);
}

PyMemberDef op_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, vectorcall), READONLY, nullptr}, {}};
PyGetSetDef op_getset[] = {
    {"__name__", op_name, nullptr, nullptr, nullptr},
    {"__qualname__", op_name, nullptr, nullptr, nullptr},
    {"__module__", op_module, nullptr, nullptr, nullptr},
    {"__doc__", op_doc, nullptr, nullptr, nullptr},
    {"__text_signature__", op_text_signature, nullptr, nullptr, nullptr},
    {"__signature__", op_signature, nullptr, nullptr, const_cast<char*>("of")},
    {"__kwdefaults__", op_signature, nullptr, nullptr, const_cast<char*>("kwdefaults")},
    {"schemas", op_schemas, nullptr, "Schema texts, one per overload.", nullptr},
    {"family", op_family, nullptr, "Heading in the documentation.", nullptr},
    {}};
PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr}, {}};
PyType_Slot op_slots[] = {{Py_tp_call, slot(PyVectorcall_Call)},
                          {Py_tp_descr_get, slot(bind_method)},
                          {Py_tp_repr, slot(op_repr)},
                          {Py_tp_members, op_members},
                          {Py_tp_getset, op_getset},
                          {Py_tp_methods, op_methods},
                          {0, nullptr}};
PyType_Spec op_spec = {"pyflame.Operation", sizeof(PyOp), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                           Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                       op_slots};

PyObject* make_op(const std::string& name, Use use) {
  PyOp* o = PyObject_New(PyOp, OpType);
  if (!o) throw PythonError();
  o->vectorcall = op_call;
  o->set = new OpSet{name, {}, {}, use == kAsFunctional ? "pyflame.nn.functional" : "pyflame"};
  return reinterpret_cast<PyObject*>(o);
}

// Takes rows that were added since the last time into the dictionaries, and onto Tensor.
void sync(std::vector<std::string>* added) {
  const std::deque<ops::Op>& table = ops::table();
  PyObject* type_dict = TensorType->tp_dict;
  for (; rows_seen < table.size(); ++rows_seen) {
    const ops::Op& op = table[rows_seen];
    if (added) added->push_back(op.name);
    for (int use = 0; use < kUses; ++use) {
      if (!(op.where & kUseFlag[use])) continue;
      PyObject* o = PyDict_GetItemString(by_use[use], op.name.c_str());
      if (!o) {
        Obj made(make_op(op.name, static_cast<Use>(use)));
        o = made.get();
        check(PyDict_SetItemString(by_use[use], op.name.c_str(), o));
        by_name.try_emplace(op.name, o);
        // What Tensor does by hand (to, size, item...) stays.
        if (use == kAsMethod && !PyDict_GetItemString(type_dict, op.name.c_str()))
          check(PyDict_SetItemString(type_dict, op.name.c_str(), o));
      }
      std::vector<size_t>& rows = set_of(o).rows;
      const auto is_old = [&](size_t r) { return (table[r].where & ops::kOld) != 0; };
      const bool last = is_old(rows_seen) || !set_of(o).overloads.empty();
      rows.insert(last ? rows.end() : std::find_if(rows.begin(), rows.end(), is_old), rows_seen);
    }
  }
  PyType_Modified(TensorType);
}

nb::object table_rows() {
  nb::list rows;
  for (const ops::Op& op : ops::table()) {
    if (op.where & ops::kOld) continue;
    nb::dict row;
    row["name"] = nb::str(op.name.c_str(), op.name.size());
    row["schema"] = table::without_aliases(op.schema);
    row["doc"] = nb::str(op.doc.c_str(), op.doc.size());
    row["family"] = nb::str(op.family.c_str(), op.family.size());
    row["function"] = (op.where & ops::kFunction) != 0;
    row["method"] = (op.where & ops::kMethod) != 0;
    row["functional"] = (op.where & ops::kFunctional) != 0;
    row["differentiable"] = op.differentiable;
    amp::Class c = amp::class_of(op.name);
    if (c == amp::Class::Follow && op.quick >= 0)
      c = amp::class_of_row(static_cast<table::OpId>(op.quick));
    row["autocast"] = amp::class_name(amp::class_on(amp::kGpu, c));
    row["autocast_cpu"] = amp::class_name(amp::class_on(amp::kCpu, c));
    rows.append(row);
  }
  return rows;
}

// Parsed form, for stubs, signatures and documentation.
nb::object parsed(const char* schema_text) {
  const table::Schema s = table::parse_schema(schema_text);
  nb::list params;
  for (const Param& p : s.params) {
    nb::dict d;
    d["name"] = p.name.c_str();
    d["aliases"] = p.aliases;
    d["annotation"] = annotation(p).c_str();
    d["keyword_only"] = p.keyword_only;
    d["default"] = p.has_default ? nb::object(nb::str(p.default_text.c_str())) : nb::none();
    params.append(d);
  }
  nb::dict d;
  d["name"] = s.name.c_str();
  d["params"] = params;
  d["result"] = s.result.c_str();
  return d;
}

// Whether a call would be taken, without making it; for tests of signatures.
bool fits(nb::handle op, nb::args positional, nb::kwargs keywords) {
  if (Py_TYPE(op.ptr()) != OpType) type_error("_fits() takes an operation and its arguments");
  OpSet& set = set_of(op.ptr());
  parse(set);
  std::vector<PyObject*> args;
  for (nb::handle a : positional) args.push_back(a.ptr());
  nb::list names;
  for (auto [name, value] : keywords) {
    names.append(name);
    args.push_back(value.ptr());
  }
  nb::tuple kwnames(names);
  std::vector<ops::Value> values;
  for (const Overload& o : set.overloads) {
    Extras extras;
    if (bind_arguments(o.schema, args.data(), static_cast<Py_ssize_t>(positional.size()),
                       kwnames.ptr(), &values, &extras, nullptr))
      return true;
  }
  return false;
}

}  // namespace

PyObject* find_op(const char* name) {
  auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

PyObject* call_op(const char* name, std::initializer_list<PyObject*> args) {
  PyObject* op = find_op(name);
  if (!op) Py_RETURN_NOTIMPLEMENTED;
  return run(op, args.begin(), static_cast<Py_ssize_t>(args.size()), nullptr);
}

void init_registry(nb::module_& m) {
  PyObject* t = check(PyType_FromSpec(&op_spec));
  OpType = reinterpret_cast<PyTypeObject*>(t);
  check(PyModule_AddObjectRef(m.ptr(), "Operation", t));
  static constexpr const char* kNames[kUses] = {"_functions", "_methods", "_functional",
                                                "_special"};
  for (int use = 0; use < kUses; ++use) {
    by_use[use] = check(PyDict_New());
    check(PyModule_AddObjectRef(m.ptr(), kNames[use], by_use[use]));
  }
  sync(nullptr);
  m.def("_table", &table_rows);
  m.def("_parse_schema", &parsed);
  m.def("_fits", &fits);
  m.def("_return_types", &return_types);
  m.def("_define_pointwise",
        [](const std::string& name, const std::string& expression,
           const std::vector<std::pair<std::string, double>>& attrs,
           const std::string& doc) { ops::define_pointwise(name, expression, attrs, doc); });
  m.def("_define_score", [](const std::string& value, const std::vector<std::string>& at) {
    return table::define_score(value, at, ops::find_row, "flex_attention");
  });
  m.def("_pointwise_rows", [] {
    nb::list rows;
    for (const ops::PointwiseRow& row : ops::pointwise_rows()) {
      nb::dict d;
      d["name"] = nb::cast(row.name);
      d["python"] = nb::cast(row.python);
      d["family"] = nb::cast(row.family);
      d["doc"] = nb::cast(row.doc);
      d["formula"] = nb::cast(row.formula);
      d["reference"] = nb::cast(row.reference);
      d["rule"] = nb::cast(row.rule);
      d["arity"] = row.arity;
      nb::list attrs;
      for (const auto& [key, value] : row.attrs) attrs.append(nb::make_tuple(nb::cast(key), value));
      d["attrs"] = attrs;
      d["differentiable"] = row.differentiable;
      d["inplace"] = row.inplace;
      d["runtime"] = row.runtime;
      rows.append(d);
    }
    return rows;
  });
  m.def("_sync_registry", [] {
    std::vector<std::string> added;
    sync(&added);
    nb::list names;
    for (const std::string& n : added) names.append(n.c_str());
    return names;
  });
}

}  // namespace pyflame::python
