// From nodes to instructions: conversions where types differ, rounding after each node, registers
// by last use.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "cpu/pair_kernels.h"
#include "cpu/tape_code.h"
#include "pyflame/error.h"
#include "table/expr.h"
#include "table/rows.h"

namespace pyflame::cpu {
namespace {

using table::Expr;
using table::ExprNode;
using table::Micro;

// Where a value lives. Registers get their numbers last.
struct Value {
  enum Kind : uint8_t { kReg, kIn, kOut, kSlot };
  Reg type;
  Kind kind;
  int index;
  int last = -1;  // instruction that reads it last
};
struct Step {
  TileFn fn;
  int out;
  std::array<int, 4> in{-1, -1, -1, -1};
  int attr = -1;  // first slot
  uint16_t cost = 10;
  bool in_place = true;  // the result may take an operand's register
};

// Nothing may run that moves another number of bytes than memory holds: whether there is a way
// between storage and registers is asked here, for every dtype of a program.
void check_stored(DType t) {
  const bool plain = static_cast<int>(itemsize(t)) == reg_bytes(reg_of(t));
  PF_CHECK(!info(t).storage_only && (load_kernel(t) ? store_kernel(t) != nullptr : plain),
           NotSupportedError, "pointwise group", "got ", t,
           "; it can be stored and converted only; use to() first");
}

bool needs_rounding(DType t) {
  return round_kernel(t) != nullptr;
}

class Compiler {
 public:
  explicit Compiler(const pf_program& p) : p_(p) {
    loaded_.assign(p.ninputs, -1);
    nodes_.assign(p.nnodes, -1);
    for (uint32_t i = 0; i < p.ninputs; ++i) check_stored(static_cast<DType>(p.input_dtypes[i]));
    for (uint32_t i = 0; i < p.noutputs; ++i) check_stored(static_cast<DType>(p.output_dtypes[i]));
    for (uint32_t i = 0; i < p.nnodes; ++i) check_stored(static_cast<DType>(p.nodes[i].dtype));
    mark_used();
    for (uint32_t i = 0; i < p.nnodes; ++i)
      if (needed_[i]) node(static_cast<int>(i));
  }
  Tape finish();

 private:
  void mark_used();
  void node(int i);
  int new_value(Reg type, Value::Kind kind = Value::kReg, int index = -1) {
    values_.push_back({type, kind, index});
    return static_cast<int>(values_.size()) - 1;
  }
  int emit(Step s, Reg type) {
    PF_CHECK(s.fn, NotSupportedError, "pointwise group", "got a conversion that no kernel does");
    s.out = new_value(type);
    steps_.push_back(s);
    return s.out;
  }
  int slot(Slot s) {
    slots_.push_back(s);
    return static_cast<int>(slots_.size()) - 1;
  }
  int slot_value(Slot s) {
    const int i = slot(s);
    return new_value(s.type, Value::kSlot, i);
  }
  int input(int i);
  int converted(int v, Reg to);
  int operand(pf_ref ref, Reg want);
  int run_kernel(const pf_node& n, const Kernel& k);
  int run_expression(const pf_node& n, const Expr& e);
  void store(int v, int out, DType dtype);
  void join_pairs();

  const pf_program& p_;
  std::vector<uint8_t> needed_;
  std::vector<int> uses_;  // by other nodes
  std::vector<int> loaded_, nodes_;
  std::map<std::pair<int, Reg>, int> converted_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<Slot> slots_;
};

void Compiler::mark_used() {
  needed_.assign(p_.nnodes, 0);
  uses_.assign(p_.nnodes, 0);
  for (int i = static_cast<int>(p_.nnodes) - 1; i >= 0; --i) {
    const pf_node& n = p_.nodes[i];
    if (n.store >= 0) needed_[i] = 1;
    if (!needed_[i]) continue;
    for (int k = 0; k < n.nin; ++k)
      if (n.in[k].kind == PF_REF_NODE) {
        needed_[n.in[k].index] = 1;
        ++uses_[n.in[k].index];
      }
  }
}

int Compiler::input(int i) {
  int& v = loaded_[static_cast<size_t>(i)];
  if (v >= 0) return v;
  const DType t = static_cast<DType>(p_.input_dtypes[i]);
  const int raw = new_value(reg_of(t), Value::kIn, i);
  TileFn load = load_kernel(t);
  v = load ? emit({.fn = load, .out = 0, .in = {raw, -1, -1, -1}, .cost = 12, .in_place = false},
                  reg_of(t))
           : raw;
  return v;
}

int Compiler::converted(int v, Reg to) {
  const Reg from = values_[static_cast<size_t>(v)].type;
  if (from == to) return v;
  auto [it, fresh] = converted_.try_emplace({v, to}, -1);
  if (fresh)
    it->second = emit(
        {.fn = convert_kernel(from, to), .out = 0, .in = {v, -1, -1, -1}, .in_place = false}, to);
  return it->second;
}

int Compiler::operand(pf_ref ref, Reg want) {
  switch (ref.kind) {
    case PF_REF_INPUT:
      return converted(input(ref.index), want);
    case PF_REF_NODE:
      return converted(nodes_[ref.index], want);
    default:
      return slot_value({ref.index, want, 0});
  }
}

int Compiler::run_kernel(const pf_node& n, const Kernel& k) {
  const Reg compute = reg_of(static_cast<DType>(n.compute));
  Step s{.fn = k.fn, .out = 0, .cost = k.cost};
  for (int i = 0; i < n.nin; ++i)
    s.in[static_cast<size_t>(i)] = operand(n.in[i], (k.masks >> i) & 1 ? Reg::Bool : compute);
  for (int i = 0; i < n.nattr; ++i) {
    const int at = slot({static_cast<uint8_t>(n.attr0 + i), compute, 0});
    if (i == 0) s.attr = at;
  }
  return emit(s, k.result);
}

// A row without a compiled kernel: one instruction for each micro-operation.
int Compiler::run_expression(const pf_node& n, const Expr& e) {
  const Reg compute = reg_of(static_cast<DType>(n.compute));
  std::vector<int> at(e.nodes.size());
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& x = e.nodes[i];
    const Reg type = x.mask ? Reg::Bool : compute;
    if (x.op == Micro::Input) {
      at[i] = operand(n.in[x.index], type);
    } else if (x.op == Micro::Attr) {
      at[i] = slot_value({static_cast<uint8_t>(n.attr0 + x.index), type, 0});
    } else if (x.op == Micro::Const) {
      at[i] = slot_value({Slot::kConstant, type, x.value});
    } else {
      // A select between masks works on masks throughout.
      Reg over = compute;
      if (x.op == Micro::And || x.op == Micro::Or || x.op == Micro::Xor || x.op == Micro::Not ||
          (x.op == Micro::Select && x.mask))
        over = Reg::Bool;
      const Kernel k = micro_kernel(static_cast<int>(x.op), over);
      PF_CHECK(k.fn, NotSupportedError, table::row_name(n.op), table::micro_name(x.op),
               " has no kernel over ", static_cast<DType>(n.compute),
               "; convert the operands to a float dtype");
      Step s{.fn = k.fn, .out = 0, .cost = k.cost};
      for (size_t j = 0; j < 3 && x.in[j] >= 0; ++j)
        s.in[j] =
            converted(at[static_cast<size_t>(x.in[j])], (k.masks >> j) & 1 ? Reg::Bool : over);
      at[i] = emit(s, k.result);
    }
  }
  return at.back();
}

void Compiler::node(int i) {
  const pf_node& n = p_.nodes[i];
  const DType dtype = static_cast<DType>(n.dtype);
  const Reg result = reg_of(dtype);
  int v;
  if (n.op == table::op::cast) {
    if (n.in[0].kind == PF_REF_SCALAR)
      v = operand(n.in[0], result);
    else
      v = n.in[0].kind == PF_REF_INPUT ? input(n.in[0].index) : nodes_[n.in[0].index];
  } else {
    const Reg compute = reg_of(static_cast<DType>(n.compute));
    Kernel k{};
    if (n.op < table::kNumRows)
      k = row_kernel(n.op, compute);
    else if (table::is_gradient_row(n.op))
      k = gradient_kernel(table::forward_of(n.op), table::input_of(n.op), compute);
    v = k.fn ? run_kernel(n, k) : run_expression(n, table::expression(n.op));
  }
  v = converted(v, result);
  // A store rounds by itself; a value that others read too is rounded in its register.
  if (needs_rounding(dtype) && (uses_[static_cast<size_t>(i)] > 0 || n.store < 0))
    v = emit({.fn = round_kernel(dtype), .out = 0, .in = {v, -1, -1, -1}}, result);
  nodes_[static_cast<size_t>(i)] = v;
  if (n.store >= 0) store(v, n.store, static_cast<DType>(p_.output_dtypes[n.store]));
}

void Compiler::store(int v, int out, DType dtype) {
  v = converted(v, reg_of(dtype));
  Value& x = values_[static_cast<size_t>(v)];
  TileFn fn = store_kernel(dtype);
  if (!fn && x.kind == Value::kReg) {
    x.kind = Value::kOut;  // its instruction writes the output itself
    x.index = out;
    return;
  }
  if (!fn) fn = copy_kernel(reg_bytes(x.type));
  const int to = new_value(x.type, Value::kOut, out);
  steps_.push_back({.fn = fn, .out = to, .in = {v, -1, -1, -1}, .cost = 11, .in_place = false});
}

// Additions and multiplications whose result the next one alone reads, at once.
void Compiler::join_pairs() {
  const auto type_of = [&](const Step& s) { return values_[static_cast<size_t>(s.out)].type; };
  const auto simple = [&](const Step& s) -> std::optional<Simple> {
    const Reg type = type_of(s);
    if (type != Reg::F32 && type != Reg::F64) return {};
    if (s.fn == row_kernel(table::op::add, type).fn) return Simple::Add;
    if (s.fn == row_kernel(table::op::sub, type).fn) return Simple::Sub;
    if (s.fn == row_kernel(table::op::mul, type).fn) return Simple::Mul;
    return {};
  };
  std::vector<int> reads(values_.size());
  for (const Step& s : steps_)
    for (int v : s.in)
      if (v >= 0) ++reads[static_cast<size_t>(v)];
  std::vector<Step> steps;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& one = steps_[i];
    const auto first = simple(one);
    const size_t out = static_cast<size_t>(one.out);
    if (first && i + 1 < steps_.size() && values_[out].kind == Value::kReg && reads[out] == 1) {
      Step two = steps_[i + 1];
      const auto second = simple(two);
      const bool right = two.in[1] == one.out;
      const bool reads = right || two.in[0] == one.out;
      const TileFn pair =
          second && reads ? pair_kernel(*first, *second, right, type_of(two)) : nullptr;
      if (pair) {
        two.fn = pair;
        two.in = {one.in[0], one.in[1], two.in[right ? 0 : 1], -1};
        two.cost = one.cost;
        steps.push_back(two);
        ++i;
        continue;
      }
    }
    steps.push_back(one);
  }
  steps_ = std::move(steps);
}

Tape Compiler::finish() {
  join_pairs();
  Tape t;
  t.ninputs = static_cast<int>(p_.ninputs);
  t.noutputs = static_cast<int>(p_.noutputs);
  t.slots = std::move(slots_);
  for (int i = 0; i < t.ninputs; ++i)
    t.ins.push_back({static_cast<uint8_t>(itemsize(static_cast<DType>(p_.input_dtypes[i]))), -1});
  for (int i = 0; i < t.noutputs; ++i)
    t.outs.push_back(
        {static_cast<uint8_t>(itemsize(static_cast<DType>(p_.output_dtypes[i]))), -1, false});

  const int nsteps = static_cast<int>(steps_.size());
  for (int s = 0; s < nsteps; ++s)
    for (int v : steps_[static_cast<size_t>(s)].in)
      if (v >= 0) values_[static_cast<size_t>(v)].last = s;

  std::vector<int> free;
  const auto release = [&](int v, int s) {
    Value& x = values_[static_cast<size_t>(v)];
    if (x.kind == Value::kReg && x.last == s && x.index >= 0) {
      free.push_back(x.index);
      x.last = -2;  // once
    }
  };
  int widest = 1;
  for (int s = 0; s < nsteps; ++s) {
    Step& step = steps_[static_cast<size_t>(s)];
    Value& out = values_[static_cast<size_t>(step.out)];
    for (int v : step.in)
      if (v >= 0 && step.in_place &&
          reg_bytes(values_[static_cast<size_t>(v)].type) == reg_bytes(out.type))
        release(v, s);
    if (out.kind == Value::kReg) {
      if (free.empty()) free.push_back(t.nregs++);
      out.index = free.back();
      free.pop_back();
      widest = std::max(widest, reg_bytes(out.type));
      if (out.last < 0) free.push_back(out.index);  // nobody reads it
    }
    for (int v : step.in)
      if (v >= 0) release(v, s);
  }

  const auto loc = [&](int v) {
    const Value& x = values_[static_cast<size_t>(v)];
    switch (x.kind) {
      case Value::kIn:
        return t.in(x.index);
      case Value::kOut:
        return t.out(x.index);
      case Value::kSlot:
        return t.slot(x.index);
      default:
        return t.reg(x.index);
    }
  };
  double cost = 0;
  for (int s = 0; s < nsteps; ++s) {
    const Step& step = steps_[static_cast<size_t>(s)];
    Instr in{};
    in.fn = step.fn;
    in.cost = step.cost;
    cost += step.cost;
    in.out = static_cast<uint16_t>(loc(step.out));
    if (step.attr >= 0) in.attr = static_cast<uint16_t>(t.slot(step.attr));
    for (size_t k = 0; k < 4; ++k) {
      const int v = step.in[k];
      if (v < 0) continue;
      in.in[k] = static_cast<uint16_t>(loc(v));
      const Value& x = values_[static_cast<size_t>(v)];
      if (x.kind == Value::kIn) t.ins[static_cast<size_t>(x.index)].last_read = s;
      if (x.kind == Value::kOut) t.outs[static_cast<size_t>(x.index)].reread = true;
    }
    const Value& out = values_[static_cast<size_t>(step.out)];
    if (out.kind == Value::kOut) t.outs[static_cast<size_t>(out.index)].written = s;
    t.code.push_back(in);
  }
  t.nlocs = t.fetched(t.code.size());
  for (const Tape::In& i : t.ins) widest = std::max<int>(widest, i.bytes);
  for (const Tape::Out& o : t.outs) widest = std::max<int>(widest, o.bytes);
  t.reg_bytes = widest;
  t.tile = widest == 8 ? 1024 : 2048;
  if (t.nregs > 12) t.tile /= 2;
  // In tenths of a nanosecond for 16 elements, and what memory costs.
  t.cost = cost * 0.1 / 16 * widest / 4;
  for (const Tape::In& i : t.ins) t.cost += i.bytes * 0.02;
  for (const Tape::Out& o : t.outs) t.cost += o.bytes * 0.03;

  constexpr uint16_t kLong = 40;
  for (size_t i = 0; i < t.code.size(); ++i) {
    t.code[i].ahead = static_cast<uint16_t>(t.fetched(i));
    t.fetchers.push_back(static_cast<uint16_t>(i));
    t.nlong += t.code[i].cost >= kLong;
  }
  std::stable_sort(t.fetchers.begin(), t.fetchers.end(),
                   [&](uint16_t a, uint16_t b) { return t.code[a].cost > t.code[b].cost; });
  return t;
}

}  // namespace

Tape compile_tape(const pf_program& program) {
  return Compiler(program).finish();
}

}  // namespace pyflame::cpu
