// Special functions, element by element: src/ops/gamma.cpp. Calculated in float64.
#pragma once

#include "pyflame/tensor.h"

namespace pyflame {

Tensor lgamma(const Tensor&);                // log |gamma(x)|; inf at 0, -1, -2, ...
Tensor digamma(const Tensor&);               // derivative of lgamma; -inf at 0, NaN at -1, -2, ...
Tensor polygamma(int64_t n, const Tensor&);  // its n-th derivative, for n of 0 and 1

}  // namespace pyflame
