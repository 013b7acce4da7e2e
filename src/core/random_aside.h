// Random numbers of a thread from a state of its own.
#pragma once

#include <optional>

#include "pyflame/random.h"

namespace pyflame {

// From here on this thread draws from this state, and sets it, beside all others; none: from the
// state that threads share. Returns what it drew from before, as far as it has come.
std::optional<RandomState> set_random_aside(std::optional<RandomState>);

}  // namespace pyflame
