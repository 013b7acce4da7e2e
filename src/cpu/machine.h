// The processor and the memory of this machine.
#pragma once

#include <cstddef>

#include "pyflame/backend.h"

namespace pyflame::cpu {

pf_status describe_cpu(const char* name, char* text, size_t capacity);
// Within the limits of a container.
pf_status memory_of_host(pf_memory_info* info);

}  // namespace pyflame::cpu
