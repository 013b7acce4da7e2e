#include "ops/record.h"
#include "core/pool.h"

#include <array>
#include <cmath>
#include <memory>

#include "engine/autograd.h"
#include "engine/autograd_nodes.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/unsigned.h"

namespace pyflame::ops {
namespace {

// ---- dtypes -------------------------------------------------------------------------------------

struct Types {
  DType common;   // operands are converted to it
  DType compute;  // the body is evaluated in it
  DType out;
};

DType compute_of(DType t) {
  return t == DType::Bool ? DType::Int32 : compute_type(t);
}

// The function behind which a row without a name of its own stands.
OpId public_row(OpId id) {
  switch (id) {
    case op::add_scaled:
      return op::add;
    case op::pow_scalar:
      return op::pow;
    case op::clamp_tensor:
      return op::clamp;
    case op::clamp_min_tensor:
      return op::clamp_min;
    case op::clamp_max_tensor:
      return op::clamp_max;
    case op::gelu_tanh:
      return op::gelu;
    default:
      return id;
  }
}

const char* name_of(OpId id) {
  return id < kNumRows ? kRowTable[public_row(id)].name : row_state(id).name.c_str();
}

const char* inplace_name(OpId id) {
  static constexpr const char* kNames[] = {
#define PF_POINTWISE(NAME, ...) #NAME "_",
#include "table/pointwise.def"
#undef PF_POINTWISE
  };
  return id < kNumRows ? kNames[public_row(id)] : name_of(id);
}

Rule rule_of(OpId id) {
  return id < kNumRows ? kRowTable[id].rule : row_state(id).rule;
}

Types types_of(OpId id, Rule rule, DType common) {
  if (has_no_arithmetic(common)) [[unlikely]]
    PF_FAIL(DTypeError, name_of(id), "got ", common,
            "; it can be stored and converted but not calculated with; use to() first");
  switch (rule) {
    case Rule::Cast:
    case Rule::Keep:
    case Rule::Arith:
    case Rule::Select:
      return {common, compute_of(common), common};
    case Rule::Float:
      if (!is_float(common)) common = default_dtype();
      if (id >= kFirstRuntimeRow && row_state(id).mask_result)
        return {common, compute_type(common), DType::Bool};
      return {common, compute_type(common), common};
    case Rule::IntOnly:
      PF_CHECK(!is_float(common), DTypeError, name_of(id), "got ", common,
               "; expected integers or bools; convert with to() first");
      return {common, compute_of(common), common};
    case Rule::Compare:
      return {common, compute_of(common), DType::Bool};
    case Rule::Test:
      if (!is_float(common)) common = default_dtype();
      return {common, compute_type(common), DType::Bool};
    case Rule::Logic:
      return {DType::Bool, DType::Bool, DType::Bool};
  }
  return {common, common, common};
}

// 0 bool, 1 integers, 2 floats, 3 complex.
int category(DType t) {
  switch (info(t).kind) {
    case Kind::Bool:
      return 0;
    case Kind::UInt:
    case Kind::Int:
      return 1;
    case Kind::Float:
      return 2;
    case Kind::Complex:
      return 3;
  }
  return 0;
}

struct MaybeType {
  DType t = DType::Bool;
  bool known = false;
  void add(DType o) {
    t = known ? promote(t, o) : o;
    known = true;
  }
};

DType combine(MaybeType high, MaybeType low) {
  if (!high.known) return low.t;
  if (!low.known || category(low.t) <= category(high.t)) return high.t;
  if (is_complex(low.t) && is_float(high.t)) return complex_type(high.t);
  return low.t;
}

// The dtype that all operands but masks are converted to; quick when they agree.
DType common_type(std::span<const Operand> operands, unsigned masks) {
  DType t = DType::Bool;
  bool first = true, simple = true;
  for (size_t i = 0; i < operands.size() && simple; ++i) {
    if (masks >> i & 1) continue;
    const Operand& o = operands[i];
    if (o.tensor) {
      const DType u = (*o.tensor)->dtype;
      simple = first || u == t;
      t = u;
      first = false;
    }
  }
  if (simple && !first) {
    if (is_float(t)) return t;
    for (size_t i = 0; i < operands.size(); ++i)
      if (!(masks >> i & 1) && !operands[i].tensor &&
          category(dtype_of(operands[i].scalar)) > category(t))
        simple = false;
    if (simple) return t;
  }
  if (!masks) return result_type(operands);
  Operand rest[4] = {Scalar(), Scalar(), Scalar(), Scalar()};
  size_t n = 0;
  for (size_t i = 0; i < operands.size(); ++i)
    if (!(masks >> i & 1)) rest[n++] = operands[i];
  return result_type({rest, n});
}

unsigned masks_of(OpId id, Rule rule) {
  if (id >= kNumRows) return row_state(id).masks;
  return rule == Rule::Select ? 1u : 0u;
}

// ---- gradient ----------------------------------------------------------------------------

inline bool may_require(const Tensor& t) {
  return t->requires_grad || t->meta;
}

bool wanted(std::span<const Operand> operands) {
  bool may = false;
  for (const Operand& o : operands) may |= o.tensor && may_require(*o.tensor);
  if (!may || !grad_enabled()) return false;
  for (const Operand& o : operands)
    if (o.tensor && autograd::requires_grad(*o.tensor)) return true;
  return false;
}

// The gradient node of every row.
struct PointwiseNode final : autograd::Node, autograd::Redoable, autograd::Gate {
  const RowState* row;
  uint8_t nin = 0, first = 0;  // operands; where they begin in `next`
  uint8_t kept = 0;            // bit i: operand i is saved[i]
  uint8_t numbers = 0;         // bit i: operand i is values[i]
  uint8_t broadcast = 0;       // bit i: operand i was smaller than the result
  DType in_dtype = DType::Float32;
  Scalar values[4];
  Scalar attrs[4];
  autograd::Saved saved[4];
  autograd::Saved result;
  std::unique_ptr<Dims[]> shapes;  // of broadcast operands

  explicit PointwiseNode(const RowState& r) : Node(r.name.c_str()), row(&r) {}
  autograd::Grads apply(const autograd::Grads& grads) override;
  void release() override {
    for (auto& s : saved) s.reset();
    result.reset();
  }
  void each_owned(autograd::Owned& o) const override {
    Node::each_owned(o);
    for (const auto& s : saved) s.each_owned(o);
    result.each_owned(o);
  }
  std::function<Tensor()> again(DType type) const override;
  bool is_gate() const override {
    return row->id == op::relu && nin == 1 && first == 0 && result.get(*this).defined();
  }
  static void* operator new(size_t);
  static void operator delete(void*);

 private:
  Tensor gradient(int i, const Tensor& g);
};

void* PointwiseNode::operator new(size_t) {
  return Pool<PointwiseNode>::take();
}
void PointwiseNode::operator delete(void* p) {
  Pool<PointwiseNode>::give(p);
}

Tensor record(OpId id, const Dims& shape, DType out, DType compute, Device device,
              std::span<const Operand> operands, std::span<const Scalar> attrs);

Tensor constant_like(const Tensor& g, Scalar v) {
  const Operand value[] = {v};
  return engine::pointwise(op::cast, g->shape, g->dtype, compute_of(g->dtype), g->storage->device,
                           value);
}

Tensor PointwiseNode::gradient(int i, const Tensor& g) {
  const GradPlan& plan = row->grad[i];
  const auto row_attrs = std::span<const Scalar>(attrs, row->nattrs);
  auto node = [&]() -> Tensor {
    Tensor held[4];
    Operand operands[4] = {Scalar(0), Scalar(0), Scalar(0), Scalar(0)};
    for (int k = 0; k < plan.n; ++k) {
      const int s = plan.source[k];
      if (s == GradPlan::kG) {
        operands[k] = Operand(g);
      } else if (s == GradPlan::kResult) {
        held[k] = result.get(*this);
        operands[k] = Operand(held[k]);
      } else if (s >= 0 && (numbers >> s & 1)) {
        operands[k] = Operand(values[s]);
      } else if (s >= 0) {
        held[k] = saved[s].get(*this);
        operands[k] = Operand(held[k]);
      }
    }
    for (int k = 0; k < plan.n; ++k)
      if (held[k].defined() && !(held[k]->shape == g->shape))
        PF_CHECK(broadcast_shapes(g->shape, held[k]->shape, name) == g->shape, ShapeError,
                 "backward", "a tensor that ", name, " needs has shape ", held[k]->shape,
                 " now and its gradient ", g->shape, "; do not assign .data before backward()");
    return record(plan.row, g->shape, g->dtype, compute_type(g->dtype), g->storage->device,
                  {operands, plan.n}, row_attrs);
  };
  switch (plan.kind) {
    case GradPlan::None:
      return {};
    case GradPlan::Zero:
      return constant_like(g, 0);
    case GradPlan::Pass:
      return g;
    case GradPlan::Negate:
      return neg(g);
    case GradPlan::Row:
      return node();
    case GradPlan::Product:
      return mul(g, node());
  }
  return {};
}

autograd::Grads PointwiseNode::apply(const autograd::Grads& grads) {
  autograd::Grads out(next.size());
  Tensor g = grads[0];
  if (!g.defined()) return out;
  for (int i = 0; i < nin; ++i) {
    const size_t at = static_cast<size_t>(i + first);
    if (!needs(at)) continue;
    Tensor d = gradient(i, g);
    if (!d.defined()) continue;
    if (broadcast >> i & 1) d = ops::sum_to(d, shapes[static_cast<size_t>(i)]);
    out[at] = row->id == op::cast ? to(d, in_dtype) : std::move(d);
  }
  return out;
}

// From its operands, where the gradient keeps all of them. A cast keeps none: from what it was made
// of, a tensor that stays anyway (a leaf) or can be made again itself.
std::function<Tensor()> PointwiseNode::again(DType type) const {
  if (first != 0) return {};
  if (row->id == op::cast && nin == 1 && kept == 0 && numbers == 0 && next[0].node) {
    if (auto* leaf = dynamic_cast<autograd::Accumulate*>(next[0].node.get())) {
      const Tensor t = leaf->leaf();
      if (!t.defined() || t->dtype != in_dtype || autograd::recomputes_unasked()) return {};
      return [type, source = autograd::Saved(t), owner = autograd::make_owner(name)] {
        return to(source.get(*owner), type);
      };
    }
    const auto* source = dynamic_cast<const autograd::Redoable*>(next[0].node.get());
    if (!source || next[0].input != 0) return {};
    std::function<Tensor()> fn = source->again(in_dtype);
    if (!fn) return {};
    return [type, fn = std::move(fn)] { return to(fn(), type); };
  }
  if ((kept | numbers) != (1 << nin) - 1 || kept == 0) return {};
  struct Operands {
    OpId id;
    size_t n;
    std::vector<Scalar> attrs;
    Scalar values[4];
    autograd::Saved saved[4];
    uint8_t kept;
    Ref<autograd::Node> owner;
  };
  auto o = std::make_shared<Operands>();
  o->id = row->id;
  o->n = nin;
  o->attrs.assign(attrs, attrs + row->nattrs);
  std::copy_n(values, 4, o->values);
  std::copy_n(saved, 4, o->saved);
  o->kept = kept;
  o->owner = autograd::make_owner(name);
  return [o, type] {
    Tensor held[4];
    Operand operands[4] = {Scalar(0), Scalar(0), Scalar(0), Scalar(0)};
    for (size_t i = 0; i < o->n; ++i) {
      if (o->kept >> i & 1) held[i] = o->saved[i].get(*o->owner);
      operands[i] = held[i].defined() ? Operand(held[i]) : Operand(o->values[i]);
    }
    return to(call_row(o->id, {operands, o->n}, o->attrs), type);
  };
}

// The node of a row over `operands` (after conversion to the common dtype), without the result.
// `saved_first` stands for operand 0 when that is about to be overwritten.
PointwiseNode* make_node(const RowState& row, const Dims& shape, std::span<const Operand> operands,
                         std::span<const Scalar> attrs, int first = 0,
                         const Tensor* saved_first = nullptr) {
  auto* node = new PointwiseNode(row);
  node->nin = static_cast<uint8_t>(operands.size());
  node->first = static_cast<uint8_t>(first);
  node->next.resize(operands.size() + static_cast<size_t>(first));
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    if (!o.tensor) {
      node->numbers |= static_cast<uint8_t>(1 << i);
      node->values[i] = o.scalar;
      continue;
    }
    const Tensor& t = *o.tensor;
    if (may_require(t)) node->next[i + static_cast<size_t>(first)] = autograd::edge_of(t);
    if (!(t->shape == shape)) {
      if (!node->shapes) node->shapes = std::make_unique<Dims[]>(operands.size());
      node->shapes[i] = t->shape;
      node->broadcast |= static_cast<uint8_t>(1 << i);
    }
  }
  // Keep only what the gradients that will be asked for read.
  unsigned keep = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!node->has_edge(i + static_cast<size_t>(first))) continue;
    const GradPlan& p = row.grad[i];
    for (int k = 0; k < p.n; ++k)
      if (p.source[k] >= 0) keep |= 1u << p.source[k];
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!(keep >> i & 1) || !operands[i].tensor) continue;
    const bool overwritten =
        saved_first && operands[i].tensor->impl() == operands[0].tensor->impl();  // x *= x
    node->saved[i] = autograd::Saved(overwritten ? *saved_first : *operands[i].tensor);
    node->kept |= static_cast<uint8_t>(1 << i);
  }
  for (size_t i = 0; i < attrs.size(); ++i) node->attrs[i] = attrs[i];
  return node;
}

// One node into the engine, and its gradient node when one is wanted. Operands are converted.
Tensor record(OpId id, const Dims& shape, DType out, DType compute, Device device,
              std::span<const Operand> operands, std::span<const Scalar> attrs) {
  Tensor r = engine::pointwise(id, shape, out, compute, device, operands, attrs);
  if (wanted(operands) && has_gradient(out)) [[unlikely]] {
    const RowState& row = row_state(id);
    if (row.differentiable) {
      PointwiseNode* node = make_node(row, shape, operands, attrs);
      auto ref = Ref<autograd::Node>::adopt(node);
      if (id == op::cast) node->in_dtype = (*operands[0].tensor)->dtype;
      if (row.saves_result) node->result = autograd::Saved(r, true);
      autograd::attach(std::move(ref), {&r, 1}, {});
    }
  }
  return r;
}

// ---- operands -----------------------------------------------------------------------------------

// Operands ready for the engine, which brings them to one device: of the common dtype.
struct Prepared {
  Operand operands[4] = {Scalar(), Scalar(), Scalar(), Scalar()};
  Tensor held[4];
  size_t n;
  Device device;
};

void prepare(Rule rule, std::span<const Operand> operands, unsigned masks, const Types& types,
             Prepared* p) {
  p->n = operands.size();
  for (size_t i = 0; i < p->n; ++i) {
    p->operands[i] = operands[i];
    if (!operands[i].tensor) {
      if (rule == Rule::Logic || (masks >> i & 1))
        p->operands[i].scalar = Scalar(operands[i].scalar.to_double() != 0);
      continue;
    }
    const Tensor& t = *operands[i].tensor;
    p->device = t->storage->device;
    const DType want = masks >> i & 1 ? DType::Bool : types.common;
    if (t->dtype != want) p->held[i] = to(t, want);
    if (p->held[i].defined()) p->operands[i] = Operand(p->held[i]);
  }
}

// Numbers that a row puts beside elements or into them must have a place in the dtype; those that
// are calculated with wrap, as in PyTorch. Attributes of floats may be anything.
void check_numbers(OpId id, Rule rule, DType common, std::span<const Operand> operands,
                   std::span<const Scalar> attrs) {
  const bool puts = id == op::maximum || id == op::minimum || id == op::fmax || id == op::fmin ||
                    id == op::heaviside || id == op::pow;
  if (rule == Rule::Select || (puts && !is_float(common)))
    for (const Operand& o : operands)
      if (!o.tensor) check_range(o.scalar, common, name_of(id));
  if (rule == Rule::Arith && is_integral(common))
    for (const Scalar& a : attrs) check_range(a, common, name_of(id));
  if ((id == op::clamp || id == op::clamp_max) && info(common).kind == Kind::UInt)
    PF_CHECK(attrs.back().to_double() >= 0, ValueError, name_of(id), "got ",
             attrs.back().to_double(), " as the greatest ", common,
             "; expected at least 0; choose a signed dtype");
  // 2^32 as a divisor of int32 would be 0.
  if ((id == op::floor_divide || id == op::remainder || id == op::fmod) && is_integral(common))
    for (const Operand& o : operands)
      if (!o.tensor)
        check_range(o.scalar, is_wide_unsigned(common) ? common : compute_of(common), name_of(id),
                    "the divisor");
}

// An integer that lies beyond what integers are compared in is greater (1) or less (-1) than every
// element; 0 otherwise.
int beyond(const Operand& o, const Types& types) {
  const Scalar s = o.scalar;
  if (o.tensor || s.is_float()) return 0;
  if (types.common == DType::UInt64) return s.is_unsigned() || s.i >= 0 ? 0 : -1;
  if (s.is_unsigned()) return 1;
  if (types.compute != DType::Int32) return 0;
  return s.i > INT32_MAX ? 1 : s.i < INT32_MIN ? -1 : 0;
}

// The result of a comparison that is the same for every element.
std::optional<bool> foregone(OpId id, const Types& types, std::span<const Operand> operands) {
  if (rule_of(id) != Rule::Compare || is_float(types.common)) return {};
  const int order = beyond(operands[0], types) - beyond(operands[1], types);
  if (order == 0) return {};
  switch (id) {
    case op::eq:
      return false;
    case op::ne:
      return true;
    case op::lt:
    case op::le:
      return order < 0;
    default:
      return order > 0;
  }
}

void check_mask(OpId id, const Operand& o) {
  if (o.tensor)
    PF_CHECK((*o.tensor)->dtype == DType::Bool || (*o.tensor)->dtype == DType::UInt8, DTypeError,
             name_of(id), "got a condition of dtype ", (*o.tensor)->dtype,
             "; expected bool; compare it first, for example x != 0");
}

}  // namespace

bool kind_fits(DType from, DType to) {
  return category(from) <= category(to);
}

DType dtype_of(Scalar s) {
  return s.is_float() ? default_dtype() : s.is_bool() ? DType::Bool : DType::Int64;
}

DType result_type(std::span<const Operand> operands) {
  MaybeType dimensioned, zero_dim, number;
  for (const Operand& o : operands) {
    if (!o.tensor)
      number.add(dtype_of(o.scalar));
    else if ((*o.tensor)->shape.empty())
      zero_dim.add((*o.tensor)->dtype);
    else
      dimensioned.add((*o.tensor)->dtype);
  }
  MaybeType upper{combine(dimensioned, zero_dim), dimensioned.known || zero_dim.known};
  return combine(upper, number);
}

namespace {

// What a row of the table makes of floats of one dtype: the common case of recording.
enum class Quick : uint8_t { No, Same, Bool };
constexpr auto kQuick = [] {
  std::array<Quick, kNumRows> q{};
  for (OpId i = 1; i < kNumRows; ++i) {
    const Rule r = kRowTable[i].rule;
    q[i] = r == Rule::Float || r == Rule::Arith || r == Rule::Keep ? Quick::Same
           : r == Rule::Compare || r == Rule::Test                 ? Quick::Bool
                                                                   : Quick::No;
  }
  return q;
}();

// Whether the tensors among the operands are floats of one dtype, shape and device: then nothing
// needs to be resolved. `may` tells whether a gradient could be wanted.
inline const TensorImpl* uniform(std::span<const Operand> operands, bool* may) {
  const TensorImpl* first = nullptr;
  for (const Operand& o : operands) {
    if (!o.tensor) {
      if (o.scalar.is_bool()) return nullptr;
      continue;
    }
    const TensorImpl* t = o.tensor->impl();
    *may |= t->requires_grad || t->meta;
    if (!first)
      first = t;
    else if (t->dtype != first->dtype || !(t->shape == first->shape) ||
             !(t->storage->device == first->storage->device))
      return nullptr;
  }
  if (!first || info(first->dtype).kind != Kind::Float || info(first->dtype).storage_only)
    return nullptr;
  return first;
}

// Under autocast: 16-bit operands in float32, on GPUs.
Tensor call_raised(OpId id, std::span<const Operand> operands, std::span<const Scalar> attrs) {
  amp::Casting cast(amp::Class::RaiseElseFollow);
  for (const Operand& o : operands)
    if (o.tensor) cast.look(*o.tensor);
  Tensor held[4];
  Operand raised[4] = {Scalar(), Scalar(), Scalar(), Scalar()};
  for (size_t i = 0; i < operands.size(); ++i) {
    raised[i] = operands[i];
    if (!operands[i].tensor) continue;
    held[i] = cast(*operands[i].tensor);
    raised[i] = Operand(held[i]);
  }
  return call_row(id, {raised, operands.size()}, attrs);
}

// Numbers that have no meaning for a row.
void check_attributes(OpId id, std::span<const Scalar> attrs) {
  const auto a = [&](size_t i) { return attrs[i].to_double(); };
  switch (id) {
    case op::hardtanh:
      PF_CHECK(a(0) <= a(1), ValueError, "hardtanh", "got min_val ", a(0), " and max_val ", a(1),
               "; expected min_val to be at most max_val; exchange them");
      return;
    case op::celu:
      PF_CHECK(a(0) != 0, ValueError, "celu", "got alpha=0; expected another number; pass alpha=1");
      return;
    case op::softshrink:
      PF_CHECK(a(0) >= 0, ValueError, "softshrink", "got lambd ", a(0),
               "; expected at least 0; pass its magnitude");
      return;
    case op::isclose:
      PF_CHECK(a(0) >= 0 && a(1) >= 0, ValueError, "isclose", "got rtol ", a(0), " and atol ", a(1),
               "; expected at least 0; pass their magnitudes");
      return;
    default:
      return;
  }
}

// The dtype of integers or bools with a row's numbers: bounds of clamp count like operands; those
// of hardtanh and threshold are cut to integers, as PyTorch's are (they are put into `whole`).
DType with_attributes(OpId id, Rule rule, DType common, std::span<const Scalar>* attrs,
                      Scalar whole[4]) {
  if (rule != Rule::Arith || is_float(common)) [[likely]]
    return common;
  if (common == DType::Bool && (id == op::square || id == op::cube))
    return DType::Int64;  // to the power of an integer
  if (id == op::hardtanh || id == op::threshold) {
    for (size_t i = 0; i < attrs->size(); ++i) {
      const Scalar& a = (*attrs)[i];
      whole[i] = a.is_float() && std::abs(a.f) < 9e18 ? Scalar(static_cast<int64_t>(a.f)) : a;
    }
    *attrs = {whole, attrs->size()};
    return common;
  }
  const bool bounds = id == op::clamp || id == op::clamp_min || id == op::clamp_max;
  for (const Scalar& a : *attrs) {
    if (a.is_float() && (bounds || a.f != std::trunc(a.f))) return default_dtype();
    if (bounds && common == DType::Bool && !a.is_bool()) common = DType::Int64;
  }
  return common;
}

}  // namespace

Tensor relu_gradient(const Tensor& g, const Tensor& result) {
  const GradPlan& plan = row_state(op::relu).grad[0];
  Operand operands[4] = {Scalar(0), Scalar(0), Scalar(0), Scalar(0)};
  for (int k = 0; k < plan.n; ++k)
    operands[k] = Operand(plan.source[k] == GradPlan::kG ? g : result);
  return record(plan.row, g->shape, g->dtype, compute_type(g->dtype), g->storage->device,
                {operands, static_cast<size_t>(plan.n)}, {});
}

Tensor call_row(OpId id, std::span<const Operand> operands, std::span<const Scalar> attrs) {
  if (!attrs.empty()) check_attributes(id, attrs);
  if (amp::on()) [[unlikely]]
    if (amp::class_of_row(id) != amp::Class::Follow) return call_raised(id, operands, attrs);
  if (id < kNumRows && kQuick[id] != Quick::No) [[likely]] {
    bool may = false;
    if (const TensorImpl* t = uniform(operands, &may)) [[likely]] {
      const DType out = kQuick[id] == Quick::Same ? t->dtype : DType::Bool;
      const DType compute = compute_type(t->dtype);
      if (!may) [[likely]]
        return engine::pointwise(id, t->shape, out, compute, t->storage->device, operands, attrs);
      return record(id, t->shape, out, compute, t->storage->device, operands, attrs);
    }
  }
  const Rule rule = rule_of(id);
  const unsigned masks = masks_of(id, rule);
  if (masks) [[unlikely]]
    for (size_t i = 0; i < operands.size(); ++i)
      if (masks >> i & 1) check_mask(id, operands[i]);
  Scalar whole[4];
  const DType common = common_type(operands, masks);
  if (is_complex(common)) [[unlikely]]
    return complex_row(id, operands, attrs, common, name_of(id));
  const Types types = types_of(id, rule, with_attributes(id, rule, common, &attrs, whole));
  if (rule == Rule::Keep && !is_float(types.common)) return call_row(op::cast, operands);
  check_numbers(id, rule, types.common, operands, attrs);

  Prepared p;
  prepare(rule, operands, masks, types, &p);
  Dims shape;
  for (size_t i = 0; i < p.n; ++i)
    if (p.operands[i].tensor)
      shape = broadcast_shapes(shape, (*p.operands[i].tensor)->shape, name_of(id));
  if (const auto same = foregone(id, types, operands)) {
    const Operand value[] = {Scalar(*same)};
    return engine::pointwise(op::cast, shape, DType::Bool, compute_type(DType::Bool), p.device,
                             value);
  }
  if (is_wide_unsigned(types.common) && id != op::cast) [[unlikely]]
    return unsigned_row(id, {p.operands, p.n}, attrs, types.common, name_of(id));
  return record(id, shape, types.out, types.compute, p.device, {p.operands, p.n}, attrs);
}

Tensor& call_row_into(OpId id, Tensor& dst, std::span<const Operand> others,
                      std::span<const Scalar> attrs) {
  const char* name = inplace_name(id);
  if (!attrs.empty()) check_attributes(id, attrs);
  autograd::check_inplace(dst, name);
  Operand all[4] = {Operand(dst), Scalar(), Scalar(), Scalar()};
  for (size_t i = 0; i < others.size(); ++i) all[i + 1] = others[i];
  const std::span<const Operand> operands(all, others.size() + 1);
  if (id < kNumRows && kQuick[id] == Quick::Same) [[likely]] {
    bool may = false;
    if (uniform(operands, &may) && !may) {
      engine::pointwise_into(id, dst, compute_type(dst->dtype), operands, attrs);
      return dst;
    }
  }
  const Rule rule = rule_of(id);
  const unsigned masks = masks_of(id, rule);
  Scalar whole[4];
  const DType common = common_type(operands, masks);
  if (is_complex(common)) [[unlikely]] {
    PF_CHECK(is_complex(dst), DTypeError, name, "got a ", dst->dtype, " tensor for a result of ",
             common, "; it cannot be stored without loss; convert the tensor first or use ",
             name_of(id), "()");
    // What a gradient reads of the old values is kept.
    if (wanted(operands)) {
      const Tensor before = clone(dst);
      all[0] = Operand(before);
      return copy_(dst, complex_row(id, operands, attrs, common, name));
    }
    return copy_(dst, complex_row(id, operands, attrs, common, name));
  }
  const Types types = types_of(id, rule, with_attributes(id, rule, common, &attrs, whole));
  if (rule == Rule::Keep && !is_float(types.common)) return dst;
  check_numbers(id, rule, types.common, operands, attrs);

  for (const Operand& o : others)
    if (o.tensor && !((*o.tensor)->shape == dst->shape))
      PF_CHECK(broadcast_shapes(dst->shape, (*o.tensor)->shape, name) == dst->shape, ShapeError,
               name, "got a tensor of shape ", dst->shape, " and an operand of shape ",
               (*o.tensor)->shape, "; the result must have the shape of the tensor; use ",
               name_of(id), "() instead");
  if (types.out != dst->dtype || masks || is_wide_unsigned(types.common) ||
      foregone(id, types, operands)) {
    PF_CHECK(kind_fits(types.out, dst->dtype), DTypeError, name, "got a ", dst->dtype,
             " tensor for a result of ", types.out,
             "; it cannot be stored without loss; convert the tensor first or use ", name_of(id),
             "()");
    Tensor r = call_row(id, operands, attrs);
    return copy_(dst, r);
  }

  Prepared p;
  prepare(rule, operands, masks, types, &p);
  const bool needs_node = is_float(dst->dtype) && wanted(operands);
  Ref<autograd::Node> ref;
  PointwiseNode* node = nullptr;
  if (needs_node) {
    const RowState& row = row_state(id);
    if (row.differentiable) {
      // A gradient that reads the old value needs a copy of it.
      Tensor before;
      bool twice = false;
      for (const Operand& o : others) twice |= o.tensor && o.tensor->impl() == dst.impl();
      if ((row.saves & 1) || (row.saves && twice)) before = call_row(op::cast, {Operand(dst)});
      node = make_node(row, dst->shape, {p.operands, p.n}, attrs, 0,
                       before.defined() ? &before : nullptr);
      ref = Ref<autograd::Node>::adopt(node);
    }
  }
  engine::pointwise_into(id, dst, types.compute, {p.operands, p.n}, attrs);
  if (node && node->row->saves_result) node->result = autograd::Saved(dst, true);
  if (ref || dst->meta) autograd::rebase(dst, std::move(ref));
  return dst;
}

Tensor difference(const Operand& x, const Operand& y) {
  return call_row(op::sub, {x, y});
}

}  // namespace pyflame::ops

namespace pyflame {

using ops::Operand;
namespace op = ops::op;

Tensor to(const Tensor& t, DType dtype) {
  if (t->dtype == dtype) return t;
  const Operand operands[] = {t};
  return ops::record(op::cast, t->shape, dtype, compute_type(dtype), t->storage->device, operands,
                     {});
}

Tensor& copy_(Tensor& dst, const Tensor& src, bool non_blocking) {
  autograd::check_inplace(dst, "copy_");
  if (!(src->shape == dst->shape))
    PF_CHECK(broadcast_shapes(dst->shape, src->shape, "copy_") == dst->shape, ShapeError, "copy_",
             "got values of shape ", src->shape, " for a tensor of shape ", dst->shape,
             "; expected a shape that broadcasts to it; reshape or index the values");
  const bool across = !(src->storage->device == dst->storage->device);
  const Operand source[] = {src};
  if (across && src->shape == dst->shape && src->dtype == dst->dtype && src->contiguous &&
      dst->contiguous && !dst->storage->foreign && !dst->storage->poisoned &&
      !ops::wanted(source)) {
    engine::copy_bytes(dst, src, non_blocking);  // without a tensor between them
    note_write(*dst.impl());
    if (dst->meta) autograd::rebase(dst, {});
    return dst;
  }
  Tensor moved = across ? to(src, dst->storage->device, non_blocking) : src;
  const Operand operands[] = {moved};
  Ref<autograd::Node> ref;
  if (has_gradient(dst->dtype) && ops::wanted(operands)) {
    auto* node = ops::make_node(ops::row_state(op::cast), dst->shape, operands, {}, 1);
    node->in_dtype = src->dtype;
    ref = Ref<autograd::Node>::adopt(node);
  }
  engine::pointwise_into(op::cast, dst, compute_type(dst->dtype), operands);
  if (ref || dst->meta) autograd::rebase(dst, std::move(ref));
  return dst;
}

}  // namespace pyflame
