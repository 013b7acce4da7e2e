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
// From so many elements on work takes long. Giving the GIL away costs about a microsecond.
inline constexpr int64_t kLongWork = 1 << 17;
// Called (under a lock, too) before work over about this many elements.
void long_work(int64_t elements);
// Whether Ctrl-C may end what this thread computes without the GIL (core/interrupt.h), as far as
// Python is concerned.
bool hears_interrupts();

}  // namespace pyflame::engine
