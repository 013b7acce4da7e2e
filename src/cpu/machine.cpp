#include "cpu/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "core/backend_call.h"
#include "core/limits.h"

namespace pyflame::cpu {
namespace {

// "MemAvailable:  123 kB" of /proc/meminfo in bytes; 0 when not there.
size_t meminfo(const char* key) {
  std::ifstream f("/proc/meminfo");
  std::string line;
  while (std::getline(f, line))
    if (line.rfind(key, 0) == 0) return std::stoull(line.substr(std::strlen(key) + 1)) * 1024;
  return 0;
}

std::string cpu_model() {
  std::ifstream f("/proc/cpuinfo");
  std::string line;
  while (std::getline(f, line))
    if (line.rfind("model name", 0) == 0)
      return line.substr(std::min(line.size(), line.find(':') + 2));
  return "CPU";
}

}  // namespace

pf_status describe_cpu(const char* kind, char* text, size_t capacity) {
  utsname u;
  uname(&u);
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0
                  ? CPU_COUNT(&set)
                  : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::string isa;
#if defined(__x86_64__)
  for (auto [has, label] : {std::pair{__builtin_cpu_supports("avx2"), "avx2"},
                            {__builtin_cpu_supports("avx512f"), "avx512"},
                            {__builtin_cpu_supports("avx512bf16"), "avx512_bf16"}})
    if (has) isa += (isa.empty() ? "" : ",") + std::string(label);
#endif
  std::snprintf(
      text, capacity,
      "name=%s\narchitecture=%s\ninstruction_sets=%s\ntotal_memory=%zu\ncompute_units=%d\n"
      "backend=%s\n",
      cpu_model().c_str(), u.machine, isa.c_str(), meminfo("MemTotal:"), cores, kind);
  return PF_OK;
}

pf_status memory_of_host(pf_memory_info* info) {
  // Without a descriptor nothing below could be read, and every limit would be 0.
  if (!std::ifstream("/proc/meminfo") && (errno == EMFILE || errno == ENFILE)) {
    rlimit most{};
    getrlimit(RLIMIT_NOFILE, &most);
    backend::set_last_error(
        ("no file descriptor is left to read the limits of memory (this process may have " +
         std::to_string(most.rlim_cur) +
         " open files); close files, or raise the limit with ulimit -n")
            .c_str());
    return PF_LAUNCH;
  }
  size_t total = meminfo("MemTotal:"), free = meminfo("MemAvailable:");
  if (const CgroupMemory c = cgroup_memory(); c.limit && c.limit < total) {
    total = c.limit;
    free = std::min(free, c.left());
  }
  *info = {free, total};
  return PF_OK;
}

}  // namespace pyflame::cpu
