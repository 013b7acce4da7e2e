// Numbers that are attributes of kernels: what operations pass and kernels read. Device text has
// its own (kernels/).
#pragma once

#include <cstdint>

namespace pyflame {

// Which element of a row is looked for, in the order of sort.
enum class Nth : int64_t { Smallest = 0, Median = 1, NanMedian = 2 };

// What a sum is of. Differences are taken from an element of the reduction itself, its first.
enum class SumKind : int64_t {
  Plain = 0,
  Squares = 1,
  Differences = 2,  // x - origin
  Spread = 3,       // (x - origin - mean)^2, of a mean of differences
  Numbers = 4,      // without NaN
};

// How a loss is reduced.
enum class Reduction : int64_t { None = 0, Mean = 1, Sum = 2 };

}  // namespace pyflame
