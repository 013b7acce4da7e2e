// The elements of a tensor as numbers of the host.
#pragma once

#include <complex>
#include <vector>

#include "pyflame/tensor.h"

namespace pyflame {

// In row-major order. DTypeError for complex dtypes.
std::vector<Scalar> read_values(const Tensor& t);
// Of a tensor of complex dtype.
std::vector<std::complex<double>> read_complex(const Tensor& t);

}  // namespace pyflame
