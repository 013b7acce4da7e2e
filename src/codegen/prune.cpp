#include "codegen/prune.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace pyflame::codegen {
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
  Names parameters;
  bool function = false;
};

struct Item {
  size_t begin, end;
  Names names;  // none: it always stays
  Names uses;
  Names arguments;  // of a specialisation: it is needed where they are
  bool kernel = false;
  bool announced = false;  // `struct X;`
};

class Parser {
 public:
  using Macros = std::unordered_multimap<std::string_view, Macro>;

  Parser(std::string_view text, Macros& macros, std::vector<std::string>& kept)
      : text_(text), lexer_(text, 0), macros_(macros), kept_(kept) {}

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

 private:
  void directive(std::string_view line) {
    Lexer l(line, 1);
    if (!l.next().is("define")) return;
    const Token name = l.next();
    Macro m;
    if (name.end < line.size() && line[name.end] == '(') {
      m.function = true;
      for (Token t = l.next(); !t.is(")") && t.kind != Token::End; t = l.next())
        if (t.kind == Token::Name) m.parameters.push_back(t.text);
    }
    m.body = line.substr(l.at());
    macros_.emplace(name.text, std::move(m));
  }

  // A macro that stands for whole declarations, with its arguments put in.
  std::string expansion(const Macro& m, const std::vector<std::string>& arguments) const {
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
      if (p < m.parameters.size() && p < arguments.size())
        out += arguments[p];
      else
        out += t.text;
    }
    return out;
  }

  // The arguments of an invocation, from its opening parenthesis on.
  std::vector<std::string> arguments() {
    std::vector<std::string> out{""};
    int depth = 0;
    do {
      const Token t = lexer_.next();
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

  // `NAME(arguments)` where NAME stands for declarations: as if those stood there.
  bool invocation(const Token& name, Item& item) {
    bool whole = false;
    auto [from, to] = macros_.equal_range(name.text);
    for (auto it = from; it != to; ++it)
      whole = whole || (it->second.function && it->second.body.find('{') != std::string_view::npos);
    if (!whole) return false;
    const std::vector<std::string> given = arguments();
    std::vector<const Macro*> definitions;
    for (auto it = from; it != to; ++it) definitions.push_back(&it->second);
    for (const Macro* m : definitions) {
      kept_.push_back(expansion(*m, given));
      Parser inner(kept_.back(), macros_, kept_);
      for (Item& i : inner.items()) {
        item.names.insert(item.names.end(), i.names.begin(), i.names.end());
        item.uses.insert(item.uses.end(), i.uses.begin(), i.uses.end());
      }
    }
    // Overloads of its own names elsewhere are for other types.
    std::erase_if(item.uses, [&](std::string_view u) {
      return std::find(item.names.begin(), item.names.end(), u) != item.names.end();
    });
    item.end = lexer_.at();
    return true;
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
    };
    for (;; t = lexer_.next()) {
      if (t.kind == Token::End) break;
      if (t.kind == Token::Directive) {
        directive(t.text);
        continue;
      }
      const bool outside = parens == 0 && braces == 0;
      if (t.kind == Token::Name) {
        item.uses.push_back(t.text);
        if (!outside) continue;
        if (t.is("template")) {
          specialisation = angles(item.uses) == 0;
        } else if (t.is("static_assert") || t.is("operator")) {
          always = true;
        } else if (t.is("PF_KERNEL")) {
          item.kernel = named = true;
          const std::vector<std::string> given = arguments();
          kept_.push_back(given[0]);
          name(kept_.back());
        } else if (t.is("__attribute__") || t.is("alignas") || t.is("__launch_bounds__")) {
          for (const std::string& a : arguments()) {
            kept_.push_back(a);
            collect(kept_.back(), item.uses);
          }
        } else if (t.is("struct") || t.is("class") || t.is("union") || t.is("enum")) {
          type = true;
          named = false;
          last = {};
          if (t.is("enum")) always = true;  // its enumerators have names too
        } else {
          if (type && !named) {
            name(t.text);
            named = true;
            if (specialisation) {
              angles(item.arguments);
              // These come of a condition, which need not name them.
              std::erase_if(item.arguments,
                            [](std::string_view n) { return n == "true" || n == "false"; });
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
        if (--braces == 0 && function) break;
      } else if (t.is(";") && outside) {
        if (!variable && !(named && item.names.size() == 1 && !type)) name(last);
        break;
      }
    }
    item.end = lexer_.at();
    item.announced = type && !body;
    if (always) item.names.clear();
    return item;
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
  std::string_view text_;
  Lexer lexer_;
  Macros& macros_;
  std::vector<std::string>& kept_;  // text that names and uses point into
};

}  // namespace

std::string prune_kernel_text(const std::string& text, const std::string& entry,
                              const std::string& roots) {
  Parser::Macros macros;
  std::vector<std::string> kept;
  kept.reserve(4096);  // what is in it is pointed to
  std::vector<Item> items = Parser(text, macros, kept).items();

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
    const bool wanted = items[i].kernel && (entry.empty() || entries.count(items[i].names[0]) > 0);
    if (items[i].names.empty() || wanted) take(i);
    if (!items[i].kernel)
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
    auto [first, last] = macros.equal_range(name);
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

}  // namespace pyflame::codegen
