// Named kernels: found once for each type of device, run at once.
#include <atomic>
#include <mutex>

#include "core/backends.h"
#include "core/lock.h"
#include "core/stream.h"
#include "engine/counters.h"
#include "engine/group.h"

namespace pyflame::engine {
namespace {

constexpr int kMaxKernels = 1024;
struct KernelTable {
  Mutex mutex;
  int count = 0;
  std::atomic<void*> found[kMaxKernels][kDeviceTypes]{};
};
KernelTable& kernel_table() {
  static auto* t = new KernelTable;
  return *t;
}

}  // namespace

Kernel::Kernel(const kernels::KernelInfo& info)
    : name(info.name),
      anchor(info.anchor),
      layout(info.layout),
      indices(info.indices),
      random(info.random),
      weights(info.weights) {
  KernelTable& t = kernel_table();
  std::lock_guard lock(t.mutex);
  id = t.count++;
  PF_CHECK(id < kMaxKernels, BackendError, name, "more than ", kMaxKernels, " kernels");
}

pf_scalar to_kernel_scalar(Scalar s) {
  return {s.to_double(), s.to_int()};
}

void* find_kernel(const Kernel& k, Device device) {
  auto& slot = kernel_table().found[k.id][static_cast<int>(device.type)];
  void* kernel = slot.load(std::memory_order_acquire);
  if (!kernel) {
    kernel = backend_of(device)->kernel_find(k.name);
    slot.store(kernel, std::memory_order_release);
  }
  return kernel;
}

bool has_kernel(const Kernel& k, Device device) {
  return find_kernel(k, device) != nullptr;
}

void run_kernel(const Kernel& k, Device device, StreamState* stream,
                std::span<const pf_tensor> tensors, std::span<const pf_scalar> attrs,
                const CallOptions& options) {
  if (options.run) {
    bump(counters().kernels);
    (*options.run)(device, tensors);
    return;
  }
  const pf_backend* b = backend_of(device);
  void* kernel = find_kernel(k, device);
  PF_CHECK(kernel, NotSupportedError, options.op, "the ", b->name, " backend has no kernel '",
           k.name, "'; run this operation on another device");
  bump(counters().kernels);
  pf_index_error error = index_error(k, options);
  const pf_status status = b->kernel_launch(device.index, handle_of(stream), kernel, tensors.data(),
                                            static_cast<int32_t>(tensors.size()), attrs.data(),
                                            static_cast<int32_t>(attrs.size()), &error);
  if (status != PF_OK) raise_status(b, status, options.op);
  raise_index_error(error);
}

pf_index_error index_error(const Kernel& k, const CallOptions& options) {
  const bool given = options.indices != kernels::Indices::None;
  return {0, static_cast<int32_t>(given ? options.indices : k.indices), 0, 0, 0, options.op};
}

void raise_index_error(const pf_index_error& e) {
  if (!e.set) return;
  if (static_cast<kernels::Indices>(e.kind) == kernels::Indices::Classes)
    PF_FAIL(IndexError, e.op, "got the target ", e.index, " for ", e.limit,
            " classes; expected 0 to ", e.limit - 1, ", or ignore_index; correct the target");
  PF_FAIL(IndexError, e.op, "index ", e.index, " is out of bounds for a size of ", e.limit,
          "; valid indices are ", e.lowest, " to ", e.limit - 1);
}

}  // namespace pyflame::engine
