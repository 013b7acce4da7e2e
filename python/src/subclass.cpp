// Subclasses of Tensor: an operation of one gives the subclass (Tensor.__torch_function__), or what
// the subclass's own __torch_function__ says. Before them the modes that the thread has entered are
// asked (pyflame.overrides.TorchFunctionMode). Programs without either pay one load an operation.
// Objects that are no tensors and have a __torch_function__ are asked where a call fits no form of
// the operation.
#include <algorithm>
#include <vector>

#include "common.h"

namespace pyflame::python {

std::atomic<int> overrides{0};

namespace {

thread_local int disabled = 0;  // inside Tensor.__torch_function__: operations as on plain tensors

// The modes that a thread has entered, the newest last; `resting` while they are not asked.
struct Modes {
  std::vector<Obj> entered;
  int resting = 0;
};
Modes& modes() {
  static thread_local auto* m = new Modes();  // as long as the process: it holds Python objects
  return *m;
}
bool subclass_seen = false;  // guarded by the interpreter's lock

struct Disabled {
  Disabled() { ++disabled; }
  ~Disabled() { --disabled; }
  Disabled(const Disabled&) = delete;
  Disabled& operator=(const Disabled&) = delete;
};

PyObject* hook_name() {
  static PyObject* name = PyUnicode_InternFromString("__torch_function__");
  return name;
}

// The attribute as it stands in the class that has it (borrowed), not bound.
PyObject* hook_of(PyTypeObject* type) {
  return _PyType_Lookup(type, hook_name());
}
bool propagates(PyTypeObject* type) {
  return type != TensorType && hook_of(type) != Py_None;
}

// The subclasses among the operands, more special ones before those they come from.
using Classes = std::vector<PyTypeObject*>;

void note(PyTypeObject* type, Classes* found) {
  if (type == TensorType || !PyType_IsSubtype(type, TensorType) || !propagates(type)) return;
  auto at = found->end();
  for (auto it = found->begin(); it != found->end(); ++it) {
    if (*it == type) return;
    if (at == found->end() && PyType_IsSubtype(type, *it)) at = it;
  }
  found->insert(at, type);
}

Classes classes_of(PyObject* const* args, Py_ssize_t count) {
  Classes found;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* o = args[i];
    note(Py_TYPE(o), &found);
    if (PyList_Check(o) || PyTuple_Check(o))
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
        note(Py_TYPE(PySequence_Fast_GET_ITEM(o, k)), &found);
  }
  return found;
}

// Another object of class `cls` for the same memory, part of the same history.
PyObject* alias(const Tensor& t, PyTypeObject* cls) {
  return wrap_as(cls, view(t, t->shape.vec()));
}

bool is_operand(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  return std::find(args, args + count, o) != args + count;
}

// A result as an object of `cls` (steals it). One that is an operand itself stays what it is.
PyObject* convert(PyObject* result, PyTypeObject* cls, PyObject* const* args, Py_ssize_t count) {
  Obj r(result);
  if (is_tensor(result)) {
    if (PyType_IsSubtype(Py_TYPE(result), cls) || is_operand(result, args, count))
      return r.release();
    if (Py_TYPE(result) != TensorType || Py_REFCNT(result) != 1)
      return alias(tensor_of(result), cls);
    return wrap_as(cls, std::move(tensor_of(result)));  // nobody else has the plain object
  }
  if (PyTuple_Check(result) && Py_REFCNT(result) == 1) {  // also named tuples of ours
    PyObject** items = reinterpret_cast<PyTupleObject*>(result)->ob_item;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) {
      PyObject* item = std::exchange(items[i], Py_NewRef(Py_None));
      item = check(convert(item, cls, args, count));
      Py_DECREF(Py_None);
      items[i] = item;
    }
  } else if (PyList_CheckExact(result)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result); ++i) {
      PyObject* item = Py_NewRef(PyList_GET_ITEM(result, i));
      check(PyList_SetItem(result, i, check(convert(item, cls, args, count))));
    }
  }
  return r.release();
}

[[noreturn]] void no_implementation(const Classes& classes) {
  std::string names;
  for (PyTypeObject* c : classes) names += std::string(names.empty() ? "" : ", ") + c->tp_name;
  type_error("pf: got operands of the classes " + names +
             "; expected one that comes from all others, or a __torch_function__ that takes them; "
             "convert with as_subclass()");
}

bool comes_from_all(PyTypeObject* cls, const Classes& classes) {
  return std::all_of(classes.begin(), classes.end(),
                     [&](PyTypeObject* c) { return PyType_IsSubtype(cls, c); });
}

// A call as __torch_function__ gets it.
struct Asked {
  Obj types, positional, named;

  Asked(const Classes& classes, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames)
      : types(check(PyTuple_New(static_cast<Py_ssize_t>(classes.size())))),
        positional(check(PyTuple_New(nargs))),
        named(check(PyDict_New())) {
    for (size_t i = 0; i < classes.size(); ++i)
      PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i),
                       Py_NewRef(reinterpret_cast<PyObject*>(classes[i])));
    for (Py_ssize_t i = 0; i < nargs; ++i)
      PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
      check(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + k]));
  }
  PyObject* operator()(PyObject* who, PyObject* func) const {
    Obj hook(check(PyObject_GetAttr(who, hook_name())));
    return check(PyObject_CallFunctionObjArgs(hook.get(), func, types.get(), positional.get(),
                                              named.get(), nullptr));
  }
};

// What __torch_function__ of the classes makes of the call, in their order.
PyObject* ask(const Classes& classes, PyObject* func, PyObject* const* args, Py_ssize_t nargs,
              PyObject* kwnames) {
  const Asked call(classes, args, nargs, kwnames);
  for (PyTypeObject* c : classes) {
    Obj r(call(reinterpret_cast<PyObject*>(c), func));
    if (r.get() != Py_NotImplemented) return r.release();
  }
  no_implementation(classes);
}

// Without the newest mode while that is asked: what it calls goes to those around it.
class Aside {
 public:
  Aside() : mode_(std::move(modes().entered.back())) { modes().entered.pop_back(); }
  ~Aside() { modes().entered.push_back(std::move(mode_)); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  PyObject* mode() const { return mode_.get(); }

 private:
  Obj mode_;
};

PyObject* ask_mode(PyObject* func, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const Classes classes = classes_of(args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  const Asked call(classes, args, nargs, kwnames);
  Aside aside;
  Obj r(call(aside.mode(), func));
  if (r.get() == Py_NotImplemented)
    type_error(std::string("pf: got NotImplemented from the __torch_function__ of the mode ") +
               Py_TYPE(aside.mode())->tp_name +
               "; expected a result; call func(*args, **kwargs) for what it does not change");
  return r.release();
}

// The method or attribute of Tensor, as Python knows it.
Obj method_of_tensor(const char* name) {
  Obj found(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), name)));
  if (Py_TYPE(found.get()) == &PyGetSetDescr_Type)  // a property, such as T: as PyTorch names it
    found = Obj(check(PyObject_GetAttrString(found.get(), "__get__")));
  return found;
}

// PyTorch's class of tensors where that is in this process, too, and not PyFlame under its name.
PyTypeObject* tensor_of_pytorch() {
  static PyObject* name = PyUnicode_InternFromString("torch");
  Obj module(PyImport_GetModule(name));
  Obj cls(module ? PyObject_GetAttrString(module.get(), "Tensor") : nullptr);
  PyErr_Clear();
  if (!cls || !PyType_Check(cls.get())) return nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(cls.get());  // the module keeps it
  return type == TensorType ? nullptr : type;
}

std::string name_of(PyObject* func) {
  Obj name(PyObject_GetAttrString(func, "__name__"));
  PyErr_Clear();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  PyErr_Clear();
  return text ? text : Py_TYPE(func)->tp_name;
}

[[noreturn]] void not_for_pytorch(PyObject* func) {
  type_error(
      "torch." + name_of(func) +
      ": got a pyflame.Tensor; expected a tensor of PyTorch's, which is in this process, too; "
      "convert it with torch.from_dlpack(t), which shares its memory, or call the function of "
      "pyflame");
}

// Whether objects of a class that is none of tensors say what operations make of them.
bool answers(PyTypeObject* type) {
  if (PyType_IsSubtype(type, TensorType)) return false;
  PyObject* hook = hook_of(type);
  return hook && hook != Py_None;
}

}  // namespace

void note_subclass(PyTypeObject* type) {
  if (subclass_seen || !propagates(type)) return;
  subclass_seen = true;
  overrides.fetch_add(1, std::memory_order_relaxed);
}

bool mode_is_on() {
  const Modes& m = modes();
  return !m.entered.empty() && !m.resting;
}

PyObject* with_modes(PyObject* func, const char* name, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* kwnames, const std::function<PyObject*()>& run) {
  if (!mode_is_on()) return run();
  const Obj found = func ? Obj() : method_of_tensor(name);
  return ask_mode(func ? func : found.get(), args, nargs, kwnames);
}

PyObject* with_classes(PyObject* func, const char* name, PyObject* const* args, Py_ssize_t nargs,
                       PyObject* kwnames, const std::function<PyObject*()>& run) {
  const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (mode_is_on()) return with_modes(func, name, args, nargs, kwnames, run);
  Classes classes;
  if (!disabled) classes = classes_of(args, count);
  if (classes.empty()) return run();
  PyObject* usual = hook_of(TensorType);
  if (std::all_of(classes.begin(), classes.end(),
                  [&](PyTypeObject* c) { return hook_of(c) == usual; })) {
    if (!comes_from_all(classes.front(), classes)) no_implementation(classes);
    PyObject* r = run();
    return r && r != Py_NotImplemented ? convert(r, classes.front(), args, count) : r;
  }
  const Obj found = func ? Obj() : method_of_tensor(name);
  return ask(classes, func ? func : found.get(), args, nargs, kwnames);
}

void refuse_pytorch(PyObject* a, PyObject* b) {
  PyTypeObject* theirs = tensor_of_pytorch();
  for (PyObject* o : {a, b})
    if (o && theirs && PyType_IsSubtype(Py_TYPE(o), theirs))
      type_error(
          "pf.Tensor: got a torch.Tensor of PyTorch beside a pyflame.Tensor; expected one of "
          "PyFlame's; convert it with pf.from_dlpack(t), which shares its memory, or pf.tensor(t)");
}

PyObject* ask_others(PyObject* func, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  Classes found;
  const auto look = [&](PyObject* o) {
    if (PyTypeObject * theirs; answers(Py_TYPE(o)) && (theirs = tensor_of_pytorch()) &&
                               PyType_IsSubtype(Py_TYPE(o), theirs))
      type_error("pf." + name_of(func) +
                 ": got a torch.Tensor of PyTorch; expected a pyflame.Tensor; convert it with "
                 "pf.from_dlpack(t), which shares its memory, or pf.tensor(t)");
    if (answers(Py_TYPE(o)) && std::find(found.begin(), found.end(), Py_TYPE(o)) == found.end())
      found.push_back(Py_TYPE(o));
  };
  for (Py_ssize_t i = 0; i < count; ++i) {
    look(args[i]);
    if (PyList_Check(args[i]) || PyTuple_Check(args[i]))
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(args[i]); ++k)
        look(PySequence_Fast_GET_ITEM(args[i], k));
  }
  if (found.empty()) return nullptr;
  Classes classes = classes_of(args, count);  // those of tensors, too
  classes.insert(classes.end(), found.begin(), found.end());
  return ask(classes, func, args, nargs, kwnames);
}

void ignore_subclasses(bool ignore) {
  disabled += ignore ? 1 : -1;
}

void init_modes(nb::module_& m) {
  m.def("_ignore_subclasses", &ignore_subclasses, "Operations see plain tensors; calls nest.");
  m.def(
      "_rest_modes", [](bool rest) { modes().resting += rest ? 1 : -1; },
      "No mode of this thread is asked; calls nest.");
  m.def("_mode_is_on", &mode_is_on, "Whether this thread is within a mode, and it is asked.");
  m.def("_enter_mode", [](nb::handle mode) {
    modes().entered.push_back(Obj::share(mode.ptr()));
    overrides.fetch_add(1, std::memory_order_relaxed);
  });
  m.def("_exit_mode", [] {
    Modes& of = modes();
    if (of.entered.empty())
      throw std::logic_error("pf.overrides: got the end of a mode; expected one that was entered");
    Obj mode = std::move(of.entered.back());
    of.entered.pop_back();
    overrides.fetch_sub(1, std::memory_order_relaxed);
    return nb::steal(mode.release());
  });
  m.def(
      "_modes",
      [] {
        nb::list all;
        for (const Obj& mode : modes().entered) all.append(nb::handle(mode.get()));
        return all;
      },
      "The modes that are asked by this thread, the newest last.");
}

PyObject* tensor_torch_function(PyObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"func", "types", "args", "kwargs", nullptr};
    PyObject *func, *types, *positional = nullptr, *named = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OO:__torch_function__",
                                     const_cast<char**>(names), &func, &types, &positional, &named))
      return nullptr;
    if (named == Py_None) named = nullptr;
    if (named && !PyDict_Check(named))
      type_error(std::string("pf.Tensor.__torch_function__: got kwargs of type ") +
                 Py_TYPE(named)->tp_name + "; expected a dict or None");
    Obj others(check(PySequence_Fast(types, "types must be a sequence of classes")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(others.get()); ++i) {
      const Obj other = Obj::share(PySequence_Fast_GET_ITEM(others.get(), i));
      const int is = PyObject_IsSubclass(cls, other.get());
      check(is);
      if (is) continue;
      PyTypeObject* theirs = tensor_of_pytorch();
      if (theirs && PyObject_IsSubclass(other.get(), reinterpret_cast<PyObject*>(theirs)) == 1)
        not_for_pytorch(func);
      Py_RETURN_NOTIMPLEMENTED;
    }
    Obj tuple(check(positional ? PySequence_Tuple(positional) : PyTuple_New(0)));
    Obj r;
    {
      // A function that asks again although it is run for plain tensors is none of ours.
      static thread_local std::vector<PyObject*> running;
      if (std::find(running.begin(), running.end(), func) != running.end() && tensor_of_pytorch())
        not_for_pytorch(func);
      struct Running {
        explicit Running(PyObject* f) { running.push_back(f); }
        ~Running() { running.pop_back(); }
      } const while_it(func);
      Disabled plain;
      r = Obj(check(PyObject_Call(func, tuple.get(), named)));
    }
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (type == TensorType || r.get() == Py_NotImplemented) return r.release();
    PyObject* const* items = reinterpret_cast<PyTupleObject*>(tuple.get())->ob_item;
    return convert(r.release(), type, items, PyTuple_GET_SIZE(tuple.get()));
  });
}

PyObject* tensor_as_subclass(PyObject* self, PyObject* cls) {
  return guarded([&]() -> PyObject* {
    if (!PyType_Check(cls) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), TensorType))
      type_error(std::string("pf.Tensor.as_subclass: got ") + Py_TYPE(cls)->tp_name +
                 "; expected a subclass of pyflame.Tensor");
    return alias(tensor_of(self), reinterpret_cast<PyTypeObject*>(cls));
  });
}

}  // namespace pyflame::python
