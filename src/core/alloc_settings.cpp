// PYFLAME_ALLOC_CONF: "key:value,key:value".
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/allocator.h"
#include "pyflame/error.h"

namespace pyflame {
namespace {

constexpr const char* kKeys =
    "max_split_size_mb, garbage_collection_threshold, memory_fraction, memory_limit_mb, split, "
    "caching, "
    "expandable_segments";

[[noreturn]] void refuse(std::string_view key, std::string_view value, const char* expected) {
  PF_FAIL(ValueError, "allocator settings", "got '", value, "' for '", key, "'; expected ",
          expected, "; correct PYFLAME_ALLOC_CONF");
}

double number(std::string_view key, std::string_view value, double low, double high,
              const char* expected) {
  const std::string text(value);
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(v >= low && v <= high)) refuse(key, value, expected);
  return v;
}

bool yes_or_no(std::string_view key, std::string_view value) {
  if (value == "True" || value == "true" || value == "1") return true;
  if (value == "False" || value == "false" || value == "0") return false;
  refuse(key, value, "True or False");
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

}  // namespace

AllocSettings parse_alloc_settings(const std::string& text, bool lenient) {
  AllocSettings r;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = trim(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(
        rest.size(), rest.find(',') == std::string_view::npos ? rest.size() : rest.find(',') + 1));
    if (item.empty()) continue;
    const size_t colon = item.find(':');
    const std::string_view key = trim(item.substr(0, colon));
    const std::string_view value =
        colon == std::string_view::npos ? std::string_view{} : trim(item.substr(colon + 1));
    if (key == "max_split_size_mb") {
      r.max_split = static_cast<size_t>(number(key, value, 2, 1e9, "a number of MiB from 2 on"))
                    << 20;
    } else if (key == "garbage_collection_threshold") {
      r.garbage_threshold = number(key, value, 1e-9, 1, "a number above 0 and up to 1");
    } else if (key == "memory_fraction" || key == "per_process_memory_fraction") {
      r.fraction = number(key, value, 1e-9, 1, "a number above 0 and up to 1");
    } else if (key == "memory_limit_mb") {
      r.limit = static_cast<int64_t>(number(key, value, 1, 1e9, "a number of MiB from 1 on")) << 20;
    } else if (key == "caching") {
      r.caching = yes_or_no(key, value);
    } else if (key == "split") {
      r.split = yes_or_no(key, value);
    } else if (key == "expandable_segments") {
      yes_or_no(key, value);  // nothing to switch: free neighbours are always joined
    } else if (!lenient) {
      PF_FAIL(ValueError, "allocator settings", "got the unknown key '", key,
              "' in PYFLAME_ALLOC_CONF; known are ", kKeys, "; remove or correct it");
    }
  }
  return r;
}

AllocSettings alloc_settings_of_environment() {
  if (const char* own = std::getenv("PYFLAME_ALLOC_CONF"); own && *own)
    return parse_alloc_settings(own, false);
  for (const char* name : {"PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
    if (const char* theirs = std::getenv(name); theirs && *theirs)
      return parse_alloc_settings(theirs, true);
  return {};
}

}  // namespace pyflame
