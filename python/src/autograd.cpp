// The tape from Python: backward, grad, hooks, grad_fn objects, custom functions.
#include "engine/autograd.h"
#include "engine/recompute.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/inference.h"
#include "core/sparse.h"
#include "cycles.h"
#include "node.h"
#include "ops/building_blocks.h"

namespace pyflame::python {

namespace {

using autograd::Edge;
using autograd::Grads;
using autograd::Node;

// ---- custom functions ---------------------------------------------------------------------------
// A node whose gradient is Python's backward(ctx, *grads) of a subclass of autograd.Function.
struct PyNode final : PyNodeBase {
  struct Result {
    Dims shape;
    DType dtype;
    Device device;
  };
  std::vector<autograd::Saved> saved;
  std::vector<std::optional<Result>> results;  // none: not a tensor, whose gradient is None
  std::vector<Result> inputs;     // the tensors among the arguments: next[i] belongs to inputs[i]
  std::vector<size_t> positions;  // and where they stand
  size_t arguments = 0;
  bool materialize = true;

  PyNode(std::string n, PyObject* b, PyObject* c) : PyNodeBase("function") {
    text = std::move(n);
    backward = std::make_shared<NodeObject>(b);
    ctx = std::make_shared<NodeObject>(c);
    name = text.c_str();
  }
  void release() override {
    for (auto& s : saved) s.reset();
  }
  void each_owned(autograd::Owned& o) const override {
    Node::each_owned(o);
    for (const auto& s : saved) s.each_owned(o);
  }

  // With their history whatever the mode: backward() asks them whether they require a gradient.
  Obj saved_tensors() const override {
    const EnableGrad with_history;
    Obj kept(check(PyTuple_New(static_cast<Py_ssize_t>(saved.size()))));
    for (size_t i = 0; i < saved.size(); ++i)
      PyTuple_SET_ITEM(kept.get(), static_cast<Py_ssize_t>(i), check(wrap(saved[i].get(*this))));
    return kept;
  }

  Grads apply(const Grads& grads) override {
    WithGil gil;
    try {
      return run(grads);
    } catch (const PythonError&) {
      throw_python_error();
    }
  }

 private:
  Grads run(const Grads& grads) {
    const auto held = ctx, function = backward;
    if (!held || !function)
      PF_FAIL(
          AutogradError, "backward", text,
          " was part of a cycle that Python's collector has freed; keep a reference to a result "
          "of it until backward() has run");
    Obj kept(guarded([&] { return saved_tensors().release(); }));
    if (!kept) {  // raised where the function asks for them
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      PyErr_NormalizeException(&type, &value, &trace);
      Py_XDECREF(type);
      Py_XDECREF(trace);
      kept = Obj(value);
    }
    check(PyObject_SetAttrString(held->get(), "_saved", kept.get()));
    Obj args(check(PyTuple_New(static_cast<Py_ssize_t>(results.size()) + 1)));
    Py_INCREF(held->get());
    PyTuple_SET_ITEM(args.get(), 0, held->get());
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor g = i < grads.size() ? grads[i] : Tensor();
      if (const auto& of = results[i]; !g.defined() && materialize && of)
        g = zeros(of->shape.vec(), of->dtype, of->device);
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i) + 1, check(wrap(g)));
    }
    Obj out(in_python([&] { return PyObject_Call(function->get(), args.get(), nullptr); }));
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    if (PyObject_SetAttrString(held->get(), "_saved", Py_None) < 0) PyErr_Clear();
    PyErr_Restore(t, v, tb);
    if (!out) throw PythonError();
    return unpack(out.get());
  }

  Grads unpack(PyObject* out) {
    PyObject* single[1] = {out};
    PyObject** items = single;
    Py_ssize_t n = 1;
    if (PyTuple_Check(out) || PyList_Check(out)) {
      items = PySequence_Fast_ITEMS(out);
      n = PySequence_Fast_GET_SIZE(out);
    }
    while (n > static_cast<Py_ssize_t>(arguments) && items[n - 1] == Py_None) --n;
    if (n != static_cast<Py_ssize_t>(arguments))
      PF_FAIL(AutogradError, "backward", text, " returned ", n, " gradients; expected ", arguments,
              ", one for each argument of forward; return None for those without");
    Grads r(next.size());
    for (size_t i = 0; i < positions.size(); ++i) {
      PyObject* g = items[positions[i]];
      if (g == Py_None) continue;
      if (!is_tensor(g))
        type_error("pf.backward: " + text + " returned a " + Py_TYPE(g)->tp_name +
                   " as gradient; expected a Tensor or None");
      Tensor grad = tensor_of(g);
      if (!(grad->shape == inputs[i].shape)) {
        bool fits = grad->shape.size() >= inputs[i].shape.size();
        for (int d = 1; fits && d <= inputs[i].shape.size(); ++d) {
          int64_t want = inputs[i].shape[inputs[i].shape.size() - d];
          fits = want == 1 || want == grad->shape[grad->shape.size() - d];
        }
        if (!fits)
          PF_FAIL(ShapeError, "backward", text, " returned a gradient of shape ", grad->shape,
                  " for argument ", positions[i], "; expected ", inputs[i].shape,
                  ", the shape of the argument");
        grad = ops::sum_to(grad, inputs[i].shape);
      }
      if (grad->dtype != inputs[i].dtype) grad = to(grad, inputs[i].dtype);
      if (needs(i)) r[i] = std::move(grad);
    }
    return r;
  }
};

PyNode::Result describe(const Tensor& t) {
  return {t->shape, t->dtype, t->device()};
}

// Connects the results of a custom function. `outputs`: tensors, None for those without gradient;
// `results`: all of them as they are. `dirty`: which of them are inputs that forward() wrote.
void attach_function(const char* name, nb::handle backward, nb::handle ctx, nb::tuple arguments,
                     nb::tuple outputs, nb::tuple results, nb::tuple saved, nb::tuple dirty,
                     bool materialize) {
  auto* node = new PyNode(name, backward.ptr(), ctx.ptr());
  Ref<Node> owner = Ref<Node>::adopt(node);
  std::vector<Tensor> ins, outs;
  node->arguments = arguments.size();
  node->materialize = materialize;
  for (size_t i = 0; i < arguments.size(); ++i) {
    PyObject* a = PyTuple_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i));
    if (!is_tensor(a)) continue;
    ins.push_back(tensor_in(a));
    node->positions.push_back(i);
    node->inputs.push_back(describe(tensor_of(a)));
    node->next.push_back(autograd::edge_of(tensor_of(a)));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyObject* o = PyTuple_GET_ITEM(outputs.ptr(), static_cast<Py_ssize_t>(i));
    outs.push_back(is_tensor(o) ? tensor_in(o) : Tensor());
    if (is_tensor(o)) track(o);
    PyObject* r = PyTuple_GET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i));
    node->results.push_back(is_tensor(r) ? std::optional(describe(tensor_of(r))) : std::nullopt);
  }
  for (size_t i = 0; i < saved.size(); ++i) {
    PyObject* s = PyTuple_GET_ITEM(saved.ptr(), static_cast<Py_ssize_t>(i));
    if (!is_tensor(s)) {
      node->saved.emplace_back();
      continue;
    }
    uint32_t nr = 0;
    bool result = false;
    for (size_t k = 0; k < outs.size() && !result; ++k)
      if (outs[k].defined() && outs[k].impl() == tensor_of(s).impl()) {
        result = true;
        nr = static_cast<uint32_t>(k);
      }
    node->saved.emplace_back(tensor_of(s), result, nr);
  }
  std::vector<size_t> written;
  for (size_t i = 0; i < dirty.size(); ++i)
    if (PyTuple_GET_ITEM(dirty.ptr(), static_cast<Py_ssize_t>(i)) == Py_True) written.push_back(i);
  for (size_t i : written) autograd::check_inplace(outs[i], node->name);
  if (!written.empty() && outs.size() == 1) {
    node->outputs = 1;
    autograd::rebase(outs[0], owner);
    return;
  }
  for (size_t i : written)
    PF_CHECK(!outs[i]->meta || !outs[i]->meta->base.defined(), AutogradError, node->name,
             "forward() has several results and wrote result ", i,
             ", a view, in place, so the history of what it looks at would miss the write; return "
             "it alone, or write to a clone() of it");
  autograd::attach(owner, outs, ins);
  for (size_t i : written)
    if (outs[i]->meta) ++outs[i]->meta->epoch;  // views of it renew their history
}

std::vector<Tensor> tensor_list(nb::handle o, const char* op) {
  if (is_tensor(o.ptr())) return {tensor_in(o.ptr())};
  std::vector<Tensor> r;
  if (o.is_none()) return r;
  for (nb::handle item : nb::borrow<nb::object>(o)) {
    if (item.is_none()) {
      r.emplace_back();
    } else if (is_tensor(item.ptr())) {
      r.push_back(tensor_in(item.ptr()));
    } else {
      type_error(std::string("pf.") + op + ": got a " + Py_TYPE(item.ptr())->tp_name +
                 "; expected Tensors");
    }
  }
  return r;
}

// The sparse ones among them; null for others. Their values are what gradients flow to.
std::vector<const SparseParts*> sparse_among(nb::handle o) {
  auto parts = [](PyObject* p) { return is_tensor(p) ? sparse_parts(tensor_in(p)) : nullptr; };
  if (is_tensor(o.ptr())) return {parts(o.ptr())};
  std::vector<const SparseParts*> r;
  for (nb::handle item : nb::borrow<nb::object>(o)) r.push_back(parts(item.ptr()));
  return r;
}

// Gradients of outputs, of which some may be sparse: those of their values.
std::vector<Tensor> gradient_list(nb::handle grads, nb::handle outputs, const char* op) {
  std::vector<Tensor> r = tensor_list(grads, op);
  const auto sparse = sparse_among(outputs);
  for (size_t i = 0; i < std::min(r.size(), sparse.size()); ++i)
    if (sparse[i] && r[i].defined() && sparse_parts(r[i])) r[i] = sparse_parts(r[i])->values;
  return r;
}

// Tensors and GradientEdges, which are (node, output number, ...).
std::vector<autograd::Place> place_list(nb::handle o, const char* op) {
  auto is_edge = [](PyObject* p) {
    return PyTuple_Check(p) && PyTuple_GET_SIZE(p) >= 2 && is_node(PyTuple_GET_ITEM(p, 0));
  };
  auto place = [&](PyObject* p) -> autograd::Place {
    if (is_tensor(p)) {
      const SparseParts* parts = sparse_parts(tensor_in(p));
      return parts ? parts->values : tensor_of(p);
    }
    if (!is_edge(p))
      type_error(std::string("pf.") + op + ": got a " + Py_TYPE(p)->tp_name +
                 "; expected Tensors or GradientEdges");
    return Edge{node_of(PyTuple_GET_ITEM(p, 0)),
                static_cast<uint32_t>(to_int64(PyTuple_GET_ITEM(p, 1), "output_nr"))};
  };
  if (is_tensor(o.ptr()) || is_edge(o.ptr())) return {place(o.ptr())};
  std::vector<autograd::Place> r;
  for (nb::handle item : nb::borrow<nb::object>(o)) r.push_back(place(item.ptr()));
  return r;
}

void backward_into(const std::vector<autograd::Place>& outputs, const std::vector<Tensor>& grads,
                   bool retain, bool create, const std::vector<autograd::Place>& inputs) {
  if (inputs.empty()) {
    autograd::run_backward(outputs, {}, grads, retain, create, true, "backward");
    return;
  }
  std::vector<Tensor> found =
      autograd::run_backward(outputs, inputs, grads, retain, create, true, "backward");
  GradMode mode(create);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!found[i].defined()) continue;
    Tensor leaf = inputs[i].tensor;
    if (!leaf.defined())
      PF_FAIL(ValueError, "backward",
              "got a GradientEdge among inputs; expected tensors, which have a .grad; use grad()");
    Tensor before = leaf.grad();
    leaf.set_grad(before.defined() ? add(before, found[i]) : found[i]);
    if (leaf->meta->accumulator) autograd::run_accumulated(*leaf->meta->accumulator, leaf);
  }
}

}  // namespace

Tensor PyHook::operator()(const Tensor& g) const {
  WithGil gil;
  Obj arg(wrap(g));
  Obj r(in_python([&] { return arg ? PyObject_CallOneArg(callable->get(), arg.get()) : nullptr; }));
  if (!r) throw_python_error();
  if (r.get() == Py_None) return {};
  if (!is_tensor(r.get())) {
    PyErr_Format(PyExc_TypeError,
                 "pf.register_hook: the hook returned a %s; expected a Tensor or None",
                 Py_TYPE(r.get())->tp_name);
    throw_python_error();
  }
  return tensor_of(r.get());
}

PyObject* grad_fn_of(const Tensor& t) {
  return wrap(autograd::grad_fn(t));
}

PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs", nullptr};
    PyObject *gradient = Py_None, *retain = Py_None, *inputs = Py_None;
    int create = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOpO:backward", const_cast<char**>(names),
                                     &gradient, &retain, &create, &inputs))
      return nullptr;
    bool keep = retain == Py_None ? create : truth(retain);
    std::vector<Tensor> grads;
    if (gradient != Py_None) grads = tensor_list(gradient, "backward");
    std::vector<autograd::Place> into;
    if (inputs != Py_None) {
      into = place_list(inputs, "backward");
      if (into.empty())
        PF_FAIL(
            AutogradError, "backward",
            "`inputs` cannot be empty: got no tensors to make gradients of; expected some, or None "
            "for all leaves");
    }
    backward_into({tensor_of(self)}, grads, keep, create != 0, into);
    Py_RETURN_NONE;
  });
}

PyObject* tensor_register_hook(PyObject* self, PyObject* hook) {
  return guarded([&]() -> PyObject* {
    if (!PyCallable_Check(hook)) type_error("pf.register_hook: expected a callable");
    int64_t id = tensor_of(self).register_hook(PyHook{std::make_shared<NodeObject>(hook)});
    track(self);
    return hook_handle(self, id);
  });
}

PyObject* tensor_register_accumulated(PyObject* self, PyObject* hook) {
  return guarded([&]() -> PyObject* {
    if (!PyCallable_Check(hook))
      type_error("pf.register_post_accumulate_grad_hook: expected a callable");
    const int64_t id = autograd::when_accumulated(
        tensor_of(self), PyAccumulated{std::make_shared<NodeObject>(hook)});
    track(self);
    return hook_handle(self, id);
  });
}

Tensor PyPacked::unpack() {
  WithGil gil;
  if (!value || !unpack_hook)
    PF_FAIL(AutogradError, "saved_tensors_hooks",
            "what was saved was part of a cycle that Python's collector has freed; keep a "
            "reference to the result until backward() has run");
  Obj r(in_python([&] { return PyObject_CallOneArg(unpack_hook->get(), value->get()); }));
  if (!r) throw_python_error();
  if (!is_tensor(r.get())) {
    PyErr_Format(PyExc_TypeError,
                 "pf.saved_tensors_hooks: unpack_hook returned a %s; expected a Tensor",
                 Py_TYPE(r.get())->tp_name);
    throw_python_error();
  }
  return tensor_of(r.get());
}

namespace {

// What a checkpoint keeps of an argument: as saved tensors are, with their hooks and checks.
struct SavedTensor {
  struct Owner final : Node {
    Owner() : Node("checkpoint") {}
    Grads apply(const Grads&) override { return {}; }
  };
  Ref<Node> owner = Ref<Node>::adopt(new Owner);
  autograd::Saved saved;
  bool wants;

  explicit SavedTensor(const Tensor& t) : saved(t), wants(autograd::requires_grad(t)) {}
  Tensor get() const {
    Tensor t = saved.get(*owner).detach();
    if (wants) t.requires_grad_(true);
    return t;
  }
};

thread_local int t_saved_hooks = 0;  // that this thread has entered

void push_saved_hooks(nb::handle pack, nb::handle unpack) {
  autograd::push_pack([p = std::make_shared<Held>(pack.ptr()),
                       u = std::make_shared<NodeObject>(unpack.ptr())](const Tensor& t) {
    WithGil gil;
    Obj arg(wrap(t));
    Obj r(arg ? in_python([&] { return PyObject_CallOneArg(p->get(), arg.get()); }) : nullptr);
    if (!r) throw_python_error();
    auto* packed = new PyPacked;
    packed->unpack_hook = u;
    packed->value = std::make_shared<NodeObject>(r.get());
    return Ref<autograd::Packed>::adopt(packed);
  });
  ++t_saved_hooks;
}
void pop_saved_hooks() {
  PF_CHECK(t_saved_hooks > 0, AutogradError, "saved_tensors_hooks",
           "got the end of a context that did not begin; expected both on one thread; use `with`");
  --t_saved_hooks;
  autograd::pop_pack();
}
}  // namespace

bool saves_hooked() {
  return t_saved_hooks > 0;
}

PyObject* tensor_retain_grad(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    autograd::retain_grad(tensor_of(self));
    Py_RETURN_NONE;
  });
}

void init_autograd(nb::module_& m) {
  init_node(m);
  m.def("_remove_hook", [](const Tensor& t, int64_t id) { t.remove_hook(id); });
  m.def(
      "_backward",
      [](nb::handle tensors, nb::handle grads, bool retain, bool create, nb::handle inputs) {
        std::vector<autograd::Place> into;
        if (!inputs.is_none()) into = place_list(inputs, "backward");
        backward_into(place_list(tensors, "backward"), gradient_list(grads, tensors, "backward"),
                      retain, create, into);
      },
      nb::arg("tensors"), nb::arg("grads").none(), nb::arg("retain"), nb::arg("create"),
      nb::arg("inputs").none());
  m.def(
      "_grad",
      [](nb::handle outputs, nb::handle inputs, nb::handle grads, bool retain, bool create,
         bool allow_unused) {
        const auto of = place_list(inputs, "grad");
        const auto from = place_list(outputs, "grad");
        if (of.empty()) return nb::steal(wrap_tuple({}));
        TensorList found = autograd::run_backward(from, of, gradient_list(grads, outputs, "grad"),
                                                  retain, create, allow_unused, "grad");
        const auto sparse = sparse_among(inputs);
        for (size_t i = 0; i < found.size(); ++i) {
          if (!sparse[i] || !found[i].defined()) continue;
          const nb::object input = inputs[i];
          SparseParts parts = *sparse[i];
          parts.values = found[i];
          found[i] = make_sparse(tensor_of(input.ptr())->shape, std::move(parts));
        }
        return nb::steal(wrap_tuple(found));
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("grads").none(), nb::arg("retain"),
      nb::arg("create"), nb::arg("allow_unused"));
  m.def("_push_saved_hooks", &push_saved_hooks);
  m.def("_pop_saved_hooks", &pop_saved_hooks);
  m.def("_saves_hooked", &saves_hooked);
  m.def(
      "_push_recompute",
      [](size_t at_least, size_t above, bool unasked) {
        autograd::push_recompute({at_least, above, unasked});
      },
      nb::arg("at_least"), nb::arg("above"), nb::arg("unasked"));
  m.def("_pop_recompute", &autograd::pop_recompute);
  m.def("_recompute_asked", []() -> nb::object {
    const auto r = autograd::recompute_asked();
    return r ? nb::object(nb::make_tuple(r->at_least, r->above)) : nb::none();
  });
  m.def("_gradient_edge", [](const Tensor& t) {
    const Edge e = autograd::edge_of(t);
    PF_CHECK(e.node, AutogradError, "get_gradient_edge",
             "the tensor does not require grad, so no gradient flows to it; call "
             "requires_grad_() on it, or on what it is computed from");
    return nb::make_tuple(nb::steal(check(wrap(e.node))), e.input);
  });
  m.def("_current_pass", [](nb::handle tensors) {
    std::vector<Edge> edges;
    for (const Tensor& t : tensor_list(tensors, "hook")) edges.push_back(autograd::edge_of(t));
    const autograd::CurrentPass pass = autograd::current_pass(edges);
    nb::list which;
    for (size_t i = 0; i < pass.reached.size(); ++i)
      if (pass.reached[i]) which.append(i);
    return nb::make_tuple(pass.number, which);
  });
  m.def("_pass_has_inputs", [] { return autograd::current_pass().has_inputs; });
  m.def("_when_pass_ends", [](nb::handle fn) {
    autograd::when_pass_ends([f = std::make_shared<Held>(fn.ptr())] {
      WithGil gil;
      const Obj r(in_python([&] { return PyObject_CallNoArgs(f->get()); }));
      if (!r) throw_python_error();
    });
  });
  nb::class_<SavedTensor>(m, "_SavedTensor", "A tensor as an operation saves it.")
      .def(nb::init<const Tensor&>())
      .def("get", &SavedTensor::get);
  m.def("_increment_version", [](const Tensor& t) { ++t->storage->version; });
  m.def("_attach_function", &attach_function);
  m.def("_forget_history", [](const Tensor& t) {
    if (!t->meta) {
      t->requires_grad = false;
      return;
    }
    PF_CHECK(!t->meta->base.defined() || !autograd::requires_grad(t->meta->base), AutogradError,
             "detach_",
             "the tensor is a view of one that requires grad, whose history would miss "
             "later writes; use detach()");
    t->meta->grad_fn.reset();
    t->meta->base = Tensor();
    t->meta->steps.reset();
    t->meta->form.reset();
    t->requires_grad = false;
  });
  m.def("_set_grad_enabled", &set_grad_enabled);
  m.def("_set_inference", &set_inference_mode);
  m.def("is_inference_mode_enabled", &inference_mode, "True within inference_mode of this thread.");
  m.def("is_grad_enabled", &grad_enabled);
  m.def("_set_detect_anomaly", &set_detect_anomaly);
  m.def("is_anomaly_enabled", &detect_anomaly);
}

}  // namespace pyflame::python
