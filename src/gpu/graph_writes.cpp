#include "gpu/graph_writes.h"

#include <algorithm>

#include "pyflame/dtype.h"

namespace pyflame::gpu {

Reach reach_of(const void* data, int dtype, int ndim, const int64_t* shape,
               const int64_t* strides) {
  if (!data || data == PF_NO_MEMORY) return {};
  const auto item = static_cast<int64_t>(itemsize(static_cast<DType>(dtype)));
  const auto* p = static_cast<const char*>(data);
  int64_t low = 0, high = item;
  for (int d = 0; d < ndim; ++d) {
    if (shape[d] == 0) return {};
    const int64_t step = strides ? (shape[d] - 1) * strides[d] * item : 0;
    (step < 0 ? low : high) += step;
  }
  return {p + low, p + high};
}

namespace {
bool meets(const std::vector<Reach>& all, const Reach& reach) {
  return std::any_of(all.begin(), all.end(), [&](const Reach& r) { return r.meets(reach); });
}
}  // namespace

void GraphWrites::begin(size_t item) {
  if (item >= items_.size()) items_.resize(item + 1);
  items_[item].written.clear();
  items_[item].steady.clear();
  item_ = item;
}

bool GraphWrites::writes(const Reach& reach) {
  if (reach.begin == reach.end) return true;
  for (size_t i = item_ + 1; i < items_.size(); ++i)
    if (meets(items_[i].steady, reach)) return false;
  items_[item_].written.push_back(reach);
  return true;
}

bool GraphWrites::steady(const Reach& reach, bool own) {
  for (size_t i = 0; i < item_ + !own; ++i)
    if (meets(items_[i].written, reach)) return false;
  items_[item_].steady.push_back(reach);
  return true;
}

}  // namespace pyflame::gpu
