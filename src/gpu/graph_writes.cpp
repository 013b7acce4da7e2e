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

void GraphWrites::begin(size_t item) {
  const auto its = [item](const Noted& n) { return n.item == item; };
  std::erase_if(written_, its);
  std::erase_if(steady_, its);
  item_ = item;
}

bool GraphWrites::writes(const Reach& reach) {
  if (reach.begin == reach.end) return true;
  const auto meets = [&](const Noted& n) { return n.item > item_ && n.reach.meets(reach); };
  if (std::any_of(steady_.begin(), steady_.end(), meets)) return false;
  written_.push_back({reach, item_});
  return true;
}

bool GraphWrites::steady(const Reach& reach, bool own) {
  const auto meets = [&](const Noted& n) {
    return n.item <= item_ && !(own && n.item == item_) && n.reach.meets(reach);
  };
  if (std::any_of(written_.begin(), written_.end(), meets)) return false;
  steady_.push_back({reach, item_});
  return true;
}

}  // namespace pyflame::gpu
