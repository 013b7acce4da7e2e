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

  std::vector<Node*> run() {
    std::vector<Node*> found;
    size_t looked = 0;
    while (looked < kMost) {
      if (!nodes_.empty()) {
        Node* n = nodes_.back();
        nodes_.pop_back();
        ++looked;
        if (!n->hooks.empty() || dynamic_cast<PyNodeBase*>(n)) found.push_back(n);
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

  std::vector<Node*> nodes_;
  std::vector<const Meta*> metas_;
  std::unordered_map<const void*, uint32_t> seen_;
};

int visit(const std::shared_ptr<NodeObject>& o, visitproc visit, void* arg) {
  if (o && o.use_count() == 1) Py_VISIT(o->get());
  return 0;
}

template <class T>
int visit_from(const T& root, visitproc fn, void* arg) {
  if (!node_objects.load(std::memory_order_relaxed)) return 0;
  for (Node* n : Walk(root).run()) {
    for (const Node::Hook& h : n->hooks)
      if (const auto* hook = h.fn.target<PyHook>())
        if (int rc = visit(hook->callable, fn, arg)) return rc;
    if (const auto* p = dynamic_cast<PyNodeBase*>(n)) {
      if (int rc = visit(p->backward, fn, arg)) return rc;
      if (int rc = visit(p->ctx, fn, arg)) return rc;
    }
  }
  return 0;
}

template <class T>
void clear_from(const T& root) {
  if (!node_objects.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<NodeObject>> out;  // let go when no node is looked at any more
  for (Node* n : Walk(root).run()) {
    std::erase_if(n->hooks, [&](const Node::Hook& h) {
      const auto* hook = h.fn.target<PyHook>();
      if (hook) out.push_back(hook->callable);
      return hook != nullptr;
    });
    if (auto* p = dynamic_cast<PyNodeBase*>(n)) {
      out.push_back(std::move(p->backward));
      out.push_back(std::move(p->ctx));
    }
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
