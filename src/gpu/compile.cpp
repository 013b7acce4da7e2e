// Kernel text to code object: includes expanded, the run-time compiler, the cache on disk.
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>

#include "gpu/cache.h"
#include "gpu/compile_only.h"
#include "gpu/device.h"
#include "gpu/device_text.h"
#include "gpu/includes.h"
#include "gpu/prune.h"

namespace pyflame::gpu {
namespace {

const char* find_text(const std::string& name) {
  for (int i = 0; i < kNumTexts; ++i)
    if (name == kTexts[i].name) return kTexts[i].text;
  return nullptr;
}

// ---- compiling ---------------------------------------------------------------------------------

// All but the architecture.
std::vector<std::string> options_for(const Traits& t, const std::string& defines) {
  std::vector<std::string> o{"-std=c++17", PF_RT("-ffp-contract=off", "--fmad=false")};
  if (kAmd) o.emplace_back("-O3");
  o.push_back("-DPF_WARP=" + std::to_string(t.warp));
  for (size_t at = 0; at < defines.size();) {
    size_t end = defines.find(' ', at);
    if (end == std::string::npos) end = defines.size();
    if (end > at) o.push_back(defines.substr(at, end - at));
    at = end + 1;
  }
  return o;
}

// The first lines of a compiler's log: enough to see what is wrong.
std::string shorten(const std::string& log) {
  constexpr size_t kMost = 2000;
  return log.size() <= kMost ? log : log.substr(0, kMost) + "\n...";
}

std::string compile(const Traits& traits, const std::string& label, const std::string& source,
                    const std::vector<std::string>& options) {
  const Rtc& r = rtc();
  auto must = [&](int error, const char* call) {
    if (error)
      throw Failure(PF_COMPILE, std::string(call) + ": " + r.GetErrorString(error) + " (" +
                                    r.library + " " + r.version + ", for " + traits.target + ")");
  };
  hiprtcProgram program = nullptr;
  must(r.CreateProgram(&program, source.c_str(), "pyflame.cu", 0, nullptr, nullptr),
       PF_RT("hiprtcCreateProgram", "nvrtcCreateProgram"));
  struct Destroy {
    hiprtcProgram* p;
    ~Destroy() { rtc().DestroyProgram(p); }
  } destroy{&program};
  std::vector<const char*> list;
  list.reserve(options.size());
  for (const std::string& o : options) list.push_back(o.c_str());
  int error = r.CompileProgram(program, static_cast<int>(list.size()), list.data());
  if (error) {
    std::string log;
    size_t n = 0;
    if (r.GetProgramLogSize(program, &n) == 0 && n > 1) {
      log.resize(n);
      r.GetProgramLog(program, log.data());
      log.resize(std::strlen(log.c_str()));
    }
    throw Failure(PF_COMPILE, "the kernel '" + label + "' could not be compiled for " +
                                  traits.target + " by " + r.library + " " + r.version + ": " +
                                  r.GetErrorString(error) + "\n" + shorten(log));
  }
  size_t n = 0;
  must(r.GetCodeSize(program, &n), PF_RT("hiprtcGetCodeSize", "nvrtcGetCUBINSize"));
  std::string code(n, 0);
  must(r.GetCode(program, code.data()), PF_RT("hiprtcGetCode", "nvrtcGetCUBIN"));
  return code;
}

// NVRTC from 12.4 on can do without what kernels of ours never use: 8 of 23 ms.
bool knows_minimal() {
  static const bool known = [] {
    const std::string& v = rtc().version;
    const int major = std::atoi(v.c_str());
    return major > 12 || (major == 12 && std::atoi(v.c_str() + v.find('.') + 1) >= 4);
  }();
  return !kAmd && known;
}

// Of text and what it includes.
std::string digest_of(const std::string& source) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;  // of files
  Digest d;
  d.add(source);
  for (size_t at = 0; at < source.size();) {
    size_t end = std::min(source.find('\n', at), source.size());
    const std::string file = gpu::included_file(source.substr(at, end - at));
    at = end + 1;
    if (file.empty() || !find_text(file)) continue;
    const std::string& text = expanded_text(file);
    std::lock_guard lock(mutex);
    auto it = known->find(file);
    if (it == known->end()) {
      Digest f;
      f.add(text);
      it = known->emplace(file, f.hex()).first;
    }
    d.add(it->second);
  }
  return d.hex();
}

}  // namespace

const std::string& expanded_text(const std::string& file) {
  static std::mutex mutex;
  static auto* cache = new std::map<std::string, std::string>;
  std::lock_guard lock(mutex);
  auto it = cache->find(file);
  if (it != cache->end()) return it->second;
  const char* text = find_text(file);
  if (!text) throw Failure(PF_INVALID, "there is no kernel text '" + file + "'");
  return cache->emplace(file, gpu::expand_includes(file, text, find_text)).first->second;
}

CompileStats& compile_stats() {
  static CompileStats s;
  return s;
}

bool begins_early(const Traits& traits) {
  return !traits.amd && std::atoi(traits.architecture.c_str() + 3) >= 90;  // "sm_90"
}

Recipe recipe_for(const Traits& traits, const std::string& label, const Source& source,
                  const std::string& defines) {
  Recipe r{label, source, defines, options_for(traits, defines), {}, false};
  Digest d;
  d.add(kVendorName);
  for (const std::string& o : r.options) d.add(o);
  d.add(source.ours ? digest_of(source.text) : source.text);
  d.add(source.ours ? "cut (5) to " + source.entry : "whole");
  r.key = {traits.architecture, "", d.hex(), ""};
  return r;
}

// The key of the disk cache; that of packs needs no compiler.
static CacheKey key_on_disk(const Traits& traits, const Recipe& r) {
  CacheKey key = r.key;
  Digest d;
  d.add(key.portable);
  d.add(traits.target);
  d.add(rtc().version);
  key.digest = d.hex();
  key.info = std::string("vendor ") + kVendorName + "\ntarget " + traits.target + "\ncompiler " +
             rtc().version + "\nkernel " + r.label + "\nportable " + key.portable + "\n";
  return key;
}

bool find_packed(const Recipe& r, std::string& code) {
  return r.source.ours && compile_only().empty() && read_packed(r.key, code);
}

bool find_code(const Traits& traits, const Recipe& r, std::string& code) {
  if (!read_cached(key_on_disk(traits, r), code)) return false;
  ++compile_stats().from_disk;
  return true;
}

std::string make_code(const Traits& traits, const std::vector<const Recipe*>& recipes) {
  const Recipe& r = *recipes.front();
  std::vector<std::string> options = r.options;
  // Hopper's own instructions (wgmma) belong to a target of their own.
  options.insert(options.begin(),
                 "--gpu-architecture=" + (traits.target == "sm_90" ? "sm_90a" : traits.target));
  if (knows_minimal() && r.source.ours) options.push_back("--minimal");
  std::string text, entries;
  for (const Recipe* one : recipes) {
    text += one->source.text;
    entries += (entries.empty() ? "" : " ") + one->source.entry;
  }
  if (r.source.ours) {
    text = gpu::expand_includes("program", text, find_text);
    if (begins_early(traits)) text = gpu::begin_kernels(text);
    text = gpu::prune_kernel_text(text, entries, r.defines);
  }
  const std::string code = compile(traits, r.label, text, options);
  ++compile_stats().compiled;
  for (const Recipe* one : recipes) write_cached(key_on_disk(traits, *one), code);
  return code;
}

Source unique_names(const std::string& text) {
  Digest d;
  d.add(text);
  const std::string own = "_" + d.hex().substr(0, 16);
  Source s{"", true, gpu::DeviceProgram::kEntry + own};
  const auto part_of_name = [](char c) { return std::isalnum(c) || c == '_'; };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    while (at < text.size() && part_of_name(text[at])) ++at;
    const std::string_view name(text.data() + begin, at - begin);
    s.text += name;
    if (name == "pf_args" || name == "pf_body" || name == gpu::DeviceProgram::kEntry) s.text += own;
    for (; at < text.size() && !part_of_name(text[at]); ++at) s.text += text[at];
  }
  return s;
}

}  // namespace pyflame::gpu
