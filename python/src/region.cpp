// The tape between the arguments of a captured function and its results.
#include "engine/region.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common.h"
#include "engine/autograd_nodes.h"
#include "engine/capture.h"
#include "region.h"

namespace pyflame::python {

namespace {

using autograd::Edge;
using autograd::Node;

nb::list list_of(const std::vector<bool>& values) {
  nb::list r;
  for (bool v : values) r.append(v);
  return r;
}

// What a call writes of the program's tensors, as it was before: with other values Python's run
// would be another one.
class Kept {
 public:
  // `tensors`, and of `inputs` those of these `numbers`; how often the function writes each.
  Kept(nb::handle tensors, nb::handle inputs, nb::handle numbers, nb::handle writes) {
    const NoGrad no_grad;
    const std::vector<Tensor> in = tensors_in(inputs);
    for (const Tensor& t : tensors_in(tensors)) add(t);
    for (nb::handle n : numbers) add(in.at(nb::cast<size_t>(n)));
    size_t i = 0;
    for (nb::handle n : writes) all_.at(i++).writes = nb::cast<uint32_t>(n);
  }
  void ran() {
    for (One& o : all_) o.version = o.tensor->storage->version;
  }
  // From here until leave() the tensors are what they were, and their versions go as they went:
  // what saves them finds the version that it would have found.
  void put_back() {
    const NoGrad no_grad;
    for (One& o : all_) {
      o.now = o.tensor->storage->version;
      if (o.now != o.version) o.others = clone(o.tensor);
      copy_(o.tensor, o.before);
      o.tensor->storage->version = o.version - o.writes;
    }
  }
  void leave() {
    const NoGrad no_grad;
    for (One& o : all_) {
      if (o.others.defined()) copy_(o.tensor, o.others);
      o.tensor->storage->version = o.now;
    }
  }

 private:
  struct One {
    Tensor tensor, before, others;
    uint32_t version = 0, now = 0, writes = 0;
  };
  std::vector<One> all_;
  void add(const Tensor& t) { all_.push_back({t.detach(), clone(t.detach()), {}}); }
};

// engine::Watch for calls that Python knows by weak references.
class RunWatch {
 public:
  explicit RunWatch(std::shared_ptr<engine::Capture> capture)
      : watch_(std::move(capture), [this] { tell(); }) {}
  // Gives record numbers for the tape that may be made later.
  uint64_t begin(nb::handle inputs, nb::object run) {
    run_ = std::move(run);
    watch_.begin(tensors_in(inputs));
    return autograd::reserve_numbers();
  }
  void end() { watch_.end(); }

 private:
  void tell() {
    WithGil gil;
    try {
      const nb::object run = run_();
      if (!run.is_none()) run.attr("about_to_change")();
    } catch (nb::python_error& e) {
      e.restore();
      throw_python_error();
    }
  }
  nb::object run_;
  engine::Watch watch_;
};

// Whether a pass that does not keep the tape takes something from a node.
bool saves(const Node& n) {
  struct Looking final : autograd::Owned {
    const Node& of;
    bool found = false;
    explicit Looking(const Node& n) : of(n) {}
    void node(const Ref<Node>& other) override {  // what a node is made of, and not before it
      const bool before = std::any_of(of.next.begin(), of.next.end(),
                                      [&](const Edge& e) { return e.node.get() == other.get(); });
      if (other && !before && !found) found = saves(*other);
    }
    void tensor(const Tensor& t) override { found |= t.defined(); }
    void packed(const Ref<autograd::Packed>&) override { found = true; }
  } look(n);
  n.each_owned(look);
  return look.found;
}

// Whether a pass has come by, and another raises: it freed what that would need. A cast, which
// autocast keeps for whoever comes next, has nothing to free.
bool is_used_up(const Node& n) {
  if (!n.released) return false;
  if (const auto* f = dynamic_cast<const autograd::FunctionNode*>(&n)) return f->count() > 0;
  return std::string_view(n.name) != "cast";
}

bool heard(const Node& n) {
  const auto& e = n.extras;
  return !n.hooks.empty() || (e && !(e->before.empty() && e->after.empty()));
}

// What stands between `inputs` and `outputs`, which want gradients.
struct Region {
  std::string reason;         // why its gradients cannot be made without Python; "" where they can
  std::vector<bool> reached;  // inputs
  bool gone = true;  // of each output there was a pass already, which has used what it needs
};

// Where gradients of tensors arrive, as it is when this is made: what is written to later has
// others.
struct Edges {
  std::vector<Edge> list;
  explicit Edges(const std::vector<Tensor>& tensors) {
    for (const Tensor& t : tensors) list.push_back(autograd::edge_of(t));
  }
};

struct Ends {
  std::unordered_map<const Node*, std::unordered_set<uint32_t>> of;
  explicit Ends(const std::vector<Edge>& inputs) {
    for (const Edge& e : inputs) of[e.node.get()].insert(e.input);
  }
  bool at(const Edge& e) const { return of.count(e.node.get()) != 0; }
  bool is(const Edge& e) const { return of.at(e.node.get()).count(e.input) != 0; }
};

// Each edge that a pass from `from` takes, `each` of the nodes once; it says whether to go on
// there.
template <class F>
void walk(const Edge& from, std::unordered_set<const Node*>& seen, F each) {
  std::vector<Edge> waiting{from};
  while (!waiting.empty()) {
    const Edge e = waiting.back();
    waiting.pop_back();
    if (e.node && each(e) && seen.insert(e.node.get()).second)
      waiting.insert(waiting.end(), e.node->next.begin(), e.node->next.end());
  }
}

Region look_at(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) {
  const Edges edges(inputs);
  const Ends ends(edges.list);
  Region r;
  std::unordered_map<const Node*, std::unordered_set<uint32_t>> came;
  const auto because = [&](const char* why) {
    if (r.reason.empty()) r.reason = why;
  };
  for (const Tensor& o : outputs) {
    bool released = false;
    if (!autograd::grad_fn(o)) because("a result that is a leaf and wants a gradient");
    std::unordered_set<const Node*> seen;
    walk(autograd::edge_of(o), seen, [&](const Edge& e) {
      const Node& n = *e.node;
      const bool end = ends.at(e);
      if (end ? !ends.is(e) : n.sequence == 0)
        because("a gradient of a tensor that the step does not show");
      if (end) came[&n].insert(e.input);
      if (end || seen.count(&n)) return false;
      if (n.released) because("gradients of a result of which it makes some itself");
      if (heard(n)) because("hooks of tensors that it makes, which Python has to call");
      released |= is_used_up(n);
      return true;
    });
    r.gone &= released;
  }
  for (const Edge& e : edges.list) {
    const auto at = came.find(e.node.get());
    r.reached.push_back(at != came.end() && at->second.count(e.input));
  }
  return r;
}

// Whether, behind a pass from those of the outputs that `asked` says, which does not keep the tape,
// one from some output needs nothing of what that has used.
bool leaves_some(const std::vector<Tensor>& outputs, const Edges& inputs,
                 const std::vector<bool>& asked) {
  const Ends ends(inputs.list);
  std::unordered_set<const Node*> used;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (asked[i])
      walk(autograd::edge_of(outputs[i]), used, [&](const Edge& e) { return !ends.at(e); });
  for (const Tensor& o : outputs) {
    bool needs = false;
    std::unordered_set<const Node*> seen;
    walk(autograd::edge_of(o), seen, [&](const Edge& e) {
      if (ends.at(e)) return false;
      needs |= used.count(e.node.get()) && saves(*e.node);
      return !needs;
    });
    if (!needs) return true;
  }
  return false;
}

// As a pass from these would have left the tape that does not keep it.
void release(const std::vector<Tensor>& outputs, const Edges& inputs) {
  const Ends ends(inputs.list);
  std::unordered_set<const Node*> seen;
  for (const Tensor& o : outputs)
    walk(autograd::edge_of(o), seen, [&](const Edge& e) {
      if (ends.at(e)) return false;
      e.node->released = true;
      e.node->release();
      return true;
    });
}

// Gives the nodes the reserved numbers from `first` on, in their order: passes go by it.
void renumber(const std::vector<Tensor>& outputs, const Edges& inputs, uint64_t first) {
  const Ends ends(inputs.list);
  std::unordered_set<const Node*> seen;
  std::vector<Node*> nodes;
  for (const Tensor& o : outputs)
    walk(autograd::edge_of(o), seen, [&](const Edge& e) {
      if (ends.at(e)) return false;
      if (!seen.count(e.node.get())) nodes.push_back(e.node.get());
      return true;
    });
  if (nodes.size() >= autograd::kReserved) return;
  std::sort(nodes.begin(), nodes.end(),
            [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  uint64_t before = 0, number = first;
  for (Node* n : nodes) {
    if (n->sequence != before) number += 2;
    before = n->sequence;
    n->sequence = number;
  }
}

}  // namespace

void init_region(nb::module_& m) {
  m.def("_look_at_region", [](nb::handle outputs, nb::handle inputs) {
    const Region r = look_at(tensors_in(outputs), tensors_in(inputs));
    return nb::make_tuple(r.reason, list_of(r.reached), r.gone);
  });
  nb::class_<Edges>(m, "_Edges").def("__init__", [](Edges* self, nb::handle tensors) {
    new (self) Edges(tensors_in(tensors));
  });
  m.def("_region_gradients", [](nb::handle outputs, const Edges& inputs, nb::handle gradients) {
    return nb::steal(wrap_tuple(
        autograd::region_gradients(tensors_in(outputs), inputs.list, tensors_in(gradients))));
  });
  m.def("_release_region",
        [](nb::handle outputs, const Edges& inputs) { release(tensors_in(outputs), inputs); });
  m.def("_renumber_region", [](nb::handle outputs, const Edges& inputs, uint64_t first) {
    renumber(tensors_in(outputs), inputs, first);
  });
  nb::class_<RunWatch>(m, "_RunWatch")
      .def(nb::init<std::shared_ptr<engine::Capture>>())
      .def("begin", &RunWatch::begin)
      .def("end", &RunWatch::end);
  // Hooks of saved tensors, too: what runs until then was not called among them.
  m.def("_set_levels_aside", [] {
    autograd::push_pack(nullptr);
    return reinterpret_cast<uintptr_t>(engine::set_levels_aside());
  });
  m.def("_put_levels_back", [](uintptr_t levels) {
    engine::put_levels_back(reinterpret_cast<void*>(levels));
    autograd::pop_pack();
  });
  m.def("_leaves_some", [](nb::handle outputs, const Edges& inputs, nb::handle asked) {
    std::vector<bool> of;
    for (nb::handle a : asked) of.push_back(a.is(nb::handle(Py_True)));
    return leaves_some(tensors_in(outputs), inputs, of);
  });
  m.def("_pass_is_plain", &autograd::pass_is_plain);
  m.def("_pass_asks", [](const Edges& edges) { return list_of(autograd::pass_asks(edges.list)); });
  m.def("_go_on", [](nb::handle outputs, nb::handle gradients) {
    const auto of = tensors_in(outputs), given = tensors_in(gradients);
    PF_CHECK(of.size() == given.size(), ValueError, "backward", "got ", given.size(),
             " gradients for ", of.size(), " tensors; give one for each");
    autograd::go_on(of, given);
  });
  nb::class_<Kept>(m, "_Kept")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle>())
      .def("ran", &Kept::ran)
      .def("put_back", &Kept::put_back)
      .def("leave", &Kept::leave);
}

}  // namespace pyflame::python
