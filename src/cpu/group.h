// Groups in pieces: a program, the kernel behind it and the program behind that run over a few rows
// at a time, so that what passes between them stays in a cache.
#pragma once

#include "pyflame/backend.h"

namespace pyflame::cpu {

bool group_takes(const pf_group& g);
// What group_takes() has said yes to.
void group_launch(const pf_group& g);

}  // namespace pyflame::cpu
