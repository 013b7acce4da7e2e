// Philox random numbers: one generator state for all devices, taken at record time.
#pragma once

#include <cstdint>
#include <utility>

namespace pyflame {

void manual_seed(uint64_t seed);
uint64_t initial_seed();

struct RandomState {
  uint64_t seed, offset;
};
RandomState random_state();
void set_random_state(RandomState);

// Takes the counters for `count` elements of `words` 32-bit words each; returns the state to use.
// Element i uses counter offset + i * words / 4, word (i * words) % 4.
RandomState take_random(int64_t count, int words = 1);

}  // namespace pyflame
