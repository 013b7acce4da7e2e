// PYFLAME_ALLOC_CONF: "key:value,key:value".
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "core/allocator.h"
#include "core/backends.h"
#include "pyflame/error.h"

namespace pyflame {
namespace {

constexpr const char* kKeys =
    "max_split_size_mb, garbage_collection_threshold, memory_fraction, memory_limit_mb, split, "
    "caching, "
    "expandable_segments";

// PyTorch's, which have nothing to set here.
constexpr std::string_view kTheirs[] = {"backend",
                                        "graph_capture_record_stream_reuse",
                                        "pinned_max_cached_size_mb",
                                        "pinned_max_power2_size_mb",
                                        "pinned_max_round_threshold_mb",
                                        "pinned_num_register_threads",
                                        "pinned_reserve_segment_size_mb",
                                        "pinned_use_background_threads",
                                        "pinned_use_cuda_host_register",
                                        "pinned_use_hip_host_register",
                                        "release_lock_on_cudamalloc",
                                        "release_lock_on_hipmalloc",
                                        "roundup_power2_divisions",
                                        "throw_on_cudamalloc_oom",
                                        "use_uvm"};

// A pair, and the variable it stands in.
struct Key {
  std::string_view name;
  const char* variable;
};

[[noreturn]] void refuse(const Key& key, std::string_view value, const char* expected) {
  PF_FAIL(ValueError, "allocator settings", "got '", value, "' for '", key.name, "'; expected ",
          expected, "; correct ", key.variable);
}

double number(const Key& key, std::string_view value, double low, double high,
              const char* expected) {
  const std::string text(value);
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(v >= low && v <= high)) refuse(key, value, expected);
  return v;
}

bool yes_or_no(const Key& key, std::string_view value) {
  if (value == "True" || value == "true" || value == "1") return true;
  if (value == "False" || value == "false" || value == "0") return false;
  refuse(key, value, "True or False");
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Up to the next comma that is in no list.
std::string_view take_item(std::string_view* rest) {
  size_t n = 0;
  for (int depth = 0; n < rest->size() && (depth > 0 || (*rest)[n] != ','); ++n)
    depth += (*rest)[n] == '[' ? 1 : (*rest)[n] == ']' && depth > 0 ? -1 : 0;
  const std::string_view item = rest->substr(0, n);
  rest->remove_prefix(std::min(rest->size(), n + 1));
  return trim(item);
}

void ignore(std::string_view key, const char* variable) {
  static std::atomic<bool> told{false};
  if (std::find(std::begin(kTheirs), std::end(kTheirs), key) == std::end(kTheirs) &&
      !told.exchange(true))
    notice((std::string(variable) + ": the unknown key '" + std::string(key) +
            "' is ignored; known are " + kKeys + ", and PyTorch's that set nothing here")
               .c_str());
}

}  // namespace

AllocSettings parse_alloc_settings(const std::string& text, const char* variable) {
  AllocSettings r;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = take_item(&rest);
    if (item.empty()) continue;
    const size_t colon = item.find(':');
    const std::string_view name = trim(item.substr(0, colon));
    const Key key{name, variable};
    const std::string_view value =
        colon == std::string_view::npos ? std::string_view{} : trim(item.substr(colon + 1));
    if (name == "max_split_size_mb") {
      r.max_split = static_cast<size_t>(number(key, value, 2, 1e9, "a number of MiB from 2 on"))
                    << 20;
    } else if (name == "garbage_collection_threshold") {
      r.garbage_threshold = number(key, value, 1e-9, 1, "a number above 0 and up to 1");
    } else if (name == "memory_fraction" || name == "per_process_memory_fraction") {
      r.fraction = number(key, value, 1e-9, 1, "a number above 0 and up to 1");
    } else if (name == "memory_limit_mb") {
      r.limit = static_cast<int64_t>(number(key, value, 1, 1e9, "a number of MiB from 1 on")) << 20;
    } else if (name == "caching") {
      r.caching = yes_or_no(key, value);
    } else if (name == "split") {
      r.split = yes_or_no(key, value);
    } else if (name == "expandable_segments") {
      yes_or_no(key, value);  // nothing to switch: free neighbours are always joined
    } else if (std::string_view(variable) != kAllocVariable) {
      ignore(name, variable);
    } else {
      PF_FAIL(ValueError, "allocator settings", "got the unknown key '", name, "' in ", variable,
              "; known are ", kKeys, "; remove or correct it");
    }
  }
  return r;
}

AllocSettings alloc_settings_of_environment() {
  for (const char* name :
       {kAllocVariable, "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
    if (const char* text = std::getenv(name); text && *text)
      return parse_alloc_settings(text, name);
  return {};
}

}  // namespace pyflame
