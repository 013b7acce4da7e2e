#include "gpu/prune.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>

namespace pyflame::gpu {
namespace {

using Names = std::vector<std::string_view>;

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool digit(char c) {
  return c >= '0' && c <= '9';
}

// A token of C++: a name, a directive up to the end of its line, or anything else; comments and
// blanks are between tokens.
struct Token {
  enum Kind { End, Name, Directive, Number, Other } kind = End;
  std::string_view text;
  size_t begin = 0, end = 0;
  bool is(std::string_view s) const { return text == s; }
};

class Lexer {
 public:
  Lexer(std::string_view text, size_t at) : s_(text), at_(at) {}
  size_t at() const { return at_; }
  void seek(size_t at) { at_ = at; }
  bool before(char c) const {
    const size_t i = s_.find_first_not_of(" \n\t\r\\", at_);
    return i != s_.npos && s_[i] == c;
  }

  Token next() {
    skip();
    Token t;
    t.begin = at_;
    if (at_ >= s_.size()) {
      t.end = at_;
      return t;
    }
    const char c = s_[at_];
    if (c == '#' && first_of_line()) {
      t.kind = Token::Directive;
      while (at_ < s_.size() && (s_[at_] != '\n' || s_[at_ - 1] == '\\')) ++at_;
    } else if (starts_name(c)) {
      t.kind = Token::Name;
      while (at_ < s_.size() && (starts_name(s_[at_]) || digit(s_[at_]))) ++at_;
    } else if (digit(c)) {
      t.kind = Token::Number;
      while (at_ < s_.size() && (starts_name(s_[at_]) || digit(s_[at_]) || s_[at_] == '.')) ++at_;
    } else if (c == '"' || c == '\'') {
      t.kind = Token::Other;
      for (++at_; at_ < s_.size() && s_[at_] != c; ++at_)
        if (s_[at_] == '\\') ++at_;
      ++at_;
    } else {
      t.kind = Token::Other;
      ++at_;
      // A comparison must not be taken for an initializer.
      if (at_ < s_.size() && s_[at_] == '=' && (c == '=' || c == '<' || c == '>' || c == '!'))
        ++at_;
      if (at_ < s_.size() && c == '#' && s_[at_] == '#') ++at_;
    }
    if (at_ > s_.size()) at_ = s_.size();
    t.end = at_;
    t.text = s_.substr(t.begin, t.end - t.begin);
    return t;
  }

 private:
  bool starts(std::string_view what) const { return s_.substr(at_, what.size()) == what; }
  void skip() {
    for (;;) {
      while (at_ < s_.size() && (s_[at_] == ' ' || s_[at_] == '\n' || s_[at_] == '\t' ||
                                 s_[at_] == '\r' || s_[at_] == '\\'))
        ++at_;
      if (starts("//"))
        at_ = std::min(s_.find('\n', at_), s_.size());
      else if (starts("/*"))
        at_ = std::min(s_.find("*/", at_ + 2), s_.size() - 2) + 2;
      else
        return;
    }
  }
  bool first_of_line() const {
    for (size_t i = at_; i > 0; --i) {
      if (s_[i - 1] == '\n') return true;
      if (s_[i - 1] != ' ' && s_[i - 1] != '\t') return false;
    }
    return true;
  }
  std::string_view s_;
  size_t at_;
};

struct Macro {
  std::string_view body;
  Names parameters;  // the last one of a variadic macro is __VA_ARGS__
  bool function = false;
};

struct Macros {
  std::unordered_multimap<std::string_view, Macro> by_name;
  std::unordered_map<std::string_view, bool> ending, gluing;  // as far as they were asked for
  std::deque<std::string> texts;                              // that names point into

  void add(std::string_view name, Macro m) {
    by_name.emplace(name, std::move(m));
    ending.clear();
    gluing.clear();
  }
};

struct Item {
  size_t begin, end;
  Names names;  // none: it always stays
  Names uses;
  Names arguments;         // of a specialisation: it is needed where they are
  Names kernels;           // that it defines
  bool announced = false;  // `struct X;`
};

class Parser {
 public:
  Parser(std::string_view text, Macros& macros, int depth = 0)
      : lexer_(text, 0), macros_(macros), depth_(depth) {}

  std::vector<Item> items() {
    std::vector<Item> out;
    for (;;) {
      const Token t = lexer_.next();
      if (t.kind == Token::End) return out;
      if (t.kind == Token::Directive) {
        directive(t.text);
      } else if (t.is("namespace")) {
        while (!lexer_.next().is("{")) {
        }
      } else if (!t.is("}") && !t.is(";")) {
        lexer_.seek(t.begin);
        out.push_back(declaration());
      }
    }
  }
  // Whether the last declaration came to its end.
  bool whole() const { return whole_; }

 private:
  static constexpr int kDeepest = 16;  // macros in macros

  void directive(std::string_view line) {
    Lexer l(line, 1);
    if (!l.next().is("define")) return;
    const Token name = l.next();
    Macro m;
    if (name.end < line.size() && line[name.end] == '(') {
      m.function = true;
      for (Token t = l.next(); !t.is(")") && t.kind != Token::End; t = l.next()) {
        if (t.kind == Token::Name) m.parameters.push_back(t.text);
        if (!t.is(".")) continue;
        m.parameters.push_back("__VA_ARGS__");
        l.next(), l.next();
      }
    }
    m.body = line.substr(l.at());
    macros_.add(name.text, std::move(m));
  }

  // What a macro stands for, with its arguments put in.
  std::string_view expansion(const Macro& m, const std::vector<std::string>& arguments) const {
    std::string out;
    Lexer l(m.body, 0);
    bool glue = false;
    for (Token t = l.next(); t.kind != Token::End; t = l.next()) {
      if (t.is("##")) {
        glue = true;
        continue;
      }
      if (!glue) out += ' ';
      glue = false;
      size_t p = 0;
      while (p < m.parameters.size() && m.parameters[p] != t.text) ++p;
      if (p < m.parameters.size() && p < arguments.size()) {
        out += arguments[p];
        if (t.is("__VA_ARGS__"))
          while (++p < arguments.size()) out += ", " + arguments[p];
      } else {
        out += t.text;
      }
    }
    return macros_.texts.emplace_back(std::move(out));
  }

  // The arguments of an invocation, from its opening parenthesis on.
  static std::vector<std::string> arguments(Lexer& from) {
    std::vector<std::string> out{""};
    int depth = 0;
    do {
      const Token t = from.next();
      if (t.kind == Token::End) break;
      if (t.is("(") && depth++ == 0) continue;
      if (t.is(")") && --depth == 0) break;
      if (t.is(",") && depth == 1)
        out.emplace_back();
      else
        out.back().append(out.back().empty() ? "" : " ").append(t.text);
    } while (depth > 0);
    return out;
  }

  bool is_macro(std::string_view name) const { return macros_.by_name.count(name) > 0; }
  bool is_function_macro(std::string_view name) const {
    auto [from, to] = macros_.by_name.equal_range(name);
    return std::any_of(from, to, [](const auto& m) { return m.second.function; });
  }
  // Whether `holds` is true of the text of a definition of `name`, or of a macro in it.
  template <class F>
  bool of_any_body(std::string_view name, const F& holds, int depth = 0) const {
    auto [from, to] = macros_.by_name.equal_range(name);
    for (; from != to; ++from) {
      const std::string_view body = from->second.body;
      if (holds(body)) return true;
      if (depth == kDeepest) continue;
      Lexer l(body, 0);
      for (Token t = l.next(); t.kind != Token::End; t = l.next())
        if (t.kind == Token::Name && t.text != name && of_any_body(t.text, holds, depth + 1))
          return true;
    }
    return false;
  }
  // Whether names come out of it that stand nowhere.
  bool glues(std::string_view name) const {
    auto [it, fresh] = macros_.gluing.emplace(name, false);
    if (fresh) it->second = of_any_body(name, [](auto s) { return s.find("##") != s.npos; });
    return it->second;
  }
  bool ends_something(std::string_view name) const {
    auto [it, fresh] = macros_.ending.emplace(name, false);
    if (fresh)
      it->second = of_any_body(name, [](auto s) { return s.find_first_of(";{") != s.npos; });
    return it->second;
  }
  // Each definition of `name` as it stands before `after`, which its arguments are read from;
  // the definition that holds is the compiler's to know.
  std::vector<std::string_view> expansions(std::string_view name, Lexer& after) const {
    std::vector<std::string_view> out;
    auto [from, to] = macros_.by_name.equal_range(name);
    if (from == to || depth_ >= kDeepest) return out;
    const bool called = after.before('(') && is_function_macro(name);
    std::vector<std::string> given;
    if (called) given = arguments(after);
    for (; from != to; ++from)
      if (from->second.function == called) out.push_back(expansion(from->second, given));
    return out;
  }

  // `NAME` or `NAME(arguments)` where NAME stands for whole declarations: as if those stood there.
  bool invocation(const Token& name, Item& item) {
    if (name.is("PF_KERNEL") || !is_macro(name.text)) return false;
    const bool function = is_function_macro(name.text);
    if (!function && !ends_something(name.text)) return false;
    Lexer after = lexer_;
    bool some = false;
    std::vector<Item> all;
    for (const std::string_view text : expansions(name.text, after)) {
      Parser inner(text, macros_, depth_ + 1);
      std::vector<Item> made = inner.items();
      if (!inner.whole()) return false;  // what follows belongs to it
      some = some || !made.empty();
      all.insert(all.end(), made.begin(), made.end());
    }
    if (!some && !(function && after.at() > lexer_.at())) return false;
    bool always = all.empty();
    for (Item& i : all) {
      always = always || (i.names.empty() && i.kernels.empty());
      item.names.insert(item.names.end(), i.names.begin(), i.names.end());
      // Where it declares a name, it does not call for those elsewhere.
      for (const std::string_view n : i.names) {
        const auto own = std::find(i.uses.begin(), i.uses.end(), n);
        if (own != i.uses.end()) i.uses.erase(own);
      }
      item.uses.insert(item.uses.end(), i.uses.begin(), i.uses.end());
      item.kernels.insert(item.kernels.end(), i.kernels.begin(), i.kernels.end());
    }
    if (always) {
      item.names.clear();
      item.kernels.clear();
    }
    lexer_ = after;
    item.end = lexer_.at();
    return true;
  }

  // The names in what `name`, before `after`, stands for.
  void glued(std::string_view name, Lexer after, Names& uses) const {
    for (const std::string_view text : expansions(name, after)) {
      const Parser inner(text, macros_, depth_ + 1);
      Lexer l(text, 0);
      for (Token t = l.next(); t.kind != Token::End; t = l.next()) {
        if (t.kind != Token::Name) continue;
        uses.push_back(t.text);
        if (is_macro(t.text)) inner.glued(t.text, l, uses);
      }
    }
  }

  Item declaration() {
    Item item{};
    Token t = lexer_.next();
    item.begin = t.begin;
    if (t.kind == Token::Name && invocation(t, item)) return item;
    int parens = 0, braces = 0;
    bool body = false, specialisation = false, type = false, variable = false, function = false,
         named = false, always = false;
    std::string_view last;  // the last name at the outermost level
    const auto name = [&](std::string_view n) {
      if (!n.empty()) item.names.push_back(n);
      always = always || is_macro(n);  // what it makes has another name
    };
    whole_ = false;
    for (;; t = lexer_.next()) {
      if (t.kind == Token::End) break;
      if (t.kind == Token::Directive) {
        directive(t.text);
        continue;
      }
      const bool outside = parens == 0 && braces == 0;
      if (t.kind == Token::Name) {
        item.uses.push_back(t.text);
        const bool made = lexer_.before('(') && t.text != "PF_KERNEL" && is_function_macro(t.text);
        if (made && glues(t.text)) glued(t.text, lexer_, item.uses);
        if (!outside) continue;
        if (t.is("template")) {
          specialisation = angles(item.uses) == 0;
        } else if (t.is("static_assert") && !sized(lexer_).empty()) {
          name(sized(lexer_));
          named = true;
        } else if (t.is("static_assert") || t.is("operator")) {
          always = true;
        } else if (t.is("PF_KERNEL")) {
          named = true;
          item.kernels.push_back(macros_.texts.emplace_back(arguments(lexer_)[0]));
        } else if (t.is("__attribute__") || t.is("alignas") || t.is("__launch_bounds__")) {
          for (const std::string& a : arguments(lexer_))
            collect(macros_.texts.emplace_back(a), item.uses);
        } else if (t.is("struct") || t.is("class") || t.is("union") || t.is("enum")) {
          type = true;
          named = false;
          last = {};
          if (t.is("enum")) always = true;  // its enumerators have names too
        } else if (!named && !variable && (made || ends_something(t.text))) {
          always = true;  // it may make the name
          if (made)
            for (const std::string& a : arguments(lexer_))
              collect(macros_.texts.emplace_back(a), item.uses);
        } else {
          if (type && !named) {
            name(t.text);
            named = true;
            if (specialisation) {
              angles(item.arguments);
              // These come of a condition, which need not name them.
              std::erase_if(item.arguments, [&](std::string_view n) {
                return n == "true" || n == "false" || is_macro(n);
              });
              item.uses.insert(item.uses.end(), item.arguments.begin(), item.arguments.end());
            }
          }
          last = t.text;
        }
      } else if (t.is("(")) {
        if (outside && !type && !variable && !named && !last.empty()) {
          name(last);
          named = true;
        }
        ++parens;
      } else if (t.is(")")) {
        --parens;
      } else if (t.is("[") && outside && !type && !named) {
        name(last);
        variable = true;
      } else if (t.is("=") && outside) {
        name(last);
        variable = true;
      } else if (t.is("{")) {
        if (outside) function = !type && !variable;
        body = true;
        ++braces;
      } else if (t.is("}")) {
        if (--braces == 0 && function) {
          whole_ = true;
          break;
        }
      } else if (t.is(";") && outside) {
        if (!variable && !(named && item.names.size() == 1 && !type)) name(last);
        whole_ = true;
        break;
      }
    }
    item.end = lexer_.at();
    item.announced = type && !body;
    if (always) {
      item.names.clear();
      item.kernels.clear();
    }
    return item;
  }

  // The type that a static_assert is about, if it begins with a size: it goes where the type goes.
  static std::string_view sized(Lexer after) {
    for (const char* s : {"(", "sizeof", "("})
      if (!after.next().is(s)) return {};
    return after.next().text;
  }

  // `<...>`: the names in it, and how many there were.
  size_t angles(Names& names) {
    int depth = 0;
    const size_t before = names.size();
    do {
      const Token t = lexer_.next();
      if (t.kind == Token::End) break;
      if (t.kind == Token::Name) names.push_back(t.text);
      if (t.is("<") || t.is("(")) ++depth;
      if (t.is(">") || t.is(")")) --depth;
    } while (depth > 0);
    return names.size() - before;
  }

 public:
  static void collect(std::string_view text, Names& out) {
    Lexer l(text, 0);
    for (Token t = l.next(); t.kind != Token::End; t = l.next())
      if (t.kind == Token::Name) out.push_back(t.text);
  }

 private:
  Lexer lexer_;
  Macros& macros_;
  int depth_;
  bool whole_ = true;
};

}  // namespace

std::string prune_kernel_text(const std::string& text, const std::string& entry,
                              const std::string& roots) {
  Macros macros;
  for (size_t at = 0; at < roots.size();) {
    const size_t end = std::min(roots.find(' ', at), roots.size());
    const std::string_view word = std::string_view(roots).substr(at, end - at);
    const size_t value = word.find('=');
    at = end + 1;
    if (word.substr(0, 2) == "-D" && value != word.npos)
      macros.add(word.substr(2, value - 2), Macro{word.substr(value + 1), {}, false});
  }
  std::vector<Item> items = Parser(text, macros).items();

  // Where the general template has a body, a specialisation that went would be replaced by it
  // unseen: those stay. Where it has none, a compiler says what is missing.
  Names bare;
  for (const Item& i : items)
    if (i.announced) bare.insert(bare.end(), i.names.begin(), i.names.end());
  for (Item& i : items)
    if (!i.names.empty() && std::find(bare.begin(), bare.end(), i.names[0]) == bare.end())
      i.arguments.clear();

  std::unordered_multimap<std::string_view, size_t> by_name;
  by_name.reserve(2 * items.size());
  std::vector<char> needed(items.size(), 0);
  std::unordered_map<std::string_view, bool> seen;
  seen.reserve(1024);
  std::unordered_map<std::string_view, bool> entries;
  for (size_t from = 0; from < entry.size();) {
    const size_t end = std::min(entry.find(' ', from), entry.size());
    entries.emplace(std::string_view(entry).substr(from, end - from), true);
    from = end + 1;
  }
  Names open;
  const auto take = [&](size_t i) {
    if (needed[i]) return;
    for (std::string_view n : items[i].names)
      if (!items[i].arguments.empty() && !seen.count(n)) return;
    for (std::string_view n : items[i].arguments)
      if (!seen.count(n)) return;
    needed[i] = 1;
    open.insert(open.end(), items[i].uses.begin(), items[i].uses.end());
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const Names& kernels = items[i].kernels;
    const bool wanted = std::any_of(kernels.begin(), kernels.end(), [&](std::string_view k) {
      return entry.empty() || entries.count(k) > 0;
    });
    if ((items[i].names.empty() && kernels.empty()) || wanted) take(i);
    for (std::string_view n : items[i].names) by_name.emplace(n, i);
    for (std::string_view n : items[i].arguments) by_name.emplace(n, i);
  }
  Parser::collect(roots, open);
  while (!open.empty()) {
    const std::string_view name = open.back();
    open.pop_back();
    if (!seen.emplace(name, true).second) continue;
    auto [from, to] = by_name.equal_range(name);
    for (; from != to; ++from) take(from->second);
    auto [first, last] = macros.by_name.equal_range(name);
    for (; first != last; ++first) Parser::collect(first->second.body, open);
  }

  // What goes leaves its ends of lines.
  std::string out;
  out.reserve(text.size() / 2);
  size_t at = 0;
  const auto blank = [&](size_t end) {
    for (; at < end; ++at)
      if (text[at] == '\n') out += '\n';
  };
  const auto copy = [&](size_t end) {
    out.append(text, at, end - at);
    at = end;
  };
  Lexer between(text, 0);
  for (size_t i = 0; i <= items.size(); ++i) {
    const size_t begin = i < items.size() ? items[i].begin : text.size();
    between.seek(at);
    for (Token t = between.next(); t.begin < begin; t = between.next()) {
      blank(t.begin);
      copy(t.end);
      if (t.kind == Token::Name) out += ' ';
    }
    blank(begin);
    if (i == items.size()) break;
    if (needed[i])
      copy(items[i].end);
    else
      blank(items[i].end);
  }
  return out;
}

}  // namespace pyflame::gpu
