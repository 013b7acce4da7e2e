// The tape between the arguments of a captured function and its results.
#include "engine/region.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common.h"
#include "region.h"

namespace pyflame::python {

namespace {

using autograd::Edge;
using autograd::Node;

std::vector<Tensor> tensors_in(nb::handle list) {
  std::vector<Tensor> r;
  for (nb::handle h : list) r.push_back(tensor_of(h.ptr()));
  return r;
}

// Whether a pass that does not keep the tape takes something from a node.
bool saves(const Node& n) {
  struct Looking final : autograd::Owned {
    const Node& of;
    bool found = false;
    explicit Looking(const Node& n) : of(n) {}
    void node(const Ref<Node>& other) override {  // what a node is made of, and not before it
      const bool before = std::any_of(of.next.begin(), of.next.end(),
                                      [&](const Edge& e) { return e.node.get() == other.get(); });
      if (other && !before) found |= saves(*other);
    }
    void tensor(const Tensor& t) override { found |= t.defined(); }
    void packed(const Ref<autograd::Packed>&) override { found = true; }
  } look(n);
  n.each_owned(look);
  return look.found;
}

bool heard(const Node& n) {
  const auto& e = n.extras;
  return !n.hooks.empty() || (e && !(e->before.empty() && e->after.empty()));
}

// What stands between `inputs` and `outputs`, which want gradients.
struct Region {
  std::string reason;  // why its gradients cannot be made without Python; "" where they can
  bool free = false;   // of some output a second pass needs nothing of what the first has used
  bool gone = true;    // of each output there was a pass already, which has used what it needs
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
  const Ends ends(Edges(inputs).list);
  Region r;
  const auto because = [&](const char* why) {
    if (r.reason.empty()) r.reason = why;
  };
  for (const Tensor& o : outputs) {
    bool saved = false, released = false;
    if (!autograd::grad_fn(o)) because("a result that is a leaf and wants a gradient");
    std::unordered_set<const Node*> seen;
    walk(autograd::edge_of(o), seen, [&](const Edge& e) {
      const Node& n = *e.node;
      const bool end = ends.at(e);
      if (end ? !ends.is(e) : n.sequence == 0)
        because("a gradient of a tensor that the step does not show");
      if (end || seen.count(&n)) return false;
      if (n.released) because("gradients of a result of which it makes some itself");
      if (heard(n)) because("hooks of tensors that it makes, which Python has to call");
      released |= n.released;
      saved |= saves(n);
      return true;
    });
    r.free |= !saved;
    r.gone &= released;
  }
  return r;
}

// As a pass from these would have left the tape that does not keep it.
void release(const std::vector<Tensor>& outputs, const Edges& inputs) {
  const Ends ends(inputs.list);
  std::unordered_set<const Node*> seen;
  for (const Tensor& o : outputs)
    walk(autograd::edge_of(o), seen, [&](const Edge& e) {
      if (ends.at(e)) return false;
      e.node->release();
      e.node->released = true;
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
    return nb::make_tuple(r.reason, r.free, r.gone);
  });
  nb::class_<Edges>(m, "_Edges").def("__init__", [](Edges* self, nb::handle tensors) {
    new (self) Edges(tensors_in(tensors));
  });
  m.def("_region_gradients", [](nb::handle outputs, const Edges& inputs, nb::handle gradients,
                                bool retain_graph, bool create_graph) {
    return nb::steal(wrap_tuple(autograd::region_gradients(
        tensors_in(outputs), inputs.list, tensors_in(gradients), retain_graph, create_graph)));
  });
  m.def("_release_region",
        [](nb::handle outputs, const Edges& inputs) { release(tensors_in(outputs), inputs); });
  m.def("_reserve_numbers", &autograd::reserve_numbers);
  m.def("_renumber_region", [](nb::handle outputs, const Edges& inputs, uint64_t first) {
    renumber(tensors_in(outputs), inputs, first);
  });
  m.def("_set_levels_aside",
        [] { return reinterpret_cast<uintptr_t>(engine::set_levels_aside()); });
  m.def("_put_levels_back",
        [](uintptr_t levels) { engine::put_levels_back(reinterpret_cast<void*>(levels)); });
  m.def("_pass_retains", &autograd::pass_retains);
}

}  // namespace pyflame::python
