// Captured steps, as python/pyflame/_compile makes them.
#include "engine/capture.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "common.h"
#include "core/random_aside.h"
#include "engine/autograd.h"
#include "engine/planner.h"
#include "engine/region.h"
#include "region.h"
#include "surroundings.h"

namespace pyflame::python {

namespace {

using engine::Capture;

nb::list as_list(const std::vector<Tensor>& tensors) {
  nb::list r;
  for (const Tensor& t : tensors) r.append(nb::steal(wrap(t)));
  return r;
}

nb::dict outcome(const Capture& c) {
  const Capture::Outcome& o = c.outcome();
  nb::dict r;
  r["planned"] = o.planned;
  r["dead"] = o.dead;
  r["equal"] = o.equal;
  r["constant"] = o.constant;
  r["copied"] = o.copied;
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

}  // namespace

bool has_hooks(const Tensor& leaf) {
  return autograd::has_hooks(leaf);
}

void about_to_set(RandomState s) {
  if (Capture* c = engine::capturing()) c->note_random_state(s);
}

void init_capture(nb::module_& m) {
  init_region(m);
  nb::class_<Capture>(m, "_Capture")
      .def("open_stage", [](Capture& c, nb::handle inputs) { c.open_stage(tensors_in(inputs)); })
      .def("open_cell", &Capture::open_cell)
      .def("close_cell", &Capture::close_cell)
      .def("feed", &Capture::feed)
      .def("end_feed", &Capture::end_feed)
      .def("cells_differed", &Capture::cells_differed)
      .def("cell_launches", &Capture::cell_launches)
      .def("pause", &Capture::pause)
      .def("resume", &Capture::resume)
      .def("close_stage",
           [](Capture& c, nb::handle outputs) { c.close_stage(tensors_in(outputs)); })
      .def("reopen", &Capture::reopen)
      .def("written", [](const Capture& c) { return as_list(c.written()); })
      .def("began",
           [](const Capture& c) {
             RandomTrace drawn;
             drawn.first = c.began();
             return drawn;
           })
      .def("given",
           [](const Capture& c) {
             nb::list r;
             for (const Capture::Given& g : c.given())
               r.append(nb::make_tuple(nb::steal(wrap(g.tensor)), g.version));
             return r;
           })
      .def("written_inputs", &Capture::written_inputs)
      .def("unchanged",
           [](const Capture& c, nb::handle inputs) { return c.unchanged(tensors_in(inputs)); })
      .def("spend",
           [](Capture& c, nb::handle which) {
             std::vector<bool> of;
             for (nb::handle w : which) of.push_back(w.is(nb::handle(Py_True)));
             c.spend(of);
           })
      .def("end", &Capture::end)
      .def("abandon", &Capture::abandon)
      .def("break_off", &Capture::break_off)
      .def("broken", &Capture::broken)
      .def_rw("moves", &Capture::moves)
      .def("read_again", &Capture::read_again)
      .def_ro("passes", &Capture::passes)
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
           [](const Capture& c, const Capture& trial, int stage) {
             const Capture::Difference d = c.difference(trial, stage);
             return nb::make_tuple(d.what, d.numbers);
           })
      .def("slot_of_made",
           [](const Capture& c, nb::handle t) { return c.slot_of_made(tensor_in(t.ptr())); })
      .def("put_in_place", [](Capture& c, int slot,
                              nb::handle t) { return c.put_in_place(slot, tensor_in(t.ptr())); })
      .def("launches", &Capture::launches)
      .def("room_for_trial", &Capture::room_for_trial)
      .def("plan", &Capture::plan)
      .def("outcome", &outcome)
      .def("list", &launches)
      .def("time_launches", &Capture::time_launches)
      .def("pool_bytes", &Capture::pool_bytes)
      .def("graphs", &Capture::graphs);
  m.def(
      "_capture_begin",
      [](nb::handle device, nb::handle tried) {
        return Capture::begin(to_usable_device(device.ptr()),
                              tried.is_none() ? nullptr : nb::cast<const Capture*>(tried));
      },
      nb::arg(), nb::arg().none());
  m.def("_call_site", &engine::call_site);
  m.def("_set_fast_numerics", &engine::set_fast_numerics);
  m.def("_has_hooks", [](nb::handle t) { return has_hooks(tensor_in(t.ptr())); });
  // A number that tensors of one storage have in common while they live.
  m.def("_storage_number",
        [](nb::handle t) { return reinterpret_cast<intptr_t>(tensor_in(t.ptr())->storage.get()); });
  // Tells of writes to it, of what was made for inference, too.
  m.def("_storage_version",
        [](nb::handle t) { return seen_version(*tensor_in(t.ptr())->storage); });
  m.def("_capturing", [] {
    const Capture* c = engine::capturing();
    return c && !c->in_cell();
  });
}

}  // namespace pyflame::python
