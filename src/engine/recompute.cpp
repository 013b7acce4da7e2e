#include "engine/recompute.h"

#include <atomic>
#include <utility>
#include <vector>

#include "engine/autocast_switch.h"
#include "engine/autograd_nodes.h"
#include "engine/region.h"
#include "pyflame/memory.h"

namespace pyflame::autograd {
namespace {

thread_local std::vector<Recompute>* t_regions = nullptr;
std::atomic<int> g_regions{
    0};  // of all threads: a load is cheaper than asking for the thread's own

const Recompute* region() {
  return t_regions && !t_regions->empty() ? &t_regions->back() : nullptr;
}

struct Recipe final : Packed {
  explicit Recipe(std::function<Tensor()> f) : fn(std::move(f)) {}
  Tensor unpack() override {
    const NoGrad off;
    const amp::Off plain;
    return fn();
  }
  std::function<Tensor()> fn;
};

struct Owner final : Node {
  using Node::Node;
  Grads apply(const Grads&) override { return {}; }
};

}  // namespace

void push_recompute(Recompute r) {
  if (!t_regions) t_regions = new std::vector<Recompute>();
  t_regions->push_back(r.unasked && region() ? *region() : r);
  g_regions.fetch_add(1);
}
void pop_recompute() {
  g_regions.fetch_sub(1);
  t_regions->pop_back();
  if (t_regions->empty()) delete std::exchange(t_regions, nullptr);
}
bool recomputes() {
  return g_regions.load(std::memory_order_relaxed) && region();
}

bool recomputes_unasked() {
  return recomputes() && region()->unasked;
}

std::optional<Recompute> recompute_asked() {
  if (!recomputes() || region()->unasked) return {};
  return *region();
}

Ref<Node> make_owner(const char* name) {
  return Ref<Node>::adopt(new Owner(name));
}

void redo_by(const Tensor& result, std::function<Tensor(const Node&)> fn) {
  const Ref<Node> node = grad_fn(result);
  if (auto* f = dynamic_cast<FunctionNode*>(node.get()))
    f->redo = [fn = std::move(fn), owner = make_owner(f->name)] { return fn(*owner); };
}

Ref<Packed> recipe_of(const Tensor& t) {
  const Recompute* r = region();
  // What was written since its node made it is something else.
  if (!r || (r->unasked && !t->storage->device.is_cpu()) || !t->meta || t->meta->base.defined() ||
      t->meta->output_nr != 0 || t->storage->nbytes < r->at_least || t->storage->version != 0 ||
      !t->contiguous || t->storage->nbytes != nbytes(t->dtype, t->numel))
    return {};
  const auto* node = dynamic_cast<const Redoable*>(maker(t));
  if (!node) return {};
  if (r->above > 0 && memory_stats(t->storage->device).allocated <= static_cast<int64_t>(r->above))
    return {};
  std::function<Tensor()> fn = node->again(t->dtype);
  return fn ? Ref<Packed>::adopt(new Recipe(std::move(fn))) : Ref<Packed>{};
}

}  // namespace pyflame::autograd
