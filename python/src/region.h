// What captured functions ask of the tape.
#pragma once

#include "common.h"

namespace pyflame::python {

void init_region(nb::module_& m);

}  // namespace pyflame::python
