// Where NVIDIA's libraries are, and what is asked of its driver alone.
#include <type_traits>

#include "gpu/device.h"
#include "gpu/library.h"
#include "gpu/runtime.h"

namespace pyflame::gpu {

Names runtime_names() {
  return {"libcuda.so.1", "libcuda.so"};
}
Names rtc_names() {
  Names r;
  if (std::string l = loaded_already("libnvrtc"); !l.empty()) r.push_back(l);
  for (const char* n : {"libnvrtc.so.13", "libnvrtc.so.12"}) r.push_back(n);
  for (const std::string& f : package_folders()) {
    add_matches(r, f + "/nvidia/cu13/lib/libnvrtc.so.13");
    add_matches(r, f + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.1[23]");
  }
  add_matches(r, "/usr/local/cuda*/lib64/libnvrtc.so.1[23]");
  return r;
}
void add_vendor_places(Names& r, const std::string& stem,
                       std::initializer_list<const char*> versions) {
  for (const char* v : versions) r.push_back(stem + v);
  for (const std::string& f : package_folders())
    for (const char* v : versions) add_matches(r, f + "/nvidia/*/lib/" + stem + v);
  for (const char* v : versions) add_matches(r, "/usr/local/cuda*/lib64/" + stem + v);
}

void take_vendor_calls(const Library& h, Runtime& r) {
  const auto take = [&](auto& to, const char* name, bool needed = true) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(h.symbol(name, needed));
  };
  take(r.DeviceGetAttribute, "cuDeviceGetAttribute");
  take(r.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  take(r.CtxSetCurrent, "cuCtxSetCurrent");
  take(r.CtxEnablePeerAccess, "cuCtxEnablePeerAccess");
  take(r.LaunchKernelEx, "cuLaunchKernelEx", false);
  take(r.GraphAddDependencies, "cuGraphAddDependencies_v2", false);
  take(r.TensorMapEncodeTiled, "cuTensorMapEncodeTiled", false);
  take(r.TensorMapEncodeIm2col, "cuTensorMapEncodeIm2col", false);
}

void read_traits(const Runtime& r, int device, Traits& t) {
  auto attribute = [&](int which) {
    int v = 0;
    check(r.DeviceGetAttribute(&v, which, device), "cuDeviceGetAttribute");
    return v;
  };
  t.architecture = "sm_" + std::to_string(attribute(kCapabilityMajor)) +
                   std::to_string(attribute(kCapabilityMinor));
  t.target = t.architecture;
  t.warp = attribute(kWarpSize);
  t.max_block = attribute(kMaxThreadsPerBlock);
  t.compute_units = attribute(kMultiprocessorCount);
  t.memory_bits = attribute(kMemoryBusWidth);
  t.max_shared = static_cast<size_t>(attribute(kMaxSharedOptin));
  check(r.DeviceTotalMem(&t.total_memory, device), "cuDeviceTotalMem");
}

}  // namespace pyflame::gpu
