// Which backends there are: built in (cpu, paranoid) or plug-ins beside the library.
#pragma once

#include <string>

#include "pyflame/backend.h"
#include "pyflame/device.h"

extern "C" const pf_backend* pyflame_cpu_backend(void);
extern "C" const pf_backend* pyflame_paranoid_backend(void);

namespace pyflame {

// The backend of a device; DeviceError with the reason when it is not usable.
const pf_backend* backend_of(Device);
// "out of memory", "the kernel could not be built: ...", from a status and the backend's own words.
std::string backend_error(const pf_backend*, pf_status);
// Raises the typed error for a failed call.
[[noreturn]] void raise_status(const pf_backend*, pf_status, const char* op);

}  // namespace pyflame
