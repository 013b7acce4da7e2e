#include "device_corpus.h"

#include <algorithm>
#include <random>

#include "ops/pointwise.h"
#include "table/expr.h"

namespace pyflame::testing {
namespace {

using table::Expr;
using table::Micro;
using table::OpId;
using table::Rule;

constexpr int64_t kLength = 333;  // no multiple of a vector

const DType kFloats[] = {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16};
const DType kArithmetic[] = {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16,
                             DType::Int64,   DType::Int32,   DType::Int16,   DType::Int8,
                             DType::UInt8,   DType::Bool};

DType compute_of(DType t) {
  return t == DType::Bool ? DType::Int32 : compute_type(t);
}

struct Types {
  bool allowed;
  DType compute, out;
};
// As ops::record does it.
Types types_of(Rule rule, DType t) {
  const bool floats = is_float(t);
  switch (rule) {
    case Rule::Arith:
    case Rule::Select:
      return {true, compute_of(t), t};
    case Rule::Float:
    case Rule::Keep:
      return {floats, compute_of(t), t};
    case Rule::IntOnly:
      return {!floats, compute_of(t), t};
    case Rule::Compare:
      return {true, compute_of(t), DType::Bool};
    case Rule::Test:
      return {floats, compute_of(t), DType::Bool};
    case Rule::Logic:
      return {t == DType::Bool, DType::Bool, DType::Bool};
    default:
      return {false, t, t};
  }
}

DeviceCase::Operand dense(DType t, const std::vector<int64_t>& shape) {
  DeviceCase::Operand o{t, std::vector<int64_t>(shape.size()), 0, 1};
  for (size_t d = shape.size(); d-- > 0;) {
    o.strides[d] = o.extent;
    o.extent *= shape[d];
  }
  return o;
}

pf_scalar number(double v) {
  return {v, static_cast<int64_t>(v)};
}

bool asks_libm(Micro op) {  // over doubles, on the CPU
  switch (op) {
    case Micro::Sin:  // of large angles
    case Micro::Cos:
    case Micro::Log10:
    case Micro::Erf:
    case Micro::Erfc:
    case Micro::Gelu:
    case Micro::GeluSlope:
    case Micro::Tan:
    case Micro::Asin:
    case Micro::Acos:
    case Micro::Atan:
    case Micro::Atan2:
    case Micro::Sinh:
    case Micro::Cosh:
    case Micro::Asinh:
    case Micro::Acosh:
    case Micro::Atanh:
    case Micro::Pow:
      return true;
    default:
      return false;
  }
}
bool quick_for_half(Micro op) {
  return op == Micro::Exp || op == Micro::Exp2 || op == Micro::Tanh || op == Micro::Sigmoid ||
         op == Micro::Erf || op == Micro::Gelu || op == Micro::GeluSlope;
}
// Of a row whose result has this dtype.
double tolerance(OpId id, DType t) {
  double ulps = 0;
  for (const auto& n : table::expression(id).nodes) {
    if (t == DType::Float64 && asks_libm(n.op)) ulps = 16;
    if (is_float(t) && itemsize(t) == 2 && quick_for_half(n.op)) ulps = 1;
  }
  return ulps;
}

// One node over fresh operands; masks are bits of operands that are bool.
DeviceCase single(OpId id, const std::string& name, DType t, DType compute, DType out, int arity,
                  int first_attr, unsigned masks) {
  DeviceCase c;
  c.name = name + "_" + std::string(pyflame::name(t));
  c.shape = {kLength};
  pf_node n{};
  n.op = id;
  n.dtype = static_cast<uint8_t>(out);
  n.compute = static_cast<uint8_t>(compute);
  n.nin = static_cast<uint8_t>(arity);
  n.store = 0;
  for (int k = 0; k < arity; ++k) {
    n.in[k] = {PF_REF_INPUT, static_cast<uint8_t>(k)};
    c.inputs.push_back(dense(masks >> k & 1 ? DType::Bool : t, c.shape));
  }
  n.attr0 = 0;
  n.nattr = static_cast<uint8_t>(first_attr);
  c.nodes.push_back(n);
  c.outputs.push_back(dense(out, c.shape));
  return c;
}

void add_attrs(DeviceCase& c, OpId row) {
  // Small whole numbers serve integers as well; ordered, for bounds.
  for (int i = 0; i < table::kRowTable[row].nattrs; ++i) c.scalars.push_back(number(i + 1));
  c.nodes[0].nattr = table::kRowTable[row].nattrs;
}

}  // namespace

int64_t DeviceCase::numel() const {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}
bool DeviceCase::contiguous(const Operand& o) const {
  int64_t n = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && o.strides[d] != n) return false;
    n *= shape[d];
  }
  return true;
}

std::vector<DeviceCase> row_cases() {
  std::vector<DeviceCase> all;
  for (OpId id = 1; id < table::kNumRows; ++id) {
    const table::RowInfo& row = table::kRowTable[id];
    for (DType t : kArithmetic) {
      const Types types = types_of(row.rule, t);
      if (!types.allowed) continue;
      const unsigned masks = row.rule == Rule::Select ? 1u : 0u;
      DeviceCase c =
          single(id, row.name, t, types.compute, types.out, row.arity, row.nattrs, masks);
      add_attrs(c, id);
      c.ulps = tolerance(id, t);
      all.push_back(std::move(c));
    }
  }
  return all;
}

std::vector<DeviceCase> gradient_cases() {
  std::vector<DeviceCase> all;
  for (OpId id = 1; id < table::kNumRows; ++id) {
    const table::RowInfo& row = table::kRowTable[id];
    if (row.grad == table::Grad::NONE) continue;
    for (int i = 0; i < row.arity; ++i) {
      const OpId grad = table::gradient_row(id, i);
      if (table::expression(grad).is_zero() || (row.rule == Rule::Select && i == 0)) continue;
      for (DType t : kFloats) {
        const int arity = row.grad == table::Grad::FROM_RESULT ? 2 : row.arity + 1;
        const unsigned masks = row.rule == Rule::Select ? 2u : 0u;
        DeviceCase c = single(grad, std::string(row.name) + "_grad" + std::to_string(i), t,
                              compute_type(t), t, arity, row.nattrs, masks);
        add_attrs(c, id);
        c.ulps = tolerance(grad, t);
        // Dual numbers there, the symbolic derivative here.
        if (row.grad == table::Grad::AUTO) c.ulps = itemsize(t) == 2 ? 1 : 64;
        all.push_back(std::move(c));
      }
    }
  }
  return all;
}

std::vector<DeviceCase> cast_cases() {
  std::vector<DeviceCase> all;
  for (DType from : kArithmetic)
    for (DType to : kArithmetic) {
      DeviceCase c = single(table::op::cast, "cast_" + std::string(pyflame::name(from)) + "_to",
                            from, compute_type(to), to, 1, 0, 0);
      c.name = "cast_" + std::string(pyflame::name(from)) + "_to_" + std::string(pyflame::name(to));
      c.low = -300;
      c.high = 300;
      all.push_back(std::move(c));
    }
  return all;
}

std::vector<DeviceCase> model_cases() {
  namespace op = ops::op;
  std::vector<DeviceCase> all;
  const auto node = [](DeviceCase& c, int id, DType t, DType compute, std::vector<pf_ref> in) {
    pf_node n{};
    n.op = static_cast<uint16_t>(id);
    n.dtype = static_cast<uint8_t>(t);
    n.compute = static_cast<uint8_t>(compute);
    n.nin = static_cast<uint8_t>(in.size());
    n.store = -1;
    std::copy(in.begin(), in.end(), n.in);
    c.nodes.push_back(n);
    return pf_ref{PF_REF_NODE, static_cast<uint8_t>(c.nodes.size() - 1)};
  };
  const auto input = [](DeviceCase& c, DType t, std::vector<int64_t> strides, int64_t extent) {
    c.inputs.push_back({t, std::move(strides), 0, extent});
    return pf_ref{PF_REF_INPUT, static_cast<uint8_t>(c.inputs.size() - 1)};
  };
  const auto scalar = [](DeviceCase& c, double v) {
    c.scalars.push_back(number(v));
    return pf_ref{PF_REF_SCALAR, static_cast<uint8_t>(c.scalars.size() - 1)};
  };
  const auto store = [](DeviceCase& c, pf_ref r, DType t) {
    c.nodes[r.index].store = static_cast<int8_t>(c.outputs.size());
    c.outputs.push_back(dense(t, c.shape));
  };
  for (DType t : {DType::Float32, DType::BFloat16, DType::Float16}) {
    const DType f = DType::Float32;
    const std::string suffix = "_" + std::string(pyflame::name(t));
    {  // gelu((x + b) * 0.5) + x
      DeviceCase c;
      c.name = "bias_gelu" + suffix;
      c.shape = {66, 3072};
      const pf_ref x = input(c, t, {3072, 1}, 66 * 3072), b = input(c, t, {0, 1}, 3072);
      const pf_ref half = node(c, op::mul, t, f, {node(c, op::add, t, f, {x, b}), scalar(c, 0.5)});
      store(c, node(c, op::add, t, f, {node(c, op::gelu, t, f, {half}), x}), t);
      c.ulps = t == f ? 0 : 64;  // one of 16 bits before a sum that cancels
      all.push_back(std::move(c));
    }
    {  // silu(x) * y, flat
      DeviceCase c;
      c.name = "silu_mul" + suffix;
      c.shape = {100003};
      const pf_ref x = input(c, t, {1}, 100003), y = input(c, t, {1}, 100003);
      store(c, node(c, op::mul, t, f, {node(c, op::silu, t, f, {x}), y}), t);
      c.ulps = t == f ? 0 : 64;  // one of 16 bits before a sum that cancels
      all.push_back(std::move(c));
    }
    {  // (x - mean) * scale by row, a mask by column, both stored
      DeviceCase c;
      c.name = "normalise" + suffix;
      c.shape = {48, 5, 264};
      const pf_ref x = input(c, t, {1320, 264, 1}, 48 * 1320), m = input(c, f, {5, 1, 0}, 240);
      const pf_ref keep = input(c, DType::Bool, {0, 0, 1}, 264);
      const pf_ref wide = node(c, op::sub, f, f, {x, m});
      const pf_ref y = node(c, op::cast, t, f, {node(c, op::mul, f, f, {wide, scalar(c, 1.25)})});
      store(c, y, t);
      store(c, node(c, op::where, t, f, {keep, y, scalar(c, 0)}), t);
      all.push_back(std::move(c));
    }
    {  // x^T + y
      DeviceCase c;
      c.name = "transposed_add" + suffix;
      c.shape = {200, 320};
      const pf_ref x = input(c, t, {1, 200}, 64000), y = input(c, t, {320, 1}, 64000);
      store(c, node(c, op::add, t, f, {x, y}), t);
      all.push_back(std::move(c));
    }
  }
  return all;
}

DeviceCase random_case(uint64_t seed) {
  std::mt19937_64 rng(seed * 0x9E3779B97F4A7C15ull + 1);
  const auto pick = [&](int64_t n) {
    return static_cast<int64_t>(rng() % static_cast<uint64_t>(n));
  };
  DeviceCase c;
  c.name = "random_" + std::to_string(seed);

  // Everything dense; rows that repeat or lie in something wider; transposed planes; anything.
  enum Theme { kDense, kRows, kTurned, kAnything };
  const Theme theme = static_cast<Theme>(pick(4));
  static constexpr int64_t kInner[] = {1, 3, 7, 16, 64, 96, 130, 257}, kWide[] = {64, 96, 128, 130},
                           kSide[] = {16, 24, 40, 64, 65, 72};
  const int ndim = theme == kAnything || theme == kDense ? static_cast<int>(pick(5))
                                                         : 2 + static_cast<int>(pick(2));
  for (int d = 0; d < ndim; ++d) {
    const bool last = d == ndim - 1;
    c.shape.push_back(theme == kTurned ? (d + 2 < ndim ? 1 + pick(3) : kSide[pick(6)])
                      : !last          ? 1 + pick(ndim > 2 ? 5 : 40)
                      : theme == kRows ? kWide[pick(4)]
                                       : kInner[pick(8)]);
  }
  const auto turned = [&](DType t) {
    std::vector<int64_t> sizes = c.shape;
    std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
    auto o = dense(t, sizes);
    std::swap(o.strides[sizes.size() - 1], o.strides[sizes.size() - 2]);
    return o;
  };
  // A slice of something `by` wider.
  const auto slice = [&](DType t, int64_t by, int64_t offset) {
    std::vector<int64_t> wide = c.shape;
    wide.back() += by;
    auto o = dense(t, wide);
    o.offset = offset;
    return o;
  };
  const auto broadcast = [&](DType t, unsigned kept) {
    std::vector<int64_t> small = c.shape;
    for (size_t d = 0; d < small.size(); ++d)
      if (!(kept >> d & 1)) small[d] = 1;
    auto o = dense(t, small);
    for (size_t d = 0; d < small.size(); ++d)
      if (small[d] == 1) o.strides[d] = 0;
    return o;
  };
  const auto operand = [&](DType t, bool out) {
    const int64_t kind = pick(out ? 12 : 8);
    if (kind == 0 && !out) return broadcast(t, 0);
    if (kind > 4 || ndim == 0 || theme == kDense) {
      auto o = dense(t, c.shape);
      if (pick(12) == 0) o.offset = 1, ++o.extent;  // no vectors
      return o;
    }
    const bool turns = ndim > 1 && c.shape[c.shape.size() - 2] > 1;
    if (theme == kRows || out) {
      if (kind == 1 || out) return slice(t, 8 * (1 + pick(3)), 8 * pick(2));
      return broadcast(t, kind == 2 ? 1u << (ndim - 1) : static_cast<unsigned>(pick(1 << ndim)));
    }
    if (theme == kTurned) return turned(t);
    if (kind == 1 && turns) return turned(t);
    if (kind == 2) return slice(t, 1 + pick(8), pick(2));
    if (kind == 3) {  // every second element
      std::vector<int64_t> wide = c.shape;
      wide.back() *= 2;
      auto o = dense(t, wide);
      o.strides.back() *= 2;
      return o;
    }
    return broadcast(t, static_cast<unsigned>(pick(1 << ndim)));
  };

  // Mostly one float dtype, as models have it, with others mixed in.
  const DType main = kFloats[pick(4)];
  const auto some_dtype = [&] { return pick(4) ? main : kArithmetic[pick(10)]; };
  std::vector<DType> node_types;
  const int nnodes = 1 + static_cast<int>(pick(10));
  // A value of dtype t: an earlier node (cast if need be), an input, or a number.
  const auto value = [&](DType t, bool may_be_number) -> pf_ref {
    if (!node_types.empty() && pick(3)) {
      const size_t from = pick(2)
                              ? node_types.size() - 1
                              : static_cast<size_t>(pick(static_cast<int64_t>(node_types.size())));
      if (node_types[from] == t) return {PF_REF_NODE, static_cast<uint8_t>(from)};
      if (node_types.size() < 24) {
        pf_node n{};
        n.op = table::op::cast;
        n.dtype = static_cast<uint8_t>(t);
        n.compute = static_cast<uint8_t>(compute_type(t));
        n.nin = 1;
        n.store = -1;
        n.in[0] = {PF_REF_NODE, static_cast<uint8_t>(from)};
        c.nodes.push_back(n);
        node_types.push_back(t);
        return {PF_REF_NODE, static_cast<uint8_t>(node_types.size() - 1)};
      }
    }
    if (may_be_number && pick(4) == 0) {
      c.scalars.push_back(number(static_cast<double>(pick(9)) * 0.5 - 2));
      return {PF_REF_SCALAR, static_cast<uint8_t>(c.scalars.size() - 1)};
    }
    for (size_t k = 0; k < c.inputs.size(); ++k)
      if (c.inputs[k].dtype == t && pick(2)) return {PF_REF_INPUT, static_cast<uint8_t>(k)};
    if (c.inputs.size() < 12) {
      c.inputs.push_back(operand(t, false));
      return {PF_REF_INPUT, static_cast<uint8_t>(c.inputs.size() - 1)};
    }
    c.scalars.push_back(number(1));
    return {PF_REF_SCALAR, static_cast<uint8_t>(c.scalars.size() - 1)};
  };
  for (int i = 0; i < nnodes; ++i) {
    for (;;) {
      const OpId id = static_cast<OpId>(1 + pick(table::kNumRows - 1));
      const table::RowInfo& row = table::kRowTable[id];
      const DType t = some_dtype();
      const Types types = types_of(row.rule, t);
      if (!types.allowed || tolerance(id, t) > 0) continue;                 // errors would add up
      if (id == table::op::signbit || id == table::op::copysign) continue;  // of a NaN: anybody's
      pf_node n{};
      n.op = id;
      n.dtype = static_cast<uint8_t>(types.out);
      n.compute = static_cast<uint8_t>(types.compute);
      n.nin = row.arity;
      n.store = -1;
      for (int k = 0; k < row.arity; ++k) {
        const bool mask = row.rule == Rule::Logic || (row.rule == Rule::Select && k == 0);
        n.in[k] = value(mask ? DType::Bool : t, k > 0);
      }
      n.attr0 = static_cast<uint8_t>(c.scalars.size());
      n.nattr = row.nattrs;
      for (int k = 0; k < row.nattrs; ++k) c.scalars.push_back(number(k + 1));
      c.nodes.push_back(n);
      node_types.push_back(types.out);
      break;
    }
  }
  for (size_t i = 0; i < c.nodes.size(); ++i) {
    if (i + 1 < c.nodes.size() && pick(4)) continue;
    c.nodes[i].store = static_cast<int8_t>(c.outputs.size());
    c.outputs.push_back(operand(node_types[i], true));
  }
  return c;
}

namespace {
std::vector<void*> addresses(const DeviceCase& c) {
  std::vector<void*> at;
  for (size_t k = 0; k < c.inputs.size() + c.outputs.size(); ++k) {
    const auto& o = k < c.inputs.size() ? c.inputs[k] : c.outputs[k - c.inputs.size()];
    at.push_back(reinterpret_cast<void*>((k + 1) * 4096 +
                                         static_cast<size_t>(o.offset) * itemsize(o.dtype)));
  }
  return at;
}
template <class F>
void planned(const DeviceCase& c, F&& fn) {
  const std::vector<void*> at = addresses(c);
  c.with_program([&](const pf_program& p) {
    const gpu::DeviceProgram program(p);
    gpu::DeviceLaunch launch;
    c.with_launch(at, [&](const pf_launch& l) { program.plan(l, launch); });
    fn(program, launch);
  });
}
}  // namespace

gpu::LaunchClass device_case_class(const DeviceCase& c) {
  gpu::LaunchClass key;
  planned(c, [&](const auto&, const auto& launch) { key = launch.key; });
  return key;
}
std::string device_case_text(const DeviceCase& c, const std::string& entry) {
  std::string text;
  planned(c,
          [&](const auto& program, const auto& launch) { text = program.text(launch.key, entry); });
  return "// " + c.name + "\nnamespace ns_" + entry + " {\n" + text + "}\n";
}

std::string device_epilogue_text(const DeviceCase& c, const std::string& entry) {
  std::string text;
  const int64_t cols = c.shape.back();
  c.with_program([&](const pf_program& p) {
    const gpu::DeviceProgram program(p);
    gpu::DeviceLaunch launch;
    c.with_launch(addresses(c), [&](const pf_launch& l) {
      for (size_t from = 0; from < c.inputs.size() && text.empty(); ++from) {
        const int k = static_cast<int>(from);
        if (!program.plan_part(l, 1u << k, c.numel() / cols, cols, 1, false, launch)) continue;
        const std::string value = gpu::device_compute(c.inputs[from].dtype);
        text =
            "// " + c.name + ", as an epilogue\nnamespace ns_" + entry + " {\n" +
            program.epilogue_text(launch.key, k) + "PF_KERNEL(" + entry +
            ", 256)(pf_args a, const " + value +
            "* values, pf_i64 cols) {\n  const pf_i64 i = pf_block() * 256 + pf_thread();\n  "
            "const " +
            value +
            " x[1] = {values[i]};\n  pf_after<1> after;\n  after.load(a, i / cols, i % cols);\n  "
            "after.run(a, i / cols, i % cols, x);\n}\n}\n";
      }
    });
  });
  return text;
}

}  // namespace pyflame::testing
