#include "pyflame/random.h"

#include <mutex>
#include <random>

#include "core/lock.h"

namespace pyflame {

namespace {

struct Generator {
  Mutex mutex;
  RandomState state;
  uint64_t initial;
  Generator() {
    std::random_device device;
    initial = (static_cast<uint64_t>(device()) << 32) | device();
    state = {initial, 0};
  }
};

// Never destroyed: threads may still draw while the process exits.
Generator& generator() {
  static Generator* const g = new Generator;
  return *g;
}

}  // namespace

void manual_seed(uint64_t seed) {
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  g.initial = seed;
  g.state = {seed, 0};
}

uint64_t initial_seed() {
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  return g.initial;
}

RandomState random_state() {
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  return g.state;
}

void set_random_state(RandomState state) {
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  g.initial = state.seed;
  g.state = state;
}

RandomState take_random(int64_t count, int words) {
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  RandomState taken = g.state;
  g.state.offset += (static_cast<uint64_t>(count) * static_cast<uint64_t>(words) + 3) / 4;
  return taken;
}

}  // namespace pyflame
