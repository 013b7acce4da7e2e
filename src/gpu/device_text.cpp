// Programs as kernel text.
#include "gpu/device_text.h"

#include <algorithm>

#include "pyflame/error.h"
#include "table/expr.h"
#include "table/rows.h"

namespace pyflame::gpu {

using table::Expr;
using table::ExprNode;
using table::Micro;
using table::micro_arity;
namespace {

DType type_of(uint8_t t) {
  return static_cast<DType>(t);
}

// The type of a value of this dtype in registers: Float32, Float64, Int32, Int64 or Bool.
DType register_type(DType t) {
  return t == DType::Bool ? DType::Bool : compute_type(t);
}

bool in(Micro op, Micro first, Micro last) {
  return op >= first && op <= last;
}
bool of_masks(Micro op) {
  return op == Micro::And || op == Micro::Or || op == Micro::Xor || op == Micro::Not;
}
bool transcendental(Micro op) {
  return in(op, Micro::Exp, Micro::Pow);
}
// Much code even for floats: double arithmetic, loops, or several formulas.
bool long_in_float(Micro op) {
  return op == Micro::Erfc || in(op, Micro::Sin, Micro::Pow) || op == Micro::Fmod ||
         op == Micro::FloorDiv || op == Micro::Remainder;
}
// Whether the prelude has this operation over a compute type.
bool exists(const ExprNode& n, DType compute) {
  if (micro_arity(n.op) == 0 || of_masks(n.op) || (n.op == Micro::Select && n.mask)) return true;
  if (compute == DType::Bool) return false;
  const bool bits = in(n.op, Micro::BitAnd, Micro::Shr);
  if (is_float(compute)) return !bits;
  return !(n.op == Micro::Sqrt || (transcendental(n.op) && n.op != Micro::Pow) ||
           n.op == Micro::CopySign || in(n.op, Micro::IsNan, Micro::IsFinite));
}
// Where results of 16 bits have functions of their own (kernels/half_math.h).
bool quick_for_half(Micro op) {
  return op == Micro::Exp || op == Micro::Exp2 || op == Micro::Tanh || op == Micro::Sigmoid ||
         op == Micro::Erf || op == Micro::Gelu || op == Micro::GeluSlope;
}
bool is_mask_input(const Expr& e, int i) {
  for (const ExprNode& n : e.nodes)
    if (n.op == Micro::Input && n.index == i) return n.mask;
  return false;
}

struct StorageName {
  DType dtype;
  const char* text;
};
constexpr StorageName kCalculated[] = {
    {DType::Float32, "float"},    {DType::Float64, "double"}, {DType::Float16, "pf_f16"},
    {DType::BFloat16, "pf_bf16"}, {DType::Int64, "pf_i64"},   {DType::Int32, "pf_i32"},
    {DType::Int16, "pf_i16"},     {DType::Int8, "pf_i8"},     {DType::UInt8, "pf_u8"},
    {DType::Bool, "pf_bool"},
};
// Stored and copied only.
constexpr StorageName kStored[] = {
    {DType::UInt16, "pf_u16"},
    {DType::UInt32, "pf_u32"},
    {DType::UInt64, "pf_u64"},
    {DType::Complex64, "pf_c64"},
    {DType::Complex128, "pf_c128"},
    {DType::Float8E4M3, "pf_e4m3fn"},
    {DType::Float8E5M2, "pf_e5m2"},
    {DType::Float8E4M3FNUZ, "pf_e4m3fnuz"},
    {DType::Float8E5M2FNUZ, "pf_e5m2fnuz"},
    {DType::Float8E8M0, "pf_e8m0fnu"},
    {DType::Int4, "pf_i4"},
};
const char* name_in(std::span<const StorageName> list, DType t) {
  const auto at = std::ranges::find(list, t, &StorageName::dtype);
  return at == list.end() ? nullptr : at->text;
}
}  // namespace

const char* device_storage(DType t) {
  if (const char* name = name_in(kCalculated, t)) return name;
  PF_FAIL(NotSupportedError, "pointwise group", "got ", t,
          " on a GPU; it can be stored and copied only; use to() first");
}
const char* device_stored(DType t) {
  const char* name = name_in(kStored, t);
  return name ? name : device_storage(t);
}
const char* device_compute(DType t) {
  const DType c = register_type(t);
  return c == DType::Bool ? "bool" : device_storage(c);
}

// ---- what a program needs ----------------------------------------------------------------------

DeviceProgram::DeviceProgram(const pf_program& p)
    : nodes_(p.nodes, p.nodes + p.nnodes), needed_(p.nnodes, 0), loaded_(p.ninputs, 0) {
  PF_CHECK(p.ninputs + p.noutputs <= kDeviceOperands, NotSupportedError, "pointwise group", "got ",
           p.ninputs + p.noutputs, " operands; expected at most ", kDeviceOperands,
           "; flush earlier");
  for (uint32_t i = 0; i < p.ninputs; ++i) inputs_.push_back(type_of(p.input_dtypes[i]));
  for (uint32_t i = 0; i < p.noutputs; ++i) outputs_.push_back(type_of(p.output_dtypes[i]));
  for (int k = 0; k < operands(); ++k) {
    device_storage(dtype_of(k));  // known
    widest_ = std::max(widest_, static_cast<int>(itemsize(dtype_of(k))));
  }

  const auto take = [&](pf_ref r, DType type) {
    if (r.kind == PF_REF_NODE) needed_[r.index] = 1;
    if (r.kind == PF_REF_INPUT) loaded_[r.index] = 1;
    if (r.kind == PF_REF_SCALAR && number(r.index, type) < 0) numbers_.push_back({r.index, type});
  };
  for (size_t i = nodes_.size(); i-- > 0;) {
    const pf_node& n = nodes_[i];
    if (n.store >= 0) needed_[i] = 1;
    if (!needed_[i]) continue;
    if (n.op == table::op::cast) {
      take(n.in[0], register_type(type_of(n.dtype)));
      continue;
    }
    const Expr& e = table::expression(n.op);
    const DType compute = register_type(type_of(n.compute));
    for (const ExprNode& x : e.nodes) {
      PF_CHECK(exists(x, compute), NotSupportedError, table::row_name(n.op), micro_name(x.op),
               " has no kernel over ", compute, "; convert the operands to a float dtype");
      if (x.op == Micro::Input) take(n.in[x.index], x.mask ? DType::Bool : compute);
      if (x.op == Micro::Attr)
        take({PF_REF_SCALAR, static_cast<uint8_t>(n.attr0 + x.index)}, compute);
      heavy_ = heavy_ || long_in_float(x.op) || (compute == DType::Float64 && transcendental(x.op));
    }
  }
  vec_ = std::min(8, 16 / widest_);
  if (heavy_) vec_ = std::min(vec_, 4);
}

int DeviceProgram::number(uint8_t scalar, DType type) const {
  for (size_t i = 0; i < numbers_.size(); ++i)
    if (numbers_[i].scalar == scalar && numbers_[i].type == type) return static_cast<int>(i);
  return -1;
}
DType DeviceProgram::dtype_of(int k) const {
  const size_t i = static_cast<size_t>(k);
  return i < inputs_.size() ? inputs_[i] : outputs_[i - inputs_.size()];
}
// One word more than whole lines of 32, so that columns lie in different banks.
int DeviceProgram::tile_pitch(DType t) const {
  return tile_side() + std::max(1, 4 / static_cast<int>(itemsize(t)));
}
int DeviceProgram::repeats(const LaunchClass& c) const {
  if (c.kind == LaunchClass::Tiles) return tile_side() * tile_side() / 256 / c.vec;
  if (heavy_) return 1;
  switch (c.kind) {
    case LaunchClass::Flat:
      return std::max(1, std::min(8, 2 * vec_) / c.vec);
    case LaunchClass::Rows:
      // Three rows of few operands at a time keep memory busy as two do not: 98% of copy, not 90%.
      return c.stream && operands() <= 4 ? 3 : 2;
    default:
      return 4;
  }
}

// ---- text --------------------------------------------------------------------------------------

// How often an operand's value changes within a thread's E = J * V elements.
enum class Spread { Each, AlongRow, PerRow, Once };

class TextPrinter {
 public:
  TextPrinter(const DeviceProgram& p, const LaunchClass& c)
      : p_(p), c_(c), repeats_(p.repeats(c)), ninputs_(static_cast<int>(p.inputs_.size())) {}

  std::string print(const std::string& entry) {
    body();
    out_ += "PF_KERNEL(" + entry + ", 256)(pf_args a) {\n";
    switch (c_.kind) {
      case LaunchClass::Flat:
        flat();
        break;
      case LaunchClass::Rows:
        rows();
        break;
      case LaunchClass::Tiles:
        tiles();
        break;
      default:
        lines();
    }
    out_ += "}\n";
    return head() + out_;
  }

  std::string print_part(const char* type, const char* part, std::span<const int> with,
                         uint32_t keep) {
    part_ = part;
    body();
    this->part(type, with, keep);
    // Not where it is asked for: includes are expanded whatever they stand under.
    return "#include \"kept_row_mma.h\"\n" + head() + out_;
  }

 private:
  static std::string str(int i) { return std::to_string(i); }
  std::string args() const { return std::string("pf_") + part_ + "args"; }
  std::string head() const {
    return "#include \"math.h\"\nstruct " + args() + " {\n  void* p[" + str(p_.operands()) +
           "];\n  pf_u64 w[" + str(words_ + static_cast<int>(p_.numbers_.size())) + "];\n};\n";
  }
  Spread spread(int k) const {
    const uint8_t g = c_.group[k];
    if (g == LaunchClass::kSplat) return Spread::Once;
    if (c_.kind == LaunchClass::Tiles)
      return c_.walk[g] & (LaunchClass::kInner | LaunchClass::kTurned) ? Spread::Each
                                                                       : Spread::PerRow;
    if (c_.kind != LaunchClass::Rows && c_.kind != LaunchClass::Part) return Spread::Each;
    return c_.walk[g] == LaunchClass::kInner   ? Spread::AlongRow
           : c_.walk[g] == LaunchClass::kOuter ? Spread::PerRow
                                               : Spread::Each;
  }
  // With E and V as the text's own names.
  static const char* count(Spread s) {
    return s == Spread::Each       ? "E"
           : s == Spread::AlongRow ? "V"
           : s == Spread::PerRow   ? "E / V"
                                   : "1";
  }
  static std::string index(Spread s, const std::string& e) {
    return s == Spread::Each       ? e
           : s == Spread::AlongRow ? "(" + e + ") % V"
           : s == Spread::PerRow   ? "(" + e + ") / V"
                                   : "0";
  }
  // The i-th word of the geometry.
  std::string word(int i) {
    words_ = std::max(words_, i + 1);
    return "a.w[" + str(static_cast<int>(p_.numbers_.size()) + i) + "]";
  }
  const char* storage(int k) const { return device_storage(p_.dtype_of(k)); }
  const char* compute(int k) const { return device_compute(p_.dtype_of(k)); }
  std::string name(int k) const { return k < ninputs_ ? "x" + str(k) : "y" + str(k - ninputs_); }
  bool used(int k) const { return k >= ninputs_ || p_.loaded_[static_cast<size_t>(k)]; }

  void body();
  void node(int i);
  std::string operand(pf_ref r, DType want, const char* at = "e");
  bool pair(const pf_node&, const std::string& to);
  std::string number(uint8_t scalar, DType type) { return "s" + str(p_.number(scalar, type)); }

  void declare(bool whole);
  void load(int k, const std::string& to, const std::string& at, const char* v);
  void call_body(const char* e, const char* v);
  void flat();
  void rows();
  void tiles();
  void lines();
  void part(const char* type, std::span<const int> with, uint32_t keep);
  std::string part_address(int k);
  void store_part(int k);
  void positions(const char* type, const std::string& from, int ndim, int first);

  const DeviceProgram& p_;
  const LaunchClass& c_;
  const int repeats_, ninputs_;
  int words_ = 0;
  const char* part_ = "";  // of names, where several programs are in one text
  std::string out_;
};

// Reads an operand of element `at` as `want`.
std::string TextPrinter::operand(pf_ref r, DType want, const char* at) {
  if (r.kind == PF_REF_SCALAR) return number(r.index, want);
  std::string text;
  DType have;
  if (r.kind == PF_REF_INPUT) {
    have = register_type(p_.inputs_[r.index]);
    text = "x" + str(r.index) + "[" + index(spread(r.index), at) + "]";
  } else {
    have = register_type(type_of(p_.nodes_[r.index].dtype));
    text = "n" + str(r.index) + "[" + at + "]";
  }
  if (have == want) return text;
  return "pf_cast<" + std::string(device_compute(want)) + ">(" + text + ")";
}

// Sums, differences and products of bfloat16 values go two at once.
bool TextPrinter::pair(const pf_node& n, const std::string& to) {
  if (type_of(n.dtype) != DType::BFloat16 || repeats_ * c_.vec % 2 != 0) return false;
  const char* name = n.op == table::op::add   ? "add"
                     : n.op == table::op::sub ? "sub"
                     : n.op == table::op::mul ? "mul"
                                              : nullptr;
  if (!name) return false;
  for (int k = 0; k < 2; ++k) {
    const pf_ref r = n.in[k];
    if (r.kind == PF_REF_SCALAR ||
        (r.kind == PF_REF_INPUT ? p_.inputs_[r.index] : type_of(p_.nodes_[r.index].dtype)) !=
            DType::BFloat16)
      return false;
  }
  const DType f = DType::Float32;
  out_ += "  if constexpr (E % 2 == 0) {\n  PF_UNROLL for (int e = 0; e < E; e += 2)\n";
  out_ += std::string("    pf_pair_") + name + "(" + to + "[e], " + to + "[e + 1]";
  for (int k = 0; k < 2; ++k)
    out_ += ", " + operand(n.in[k], f) + ", " + operand(n.in[k], f, "e + 1");
  out_ += ");\n  } else {\n";
  return true;
}

void TextPrinter::node(int i) {
  const pf_node& n = p_.nodes_[static_cast<size_t>(i)];
  const DType dtype = type_of(n.dtype), result = register_type(dtype);
  const std::string type = device_compute(dtype), at = "n" + str(i);
  out_ += "  " + type + " " + at + "[E];\n";
  const bool paired = pair(n, at);
  out_ += "  PF_UNROLL for (int e = 0; e < E; ++e) {\n";
  if (n.op == table::op::cast) {
    std::string from = operand(n.in[0], result);
    out_ += "    " + at + "[e] = " + from + ";\n";
  } else {
    const Expr& e = table::expression(n.op);
    const DType compute = register_type(type_of(n.compute));
    if (is_float(dtype) && itemsize(dtype) == 2 &&
        std::any_of(e.nodes.begin(), e.nodes.end(),
                    [](const ExprNode& x) { return quick_for_half(x.op); }))
      out_ += "    PF_HALF_MATH\n";
    std::vector<std::string> inputs, attrs;
    for (int k = 0; k < e.num_inputs(); ++k)
      inputs.push_back(
          e.uses_input(k) ? operand(n.in[k], is_mask_input(e, k) ? DType::Bool : compute) : "");
    for (int k = 0; k < e.num_attrs(); ++k)
      attrs.push_back(e.uses_attr(k) ? number(static_cast<uint8_t>(n.attr0 + k), compute) : "");
    const std::string statements = c_statements(e, device_compute(compute), "r", inputs, attrs);
    for (size_t from = 0; from < statements.size();) {
      const size_t end = statements.find('\n', from) + 1;
      out_ += "    " + statements.substr(from, end - from);
      from = end;
    }
    const DType have = e.root().mask ? DType::Bool : compute;
    out_ += "    " + at + "[e] = " + (have == result ? "r" : "pf_cast<" + type + ">(r)") + ";\n";
  }
  out_ += "  }\n";
  if (dtype != result)
    out_ += "  pf_round<" + std::string(device_storage(dtype)) + ">(" + at + ");\n";
  if (paired) out_ += "  }\n";
  if (n.store < 0) return;
  const DType stored = p_.outputs_[static_cast<size_t>(n.store)];
  const std::string to = "y" + str(n.store);
  const DType want = register_type(stored);
  const std::string value =
      want == result ? at + "[e]"
                     : "pf_cast<" + std::string(device_compute(stored)) + ">(" + at + "[e])";
  out_ += "  PF_UNROLL for (int e = 0; e < E; ++e) " + to + "[e] = " + value + ";\n";
  if (stored != dtype && stored != want)
    out_ += "  pf_round<" + std::string(device_storage(stored)) + ">(" + to + ");\n";
}

// The arithmetic over E elements that are in registers, in rows of V.
void TextPrinter::body() {
  out_ += "template <int E, int V>\nPF_DEVICE void pf_" + std::string(part_) + "body(const " +
          args() + "& a";
  for (int k = 0; k < p_.operands(); ++k) {
    if (!used(k)) continue;
    const Spread s = spread(k);
    out_ += std::string(", ") + (k < ninputs_ ? "const " : "") + compute(k) + " (&" + name(k) +
            ")[" + count(s) + "]";
  }
  out_ += ") {\n";
  for (size_t i = 0; i < p_.numbers_.size(); ++i) {
    const DType t = p_.numbers_[i].type;
    const std::string w = "a.w[" + std::to_string(i) + "]";
    out_ += std::string("  const ") + device_compute(t) + " s" + std::to_string(i) + " = ";
    out_ += t == DType::Float32   ? "pf_bits<float>(static_cast<pf_u32>(" + w + "))"
            : t == DType::Float64 ? "pf_bits<double>(" + w + ")"
            : t == DType::Bool    ? w + " != 0"
            : t == DType::Int32   ? "static_cast<pf_i32>(static_cast<pf_u32>(" + w + "))"
                                  : "static_cast<pf_i64>(" + w + ")";
    out_ += ";\n";
  }
  for (size_t i = 0; i < p_.nodes_.size(); ++i)
    if (p_.needed_[i]) node(static_cast<int>(i));
  out_ += "}\n";
}

void TextPrinter::call_body(const char* e, const char* v) {
  out_ += std::string("  pf_") + part_ + "body<" + e + ", " + v + ">(a";
  for (int k = 0; k < p_.operands(); ++k)
    if (used(k)) out_ += ", " + name(k);
  out_ += ");\n";
}

// Registers of the operands; `whole`: of E elements in rows of V, else of one.
void TextPrinter::declare(bool whole) {
  for (int k = 0; k < p_.operands(); ++k) {
    if (!used(k)) continue;
    out_ += std::string("  ") + compute(k) + " " + name(k) + "[" +
            (whole ? count(spread(k)) : "1") + "];\n";
  }
}
void TextPrinter::load(int k, const std::string& to, const std::string& at, const char* v) {
  const bool past = c_.stream && spread(k) == Spread::Each;
  out_ += std::string("pf_load<") + storage(k) + ", " + v + ", " + (past ? "true" : "false") +
          ">(static_cast<const " + storage(k) + "*>(a.p[" + str(k) + "])" +
          (at.empty() ? "" : " + " + at) + ", " + to + ");\n";
}

// j counts a thread's rows of V. What lies past the end is loaded from the last row instead, and
// not stored.
void TextPrinter::flat() {
  const std::string v = str(c_.vec), e = str(c_.vec * repeats_);
  out_ += "  constexpr int V = " + v + ", E = " + e + ";\n";
  out_ += "  const pf_i64 n = static_cast<pf_i64>(" + word(0) + ");\n";
  out_ += "  const pf_i64 last = (n & ~static_cast<pf_i64>(V - 1)) - V;\n";
  out_ += "  const pf_u32 step = pf_threads() * V;\n";
  out_ +=
      "  const pf_i64 first = static_cast<pf_i64>(pf_block()) * (step * (E / V)) + pf_thread() * "
      "V;\n";
  out_ += "  if (first <= last) {\n";
  declare(true);
  for (int k = 0; k < ninputs_; ++k)
    if (used(k) && spread(k) == Spread::Once) out_ += "  ", load(k, name(k), "", "1");
  out_ += "  PF_UNROLL for (int j = 0; j < E / V; ++j) {\n";
  out_ += "    const pf_i64 want = first + static_cast<pf_i64>(j * step);\n";
  out_ += "    const pf_i64 at = j == 0 || want < last ? want : last;\n";
  for (int k = 0; k < ninputs_; ++k)
    if (used(k) && spread(k) == Spread::Each)
      out_ += "    ", load(k, name(k) + " + j * V", "at", "V");
  out_ += "  }\n";
  call_body("E", "V");
  out_ += "  PF_UNROLL for (int j = 0; j < E / V; ++j) {\n";
  out_ += "    const pf_i64 at = first + static_cast<pf_i64>(j * step);\n";
  out_ += "    if (j == 0 || at <= last) {\n";
  for (int k = ninputs_; k < p_.operands(); ++k)
    out_ += std::string("      pf_store<") + storage(k) + ", V, " + (c_.stream ? "true" : "false") +
            ">(static_cast<" + storage(k) + "*>(a.p[" + str(k) + "]) + at, " + name(k) +
            " + j * V);\n";
  out_ += "    }\n  }\n  }\n";
  if (c_.vec == 1) return;
  // The rest of a vector, one element to a thread.
  out_ += "  if (pf_block() == 0 && static_cast<pf_i64>(pf_thread()) < n - last - V) {\n";
  out_ += "  const pf_i64 at = last + V + pf_thread();\n";
  declare(false);
  for (int k = 0; k < ninputs_; ++k)
    if (used(k)) out_ += "  ", load(k, name(k), spread(k) == Spread::Each ? "at" : "", "1");
  call_body("1", "1");
  for (int k = ninputs_; k < p_.operands(); ++k)
    out_ += std::string("  pf_store<") + storage(k) + ", 1, false>(static_cast<" + storage(k) +
            "*>(a.p[" + str(k) + "]) + at, " + name(k) + ");\n";
  out_ += "  }\n";
}

// Positions along `ndim` dimensions from a row-major number: i0, i1, ... Words from `first` on
// hold size and divisor of dimensions 1 ... ndim - 1.
void TextPrinter::positions(const char* type, const std::string& from, int ndim, int first) {
  const std::string t = type;
  std::string rest = from;
  for (int d = ndim - 1; d > 0; --d) {
    const int w = first + 2 * (d - 1);
    const std::string size = "static_cast<" + t + ">(" + word(w) + ")";
    const std::string q = "q" + str(d);
    out_ += "    const " + t + " " + q + " = " +
            (t == "pf_u32" ? "pf_divide(" + rest + ", " + word(w + 1) + ")" : rest + " / " + size) +
            ";\n";
    out_ += "    const " + t + " i" + str(d) + " = " + rest + " - " + q + " * " + size + ";\n";
    rest = q;
  }
  out_ += "    const " + t + " i0 = " + rest + ";\n";
}

void TextPrinter::rows() {
  const int outer = c_.ndim - 1;
  out_ += "  constexpr int V = " + str(c_.vec) + ", E = " + str(c_.vec * repeats_) + ";\n";
  out_ += "  const pf_u32 cols = static_cast<pf_u32>(" + word(0) + ");\n";
  out_ += "  const pf_u32 rows = static_cast<pf_u32>(" + word(1) + ");\n";
  out_ += "  const pf_u32 across = static_cast<pf_u32>(" + word(2) + ");\n";
  out_ += "  const pf_u32 shift = static_cast<pf_u32>(" + word(3) + ");\n";
  out_ += "  const pf_u32 down = pf_block() / across, lane = pf_thread() & ((1u << shift) - 1u);\n";
  out_ += "  const pf_u32 col = (((pf_block() - down * across) << shift) + lane) * V;\n";
  out_ += "  const pf_u32 step = pf_threads() >> shift;\n";
  out_ += "  const pf_u32 first = down * step * (E / V) + (pf_thread() >> shift);\n";
  out_ += "  if (col >= cols || first >= rows) return;\n";
  declare(true);
  for (int k = 0; k < ninputs_; ++k) {
    if (!used(k)) continue;
    if (spread(k) == Spread::Once) out_ += "  ", load(k, name(k), "", "1");
    if (spread(k) == Spread::AlongRow) out_ += "  ", load(k, name(k), "col", "V");
  }
  // Offsets of the groups that move from row to row.
  int strides = 4 + 2 * (outer - 1);
  std::vector<int> at(c_.ngroups, -1);
  for (int g = 0; g < c_.ngroups; ++g) {
    if (!(c_.walk[g] & LaunchClass::kOuter)) continue;
    at[static_cast<size_t>(g)] = strides;
    strides += outer;
    out_ += "  pf_i64 o" + str(g) + "[E / V];\n";
  }
  out_ += "  PF_UNROLL for (int j = 0; j < E / V; ++j) {\n";
  out_ += "    const pf_u32 want = first + j * step;\n";
  out_ += "    const pf_u32 row = j == 0 || want < rows ? want : rows - 1;\n";
  positions("pf_u32", "row", outer, 4);
  for (int g = 0; g < c_.ngroups; ++g) {
    if (at[static_cast<size_t>(g)] < 0) continue;
    std::string sum = c_.walk[g] & LaunchClass::kInner ? "col" : "0";
    for (int d = 0; d < outer; ++d)
      sum +=
          " + i" + str(d) + " * static_cast<pf_i64>(" + word(at[static_cast<size_t>(g)] + d) + ")";
    out_ += "    o" + str(g) + "[j] = " + sum + ";\n";
  }
  for (int k = 0; k < ninputs_; ++k) {
    if (!used(k)) continue;
    const std::string offset = "o" + str(c_.group[k]) + "[j]";
    if (spread(k) == Spread::Each) out_ += "    ", load(k, name(k) + " + j * V", offset, "V");
    if (spread(k) == Spread::PerRow) out_ += "    ", load(k, name(k) + " + j", offset, "1");
  }
  out_ += "  }\n";
  call_body("E", "V");
  out_ += "  PF_UNROLL for (int j = 0; j < E / V; ++j) {\n";
  out_ += "    if (j == 0 || first + j * step < rows) {\n";
  for (int k = ninputs_; k < p_.operands(); ++k)
    out_ += std::string("      pf_store<") + storage(k) + ", V, " + (c_.stream ? "true" : "false") +
            ">(static_cast<" + storage(k) + "*>(a.p[" + str(k) + "]) + o" + str(c_.group[k]) +
            "[j], " + name(k) + " + j * V);\n";
  out_ += "    }\n  }\n";
}

// A tile of S x S elements. Inputs that are dense along the rows' dimension come through memory of
// the block, so that both sides are touched in the order of memory.
void TextPrinter::tiles() {
  const int outer = c_.ndim - 2, first = 4 + 2 * std::max(0, outer - 1);
  const auto stride = [&](int g, int d) {
    return "static_cast<pf_i64>(" + word(first + g * c_.ndim + d) + ")";
  };
  const auto turned = [&](int k) {
    return k < ninputs_ && used(k) && c_.group[k] != LaunchClass::kSplat &&
           (c_.walk[c_.group[k]] & LaunchClass::kTurned);
  };
  const auto pitch = [&](int k) { return str(p_.tile_pitch(p_.dtype_of(k))); };
  out_ += "  constexpr int V = " + str(c_.vec) + ", S = " + str(p_.tile_side());
  out_ += ", E = S * S / 256;\n";
  out_ += "  const pf_u32 cols = static_cast<pf_u32>(" + word(0) + ");\n";
  out_ += "  const pf_u32 rows = static_cast<pf_u32>(" + word(1) + ");\n";
  out_ += "  const pf_u32 across = static_cast<pf_u32>(" + word(2) + ");\n";
  out_ += "  const pf_u32 down = static_cast<pf_u32>(" + word(3) + ");\n";
  out_ += "  const pf_u32 line = pf_block() / across, plane = line / down;\n";
  out_ += "  const pf_u32 c0 = (pf_block() - line * across) * S, r0 = (line - plane * down) * S;\n";
  if (outer > 0) positions("pf_u32", "plane", outer, 4);
  for (int g = 0; g < c_.ngroups; ++g) {
    std::string sum = "0";
    for (int d = 0; d < outer; ++d) sum += " + i" + str(d) + " * " + stride(g, d);
    out_ += "  const pf_i64 o" + str(g) + " = " + sum + ";\n";
  }
  for (int k = 0; k < ninputs_; ++k)
    if (turned(k))
      out_ +=
          std::string("  PF_SHARED ") + storage(k) + " t" + str(k) + "[S * " + pitch(k) + "];\n";
  out_ += "  PF_UNROLL for (int j = 0; j < E / V; ++j) {\n";
  out_ += "    const pf_u32 n = j * 256 + pf_thread(), r = n % (S / V) * V, c = n / (S / V);\n";
  out_ += "    if (r0 + r < rows && c0 + c < cols) {\n";
  for (int k = 0; k < ninputs_; ++k)
    if (turned(k))
      out_ += std::string("      pf_turn<") + storage(k) + ", V, " +
              (c_.stream ? "true" : "false") + ", " + pitch(k) + ">(static_cast<const " +
              storage(k) + "*>(a.p[" + str(k) + "]) + o" + str(c_.group[k]) +
              " + (r0 + r) + (c0 + c) * " + stride(c_.group[k], c_.ndim - 1) + ", t" + str(k) +
              " + r * " + pitch(k) + " + c);\n";
  out_ += "    }\n  }\n  pf_barrier();\n";
  declare(true);
  for (int k = 0; k < ninputs_; ++k)
    if (used(k) && spread(k) == Spread::Once) out_ += "  ", load(k, name(k), "", "1");
  out_ += "  PF_UNROLL for (int j = 0; j < E / V; ++j) {\n";
  out_ += "    const pf_u32 n = j * 256 + pf_thread(), r = n / (S / V), c = n % (S / V) * V;\n";
  out_ += "    const pf_u32 row = r0 + r < rows ? r0 + r : rows - 1;\n";
  out_ += "    const pf_u32 col = c0 + c < cols ? c0 + c : cols - V;\n";
  for (int k = 0; k < ninputs_; ++k) {
    if (!used(k)) continue;
    const int g = c_.group[k];
    if (turned(k)) {
      out_ += std::string("    pf_load<") + storage(k) + ", V, false, " +
              (itemsize(p_.dtype_of(k)) == 8 ? "8" : "4") + ">(t" + str(k) + " + r * " + pitch(k) +
              " + c, " + name(k) + " + j * V);\n";
      continue;
    }
    if (spread(k) == Spread::Once) continue;
    const std::string offset = "o" + str(g) + " + row * " + stride(g, c_.ndim - 2);
    if (spread(k) == Spread::Each)
      out_ += "    ", load(k, name(k) + " + j * V", offset + " + col", "V");
    else
      out_ += "    ", load(k, name(k) + " + j", offset, "1");
  }
  out_ += "  }\n";
  call_body("E", "V");
  out_ += "  PF_UNROLL for (int j = 0; j < E / V; ++j) {\n";
  out_ += "    const pf_u32 n = j * 256 + pf_thread(), r = n / (S / V), c = n % (S / V) * V;\n";
  out_ += "    if (r0 + r < rows && c0 + c < cols) {\n";
  for (int k = ninputs_; k < p_.operands(); ++k) {
    const int g = c_.group[k];
    out_ += std::string("      pf_store<") + storage(k) + ", V, " + (c_.stream ? "true" : "false") +
            ">(static_cast<" + storage(k) + "*>(a.p[" + str(k) + "]) + o" + str(g) +
            " + (r0 + r) * " + stride(g, c_.ndim - 2) + " + (c0 + c), " + name(k) + " + j * V);\n";
  }
  out_ += "    }\n  }\n";
}

void TextPrinter::lines() {
  const std::string t = c_.wide ? "pf_u64" : "pf_u32", o = c_.wide ? "pf_i64" : "pf_i32";
  out_ += "  constexpr int V = 1, E = " + str(repeats_) + ";\n";
  out_ += "  const " + t + " n = static_cast<" + t + ">(" + word(0) + ");\n";
  out_ += "  const pf_u32 step = pf_threads();\n";
  out_ +=
      "  const " + t + " first = static_cast<" + t + ">(pf_block()) * (step * E) + pf_thread();\n";
  out_ += "  if (first >= n) return;\n";
  declare(true);
  for (int k = 0; k < ninputs_; ++k)
    if (used(k) && spread(k) == Spread::Once) out_ += "  ", load(k, name(k), "", "1");
  for (int g = 0; g < c_.ngroups; ++g) out_ += "  " + o + " o" + str(g) + "[E];\n";
  out_ += "  PF_UNROLL for (int j = 0; j < E; ++j) {\n";
  out_ += "    const " + t + " want = first + j * step;\n";
  out_ += "    const " + t + " at = j == 0 || want < n ? want : n - 1;\n";
  positions(t.c_str(), "at", c_.ndim, 1);
  for (int g = 0; g < c_.ngroups; ++g) {
    std::string sum;
    for (int d = 0; d < c_.ndim; ++d)
      sum += (d ? " + " : "") + ("static_cast<" + o + ">(i") + str(d) + ") * static_cast<" + o +
             ">(" + word(1 + 2 * (c_.ndim - 1) + g * c_.ndim + d) + ")";
    out_ += "    o" + str(g) + "[j] = " + sum + ";\n";
  }
  for (int k = 0; k < ninputs_; ++k)
    if (used(k) && spread(k) == Spread::Each)
      out_ += "    ", load(k, name(k) + " + j", "o" + str(c_.group[k]) + "[j]", "1");
  out_ += "  }\n";
  call_body("E", "V");
  out_ += "  PF_UNROLL for (int j = 0; j < E; ++j) {\n";
  out_ += "    if (j == 0 || first + j * step < n) {\n";
  for (int k = ninputs_; k < p_.operands(); ++k)
    out_ += std::string("      pf_store<") + storage(k) + ", 1, false>(static_cast<" + storage(k) +
            "*>(a.p[" + str(k) + "]) + o" + str(c_.group[k]) + "[j], " + name(k) + " + j);\n";
  out_ += "    }\n  }\n";
}

// Of a part of another kernel: group k holds operand k alone, so that its strides have places of
// their own.
std::string TextPrinter::part_address(int k) {
  std::string sum;
  if (spread(k) == Spread::Once) return sum;
  if (spread(k) != Spread::AlongRow) sum += "row * static_cast<pf_i64>(" + word(2 * k) + ")";
  if (spread(k) == Spread::PerRow) return sum;
  if (!sum.empty()) sum += " + ";
  return sum + (c_.vec > 1 ? "col" : "col * static_cast<pf_i64>(" + word(2 * k + 1) + ")");
}
void TextPrinter::store_part(int k) {
  out_ += std::string("  pf_store<") + storage(k) + ", V, " + (c_.stream ? "true" : "false") +
          ">(static_cast<" + storage(k) + "*>(a.p[" + str(k) + "]) + " + part_address(k) + ", " +
          name(k) + ");\n";
}

// `with` pass between the program and the kernel. What moves along columns waits in registers as
// memory has it.
void TextPrinter::part(const char* type, std::span<const int> with, uint32_t keep) {
  const auto passes = [&](int k) { return std::find(with.begin(), with.end(), k) != with.end(); };
  const auto waits = [&](int k) {
    return k < ninputs_ && !passes(k) && used(k) &&
           (spread(k) == Spread::Each || spread(k) == Spread::AlongRow);
  };
  const std::string where = "(const " + args() + "& a, pf_i64 row, pf_i64 col";
  const auto past = [&](int k) {
    return c_.stream && spread(k) == Spread::Each ? "true" : "false";
  };
  const auto from = [&](int k) {
    return std::string("static_cast<const ") + storage(k) + "*>(a.p[" + str(k) + "]) + " +
           part_address(k);
  };
  const auto load_it = [&](int k) {
    out_ += "    w" + str(k) + ".template load<" + past(k) + ">(" + from(k) + ");\n";
  };
  out_ += std::string("template <int N>\nstruct ") + type + " {\n";
  for (int k = 0; k < ninputs_; ++k)
    if (waits(k)) out_ += std::string("  pf_vector<") + storage(k) + ", N> w" + str(k) + ";\n";
  out_ += "  PF_METHOD void load" + where + ") {\n";
  for (int k = 0; k < ninputs_; ++k)
    if (waits(k)) load_it(k);
  out_ += "  }\n";
  if (with[0] >= ninputs_) {
    // Of rows in shared memory: the elements of operands lie behind each other, large ones first.
    out_ += "#if PF_KEEP\n  static PF_METHOD void keep" + where +
            ", char* to, pf_i64 c, pf_i64 vectors) {\n";
    const auto kept = p_.kept_inputs(c_);
    const auto place = [&](size_t i) {
      int before = 0;
      for (size_t j = 0; j < i; ++j) before += static_cast<int>(itemsize(p_.dtype_of(kept[j])));
      return "to + (vectors * " + str(before) + " + c * static_cast<pf_i64>(sizeof(" +
             storage(kept[i]) + "))) * N";
    };
    for (size_t i = 0; i < kept.size(); ++i)
      out_ += std::string("    pf_keep<") + storage(kept[i]) + ", N, " + past(kept[i]) + ">(" +
              place(i) + ", " + from(kept[i]) + ");\n";
    out_ +=
        "  }\n  PF_METHOD void kept" + where + ", const char* to, pf_i64 c, pf_i64 vectors) {\n";
    for (int k = 0; k < ninputs_; ++k)
      if (waits(k) && spread(k) != Spread::Each) load_it(k);
    for (size_t i = 0; i < kept.size(); ++i)
      out_ += "    pf_kept(" + place(i) + ", w" + str(kept[i]) + ");\n";
    out_ += "  }\n#endif\n";
  }
  out_ += "  PF_METHOD void run" + where;
  for (int k : with)
    out_ += std::string(k < ninputs_ ? ", const " : ", ") + compute(k) + " (&" + name(k) + ")[N]";
  out_ += ") const {\n  constexpr int V = N, E = N;\n";
  for (int k = 0; k < p_.operands(); ++k)
    if (used(k) && !passes(k))
      out_ += std::string("  ") + compute(k) + " " + name(k) + "[" + count(spread(k)) + "];\n";
  for (int k = 0; k < ninputs_; ++k) {
    if (waits(k))
      out_ +=
          "  PF_UNROLL for (int e = 0; e < N; ++e) " + name(k) + "[e] = w" + str(k) + ".get(e);\n";
    else if (used(k) && !passes(k))
      out_ += "  ", load(k, name(k), part_address(k), "1");
  }
  call_body("E", "V");
  for (int k = ninputs_; k < p_.operands(); ++k)
    if (keep >> k & 1 || !passes(k)) store_part(k);
  word(2 * p_.operands() - 1);
  out_ += "  }\n};\n";
}

std::string DeviceProgram::epilogue_text(const LaunchClass& c, int from) const {
  return TextPrinter(*this, c).print_part("pf_after", "", {&from, 1}, 0);
}
std::string DeviceProgram::prologue_text(const LaunchClass& c, std::span<const int> to,
                                         uint32_t keep) const {
  return TextPrinter(*this, c).print_part("pf_before", "before_", to, keep);
}
std::string DeviceProgram::text(const LaunchClass& c, const std::string& entry) const {
  return TextPrinter(*this, c).print(entry);
}

}  // namespace pyflame::gpu
