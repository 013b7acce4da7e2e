// What counts in bins of about equal widths.
#pragma once

#include <utility>

#include "pyflame/tensor.h"

namespace pyflame {

// Sums of weights in bins of about equal widths, and how many values have none
// (table/kernels/index.h, BinnedSums). Edges are float64.
std::pair<Tensor, Tensor> binned_sums(const Tensor& given, const Tensor& weights,
                                      const Tensor& edges);
// `any`: negative weights and those that are no finite numbers count, too.
std::pair<Tensor, Tensor> sums_in_bins(const Tensor& given, const Tensor& weights,
                                       const Tensor& edges, bool any);

}  // namespace pyflame
