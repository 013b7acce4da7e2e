#include "pyflame/random.h"

#include <mutex>
#include <random>
#include <utility>

#include "core/lock.h"
#include "core/random_aside.h"

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

constinit thread_local std::optional<RandomState> t_aside;

RandomState taken(RandomState& from, int64_t count, int words) {
  RandomState first = from;
  from.offset += (static_cast<uint64_t>(count) * static_cast<uint64_t>(words) + 3) / 4;
  return first;
}

}  // namespace

std::optional<RandomState> set_random_aside(std::optional<RandomState> state) {
  return std::exchange(t_aside, state);
}

void manual_seed(uint64_t seed) {
  if (t_aside) {
    t_aside = {seed, 0};
    return;
  }
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
  if (t_aside) return *t_aside;
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  return g.state;
}

void set_random_state(RandomState state) {
  if (t_aside) {
    t_aside = state;
    return;
  }
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  g.initial = state.seed;
  g.state = state;
}

RandomState take_random(int64_t count, int words) {
  if (t_aside) return taken(*t_aside, count, words);
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  return taken(g.state, count, words);
}

}  // namespace pyflame
