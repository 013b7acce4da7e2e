// Order statistics, means that leave NaN out, covariances: src/ops/statistics.cpp. Names, argument
// order and meaning are PyTorch's.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "pyflame/ops.h"

namespace pyflame {

// Quantiles along `dim` (of all elements without it). `q` is 0-d or 1-d with values from 0 to 1;
// its dimension comes first in the result. interpolation: linear, lower, higher, midpoint, nearest.
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> dim = {},
                bool keepdim = false, const std::string& interpolation = "linear");
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                const std::string& interpolation = "linear");
// The same of what is not NaN.
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int64_t> dim = {},
                   bool keepdim = false, const std::string& interpolation = "linear");
Tensor nanquantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                   const std::string& interpolation = "linear");
Tensor nansum(const Tensor& x, const std::optional<IntList>& dim = {}, bool keepdim = false,
              std::optional<DType> dtype = {});
Tensor nanmean(const Tensor& x, const std::optional<IntList>& dim = {}, bool keepdim = false,
               std::optional<DType> dtype = {});
Tensor nanmedian(const Tensor& x);
std::pair<Tensor, Tensor> nanmedian(const Tensor& x, int64_t dim, bool keepdim = false);
std::pair<Tensor, Tensor> mode(const Tensor& x, int64_t dim = -1, bool keepdim = false);
// (minimum, maximum) along `dim`, or of all elements.
std::pair<Tensor, Tensor> aminmax(const Tensor& x, std::optional<int64_t> dim = {},
                                  bool keepdim = false);
// Rows are variables, columns observations.
Tensor cov(const Tensor& x, int64_t correction = 1, const Tensor& fweights = {},
           const Tensor& aweights = {});
Tensor corrcoef(const Tensor& x);
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
Tensor trapezoid(const Tensor& y, double dx = 1, int64_t dim = -1);

}  // namespace pyflame
