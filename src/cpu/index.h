// Checking indices inside kernels.
#pragma once

#include <cstdint>

#include "cpu/kernel.h"

namespace pyflame::cpu {

// A place in [0, n), n > 0: negative indices count from the end, wrong ones are reported and
// clamped.
inline int64_t checked_index(const KernelArgs& a, int64_t i, int64_t n, bool wrap = true) {
  int64_t at = i < 0 && wrap ? i + n : i;
  if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(n)) [[unlikely]] {
    a.bad_index(i, wrap ? -n : 0, n);
    at = at < 0 ? 0 : n - 1;
  }
  return at;
}

// For writes: a wrong index is reported and -1 comes back, so that nothing is written for it.
inline int64_t checked_place(const KernelArgs& a, int64_t i, int64_t n) {
  const int64_t at = i < 0 ? i + n : i;
  if (static_cast<uint64_t>(at) < static_cast<uint64_t>(n)) [[likely]]
    return at;
  a.bad_index(i, -n, n);
  return -1;
}

}  // namespace pyflame::cpu
