#include "ops/registry.h"

namespace pyflame::ops {

std::vector<Op>& table() {
  static auto* t = new std::vector<Op>;
  return *t;
}

void add(Op op) {
  table().push_back(std::move(op));
}

}  // namespace pyflame::ops
