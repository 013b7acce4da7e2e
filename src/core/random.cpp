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

constinit thread_local RandomSource t_source;

RandomState end_of(RandomState from, int64_t count, int words) {
  from.offset += (static_cast<uint64_t>(count) * static_cast<uint64_t>(words) + 3) / 4;
  return from;
}

bool same(RandomState a, RandomState b) {
  return a.seed == b.seed && a.offset == b.offset;
}

// The state of this thread's own that the next draw begins at.
RandomState& own_state() {
  RandomSource& s = t_source;
  if (s.along && s.jumps < s.along->jumps.size() && s.along->jumps[s.jumps].draws == s.draws)
    s.state = s.along->jumps[s.jumps++].to;
  ++s.draws;
  return *s.state;
}

}  // namespace

void RandomTrace::begin() {
  outer_ = std::exchange(t_source.noting, this);
  at_ = first = random_state();
}

void RandomTrace::end() {
  t_source.noting = outer_;
}

void RandomTrace::note(RandomState from, RandomState to) {
  if (!same(from, at_)) jumps.push_back({draws_, from});
  ++draws_;
  at_ = to;
  if (outer_) outer_->note(from, to);
}

RandomSource set_random_source(RandomSource source) {
  return std::exchange(t_source, source);
}

RandomSource again(const RandomTrace& trace) {
  RandomSource s;
  s.state = trace.first;
  s.along = &trace;
  return s;
}

void manual_seed(uint64_t seed) {
  if (t_source.state) {
    t_source.state = {seed, 0};
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
  if (t_source.state) return *t_source.state;
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  return g.state;
}

void set_random_state(RandomState state) {
  if (t_source.state) {
    t_source.state = state;
    return;
  }
  Generator& g = generator();
  std::lock_guard lock(g.mutex);
  g.initial = state.seed;
  g.state = state;
}

RandomState take_random(int64_t count, int words) {
  const auto take = [&](RandomState& state) {
    return std::exchange(state, end_of(state, count, words));
  };
  RandomState from;
  if (t_source.state) {
    from = take(own_state());
  } else {
    Generator& g = generator();
    std::lock_guard lock(g.mutex);
    from = take(g.state);
  }
  if (t_source.noting) t_source.noting->note(from, end_of(from, count, words));
  return from;
}

}  // namespace pyflame
