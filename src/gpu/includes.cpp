#include "gpu/includes.h"

#include <set>

namespace pyflame::gpu {
namespace {

void append(const std::string& name, const std::string& text, const FindText& find,
            std::set<std::string>& seen, std::string& out) {
  size_t number = 0;
  out += "#line 1 \"" + name + "\"\n";
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    const std::string file = included_file(line);
    // Names that are no text of ours stay as they are (the host's shim.h).
    const char* inside = file.empty() ? nullptr : find(file);
    if (!inside) {
      out += line + "\n";
      continue;
    }
    if (seen.insert(file).second) append(file, inside, find, seen, out);
    out += "#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
  }
}

// Behind the parenthesis that belongs to the one at `open`.
size_t behind_parentheses(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at + 1;
  }
  return text.size();
}

}  // namespace

std::string begin_kernels(const std::string& text) {
  static const std::string kStart = "\nPF_KERNEL(", kItself = "pf_next_may_start()";
  const std::string spaces = " \n";
  std::string out;
  size_t done = 0;
  for (size_t at = 0; (at = text.find(kStart, at)) != std::string::npos;) {
    at = text.find('(', behind_parentheses(text, at + kStart.size() - 1));
    if (at != std::string::npos) at = text.find_first_not_of(spaces, behind_parentheses(text, at));
    if (at == std::string::npos || text[at] != '{') continue;  // a declaration
    const size_t first = text.find_first_not_of(spaces, ++at);
    out.append(text, done, at - done);
    if (text.compare(first, kItself.size(), kItself) != 0) out += " pf_begin();";
    done = at;
  }
  return out.append(text, done);
}

std::string included_file(const std::string& line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line.compare(at, 8, "#include") != 0) return "";
  size_t open = line.find('"', at + 8);
  size_t close = open == std::string::npos ? open : line.find('"', open + 1);
  return close == std::string::npos ? "" : line.substr(open + 1, close - open - 1);
}

std::string expand_includes(const std::string& name, const std::string& text,
                            const FindText& find) {
  std::set<std::string> seen{name};
  std::string out;
  append(name, text, find, seen, out);
  return out;
}

}  // namespace pyflame::gpu
