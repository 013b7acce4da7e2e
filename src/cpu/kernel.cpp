#include "cpu/kernel.h"

#include <mutex>
#include <string_view>
#include <unordered_map>

#include "core/lock.h"

namespace pyflame::cpu {
namespace {

std::unordered_map<std::string_view, KernelEntry>& kernels() {
  static auto* m = new std::unordered_map<std::string_view, KernelEntry>;
  return *m;
}

}  // namespace

RegisterKernel::RegisterKernel(const kernels::KernelInfo& info, KernelFn fn, PiecesFn pieces) {
  kernels().emplace(info.name, KernelEntry{fn, pieces});
}
RegisterKernel::RegisterKernel(const kernels::KernelInfo& info, KernelFn fn, RunsBehind) {
  kernels().emplace(info.name, KernelEntry{fn, nullptr, true});
}

const KernelEntry* find_kernel(const char* name) {
  auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : &it->second;
}

void KernelArgs::bad_index(int64_t index, int64_t lowest, int64_t limit) const {
  static Mutex mutex;
  std::lock_guard lock(mutex);
  if (!error || error->set) return;
  error->index = index;
  error->lowest = lowest;
  error->limit = limit;
  error->set = 1;
}

}  // namespace pyflame::cpu
