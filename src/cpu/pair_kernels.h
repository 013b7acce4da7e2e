// Two rows of a program as one instruction of its tape.
#pragma once

#include "cpu/tile.h"

namespace pyflame::cpu {

enum class Simple : uint8_t { Add, Sub, Mul };
// second(first(x, y), z), or second(z, first(x, y)): `right`. Null where there is none.
TileFn pair_kernel(Simple first, Simple second, bool right, Reg type);

}  // namespace pyflame::cpu
