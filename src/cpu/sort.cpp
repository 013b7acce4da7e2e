// Sorting rows. Values become unsigned keys in the same order (NaN last, -0 equal to 0); equal
// keys keep the order of their positions, so every result is unique.
#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "core/interrupt.h"
#include "core/kernel_numbers.h"
#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/sort.h"

namespace pyflame::cpu {

namespace {

using namespace kernels;

inline uint32_t key_of(float v) {
  if (v != v) return UINT32_MAX;
  auto bits = std::bit_cast<uint32_t>(v == 0 ? 0.0f : v);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
inline uint64_t key_of(double v) {
  if (v != v) return UINT64_MAX;
  auto bits = std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
  return bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
}
inline uint64_t key_of(int64_t v) {
  return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63);
}
inline uint32_t key_of(int32_t v) {
  return static_cast<uint32_t>(v) ^ 0x80000000u;
}

template <class T>
auto key_of_stored(T v) {
  using C = Compute<T>;
  if constexpr (std::is_floating_point_v<C> || std::is_same_v<C, int64_t>)
    return key_of(load(v));
  else
    return key_of(static_cast<int32_t>(v));
}

// A 32-bit key with its position in one word: one comparison orders both.
struct Short {
  using Key = uint32_t;
  uint64_t word;
  Short() = default;
  Short(uint32_t key, int64_t at) : word((uint64_t{key} << 32) | static_cast<uint32_t>(at)) {}
  uint64_t key() const { return word >> 32; }
  int64_t at() const { return static_cast<int64_t>(word & UINT32_MAX); }
  friend bool operator<(Short a, Short b) { return a.word < b.word; }
};
struct Long {
  using Key = uint64_t;
  uint64_t word;
  int64_t position;
  Long() = default;
  Long(uint64_t key, int64_t at) : word(key), position(at) {}
  uint64_t key() const { return word; }
  int64_t at() const { return position; }
  friend bool operator<(const Long& a, const Long& b) {
    return a.word != b.word ? a.word < b.word : a.position < b.position;
  }
};

// Items of a row, in memory that others hold.
template <class Item>
class Items {
 public:
  explicit Items(Item* at) : begin_(at) {}
  Item* begin() const { return begin_; }
  Item* end() const { return begin_ + count_; }
  size_t size() const { return count_; }
  Item& operator[](size_t i) const { return begin_[i]; }
  void resize(size_t n) { count_ = n; }
  void push_back(Item x) { begin_[count_++] = x; }

 private:
  Item* begin_;
  size_t count_ = 0;
};

// fn(i) for i below n, in their order; a row of a billion may be interrupted.
template <class F>
void each_below(int64_t n, F&& fn) {
  in_pieces(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  });
}

// Radix sort by 11 bits at a time; stable, so positions need not be looked at.
template <class Item>
void radix_sort(Items<Item>& items, Items<Item>& spare, int key_bits) {
  constexpr int kBits = 11;
  constexpr size_t kBuckets = 1 << kBits;
  const size_t n = items.size();
  spare.resize(n);
  for (int shift = 0; shift < key_bits; shift += kBits) {
    size_t count[kBuckets] = {};
    each_below(std::ssize(items), [&](int64_t i) {
      ++count[items[static_cast<size_t>(i)].key() >> shift & (kBuckets - 1)];
    });
    if (count[items[0].key() >> shift & (kBuckets - 1)] == n) continue;  // all alike here
    size_t sum = 0;
    for (size_t& c : count) {
      size_t mine = c;
      c = sum;
      sum += mine;
    }
    each_below(std::ssize(items), [&](int64_t i) {
      const Item x = items[static_cast<size_t>(i)];
      spare[count[x.key() >> shift & (kBuckets - 1)]++] = x;
    });
    std::swap(items, spare);
  }
}

constexpr int64_t kStretch = 16;
// Whether a stretch has an element that may come before t; NaN may. Loops that become vectors.
template <class T>
bool any_before(const T* x, Compute<T> t, bool descending) {
  int any = 0;
  if (descending)
    for (int64_t j = 0; j < kStretch; ++j) any |= !(load(x[j]) <= t);
  else
    for (int64_t j = 0; j < kStretch; ++j) any |= !(load(x[j]) >= t);
  return any != 0;
}

// How many items collect_first works with.
int64_t room_for_first(int64_t keep) {
  return std::max<int64_t>(3 * keep, 32);
}
// Items that include the `keep` first of n: what lies behind the bound found so far is left out.
// `item(i)` is an item; any(i, b): whether one of the elements from i on may come before element b.
template <class Item, class Make, class Any>
void collect_first(Items<Item>& items, int64_t n, int64_t keep, Make&& item, Any&& any) {
  const auto room = static_cast<size_t>(room_for_first(keep));
  items.resize(0);
  // keep < n / 8, so that they are there.
  for (int64_t i = 0; i < static_cast<int64_t>(room); ++i) items.push_back(item(i));
  const auto shorten = [&] {
    std::nth_element(items.begin(), items.begin() + (keep - 1), items.end());
    items.resize(static_cast<size_t>(keep));
    return items[items.size() - 1];
  };
  Item bound = shorten();
  for (int64_t i = static_cast<int64_t>(room); i < n; i += kStretch) {
    const int64_t end = std::min(i + kStretch, n);
    if (end - i == kStretch && !any(i, bound.at())) continue;
    for (int64_t j = i; j < end; ++j) {
      const Item x = item(j);
      if (!(x < bound)) continue;
      items.push_back(x);
      if (items.size() == room) bound = shorten();
    }
  }
}

// Calls row(items, spare, offsets, input) for each row of kernel K's `x` along `dim`, its items
// unsorted.
// With `keep`, only those that may be among the `keep` first; with `spares` there is as much memory
// again. Offsets: of the row in the input, then in the outputs. Keys are counted from `least`.
template <class K, class T, class Item, int kOuts = K::kInfo.outputs, class Row>
void each_row(const KernelArgs& a, int dim, bool descending, int64_t keep, bool spares, Row&& row,
              uint64_t least = 0) {
  using Key = decltype(key_of_stored(T{}));
  const pf_tensor& in = a.tensor(tensors<K>.x);
  const int64_t n = in.shape[dim], rows = n ? numel(in) / n : 0, step = in.strides[dim];
  // All dimensions but `dim`, for the input and the outputs.
  int64_t shape[PF_MAX_DIMS], steps[1 + kOuts][PF_MAX_DIMS];
  int m = 0;
  for (int d = 0; d < in.ndim; ++d) {
    if (d == dim) continue;
    shape[m] = in.shape[d];
    steps[0][m] = in.strides[d];
    for (int o = 0; o < kOuts; ++o) steps[1 + o][m] = a.tensor(o).strides[d];
    ++m;
  }
  const int64_t* strides[1 + kOuts];
  for (int o = 0; o <= kOuts; ++o) strides[o] = steps[o];
  const bool few = keep > 0 && n >= 64 && keep < n / 8;
  const int64_t room = few ? room_for_first(keep) : n;
  const size_t bytes = Parts::bytes<Item>(room) * (spares ? 2 : 1);
  parallel_with(rows, std::max<int64_t>(1, 2048 / std::max<int64_t>(n, 1)), bytes,
                [&](int64_t b, int64_t e, char* memory) {
                  Walker<1 + kOuts> at(m, shape, strides, b);
                  Parts parts(memory);
                  Items<Item> items(parts.take<Item>(room));
                  Items<Item> spare(spares ? parts.take<Item>(room) : nullptr);
                  for (int64_t r = b; r < e; ++r, at.next()) {
                    const T* x = static_cast<const T*>(in.data) + at.offset[0];
                    const auto flip = descending ? ~Key(0) : Key(0);
                    const auto item = [&](int64_t i) {
                      const auto key = static_cast<Key>(key_of_stored(x[i * step]) ^ flip);
                      return Item(static_cast<typename Item::Key>(key - least), i);
                    };
                    if (few) {
                      collect_first(items, n, keep, item, [&](int64_t i, int64_t b) {
                        return step != 1 || any_before(x + i, load(x[b]), descending);
                      });
                    } else {
                      items.resize(static_cast<size_t>(n));
                      each_below(n, [&](int64_t i) { items[static_cast<size_t>(i)] = item(i); });
                    }
                    row(items, spare, at.offset, x);
                  }
                });
}

template <class F>
void dispatch_items(DType t, int64_t n, F&& fn) {
  dispatch(t, [&]<class T>() {
    constexpr bool narrow = sizeof(key_of_stored(T{})) == 4;
    if constexpr (narrow) {
      if (n < (int64_t{1} << 32)) return fn.template operator()<T, Short>(32);
    }
    fn.template operator()<T, Long>(64);
  });
}

// The first n of a row's items, as values and indices.
template <class K, class T, class Item>
void store_row(const KernelArgs& a, int dim, const Items<Item>& items, int64_t n,
               const int64_t* offset, const T* x) {
  constexpr auto at = tensors<K>;
  const int64_t vs = a.tensor(at.values).strides[dim], is = a.tensor(at.indices).strides[dim];
  const int64_t step = a.tensor(at.x).strides[dim];
  T* v = a.data<T>(at.values) + offset[1];
  int64_t* index = a.data<int64_t>(at.indices) + offset[2];
  each_below(n, [&](int64_t i) {
    const int64_t from = items[static_cast<size_t>(i)].at();
    v[i * vs] = x[from * step];
    index[i * is] = from;
  });
}

// The smallest key of all, and how many bits the others' distances from it take.
template <class T>
std::pair<uint64_t, int> range_of_keys(const pf_tensor& t, bool descending) {
  using Key = decltype(key_of_stored(T{}));
  const T* x = static_cast<const T*>(t.data);
  const Key flip = descending ? ~Key(0) : Key(0);
  Key low = ~Key(0), high = 0;
  for (int64_t i = 0, n = numel(t); i < n; ++i) {
    const auto k = static_cast<Key>(key_of_stored(x[i]) ^ flip);
    low = std::min(low, k);
    high = std::max(high, k);
  }
  return {low, std::bit_width(static_cast<uint64_t>(high - low))};
}

void sort(const KernelArgs& a) {
  constexpr auto at = tensors<Sort>;
  constexpr auto number = numbers<Sort>;
  const int dim = static_cast<int>(a.i(number.dim));
  const int64_t n = a.tensor(at.x).shape[dim];
  const auto rows = [&]<class T, class Item>(int bits, uint64_t least) {
    each_row<Sort, T, Item>(
        a, dim, a.i(number.descending) != 0, 0, n >= 1024,
        [&](Items<Item>& items, Items<Item>& spare, const int64_t* offset, const T* x) {
          if (n >= 1024)
            radix_sort(items, spare, bits);
          else
            std::sort(items.begin(), items.end());
          store_row<Sort>(a, dim, items, n, offset, x);
        },
        least);
  };
  dispatch_items(a.dtype(at.values), n, [&]<class T, class Item>(int bits) {
    uint64_t least = 0;
    if constexpr (std::is_integral_v<T>)
      if (n >= 1024 && contiguous(a.tensor(at.x))) {  // few bits, as a rule
        std::tie(least, bits) = range_of_keys<T>(a.tensor(at.x), a.i(number.descending) != 0);
        if (bits <= 32 && n < (int64_t{1} << 32))
          return rows.template operator()<T, Short>(bits, least);
      }
    rows.template operator()<T, Item>(bits, least);
  });
}

void topk(const KernelArgs& a) {
  constexpr auto at = tensors<TopK>;
  constexpr auto number = numbers<TopK>;
  const int dim = static_cast<int>(a.i(number.dim));
  const int64_t k = a.tensor(at.values).shape[dim];
  dispatch_items(a.dtype(at.values), a.tensor(at.x).shape[dim], [&]<class T, class Item>(int) {
    each_row<TopK, T, Item>(
        a, dim, a.i(number.largest) != 0, k, false,
        [&](Items<Item>& items, Items<Item>&, const int64_t* offset, const T* x) {
          if (k < static_cast<int64_t>(items.size()))
            std::nth_element(items.begin(), items.begin() + k, items.end());
          std::sort(items.begin(), items.begin() + k);
          store_row<TopK>(a, dim, items, k, offset, x);
        });
  });
}

// The item with `rank` smaller ones before it. Of many, those that share the top bits of the wanted
// key are found first, by counting.
template <class Item>
Item nth_item(Items<Item>& items, size_t rank, int key_bits) {
  constexpr size_t kBuckets = 2048;
  if (items.size() >= 4 * kBuckets) {
    const int shift = key_bits - 11;
    size_t count[kBuckets] = {};
    for (const Item& x : items) ++count[x.key() >> shift];
    size_t bucket = 0;
    for (; rank >= count[bucket]; ++bucket) rank -= count[bucket];
    size_t kept = 0;
    for (const Item& x : items)
      if (x.key() >> shift == bucket) items[kept++] = x;
    items.resize(kept);
  }
  Item* at = items.begin() + rank;
  std::nth_element(items.begin(), at, items.end());
  return *at;
}

void nth(const KernelArgs& a) {
  constexpr auto at = tensors<NthIndex>;
  constexpr auto number = numbers<NthIndex>;
  const int dim = static_cast<int>(a.i(number.dim));
  const Nth which{a.i(number.which)};
  dispatch_items(a.dtype(at.x), a.tensor(at.x).shape[dim], [&]<class T, class Item>(int bits) {
    each_row<NthIndex, T, Item>(
        a, dim, false, 0, false,
        [&](Items<Item>& items, Items<Item>&, const int64_t* offset, const T* x) {
          const int64_t step = a.tensor(at.x).strides[dim];
          int64_t numbers = static_cast<int64_t>(items.size()), first_nan = -1;
          if (which != Nth::Smallest) {
            for (int64_t i = numbers - 1; i >= 0; --i) {
              const auto v = load(x[i * step]);
              if (v != v) --numbers, first_nan = i;
            }
          }
          int64_t& out = a.data<int64_t>(at.out)[offset[1]];
          if (which == Nth::Median && first_nan >= 0) {
            out = first_nan;
            return;
          }
          const int64_t rank =
              which == Nth::Smallest ? a.i(number.number) : std::max<int64_t>(numbers - 1, 0) / 2;
          out = nth_item(items, static_cast<size_t>(rank), bits).at();
        });
  });
}

void group_equal(const KernelArgs& a) {
  constexpr auto at = tensors<GroupEqual>;
  const pf_tensor& in = a.tensor(at.x);
  const int64_t n = numel(in), step = in.strides[0];
  int64_t* group = a.data<int64_t>(at.group);
  dispatch(a.dtype(at.x), [&]<class T>() {
    const T* x = a.data<T>(at.x);
    int64_t g = 0;
    if (n > 0) group[0] = 0;
    for (int64_t i = 1; i < n; ++i) {
      g += load(x[i * step]) != load(x[(i - 1) * step]);
      group[i] = g;
    }
    *a.data<int64_t>(at.count) = n ? g + 1 : 0;
  });
}

void unique(const KernelArgs& a) {
  constexpr auto at = tensors<Unique>;
  const int64_t n = numel(a.tensor(at.sorted));
  const int64_t* group = a.data<int64_t>(at.group);
  int64_t *inverse = a.data<int64_t>(at.inverse), *counts = a.data<int64_t>(at.counts);
  // No branches, which would be guessed: of the elements of a group the first is stored last, and
  // where groups end is counted in place of their elements.
  dispatch(a.dtype(at.values), [&]<class T>() {
    T* values = a.data<T>(at.values);
    const T* x = a.data<T>(at.sorted);
    for (int64_t i = n - 1; i >= 0; --i) values[group[i]] = x[i];
  });
  if (a.has(at.order)) {
    const int64_t* order = a.data<int64_t>(at.order);
    for (int64_t i = 0; i < n; ++i) inverse[order[i]] = group[i];
  } else {
    std::copy_n(group, n, inverse);
  }
  for (int64_t i = 0; i < n; ++i) counts[group[i]] = i + 1;
  for (int64_t g = numel(a.tensor(at.counts)) - 1; g > 0; --g) counts[g] -= counts[g - 1];
}

}  // namespace

PF_CPU_KERNEL(Sort::kInfo, sort)
PF_CPU_KERNEL(TopK::kInfo, topk)
PF_CPU_KERNEL(NthIndex::kInfo, nth)
PF_CPU_KERNEL(GroupEqual::kInfo, group_equal)
PF_CPU_KERNEL(Unique::kInfo, unique)

}  // namespace pyflame::cpu
