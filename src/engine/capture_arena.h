// Where in one block of memory things lie that are needed at different times.
#pragma once

#include <cstddef>
#include <vector>

namespace pyflame::engine {

// Something that needs memory from launch `first` to launch `last`, both with it.
struct Lifetime {
  size_t bytes;
  int first, last;
  size_t offset = 0;  // pack() says

  bool meets(const Lifetime& o) const { return first <= o.last && o.first <= last; }
};

// Finds an offset, a multiple of `align`, for each, so that what is needed at once does not
// overlap, and returns the size of the block.
size_t pack(std::vector<Lifetime>&, size_t align);
// What no block can be smaller than: the most that is needed at once.
size_t most_at_once(const std::vector<Lifetime>&, size_t align);

}  // namespace pyflame::engine
