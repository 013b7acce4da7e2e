// Captured steps, as python/pyflame/_compile makes them.
#include "engine/capture.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "common.h"
#include "core/backends.h"
#include "engine/autograd.h"
#include "engine/planner.h"
#include "table/kernels/optim.h"

namespace pyflame::python {

namespace {

using engine::Capture;

std::vector<Tensor> tensors_in(nb::handle list) {
  std::vector<Tensor> r;
  for (nb::handle h : list) r.push_back(tensor_of(h.ptr()));
  return r;
}
nb::list as_list(const std::vector<Tensor>& tensors) {
  nb::list r;
  for (const Tensor& t : tensors) r.append(nb::steal(wrap(t)));
  return r;
}

template <class T>
void put(std::string& s, T value) {
  s.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What of tensors a capture depends on, as bytes: geometry, dtype, device, whether gradients are
// wanted, which of them are one tensor. None where it could not be run on them: two share memory,
// or it is others' too, or does not begin where a vector may.
nb::object signature(nb::handle list) {
  std::string key;
  std::vector<const TensorImpl*> seen;
  for (nb::handle h : list) {
    const TensorImpl& t = *tensor_of(h.ptr()).impl();
    if (t.storage->foreign || t.storage->sparse || t.hidden) return nb::none();
    constexpr int64_t kAlignment = 64;
    if (t.offset * static_cast<int64_t>(itemsize(t.dtype)) % kAlignment) return nb::none();
    uint8_t same = 0xff;
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] == &t)
        same = static_cast<uint8_t>(i);
      else if (seen[i]->storage == t.storage)
        return nb::none();
    }
    seen.push_back(&t);
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
  return nb::bytes(key.data(), key.size());
}

nb::dict outcome(const Capture& c) {
  const Capture::Outcome& o = c.outcome();
  nb::dict r;
  r["planned"] = o.planned;
  r["dead"] = o.dead;
  r["equal"] = o.equal;
  r["constant"] = o.constant;
  r["pool_bytes"] = o.pool_bytes;
  r["arena_bytes"] = o.arena_bytes;
  r["bound_bytes"] = o.bound_bytes;
  r["held_bytes"] = o.held_bytes;
  nb::list pieces;
  for (const auto& p : o.pieces)
    pieces.append(nb::make_tuple(p.offset, p.bytes, p.first, p.last, p.constant, p.label));
  r["pieces"] = pieces;
  return r;
}

// (name, file and line, fate, programs and kernels in it, seconds) of each launch.
nb::list launches(const Capture& c) {
  static const char* const kFates[] = {"runs", "dead", "equal", "constant"};
  nb::list r;
  for (const auto& l : c.list()) {
    const int parts =
        (l->before.program != nullptr) + (l->kernel != nullptr) + (l->after.program != nullptr);
    r.append(nb::make_tuple(l->name(), c.text_of_place(l->place), kFates[static_cast<int>(l->fate)],
                            parts, l->seconds));
  }
  return r;
}

// Whether an optimizer's group has these parameters, and their states these tensors by these names,
// as objects; then the step that all of them have made, else None.
nb::object same_states(nb::handle state, nb::list now, nb::list params, nb::list states,
                       nb::tuple names, nb::list tensors) {
  const size_t n = params.size();
  const auto get = [](nb::handle dict, nb::handle key) {
    return nb::handle(PyDict_CheckExact(dict.ptr()) ? PyDict_GetItem(dict.ptr(), key.ptr())
                                                    : nullptr);
  };
  if (now.size() != n || !PyDict_Check(state.ptr())) return nb::none();
  nb::handle step;
  static PyObject* const name_of_step = PyUnicode_InternFromString("step");
  for (size_t i = 0; i < n; ++i) {
    const nb::handle p = params[i], s = states[i];
    if (!nb::handle(now[i]).is(p) || PyDict_GetItem(state.ptr(), p.ptr()) != s.ptr())
      return nb::none();
    for (size_t k = 0; k < names.size(); ++k)
      if (!get(s, names[k]).is(tensors[k * n + i])) return nb::none();
    const nb::handle its = get(s, name_of_step);
    if (!its || !PyLong_CheckExact(its.ptr())) return nb::none();
    if (step && !its.is(step) && PyObject_RichCompareBool(its.ptr(), step.ptr(), Py_EQ) != 1)
      return nb::none();
    step = its;
  }
  return step ? nb::borrow(step) : nb::none();
}

// The numbers of the captured launch number k of a cell, which is a step of Adam.
void tell_adam(Capture& c, int cell, size_t k, double lr, double beta1, double beta2, double eps,
               double weight_decay, int64_t step, bool decoupled, bool maximize) {
  constexpr auto at = kernels::numbers<kernels::AdamW>;
  const std::pair<int, Scalar> numbers[] = {{at.lr, lr},
                                            {at.beta1, beta1},
                                            {at.beta2, beta2},
                                            {at.eps, eps},
                                            {at.step, step},
                                            {at.decoupled, decoupled},
                                            {at.maximize, maximize},
                                            {at.weight_decay, weight_decay}};
  for (const auto& [place, value] : numbers) c.tell(cell, k, place, value);
}

}  // namespace

void about_to_set(RandomState s) {
  if (Capture* c = engine::capturing()) c->note_random_state(s);
}

void init_capture(nb::module_& m) {
  nb::class_<Capture>(m, "_Capture")
      .def("open_stage", [](Capture& c, nb::handle inputs) { c.open_stage(tensors_in(inputs)); })
      .def("open_cell", &Capture::open_cell)
      .def("close_cell", &Capture::close_cell)
      .def("feed", &Capture::feed)
      .def("end_feed", &Capture::end_feed)
      .def("cells_differed", &Capture::cells_differed)
      .def("cell_launches", &Capture::cell_launches)
      .def("tell_adam", &tell_adam)
      .def("pause", &Capture::pause)
      .def("resume", &Capture::resume)
      .def("close_stage",
           [](Capture& c, nb::handle outputs) { c.close_stage(tensors_in(outputs)); })
      .def("end", &Capture::end)
      .def("abandon", &Capture::abandon)
      .def("break_off", &Capture::break_off)
      .def("broken", &Capture::broken)
      .def_rw("moves", &Capture::moves)
      .def("read_again", &Capture::read_again)
      .def("leaves",
           [](const Capture& c) {
             nb::list r;
             for (const Capture::Leaf& l : c.leaves())
               r.append(nb::make_tuple(nb::steal(wrap(l.tensor)), l.had));
             return r;
           })
      .def("start",
           [](Capture& c, int stage, nb::handle inputs) { c.start(stage, tensors_in(inputs)); })
      .def("run", &Capture::run)
      .def("results", [](Capture& c, int stage) { return as_list(c.results(stage)); })
      .def("copied_results", [](Capture& c, int stage) { return as_list(c.copied_results(stage)); })
      .def("watch", [](Capture& c, nb::handle list) { c.watch(tensors_in(list)); })
      .def("watched_still_there", &Capture::watched_still_there)
      .def("difference",
           [](const Capture& c, const Capture& trial) {
             const Capture::Difference d = c.difference(trial);
             return nb::make_tuple(d.what, d.numbers);
           })
      .def("slot_of_made",
           [](const Capture& c, nb::handle t) { return c.slot_of_made(tensor_of(t.ptr())); })
      .def("put_in_place", [](Capture& c, int slot,
                              nb::handle t) { return c.put_in_place(slot, tensor_of(t.ptr())); })
      .def("launches", &Capture::launches)
      .def("room_for_trial", &Capture::room_for_trial)
      .def("plan", &Capture::plan)
      .def("outcome", &outcome)
      .def("list", &launches)
      .def("time_launches", &Capture::time_launches)
      .def("pool_bytes", &Capture::pool_bytes)
      .def("graphs", &Capture::graphs)
      // All of a call whose parts have nothing between them.
      .def("replay", [](Capture& c, nb::handle inputs) {
        c.start(0, tensors_in(inputs));
        c.run(0, 0);
        return as_list(c.results(0));
      });
  m.def(
      "_capture_begin",
      [](nb::handle device, nb::handle tried) {
        return Capture::begin(to_usable_device(device.ptr()),
                              tried.is_none() ? nullptr : nb::cast<const Capture*>(tried));
      },
      nb::arg(), nb::arg().none());
  m.def("_capture_signature", &signature);
  m.def("_call_site", &engine::call_site);
  m.def("_set_fast_numerics", &engine::set_fast_numerics);
  m.def("_same_states", &same_states);
  // Whether hooks are to see the gradient of a leaf.
  m.def("_has_hooks", [](nb::handle t) {
    const autograd::Meta* meta = tensor_of(t.ptr())->meta;
    if (!meta) return false;
    if (!meta->hooked.empty()) return true;
    const autograd::Node* a = meta->accumulator.get();
    if (!a) return false;
    const auto& e = a->extras;  // there, too, where Python has seen the node
    return !a->hooks.empty() ||
           (e && !(e->before.empty() && e->after.empty() && e->accumulated.empty()));
  });
  // A number that tensors of one storage have in common while they live.
  m.def("_storage_number",
        [](nb::handle t) { return reinterpret_cast<intptr_t>(tensor_of(t.ptr())->storage.get()); });
  m.def("_capturing", [] {
    const Capture* c = engine::capturing();
    return c && !c->in_cell();
  });
}

}  // namespace pyflame::python
