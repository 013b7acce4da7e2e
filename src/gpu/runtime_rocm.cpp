// Where AMD's libraries are, and what is asked of its runtime alone.
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "gpu/device.h"
#include "gpu/library.h"
#include "gpu/runtime.h"

namespace pyflame::gpu {

Names runtime_names() {
  Names r;
  if (std::string l = loaded_already("libamdhip64"); !l.empty()) r.push_back(l);
  for (const char* n : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) r.push_back(n);
  if (const char* p = std::getenv("ROCM_PATH")) r.push_back(std::string(p) + "/lib/libamdhip64.so");
  r.push_back("/opt/rocm/lib/libamdhip64.so");
  for (const std::string& f : package_folders())
    add_matches(r, f + "/_rocm_sdk_core/lib/libamdhip64.so*");
  r.push_back("libamdhip64.so");
  return r;
}
Names rtc_names() {
  Names r;
  // The compiler of the same installation first.
  const std::string& runtime_path = runtime().library;
  if (size_t slash = runtime_path.rfind('/'); slash != std::string::npos)
    add_matches(r, runtime_path.substr(0, slash) + "/libhiprtc.so*");
  for (const char* n : {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"}) r.push_back(n);
  if (const char* p = std::getenv("ROCM_PATH")) r.push_back(std::string(p) + "/lib/libhiprtc.so");
  r.push_back("/opt/rocm/lib/libhiprtc.so");
  for (const std::string& f : package_folders())
    add_matches(r, f + "/_rocm_sdk_core/lib/libhiprtc.so*");
  r.push_back("libhiprtc.so");
  return r;
}
void add_vendor_places(Names& r, const std::string& stem,
                       std::initializer_list<const char*> versions) {
  // Of the same installation as the runtime.
  const std::string& path = runtime().library;
  if (size_t slash = path.rfind('/'); slash != std::string::npos)
    add_matches(r, path.substr(0, slash) + "/" + stem + ".so*");
  for (const char* v : versions) r.push_back(stem + v);
  if (const char* p = std::getenv("ROCM_PATH"))
    r.push_back(std::string(p) + "/lib/" + stem + ".so");
  r.push_back("/opt/rocm/lib/" + stem + ".so");
  for (const std::string& f : package_folders())
    add_matches(r, f + "/_rocm_sdk_libraries*/lib/" + stem + ".so*");
}

void take_vendor_calls(const Library& h, Runtime& r) {
  const auto take = [&](auto& to, const char* name, bool needed = true) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(h.symbol(name, needed));
  };
  take(r.SetDevice, "hipSetDevice");
  take(r.DeviceEnablePeerAccess, "hipDeviceEnablePeerAccess");
  take(r.GetDeviceProperties, "hipGetDevicePropertiesR0600", false);
  r.properties_r0600 = r.GetDeviceProperties != nullptr;
  if (!r.properties_r0600) take(r.GetDeviceProperties, "hipGetDeviceProperties");
}

void read_traits(const Runtime& r, int device, Traits& t) {
  char p[kPropertyBytes] = {};
  const auto read = [&](auto& to, size_t at) { std::memcpy(&to, p + at, sizeof to); };
  check(r.GetDeviceProperties(p, device), "hipGetDeviceProperties");
  const PropertyLayout& l = r.properties_r0600 ? kPropertiesR0600 : kPropertiesR0000;
  p[l.arch + 255] = 0;
  t.target = p + l.arch;
  t.architecture = t.target.substr(0, t.target.find(':'));
  read(t.total_memory, l.total_memory);
  read(t.max_shared, l.shared);
  read(t.warp, l.warp);
  read(t.max_block, l.max_block);
  read(t.compute_units, l.compute_units);
  int blocks = 0;
  read(blocks, l.max_grid);
  t.max_grid = blocks;
}

}  // namespace pyflame::gpu
