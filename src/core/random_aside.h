// Random numbers of a thread from a state of its own, and those that it has drawn once more.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "pyflame/random.h"

namespace pyflame {

// What a thread draws from begin() to end(): where the state stood, and each draw that did not
// begin where the one before had ended, since another thread drew meanwhile or the state was set.
class RandomTrace {
 public:
  struct Jump {
    uint64_t draws;  // so many came before
    RandomState to;
  };
  void begin();
  void end();
  void note(RandomState from, RandomState to);
  RandomState first{};
  std::vector<Jump> jumps;

 private:
  RandomTrace* outer_ = nullptr;  // that draws of this one belong to, too
  RandomState at_{};
  uint64_t draws_ = 0;
};

// Where a thread draws from.
struct RandomSource {
  std::optional<RandomState> state;    // its own; none: the one that threads share
  RandomTrace* noting = nullptr;       // the innermost trace
  const RandomTrace* along = nullptr;  // its own state follows this one
  uint64_t draws = 0;
  size_t jumps = 0;
};

// From here on this thread draws from this source, and sets its state, beside all others. Returns
// what it drew from before, as far as it has come.
RandomSource set_random_source(RandomSource);

// The numbers that the trace has seen, in this order; it has to live as long as the source is used.
RandomSource again(const RandomTrace&);

}  // namespace pyflame
