// What the launches of a graph write: so that a kernel may read what none in front of it does
// before those have ended (KernelArgs::steady). A graph begins when all before it has ended, and
// who writes what others read is behind them.
#pragma once

#include <cstddef>
#include <vector>

#include "pyflame/backend.h"

namespace pyflame::gpu {

// Memory that a tensor reaches; nothing where it has no elements.
struct Reach {
  const char *begin = nullptr, *end = nullptr;
  bool meets(const Reach& other) const { return begin < other.end && other.begin < end; }
};
Reach reach_of(const void* data, int dtype, int ndim, const int64_t* shape, const int64_t* strides);
inline Reach reach_of(const pf_tensor& t) {
  return reach_of(t.data, t.dtype, t.ndim, t.shape, t.strides);
}

class GraphWrites {
 public:
  // What is noted from here on is this item's, in place of what it was.
  void begin(size_t item);
  // False where a later item was told that nobody writes there.
  [[nodiscard]] bool writes(const Reach&);
  // Whether no item up to this one writes there; but for this one, where it may (`own`).
  bool steady(const Reach&, bool own = false);

 private:
  struct Item {
    std::vector<Reach> written, steady;
  };
  std::vector<Item> items_ = std::vector<Item>(1);
  size_t item_ = 0;
};

}  // namespace pyflame::gpu
