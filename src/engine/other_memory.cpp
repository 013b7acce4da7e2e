#include "engine/other_memory.h"

#include "engine/autograd_nodes.h"
#include "engine/upcalls.h"

namespace pyflame::autograd {

namespace {

Tensor gone(const Tensor&) {
  PF_FAIL(
      AutogradError, "backward",
      "a view was written whose base has got another shape or dtype since (by .data, resize_ or "
      "out=); expected a base as it was; make the view anew");
}

// What the new value's gradient goes through on its way to what made the old one.
Ref<Node> fitting(const Dims& shape, DType dtype, Edge to) {
  auto node = Ref<Node>::adopt(new FunctionNode("data", {}, [shape, dtype](const Context& c) {
    const Tensor& g = c.grad();
    PF_CHECK(g->shape == shape, ShapeError, "backward", "a gradient of shape ", g->shape,
             " arrived for a result of shape ", shape,
             ", whose shape was changed after it was made, by .data; expected that shape; detach() "
             "it before it is changed");
    return Grads{g->dtype == dtype ? g : operations::convert(g, dtype)};
  }));
  node->home = to.node->home;
  node->next.push_back(std::move(to));
  return node;
}

}  // namespace

void leave_memory(const Tensor& t, const Dims& shape, DType dtype, bool shares) {
  if (!t->meta) return;
  const Ref<Node> fn = grad_fn(t);
  Meta& m = *t->meta;
  if (m.base.defined()) {
    m.steps = nullptr;
    m.form = nullptr;
    m.view_name = nullptr;
    if (!shares) m.base = Tensor();
  }
  if (t->shape == shape && t->dtype == dtype) return;
  if (m.form && m.form.use_count() > 1) {  // views look at it
    m.form->undo = m.form->redo = gone;
    m.form = m.form->next = std::make_shared<Form>();
  }
  if (fn) {
    m.grad_fn = fitting(t->shape, t->dtype, {fn, m.output_nr});
    m.output_nr = 0;
  }
}

}  // namespace pyflame::autograd
