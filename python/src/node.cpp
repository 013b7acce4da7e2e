// class Node, as grad_fn and next_functions give it, and the hooks of nodes.
#include "node.h"

#include <memory>
#include <unordered_map>

#include "cycles.h"
#include "engine/autograd_nodes.h"

namespace pyflame::python {

using autograd::Edge;
using autograd::Grads;
using autograd::Node;

namespace {

struct PyNodeObject {
  PyObject_HEAD Ref<Node> node;
};
PyTypeObject* NodeType;
PyTypeObject* AccumulateType;

Node& node(PyObject* o) {
  return *node_of(o);
}

// A class for each name, as PyTorch has: programs ask for type(grad_fn).__name__.
PyTypeObject* class_named(const std::string& name) {
  static auto* classes = new std::unordered_map<std::string, PyTypeObject*>();
  auto [it, fresh] = classes->try_emplace(name);
  if (fresh) {
    PyObject* cls = PyObject_CallFunction(
        reinterpret_cast<PyObject*>(&PyType_Type), "s(O){s:s,s:()}", name.c_str(),
        reinterpret_cast<PyObject*>(NodeType), "__module__", "pyflame.autograd.graph", "__slots__");
    if (!cls) {
      classes->erase(it);
      throw PythonError();
    }
    it->second = reinterpret_cast<PyTypeObject*>(cls);
  }
  return it->second;
}

// ---- hooks --------------------------------------------------------------------------------------
Obj tuple_of(const Grads& grads, size_t size) {
  Obj r(check(PyTuple_New(static_cast<Py_ssize_t>(size))));
  for (size_t i = 0; i < size; ++i)
    PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i),
                     check(wrap(i < grads.size() ? grads[i] : Tensor())));
  return r;
}

// Puts what a hook returned in the place of gradients.
void take(PyObject* result, Grads& grads, size_t size, const char* op) {
  if (result == Py_None) return;
  PyObject* const single[1] = {result};
  PyObject* const* items = single;
  size_t n = 1;
  if (PyTuple_Check(result) || PyList_Check(result)) {
    items = PySequence_Fast_ITEMS(result);
    n = static_cast<size_t>(PySequence_Fast_GET_SIZE(result));
  }
  if (n != size)
    PF_FAIL(ValueError, op, "got ", n, " gradients from the hook; expected ", size,
            ", one for each that it was given, or None to leave all as they are");
  Grads fresh;
  for (size_t i = 0; i < n; ++i) {
    if (items[i] != Py_None && !is_tensor(items[i]))
      type_error(std::string("pf.") + op + ": the hook returned a " + Py_TYPE(items[i])->tp_name +
                 " as gradient; expected a Tensor or None");
    fresh.push_back(items[i] == Py_None ? Tensor() : tensor_in(items[i]));
    const Tensor &before = i < grads.size() ? grads[i] : Tensor(), &after = fresh.back();
    if (before.defined() && after.defined() && !(before->shape == after->shape))
      PF_FAIL(ShapeError, op, "the hook returned shape ", after->shape, " as gradient ", i,
              "; expected ", before->shape);
  }
  grads = std::move(fresh);
}

}  // namespace

void PyBefore::operator()(Grads& grads) const {
  WithGil gil;
  try {
    const Obj args = tuple_of(grads, grads.size());
    const Obj r(check(in_python([&] { return PyObject_CallOneArg(callable->get(), args.get()); })));
    take(r.get(), grads, grads.size(), "Node.register_prehook");
  } catch (const PythonError&) {
    throw_python_error();
  }
}

void PyAfter::operator()(Grads& out, const Grads& in) const {
  WithGil gil;
  try {
    const Obj outs = tuple_of(out, inputs), ins = tuple_of(in, in.size());
    const Obj r(check(in_python([&] {
      return PyObject_CallFunctionObjArgs(callable->get(), outs.get(), ins.get(), nullptr);
    })));
    take(r.get(), out, inputs, "Node.register_hook");
  } catch (const PythonError&) {
    throw_python_error();
  }
}

void PyAccumulated::operator()(const Tensor& leaf) const {
  WithGil gil;
  const Obj arg(wrap(leaf));
  const Obj r(
      in_python([&] { return arg ? PyObject_CallOneArg(callable->get(), arg.get()) : nullptr; }));
  if (!r) throw_python_error();
}

PyObject* hook_handle(PyObject* owner, int64_t id) {
  Obj module(check(PyImport_ImportModule("pyflame._tensor")));
  return check(
      PyObject_CallMethod(module.get(), "HookHandle", "OL", owner, static_cast<long long>(id)));
}

// ---- the class ----------------------------------------------------------------------------------
std::string display_name(const Node& n) {
  if (const auto* p = dynamic_cast<const PyNodeBase*>(&n)) return p->text;
  std::string r;
  bool upper = true;
  for (const char* c = n.name; *c; ++c) {
    if (*c == '_' || *c == '.') {
      upper = true;
    } else {
      r += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(*c))) : *c;
      upper = false;
    }
  }
  return r == "AccumulateGrad" ? r : r + "Backward0";
}

namespace {

void node_dealloc(PyObject* o) {
  auto* self = reinterpret_cast<PyNodeObject*>(o);
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  if (self->node && self->node->extras && self->node->extras->wrapper == o)
    self->node->extras->wrapper = nullptr;
  self->node.~Ref<Node>();
  type->tp_free(o);
  Py_DECREF(type);
}
int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  return visit_graph(node_of(o), visit, arg);
}
int node_clear(PyObject* o) {
  clear_graph(node_of(o));
  return 0;
}

PyObject* repr(PyObject* o) {
  return guarded([&] { return str("<" + display_name(node(o)) + ">"); });
}
PyObject* node_name(PyObject* o, PyObject*) {
  return guarded([&] { return str(display_name(node(o))); });
}
// Also what a custom function's forward() left on its ctx, which itself knows the saved tensors
// within backward() alone.
PyObject* get_attribute(PyObject* o, PyObject* attribute) {
  PyObject* r = PyObject_GenericGetAttr(o, attribute);
  if (r || !PyErr_ExceptionMatches(PyExc_AttributeError)) return r;
  const auto* p = dynamic_cast<const PyNodeBase*>(&node(o));
  if (!p || !p->ctx) return nullptr;
  PyErr_Clear();
  if (equals(attribute, "saved_tensors"))
    return guarded([&] { return p->saved_tensors().release(); });
  return PyObject_GetAttr(p->ctx->get(), attribute);
}
PyObject* next_functions(PyObject* o, void*) {
  return guarded([&] {
    const std::vector<Edge>& next = node(o).next;
    Obj r(check(PyTuple_New(static_cast<Py_ssize_t>(next.size()))));
    for (size_t i = 0; i < next.size(); ++i)
      PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i),
                       check(Py_BuildValue("(NI)", check(wrap(next[i].node)), next[i].input)));
    return r.release();
  });
}
PyObject* released(PyObject* o, void*) {
  return PyBool_FromLong(node(o).released);
}
PyObject* sequence_nr(PyObject* o, PyObject*) {
  return PyLong_FromUnsignedLongLong(node(o).sequence);
}
PyObject* metadata(PyObject* o, void*) {
  return guarded([&] {
    std::shared_ptr<void>& kept = node(o).extra().metadata;
    if (!kept) {
      const Obj dict(check(PyDict_New()));
      kept = std::make_shared<NodeObject>(dict.get());
    }
    return Py_NewRef(static_cast<NodeObject*>(kept.get())->get());
  });
}
PyObject* variable(PyObject* o, void*) {
  return guarded([&] { return wrap(static_cast<autograd::Accumulate&>(node(o)).leaf()); });
}

std::shared_ptr<NodeObject> callable(PyObject* fn, const char* op) {
  if (!PyCallable_Check(fn))
    type_error(std::string("pf.") + op + ": got a " + Py_TYPE(fn)->tp_name +
               "; expected a callable");
  return std::make_shared<NodeObject>(fn);
}
PyObject* register_hook(PyObject* o, PyObject* fn) {
  return guarded([&] {
    const int64_t id = autograd::next_hook();
    node(o).extra().after.emplace_back(
        id, PyAfter{callable(fn, "Node.register_hook"), node(o).next.size()});
    return hook_handle(o, id);
  });
}
PyObject* register_prehook(PyObject* o, PyObject* fn) {
  return guarded([&] {
    const int64_t id = autograd::next_hook();
    node(o).extra().before.emplace_back(id, PyBefore{callable(fn, "Node.register_prehook")});
    return hook_handle(o, id);
  });
}
PyObject* remove_hook(PyObject* o, PyObject* id) {
  return guarded([&]() -> PyObject* {
    const int64_t wanted = to_int64(id, "id");
    const auto is_it = [&](const auto& h) { return h.first == wanted; };
    Node::Extras& e = node(o).extra();
    std::erase_if(e.before, is_it);
    std::erase_if(e.after, is_it);
    Py_RETURN_NONE;
  });
}

PyMethodDef methods[] = {
    {"name", node_name, METH_NOARGS, "The name of the operation, as its class has it."},
    {"register_hook", register_hook, METH_O,
     "Calls hook(grad_inputs, grad_outputs) when the node has run; a tuple that it returns takes "
     "the place of grad_inputs. Returns a handle with remove()."},
    {"register_prehook", register_prehook, METH_O,
     "Calls hook(grad_outputs) before the node runs; a tuple that it returns takes their place. "
     "Returns a handle with remove()."},
    {"_remove_hook", remove_hook, METH_O, nullptr},
    {"_sequence_nr", sequence_nr, METH_NOARGS,
     "When it was recorded: backward() runs the highest first."},
    {}};
PyGetSetDef properties[] = {
    {"next_functions", next_functions, nullptr,
     "Of each input the node that made it (None where none needs a gradient), and which result of "
     "that it was.",
     nullptr},
    {"metadata", metadata, nullptr, "A dict for notes, which lives as long as the node.", nullptr},
    {"released", released, nullptr, "True when a backward pass has freed what it had saved.",
     nullptr},
    {}};
PyType_Slot slots[] = {{Py_tp_dealloc, slot(node_dealloc)},
                       {Py_tp_traverse, slot(node_traverse)},
                       {Py_tp_clear, slot(node_clear)},
                       {Py_tp_repr, slot(repr)},
                       {Py_tp_getattro, slot(get_attribute)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_tp_doc, const_cast<char*>("A recorded operation, as backward() sees "
                                                     "it: what grad_fn gives.")},
                       {0, nullptr}};
PyType_Spec spec = {"pyflame.autograd.graph.Node", sizeof(PyNodeObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

PyGetSetDef leaf_properties[] = {
    {"variable", variable, nullptr, "The leaf to whose .grad it adds; None when that is gone.",
     nullptr},
    {}};
PyType_Slot leaf_slots[] = {{Py_tp_traverse, slot(node_traverse)},
                            {Py_tp_clear, slot(node_clear)},
                            {Py_tp_getset, leaf_properties},
                            {Py_tp_doc, const_cast<char*>("The end of a path: adds what arrives to "
                                                          "the .grad of a leaf.")},
                            {0, nullptr}};
PyType_Spec leaf_spec = {
    "pyflame.autograd.graph.AccumulateGrad", sizeof(PyNodeObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, leaf_slots};

}  // namespace

bool is_node(PyObject* o) {
  return PyType_IsSubtype(Py_TYPE(o), NodeType);
}
const Ref<Node>& node_of(PyObject* o) {
  return reinterpret_cast<PyNodeObject*>(o)->node;
}

PyObject* wrap(Ref<Node> n) {
  if (!n) Py_RETURN_NONE;
  if (n->extras && n->extras->wrapper) {
    auto* o = static_cast<PyObject*>(n->extras->wrapper);
    if (Py_REFCNT(o) > 0) return Py_NewRef(o);
  }
  PyTypeObject* type =
      dynamic_cast<autograd::Accumulate*>(n.get()) ? AccumulateType : class_named(display_name(*n));
  PyObject* o = check(type->tp_alloc(type, 0));
  n->extra().wrapper = o;
  new (&reinterpret_cast<PyNodeObject*>(o)->node) Ref<Node>(std::move(n));
  return o;
}

void init_node(nb::module_& m) {
  NodeType = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)));
  check(PyModule_AddObjectRef(m.ptr(), "Node", reinterpret_cast<PyObject*>(NodeType)));
  AccumulateType = reinterpret_cast<PyTypeObject*>(
      check(PyType_FromSpecWithBases(&leaf_spec, reinterpret_cast<PyObject*>(NodeType))));
}

}  // namespace pyflame::python
