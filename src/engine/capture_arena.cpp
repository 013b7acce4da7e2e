#include "engine/capture_arena.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

namespace pyflame::engine {
namespace {

size_t rounded(size_t bytes, size_t align) {
  return (std::max<size_t>(bytes, 1) + align - 1) / align * align;
}

// In this order, each in the smallest gap that takes it between those that it meets.
size_t pack_in_order(std::vector<Lifetime>& all, const std::vector<size_t>& order, size_t align) {
  size_t size = 0;
  std::vector<const Lifetime*> placed;  // by offset
  placed.reserve(all.size());
  for (size_t i : order) {
    Lifetime& it = all[i];
    const size_t bytes = rounded(it.bytes, align);
    size_t end = 0, best = 0, gap = SIZE_MAX;
    for (const Lifetime* p : placed) {
      if (!p->meets(it)) continue;
      if (p->offset >= end + bytes && p->offset - end < gap) {
        best = end;
        gap = p->offset - end;
      }
      end = std::max(end, p->offset + rounded(p->bytes, align));
    }
    it.offset = gap == SIZE_MAX ? end : best;
    size = std::max(size, it.offset + bytes);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), &it,
        [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; });
    placed.insert(at, &it);
  }
  return size;
}

}  // namespace

size_t most_at_once(const std::vector<Lifetime>& all, size_t align) {
  std::map<int, std::ptrdiff_t> changes;
  for (const Lifetime& l : all) {
    const auto bytes = static_cast<std::ptrdiff_t>(rounded(l.bytes, align));
    changes[l.first] += bytes;
    changes[l.last + 1] -= bytes;
  }
  std::ptrdiff_t now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return static_cast<size_t>(most);
}

// Large ones first leaves the gaps to the small ones, which mostly comes to the bound; the others
// are for when it does not.
size_t pack(std::vector<Lifetime>& all, size_t align) {
  const size_t bound = most_at_once(all, align);
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<Lifetime> best;
  size_t least = SIZE_MAX;
  const auto lives = [](const Lifetime& l) { return l.last - l.first; };
  const auto larger = [&](size_t a, size_t b) {
    return std::pair(all[a].bytes, lives(all[a])) > std::pair(all[b].bytes, lives(all[b]));
  };
  const auto longer = [&](size_t a, size_t b) {
    return std::pair(lives(all[a]), all[a].bytes) > std::pair(lives(all[b]), all[b].bytes);
  };
  const auto sooner = [&](size_t a, size_t b) {
    return all[a].first != all[b].first ? all[a].first < all[b].first : larger(a, b);
  };
  for (int way = 0; way < 3 && least > bound; ++way) {
    if (way == 0) std::stable_sort(order.begin(), order.end(), larger);
    if (way == 1) std::stable_sort(order.begin(), order.end(), longer);
    if (way == 2) std::stable_sort(order.begin(), order.end(), sooner);
    const size_t size = pack_in_order(all, order, align);
    if (size >= least) continue;
    least = size;
    best = all;
  }
  all = std::move(best);
  return all.empty() ? 0 : least;
}

}  // namespace pyflame::engine
