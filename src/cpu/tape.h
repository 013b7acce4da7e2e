// Executor of pf_program: a group of pointwise nodes as a tape of tile kernels.
#pragma once

#include <cstdint>

#include "pyflame/backend.h"

namespace pyflame::cpu {

pf_status program_create(const pf_program* program, void** kernel);
void program_destroy(void* kernel);
// What a launch is: everything, or a part of something too large for the caches: one that is as a
// whole (Inner), or a piece whose results are read next (First) or may go around the caches (Last).
// Throws.
enum class Part : uint8_t { All, Inner, First, Last };
// What a part has brought into the second cache meanwhile, for the next one: every fourth line of
// up to two inputs that go on there. The kernel between the two parts fetches the others
// (rows-inl.h).
struct Fetch {
  const char* from[2] = {};
  int64_t bytes[2] = {};  // of an element
};
void program_launch(void* kernel, const pf_launch* launch, Part part = Part::All,
                    const Fetch& fetch = {});

}  // namespace pyflame::cpu
