// Cycles through the tape. A hook or a custom function's ctx may hold the very tensor whose graph
// holds it. Python's collector sees the cycle only if the tensor's tp_traverse shows what the graph
// holds, and may be shown only what this tensor alone keeps alive: everything that is left when
// references are counted off from the tensor inwards.
#include "cycles.h"

#include <unordered_map>
#include <vector>

namespace pyflame::python {

using autograd::Meta;
using autograd::Node;

std::atomic<int64_t> node_objects{0};

namespace {

constexpr size_t kMost = 20'000;  // nodes a collection looks at, for each tensor

class Walk final : autograd::Owned {
 public:
  explicit Walk(const Tensor& t) { tensor(t); }
  explicit Walk(const Ref<Node>& n) { node(n); }

  std::vector<PyPacked*> packs;  // those that only the nodes found keep

  std::vector<Node*> run() {
    std::vector<Node*> found;
    size_t looked = 0;
    while (looked < kMost) {
      if (!nodes_.empty()) {
        Node* n = nodes_.back();
        nodes_.pop_back();
        ++looked;
        if (!n->hooks.empty() || n->extras || dynamic_cast<PyNodeBase*>(n)) found.push_back(n);
        n->each_owned(*this);
      } else if (!metas_.empty()) {
        const Meta* m = metas_.back();
        metas_.pop_back();
        autograd::each_owned(*m, *this);
      } else {
        break;
      }
    }
    return found;
  }

 private:
  // True when this was the last reference that somebody else could have held.
  bool last(const void* p, uint32_t refs) { return refs == 1 || ++seen_[p] == refs; }
  void node(const Ref<Node>& n) override {
    if (n && last(n.get(), n->refs.load(std::memory_order_relaxed))) nodes_.push_back(n.get());
  }
  void tensor(const Tensor& t) override {
    if (t.defined() && last(t.impl(), t->refs.load(std::memory_order_relaxed)) && t->meta)
      metas_.push_back(t->meta);
  }

  void packed(const Ref<autograd::Packed>& p) override {
    if (!last(p.get(), p->refs.load(std::memory_order_relaxed))) return;
    if (auto* own = dynamic_cast<PyPacked*>(p.get())) packs.push_back(own);
  }

  std::vector<Node*> nodes_;
  std::vector<const Meta*> metas_;
  std::unordered_map<const void*, uint32_t> seen_;
};

int visit(const std::shared_ptr<NodeObject>& o, visitproc visit, void* arg) {
  if (o && o.use_count() == 1) Py_VISIT(o->get());
  return 0;
}

// The object that a hook calls, where it is one of ours.
template <class Hook, class Fn>
std::shared_ptr<NodeObject>* callable_of(Fn& fn) {
  auto* hook = fn.template target<Hook>();
  return hook ? &hook->callable : nullptr;
}

// Shows all objects that a node holds.
template <class F>
void each_object(Node& n, F&& show) {
  auto given = [&](std::shared_ptr<NodeObject>* o) {
    if (o && *o) show(*o);
  };
  for (Node::Hook& h : n.hooks) given(callable_of<PyHook>(h.fn));
  if (Node::Extras* e = n.extras.get()) {
    for (auto& [id, fn] : e->before) given(callable_of<PyBefore>(fn));
    for (auto& [id, fn] : e->after) given(callable_of<PyAfter>(fn));
    for (auto& [id, fn] : e->accumulated) given(callable_of<PyAccumulated>(fn));
    if (e->metadata) {
      auto dict = std::static_pointer_cast<NodeObject>(e->metadata);
      e->metadata.reset();  // so that it is counted once
      show(dict);
      e->metadata = dict;
    }
  }
  if (auto* p = dynamic_cast<PyNodeBase*>(&n)) {
    given(&p->backward);
    given(&p->ctx);
  }
}

template <class T>
int visit_from(const T& root, visitproc fn, void* arg) {
  if (!node_objects.load(std::memory_order_relaxed)) return 0;
  Walk walk(root);
  int rc = 0;
  auto show = [&](const std::shared_ptr<NodeObject>& o) {
    if (!rc) rc = visit(o, fn, arg);
  };
  for (Node* n : walk.run()) each_object(*n, show);
  for (PyPacked* p : walk.packs) {
    show(p->value);
    show(p->unpack_hook);
  }
  return rc;
}

template <class T>
void clear_from(const T& root) {
  if (!node_objects.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<void>> out;  // let go when no node is looked at any more
  Walk walk(root);
  for (Node* n : walk.run()) {
    each_object(*n, [&](const std::shared_ptr<NodeObject>& o) { out.push_back(o); });
    std::erase_if(n->hooks, [](const Node::Hook& h) { return h.fn.target<PyHook>(); });
    if (Node::Extras* e = n->extras.get()) {
      e->before.clear();
      e->after.clear();
      e->accumulated.clear();
      e->metadata.reset();
    }
    if (auto* p = dynamic_cast<PyNodeBase*>(n)) {
      p->backward.reset();
      p->ctx.reset();
    }
  }
  for (PyPacked* p : walk.packs) {
    out.push_back(std::move(p->value));
    out.push_back(std::move(p->unpack_hook));
  }
}

}  // namespace

int visit_graph(const Tensor& t, visitproc fn, void* arg) {
  return visit_from(t, fn, arg);
}
int visit_graph(const Ref<Node>& n, visitproc fn, void* arg) {
  return visit_from(n, fn, arg);
}
void clear_graph(const Tensor& t) {
  clear_from(t);
}
void clear_graph(const Ref<Node>& n) {
  clear_from(n);
}

}  // namespace pyflame::python
