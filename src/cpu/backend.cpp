// The CPU as a backend: every call has finished when it returns.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/backend_call.h"
#include "core/backends.h"
#include "cpu/group.h"
#include "cpu/kernel.h"
#include "cpu/machine.h"
#include "cpu/tape.h"

namespace pyflame::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

backend::Faults& faults() {
  static backend::Faults f;
  return f;
}

// Large blocks come in huge pages: fresh memory costs a tenth of the page faults.
void* map_huge(size_t bytes) {
  size_t room = bytes + kHugePage;
  void* p = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  uintptr_t at = reinterpret_cast<uintptr_t>(p);
  uintptr_t aligned = (at + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > at) munmap(p, aligned - at);
  size_t rest = at + room - (aligned + bytes);
  if (rest) munmap(reinterpret_cast<void*>(aligned + bytes), rest);
  void* block = reinterpret_cast<void*>(aligned);
  madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

size_t page_round(size_t n) {
  return (n + 4095) / 4096 * 4096;
}

// PYFLAME_GUARD_PAGES=1, for tests: each block ends where a page begins that nobody may touch, so
// what is read or written behind it ends the process.
bool guarded() {
  static const bool on = [] {
    const char* v = std::getenv("PYFLAME_GUARD_PAGES");
    return v && *v == '1';
  }();
  return on;
}
// Behind a block are up to 7 bytes that may be touched: code may take the widest numbers as
// aligned.
size_t before_guard(size_t bytes) {
  return page_round((bytes + 7) / 8 * 8);
}
void* map_guarded(size_t bytes) {
  const size_t own = before_guard(bytes);
  void* p = mmap(nullptr, own + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  mprotect(static_cast<char*>(p) + own, 4096, PROT_NONE);
  return static_cast<char*>(p) + own - (bytes + 7) / 8 * 8;
}
void unmap_guarded(void* p, size_t bytes) {
  const size_t own = before_guard(bytes);
  munmap(static_cast<char*>(p) + (bytes + 7) / 8 * 8 - own, own + 4096);
}

pf_status allocate(pf_device, size_t bytes, void** out) {
  if (pf_status s = faults().check(backend::Faults::kAllocate)) return s;
  if (guarded()) return *out = map_guarded(bytes), *out ? PF_OK : PF_OOM;
  *out = bytes >= kHugePage ? map_huge(page_round(bytes))
                            : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return *out ? PF_OK : PF_OOM;
}
void release(pf_device, void* p, size_t bytes) {
  if (guarded()) return unmap_guarded(p, bytes);
  if (bytes >= kHugePage)
    munmap(p, page_round(bytes));
  else
    std::free(p);
}

void discard(pf_device, void* p, size_t bytes) {
  const size_t skipped =
      page_round(reinterpret_cast<uintptr_t>(p)) - reinterpret_cast<uintptr_t>(p);
  const size_t whole = bytes > skipped ? (bytes - skipped) / 4096 * 4096 : 0;
  if (whole) madvise(static_cast<char*>(p) + skipped, whole, MADV_DONTNEED);
}

pf_status copy(pf_device, pf_stream, void* to, const void* from, size_t bytes) {
  if (pf_status s = faults().check(backend::Faults::kCopy)) return s;
  if (bytes) std::memcpy(to, from, bytes);
  return PF_OK;
}

pf_status create(pf_device, const pf_program* p, void** kernel) {
  if (pf_status s = faults().check(backend::Faults::kProgramCreate)) return s;
  pf_status status = PF_OK;
  pf_status thrown = backend::guard([&] { status = program_create(p, kernel); });
  return thrown ? thrown : status;
}
pf_status launch(pf_device, pf_stream, void* kernel, const pf_launch* l) {
  if (pf_status s = faults().check(backend::Faults::kProgramLaunch)) return s;
  return backend::guard([&] { program_launch(kernel, l); });
}
pf_status launch_kernel(pf_device, pf_stream, void* kernel, const pf_tensor* tensors, int32_t n,
                        const pf_scalar* attrs, int32_t nattrs, pf_index_error* error) {
  if (pf_status s = faults().check(backend::Faults::kKernelLaunch)) return s;
  KernelArgs args{tensors, n, attrs, nattrs, error};
  return backend::guard([&] { static_cast<const KernelEntry*>(kernel)->run(args); });
}
pf_status launch_group(pf_device, pf_stream, const pf_group* g) {
  using backend::Faults;
  if (g->before)
    if (pf_status s = faults().check(Faults::kProgramLaunch)) return s;
  if (pf_status s = faults().check(Faults::kKernelLaunch)) return s;
  if (g->after)
    if (pf_status s = faults().check(Faults::kProgramLaunch)) return s;
  return backend::guard([&] { group_launch(*g); });
}

}  // namespace
}  // namespace pyflame::cpu

extern "C" const pf_backend* pyflame_cpu_backend(void) {
  namespace cpu = pyflame::cpu;
  static const pf_backend backend = [] {
    pf_backend b{};
    b.size = sizeof(pf_backend);
    b.version = PF_BACKEND_VERSION;
    b.name = "cpu";
    b.synchronous = 1;
    b.host_readable = 1;
    b.device_count = [] { return int32_t{1}; };
    b.device_info = [](pf_device, char* text, size_t n) {
      return cpu::describe_cpu("cpu", text, n);
    };
    b.memory_info = [](pf_device, pf_memory_info* i) { return cpu::memory_of_host(i); };
    b.allocate = cpu::allocate;
    b.release = cpu::release;
    b.discard = cpu::discard;
    b.copy_to_host = cpu::copy;
    b.copy_from_host = cpu::copy;
    b.synchronize = [](pf_device, pf_stream, pf_index_error*) { return PF_OK; };
    b.event_create = [](pf_device, pf_event* e) { return *e = nullptr, PF_OK; };
    b.event_record = [](pf_device, pf_event, pf_stream) { return PF_OK; };
    b.event_wait = [](pf_device, pf_stream, pf_event) { return PF_OK; };
    b.event_query = [](pf_device, pf_event, int32_t* done) { return *done = 1, PF_OK; };
    b.event_destroy = [](pf_device, pf_event) {};
    b.program_create = cpu::create;
    b.program_destroy = [](pf_device, void* k) { cpu::program_destroy(k); };
    b.program_launch = cpu::launch;
    b.kernel_find = [](const char* name) -> void* {
      return const_cast<cpu::KernelEntry*>(cpu::find_kernel(name));
    };
    b.kernel_launch = cpu::launch_kernel;
    b.group_launch = cpu::launch_group;
    b.group_takes = [](pf_device, pf_group* g) -> int32_t { return cpu::group_takes(*g); };
    b.last_error = pyflame::backend::last_error;
    b.inject_fault = [](const char* call, int64_t nth, pf_status s) {
      return cpu::faults().inject(call, nth, s);
    };
    return b;
  }();
  return &backend;
}
