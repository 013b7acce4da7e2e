// What backends share: their entry points, where failures are a status and a text.
#pragma once

#include <atomic>
#include <cstdint>

#include "pyflame/backend.h"

namespace pyflame::backend {

// Text of the calling thread's last failed call.
const char* last_error();
void set_last_error(const char* text);

// Runs fn, turning exceptions into a status and last_error().
pf_status guarded(void (*fn)(void*), void* context);
template <class F>
pf_status guard(F&& fn) {
  return guarded([](void* f) { (*static_cast<F*>(f))(); }, &fn);
}

// Makes the n-th next call of a kind fail; n counts from 1, 0 switches it off.
class Faults {
 public:
  pf_status inject(const char* call, int64_t nth, pf_status status);
  // Called by each entry point: PF_OK, or what was asked for.
  pf_status check(int kind);
  enum Kind { kAllocate, kProgramCreate, kProgramLaunch, kKernelLaunch, kCopy, kCount };

 private:
  std::atomic<int64_t> left_[kCount]{};
  std::atomic<int> status_[kCount]{};
};

}  // namespace pyflame::backend
