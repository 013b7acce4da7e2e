// What of the tape Python's collector must know: the objects that nodes hold.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "common.h"
#include "engine/autograd.h"

namespace pyflame::python {

// An object of Python held by a node. They are counted: without any, nothing here costs time.
struct NodeObject : Held {
  explicit NodeObject(PyObject* p) : Held(p) { node_objects.fetch_add(1); }
  ~NodeObject() { node_objects.fetch_sub(1); }
};

// A hook of a node that calls Python.
struct PyHook {
  std::shared_ptr<NodeObject> callable;
  Tensor operator()(const Tensor& gradient) const;
};

// The other hooks of nodes (autograd::Node::Extras).
struct PyBefore {
  std::shared_ptr<NodeObject> callable;
  void operator()(autograd::Grads& grads) const;
};
struct PyAfter {
  std::shared_ptr<NodeObject> callable;
  size_t inputs;  // of the node
  void operator()(autograd::Grads& out, const autograd::Grads& in) const;
};
struct PyAccumulated {
  std::shared_ptr<NodeObject> callable;
  void operator()(const Tensor& leaf) const;
};

// What pack_hook made of a tensor, and the unpack_hook that makes one of it.
struct PyPacked final : autograd::Packed {
  std::shared_ptr<NodeObject> unpack_hook, value;
  Tensor unpack() override;
};

// A node that calls Python's backward(ctx, ...). The collector may have taken both away.
struct PyNodeBase : autograd::Node {
  std::string text;  // its name
  std::shared_ptr<NodeObject> backward, ctx;
  using Node::Node;
  virtual Obj saved_tensors() const = 0;  // a tuple; raises where they were freed or written since
};

// tp_traverse and tp_clear for whoever holds the one reference to a tensor, or a node.
int visit_graph(const Tensor&, visitproc, void* arg);
int visit_graph(const Ref<autograd::Node>&, visitproc, void* arg);
void clear_graph(const Tensor&);
void clear_graph(const Ref<autograd::Node>&);

}  // namespace pyflame::python
