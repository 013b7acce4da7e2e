// Which backends there are: built in (cpu, meta, paranoid) or plug-ins beside the library.
#pragma once

#include <string>

#include "pyflame/backend.h"
#include "pyflame/device.h"

extern "C" const pf_backend* pyflame_cpu_backend(void);
extern "C" const pf_backend* pyflame_paranoid_backend(void);
extern "C" const pf_backend* pyflame_meta_backend(void);

namespace pyflame {

// The backend of a device; DeviceError with the reason when it is not usable.
const pf_backend* backend_of(Device);
// The same for a device that must also exist (its number is below the count).
const pf_backend* usable_backend_of(Device);
// The backend when it is in use already: never loads a plug-in.
const pf_backend* backend_if_loaded(DeviceType);
// Calls fn(device, backend) for every device that may have work under way.
template <class F>
void each_active_device(F&& fn) {
  for (DeviceType type : {DeviceType::Paranoid, DeviceType::ROCm, DeviceType::CUDA})
    if (const pf_backend* b = backend_if_loaded(type))
      for (int i = 0; i < b->device_count(); ++i) fn(Device{type, static_cast<int8_t>(i)}, b);
}

// ---- plugins.cpp: ROCm and CUDA ----------------------------------------------------------------
const pf_backend* plugin_backend(DeviceType);  // loads it at the first call; null when it cannot be
const pf_backend* plugin_if_loaded(DeviceType);  // never loads it
std::string plugin_reason(DeviceType);           // why it is not there
// Why a backend that this thread called got no memory for a kernel's workspace: the allocator's
// words, once; empty when that was not what failed.
std::string take_shortage();
void note_shortage(const char* error);
// Tells the user something that is no error: standard error, or what the hook does.
void notice(const char* text);
// Names of one vendor's GPUs for another's are this program's way: no notice.
void any_name_is_meant();
void set_notice_hook(void (*hook)(const char*));

// "out of memory", "the kernel could not be built: ...", from a status and the backend's own words.
std::string backend_error(const pf_backend*, pf_status);
// Raises the typed error for a failed call.
[[noreturn]] void raise_status(const pf_backend*, pf_status, const char* op);

}  // namespace pyflame
