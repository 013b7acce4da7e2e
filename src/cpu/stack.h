// The stacks of threads that others have made.
#pragma once

namespace pyflame::cpu {

// Whether the calling thread has less than half a MiB: large buffers then lie elsewhere.
bool stack_is_small();

}  // namespace pyflame::cpu
