// Executor of pf_program: a group of pointwise nodes as a tape of tile kernels.
#pragma once

#include <cstdint>

#include "pyflame/backend.h"

namespace pyflame::cpu {

pf_status program_create(const pf_program* program, void** kernel);
void program_destroy(void* kernel);
// What a launch is: everything, or a piece of something too large for the caches, whose results are
// read next (First), or may go around the caches (Last). Throws.
enum class Part : uint8_t { All, First, Last };
void program_launch(void* kernel, const pf_launch* launch, Part part = Part::All);

}  // namespace pyflame::cpu
