// Counters behind stats().
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/engine.h"

namespace pyflame::engine {

struct Counters {
  std::atomic<int64_t> flushes[static_cast<int>(Flush::kCount)]{};
  std::atomic<int64_t> nodes{0}, groups{0}, programs{0}, kernels{0}, joined{0}, merged{0},
      programs_made{0}, programs_found{0}, donated{0}, copies_to_host{0}, copies_from_host{0},
      moved{0}, moved_bytes{0}, slow{0};
};
Counters& counters();
inline void bump(std::atomic<int64_t>& c) {
  c.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace pyflame::engine
