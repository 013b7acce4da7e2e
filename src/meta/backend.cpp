// The device "meta": shapes, dtypes and strides of tensors without their values. Every operation
// checks its arguments and makes its results as on any device; no work is done and no memory taken.
// What would need values (printing, item(), indices of what is not zero) says that there are none.
#include <atomic>
#include <cstdint>
#include <cstdio>

#include "core/backends.h"

namespace pyflame::meta {
namespace {

constexpr size_t kMost = size_t{1} << 60;  // bytes that tensors seem to take
// Addresses that nothing has: nobody looks at what they point to.
constexpr uintptr_t kFirst = uintptr_t{1} << 62;

std::atomic<uintptr_t> g_next{kFirst};
std::atomic<size_t> g_taken{0};
std::atomic<const char*> g_error{""};

// What stands for every program and kernel.
char g_nothing;

pf_status allocate(pf_device, size_t bytes, void** out) {
  if (bytes > kMost || g_taken.load() > kMost - bytes) {
    g_error = "more than 2^60 bytes";
    return PF_OOM;
  }
  g_taken += bytes;
  const size_t step = (bytes + 511) / 256 * 256;
  *out = reinterpret_cast<void*>(g_next.fetch_add(step));  // NOLINT(performance-no-int-to-ptr)
  return PF_OK;
}

void release(pf_device, void*, size_t bytes) {
  g_taken -= bytes;
}

pf_status no_values(pf_device, pf_stream, void*, const void*, size_t) {
  g_error = "the tensor has a shape and no values; make it on another device, or use to_empty()";
  return PF_UNSUPPORTED;
}

}  // namespace
}  // namespace pyflame::meta

extern "C" const pf_backend* pyflame_meta_backend(void) {
  namespace meta = pyflame::meta;
  static const pf_backend backend = [] {
    pf_backend b{};
    b.size = sizeof(pf_backend);
    b.version = PF_BACKEND_VERSION;
    b.name = "meta";
    b.synchronous = 1;
    b.device_count = [] { return int32_t{1}; };
    b.device_info = [](pf_device, char* text, size_t n) {
      std::snprintf(text, n, "name=meta\narchitecture=none\ntotal_memory=0\ncompute_units=0\n");
      return PF_OK;
    };
    b.memory_info = [](pf_device, pf_memory_info* i) {
      *i = {meta::kMost - meta::g_taken.load(), meta::kMost};
      return PF_OK;
    };
    b.allocate = meta::allocate;
    b.release = meta::release;
    b.copy_to_host = meta::no_values;
    b.copy_from_host = [](pf_device, pf_stream, void*, const void*, size_t) { return PF_OK; };
    b.synchronize = [](pf_device, pf_stream, pf_index_error*) { return PF_OK; };
    b.event_create = [](pf_device, pf_event* e) { return *e = &meta::g_nothing, PF_OK; };
    b.event_record = [](pf_device, pf_event, pf_stream) { return PF_OK; };
    b.event_wait = [](pf_device, pf_stream, pf_event) { return PF_OK; };
    b.event_query = [](pf_device, pf_event, int32_t* done) { return *done = 1, PF_OK; };
    b.event_destroy = [](pf_device, pf_event) {};
    b.program_create = [](pf_device, const pf_program*, void** kernel) {
      return *kernel = &meta::g_nothing, PF_OK;
    };
    b.program_destroy = [](pf_device, void*) {};
    b.program_launch = [](pf_device, pf_stream, void*, const pf_launch*) { return PF_OK; };
    b.kernel_find = [](const char*) -> void* { return &meta::g_nothing; };
    b.kernel_launch = [](pf_device, pf_stream, void*, const pf_tensor*, int32_t, const pf_scalar*,
                         int32_t, pf_index_error*) { return PF_OK; };
    b.fill = [](pf_device, pf_stream, void*, int32_t, size_t) { return PF_OK; };
    b.last_error = [] { return meta::g_error.load(); };
    return b;
  }();
  return &backend;
}
