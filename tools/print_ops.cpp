// Prints pyflame/ops.h from the registry of the library: every operation as a C++ function with its
// defaults and documentation.
//
//   print_ops SYMBOLS OPS_H CHECKS    SYMBOLS: what `nm -DC --defined-only` says of the library
//
// Where the library exports a function of the name and parameters of a schema (of all of them, or
// of the first), its declaration is printed. Anything else becomes an inline function that calls
// the entry of the registry. CHECKS has a line for each call: tests/cpp/api_test.cpp compiles them.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "ops/registry.h"
#include "table/schema.h"

namespace {

using pyflame::ops::Op;
using pyflame::table::Param;
using pyflame::table::Schema;
using pyflame::table::Type;
using Symbols = std::set<std::string, std::less<>>;

// ---- types --------------------------------------------------------------------------------------
struct CppType {
  const char* value;    // as text of C++
  const char* symbol;   // as nm prints it, without spaces
  bool by_reference;    // a const reference, also when it is optional
  const char* example;  // for CHECKS
};

CppType cpp_type(Type t) {
  switch (t) {
    case Type::Tensor:
      return {"Tensor", "pyflame::Tensor", true, "x"};
    case Type::TensorList:
      return {"TensorList", "std::vector<pyflame::Tensor,std::allocator<pyflame::Tensor>>", true,
              "list"};
    case Type::Int:
      return {"int64_t", "long", false, "3"};
    case Type::IntList:
      return {"IntList", "std::vector<long,std::allocator<long>>", true, "{2, 3}"};
    case Type::Float:
      return {"double", "double", false, "0.5"};
    case Type::FloatList:
      return {"std::vector<double>", "std::vector<double,std::allocator<double>>", true, "{0.5}"};
    case Type::Bool:
      return {"bool", "bool", false, "true"};
    case Type::Scalar:
      return {"Scalar", "pyflame::Scalar", false, "2"};
    case Type::Str:
      return {"std::string",
              "std::__cxx11::basic_string<char,std::char_traits<char>,std::allocator<char>>", true,
              "\"text\""};
    case Type::DType:
      return {"DType", "pyflame::DType", false, "DType::Float32"};
    case Type::Device:
      return {"Device", "pyflame::Device", false, "Device()"};
  }
  return {};
}

// An undefined tensor says that there is none.
bool in_optional(const Param& p) {
  return p.optional && p.type != Type::Tensor;
}

std::string parameter_type(const Param& p, bool written) {
  const CppType t = cpp_type(p.type);
  if (written) return "Tensor&";
  const std::string value =
      in_optional(p) ? std::string("std::optional<") + t.value + ">" : t.value;
  return t.by_reference ? "const " + value + "&" : value;
}

std::string symbol_of(const Param& p, bool written) {
  const CppType t = cpp_type(p.type);
  if (written) return "pyflame::Tensor&";
  const std::string value =
      in_optional(p) ? std::string("std::optional<") + t.symbol + ">" : t.symbol;
  return t.by_reference ? value + "const&" : value;
}

// The value of a parameter that a call leaves out.
std::string default_text(const Param& p) {
  const std::string& s = p.default_text;
  if (s == "None") return "{}";
  switch (p.type) {
    case Type::Bool:
      return s == "True" ? "true" : "false";
    case Type::Scalar:
      if (s == "True" || s == "False") return s == "True" ? "true" : "false";
      [[fallthrough]];
    case Type::Float:
      if (s.find("inf") != s.npos)
        return std::string(s[0] == '-' ? "-" : "") + "std::numeric_limits<double>::infinity()";
      if (s == "nan") return "std::numeric_limits<double>::quiet_NaN()";
      return s;
    case Type::IntList:
    case Type::FloatList:
    case Type::TensorList: {
      const bool bracketed = s[0] == '[' || s[0] == '(';
      return "{" + (bracketed ? s.substr(1, s.size() - 2) : s) + "}";
    }
    case Type::Str:
      return '"' + s.substr(1, s.size() - 2) + '"';
    case Type::DType:
      return "dtype_from_name(\"" + s.substr(s.rfind('.') + 1) + "\")";
    case Type::Device:
      return "parse_device(\"" + s.substr(1, s.size() - 2) + "\")";
    default:
      return s;
  }
}

// ---- forms --------------------------------------------------------------------------------------
// An overload of C++: the calls of a schema with `least` to `most` arguments.
struct Form {
  size_t least, most;
  bool direct;  // the library has a function of these parameters
};

struct Row {
  const Op* op;
  Schema schema;
  std::vector<Form> forms;
  std::vector<bool> no_braces;  // parameters for which {1} is no number, and {1, 2} no text

  bool written(size_t i) const {  // input of an operation in place
    return i == 0 && schema.name.back() == '_' && schema.results == std::vector{Type::Tensor};
  }
};

// Whether a call with the first n arguments of one could be a call of the other.
bool same_arguments(const Schema& a, const Schema& b, size_t n) {
  if (a.params.size() < n || b.params.size() < n) return false;
  for (size_t i = 0; i < n; ++i)
    if (a.params[i].type != b.params[i].type) return false;
  return true;
}

bool exported(const Symbols& symbols, const Row& row, size_t n) {
  std::string text = "pyflame::" + row.schema.name + "(";
  for (size_t i = 0; i < n; ++i) {
    if (row.no_braces[i]) return false;
    text += (i ? "," : "") + symbol_of(row.schema.params[i], row.written(i));
  }
  return symbols.contains(text + ")");
}

// Where one overload has a list and another an int, a bool or a text, {1} is a list: C++ would take
// it as a number, or {1, 2} as characters.
void mark_braces(std::vector<Row>& rows) {
  for (Row& row : rows) {
    row.no_braces.resize(row.schema.params.size());
    for (size_t i = 0; i < row.schema.params.size(); ++i) {
      const Type t = row.schema.params[i].type;
      if (t != Type::Int && t != Type::Bool && t != Type::Str) continue;
      for (const Row& other : rows)
        if (i < other.schema.params.size() && other.schema.params[i].type == Type::IntList)
          row.no_braces[i] = true;
    }
  }
}

// Rows of one name, in order: a call that two of them take belongs to the first, as in Python.
void find_forms(std::vector<Row>& rows, const Symbols& symbols) {
  for (size_t r = 0; r < rows.size(); ++r) {
    Row& row = rows[r];
    const size_t all = row.schema.params.size();
    size_t needed = 0;
    while (needed < all && !row.schema.params[needed].has_default) ++needed;
    for (size_t i = needed; i < all; ++i)  // a keyword without a default behind one with
      if (!row.schema.params[i].has_default) needed = i + 1;
    const auto taken = [&](size_t n) {
      return std::any_of(
          rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(r), [&](const Row& before) {
            return same_arguments(before.schema, row.schema, n) &&
                   std::any_of(before.forms.begin(), before.forms.end(),
                               [&](const Form& f) { return f.least <= n && n <= f.most; });
          });
    };
    for (size_t n = needed; n <= all; ++n) {
      if (taken(n)) continue;
      size_t end = n;
      while (end < all && !taken(end + 1)) ++end;
      size_t direct = end + 1;
      while (direct > n && !exported(symbols, row, direct - 1)) --direct;
      if (direct > n) row.forms.push_back({n, direct - 1, true});
      if (direct <= end) row.forms.push_back({std::max(n, direct), end, false});
      n = end;
    }
    // where(input, condition, other) as a method is where(condition, input, other).
    if (row.forms.empty() && row.op->where & ~unsigned{pyflame::ops::kMethod})
      throw std::runtime_error("no call of C++ reaches " + row.op->schema);
  }
}

// ---- text ---------------------------------------------------------------------------------------
constexpr size_t kColumns = 100;

// Words and parameters, on as many lines as they take; those after the first are indented.
std::string wrapped(std::string line, const std::vector<std::string>& parts, const char* between,
                    const std::string& next, const std::string& end) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i] + (i + 1 < parts.size() ? between : end);
    if (line.size() + part.size() > kColumns && line.size() > next.size()) {
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = next;
    }
    line += part;
  }
  if (parts.empty()) line += end;
  return text + line + "\n";
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream s(text);
  std::vector<std::string> words;
  for (std::string word; s >> word;) words.push_back(word);
  return words;
}

std::string comment(const std::string& doc) {
  std::istringstream s(doc);
  std::string text;
  for (std::string line; std::getline(s, line);)
    if (const auto words = words_of(line); !words.empty())
      text += wrapped("// ", words, " ", "// ", "");
  return text;
}

std::string result_of(const Row& row, const Form& form) {
  const Schema& s = row.schema;
  if (row.written(0)) return "Tensor&";
  if (s.one_or_list) return form.direct ? "Tensor" : "TensorList";
  if (s.results.empty()) return "void";
  if (s.results.size() == 1) return cpp_type(s.results[0]).value;
  if (s.results == std::vector{Type::Tensor, Type::Tensor}) return "std::pair<Tensor, Tensor>";
  if (std::all_of(s.results.begin(), s.results.end(), [](Type t) { return t == Type::Tensor; }))
    return "TensorList";  // in the schema's order
  throw std::runtime_error("no C++ type for the results of " + row.op->schema);
}

std::string in_quotes(const std::string& text) {
  std::string r = "\"";
  for (char c : text) r += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  return r + '"';
}

std::string declaration(const Row& row, const Form& form) {
  const std::string head =
      (form.direct ? "" : "inline ") + result_of(row, form) + " " + row.schema.name + "(";
  std::vector<std::string> params;
  for (size_t i = 0; i < form.most; ++i) {
    const Param& p = row.schema.params[i];
    std::string text = !row.no_braces[i]      ? parameter_type(p, row.written(i))
                       : p.type == Type::Bool ? "std::same_as<bool> auto"
                       : p.type == Type::Int  ? "std::integral auto"
                                              : "const std::convertible_to<std::string> auto&";
    text += " " + p.name;
    if (i >= form.least) text += " = " + default_text(p);
    params.push_back(text);
  }
  return wrapped(head, params, ", ", std::string(head.size(), ' '), form.direct ? ");" : ") {");
}

std::string body(const Row& row, const Form& form) {
  const std::string result = row.written(0) ? "void" : result_of(row, form);
  std::vector<std::string> values{"entry"};
  for (size_t i = 0; i < row.schema.params.size(); ++i) {
    const Param& p = row.schema.params[i];
    if (i >= form.most)
      values.push_back(p.default_text == "None"
                           ? "std::monostate()"
                           : cpp_type(p.type).value + ("(" + default_text(p)) + ")");
    else if (row.no_braces[i] && p.type == Type::Int)
      values.push_back("static_cast<int64_t>(" + p.name + ")");
    else if (row.no_braces[i] && p.type == Type::Str)
      values.push_back("std::string(" + p.name + ")");
    else
      values.push_back(p.name);
  }
  std::vector<std::string> schema{""};  // in pieces that fit a line
  for (const std::string& word : words_of(row.op->schema)) {
    if (schema.back().size() + word.size() > 80) schema.emplace_back();
    schema.back() += word + " ";
  }
  schema.back().pop_back();
  std::transform(schema.begin(), schema.end(), schema.begin(), in_quotes);
  std::string text =
      wrapped("  static const ops::Op& entry = ops::find(", schema, " ", "      ", ");");
  text += wrapped("  " + std::string(result == "void" ? "" : "return ") + "ops::detail::call_as<" +
                      result + ">(",
                  values, ", ", "      ", ");");
  if (row.written(0)) text += "  return " + row.schema.params[0].name + ";\n";
  return text + "}\n";
}

std::string documentation(const Row& row) {
  std::string doc = row.op->doc;
  const std::vector<std::string>& names = row.schema.result_names;
  if (names.size() == 2) doc += " Gives (" + names[0] + ", " + names[1] + ").";
  return doc;
}

// PF_CALL(schema, result, call) and PF_DIRECT(schema, result, name, parameter types).
void check(const Row& row, std::ostream& checks) {
  for (const Form& form : row.forms) {
    for (size_t n = form.least; n <= form.most; ++n) {
      checks << "PF_CALL(" << in_quotes(row.op->schema) << ", (" << result_of(row, form) << "), ("
             << row.schema.name << "(";
      for (size_t i = 0; i < n; ++i) {
        const Param& p = row.schema.params[i];
        const bool braces = p.type == Type::IntList && !in_optional(p);
        checks << (i ? ", " : "")
               << (p.type == Type::IntList && !braces            ? "IntList{2, 3}"
                   : p.type == Type::FloatList && in_optional(p) ? "std::vector<double>{0.5}"
                                                                 : cpp_type(p.type).example);
      }
      checks << ")))\n";
    }
    if (!form.direct) continue;
    checks << "PF_DIRECT(" << in_quotes(row.op->schema) << ", (" << result_of(row, form) << "), "
           << row.schema.name << ", (";
    for (size_t i = 0; i < form.most; ++i)
      checks << (i ? ", " : "") << parameter_type(row.schema.params[i], row.written(i));
    checks << "))\n";
  }
}

void print(const std::vector<std::vector<Row>>& names, std::ostream& header, std::ostream& checks) {
  header << "// Operations on tensors, printed from the registry by tools/print_ops.cpp. Names, "
            "order of\n// arguments and meaning are PyTorch's; arguments that Python takes by "
            "keyword come last here. An\n// undefined tensor and an empty std::optional stand for "
            "None.\n#pragma once\n\n#include <concepts>\n#include <limits>\n#include "
            "<optional>\n#include <string>\n#include <utility>\n\n#include "
            "\"pyflame/operators.h\"\n\nnamespace pyflame {\n";
  std::vector<std::string> families;
  for (const auto& rows : names)
    if (std::find(families.begin(), families.end(), rows[0].op->family) == families.end())
      families.push_back(rows[0].op->family);
  for (const std::string& family : families) {
    const std::string rule = "// ---- " + family + " ";
    header << "\n" << rule << std::string(kColumns - 1 - rule.size(), '-') << "\n";
    for (const auto& rows : names) {
      if (rows[0].op->family != family) continue;
      std::string said;
      for (const Row& row : rows) {
        const std::string doc = documentation(row);
        if (!row.forms.empty() && doc != said) header << "\n" << comment(doc);
        if (!row.forms.empty()) said = doc;
        for (const Form& form : row.forms)
          header << declaration(row, form) << (form.direct ? "" : body(row, form));
        check(row, checks);
      }
    }
  }
  header << "\n}  // namespace pyflame\n";
}

// ---- files --------------------------------------------------------------------------------------
Symbols read_symbols(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string(path) + " cannot be read");
  Symbols symbols;
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(" T pyflame::");
    if (at == line.npos) continue;
    line.erase(0, at + 3);
    std::erase(line, ' ');
    symbols.insert(line);
  }
  if (symbols.empty()) throw std::runtime_error(std::string(path) + " has no function of pyflame");
  return symbols;
}

// What has not changed is not compiled again.
void write(const char* path, const std::string& text) {
  std::ifstream before(path);
  if (before && std::string(std::istreambuf_iterator<char>(before), {}) == text) return;
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(std::string(path) + " cannot be written");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: print_ops SYMBOLS OPS_H CHECKS\n";
    return 2;
  }
  const Symbols symbols = read_symbols(argv[1]);
  std::vector<std::vector<Row>> names;
  std::map<std::string, size_t> at;
  for (const Op& op : pyflame::ops::table()) {
    // Old spellings are Python's; so are names with an underscore, whose functions init.h,
    // optim_ops.h, optim.h and operators.h have.
    if (op.where & pyflame::ops::kOld || op.name[0] == '_') continue;
    const auto [place, fresh] = at.try_emplace(op.name, names.size());
    if (fresh) names.emplace_back();
    names[place->second].push_back({&op, pyflame::table::parse_schema(op.schema), {}, {}});
  }
  std::ostringstream header, checks;
  for (auto& rows : names) {
    mark_braces(rows);
    find_forms(rows, symbols);
  }
  print(names, header, checks);
  write(argv[2], header.str());
  write(argv[3], checks.str());
  return 0;
} catch (const std::exception& e) {
  std::cerr << "print_ops: " << e.what() << '\n';
  return 1;
}
