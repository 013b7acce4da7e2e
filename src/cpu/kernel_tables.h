// Tables of compiled kernels, each in its own translation unit, chosen for this machine.
#pragma once

#include "cpu/tile.h"

namespace pyflame::cpu {

// By row.
const Kernel* rows_f32();
const Kernel* rows_f64();
const Kernel* rows_i32();
const Kernel* rows_i64();
const Kernel* rows_bool();
// By 3 * row + input.
const Kernel* gradients_f32();
const Kernel* gradients_f64();
// By micro-operation.
const Kernel* micros_f32();
const Kernel* micros_f64();
const Kernel* micros_i32();
const Kernel* micros_i64();
const Kernel* micros_bool();

// Of foreach_target files: FUNCTION gives what TABLE does of the target that this machine has.
#define PF_CPU_TABLE(FUNCTION, TABLE)     \
  HWY_EXPORT(TABLE);                      \
  const Kernel* FUNCTION() {              \
    return HWY_DYNAMIC_DISPATCH(TABLE)(); \
  }

}  // namespace pyflame::cpu
