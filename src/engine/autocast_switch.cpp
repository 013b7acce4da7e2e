#include "engine/autocast_switch.h"

namespace pyflame::amp {

namespace detail {
constinit thread_local uint8_t t_on = 0;
}
std::atomic<int> threads_on{0};

void switch_on(Slot slot, bool on) {
  const uint8_t before = detail::t_on, bit = static_cast<uint8_t>(1u << slot);
  detail::t_on = static_cast<uint8_t>(on ? before | bit : before & ~bit);
  if (!before != !detail::t_on) threads_on.fetch_add(on ? 1 : -1, std::memory_order_relaxed);
}

}  // namespace pyflame::amp
