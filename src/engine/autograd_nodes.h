// The node types that the engine itself needs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/lock.h"
#include "engine/autograd.h"
#include "engine/recompute.h"

namespace pyflame::autograd {

// Whether two elements lie at one place, looked at one by one; large tensors count as such.
bool meets_itself(const TensorImpl&);
inline bool overlaps_itself(const TensorImpl& t) {
  return !t.contiguous && may_self_overlap(t.shape, t.strides) && meets_itself(t);
}

// The end of every path: adds what arrives to the leaf's .grad.
struct Accumulate final : Node {
  explicit Accumulate(TensorImpl* leaf) : Node("accumulate_grad"), leaf_(leaf) { sequence = 0; }
  Grads apply(const Grads& grads) override;
  // What the leaf's .grad is to what comes from `device`: not there; a dense one that nobody else
  // has, so that what comes in parts may be added part by part; neither.
  enum class Sum : uint8_t { None, Ours, Other };
  Sum sum(Device device);
  // Calls add(sum) where it is Ours. What that says: whether it has added.
  bool add_by(Device device, const std::function<bool(const Tensor& sum)>& add);
  Tensor leaf();           // undefined when it is gone
  void forget() noexcept;  // the leaf goes away

 private:
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  TensorImpl* leaf_;
};

// What Saved holds of a tensor that a hook has packed; on no path.
struct PackedNode final : Node {
  PackedNode(Ref<Packed> p, Edge h) : Node("packed"), packed(std::move(p)), history(std::move(h)) {}
  Grads apply(const Grads&) override { return {}; }
  void each_owned(Owned& o) const override {
    o.packed(packed);
    o.node(history.node);
  }
  Ref<Packed> packed;
  Edge history;  // of an input
};

// A node whose only input has the gradient of its result where that is above 0 (or NaN), and 0
// elsewhere: a relu. What made its input may know where that is and take the result's gradient as
// it is, which saves a pass over memory.
struct Gate {
  virtual bool is_gate() const = 0;  // AutogradError where apply() would raise one

 protected:
  ~Gate() = default;
};

// A node whose gradient is a function over saved tensors.
class FunctionNode final : public Node, public Redoable {
 public:
  FunctionNode(const char* name, std::vector<Saved> saved, BackwardFn fn)
      : Node(name), saved_(std::move(saved)), fn_(std::move(fn)) {}
  Grads apply(const Grads& grads) override;
  void release() override;
  void each_owned(Owned&) const override;
  Tensor saved(size_t i) const { return saved_[i].get(*this); }
  size_t count() const { return saved_.size(); }
  // With several results, a missing gradient counts as zeros of the result's shape.
  void describe(std::span<const Tensor> outputs);
  Tensor zeros(size_t i) const;
  std::function<Tensor()> again(DType) const override { return redo; }
  std::function<Tensor()> redo;  // see redo_by
  // Whether such a gradient of its result may come through a gate as if that were open; then it is
  // `gated` while it is applied. Null: never.
  bool (*takes_gate)(const Tensor& g) = nullptr;
  bool gated = false;

 private:
  struct Result {
    Dims shape;
    DType dtype;
    Device device;
  };
  // A hook that fn_ calls may run a pass over this node, which frees it.
  struct Running {
    uint32_t* depth;
    explicit Running(uint32_t* d) : depth(d) { ++*depth; }
    ~Running() { --*depth; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
  };
  uint32_t running_ = 0;  // how often fn_ is being called
  std::vector<Saved> saved_;
  BackwardFn fn_;
  std::vector<Result> shapes_;
};

// Of the node of a fresh result, if it has one: FunctionNode::takes_gate.
void take_gates(const Tensor& result, bool (*takes)(const Tensor& g));

// The history of a base after an in-place write to a view of it.
struct CopySlices final : Node {
  CopySlices(Ref<Node> inner, std::shared_ptr<ViewStep> steps, const Tensor& base, Edge edge);
  Grads apply(const Grads& grads) override;  // ops/gradients.cpp
  void release() override;
  void each_owned(Owned&) const override;
  // While `writer` is applied as a part of such a node: the history of its result, which is the
  // part of the base behind the write. The writer's own would be a second way past this node.
  static Ref<Node> history_of(const Node& writer);

 private:
  Tensor zeros(Device) const;  // as the base lies

  Ref<Node> inner_;
  std::shared_ptr<ViewStep> steps_;
  Dims shape_, strides_;  // of the base: views replay only over the same geometry
  int64_t offset_;
  DType dtype_;
};

}  // namespace pyflame::autograd
