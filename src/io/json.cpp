#include "io/json.h"

#include <charconv>

#include "pyflame/error.h"

namespace pyflame::io {

void JsonReader::fail(std::string_view why) const {
  throw FileError(what_ + ": " + std::string(why) + " at byte " + std::to_string(at_) +
                  "; expected well-formed JSON; the file is damaged or was not written as "
                  "safetensors: restore it from a copy");
}

char JsonReader::peek() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    ++at_;
  }
  return 0;
}

bool JsonReader::take(char c) {
  if (peek() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

void JsonReader::expect(char c) {
  if (!take(c)) fail(std::string("no '") + c + "' where one must stand");
}

void JsonReader::word(std::string_view w) {
  peek();
  if (text_.substr(at_, w.size()) != w) fail("an unknown word");
  at_ += w.size();
}

void JsonReader::end() {
  if (peek() != 0 || at_ < text_.size()) fail("something behind the end of the JSON text");
}

unsigned JsonReader::hex4() {
  if (text_.size() - at_ < 4) fail("a cut \\u escape");
  unsigned v = 0;
  auto [p, ec] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, v, 16);
  if (ec != std::errc() || p != text_.data() + at_ + 4) fail("a bad \\u escape");
  at_ += 4;
  return v;
}

namespace {
void append_utf8(std::string& out, unsigned c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 63));
    out += static_cast<char>(0x80 | ((c >> 6) & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}
}  // namespace

bool is_utf8(std::string_view s) {
  size_t i = 0;
  while (i < s.size()) {
    auto c = static_cast<unsigned char>(s[i]);
    if (c < 0x80) {
      ++i;
      continue;
    }
    size_t more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
    if (c < 0xC2 || c > 0xF4 || s.size() - i <= more) return false;
    auto second = static_cast<unsigned char>(s[i + 1]);
    if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) ||
        (c == 0xF0 && second < 0x90) || (c == 0xF4 && second > 0x8F))
      return false;
    for (size_t k = 1; k <= more; ++k)
      if ((static_cast<unsigned char>(s[i + k]) & 0xC0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

std::string JsonReader::string() {
  expect('"');
  std::string out;
  while (true) {
    size_t run = at_;
    while (run < text_.size() && text_[run] != '"' && text_[run] != '\\') {
      if (static_cast<unsigned char>(text_[run]) < 0x20) fail("a control character in a string");
      ++run;
    }
    if (run >= text_.size()) fail("a string without end");
    std::string_view plain = text_.substr(at_, run - at_);
    if (!is_utf8(plain)) fail("a string that is not UTF-8");
    out += plain;
    at_ = run + 1;
    if (text_[run] == '"') return out;
    if (at_ >= text_.size()) fail("a string without end");
    char e = text_[at_++];
    switch (e) {
      case '"':
      case '\\':
      case '/':
        out += e;
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        unsigned c = hex4();
        if (c >= 0xDC00 && c < 0xE000) fail("half of a surrogate pair");
        if (c >= 0xD800 && c < 0xDC00) {
          if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair");
          at_ += 2;
          unsigned low = hex4();
          if (low < 0xDC00 || low >= 0xE000) fail("half of a surrogate pair");
          c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        }
        append_utf8(out, c);
        break;
      }
      default:
        fail("an unknown escape");
    }
  }
}

uint64_t JsonReader::natural() {
  char c = peek();
  if (c < '0' || c > '9') fail("no natural number where one must stand");
  const char* from = text_.data() + at_;
  const char* to = text_.data() + text_.size();
  uint64_t v = 0;
  auto [p, ec] = std::from_chars(from, to, v);
  if (ec != std::errc()) fail("a number past 64 bits");
  if (c == '0' && p != from + 1) fail("a number that begins with 0");
  if (p < to && (*p == '.' || *p == 'e' || *p == 'E')) fail("a fraction where a whole one must be");
  at_ += static_cast<size_t>(p - from);
  return v;
}

std::variant<int64_t, double> JsonReader::number() {
  peek();
  size_t stop = at_;
  bool whole = true;
  while (stop < text_.size()) {
    char c = text_[stop];
    if (c == '.' || c == 'e' || c == 'E')
      whole = false;
    else if ((c < '0' || c > '9') && c != '-' && c != '+')
      break;
    ++stop;
  }
  const char* from = text_.data() + at_;
  const char* to = text_.data() + stop;
  const char* digits = from + (from < to && *from == '-');
  if (digits == to || *digits < '0' || *digits > '9' ||
      (*digits == '0' && digits + 1 < to && digits[1] >= '0' && digits[1] <= '9'))
    fail("a malformed number");
  if (whole) {
    int64_t v = 0;
    auto [p, ec] = std::from_chars(from, to, v);
    if (ec != std::errc() || p != to) fail("a malformed number");
    at_ = stop;
    return v;
  }
  double v = 0;
  auto [p, ec] = std::from_chars(from, to, v);
  if (ec != std::errc() || p != to) fail("a malformed number");
  at_ = stop;
  return v;
}

void append_json_string(std::string& out, std::string_view s) {
  static const char kHex[] = "0123456789abcdef";
  out += '"';
  for (char ch : s) {
    auto c = static_cast<unsigned char>(ch);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += ch;
    } else if (c < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += ch;
    }
  }
  out += '"';
}

void append_json_double(std::string& out, double v) {
  char buffer[40];
  auto [p, ec] = std::to_chars(buffer, buffer + sizeof(buffer), v);
  (void)ec;
  std::string_view text(buffer, static_cast<size_t>(p - buffer));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

}  // namespace pyflame::io
