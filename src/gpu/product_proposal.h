// Which of cuBLASLt's proposals computes a product of two-byte numbers on Hopper, where nobody has
// measured it: a function of its sizes and of what the library says of its proposals. What that
// saves is in docs/performance.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyflame::gpu {

// The first one, but where that makes several waves of tiles, the one of the smallest tiles. Its
// blocks write one tile while they multiply the next; large tiles are written while nothing is
// multiplied, which of few steps is a large part.
template <class Proposal>
const Proposal& of_many_tiles(const std::vector<Proposal>& found) {
  constexpr float kSeveral = 4;
  const Proposal* best = &found[0];
  if (best->waves < kSeveral) return *best;
  for (const Proposal& x : found)
    if (x.waves > best->waves && x.waves < 3 * found[0].waves) best = &x;
  return *best;
}

// Whether choose_proposal has a choice: of few rows or columns the library's first one is the best.
// `whole`: rows of all three matrices begin at multiples of 16 bytes.
inline bool proposals_matter(int64_t m, int64_t n, bool whole) {
  constexpr int64_t kMany = 256;
  return !whole || std::min(m, n) >= kMany;
}

// `of_workspace` and `of_none` list what the library proposes with a workspace and without one; the
// first of them is not empty.
template <class Proposal>
const Proposal& choose_proposal(int64_t k, bool whole, const std::vector<Proposal>& of_workspace,
                                const std::vector<Proposal>& of_none) {
  constexpr int64_t kFewSteps = 1024;
  constexpr size_t kCounters = 4096;  // more than tiles are counted in
  const Proposal& first = of_workspace[0];
  if (!whole) {
    // Old kernels, whose second wave is hardly filled: rather one that fills the first.
    for (const Proposal& x : of_none)
      if (first.waves > 1 && x.waves > 0.9f && x.waves <= 1) return x;
    return first;
  }
  // Kernels that give out tiles by a counter in the workspace need a fill before each launch, and
  // those that know their tiles are as quick. More is needed where k is split, which pays.
  const auto& from = first.workspace > kCounters || of_none.empty() ? of_workspace : of_none;
  return k <= kFewSteps ? of_many_tiles(from) : from[0];
}

}  // namespace pyflame::gpu
