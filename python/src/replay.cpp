// Making a captured step again: what is asked before, told, and put in place behind it; and calls
// of which all is done here, without a line of Python.
#include <nanobind/stl/shared_ptr.h>

#include <array>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common.h"
#include "engine/autograd.h"
#include "engine/capture.h"
#include "engine/engine.h"
#include "engine/hidden.h"
#include "engine/recompute.h"
#include "ops/attention_switches.h"
#include "pyflame/amp.h"
#include "surroundings.h"
#include "table/kernels/optim.h"

namespace pyflame::python {

namespace {

using engine::Capture;

template <class T>
void put(std::string& s, T value) {
  s.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Whether what runs has run before, and is to leave a tape: nothing is replayed then.
thread_local bool t_runs_again = false;

// What a capture depends on besides values, as bytes: of its arguments geometry, dtype, device,
// whether gradients are wanted, which of them are one tensor; and what operations look at besides.
// Empty where it could not be run on them: two share memory, or it is others' too, or does not
// begin where a vector may; or somebody is to see each operation or what is saved; or samples of a
// vmap may be among what it draws and reaches.
std::string signature(const std::vector<Tensor>& tensors) {
  if (mode_is_on() || saves_hooked() || engine::within_vmap()) return {};
  std::string key;
  for (size_t n = 0; n < tensors.size(); ++n) {
    const TensorImpl& t = *tensors[n].impl();
    if (t.storage->foreign || t.storage->sparse || t.hidden) return {};
    constexpr int64_t kAlignment = 64;
    if (t.offset * static_cast<int64_t>(itemsize(t.dtype)) % kAlignment) return {};
    uint8_t same = 0xff;
    for (size_t i = 0; i < n; ++i) {
      if (tensors[i].impl() == &t)
        same = static_cast<uint8_t>(i);
      else if (tensors[i]->storage == t.storage)
        return {};
    }
    const bool graded = t.requires_grad || (t.meta && t.meta->grad_fn);
    put(key, same);
    put(key, static_cast<uint8_t>(t.dtype));
    put(key, static_cast<uint8_t>(t.storage->device.type));
    put(key, t.storage->device.index);
    put(key, static_cast<uint8_t>(t.floating | graded << 1));
    put(key, static_cast<uint8_t>(t.shape.size()));
    for (int64_t n : t.shape) put(key, n);
    for (int64_t n : t.strides) put(key, n);
  }
  for (DeviceType type : {DeviceType::CPU, DeviceType::CUDA, DeviceType::Paranoid}) {
    put(key, autocast_enabled(type));
    put(key, autocast_dtype(type));
  }
  const Device current = get_device();
  put(key, t_runs_again);
  put(key, grad_enabled());
  put(key, default_dtype());
  put(key, current.type);
  put(key, current.index);
  put(key, current.floating);
  put(key, engine::eager());
  put(key, float32_matmul_precision());
  put(key, float32_conv_precision());
  put(key, deterministic());
  put(key, attention_library());
  if (const auto r = autograd::recompute_asked()) {
    put(key, r->at_least);
    put(key, r->above);
  }
  return key;
}

// Whether leaves have the gradients that they had when the step was captured, or one where it
// clears them, and nobody but the step itself is to see what it makes of these.
bool gradients_hold(nb::dict had, nb::dict cleared) {
  PyObject *p = nullptr, *before = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(had.ptr(), &at, &p, &before);) {
    const Tensor& leaf = tensor_in(p);
    if (has_hooks(leaf)) return false;
    const Tensor now = leaf.grad();
    if (before == Py_None) {
      if (now.defined() && PyDict_GetItem(cleared.ptr(), p) != Py_True) return false;
    } else if (!is_tensor(before) || now.impl() != tensor_of(before).impl()) {
      return false;
    }
  }
  return true;
}

// (leaf, gradient or None) of each.
void restore(nb::list gradients) {
  for (nb::handle pair : gradients) {
    if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2)
      type_error("pf: expected pairs of a leaf and its gradient");
    Tensor& p = tensor_in(PyTuple_GET_ITEM(pair.ptr(), 0));
    PyObject* g = PyTuple_GET_ITEM(pair.ptr(), 1);
    const Tensor wanted = g == Py_None ? Tensor() : tensor_in(g);
    if (p.grad().impl() != wanted.impl()) p.set_grad(wanted);
  }
}

// ---- steps of Adam -----------------------------------------------------------------------------

// Keys of a group and of states.
enum Key { kLr, kBetas, kEps, kDecay, kDecoupled, kMaximize, kAmsgrad, kParams, kDiff, kStep };
PyObject* get(nb::handle dict, Key key) {
  static const std::array<PyObject*, 10> names = [] {
    std::array<PyObject*, 10> r;
    const char* const texts[] = {
        "lr",       "betas",   "eps",    "weight_decay",   "decoupled_weight_decay",
        "maximize", "amsgrad", "params", "differentiable", "step"};
    for (size_t i = 0; i < r.size(); ++i) r[i] = PyUnicode_InternFromString(texts[i]);
    return r;
  }();
  return key == kStep && !dict           ? names[kStep]
         : PyDict_CheckExact(dict.ptr()) ? PyDict_GetItem(dict.ptr(), names[key])
                                         : nullptr;
}

double number(PyObject* value) {
  const double x = value ? PyFloat_AsDouble(value) : -1;
  if (x == -1 && PyErr_Occurred()) throw PythonError();
  return x;
}

// What a group of Adam says of its next step. `known`: its parameters, their states, names and
// tensors of these by name, whether amsgrad. None where any of them is another object.
struct AdamStep {
  double lr, beta1, beta2, eps, decay;
  int64_t step;
  bool decoupled, maximize;
  nb::handle states;
};
std::optional<AdamStep> adam_step(nb::handle state, nb::handle group, nb::tuple known) {
  const nb::list params = nb::borrow<nb::list>(known[0]), states = nb::borrow<nb::list>(known[1]),
                 tensors = nb::borrow<nb::list>(known[3]);
  const nb::tuple names = nb::borrow<nb::tuple>(known[2]);
  const size_t n = params.size();
  PyObject *now = get(group, kParams), *betas = get(group, kBetas), *diff = get(group, kDiff),
           *decoupled = get(group, kDecoupled), *maximize = get(group, kMaximize);
  if (!now || !PyList_Check(now) || static_cast<size_t>(PyList_GET_SIZE(now)) != n ||
      !PyDict_Check(state.ptr()) || !betas || !PyTuple_Check(betas) ||
      PyTuple_GET_SIZE(betas) != 2 || get(group, kAmsgrad) != nb::handle(known[4]).ptr() ||
      (diff && truth(diff)) || !decoupled || !maximize || !get(group, kLr) || !get(group, kEps) ||
      !get(group, kDecay))
    return {};
  PyObject* step = nullptr;
  for (size_t i = 0; i < n; ++i) {
    const nb::handle p = params[i], s = states[i];
    if (PyList_GET_ITEM(now, static_cast<Py_ssize_t>(i)) != p.ptr() ||
        PyDict_GetItem(state.ptr(), p.ptr()) != s.ptr() || !PyDict_CheckExact(s.ptr()))
      return {};
    for (size_t k = 0; k < names.size(); ++k)
      if (PyDict_GetItem(s.ptr(), nb::handle(names[k]).ptr()) !=
          nb::handle(tensors[k * n + i]).ptr())
        return {};
    PyObject* its = get(s, kStep);
    if (!its || !PyLong_CheckExact(its)) return {};
    if (step && its != step && PyObject_RichCompareBool(its, step, Py_EQ) != 1) return {};
    step = its;
  }
  if (!step) return {};
  const int64_t made = PyLong_AsLongLong(step);
  if (made == -1 && PyErr_Occurred()) throw PythonError();
  return AdamStep{number(get(group, kLr)),
                  number(PyTuple_GET_ITEM(betas, 0)),
                  number(PyTuple_GET_ITEM(betas, 1)),
                  number(get(group, kEps)),
                  number(get(group, kDecay)),
                  made + 1,
                  truth(decoupled),
                  truth(maximize),
                  states};
}

// Those of all groups of an optimizer whose step is a cell; empty where it has to be called.
std::vector<AdamStep> adam_steps(nb::handle optimizer, nb::handle known) {
  std::vector<AdamStep> r;
  const nb::object groups = optimizer.attr("param_groups"), state = optimizer.attr("state");
  const nb::list of = nb::borrow<nb::list>(known);
  if (!PyList_Check(groups.ptr()) ||
      static_cast<size_t>(PyList_GET_SIZE(groups.ptr())) != of.size())
    return r;
  for (size_t k = 0; k < of.size(); ++k) {
    auto step = adam_step(state, PyList_GET_ITEM(groups.ptr(), static_cast<Py_ssize_t>(k)),
                          nb::borrow<nb::tuple>(of[k]));
    if (!step) return {};
    r.push_back(*step);
  }
  return r;
}

void tell(Capture& c, int cell, const std::vector<AdamStep>& steps) {
  constexpr auto at = kernels::numbers<kernels::AdamW>;
  for (size_t k = 0; k < steps.size(); ++k) {
    const AdamStep& s = steps[k];
    const std::pair<int, Scalar> numbers[] = {{at.lr, s.lr},
                                              {at.beta1, s.beta1},
                                              {at.beta2, s.beta2},
                                              {at.eps, s.eps},
                                              {at.step, s.step},
                                              {at.decoupled, s.decoupled},
                                              {at.maximize, s.maximize},
                                              {at.weight_decay, s.decay}};
    for (const auto& [place, value] : numbers) c.tell(cell, k, place, value);
    const Obj step(check(PyLong_FromLongLong(s.step)));
    for (nb::handle state : s.states)
      check(PyDict_SetItem(state.ptr(), get({}, kStep), step.get()));
  }
}

// Makes the step of an Adam, of which nothing is launched. False where it has to be called.
bool tell_adam(Capture& c, int cell, nb::handle optimizer, nb::handle known) {
  const std::vector<AdamStep> steps = adam_steps(optimizer, known);
  tell(c, cell, steps);
  return !steps.empty();
}

// Whether an optimizer has hooks of its steps, or those of every optimizer.
bool hooked(nb::handle optimizer, nb::handle before_all, nb::handle after_all) {
  const nb::object d = optimizer.attr("__dict__");
  static PyObject* const names[] = {PyUnicode_InternFromString("_step_pre_hooks"),
                                    PyUnicode_InternFromString("_step_post_hooks")};
  for (PyObject* name : names)
    if (PyObject* hooks = PyDict_GetItem(d.ptr(), name); hooks && truth(hooks)) return true;
  return truth(before_all.ptr()) || truth(after_all.ptr());
}

// ---- a call ------------------------------------------------------------------------------------

// Calls of one variant whose arguments are tensors, in one part, with nothing outside of it but
// steps of Adam: all that the way by Python asks (captured.py) is asked here.
class Replay {
 public:
  enum {
    kVariant,
    kCapture,
    kChanges,
    kChangesThen,
    kLive,
    kLock,
    kSurroundings,
    kHad,
    kCleared,
    kAtEnd,
    kCells,
    kBefore,
    kAfter,
    kResult,
    kTheirs,
    kCount
  };

  Replay(std::shared_ptr<Capture> capture, const nb::bytes& key, int64_t most, nb::tuple of)
      : capture_(std::move(capture)),
        key_(key.c_str(), key.size()),
        left_(most),
        of_(std::move(of)) {
    if (of_.size() != kCount) throw std::invalid_argument("_Replay");
    for (nb::handle number : at(kTheirs)) theirs_.insert(nb::cast<intptr_t>(number));
  }

  int64_t runs = 0;

  nb::object call(nb::args args) {
    const auto no = nb::borrow(Py_NotImplemented);
    static PyObject* const recording = PyUnicode_InternFromString("recording");
    static PyObject* const capture = PyUnicode_InternFromString("capture");
    static PyObject* const reason = PyUnicode_InternFromString("reason");
    if (left_ == 0 || engine::capturing() || !at(kLive).attr(recording).is_none() ||
        !at(kVariant).attr(capture).is(at(kCapture)) || !at(kVariant).attr(reason).is_none())
      return no;
    for (nb::handle a : args)
      if (Py_TYPE(a.ptr()) != TensorType) return no;
    const std::vector<Tensor> inputs = tensors_in(args);
    if (signature(inputs) != key_) return no;
    for (const Tensor& t : inputs)  // see Variant.knows_otherwise
      if (theirs_.count(reinterpret_cast<intptr_t>(t->storage.get()))) return no;
    const nb::handle changes = PyList_GetItem(at(kChanges).ptr(), 0), then = at(kChangesThen);
    if (!changes.is(then) && PyObject_RichCompareBool(changes.ptr(), then.ptr(), Py_EQ) != 1)
      return no;
    if (nb::cast<const Surroundings&>(at(kSurroundings)).changed().place >= 0) return no;
    if (!capture_->watched_still_there()) return no;
    std::vector<std::pair<int, std::vector<AdamStep>>> steps;
    for (nb::handle cell : at(kCells)) {  // (its number, the optimizer, what is known of it)
      const nb::tuple of = nb::borrow<nb::tuple>(cell);
      if (hooked(of[1], at(kBefore), at(kAfter))) return no;
      steps.emplace_back(nb::cast<int>(of[0]), adam_steps(of[1], of[2]));
      if (steps.back().second.empty()) return no;
    }
    if (!gradients_hold(nb::borrow<nb::dict>(at(kHad)), nb::borrow<nb::dict>(at(kCleared))))
      return no;
    const Lock lock(at(kLock));
    if (!lock || left_ == 0) return no;
    --left_;  // before the GIL is let go: who finds the lock taken ends this object
    ++runs;
    capture_->start(0, inputs);
    for (const auto& [cell, step] : steps) tell(*capture_, cell, step);
    capture_->run(0, 0);
    restore(nb::borrow<nb::list>(at(kAtEnd)));
    const std::vector<Tensor> made = capture_->results(0);
    nb::list results;
    for (const Tensor& t : made) results.append(nb::steal(wrap(t)));
    return at(kResult).is_none() ? nb::object(results[0]) : at(kResult)(results, args);
  }

  // (the variant, how many runs it had). A thread that has it still makes none with it.
  nb::tuple end() {
    left_ = 0;
    return nb::make_tuple(at(kVariant), std::exchange(runs, 0));
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Replay>(self)->of_.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    Replay* r = nb::inst_ptr<Replay>(self);
    r->left_ = 0;
    r->of_ = nb::tuple();
    return 0;
  }

 private:
  // A threading.Lock, if nobody has it.
  class Lock {
   public:
    explicit Lock(nb::handle lock)
        : lock_(lock), taken_(truth(lock.attr("acquire")(false).ptr())) {}
    ~Lock() {
      if (!taken_) return;
      PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
      PyErr_Fetch(&type, &value, &trace);
      Py_XDECREF(PyObject_CallMethod(lock_.ptr(), "release", nullptr));
      PyErr_Restore(type, value, trace);
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    explicit operator bool() const { return taken_; }

   private:
    nb::handle lock_;
    bool taken_;
  };

  nb::handle at(int i) const { return PyTuple_GET_ITEM(of_.ptr(), i); }

  std::shared_ptr<Capture> capture_;
  std::string key_;
  std::unordered_set<intptr_t> theirs_;
  int64_t left_;  // calls until one is to be compared with Python's run
  nb::tuple of_;
};

}  // namespace

void init_replay(nb::module_& m) {
  init_surroundings(m);
  static PyType_Slot slots[] = {
      {Py_tp_traverse, slot(Replay::traverse)}, {Py_tp_clear, slot(Replay::clear)}, {0, nullptr}};
  nb::class_<Replay>(m, "_Replay", nb::type_slots(slots))
      .def(nb::init<std::shared_ptr<Capture>, const nb::bytes&, int64_t, nb::tuple>())
      .def("__call__", &Replay::call)
      .def("end", &Replay::end)
      .def_ro("runs", &Replay::runs);
  m.def("_capture_signature", [](nb::handle list) -> nb::object {
    const std::string key = signature(tensors_in(list));
    return key.empty() ? nb::none() : nb::object(nb::bytes(key.data(), key.size()));
  });
  m.def("_runs_again", [] { return t_runs_again; });
  m.def("_set_runs_again", [](bool on) { return std::exchange(t_runs_again, on); });
  m.def("_gradients_hold", &gradients_hold);
  m.def("_restore_gradients", &restore);
  m.def("_tell_adam", &tell_adam);
  m.def("_steps_hooked", &hooked);
}

}  // namespace pyflame::python
