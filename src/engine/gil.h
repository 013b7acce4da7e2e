// When Python's lock is given away: while work runs that takes long.
#pragma once

#include <cstdint>

namespace pyflame::engine {

// The GIL is released while work runs that takes long, and taken again when the outermost scope
// ends: declare one before taking any engine lock.
class GilScope {
 public:
  GilScope();
  ~GilScope();
  GilScope(const GilScope&) = delete;
  GilScope& operator=(const GilScope&) = delete;
};
// Called (under a lock, too) before work over about this many elements.
void long_work(int64_t elements);

}  // namespace pyflame::engine
