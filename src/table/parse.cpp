#include "table/parse.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "pyflame/error.h"

namespace pyflame::table {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxNodes = 200;

// Micro-operations by the name they have in text; bit operations are for integers only.
Micro micro_of(const std::string& name) {
  struct Alias {
    const char* name;
    Micro op;
  };
  static constexpr Alias kAliases[] = {
      {"where", Micro::Select},          {"maximum", Micro::Max},   {"minimum", Micro::Min},
      {"floor_divide", Micro::FloorDiv}, {"arctan2", Micro::Atan2}, {"power", Micro::Pow},
  };
  for (const Alias& a : kAliases)
    if (name == a.name) return a.op;
  for (int i = 0; i < static_cast<int>(Micro::kCount); ++i) {
    const Micro m = static_cast<Micro>(i);
    if (micro_arity(m) == 0 || (m >= Micro::BitAnd && m <= Micro::Shr)) continue;
    const char* known = micro_name(m);
    size_t k = 0;
    for (; k < name.size() && known[k]; ++k)
      if (std::tolower(static_cast<unsigned char>(known[k])) != name[k]) break;
    if (k == name.size() && !known[k]) return m;
  }
  return Micro::kCount;
}

bool takes_masks(Micro m) {
  return m == Micro::And || m == Micro::Or || m == Micro::Xor || m == Micro::Not;
}

class Parser {
 public:
  Parser(const std::string& text, const std::vector<std::string>& inputs,
         const std::vector<std::string>& attrs, const Lookup& lookup, const char* op)
      : text_(text), inputs_(inputs), attrs_(attrs), lookup_(lookup), op_(op) {}

  Expr run() {
    const int root = conditional();
    skip();
    if (at_ != text_.size()) fail(at_, "an operator or the end");
    Expr e = g_.extract(root);
    PF_CHECK(e.nodes.size() <= kMaxNodes, ValueError, op_, "got an expression of ", e.nodes.size(),
             " steps; expected at most ", kMaxNodes, "; split it into several operations");
    return e;
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& expected) {
    std::string got = at < text_.size() ? "'" + text_.substr(at, 12) + "'" : "the end";
    PF_FAIL(ValueError, op_, "got ", got, " at position ", at, " of \"", text_, "\"; expected ",
            expected, "; correct the expression");
  }

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(const char* symbol) {
    skip();
    const size_t n = std::string_view(symbol).size();
    if (text_.compare(at_, n, symbol) != 0) return false;
    at_ += n;
    return true;
  }
  static bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  std::string peek_word() {
    skip();
    size_t end = at_;
    if (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) return "";
    while (end < text_.size() && word_char(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take_word(const char* w) {
    if (peek_word() != w) return false;
    at_ += std::string_view(w).size();
    return true;
  }

  int number(int node, size_t at) {
    if (g_[node].mask) fail(at, "a number, not a condition");
    return node;
  }
  int mask(int node, size_t at) {
    if (!g_[node].mask) fail(at, "a condition such as x > 0");
    return node;
  }

  struct Depth {
    Parser& p;
    explicit Depth(Parser& parser) : p(parser) {
      if (++p.depth_ > kMaxDepth) p.fail(p.at_, "fewer nested parentheses");
    }
    ~Depth() { --p.depth_; }
  };

  int conditional() {
    Depth depth(*this);
    const size_t start = at_;
    const int yes = disjunction();
    if (!take_word("if")) return yes;
    const size_t at = at_;
    const int condition = mask(disjunction(), at);
    if (!take_word("else")) fail(at_, "'else'");
    const size_t other = at_;
    const int no = conditional();
    return g_.make(Micro::Select, condition, number(yes, start), number(no, other));
  }

  int disjunction() {
    size_t at = at_;
    int left = conjunction();
    while (take_word("or")) {
      const size_t next = at_;
      left = g_.make(Micro::Or, mask(left, at), mask(conjunction(), next));
    }
    return left;
  }

  int conjunction() {
    size_t at = at_;
    int left = negation();
    while (take_word("and")) {
      const size_t next = at_;
      left = g_.make(Micro::And, mask(left, at), mask(negation(), next));
    }
    return left;
  }

  int negation() {
    if (!take_word("not")) return comparison();
    Depth depth(*this);
    const size_t at = at_;
    return g_.make(Micro::Not, mask(negation(), at));
  }

  int comparison() {
    const size_t at = at_;
    const int left = sum();
    static constexpr std::pair<const char*, Micro> kOps[] = {{"<=", Micro::Le}, {">=", Micro::Ge},
                                                             {"==", Micro::Eq}, {"!=", Micro::Ne},
                                                             {"<", Micro::Lt},  {">", Micro::Gt}};
    for (auto [symbol, op] : kOps)
      if (take(symbol)) {
        const size_t next = at_;
        return g_.make(op, number(left, at), number(sum(), next));
      }
    return left;
  }

  int sum() {
    const size_t at = at_;
    int left = product();
    for (;;) {
      const Micro op = take("+") ? Micro::Add : take("-") ? Micro::Sub : Micro::kCount;
      if (op == Micro::kCount) return left;
      const size_t next = at_;
      left = g_.make(op, number(left, at), number(product(), next));
    }
  }

  int product() {
    const size_t at = at_;
    int left = unary();
    for (;;) {
      skip();
      if (text_.compare(at_, 2, "**") == 0) return left;
      const Micro op = take("//")  ? Micro::FloorDiv
                       : take("*") ? Micro::Mul
                       : take("/") ? Micro::Div
                       : take("%") ? Micro::Remainder
                                   : Micro::kCount;
      if (op == Micro::kCount) return left;
      const size_t next = at_;
      left = g_.make(op, number(left, at), number(unary(), next));
    }
  }

  int unary() {
    Depth depth(*this);
    if (take("-")) {
      const size_t at = at_;
      return g_.make(Micro::Neg, number(unary(), at));
    }
    if (take("+")) return unary();
    const size_t at = at_;
    const int base = atom();
    if (!take("**")) return base;
    const size_t next = at_;
    return power(number(base, at), number(unary(), next));
  }

  // Small whole powers are products, exact for any base.
  int power(int base, int exponent) {
    if (g_.is_const(exponent, 2)) return g_.make(Micro::Mul, base, base);
    if (g_.is_const(exponent, 3)) return g_.make(Micro::Mul, g_.make(Micro::Mul, base, base), base);
    if (g_.is_const(exponent, 0.5)) return g_.make(Micro::Sqrt, base);
    return g_.make(Micro::Pow, base, exponent);
  }

  int atom() {
    skip();
    const size_t start = at_;
    if (take("(")) {
      const int inner = conditional();
      if (!take(")")) fail(at_, "')'");
      return inner;
    }
    if (at_ < text_.size() &&
        (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.')) {
      double v = 0;
      auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
      if (ec != std::errc()) fail(start, "a number that fits a double");
      at_ = static_cast<size_t>(end - text_.data());
      return g_.constant(v);
    }
    const std::string word = peek_word();
    if (word.empty()) fail(start, "an operand, a number, a function or '('");
    at_ += word.size();
    if (take("(")) return call(word, start);
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (word == inputs_[i]) return g_.input(static_cast<int>(i));
    for (size_t i = 0; i < attrs_.size(); ++i)
      if (word == attrs_[i]) return g_.attr(static_cast<int>(i));
    if (word == "pi") return g_.constant(3.14159265358979323846);
    if (word == "e") return g_.constant(2.71828182845904523536);
    if (word == "inf") return g_.constant(std::numeric_limits<double>::infinity());
    if (word == "nan") return g_.constant(std::numeric_limits<double>::quiet_NaN());
    std::string names;
    for (const auto* list : {&inputs_, &attrs_})
      for (const auto& n : *list) names += (names.empty() ? "" : ", ") + n;
    fail(start, "one of the names " + names);
  }

  int call(const std::string& name, size_t start) {
    std::vector<int> args;
    std::vector<size_t> where;
    if (!take(")")) {
      do {
        skip();
        where.push_back(at_);
        args.push_back(conditional());
      } while (take(","));
      if (!take(")")) fail(at_, "',' or ')'");
    }
    auto count = [&](size_t low, size_t high) {
      if (args.size() >= low && args.size() <= high) return;
      fail(start, name + "() with " + std::to_string(low) +
                      (low == high ? "" : " to " + std::to_string(high)) + " arguments, not " +
                      std::to_string(args.size()));
    };
    if (const Micro m = micro_of(name); m != Micro::kCount) {
      count(static_cast<size_t>(micro_arity(m)), static_cast<size_t>(micro_arity(m)));
      for (size_t i = 0; i < args.size(); ++i) {
        if (takes_masks(m) || (m == Micro::Select && i == 0))
          mask(args[i], where[i]);
        else
          number(args[i], where[i]);
      }
      args.resize(3, -1);
      return m == Micro::Pow ? power(args[0], args[1]) : g_.make(m, args[0], args[1], args[2]);
    }
    const Function f = lookup_ ? lookup_(name) : Function{};
    if (!f.body) fail(start, "a known function; '" + name + "' is none");
    const size_t n = static_cast<size_t>(f.inputs);
    count(n, n + f.attrs.size());
    for (size_t i = 0; i < args.size(); ++i) number(args[i], where[i]);
    std::vector<int> attrs;
    for (size_t i = 0; i < f.attrs.size(); ++i)
      attrs.push_back(n + i < args.size() ? args[n + i] : g_.constant(f.attrs[i]));
    return g_.insert(*f.body, std::span(args).first(n), attrs);
  }

  const std::string& text_;
  const std::vector<std::string>& inputs_;
  const std::vector<std::string>& attrs_;
  const Lookup& lookup_;
  const char* op_;
  Graph g_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr parse(const std::string& text, const std::vector<std::string>& inputs,
           const std::vector<std::string>& attrs, const Lookup& lookup, const char* op) {
  return Parser(text, inputs, attrs, lookup, op).run();
}

}  // namespace pyflame::table
