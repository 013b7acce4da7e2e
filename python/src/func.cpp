// What python/pyflame/func stands on: levels of vmap, hidden dimensions, inputs of transforms.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "common.h"
#include "engine/autograd.h"
#include "engine/hidden.h"
#include "ops/hidden.h"

namespace pyflame::python {

namespace {

using autograd::Edge;
using autograd::Grads;

// Where a transform begins: what flows into it flows on to what was given.
struct Enter final : autograd::Node {
  bool open = true;  // the transform still runs
  Enter() : Node("func_input") {}
  Grads apply(const Grads& grads) override { return grads; }
};

// The tensor's values as a variable of its own, of which gradients can be asked.
Tensor enter(const Tensor& t) {
  PF_CHECK(has_gradient(t->dtype), DTypeError, "func", "got a ", t->dtype,
           " tensor to differentiate by; only floating point and complex tensors have gradients");
  Tensor r = t.detach();
  const EnableGrad on;
  autograd::attach(Ref<autograd::Node>::adopt(new Enter), {&r, 1}, {&t, 1});
  return r;
}

// Whether the transform still runs: when it has ended nobody will ask for gradients by these but
// it.
void set_open(const std::vector<Tensor>& entered, bool open) {
  for (const Tensor& t : entered)
    if (auto* e = t->meta ? dynamic_cast<Enter*>(t->meta->grad_fn.get()) : nullptr) e->open = open;
}

// Whether somebody may ask for gradients of these: they come from leaves that require grad, or from
// inputs of a transform that still runs.
bool depends_on(const std::vector<Tensor>& tensors) {
  std::vector<autograd::Node*> stack;
  std::unordered_set<autograd::Node*> seen;
  auto visit = [&](const Ref<autograd::Node>& n) {
    if (n && seen.insert(n.get()).second) stack.push_back(n.get());
  };
  for (const Tensor& t : tensors)
    if (t.defined()) visit(autograd::edge_of(t).node);
  while (!stack.empty()) {
    autograd::Node* n = stack.back();
    stack.pop_back();
    if (n->sequence == 0) return true;  // a leaf
    if (const auto* e = dynamic_cast<Enter*>(n); e && e->open) return true;
    for (const Edge& e : n->next) visit(e.node);
  }
  return false;
}

engine::Randomness randomness_of(const std::string& name) {
  if (name == "error") return engine::Randomness::Error;
  if (name == "same") return engine::Randomness::Same;
  if (name == "different") return engine::Randomness::Different;
  PF_FAIL(ValueError, "vmap", "got randomness '", name,
          "'; expected 'error', 'same' or 'different'");
}

}  // namespace

void init_func(nb::module_& m) {
  m.def("_vmap_begin", [](int64_t size, const std::string& randomness) {
    return engine::begin_level(size, randomness_of(randomness));
  });
  m.def("_vmap_end", &engine::end_level);
  m.def("_vmap_randomness", [](uint32_t level) {
    static constexpr const char* kNames[] = {"error", "same", "different"};
    return kNames[static_cast<int>(engine::randomness_at(level))];
  });
  m.def("_vmap_active", [] {
    nb::list r;
    for (const engine::Level& l : engine::active_levels()) r.append(nb::make_tuple(l.id, l.size));
    return r;
  });
  m.def("_hide",
        [](const Tensor& t, int64_t dim, uint32_t level) { return ops::hide(t, dim, level); });
  m.def("_show", [](const Tensor& t, int64_t dim, uint32_t level, int64_t size) {
    return ops::show(t, dim, {level, size});
  });
  m.def("_hidden_levels", [](const Tensor& t) {
    nb::list r;
    engine::Levels levels;
    levels.add(t);
    for (const engine::Level& l : levels) r.append(nb::make_tuple(l.id, l.size));
    return r;
  });
  m.def("_func_enter", &enter);
  m.def("_func_leave", [](const std::vector<Tensor>& t) { set_open(t, false); });
  m.def("_func_resume", [](const std::vector<Tensor>& t) { set_open(t, true); });
  m.def("_func_depends", &depends_on);
}

}  // namespace pyflame::python
