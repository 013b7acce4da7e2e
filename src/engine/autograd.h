// The tape: nodes, edges, saved tensors. Operations attach nodes; the engine walks them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_impl.h"
#include "pyflame/autograd.h"

namespace pyflame::engine {
class Levels;
}

namespace pyflame::autograd {

struct Node;
struct Meta;

using Grads = std::vector<Tensor>;  // an undefined tensor is a gradient of zero

struct Edge {
  Ref<Node> node;
  uint32_t input = 0;  // which of the node's incoming gradients
};

// What hooks of saved tensors keep in the place of one.
struct Packed : detail::RefCounted {
  virtual ~Packed() = default;
  virtual Tensor unpack() = 0;
  static void destroy(Packed* p) noexcept { delete p; }
};
using PackFn = std::function<Ref<Packed>(const Tensor&)>;
// From now on, in this thread, what is saved goes through `pack`. The innermost counts; null: kept
// as always.
void push_pack(PackFn pack);
void pop_pack();

// Is shown what keeps what alive: each reference once.
struct Owned {
  virtual void node(const Ref<Node>&) = 0;
  virtual void tensor(const Tensor&) = 0;
  virtual void packed(const Ref<Packed>&) {}

 protected:
  ~Owned() = default;
};

struct Node : detail::RefCounted {
  uint64_t sequence;        // record number: backward runs the highest first
  const char* name;         // of the operation, for errors and grad_fn.name()
  std::vector<Edge> next;   // one per input of the operation, undefined when it needs no gradient
  uint32_t outputs = 1;     // how many results the operation had
  bool released = false;    // its saved tensors were freed by a backward pass
  bool overwrites = false;  // next[0] is what an in-place write left nothing of: its gradient is 0
  Device home{DeviceType::CPU, 0, true};  // of its results: gradients come there if it is placed
  struct Hook {
    int64_t id;       // 0: retain_grad's, which comes after all others
    uint32_t output;  // whose gradient it sees; what it returns (if defined) replaces it
    std::function<Tensor(const Tensor&)> fn;
  };
  std::vector<Hook> hooks;
  // What few nodes have.
  struct Extras {
    // Is given the gradients of the results and may write others into them.
    using Before = std::function<void(Grads&)>;
    // The same for the gradients of the inputs, beside those of the results.
    using After = std::function<void(Grads&, const Grads&)>;
    std::vector<std::pair<int64_t, Before>> before;
    std::vector<std::pair<int64_t, After>> after;
    // Of an accumulator: called with the leaf when its .grad is complete for this pass.
    std::vector<std::pair<int64_t, std::function<void(const Tensor&)>>> accumulated;
    std::vector<uint32_t> levels;    // of vmaps that its results differ over (engine/hidden.h)
    std::shared_ptr<void> metadata;  // a dict of Python's, the binding's alone
    void* wrapper = nullptr;         // the Python object of this node while it lives
  };
  std::unique_ptr<Extras> extras;
  Extras& extra() {
    if (!extras) extras = std::make_unique<Extras>();
    return *extras;
  }

  explicit Node(const char* name);
  virtual ~Node();
  // Gradients of the results in, gradients of the inputs out (same order as `next`). Skip the
  // work for inputs with !needs(i). Must be written in recorded operations: with create_graph
  // it runs with gradients enabled.
  virtual Grads apply(const Grads& grads) = 0;
  virtual void release() {}  // drop saved tensors
  virtual void each_owned(Owned&) const;
  bool has_edge(size_t i) const { return i < next.size() && next[i].node; }
  // Whether the pass that runs asks for the gradient of input `i`: one for some tensors alone only
  // where that leads to one of them.
  bool needs(size_t i) const;
  static void destroy(Node*) noexcept;  // iterative: deep graphs do not recurse
};

// A tensor kept for the backward pass. Knows the version it was saved at. Set is_result for a
// result of the operation itself (avoids the reference cycle), with its number.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& t, bool is_result = false, uint32_t output_nr = 0);
  Tensor get(const Node& owner) const;  // AutogradError when changed in place or freed
  void reset();
  void each_owned(Owned&) const;

 private:
  void pack(const Tensor& t);
  Tensor with_history(const Tensor& kept, const Node& owner, const Edge& history) const;

  Tensor tensor_;
  // Of an input that is a view: the tensor is kept without its base (no cycle). Packed: a
  // PackedNode.
  Edge history_;
  uint32_t version_ = 0;
  uint32_t output_nr_ = 0;  // of an input: its form
  bool is_result_ = false;
  bool packed_ = false;
};

// True when gradients are on and any of the tensors requires one.
bool wanted(std::span<const Tensor> inputs);
inline bool wanted(std::initializer_list<Tensor> inputs) {
  return wanted(std::span<const Tensor>(inputs.begin(), inputs.size()));
}
bool requires_grad(const Tensor& t);

// The edge that a gradient of `t` flows to; undefined when it needs none.
Edge edge_of(const Tensor& t);

// Attaches a node with a function body to fresh results:
//   if (autograd::wanted({x, w}))
//     autograd::attach("linear", {y}, {x, w}, {Saved(x), Saved(w)},
//                      [](const Context& c) -> Grads { auto& g = c.grad(0); auto x = c.saved(0);
//                      ... });
// The function gets saved tensors checked and unpacked; it returns one gradient per input.
class FunctionNode;
struct Context {
  const FunctionNode& node;
  const Grads&
      grads;  // undefined: nobody needs that result's. Zeros there times a distance of 0 are NaN
  Grads& zeros;
  const Tensor& grad(size_t i = 0) const {  // defined
    return grads[i].defined() ? grads[i] : missing(i);
  }
  const Tensor& missing(size_t i) const;  // zeros
  Tensor saved(size_t i) const;
  bool needs(size_t i) const;
};
using BackwardFn = std::function<Grads(const Context&)>;
// While the node's function runs: calls add(sum) with what has come so far where its gradient `i`,
// which lies on `device`, is added, if nobody else has that and no history is wanted. True where it
// has been, and so has added to it, in place of giving a gradient.
bool add_to_sum(const Context&, size_t i, Device device,
                const std::function<bool(const Tensor& sum)>& add);
// The same: what its function has made of gradient `i` is added at once, if that can be; then
// `gradient` is undefined. So the sum follows what made it, and not what the function makes next.
void give(const Context&, size_t i, Tensor& gradient);
void attach(const char* name, std::initializer_list<Tensor> outputs,
            std::initializer_list<Tensor> inputs, std::vector<Saved> saved, BackwardFn fn);
void attach(const char* name, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
            std::vector<Saved> saved, BackwardFn fn);
// Attaches an own Node subclass; `next` is filled from inputs.
void attach(Ref<Node> node, std::span<const Tensor> outputs, std::span<const Tensor> inputs);

// A differentiable view: `view(base)` replays it. Results of view operations go through here so
// that an in-place write on one rebases the history of its base.
//   return autograd::view(base, result, [=](const Tensor& b) { return transpose(b, i, j); },
//                         "transpose", [=](const Tensor& g) { return transpose(g, i, j); });
// `backward` maps the gradient of the view to that of the base.
Tensor view(const Tensor& base, Tensor result, std::function<Tensor(const Tensor&)> replay,
            const char* name, std::function<Tensor(const Tensor&)> backward);

// Views that one call gave together: where gradients are wanted they may not be written.
void note_several(std::span<const Tensor> views);

// Call before an in-place write to `t` (checks: a leaf that requires grad must not be written,
// an expanded view neither), then after recording the write with the node of the operation whose
// result `t` now holds (null when none of its inputs needs a gradient). The node's first input,
// next[0], is `t` before the write (left undefined when the old value does not matter, it gets
// zeros).
void check_inplace(const Tensor& t, const char* op);
void check_history(const Tensor& t, const char* op);  // the part that is about gradients
void rebase(const Tensor& t, Ref<Node> node);
// `t` becomes `v`, a view of itself with as many elements, and keeps its identity. `redo` makes
// such a view of any tensor of t's shape, `undo` is its reverse.
void become(const Tensor& t, const Tensor& v, std::function<Tensor(const Tensor&)> redo,
            std::function<Tensor(const Tensor&)> undo);
// A FunctionNode for in-place use: `inputs[0]` is the tensor that is written.
Ref<Node> make_node(const char* name, std::initializer_list<Tensor> inputs,
                    std::vector<Saved> saved, BackwardFn fn);

// How a view is reached from its base: the step before, and this one. A chain may be long: it is
// walked and freed in loops.
struct ViewStep {
  std::shared_ptr<ViewStep> before;
  std::function<Tensor(const Tensor&)> replay;
  std::function<Tensor(const Tensor&)> backward;
  ~ViewStep();
};
// A base that became its own view in place (unsqueeze_): views made before look at an older form.
struct Form {
  std::shared_ptr<Form> next;                       // what the base became; null: what it is
  std::function<Tensor(const Tensor&)> undo, redo;  // this form as a view of the next; the reverse
  ~Form();
};
Tensor replay_view(const ViewStep* last, const Tensor& base);
Tensor view_gradient(const ViewStep* last, const Tensor& gradient);

// What the engine keeps beside a tensor that takes part in autograd.
struct Meta {
  Ref<Node> grad_fn;
  uint32_t output_nr = 0;
  Tensor grad;
  Ref<Node> accumulator;                              // of a leaf
  std::shared_ptr<Tensor> retained;                   // retain_grad(): filled by a hook of grad_fn
  std::vector<std::pair<int64_t, Ref<Node>>> hooked;  // where this tensor's hooks were put
  // A differentiable view: what it looks at and how to look again. No steps: it, or a view that it
  // is made of, was made under no_grad(): a write would be missing from the base's history.
  Tensor base;
  std::shared_ptr<ViewStep> steps;
  std::shared_ptr<Form> form;  // of a base: its form; of a view: that which the steps begin at
  const char* view_name = nullptr;
  bool of_several = false;  // a result of split, chunk or unbind, or a view of one
  uint64_t epoch = 0;  // of the base when grad_fn was made; on a base: how often it was rebased
};
Meta& meta_of(const Tensor& t);  // made on demand
void each_owned(const Meta&, Owned&);
// The node that made `t` (for grad_fn); null for a leaf. A view of a changed base is renewed.
Ref<Node> grad_fn(const Tensor& t);
void retain_grad(const Tensor& t);

// What gradients begin at or are wanted of: a tensor, or an edge without one.
struct Place {
  Tensor tensor;
  Edge edge;
  Place(Tensor t) : tensor(std::move(t)) {}
  Place(Edge e) : edge(std::move(e)) {}
};
// pyflame::grad, and backward where there are no inputs.
std::vector<Tensor> run_backward(std::span<const Place> outputs, std::span<const Place> inputs,
                                 std::span<const Tensor> grad_outputs, bool retain_graph,
                                 bool create_graph, bool allow_unused, const char* op);
// The backward pass that this thread is in.
struct CurrentPass {
  uint64_t number = 0;        // 0: in none
  bool has_inputs = false;    // grad(), or backward() of some tensors alone
  std::vector<bool> reached;  // of which of the edges a gradient comes to their nodes
};
CurrentPass current_pass(std::span<const Edge> edges = {});
// Which of the levels of vmap the pass sums over where a gradient comes to what has them not: those
// that had ended when it began.
engine::Levels summed_levels(const engine::Levels&);
// Calls fn at its end; not at all outside of one, or when it raises.
void when_pass_ends(std::function<void()> fn);
// A number for a hook, by which it is taken away again. Never 0.
int64_t next_hook();
// Has hook(leaf) called behind each backward pass that adds to the leaf's .grad.
int64_t when_accumulated(const Tensor& leaf, std::function<void(const Tensor&)> hook);
void run_accumulated(Node& accumulator, const Tensor& leaf);

}  // namespace pyflame::autograd
