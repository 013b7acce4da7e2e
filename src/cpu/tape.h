// Executor of pf_program: a group of pointwise nodes as a tape of tile kernels.
#pragma once

#include "pyflame/backend.h"

namespace pyflame::cpu {

pf_status program_create(const pf_program* program, void** kernel);
void program_destroy(void* kernel);
pf_status program_launch(void* kernel, const pf_launch* launch);

}  // namespace pyflame::cpu
