#include "table/schema.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace pyflame::table {

namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Schema parse();

 private:
  [[noreturn]] void bad(std::string_view what, std::string_view where, const char* expected) const {
    PF_FAIL(ValueError, "schema", "got '", text_, "' with ", what, " '", where, "'; expected ",
            expected, "; correct the schema");
  }
  std::vector<std::string_view> split(std::string_view s) const;
  std::string_view inner(std::string_view s) const;
  Type type(std::string_view s) const;
  int64_t integer(std::string_view s) const;
  double number(std::string_view s) const;
  ops::Value default_of(const Param& p) const;
  Param param(std::string_view part) const;
  void results(Schema* s) const;

  std::string_view text_;
};

bool is_identifier(std::string_view s) {
  const auto letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !s.empty() && letter(s[0]) && std::all_of(s.begin(), s.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

// At commas outside brackets and quotes.
std::vector<std::string_view> Parser::split(std::string_view s) const {
  std::vector<std::string_view> parts;
  if (trim(s).empty()) return parts;
  int depth = 0;
  char quote = 0;
  size_t start = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '(') {
      ++depth;
    } else if (c == ']' || c == ')') {
      if (--depth < 0) bad("a bracket that nothing opens in", s, "pairs of brackets");
    } else if (c == ',' && depth == 0) {
      parts.push_back(trim(s.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (quote) bad("a quote that nothing closes in", s, "pairs of quotes");
  if (depth) bad("a bracket that nothing closes in", s, "pairs of brackets");
  parts.push_back(trim(s.substr(start)));
  for (std::string_view part : parts)
    if (part.empty()) bad("an empty place in", s, "something between commas");
  return parts;
}

// What is between the brackets of a list.
std::string_view Parser::inner(std::string_view s) const {
  const char close = s.front() == '[' ? ']' : ')';
  if (s.size() < 2 || s.back() != close) bad("the list", s, "brackets around it");
  return s.substr(1, s.size() - 2);
}

Type Parser::type(std::string_view s) const {
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"Tensor", Type::Tensor}, {"Tensor[]", Type::TensorList}, {"int", Type::Int},
      {"int[]", Type::IntList}, {"float", Type::Float},         {"float[]", Type::FloatList},
      {"bool", Type::Bool},     {"Scalar", Type::Scalar},       {"str", Type::Str},
      {"dtype", Type::DType},   {"device", Type::Device},       {"Device", Type::Device}};
  for (auto [name, type] : kTypes)
    if (s == name) return type;
  bad("the type", s,
      "Tensor, int, float, bool, Scalar, str, dtype, device or a list such as int[]");
}

int64_t Parser::integer(std::string_view s) const {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) bad("the default", s, "an int");
  return value;
}

double Parser::number(std::string_view s) const {
  if (s == "inf") return std::numeric_limits<double>::infinity();
  if (s == "-inf") return -std::numeric_limits<double>::infinity();
  if (s == "nan") return std::nan("");
  double value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size() ||
      std::isalpha(static_cast<unsigned char>(s.back())))
    bad("the default", s, "a number");
  return value;
}

std::optional<bool> truth(std::string_view s) {
  if (s == "True") return true;
  if (s == "False") return false;
  return std::nullopt;
}

ops::Value Parser::default_of(const Param& p) const {
  const std::string_view s = p.default_text;
  if (s == "None") return {};
  if (s.empty()) bad("no default after", p.name + "=", "a value");
  const bool bracketed = s[0] == '[' || s[0] == '(';
  switch (p.type) {
    case Type::Int:
      return ops::Value(integer(s));
    case Type::Float:
      return ops::Value(number(s));
    case Type::Bool:
      if (const auto on = truth(s)) return ops::Value(*on);
      bad("the default", s, "True or False");
    case Type::Scalar:
      if (const auto on = truth(s)) return ops::Value(Scalar(*on));
      if (s.find_first_not_of("-0123456789") == s.npos) return ops::Value(Scalar(integer(s)));
      return ops::Value(Scalar(number(s)));
    case Type::IntList: {
      IntList list;
      for (std::string_view v : bracketed ? split(inner(s)) : split(s)) list.push_back(integer(v));
      return ops::Value(std::move(list));
    }
    case Type::FloatList: {
      std::vector<double> list;
      for (std::string_view v : bracketed ? split(inner(s)) : split(s)) list.push_back(number(v));
      return ops::Value(std::move(list));
    }
    case Type::TensorList:
      if (s != "[]" && s != "()") bad("the default", s, "None or []");
      return ops::Value(TensorList{});
    case Type::Str:
      if (s.size() < 2 || (s[0] != '\'' && s[0] != '"') || s.back() != s[0])
        bad("the default", s, "a text in quotes");
      return ops::Value(std::string(s.substr(1, s.size() - 2)));
    case Type::DType:
      return ops::Value(dtype_from_name(s.substr(s.rfind('.') + 1)));
    case Type::Device:
      if (s.size() < 2 || s[0] != '\'' || s.back() != '\'') bad("the default", s, "'cpu' or None");
      return ops::Value(parse_device(std::string(s.substr(1, s.size() - 2))));
    case Type::Tensor:
      bad("the default", s, "None, for a tensor");
  }
  return {};
}

Param Parser::param(std::string_view part) const {
  Param p;
  const size_t eq = part.find('=');
  const std::string_view head = trim(part.substr(0, eq));
  const size_t space = head.rfind(' ');
  if (space == std::string_view::npos) bad("the parameter", part, "a type and a name");
  std::string_view names = head.substr(space + 1);
  for (size_t bar; (bar = names.rfind('|')) != std::string_view::npos; names = names.substr(0, bar))
    p.aliases.emplace_back(names.substr(bar + 1));
  p.name = std::string(names);
  if (!is_identifier(p.name) || !std::all_of(p.aliases.begin(), p.aliases.end(), is_identifier))
    bad("the name of the parameter", part, "letters, digits and underscores");
  std::string_view type_text = trim(head.substr(0, space));
  if (!type_text.empty() && type_text.back() == '?') {
    p.optional = true;
    type_text.remove_suffix(1);
  }
  p.type = type(trim(type_text));
  if (eq != std::string_view::npos) {
    p.has_default = true;
    p.default_text = std::string(trim(part.substr(eq + 1)));
    p.default_value = default_of(p);
    if (p.default_text == "None") p.optional = true;
  }
  return p;
}

void Parser::results(Schema* s) const {
  if (s->result == "Tensor | Tensor[]") {
    s->results = {Type::Tensor};
    s->one_or_list = true;
  } else if (s->result.front() == '(') {
    for (std::string_view part : split(inner(s->result))) {
      const size_t space = part.rfind(' ');
      s->results.push_back(type(trim(part.substr(0, space))));
      if (space != std::string_view::npos) s->result_names.emplace_back(part.substr(space + 1));
      if (s->result_names.size() % s->results.size() ||
          (space != std::string_view::npos && !is_identifier(s->result_names.back())))
        bad("the result", part, "a type and a name, or the types of all alone");
    }
  } else if (s->result != "None") {
    s->results = {type(s->result)};
  }
}

Schema Parser::parse() {
  Schema s;
  const size_t open = text_.find('(');
  if (open == std::string_view::npos) bad("no parameters after", text_, "name(...) -> result");
  s.name = std::string(trim(text_.substr(0, open)));
  if (!is_identifier(s.name)) bad("the name", s.name, "letters, digits and underscores");
  const size_t arrow = text_.rfind("->");
  if (arrow == std::string_view::npos) bad("no result after", text_, "-> and a type, or None");
  const size_t close = text_.substr(0, arrow).rfind(')');
  if (close == std::string_view::npos || close < open ||
      !trim(text_.substr(close + 1, arrow - close - 1)).empty())
    bad("no closing bracket in", text_.substr(open, arrow - open), "name(...) -> result");
  bool keyword_only = false;
  for (std::string_view part : split(text_.substr(open + 1, close - open - 1))) {
    if (part == "*") {
      if (keyword_only) bad("a second", part, "one before the parameters given by keyword");
      keyword_only = true;
      continue;
    }
    Param p = param(part);
    p.keyword_only = keyword_only;
    if (s.has(p.name)) bad("two parameters of the name", p.name, "different names");
    if (!keyword_only && !p.has_default && !s.params.empty() && s.params.back().has_default)
      bad("a parameter without a default behind one with:", part, "defaults at the end");
    if (!keyword_only) ++s.positional;
    s.params.push_back(std::move(p));
  }
  s.result = std::string(trim(text_.substr(arrow + 2)));
  if (s.result.empty()) bad("no result after", "->", "a type, or None");
  results(&s);
  return s;
}

}  // namespace

bool Schema::has(std::string_view param) const {
  return std::any_of(params.begin(), params.end(), [&](const Param& p) { return p.name == param; });
}

Schema parse_schema(std::string_view text) {
  return Parser(text).parse();
}

std::string without_aliases(std::string text) {
  for (size_t bar; (bar = text.find('|')) != std::string::npos && bar > 0;) {
    if (text[bar - 1] == ' ') break;  // between results
    text.erase(bar, text.find_first_of("|=,) ", bar + 1) - bar);
  }
  return text;
}

}  // namespace pyflame::table
