// Calls of a stand-in for a library that fail on request.
#pragma once
#include <cstdint>

namespace {

int64_t calls = 0, fails_at = 0;
// Whether this call is the one that fails.
inline bool failing() {
  return ++calls == fails_at;
}

}  // namespace

// The nth next call fails, 0: none; says how many calls there were since the last time.
extern "C" __attribute__((visibility("default"))) int64_t standin_library_fails(int64_t nth) {
  const int64_t were = calls;
  calls = 0, fails_at = nth;
  return were;
}
