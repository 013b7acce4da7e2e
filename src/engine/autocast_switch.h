// Whether autocast is on, for the calling thread and each kind of device. What it does to
// operations is in ops/autocast.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "pyflame/device.h"

namespace pyflame::amp {

enum Slot : uint8_t { kCpu, kGpu, kParanoid, kSlots };
constexpr Slot slot_of(DeviceType t) {
  return t == DeviceType::CPU || t == DeviceType::Meta ? kCpu
         : t == DeviceType::Paranoid                   ? kParanoid
                                                       : kGpu;
}

namespace detail {
extern constinit thread_local uint8_t t_on;  // a bit for each slot
}

// Threads that have autocast on: one plain load tells most programs that there is nothing to do.
extern std::atomic<int> threads_on;
inline bool on_here() {  // for any device, on the calling thread
  return detail::t_on != 0;
}
inline bool on() {
  return threads_on.load(std::memory_order_relaxed) != 0 && on_here();
}
inline bool on_for(Slot slot) {
  return detail::t_on >> slot & 1;
}
void switch_on(Slot slot, bool on);

// Switches autocast off for a scope: the backward pass runs in the dtypes of the forward pass.
class Off {
 public:
  Off() : before_(detail::t_on) { detail::t_on = 0; }
  ~Off() { detail::t_on = before_; }
  Off(const Off&) = delete;
  Off& operator=(const Off&) = delete;

 protected:
  const uint8_t before_;  // one bit for each slot
};

}  // namespace pyflame::amp
