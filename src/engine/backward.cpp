// The backward pass: iterative, on the calling thread, highest record number first. An edge always
// leads to a node that was recorded earlier, so a node is complete when its turn comes.
#include <algorithm>
#include <atomic>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/sparse.h"
#include "engine/autocast_switch.h"
#include "engine/autograd_nodes.h"
#include "engine/capture.h"
#include "engine/hidden.h"
#include "engine/placement.h"
#include "engine/region.h"
#include "engine/upcalls.h"
#include "table/rows.h"

namespace pyflame {

using autograd::Accumulate;
using autograd::Edge;
using autograd::FunctionNode;
using autograd::Gate;
using autograd::Grads;
using autograd::Node;
using autograd::Place;

namespace {

// Whether somebody is to hear of what comes to a node, or a vmap: more than Python having seen it.
bool is_heard(const Node& n) {
  const auto& e = n.extras;
  return e &&
         !(e->before.empty() && e->after.empty() && e->accumulated.empty() && e->levels.empty());
}

struct Waiting {
  Ref<Node> node;
  Grads grads;
  Ref<Node> gate;  // that the only gradient has passed as if it were open
};

// Bytes of a gradient that is added to others before the pass ends, though that may be a launch of
// its own between what would have been one.
constexpr size_t kAtOnce = size_t{256} << 10;

bool is_cast(const Node& n) {
  return std::string_view(n.name) == table::kRowTable[table::op::cast].name && n.next.size() == 1;
}

class Pass;
thread_local Pass* t_pass = nullptr;  // the innermost that runs
std::atomic<uint64_t> g_passes{0};

class Pass {
 public:
  Pass(bool retain_graph, bool create_graph)
      : retain_graph_(retain_graph || create_graph), mode_(create_graph) {}

  void seed(const Place& p, const Tensor& gradient) {
    if (!p.tensor.defined()) {
      PF_CHECK(gradient.defined(), AutogradError, "backward",
               "got no gradient for a GradientEdge; expected one in grad_outputs: its tensor, "
               "whose shape it has, is not known");
      device_ = gradient->storage->device;
      roots_.push_back(p.edge);
      deliver(p.edge, gradient);
      return;
    }
    const Tensor& t = p.tensor;
    PF_CHECK(autograd::requires_grad(t), AutogradError, "backward",
             "the tensor does not require grad and has no history; call requires_grad_() on what "
             "it is computed from, outside of no_grad()");
    Tensor g = gradient;
    if (!g.defined()) {
      PF_CHECK(
          info(t->dtype).kind != Kind::Complex, AutogradError, "backward", "got a result of ",
          t->dtype,
          "; a gradient is made by itself only for a real number: take .real or .abs(), or pass "
          "the gradient");
      PF_CHECK(t->numel == 1, AutogradError, "backward", "got a tensor of shape ", t->shape,
               "; a gradient is made by itself only for one element: reduce it (for example with "
               ".sum()) or pass gradient=");
      const DeviceScope there(t->storage->device);
      g = operations::constant(t->shape, t->dtype, t->device(), 1);
    }
    PF_CHECK(g->shape == t->shape, ShapeError, "backward", "got a gradient of shape ", g->shape,
             " for a tensor of shape ", t->shape, "; they must be equal");
    engine::check_source(*t.impl(), *g.impl(), "backward");
    g = engine::bring_home(g, t->device());
    device_ = t->storage->device;
    const DeviceScope there(device_);
    if (g->dtype != t->dtype) g = operations::convert(g, t->dtype);
    roots_.push_back(autograd::edge_of(t));
    deliver(roots_.back(), std::move(g));
  }

  // Capture the gradient that flows into this edge instead of walking on to a leaf.
  void capture(const Edge& e, Tensor* into) { captures_[e.node.get()].push_back({e.input, into}); }

  // A part of the pass that this thread is in, which ends at these edges: no node there runs, and
  // no hook of it is called. What comes to those that the pass asks for is captured.
  void end_at(std::span<const Edge> edges, std::span<Tensor> into) {
    region_ = true;
    part_of_restricted_ = t_pass && t_pass->restricted();
    for (size_t i = 0; i < edges.size(); ++i) {
      Node* const n = edges[i].node.get();
      ends_.insert(n);
      if (!t_pass || t_pass->asks(n)) capture(edges[i], &into[i]);
    }
  }

  // With captures: only nodes that lead to one of them run.
  void restrict_to_captures() {
    restricted_ = true;
    find_leads(roots_);
  }

  // Takes these gradients in place of what the node that runs makes of its own: the tape goes on
  // there.
  void go_on(std::span<const Tensor> outputs, std::span<const Tensor> gradients) {
    std::vector<Edge> edges;
    for (const Tensor& t : outputs) edges.push_back(autograd::edge_of(t));
    reached_.clear();
    if (restricted_) find_leads(edges);
    for (size_t i = 0; i < edges.size(); ++i) deliver(edges[i], gradients[i]);
  }

  uint64_t number() const { return number_; }
  bool restricted() const { return region_ ? part_of_restricted_ : restricted_; }
  bool retains() const { return retain_graph_; }
  // False where it is known that `n` leads to nothing that is asked for.
  bool asks(Node* n) const { return !idle_.count(n); }
  const engine::Levels& active() const { return active_; }
  void at_end(std::function<void()> fn) { at_end_.push_back(std::move(fn)); }

  // Whether a gradient comes to a node, as far as edges tell.
  bool reaches(Node* n) {
    if (reached_.empty())
      for (Node* r : walk(roots_, [this](Node& x) { return !restricted_ || leads_.count(&x); }))
        if (asks(r)) reached_.insert(r);
    return reached_.count(n) != 0;
  }

  // Has what is to come to an edge added to what has come there so far, where that may be written.
  bool add_at(const Edge& e, Device device, const std::function<bool(const Tensor&)>& add) {
    if (mode_ || !e.node) return false;
    const auto it = waiting_.find(e.node.get());
    if (it == waiting_.end()) {
      Accumulate* const end = open_end(*e.node);
      return end && !is_heard(*end) && end->add_by(device, add);
    }
    if (it->second.gate || e.input >= it->second.grads.size()) return false;
    const Tensor& t = it->second.grads[e.input];
    const bool ours = t.defined() && !sparse_parts(t) && t->contiguous && t->refs.load() == 1 &&
                      t->storage->handles.load() == 1 && !t->storage->foreign &&
                      !t->storage->readonly;
    return ours && add(t);
  }

  // See autograd::give.
  void give(const Node& n, size_t i, Tensor& g) {
    if (is_heard(n) || !n.needs(i) || !g.defined() || sparse_parts(g) || detect_anomaly()) return;
    const Edge* e = &n.next[i];
    // The gradient of a cast is a cast: of what is made in the leaf's dtype there is nothing to do.
    const Node& to = *e->node;
    const bool through = is_cast(to) && to.next[0].node && to.hooks.empty() && !is_heard(to) &&
                         !captures_.count(e->node.get());
    if (through) {
      auto* end = dynamic_cast<Accumulate*>(to.next[0].node.get());
      const Tensor leaf = end ? end->leaf() : Tensor();
      if (!leaf.defined() || leaf->dtype != g->dtype) return;
      e = &to.next[0];
    }
    arrives(*e, g, through);
  }

  void run() {
    const amp::Off forward_dtypes;              // gradients have the dtypes of what they belong to
    const DeviceScope forward_device(device_);  // and what floats runs where it ran
    const Running running(this);
    while (!heap_.empty()) {
      Node* key = heap_.top().node;
      heap_.pop();
      auto it = waiting_.find(key);
      Waiting w = std::move(it->second);
      waiting_.erase(it);
      step(w);
    }
    for (size_t i = 0; i < at_end_.size(); ++i) at_end_[i]();
  }

 private:
  struct Running {
    Pass* before;
    explicit Running(Pass* p) : before(std::exchange(t_pass, p)) {}
    ~Running() { t_pass = before; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
  };

  void find_leads(const std::vector<Edge>& from) {
    std::vector<Node*> order =
        walk(from, [this](Node& n) { return !ends_.count(&n) && !leads_.count(&n); });
    std::sort(order.begin(), order.end(),
              [](Node* a, Node* b) { return a->sequence < b->sequence; });
    for (Node* n : order) {
      bool leads = false;
      for (const Edge& e : n->next)
        leads |= e.node && (leads_.count(e.node.get()) || captures_.count(e.node.get()));
      if (leads && !ends_.count(n))
        leads_.insert(n);
      else if (!captures_.count(n))
        idle_.insert(n);
    }
  }

  // All nodes on the way from these; beyond one only where `passes` says so.
  template <class F>
  std::vector<Node*> walk(const std::vector<Edge>& from, F&& passes) const {
    std::vector<Node*> order, stack;
    std::unordered_set<Node*> seen;
    for (const Edge& e : from)
      if (e.node && seen.insert(e.node.get()).second) stack.push_back(e.node.get());
    while (!stack.empty()) {
      Node* n = stack.back();
      stack.pop_back();
      order.push_back(n);
      if (!passes(*n)) continue;
      for (const Edge& e : n->next)
        if (e.node && seen.insert(e.node.get()).second) stack.push_back(e.node.get());
    }
    return order;
  }

  // The sum over samples of vmaps that have ended, where the gradient's tensor was the same for
  // all.
  Tensor of_its_levels(Node& n, Tensor g) const {
    engine::Levels levels, own;
    levels.add(g);
    if (auto* a = dynamic_cast<Accumulate*>(&n))
      if (const Tensor leaf = a->leaf(); leaf.defined()) own.add(leaf);
    const GradMode mode(mode_);
    for (const engine::Level& l : levels.without(active_).without(own)) {
      const auto* kept = n.extras ? &n.extras->levels : nullptr;
      if (!kept || std::find(kept->begin(), kept->end(), l.id) == kept->end())
        g = operations::sum_level(g, l.id, l.size);
    }
    return g;
  }

  // The end of a path that may have gradients before its turn, which is the last: no hook wants to
  // see their sum. Null: it is none, or has to wait.
  Accumulate* open_end(Node& n) const {
    if (n.sequence != 0 || mode_ || restricted_ || t_pass != this || !n.hooks.empty())
      return nullptr;
    if (n.extras && (!n.extras->before.empty() || !n.extras->after.empty())) return nullptr;
    auto* end = dynamic_cast<Accumulate*>(&n);
    if (hiding() && end && engine::among_samples(end->leaf())) [[unlikely]]
      return nullptr;
    return end;
  }

  // Adds to a leaf's .grad at once what would only lie there until the pass ends. `parts`: more may
  // come by this edge. Which gradients these are must not depend on what is pending, for sums are
  // added up in the order in which they come.
  bool arrives(const Edge& e, Tensor& g, bool parts) {
    Accumulate* const end = open_end(*e.node);
    if (!end || waiting_.count(end) || engine::is_hidden(g)) return false;
    // It is its leaf's, and of that by which this comes: nothing else will.
    const bool all = !parts && end->refs.load() == 2;
    const Accumulate::Sum sum = end->sum(g->storage->device);
    const bool fits =
        sum == Accumulate::Sum::Ours ? !sparse_parts(g) : all && sum == Accumulate::Sum::None;
    // Who waits for the sum is told once.
    if (!fits || (!all && is_heard(*end))) return false;
    Grads only(1);  // nobody else has it
    only[0] = std::move(g);
    end->apply(only);
    if (end->extras) autograd::run_accumulated(*end, end->leaf());
    return true;
  }

  void deliver(const Edge& e, Tensor g) {
    if (!e.node || !g.defined()) return;
    if (hiding()) [[unlikely]]
      g = of_its_levels(*e.node, std::move(g));
    if (e.node->sequence == 0 && nbytes(g->dtype, g->numel) >= kAtOnce && arrives(e, g, false))
      return;
    auto [it, fresh] = waiting_.try_emplace(e.node.get());
    Waiting& w = it->second;
    if (fresh) {
      w.node = e.node;
      w.grads.resize(e.node->outputs);
      heap_.push({e.node->sequence, arrived_++, e.node.get()});
    }
    if (w.grads.size() <= e.input) w.grads.resize(e.input + 1);
    GradMode mode(mode_);
    close_gate(w);
    Tensor& slot = w.grads[e.input];
    slot = slot.defined() ? operations::add(slot, g) : std::move(g);
  }

  // The node that the gradient of this gate may go to as it is; null: it has to be applied. Nobody
  // else gives that node a gradient before its turn comes, or close_gate() is called.
  FunctionNode* behind_gate(const Node& n, const Grads& grads) const {
    if (n.next.size() != 1 || grads.size() != 1 || !grads[0].defined()) return nullptr;
    auto* to = dynamic_cast<FunctionNode*>(n.next[0].node.get());
    if (!to || !to->takes_gate || mode_ || is_heard(n) || !to->hooks.empty() || is_heard(*to) ||
        waiting_.count(to) || captures_.count(to) || (restricted_ && !leads_.count(to)) ||
        sparse_parts(grads[0]) || engine::among_samples(grads[0]) || detect_anomaly() ||
        !to->takes_gate(grads[0]))
      return nullptr;
    const auto* gate = dynamic_cast<const Gate*>(&n);
    return gate && gate->is_gate() ? to : nullptr;
  }
  void finish(Node& n) const {
    if (retain_graph_) return;
    n.released = true;  // at once: what goes away may call Python, which may come here again
    n.release();
  }
  // What has passed a gate as if it were open is made what it should be.
  void close_gate(Waiting& w) const {
    if (!w.gate) return;
    const Ref<Node> gate = std::move(w.gate);
    w.gate = {};
    w.grads = gate->apply(w.grads);
    finish(*gate);
  }

  void step(Waiting& w) {
    Node& n = *w.node;
    GradMode mode(mode_);
    if (w.gate && (!n.hooks.empty() || is_heard(n))) close_gate(w);  // a hook has put them there
    if (several_devices()) [[unlikely]]
      bring_home(n, w);
    auto captured = captures_.find(&n);
    const bool ends = ends_.count(&n) != 0;
    if (!n.hooks.empty() && !ends) run_hooks(n, w);
    if (captured != captures_.end())
      for (auto& [input, into] : captured->second)
        if (input < w.grads.size()) *into = w.grads[input];
    if (ends || (restricted_ && !leads_.count(&n))) return;
    auto* accumulator = dynamic_cast<Accumulate*>(&n);
    if (!accumulator)
      for (Tensor& g : w.grads)  // what nodes calculate with is dense
        if (g.defined() && sparse_parts(g)) [[unlikely]]
          g = operations::dense(g);
    if (n.extras) run_before(n, w.grads);
    if (FunctionNode* to = behind_gate(n, w.grads)) {
      deliver(n.next[0], std::move(w.grads[0]));
      waiting_.find(to)->second.gate = w.node;
      return;
    }
    auto* gated = w.gate ? static_cast<FunctionNode*>(&n) : nullptr;
    if (gated) gated->gated = true;
    Grads out = n.apply(w.grads);
    if (gated) {
      gated->gated = false;
      finish(*w.gate);
    }
    if (n.overwrites && w.grads[0].defined()) {
      if (out.empty()) out.resize(1);
      out[0] = operations::zeros_like(w.grads[0]);
    }
    if (n.extras) {
      const auto hooks = n.extras->after;  // a copy: one may remove itself
      for (const auto& [id, hook] : hooks) hook(out, w.grads);
    }
    w.grads.clear();
    if (detect_anomaly()) check_finite(n, out);
    if (accumulator) {
      if (n.extras) autograd::run_accumulated(n, accumulator->leaf());
    } else {
      finish(n);
    }
    for (size_t i = 0; i < n.next.size() && i < out.size(); ++i)
      if (n.needs(i)) deliver(n.next[i], std::move(out[i]));
  }

  // What is placed takes its gradient where it is, and so does a leaf. Other nodes run where the
  // gradient is: their tensors float.
  static void bring_home(Node& n, Waiting& w) {
    if (n.sequence == 0) {
      const Tensor leaf = static_cast<Accumulate&>(n).leaf();
      if (!leaf.defined()) return;  // nobody can read its gradient
      n.home = leaf->device();
    } else if (n.home.floating) {
      return;
    }
    for (Tensor& g : w.grads)
      if (g.defined()) g = engine::bring_home(g, n.home);
  }

  // What retain_grad() keeps is what the other hooks made of the gradient.
  void run_hooks(Node& n, Waiting& w) {
    for (bool last : {false, true})
      for (size_t i = 0; i < n.hooks.size(); ++i)
        if ((n.hooks[i].id == 0) == last) run_hook(n, n.hooks[i], w);
  }
  static void run_hook(const Node& n, Node::Hook hook,
                       Waiting& w) {  // a copy: it may remove itself
    if (hook.output >= w.grads.size() || !w.grads[hook.output].defined()) return;
    const Tensor& old = w.grads[hook.output];
    Tensor r = hook.fn(old);
    if (!r.defined()) return;
    PF_CHECK(r->shape == old->shape, ShapeError, "register_hook", "a hook of ", n.name,
             " returned shape ", r->shape, "; expected ", old->shape);
    PF_CHECK(r->dtype == old->dtype, DTypeError, "register_hook", "a hook of ", n.name,
             " returned ", r->dtype, "; expected ", old->dtype);
    engine::check_source(*old.impl(), *r.impl(), "register_hook");
    w.grads[hook.output] = engine::bring_home(r, old->device());
  }

  static void run_before(const Node& n, Grads& grads) {
    const auto hooks = n.extras->before;
    for (const auto& [id, hook] : hooks) hook(grads);
  }

  static void check_finite(const Node& n, const Grads& out) {
    NoGrad no_grad;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!out[i].defined() || !has_gradient(out[i]->dtype)) continue;
      PF_CHECK(!operations::has_nan(out[i]), AutogradError, "backward", "the gradient of ", n.name,
               " with respect to its input ", i, " (shape ", out[i]->shape,
               ") holds NaN; look at the values that went into this operation");
    }
  }

  const uint64_t number_ = ++g_passes;
  bool retain_graph_, mode_, restricted_ = false;
  bool region_ = false, part_of_restricted_ = false;  // see end_at
  std::unordered_set<const Node*> ends_;
  std::vector<Edge> roots_;
  std::unordered_set<Node*> reached_;  // made when it is first asked for
  std::vector<std::function<void()>> at_end_;
  const engine::Levels active_ = hiding() ? engine::active_levels() : engine::Levels();
  Device device_;
  std::unordered_map<Node*, Waiting> waiting_;
  // Renewed views of one base have one number: the first to get a gradient goes first, so that sums
  // do not depend on addresses.
  struct Turn {
    uint64_t sequence, arrived;
    Node* node;
    bool operator<(const Turn& o) const {
      return sequence != o.sequence ? sequence < o.sequence : arrived > o.arrived;
    }
  };
  std::priority_queue<Turn> heap_;
  uint64_t arrived_ = 0;
  std::unordered_map<Node*, std::vector<std::pair<uint32_t, Tensor*>>> captures_;
  std::unordered_set<Node*> leads_, idle_;  // of what was walked: to captures, to none
};

void check_gradients(size_t tensors, std::span<const Tensor> gradients) {
  PF_CHECK(gradients.empty() || gradients.size() == tensors, ValueError, "backward", "got ",
           gradients.size(), " gradients for ", tensors, " tensors; give one for each");
}

Edge edge_of(const Place& p) {
  return p.tensor.defined() ? autograd::edge_of(p.tensor) : p.edge;
}

std::vector<Place> places(std::span<const Tensor> tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace

std::vector<Tensor> autograd::run_backward(std::span<const Place> outputs,
                                           std::span<const Place> inputs,
                                           std::span<const Tensor> grad_outputs, bool retain_graph,
                                           bool create_graph, bool allow_unused, const char* op) {
  check_gradients(outputs.size(), grad_outputs);
  if (engine::Capture* c = engine::capturing()) [[unlikely]]
    c->passes = true;
  Pass pass(retain_graph, create_graph);
  std::vector<Tensor> result(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Edge e = pyflame::edge_of(inputs[i]);
    PF_CHECK(e.node, AutogradError, op, "input ", i,
             " does not require grad; call requires_grad_() before it is used");
    pass.capture(e, &result[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    pass.seed(outputs[i], grad_outputs.empty() ? Tensor() : grad_outputs[i]);
  if (!inputs.empty()) pass.restrict_to_captures();
  pass.run();
  const GradMode mode(create_graph);
  for (size_t i = 0; several_devices() && i < result.size(); ++i)
    if (result[i].defined() && inputs[i].tensor.defined())
      result[i] = engine::bring_home(result[i], inputs[i].tensor->device());
  for (size_t i = 0; i < result.size(); ++i)
    PF_CHECK(result[i].defined() || allow_unused, AutogradError, op, "input ", i,
             " was not used to compute the outputs; pass allow_unused=True to get None for it");
  return result;
}

std::vector<Tensor> autograd::region_gradients(std::span<const Tensor> outputs,
                                               std::span<const Edge> inputs,
                                               std::span<const Tensor> gradients) {
  check_gradients(outputs.size(), gradients);
  Pass pass(false, false);
  std::vector<Tensor> result(inputs.size());
  pass.end_at(inputs, result);
  for (size_t i = 0; i < outputs.size(); ++i) pass.seed(outputs[i], gradients[i]);
  pass.restrict_to_captures();
  pass.run();
  return result;
}

void autograd::go_on(std::span<const Tensor> outputs, std::span<const Tensor> gradients) {
  if (t_pass) t_pass->go_on(outputs, gradients);
}

bool autograd::pass_is_plain() {
  return t_pass && !t_pass->retains() && !engine::within_vmap();
}

std::vector<bool> autograd::pass_asks(std::span<const Edge> edges) {
  std::vector<bool> r;
  for (const Edge& e : edges) r.push_back(!t_pass || t_pass->asks(e.node.get()));
  return r;
}

bool Node::needs(size_t i) const {
  return has_edge(i) && (!t_pass || t_pass->asks(next[i].node.get()));
}

autograd::CurrentPass autograd::current_pass(std::span<const Edge> edges) {
  if (!t_pass) return {0, false, std::vector<bool>(edges.size())};
  CurrentPass r{t_pass->number(), t_pass->restricted(), {}};
  for (const Edge& e : edges) r.reached.push_back(t_pass->reaches(e.node.get()));
  return r;
}

engine::Levels autograd::summed_levels(const engine::Levels& levels) {
  return t_pass ? levels.without(t_pass->active()) : engine::Levels();
}

bool autograd::add_to_sum(const Context& c, size_t i, Device device,
                          const std::function<bool(const Tensor&)>& add) {
  return t_pass && i < c.node.next.size() && t_pass->add_at(c.node.next[i], device, add);
}

void autograd::give(const Context& c, size_t i, Tensor& gradient) {
  if (t_pass) t_pass->give(c.node, i, gradient);
}

void autograd::when_pass_ends(std::function<void()> fn) {
  if (t_pass) t_pass->at_end(std::move(fn));
}

void backward(std::span<const Tensor> tensors, std::span<const Tensor> gradients, bool retain_graph,
              bool create_graph) {
  autograd::run_backward(places(tensors), {}, gradients, retain_graph, create_graph, true,
                         "backward");
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  if (inputs.empty()) return {};
  return autograd::run_backward(places(outputs), places(inputs), grad_outputs, retain_graph,
                                create_graph, allow_unused, "grad");
}

}  // namespace pyflame
