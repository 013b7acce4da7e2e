// A stand-in for hipRTC: kernel text goes through g++ for the host, over shim.h of this folder.
// Its code objects are shared libraries, which the stand-in runtime loads.
//
//   PYFLAME_STANDIN_CXX=g++-13     another compiler; none: nothing is compiled, for processes that
//   only
//                                  want to know what is asked for (PYFLAME_COMPILE_ONLY)
//   PYFLAME_STANDIN_SANITIZE=1     kernels run under AddressSanitizer and UBSan, which must be
//                                  loaded first (LD_PRELOAD); what they find ends the process
//   PYFLAME_STANDIN_KEEP=DIR       leaves each source there, below a line with its options
//
// standin_fail_compile(nth) makes the nth next compilation fail. standin_hold_compile(text) has
// programs with that text wait; standin_hold_compile(null) lets them go on.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define PF_GPU_CUDA 1
#include "gpu/runtime.h"

extern char** environ;

namespace {

enum : int { kOk = 0, kInvalidInput = 3, kInvalidProgram = 4, kCompilation = 6 };

std::atomic<int64_t> fail_after{0};

std::mutex hold_mutex;
std::condition_variable hold_ended;
std::string& held() {
  static auto* s = new std::string;
  return *s;
}

struct Program {
  std::string source, log, code;
};

std::string read_file(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::ostringstream s;
  s << f.rdbuf();
  return s.str();
}

// Memory of a block whose size the launch gives, as vendors declare it in a kernel.
std::string with_dynamic_memory(const std::string& source) {
  static const std::regex declared(
      R"(extern\s+__shared__\s+(?:__align__\(\w+\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;)");
  return source.find("PF_USER_H") == std::string::npos
             ? source
             : std::regex_replace(source, declared,
                                  "$1* $2 = reinterpret_cast<$1*>(pf_dynamic_shared());");
}

// Every PF_KERNEL(NAME, THREADS) that stands at the start of a line gets an entry for the runtime,
// behind the brace that ends it: under the same conditions.
std::string with_entries(const std::string& source) {
  std::string out, entry;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    out += line + "\n";
    const size_t open = line.find('('), close = line.find(')');
    if (line.rfind("PF_KERNEL(", 0) == 0 && close != std::string::npos)
      entry = "PF_HOST_ENTRY" + line.substr(open, close - open + 1) + "\n";
    if (line.rfind('}', 0) == 0) out += std::exchange(entry, "");
  }
  return out;
}

int run(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& c : command) argv.push_back(const_cast<char*>(c.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> environment;  // the compiler needs no sanitizer
  for (char** e = environ; *e; ++e)
    if (std::strncmp(*e, "LD_PRELOAD=", 11) != 0) environment.push_back(*e);
  environment.push_back(nullptr);
  pid_t pid = 0;
  int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error) return -1;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Program* of(void* p) {
  return static_cast<Program*>(p);
}

bool sanitize() {
  const char* s = std::getenv("PYFLAME_STANDIN_SANITIZE");
  return s && *s == '1';
}

}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int

// Another shim.h or other options make another compiler: what is cached under the old one is not
// used.
CALL hiprtcVersion(int* major, int* minor) {
  unsigned sum = sanitize() ? 18 : 17;
  for (const char* file : {STANDIN_DIR "/shim.h", STANDIN_DIR "/tensor_map.h",
                           STANDIN_DIR "/builtins.h", STANDIN_DIR "/hiprtc.cpp"})
    for (unsigned char c : read_file(file)) sum = sum * 31 + c;
  *major = 6;
  *minor = 400 + static_cast<int>(sum % 1000000);
  return kOk;
}
CALL hiprtcCreateProgram(void** out, const char* source, const char*, int nheaders,
                         const char* const*, const char* const*) {
  if (nheaders) return kInvalidInput;
  auto* p = new Program;
  p->source = with_dynamic_memory(source);
  return *out = p, kOk;
}
CALL hiprtcDestroyProgram(void** p) {
  delete of(*p);
  return *p = nullptr, kOk;
}

CALL hiprtcCompileProgram(void* program, int n, const char* const* options) {
  Program& p = *of(program);
  {
    std::unique_lock lock(hold_mutex);
    hold_ended.wait(lock,
                    [&] { return held().empty() || p.source.find(held()) == std::string::npos; });
  }
  if (fail_after.load() > 0 && fail_after.fetch_sub(1) == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // as compilers do: callers go on
    p.log = "pyflame.cu:1: error: a failure that was asked for";
    return kCompilation;
  }
  const char* cxx = std::getenv("PYFLAME_STANDIN_CXX");
  std::vector<std::string> command{
      cxx && *cxx ? cxx : "g++",  "-x",        "c++",       "-shared",       "-fPIC",
      sanitize() ? "-O0" : "-O1", "-w",        "-mfma",     "-mf16c",        "-fvisibility=hidden",
      "-fno-exceptions",          "-fno-rtti", "-DPF_HOST", "-I" STANDIN_DIR};
  if (sanitize())
    command.insert(command.end(), {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"});
  bool architecture = false;
  for (int i = 0; i < n; ++i) {
    const std::string o = options[i];
    const bool nvidia = o.rfind("--gpu-architecture=sm_", 0) == 0;
    if (nvidia) command.push_back("-DPF_STANDIN_MMA");  // kernels/mma.h
    if (nvidia || o.rfind("--gpu-architecture=gfx", 0) == 0)
      architecture = true;
    else if (o.rfind("-D", 0) == 0 || o.rfind("-U", 0) == 0 || o.rfind("-I", 0) == 0 ||
             o.rfind("-std=", 0) == 0 || o == "-ffp-contract=off" || o == "-ffp-contract=fast")
      command.push_back(o);
    else if (o != "-O3" && o != "--fmad=false" && o != "--fmad=true")
      return p.log = "unknown option " + o, kInvalidInput;
  }
  if (!architecture) return p.log = "no architecture", kInvalidInput;
  if (const char* keep = std::getenv("PYFLAME_STANDIN_KEEP")) {
    static std::atomic<int> count{0};
    std::ofstream out(std::string(keep) + "/kernel" + std::to_string(count++) + ".cpp");
    out << "//";
    for (int i = 0; i < n; ++i) out << " " << options[i];
    out << "\n" << p.source;
  }
  if (command.front() == "none") return p.code = "nothing", kOk;
  char folder[] = "/tmp/standin-XXXXXX";
  if (!mkdtemp(folder)) return kInvalidProgram;
  const std::string base = folder, source = base + "/kernel.cpp", code = base + "/kernel.so",
                    log = base + "/log";
  std::ofstream(source) << with_entries(p.source);
  command.insert(command.end(), {"-o", code, source});
  // Compiling is most of the work, and the sanitizers' libraries are in the process already.
  if (sanitize()) command.insert(command.end(), {"-nostdlib", "-lgcc"});
  const int status = run(command, log);
  p.log = read_file(log);
  if (status == 0) p.code = read_file(code);
  for (const std::string& f : {source, code, log}) unlink(f.c_str());
  rmdir(folder);
  return status == 0 && !p.code.empty() ? kOk : kCompilation;
}

CALL hiprtcGetProgramLogSize(void* p, size_t* n) {
  return *n = of(p)->log.size() + 1, kOk;
}
CALL hiprtcGetProgramLog(void* p, char* log) {
  std::strcpy(log, of(p)->log.c_str());
  return kOk;
}
CALL hiprtcGetCodeSize(void* p, size_t* n) {
  return *n = of(p)->code.size(), kOk;
}
CALL hiprtcGetCode(void* p, char* code) {
  std::memcpy(code, of(p)->code.data(), of(p)->code.size());
  return kOk;
}
extern "C" __attribute__((visibility("default"))) const char* hiprtcGetErrorString(int e) {
  return e == kOk            ? "HIPRTC_SUCCESS"
         : e == kCompilation ? "HIPRTC_ERROR_COMPILATION"
                             : "HIPRTC_ERROR";
}

// The names of NVIDIA's compiler.
using hiprtcProgram = void*;
extern "C" {
#define X(NAME, HIP, CUDA, ARGS) __attribute__((visibility("default"), alias(#HIP))) int CUDA ARGS;
PF_RTC_CALLS(X)
#undef X
__attribute__((visibility("default"), alias("hiprtcGetErrorString"))) const char*
nvrtcGetErrorString(int);
}

CALL standin_fail_compile(int64_t nth) {
  return fail_after.store(nth), kOk;
}
CALL standin_hold_compile(const char* text) {
  {
    std::lock_guard lock(hold_mutex);
    held() = text ? text : "";
  }
  hold_ended.notify_all();
  return kOk;
}
