#include "table/row_state.h"

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "core/lock.h"
#include "pyflame/error.h"
#include "table/sym.h"

namespace pyflame::table {
namespace {

constexpr int kMaxRows = 16384;

struct RuntimeRow {
  std::string name;
  int arity, nattrs;
  Rule rule;
};

struct Rows {
  RecursiveMutex mutex;
  std::array<std::atomic<const Expr*>, kMaxRows> expressions{};
  std::array<std::atomic<const RowState*>, kMaxRows> states{};
  std::vector<RuntimeRow> runtime;
  std::unordered_multimap<uint64_t, OpId> by_hash;
};
Rows& rows() {
  static auto* r = new Rows;
  return *r;
}

// ---- expressions of the table's rows: the bodies over symbols -----------------------------------

// A body names only what it uses, so the operands of all rows are offered and many stay unused.

using T = Sym;

int root_of(Sym s) {
  return s.id;
}
int root_of(SymMask m) {
  return m.id;
}

// Masks where the rule says that an operand arrives as one.
template <Rule R, int I>
auto operand(Graph& g, int shift) {
  constexpr bool kMask = R == Rule::Logic || (R == Rule::Select && I == 0);
  const int id = g.input(I + shift, kMask);
  if constexpr (kMask)
    return SymMask{id};
  else
    return Sym::at(id);
}

#define PF_OPERANDS(RULE, SHIFT)                                               \
  [[maybe_unused]] const auto x = operand<Rule::RULE, 0>(g, SHIFT);            \
  [[maybe_unused]] const auto y = operand<Rule::RULE, 1>(g, SHIFT);            \
  [[maybe_unused]] const auto z = operand<Rule::RULE, 2>(g, SHIFT);            \
  [[maybe_unused]] const Sym a0 = Sym::at(g.attr(0)), a1 = Sym::at(g.attr(1)); \
  [[maybe_unused]] const Sym a2 = Sym::at(g.attr(2)), a3 = Sym::at(g.attr(3))

using BodyFn = int (*)(Graph&);

constexpr BodyFn kBodies[] = {
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, GRAD, REFERENCE, DOC) \
  [](Graph& g) -> int {                                                    \
    GraphScope scope(g);                                                   \
    PF_OPERANDS(RULE, 0);                                                  \
    return root_of(BODY);                                                  \
  },
#include "table/pointwise.def"
#undef PF_POINTWISE
};

// Gradients written in the table; input i of row r. Null where there is none.
int pick(int input, std::initializer_list<int> ids) {
  return input < static_cast<int>(ids.size()) ? ids.begin()[input] : -1;
}
template <class... S>
int pick_of(int input, S... s) {
  return pick(input, {root_of(s)...});
}

using GradFn = int (*)(Graph&, int input);

constexpr GradFn kGradients[] = {
#define PF_SYM_GRAD_NONE return -1
#define PF_SYM_GRAD_AUTO return -1
#define PF_SYM_GRAD_FROM_INPUTS(...) return pick_of(input, __VA_ARGS__)
#define PF_SYM_GRAD_FROM_RESULT(...) \
  [[maybe_unused]] const Sym r = x;  \
  return pick_of(input, __VA_ARGS__)
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, GRAD, REFERENCE, DOC)   \
  [](Graph& graph, [[maybe_unused]] int input) -> int {                      \
    GraphScope scope(graph);                                                 \
    [[maybe_unused]] const Sym g_ = Sym::at(graph.input(0));                 \
    Graph& g_graph = graph;                                                  \
    return [&]([[maybe_unused]] Graph& g) {                                  \
      PF_OPERANDS(RULE, 1);                                                  \
      return [&]([[maybe_unused]] Sym g) -> int { PF_SYM_GRAD_##GRAD; }(g_); \
    }(g_graph);                                                              \
  },
#include "table/pointwise.def"
#undef PF_POINTWISE
#undef PF_SYM_GRAD_NONE
#undef PF_SYM_GRAD_AUTO
#undef PF_SYM_GRAD_FROM_INPUTS
#undef PF_SYM_GRAD_FROM_RESULT
};

const Expr* build_expression(OpId id) {
  if (id < kNumRows) {
    Graph g;
    return new Expr(g.extract(kBodies[id](g)));
  }
  const OpId row = forward_of(id);
  const int input = input_of(id);
  const RowInfo& info = kRowTable[row];
  if (input >= info.arity || info.grad == Grad::NONE) {
    Graph g;
    return new Expr(g.extract(g.constant(0)));
  }
  if (info.grad == Grad::AUTO) return new Expr(gradient(expression(row), input));
  Graph g;
  return new Expr(g.extract(kGradients[row](g, input)));
}

// ---- plans --------------------------------------------------------------------------------------

// The gradient of operand i of a row that is no forward row of the table: a row made from the
// derivative, over those operands that it reads.
GradPlan derived_plan(const Expr& e, int input, const std::string& name, int nattrs) {
  GradPlan plan;
  Expr d = gradient(e, input);
  if (d.is_zero()) return plan.kind = GradPlan::Zero, plan;
  if (d.is_input(0)) return plan.kind = GradPlan::Pass, plan;
  auto compact = [&](Expr& expr, int shift) {
    int at[8];
    for (int k = 0, n = expr.num_inputs(); k < n; ++k) {
      if (!expr.uses_input(k)) continue;
      if (plan.n < 4) plan.source[plan.n] = static_cast<int8_t>(k - shift);
      at[k] = plan.n++;
    }
    for (auto& n : expr.nodes)
      if (n.op == Micro::Input) n.index = static_cast<uint8_t>(at[n.index]);
  };
  plan.kind = GradPlan::Row;
  Expr full = d;
  compact(full, 1);
  if (plan.n > 4) {
    Graph g;
    std::vector<int> inputs(8, -1);
    for (const auto& n : e.nodes)
      if (n.op == Micro::Input) inputs[n.index] = g.input(n.index, n.mask);
    const int root = g.insert(e, inputs);
    full = g.extract(derivative(g, root, input));
    plan.kind = GradPlan::Product;
    plan.n = 0;
    compact(full, 0);
  }
  plan.row = runtime_row(full, name + "_backward", plan.n, nattrs, Rule::Float);
  return plan;
}

// A native gradient row takes all operands of its forward; those that its expression does not
// read are given as a number, so that they need not be kept.
GradPlan native_plan(OpId row, int input) {
  GradPlan plan;
  const RowInfo& info = kRowTable[row];
  const OpId id = gradient_row(row, input);
  const Expr& e = expression(id);
  if (e.is_zero()) return plan.kind = GradPlan::Zero, plan;
  if (e.is_input(0)) return plan.kind = GradPlan::Pass, plan;
  if (e.nodes.size() == 2 && e.root().op == Micro::Neg && e.nodes[0].op == Micro::Input &&
      e.nodes[0].index == 0)
    return plan.kind = GradPlan::Negate, plan;
  plan.kind = GradPlan::Row;
  plan.row = id;
  plan.source[plan.n++] = GradPlan::kG;
  if (info.grad == Grad::FROM_RESULT) {
    plan.source[plan.n++] = GradPlan::kResult;
  } else {
    for (int k = 0; k < info.arity; ++k)
      plan.source[plan.n++] =
          e.uses_input(k + 1) ? static_cast<int8_t>(k) : static_cast<int8_t>(GradPlan::kNumber);
  }
  return plan;
}

const RowState* build_state(OpId id) {
  auto* s = new RowState;
  s->id = id;
  const Expr& e = expression(id);
  if (id < kNumRows) {
    const RowInfo& info = kRowTable[id];
    s->name = info.name;
    s->arity = info.arity;
    s->nattrs = info.nattrs;
    s->rule = info.rule;
    s->differentiable = info.grad != Grad::NONE;
    for (int i = 0; s->differentiable && i < s->arity; ++i) s->grad[i] = native_plan(id, i);
  } else {
    if (is_gradient_row(id)) {
      const RowInfo& info = kRowTable[forward_of(id)];
      s->name = std::string(info.name) + "_backward";
      s->arity = static_cast<uint8_t>(operand_count(id));
      s->nattrs = info.nattrs;
    } else {
      const RuntimeRow& r = rows().runtime[id - kFirstRuntimeRow];
      s->name = r.name;
      s->arity = static_cast<uint8_t>(r.arity);
      s->nattrs = static_cast<uint8_t>(r.nattrs);
      s->rule = r.rule;
      s->runtime = true;
    }
    s->differentiable = !e.root().mask;
  }
  s->mask_result = e.root().mask;
  for (const auto& n : e.nodes)
    if (n.op == Micro::Input && n.mask) s->masks |= static_cast<uint8_t>(1 << n.index);
  if (s->differentiable && id >= kNumRows)
    for (int i = 0; i < s->arity; ++i)
      if (!(s->masks >> i & 1)) s->grad[i] = derived_plan(e, i, s->name, s->nattrs);
  if (id == op::cast) {
    s->differentiable = true;
    s->grad[0].kind = GradPlan::Pass;
  }
  for (const GradPlan& p : s->grad)
    for (int k = 0; k < p.n; ++k) {
      if (p.source[k] == GradPlan::kResult) s->saves_result = true;
      if (p.source[k] >= 0) s->saves |= static_cast<uint8_t>(1 << p.source[k]);
    }
  return s;
}

}  // namespace

const Expr& expression(OpId id) {
  Rows& r = rows();
  auto& slot = r.expressions[id];
  if (const Expr* e = slot.load(std::memory_order_acquire)) return *e;
  std::lock_guard lock(r.mutex);
  if (const Expr* e = slot.load(std::memory_order_acquire)) return *e;
  PF_CHECK(id < kFirstRuntimeRow, ValueError, "ops", "got the row number ", id,
           "; expected one that exists");
  const Expr* e = build_expression(id);
  slot.store(e, std::memory_order_release);
  return *e;
}

const RowState& row_state(OpId id) {
  Rows& r = rows();
  auto& slot = r.states[id];
  if (const RowState* s = slot.load(std::memory_order_acquire)) return *s;
  std::lock_guard lock(r.mutex);
  if (const RowState* s = slot.load(std::memory_order_acquire)) return *s;
  const RowState* s = build_state(id);
  slot.store(s, std::memory_order_release);
  return *s;
}

OpId runtime_row(const Expr& e, const std::string& name, int arity, int nattrs, Rule rule) {
  Rows& r = rows();
  std::lock_guard lock(r.mutex);
  const uint64_t h = e.hash();
  for (auto [it, end] = r.by_hash.equal_range(h); it != end; ++it) {
    const RuntimeRow& known = r.runtime[it->second - kFirstRuntimeRow];
    if (known.arity == arity && known.nattrs == nattrs && known.rule == rule &&
        expression(it->second) == e)
      return it->second;
  }
  const size_t n = r.runtime.size();
  PF_CHECK(kFirstRuntimeRow + n < kMaxRows, ValueError, "ops.define", "there are already ", n,
           " rows made at run time; expected fewer; pass what changes as an attribute instead of "
           "writing it into the expression");
  const OpId id = static_cast<OpId>(kFirstRuntimeRow + n);
  r.runtime.push_back({name, arity, nattrs, rule});
  r.expressions[id].store(new Expr(e), std::memory_order_release);
  r.by_hash.emplace(h, id);
  return id;
}

int operand_count(OpId id) {
  if (id < kNumRows) return kRowTable[id].arity;
  if (is_gradient_row(id)) {
    const RowInfo& info = kRowTable[forward_of(id)];
    return info.grad == Grad::FROM_RESULT ? 2 : info.arity + 1;
  }
  return row_state(id).arity;
}

std::string row_name(OpId id) {
  return row_state(id).name;
}

}  // namespace pyflame::table
