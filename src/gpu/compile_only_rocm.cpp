// A GPU of AMD that is not there: its properties, and clang in place of hipRTC.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "gpu/compile_only.h"
#include "gpu/kernel.h"

extern char** environ;

namespace pyflame::gpu {
namespace {

int properties(void* out, int) {
  const std::string target = compile_only();
  const std::string arch = target.substr(0, target.find(':'));
  char* p = static_cast<char*>(out);
  const auto put = [&](size_t at, auto v) { std::memcpy(p + at, &v, sizeof v); };
  const PropertyLayout& l = kPropertiesR0600;
  put(l.total_memory, kAbsentMemory);
  put(l.shared, size_t{64} << 10);
  put(l.warp, arch.rfind("gfx9", 0) == 0 ? 64 : 32);
  put(l.max_block, 1024);
  put(l.max_grid, 2147483647);
  put(l.compute_units, arch == "gfx942"   ? 304
                       : arch == "gfx950" ? 256
                       : arch == "gfx90a" ? 104
                                          : 64);
  std::strncpy(p + l.arch, target.c_str(), 255);
  return kSuccess;
}

struct ClangProgram {
  std::string source, log, code;
};
ClangProgram& of(hiprtcProgram p) {
  return *static_cast<ClangProgram*>(p);
}

std::string whole_file(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::ostringstream s;
  s << f.rdbuf();
  return s.str();
}

// The status of a command whose output goes to a file; -1 where it could not be started.
int run_command(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& c : command) argv.push_back(const_cast<char*>(c.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (error || waitpid(pid, &status, 0) < 0) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const std::string& clang() {
  static const std::string found = [] {
    std::vector<std::string> names{"clang++-21", "clang++-20", "clang++-19", "clang++-22"};
    if (compile_only().rfind("gfx950", 0) == 0) names = {"clang++-22", "clang++-21", "clang++-20"};
    if (const char* v = std::getenv("PYFLAME_CLANG"); v && *v) names = {v};
    for (const std::string& n : names)
      if (run_command({n, "--version"}, "/dev/null") == 0) return n;
    return std::string();
  }();
  return found;
}

int compile_with_clang(hiprtcProgram program, int n, const char* const* options) {
  ClangProgram& p = of(program);
  char folder[] = "/tmp/pyflame-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  const std::string base = folder, source = base + "/kernel.hip", code = base + "/kernel.o",
                    log = base + "/log";
  std::ofstream(source) << p.source;
  std::vector<std::string> command{clang(),     "-x", "hip", "--cuda-device-only",     "-nogpulib",
                                   "-nogpuinc", "-w", "-c",  "--no-gpu-bundle-output", "-o",
                                   code};
  for (int i = 0; i < n; ++i) {
    std::string o = options[i];
    if (o.rfind("--gpu-architecture=", 0) == 0) o = "--offload-arch=" + o.substr(19);
    command.push_back(o);
  }
  command.push_back(source);
  const int status = run_command(command, log);
  p.log = whole_file(log);
  if (status == 0) p.code = whole_file(code);
  for (const std::string& f : {source, code, log}) unlink(f.c_str());
  rmdir(folder);
  return status == 0 && !p.code.empty() ? 0 : 6;
}

}  // namespace

void answer_as_vendor(Runtime& r) {
  do_nothing(r.SetDevice);
  do_nothing(r.DeviceEnablePeerAccess);
  r.GetDeviceProperties = properties;
  r.properties_r0600 = true;
  r.GetErrorName = r.GetErrorString = [](int) { return "no runtime"; };
}

Rtc clang_rtc() {
  if (clang().empty())
    throw Failure(PF_COMPILE,
                  "neither hipRTC nor clang 19 or newer was found; install one, or set "
                  "PYFLAME_HIPRTC_LIBRARY or PYFLAME_CLANG");
  Rtc r;
  r.library = clang();
  r.version = "of LLVM: " + clang();
  r.Version = [](int*, int*) { return 0; };
  r.CreateProgram = [](hiprtcProgram* out, const char* source, const char*, int, const char* const*,
                       const char* const*) {
    *out = new ClangProgram{source, "", ""};
    return 0;
  };
  r.CompileProgram = compile_with_clang;
  r.GetProgramLogSize = [](hiprtcProgram p, size_t* n) { return *n = of(p).log.size() + 1, 0; };
  r.GetProgramLog = [](hiprtcProgram p, char* log) {
    return std::strcpy(log, of(p).log.c_str()), 0;
  };
  r.GetCodeSize = [](hiprtcProgram p, size_t* n) { return *n = of(p).code.size(), 0; };
  r.GetCode = [](hiprtcProgram p, char* code) {
    std::memcpy(code, of(p).code.data(), of(p).code.size());
    return 0;
  };
  r.DestroyProgram = [](hiprtcProgram* p) {
    delete static_cast<ClangProgram*>(*p);
    return *p = nullptr, 0;
  };
  r.GetErrorString = [](int) { return "clang failed"; };
  return r;
}

}  // namespace pyflame::gpu
