// The weights with which interpolation along one dimension takes elements of its input, as PyTorch
// defines them: what kernels, and the operation that calls them, agree on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyflame::table {

enum class Rule : uint8_t {
  Nearest,
  NearestExact,
  Linear,
  Cubic,
  LinearWide,
  CubicWide,
  LanczosWide,
  Area
};

// Output i takes count[i] elements from start[i] on, with the weights at i * most. Neither the
// first nor the last of them is 0; starts and ends never go back.
struct Taps {
  int64_t in = 0, out = 0, most = 1;
  std::vector<int32_t> start, count;
  std::vector<double> weight;
  bool same() const;  // every output is the input at its place
  // Output i takes what the one before it takes.
  bool repeats(int64_t i) const;
  bool plain(int64_t i) const {  // one element as it is
    const auto at = static_cast<std::size_t>(i);
    return count[at] == 1 && weight[at * static_cast<std::size_t>(most)] == 1;
  }
};

// How far apart outputs are in the input, where `factor` is what the caller asked for, or 0.
double scale_of(int64_t in, int64_t out, bool align, double factor);

// Linear and cubic rules put the centres of the outer elements at each other with `align`; wide
// ones (antialiasing) widen their filter where the result is smaller. `single`: places of nearest
// elements are calculated in float32, as for inputs of up to 32 bits.
Taps taps_of(Rule rule, int64_t in, int64_t out, double scale, bool align, bool single);
Taps transposed(const Taps& t);

}  // namespace pyflame::table
