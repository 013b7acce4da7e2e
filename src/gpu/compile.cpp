// Kernel text to code object: includes expanded, the run-time compiler, the cache on disk.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "gpu/device.h"

namespace pyflame::gpu {
namespace {

const char* find_text(const std::string& name) {
  for (int i = 0; i < kNumTexts; ++i)
    if (name == kTexts[i].name) return kTexts[i].text;
  return nullptr;
}

// The name in `#include "name"`, or nothing.
std::string included(const std::string& line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line.compare(at, 8, "#include") != 0) return "";
  size_t open = line.find('"', at + 8);
  size_t close = open == std::string::npos ? open : line.find('"', open + 1);
  return close == std::string::npos ? "" : line.substr(open + 1, close - open - 1);
}

void append_expanded(const char* name, const std::string& source, std::set<std::string>& seen,
                     std::string& out) {
  size_t number = 0;
  out += "#line 1 \"" + std::string(name) + "\"\n";
  for (size_t at = 0; at < source.size();) {
    size_t end = source.find('\n', at);
    if (end == std::string::npos) end = source.size();
    const std::string line = source.substr(at, end - at);
    at = end + 1;
    ++number;
    const std::string file = included(line);
    // Names that are no text of ours stay as they are (the host's shim.h).
    const char* text = file.empty() ? nullptr : find_text(file);
    if (!text) {
      out += line + "\n";
      continue;
    }
    if (seen.insert(file).second) append_expanded(file.c_str(), text, seen, out);
    out += "#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
  }
}

// Two independent 64-bit hashes (FNV-1a with different offsets and a final mix).
struct Digest {
  uint64_t a = 0xcbf29ce484222325u, b = 0x84222325cbf29ce4u;
  void add(const std::string& s) {
    for (unsigned char c : s) {
      a = (a ^ c) * 0x100000001b3u;
      b = (b ^ c) * 0x9e3779b97f4a7c15u;
      b ^= b >> 31;
    }
    a = (a ^ s.size()) * 0x100000001b3u;
  }
  std::string hex() const {
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                  static_cast<unsigned long long>(b));
    return text;
  }
};

uint64_t checksum(const char* p, size_t n) {
  uint64_t h = 0x2545f4914f6cdd1du ^ n;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    std::memcpy(&w, p + i, 8);
    h = (h ^ w) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  uint64_t w = 0;
  std::memcpy(&w, p + i, n - i);
  h = (h ^ w) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 32;
}

// ---- the disk cache ----------------------------------------------------------------------------

struct Header {
  char magic[8];
  uint64_t bytes, sum;
};
constexpr char kMagic[8] = {'P', 'F', 'K', 'E', 'R', 'N', '1', '\n'};

std::string cache_folder() {
  if (const char* x = std::getenv("XDG_CACHE_HOME"); x && *x == '/')
    return std::string(x) + "/pyflame/kernels";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/pyflame/kernels";
  return "";
}

bool make_folders(const std::string& path) {
  for (size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  return true;
}

// What is cut short or altered is as if it were not there.
bool read_cached(const std::string& path, std::string& code) {
  FILE* f = std::fopen(path.c_str(), "rb");
  if (!f) return false;
  struct stat st {};
  Header h{};
  bool good = fstat(fileno(f), &st) == 0 && std::fread(&h, sizeof h, 1, f) == 1 &&
              std::memcmp(h.magic, kMagic, sizeof kMagic) == 0 && h.bytes > 0 &&
              h.bytes == static_cast<uint64_t>(st.st_size) - sizeof h;
  if (good) {
    code.resize(h.bytes);
    good = std::fread(code.data(), 1, code.size(), f) == code.size() &&
           checksum(code.data(), code.size()) == h.sum;
  }
  std::fclose(f);
  return good;
}

// A private file under its final name at once: readers see all of it or nothing. Whatever goes
// wrong (a read-only or full disk) costs the next process a compilation and no more.
void write_cached(const std::string& folder, const std::string& path, const std::string& code) {
  if (!make_folders(folder)) return;
  std::string temporary = path + ".XXXXXX";
  int fd = mkstemp(temporary.data());
  if (fd < 0) return;
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.bytes = code.size();
  h.sum = checksum(code.data(), code.size());
  FILE* f = fdopen(fd, "wb");
  bool good = f && std::fwrite(&h, sizeof h, 1, f) == 1 &&
              std::fwrite(code.data(), 1, code.size(), f) == code.size();
  if (f)
    good = std::fclose(f) == 0 && good;
  else
    close(fd);
  if (!good || std::rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

// ---- compiling ---------------------------------------------------------------------------------

std::vector<std::string> options_for(const Traits& t, const std::string& defines) {
  std::vector<std::string> o;
  o.push_back("--gpu-architecture=" + t.target);
  o.push_back("-std=c++17");
  o.push_back(PF_RT("-ffp-contract=off", "--fmad=false"));
  if (kAmd) o.push_back("-O3");
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

}  // namespace

CompileStats& compile_stats() {
  static CompileStats s;
  return s;
}

const std::string& expanded_text(const char* file) {
  static std::mutex mutex;
  static auto* cache = new std::map<std::string, std::string>;
  std::lock_guard lock(mutex);
  auto it = cache->find(file);
  if (it != cache->end()) return it->second;
  const char* text = find_text(file);
  if (!text) throw Failure(PF_INVALID, std::string("there is no kernel text '") + file + "'");
  std::set<std::string> seen{file};
  std::string out;
  append_expanded(file, text, seen, out);
  return cache->emplace(file, std::move(out)).first->second;
}

std::string expand(const std::string& source) {
  std::set<std::string> seen;
  std::string out;
  append_expanded("program", source, seen, out);
  return out;
}

std::string code_object(const Traits& traits, const std::string& label, const std::string& source,
                        const std::string& defines) {
  const std::vector<std::string> options = options_for(traits, defines);
  const std::string folder = cache_folder();
  std::string path, code;
  if (!folder.empty()) {
    Digest d;
    d.add(kVendorName);
    d.add(traits.target);
    d.add(rtc().version);
    for (const std::string& o : options) d.add(o);
    d.add(source);
    path = folder + "/" + traits.architecture + "-" + d.hex() + ".bin";
    if (read_cached(path, code)) {
      ++compile_stats().from_disk;
      return code;
    }
  }
  code = compile(traits, label, source, options);
  ++compile_stats().compiled;
  if (!path.empty()) write_cached(folder, path, code);
  return code;
}

}  // namespace pyflame::gpu
