// The tape: attaching nodes, views and in-place writes, saved tensors.
#include "engine/autograd.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/inference.h"
#include "engine/autograd_nodes.h"
#include "engine/hidden.h"
#include "engine/placement.h"
#include "engine/region.h"
#include "engine/upcalls.h"

namespace pyflame {
namespace {
thread_local bool t_grad_enabled = true;
std::atomic<bool> g_anomaly{false};
}  // namespace

bool grad_enabled() {
  return t_grad_enabled;
}
void set_grad_enabled(bool on) {
  t_grad_enabled = on;
}
void set_detect_anomaly(bool on) {
  g_anomaly.store(on);
}
bool detect_anomaly() {
  return g_anomaly.load();
}

namespace autograd {
namespace {

// Even numbers; 0 is for accumulators, which run last, and views that are renewed take odd ones.
std::atomic<uint64_t> g_sequence{2};

// The levels of vmap that a result of a node has: a gradient that comes there may have them, too.
void note_levels(Node& n, const Tensor& result) {
  if (!engine::is_hidden(result)) return;
  engine::Levels levels;
  levels.add(result);
  std::vector<uint32_t>& list = n.extra().levels;
  for (const engine::Level& l : levels)
    if (std::find(list.begin(), list.end(), l.id) == list.end()) list.push_back(l.id);
}

}  // namespace

Node::Node(const char* n) : sequence(g_sequence.fetch_add(2, std::memory_order_relaxed)), name(n) {}
Node::~Node() = default;

uint64_t reserve_numbers() {
  return g_sequence.fetch_add(2 * kReserved, std::memory_order_relaxed);
}

void Node::destroy(Node* n) noexcept {
  // Dropping a node drops its edges, which may drop nodes, 100,000 deep: a list, no recursion. It
  // goes through numbers that nobody asks for any more, for there may be no memory.
  static_assert(sizeof n->sequence >= sizeof(void*));
  static thread_local Node* first = nullptr;
  static thread_local bool running = false;
  n->sequence = reinterpret_cast<uintptr_t>(first);
  first = n;
  if (running) return;
  running = true;
  while (Node* next = first) {
    first = reinterpret_cast<Node*>(next->sequence);
    delete next;
  }
  running = false;
}

void Node::each_owned(Owned& o) const {
  for (const Edge& e : next) o.node(e.node);
}
void Saved::each_owned(Owned& o) const {
  o.tensor(tensor_);
  o.node(history_.node);
}
void FunctionNode::each_owned(Owned& o) const {
  Node::each_owned(o);
  for (const Saved& s : saved_) s.each_owned(o);
}
void CopySlices::each_owned(Owned& o) const {
  Node::each_owned(o);
  o.node(inner_);
}
void each_owned(const Meta& m, Owned& o) {
  o.node(m.grad_fn);
  o.node(m.accumulator);
  for (const auto& [id, node] : m.hooked) o.node(node);
  o.tensor(m.base);
  o.tensor(m.grad);
}

// ---- meta --------------------------------------------------------------------------------------

Meta& meta_of(const Tensor& t) {
  if (!t->meta) t->meta = new Meta;
  return *t->meta;
}

void destroy_meta(TensorImpl& t) noexcept {
  Meta* m = std::exchange(t.meta, nullptr);
  if (m->accumulator) static_cast<Accumulate*>(m->accumulator.get())->forget();
  delete m;
}

// ---- edges -------------------------------------------------------------------------------------

namespace {

// A view whose base was written since: its history is the base's.
bool outdated(const Meta& m) {
  return m.base.defined() && m.steps && m.epoch != meta_of(m.base).epoch;
}

}  // namespace

bool requires_grad(const Tensor& t) {
  if (t->requires_grad) return true;
  const Meta* m = t->meta;
  if (!m) return false;
  return outdated(*m) ? requires_grad(m->base) : static_cast<bool>(m->grad_fn);
}

bool wanted(std::span<const Tensor> inputs) {
  if (!t_grad_enabled) return false;
  for (const Tensor& t : inputs)
    if (t.defined() && requires_grad(t)) return true;
  return false;
}

namespace {

// The view's base may have become another form since: the way to it begins at what it is now.
void follow_forms(Meta& m) {
  if (!m.form || !m.form->next) return;
  std::vector<const ViewStep*> own;
  for (const ViewStep* s = m.steps.get(); s; s = s->before.get()) own.push_back(s);
  std::vector<std::shared_ptr<Form>> forms;
  for (; m.form->next; m.form = m.form->next) forms.push_back(m.form);
  std::shared_ptr<ViewStep> chain;
  for (auto f = forms.rbegin(); f != forms.rend(); ++f)
    chain = std::make_shared<ViewStep>(ViewStep{chain, (*f)->undo, (*f)->redo});
  for (auto s = own.rbegin(); s != own.rend(); ++s)
    chain = std::make_shared<ViewStep>(ViewStep{chain, (*s)->replay, (*s)->backward});
  m.steps = std::move(chain);
}

// The history of `m`'s tensor begins anew: hooks stay with the value that they were put on, what
// retain_grad() asks for is the gradient of the latest.
void set_history(Meta& m, Ref<Node> fn, uint32_t output_nr) {
  if (m.retained) [[unlikely]] {
    auto moves = [&](const Node::Hook& h) { return h.id == 0 && h.output == m.output_nr; };
    if (m.grad_fn && fn && m.grad_fn.get() != fn.get())
      for (Node::Hook& h : m.grad_fn->hooks)
        if (moves(h)) fn->hooks.push_back({0, output_nr, h.fn});
    if (m.grad_fn) std::erase_if(m.grad_fn->hooks, moves);
  }
  m.grad_fn = std::move(fn);
  m.output_nr = output_nr;
}

void attach_view(const Tensor& t, Meta& m) {
  follow_forms(m);
  Ref<Node> node = Ref<Node>::adopt(
      new FunctionNode(m.view_name, {}, [steps = m.steps](const Context& c) -> Grads {
        return {view_gradient(steps.get(), c.grad())};
      }));
  node->next.push_back(edge_of(m.base));
  // Made late, perhaps by its first reader: it must still run after everything that reads it.
  if (const Node* below = node->next[0].node.get()) node->sequence = below->sequence + 1;
  static_cast<FunctionNode*>(node.get())->describe({&t, 1});
  if (hiding()) [[unlikely]]
    note_levels(*node, t);
  set_history(m, std::move(node), 0);
  m.epoch = meta_of(m.base).epoch;
}

}  // namespace

Ref<Node> grad_fn(const Tensor& t) {
  Meta* m = t->meta;
  if (!m) return {};
  if (outdated(*m)) {
    if (requires_grad(m->base)) {
      attach_view(t, *m);
    } else {  // written over as a whole by what needs no gradient
      m->grad_fn.reset();
      m->epoch = meta_of(m->base).epoch;
    }
  }
  return m->grad_fn;
}

Edge edge_of(const Tensor& t) {
  if (!t.defined()) return {};
  if (t->meta) {
    if (Ref<Node> fn = grad_fn(t)) return {std::move(fn), t->meta->output_nr};
  }
  if (!t->requires_grad) return {};
  Meta& m = meta_of(t);
  if (!m.accumulator) m.accumulator = Ref<Node>::adopt(new Accumulate(t.impl()));
  return {m.accumulator, 0};
}

void attach(Ref<Node> node, std::span<const Tensor> outputs, std::span<const Tensor> inputs) {
  node->outputs = static_cast<uint32_t>(outputs.size());
  if (!outputs.empty() && outputs[0].defined()) node->home = outputs[0]->device();
  if (node->next.empty()) {
    node->next.reserve(inputs.size());
    for (const Tensor& t : inputs) node->next.push_back(edge_of(t));
  }
  if (hiding()) [[unlikely]]
    for (const Tensor& t : outputs) note_levels(*node, t);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !has_gradient(outputs[i]->dtype)) continue;
    Meta& m = meta_of(outputs[i]);
    set_history(m, node, static_cast<uint32_t>(i));
  }
}

void attach(const char* name, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
            std::vector<Saved> saved, BackwardFn fn) {
  auto* node = new FunctionNode(name, std::move(saved), std::move(fn));
  node->describe(outputs);
  attach(Ref<Node>::adopt(node), outputs, inputs);
}

void attach(const char* name, std::initializer_list<Tensor> outputs,
            std::initializer_list<Tensor> inputs, std::vector<Saved> saved, BackwardFn fn) {
  attach(name, std::span<const Tensor>(outputs.begin(), outputs.size()),
         std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(saved), std::move(fn));
}

Ref<Node> make_node(const char* name, std::initializer_list<Tensor> inputs,
                    std::vector<Saved> saved, BackwardFn fn) {
  auto* node = new FunctionNode(name, std::move(saved), std::move(fn));
  for (const Tensor& t : inputs) node->next.push_back(edge_of(t));
  return Ref<Node>::adopt(node);
}

// ---- saved tensors -----------------------------------------------------------------------------

namespace {
thread_local std::vector<PackFn>* t_packs = nullptr;  // null as long as nobody packs
std::atomic<int> g_packs{0};  // of all threads: a load is cheaper than asking for the thread's own

const PackFn* packs() {
  return t_packs && !t_packs->empty() && t_packs->back() ? &t_packs->back() : nullptr;
}
}  // namespace

void push_pack(PackFn pack) {
  if (!t_packs) t_packs = new std::vector<PackFn>();
  t_packs->push_back(std::move(pack));
  g_packs.fetch_add(1);
}
void pop_pack() {
  g_packs.fetch_sub(1);
  t_packs->pop_back();
  if (t_packs->empty()) delete std::exchange(t_packs, nullptr);
}

namespace {
// The shape and dtype in one number: an input may get others before the backward pass (.data).
uint32_t form_of(const Tensor& t) {
  uint32_t form = static_cast<uint32_t>(t->dtype) + 1;
  for (const int64_t size : t->shape) form = form * 0x01000193u + static_cast<uint32_t>(size);
  return form;
}
}  // namespace

Saved::Saved(const Tensor& t, bool is_result, uint32_t output_nr)
    : output_nr_(output_nr), is_result_(is_result) {
  if (!t.defined()) return;
  PF_CHECK(!kept_from_autograd(*t.impl()), AutogradError, "backward",
           "Inference tensors cannot be saved for backward: got a tensor that was made within "
           "inference_mode(); expected one made outside; clone() it first, or use no_grad() there");
  version_ = seen_version(*t->storage);
  const bool is_view = t->meta && t->meta->base.defined();
  if (g_packs.load(std::memory_order_relaxed) && packs()) [[unlikely]] {
    pack(t);
    return;
  }
  if (recomputes() && !is_result) [[unlikely]] {
    if (Ref<Packed> recipe = recipe_of(t)) {
      packed_ = true;
      history_.node = Ref<Node>::adopt(new PackedNode(std::move(recipe), edge_of(t)));
      return;
    }
  }
  if (is_view && !is_result) history_ = edge_of(t);
  tensor_ = is_result || is_view ? make_view(t, t->shape, t->strides, t->offset) : t;
  if (!is_result) output_nr_ = form_of(t);
}

void Saved::pack(const Tensor& t) {
  const NoGrad no_grad;
  Edge history = is_result_ ? Edge{} : edge_of(t);
  const PackFn fn = *packs();  // it may end its region, or begin another
  push_pack(nullptr);
  Ref<Packed> packed;
  try {
    packed = fn(make_view(t, t->shape, t->strides, t->offset));
  } catch (...) {
    pop_pack();
    throw;
  }
  pop_pack();
  packed_ = true;
  history_.node = Ref<Node>::adopt(new PackedNode(std::move(packed), std::move(history)));
}

namespace {
[[gnu::cold, gnu::noinline]] void refuse(const Tensor& t, const Node& owner, uint32_t version,
                                         bool fits) {
  PF_CHECK(fits, ShapeError, "backward", "a tensor that ", owner.name,
           " needs for its gradient got another shape or dtype (now ", t->shape, ", ",
           name(t->dtype),
           ") since it was used, by .data or resize_; change it before it is used, or behind the "
           "backward pass");
  PF_FAIL(AutogradError, "backward", "a ", name(t->dtype), " tensor of shape ", t->shape, " that ",
          owner.name, " needs for its gradient was changed in place (version ",
          seen_version(*t->storage), ", saved at version ", version,
          "); clone() it before the in-place operation");
}
}  // namespace

Tensor Saved::get(const Node& owner) const {
  PF_CHECK(!owner.released, AutogradError, "backward", "the graph of ", owner.name,
           " was already used and freed; call backward(retain_graph=True) the first time, or run "
           "the forward pass again");
  if (packed_) {
    const Ref<Node> held = history_.node;  // a pass within the hook may free what is saved
    const auto& kept = static_cast<const PackedNode&>(*held);
    const Tensor t = kept.packed->unpack();
    return grad_enabled() ? with_history(t, owner, kept.history) : t;
  }
  if (!tensor_.defined()) return {};
  if (seen_version(*tensor_->storage) != version_ ||
      (!is_result_ && form_of(tensor_) != output_nr_)) [[unlikely]]
    refuse(tensor_, owner, version_, is_result_ || form_of(tensor_) == output_nr_);
  return grad_enabled() ? with_history(tensor_, owner, history_) : tensor_;
}

Tensor Saved::with_history(const Tensor& kept, const Node& owner, const Edge& history) const {
  if (!is_result_ && !history.node) return kept;
  Tensor t = make_view(kept, kept->shape, kept->strides, kept->offset);
  Meta& m = meta_of(t);
  m.grad_fn = is_result_ ? CopySlices::history_of(owner) : history.node;
  m.output_nr = is_result_ ? output_nr_ : history.input;
  return t;
}

void Saved::reset() {
  tensor_ = Tensor();
  history_ = {};
}

Tensor Context::saved(size_t i) const {
  return node.saved(i);
}
bool Context::needs(size_t i) const {
  return node.needs(i);
}

void FunctionNode::describe(std::span<const Tensor> outputs) {
  if (outputs.size() < 2) return;
  for (const Tensor& t : outputs)
    shapes_.push_back(t.defined() ? Result{t->shape, t->dtype, t->device()}
                                  : Result{Dims{0}, DType::Float32, {}});
}

Grads FunctionNode::apply(const Grads& grads) {
  PF_CHECK(!released || saved_.empty(), AutogradError, "backward", "the graph of ", name,
           " was already used and freed; call backward(retain_graph=True) the first time, or run "
           "the forward pass again");
  const Running running(&running_);
  Grads zeros;
  if (shapes_.empty()) return grads[0].defined() ? fn_({*this, grads, zeros}) : Grads(next.size());
  Grads all = grads;
  all.resize(shapes_.size());
  return fn_({*this, all, zeros});
}

Tensor FunctionNode::zeros(size_t i) const {
  const Result& r = shapes_[i];
  return operations::constant(r.shape, r.dtype, r.device, 0);
}

const Tensor& Context::missing(size_t i) const {
  zeros.resize(grads.size());
  if (!zeros[i].defined()) zeros[i] = node.zeros(i);
  return zeros[i];
}

void take_gates(const Tensor& result, bool (*takes)(const Tensor&)) {
  if (auto* f = dynamic_cast<FunctionNode*>(grad_fn(result).get())) f->takes_gate = takes;
}

void FunctionNode::release() {
  if (saved_.empty()) return;  // nothing to free: it may run again
  for (Saved& s : saved_) s.reset();
  if (running_ == 0) fn_ = nullptr;  // else it goes with the node
  redo = nullptr;
}

// ---- views and in-place writes -----------------------------------------------------------------

ViewStep::~ViewStep() {
  while (before && before.use_count() == 1) {
    auto next = std::move(before->before);
    before = std::move(next);
  }
}

Form::~Form() {
  while (next && next.use_count() == 1) {
    auto after = std::move(next->next);
    next = std::move(after);
  }
}

Tensor replay_view(const ViewStep* last, const Tensor& base) {
  std::vector<const ViewStep*> steps;
  for (; last; last = last->before.get()) steps.push_back(last);
  Tensor t = base;
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) t = (*it)->replay(t);
  return t;
}

Tensor view_gradient(const ViewStep* last, const Tensor& gradient) {
  Tensor g = gradient;
  for (; last; last = last->before.get()) g = last->backward(g);
  return g;
}

namespace {
// The history of a view of `base`: through that, so that its hooks see the gradient.
template <class MakeFn>
void look(const Tensor& base, const Tensor& result, const char* name, MakeFn make) {
  Edge e = edge_of(base);
  if (!e.node) return;
  Ref<Node> node = Ref<Node>::adopt(new FunctionNode(name, {}, make()));
  node->next.push_back(std::move(e));
  if (hiding()) [[unlikely]]
    note_levels(*node, result);
  Meta& m = meta_of(result);
  m.view_name = name;
  m.grad_fn = std::move(node);
  m.output_nr = 0;
}
}  // namespace

Tensor view(const Tensor& base, Tensor result, std::function<Tensor(const Tensor&)> replay,
            const char* name, std::function<Tensor(const Tensor&)> backward) {
  if (!has_gradient(base->dtype)) return result;
  Meta* outer = base->meta;
  const bool of_view = outer && outer->base.defined();
  // A leaf that requires grad is a base of its own, whatever it was made of.
  const bool leaf = base->requires_grad && !(outer && outer->grad_fn);
  const bool lost = of_view && !outer->steps && !leaf;
  if (!t_grad_enabled || lost) {
    // The base is kept only if it matters: a gradient that is a view must own its memory alone.
    if (lost || requires_grad(base)) meta_of(result).base = of_view && !leaf ? outer->base : base;
    // A Function's result has a history of its own, though it was looked at without one.
    if (t_grad_enabled)
      look(base, result, name, [&] {
        return [undo = std::move(backward)](const Context& c) -> Grads { return {undo(c.grad())}; };
      });
    return result;
  }
  Meta& m = meta_of(result);
  m.view_name = name;
  m.steps = std::make_shared<ViewStep>();
  m.steps->replay = std::move(replay);
  m.steps->backward = std::move(backward);
  if (of_view && !leaf) {  // a view of a view looks at the base itself
    follow_forms(*outer);
    m.base = outer->base;
    m.steps->before = outer->steps;
    m.form = outer->form;
    m.of_several = outer->of_several;
  } else {
    m.base = base;
    if (!of_view) {
      Meta& bm = meta_of(base);
      if (!bm.form) bm.form = std::make_shared<Form>();
      m.form = bm.form;
    }
  }
  look(base, result, name, [&] {
    return [step = m.steps](const Context& c) -> Grads { return {step->backward(c.grad())}; };
  });
  m.epoch = meta_of(m.base).epoch;
  return result;
}

namespace {
constexpr const char* kLostView =
    "the tensor is a view that was made under no_grad(), so the history of what it looks at would "
    "miss the write; make the view with gradients on, or write it under no_grad() too";
constexpr const char* kOneOfSeveral =
    "the tensor is one of several views that split, chunk, unbind or iteration gave, or a view of "
    "one, and takes part in gradients: such views cannot be changed in place; use the operation "
    "that gives a new tensor (x = x * 2), write to a slice of the whole (y[:2] *= 2), or cut with "
    "tensor_split";
}  // namespace

void note_several(std::span<const Tensor> views) {
  for (const Tensor& t : views)
    if (t->meta && t->meta->steps) t->meta->of_several = true;
}

void check_inplace(const Tensor& t, const char* op) {
  PF_CHECK(
      !kept_from_autograd(*t.impl()), AutogradError, op,
      "Inplace update to inference tensor outside InferenceMode is not allowed: the tensor was "
      "made within inference_mode(); clone() it first, or write it within the mode");
  PF_CHECK(!t->storage->readonly, ValueError, op,
           "the tensor's memory is read-only (it was imported from a read-only array or file); "
           "clone() it first");
  PF_CHECK(!overlaps_itself(*t.impl()), ValueError, op, "the tensor of shape ", t->shape,
           " and strides ", t->strides,
           " reaches some elements more than once (an expanded view); clone() it first");
  check_history(t, op);
  engine::about_to_write(*t->storage);
}

void check_history(const Tensor& t, const char* op) {
  if (!t_grad_enabled) return;
  PF_CHECK(!t->requires_grad || (t->meta && t->meta->grad_fn), AutogradError, op,
           "a leaf tensor that requires grad cannot be changed in place; use pf.no_grad(), or work "
           "on a copy (x = x.clone())");
  if (t->meta && t->meta->base.defined()) {
    const Tensor& b = t->meta->base;
    PF_CHECK(t->meta->steps || !requires_grad(b), AutogradError, op, kLostView);
    PF_CHECK(!t->meta->of_several || !requires_grad(t), AutogradError, op, kOneOfSeveral);
    PF_CHECK(!b->requires_grad || (b->meta && b->meta->grad_fn), AutogradError, op,
             "a view of a leaf tensor that requires grad cannot be changed in place; use "
             "pf.no_grad(), or work on a copy of the leaf");
  }
}

void rebase(const Tensor& t, Ref<Node> node) {
  if (!t_grad_enabled || !has_gradient(t->dtype)) return;
  Meta* m = t->meta;
  if (node) node->home = t->device();
  if (m && m->base.defined()) {
    Tensor base = m->base;
    if (!node && !requires_grad(base)) return;
    const char* op = node ? node->name : "in-place operation";
    PF_CHECK(m->steps, AutogradError, op, kLostView);
    PF_CHECK(!m->of_several, AutogradError, op, kOneOfSeveral);
    Meta& bm = meta_of(base);
    follow_forms(*m);
    Ref<Node> slice = Ref<Node>::adopt(new CopySlices(node, m->steps, base, edge_of(base)));
    if (hiding()) [[unlikely]] {
      note_levels(*slice, base);
      if (node) note_levels(*node, t);
    }
    set_history(bm, std::move(slice), 0);
    ++bm.epoch;
    attach_view(t, *m);
    return;
  }
  if (!node && !m) return;
  Meta& own = meta_of(t);
  if (Edge before = edge_of(t); before.node && !(node && node->has_edge(0))) {
    // Nothing of the old value is left: it keeps its place in the history, with zeros.
    if (!node)
      node = Ref<Node>::adopt(
          new FunctionNode("overwrite", {}, [](const Context&) { return Grads(1); }));
    node->home = t->device();
    node->overwrites = true;
    if (node->next.empty())
      node->next.push_back(std::move(before));
    else
      node->next[0] = std::move(before);
  }
  if (hiding() && node) [[unlikely]]
    note_levels(*node, t);
  set_history(own, std::move(node), 0);
  ++own.epoch;  // views of it renew their history
}

void become(const Tensor& t, const Tensor& v, std::function<Tensor(const Tensor&)> redo,
            std::function<Tensor(const Tensor&)> undo) {
  const Ref<Node> fn = grad_fn(v);
  t->shape = v->shape;
  t->strides = v->strides;
  t->offset = v->offset;
  t->contiguous = v->contiguous;
  ++t->storage->version;  // who saved it for the backward pass would find another shape
  if (fn) {
    Meta& m = meta_of(t);
    m.grad_fn = fn;
    m.output_nr = v->meta->output_nr;
  }
  Meta* m = t->meta;
  if (!m) return;
  if (m->steps) {  // one step further from the same base
    m->steps = std::make_shared<ViewStep>(ViewStep{m->steps, std::move(redo), std::move(undo)});
    if (v->meta && v->meta->view_name) m->view_name = v->meta->view_name;
  } else if (m->form && m->form.use_count() > 1) {
    m->form->redo = std::move(redo);
    m->form->undo = std::move(undo);
    m->form = m->form->next = std::make_shared<Form>();
  }
}

CopySlices::CopySlices(Ref<Node> inner, std::shared_ptr<ViewStep> steps, const Tensor& base,
                       Edge edge)
    : Node(inner ? inner->name : "copy_slices"),
      inner_(std::move(inner)),
      steps_(std::move(steps)),
      shape_(base->shape),
      strides_(base->strides),
      offset_(base->offset),
      dtype_(base->dtype) {
  next.push_back(std::move(edge));
  if (inner_)
    for (size_t i = 1; i < inner_->next.size(); ++i) next.push_back(inner_->next[i]);
}

void CopySlices::release() {
  if (inner_) {
    inner_->released = true;
    inner_->release();
  }
}

void retain_grad(const Tensor& t) {
  PF_CHECK(requires_grad(t), AutogradError, "retain_grad",
           "the tensor does not require grad; call requires_grad_() before it is used");
  Ref<Node> fn = grad_fn(t);
  Meta& m = meta_of(t);
  if (!fn || m.retained) return;
  m.retained = std::make_shared<Tensor>();
  fn->hooks.push_back({0, m.output_nr, [box = m.retained](const Tensor& g) -> Tensor {
                         *box = box->defined() ? operations::add(*box, g) : g.detach();
                         return {};
                       }});
}

int64_t when_accumulated(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  PF_CHECK(leaf->requires_grad && !grad_fn(leaf), AutogradError,
           "register_post_accumulate_grad_hook",
           "the tensor is the result of an operation or does not require grad, so nothing is "
           "added to its .grad; expected a leaf that requires grad; use register_hook()");
  const int64_t id = next_hook();
  edge_of(leaf).node->extra().accumulated.emplace_back(id, std::move(hook));
  return id;
}

void run_accumulated(Node& accumulator, const Tensor& leaf) {
  if (!accumulator.extras || !leaf.defined()) return;
  const auto hooks = accumulator.extras->accumulated;  // a copy: they may remove themselves
  for (const auto& [id, hook] : hooks) hook(leaf);
}

}  // namespace autograd

// ---- the tensor's side -------------------------------------------------------------------------

bool Tensor::requires_grad() const {
  return autograd::requires_grad(*this);
}
bool Tensor::is_leaf() const {
  return !autograd::grad_fn(*this);
}

Tensor& Tensor::requires_grad_(bool on) {
  PF_CHECK(!on || has_gradient(p_->dtype), DTypeError, "requires_grad_", "got a ", name(p_->dtype),
           " tensor; only floating point and complex tensors have gradients");
  PF_CHECK(
      !on || !kept_from_autograd(*p_), AutogradError, "requires_grad_",
      "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed: the "
      "tensor was made within inference_mode(); clone() it first");
  PF_CHECK(on || is_leaf(), AutogradError, "requires_grad_",
           "the tensor is the result of an operation; use detach() to cut it from its history");
  p_->requires_grad = on;
  return *this;
}

Tensor Tensor::grad() const {
  if (!p_->meta) return {};
  if (p_->meta->retained) return *p_->meta->retained;
  return p_->meta->grad;
}

void Tensor::set_grad(const Tensor& g) {
  if (!g.defined()) {
    if (p_->meta) p_->meta->grad = Tensor();
    if (p_->meta && p_->meta->retained) *p_->meta->retained = Tensor();
    return;
  }
  PF_CHECK(g->shape == p_->shape, ShapeError, "grad", "got a gradient of shape ", g->shape,
           " for a tensor of shape ", p_->shape, "; they must be equal");
  PF_CHECK(g->dtype == p_->dtype, DTypeError, "grad", "got a ", name(g->dtype), " gradient for a ",
           name(p_->dtype), " tensor; convert it first");
  engine::check_source(*p_, *g.impl(), "grad");
  const Tensor here = g->storage->device == p_->storage->device ? g : operations::move(g, device());
  autograd::Meta& m = autograd::meta_of(*this);
  (m.retained ? *m.retained : m.grad) = here;
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  if (gradient.defined())
    pyflame::backward({this, 1}, {&gradient, 1}, retain_graph, create_graph);
  else
    pyflame::backward({this, 1}, {}, retain_graph, create_graph);
}

Tensor Tensor::detach() const {
  return make_view(*this, p_->shape, p_->strides, p_->offset);
}

int64_t autograd::next_hook() {
  static std::atomic<int64_t> next{1};
  return next.fetch_add(1);
}

int64_t Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  autograd::Edge e = autograd::edge_of(*this);
  PF_CHECK(e.node, AutogradError, "register_hook",
           "the tensor does not require grad; call requires_grad_() first");
  const int64_t id = autograd::next_hook();
  e.node->hooks.push_back({id, e.input, std::move(hook)});
  if (e.node->sequence != 0) autograd::meta_of(*this).hooked.emplace_back(id, e.node);
  return id;
}

void Tensor::remove_hook(int64_t handle) const {
  auto remove = [&](autograd::Node& n) {
    std::erase_if(n.hooks, [&](const auto& h) { return h.id == handle; });
    if (n.extras)
      std::erase_if(n.extras->accumulated, [&](const auto& h) { return h.first == handle; });
  };
  autograd::Edge e = autograd::edge_of(*this);
  if (e.node) remove(*e.node);
  if (!p_->meta) return;
  for (auto& [id, node] : p_->meta->hooked)
    if (id == handle) remove(*node);
  std::erase_if(p_->meta->hooked, [&](const auto& h) { return h.first == handle; });
}

}  // namespace pyflame
