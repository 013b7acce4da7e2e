#include "cpu/run.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "core/room.h"
#include "pyflame/error.h"

namespace pyflame::cpu {
namespace {

thread_local std::string t_error;
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_error); });

// "MemAvailable:  123 kB" of /proc/meminfo in bytes; 0 when not there.
size_t meminfo(const char* key) {
  std::ifstream f("/proc/meminfo");
  std::string line;
  while (std::getline(f, line))
    if (line.rfind(key, 0) == 0) return std::stoull(line.substr(std::strlen(key) + 1)) * 1024;
  return 0;
}

// A cgroup's number, if it is one; 0 for none or "max".
size_t cgroup_number(const char* path) {
  std::ifstream f(path);
  unsigned long long v = 0;
  return f >> v ? static_cast<size_t>(v) : 0;
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

const char* last_error() {
  return t_error.c_str();
}
void set_last_error(const char* text) {
  t_error = text;
}

pf_status guarded(void (*fn)(void*), void* context) {
  try {
    fn(context);
    t_error.clear();
    return PF_OK;
  } catch (const std::bad_alloc&) {
    t_error = "host memory for a kernel's scratch space ran out";
    return PF_OOM;
  } catch (const OutOfMemoryError& e) {
    t_error = e.what();
    return PF_OOM;
  } catch (const NotSupportedError& e) {
    t_error = e.what();
    return PF_UNSUPPORTED;
  } catch (const DTypeError& e) {
    t_error = e.what();
    return PF_UNSUPPORTED;
  } catch (const std::exception& e) {
    t_error = e.what();
    return PF_LAUNCH;
  }
}

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
  size_t total = meminfo("MemTotal:"), free = meminfo("MemAvailable:");
  for (auto [limit, used] :
       {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    size_t l = cgroup_number(limit);
    if (l && l < total) {
      total = l;
      free = std::min(free, l - std::min(l, cgroup_number(used)));
    }
  }
  *info = {free, total};
  return PF_OK;
}

pf_status Faults::inject(const char* call, int64_t nth, pf_status status) {
  static constexpr const char* kNames[kCount] = {"allocate", "program_create", "program_launch",
                                                 "kernel_launch", "copy"};
  for (int i = 0; i < kCount; ++i)
    if (std::strcmp(call, kNames[i]) == 0) {
      status_[i].store(status);
      left_[i].store(nth);
      return PF_OK;
    }
  set_last_error("no such call to make fail");
  return PF_INVALID;
}

pf_status Faults::check(int kind) {
  if (left_[kind].load(std::memory_order_relaxed) <= 0) return PF_OK;
  if (left_[kind].fetch_sub(1) != 1) return PF_OK;
  set_last_error("a fault that was asked for");
  return static_cast<pf_status>(status_[kind].load());
}

}  // namespace pyflame::cpu
