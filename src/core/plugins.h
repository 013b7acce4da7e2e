// What the plug-ins for GPUs tell of the environment.
#pragma once

#include "pyflame/device.h"

namespace pyflame {

// Once, where a variable that hides GPUs is another than when the plug-in was tried.
void tell_what_is_set_late(DeviceType);

}  // namespace pyflame
