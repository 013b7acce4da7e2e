#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "table/expr.h"

namespace pyflame::table {
namespace {

constexpr const char* kText[] = {
#define PF_MICRO(NAME, ARITY, MASK, TEXT, VALUE) TEXT,
#include "table/micro.def"
};

std::string number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buf[32];
  auto end = std::to_chars(buf, buf + sizeof(buf), v).ptr;
  return std::string(buf, end);
}

// Rounded to the type here: the shortest text of a double need not round to the same float.
std::string c_number(double v, const std::string& type) {
  const bool single = type == "float";
  if (single) v = static_cast<float>(v);
  if (std::isnan(v)) return "PF_NAN";
  if (std::isinf(v)) return v < 0 ? "-PF_INF" : "PF_INF";
  char buf[32];
  auto end = single ? std::to_chars(buf, buf + sizeof(buf), static_cast<float>(v)).ptr
                    : std::to_chars(buf, buf + sizeof(buf), v).ptr;
  std::string s(buf, end);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return single ? s + "f" : "(" + type + ")" + s;
}

// Integers wrap, and their quotients are rounded down, as on the CPU.
const char* c_text(Micro op, const std::string& type) {
  if (type != "float" && type != "double") {
    switch (op) {
      case Micro::Add:
        return "pf_add($0, $1)";
      case Micro::Sub:
        return "pf_sub($0, $1)";
      case Micro::Mul:
        return "pf_mul($0, $1)";
      case Micro::Div:
        return "pf_floordiv($0, $1)";
      case Micro::Neg:
        return "pf_neg($0)";
      default:
        break;
    }
  }
  return kText[static_cast<int>(op)];
}

struct Piece {
  std::string text;
  int level;  // binding strength; higher binds tighter
};

constexpr int kOr = 1, kXor = 2, kAnd = 3, kNot = 4, kCompare = 5, kSum = 6, kProduct = 7,
              kUnary = 8, kAtom = 10;

struct Infix {
  Micro op;
  const char* text;
  int level;
};
constexpr Infix kInfix[] = {
    {Micro::Add, " + ", kSum},     {Micro::Sub, " - ", kSum},     {Micro::Mul, " * ", kProduct},
    {Micro::Div, " / ", kProduct}, {Micro::Lt, " < ", kCompare},  {Micro::Le, " <= ", kCompare},
    {Micro::Gt, " > ", kCompare},  {Micro::Ge, " >= ", kCompare}, {Micro::Eq, " == ", kCompare},
    {Micro::Ne, " != ", kCompare}, {Micro::Or, " or ", kOr},      {Micro::Xor, " xor ", kXor},
    {Micro::And, " and ", kAnd},
};

std::string at_least(const Piece& p, int level) {
  return p.level >= level ? p.text : "(" + p.text + ")";
}

std::string lower(const char* s) {
  std::string r;
  for (; *s; ++s) r += static_cast<char>(std::tolower(static_cast<unsigned char>(*s)));
  return r;
}

}  // namespace

std::string formula(const Expr& e, std::span<const std::string> inputs,
                    std::span<const std::string> attrs) {
  std::vector<Piece> p(e.nodes.size());
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& n = e.nodes[i];
    auto in = [&](int k) -> const Piece& { return p[static_cast<size_t>(n.in[k])]; };
    if (const auto* o = std::ranges::find(kInfix, n.op, &Infix::op); o != std::end(kInfix)) {
      p[i] = {at_least(in(0), o->level) + o->text + at_least(in(1), o->level + 1), o->level};
      continue;
    }
    switch (n.op) {
      case Micro::Input:
        p[i] = {inputs[n.index], kAtom};
        break;
      case Micro::Attr:
        p[i] = {attrs[n.index], kAtom};
        break;
      case Micro::Const:
        p[i] = {number(n.value), n.value < 0 ? kUnary : kAtom};
        break;
      case Micro::Neg:
        p[i] = {"-" + at_least(in(0), kUnary), kUnary};
        break;
      case Micro::Not:
        p[i] = {"not " + at_least(in(0), kNot), kNot};
        break;
      default: {
        std::string s = n.op == Micro::Select ? "where" : lower(micro_name(n.op));
        s += "(";
        for (int k = 0; k < micro_arity(n.op); ++k) s += (k ? ", " : "") + in(k).text;
        p[i] = {s + ")", kAtom};
      }
    }
  }
  return p.back().text;
}

std::string c_statements(const Expr& e, const std::string& type, const std::string& result,
                         std::span<const std::string> inputs, std::span<const std::string> attrs) {
  std::vector<int> uses(e.nodes.size(), 0);
  for (const auto& n : e.nodes)
    for (int k : n.in)
      if (k >= 0) ++uses[static_cast<size_t>(k)];
  std::vector<std::string> text(e.nodes.size());
  std::string out;
  int temporaries = 0;
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& n = e.nodes[i];
    std::string s;
    if (n.op == Micro::Input) {
      s = inputs[n.index];
    } else if (n.op == Micro::Attr) {
      s = attrs[n.index];
    } else if (n.op == Micro::Const) {
      s = n.mask ? (n.value != 0 ? "true" : "false") : c_number(n.value, type);
    } else {
      for (const char* t = c_text(n.op, type); *t; ++t) {
        if (*t == '$')
          s += text[static_cast<size_t>(n.in[*++t - '0'])];
        else
          s += *t;
      }
      if (uses[i] > 1) {
        const std::string name = result + "_" + std::to_string(temporaries++);
        out += "const " + (n.mask ? std::string("bool") : type) + " " + name + " = " + s + ";\n";
        s = name;
      }
    }
    text[i] = s;
  }
  return out + "const " + (e.root().mask ? std::string("bool") : type) + " " + result + " = " +
         text.back() + ";\n";
}

}  // namespace pyflame::table
