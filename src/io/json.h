// A strict reader of JSON text, token by token: no document tree is built, so a header costs no
// more memory than its text. It bounds nothing itself: callers follow a fixed grammar or count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace pyflame::io {

class JsonReader {
 public:
  // `what` begins error messages: "pf.load: 'x.safetensors': header".
  JsonReader(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  char peek();        // the next character that is not white space, 0 at the end
  bool take(char c);  // consumes it if it comes next
  void expect(char c);
  std::string string();  // decoded; FileError on bad UTF-8, control characters, bad escapes
  uint64_t natural();    // digits only
  std::variant<int64_t, double> number();
  void word(std::string_view w);  // true, false, null
  void end();                     // only white space may follow
  [[noreturn]] void fail(std::string_view why) const;

 private:
  unsigned hex4();
  std::string_view text_;
  size_t at_ = 0;
  std::string what_;
};

// True when `s` is well-formed UTF-8 (no overlong forms, no surrogates).
bool is_utf8(std::string_view s);
void append_json_string(std::string& out, std::string_view s);
// Shortest text that reads back as the same double, always with '.', 'e' or as a word.
void append_json_double(std::string& out, double v);

}  // namespace pyflame::io
