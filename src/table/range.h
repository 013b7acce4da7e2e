// Intervals of expressions: whether 16 bits are enough for what a row computes.
#pragma once

#include <span>

#include "table/expr.h"

namespace pyflame::table {

// True when a micro-operation of the expression can leave the range of float16 or grows without
// bound where its argument does not: exp above 11, log down to 0, a power, tan, 1 / x, and acos and
// asin, whose slope has no bound at 1. Operands may be any number, attributes are `attrs` (any
// number where there is none); inside a branch of a select its condition holds. So elu, whose exp
// only sees numbers below 0, is none of them.
bool leaves_range(const Expr&, std::span<const double> attrs = {});

}  // namespace pyflame::table
