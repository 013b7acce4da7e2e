// Random kernels. Logical element i always takes the same word, whatever strides and threads.
#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "cpu/philox.h"
#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/random.h"

namespace pyflame::cpu {

namespace {

using namespace kernels;

using philox::kTile;

constexpr int64_t kTilesPerThread = 64;

struct Seed {
  uint64_t seed, offset;
};
template <class K>
Seed seed_of(const KernelArgs& a) {
  constexpr auto number = numbers<K>;
  return {static_cast<uint64_t>(a.i(number.seed)), static_cast<uint64_t>(a.i(number.offset))};
}

// Fills the result of kernel K. make(words, values, n) turns one tile of words into n values of
// type V; each value takes `words_each` words.
template <class K, class T, class V, class Make>
void fill(const KernelArgs& a, int words_each, Make make) {
  const pf_tensor& out = a.tensor(tensors<K>.out);
  const int64_t n = numel(out);
  const int64_t per_tile = kTile / words_each;
  const bool flat = contiguous(out);
  const Seed s = seed_of<K>(a);
  T* data = static_cast<T*>(out.data);
  parallel_for((n + per_tile - 1) / per_tile, kTilesPerThread, [&](int64_t begin, int64_t end) {
    uint32_t words[kTile];
    V values[kTile];
    auto at = walk(out, begin * per_tile);
    for (int64_t t = begin; t < end; ++t) {
      philox::tile(s.offset + static_cast<uint64_t>(t) * philox::kCounters, s.seed, words);
      make(words, values);
      int64_t count = std::min(per_tile, n - t * per_tile);
      if (flat) {
        T* to = data + t * per_tile;
        for (int64_t i = 0; i < count; ++i) to[i] = store<T>(values[i]);
      } else {
        for (int64_t i = 0; i < count; ++i, at.next()) data[at.offset[0]] = store<T>(values[i]);
      }
    }
  });
}

// The bits that a value of [0, 1) may have so that storing it never rounds up to 1.
template <class T>
constexpr int kUnitBits = std::is_same_v<T, bfloat16>  ? 8
                          : std::is_same_v<T, float16> ? 11
                                                       : 24;

template <class T>
void uniform_as(const KernelArgs& a) {
  using C = Compute<T>;
  constexpr auto number = numbers<Uniform>;
  const C from = static_cast<C>(a.f(number.from)), to = static_cast<C>(a.f(number.to));
  const C width = to - from;
  if constexpr (std::is_same_v<T, double>) {
    fill<Uniform, T, C>(a, 2, [=](const uint32_t* w, C* v) {
      for (int i = 0; i < kTile / 2; ++i) {
        C r = std::fma(philox::pf_unit_double(w[2 * i], w[2 * i + 1]), width, from);
        v[i] = r < to ? r : from;
      }
    });
  } else {
    constexpr int bits = kUnitBits<T>;
    const C unit = static_cast<C>(std::ldexp(1.0, -bits));
    fill<Uniform, T, C>(a, 1, [=](const uint32_t* w, C* v) {
      for (int i = 0; i < kTile; ++i) {
        C r =
            std::fma(static_cast<C>(static_cast<int32_t>(w[i] >> (32 - bits))) * unit, width, from);
        v[i] = r < to ? r : from;
      }
    });
  }
}

template <class T>
void normal_as(const KernelArgs& a) {
  using C = Compute<T>;
  constexpr auto number = numbers<Normal>;
  const C mean = static_cast<C>(a.f(number.mean)), std = static_cast<C>(a.f(number.std));
  if constexpr (std::is_same_v<T, double>) {
    fill<Normal, T, C>(a, 2, [=](const uint32_t* w, C* v) {
      for (int i = 0; i < kTile / 4; ++i) philox::pf_normal_pair(w + 4 * i, v + 2 * i);
      for (int i = 0; i < kTile / 2; ++i) v[i] = std::fma(v[i], std, mean);
    });
  } else {
    fill<Normal, T, C>(a, 1, [=](const uint32_t* w, C* v) {
      for (int i = 0; i < kTile / 2; ++i) philox::pf_normal_pair(w[2 * i], w[2 * i + 1], v + 2 * i);
      for (int i = 0; i < kTile; ++i) v[i] = std::fma(v[i], std, mean);
    });
  }
}

template <class T>
void exponential_as(const KernelArgs& a) {
  using C = Compute<T>;
  const C rate = static_cast<C>(a.f(numbers<Exponential>.rate));
  if constexpr (std::is_same_v<T, double>) {
    fill<Exponential, T, C>(a, 2, [=](const uint32_t* w, C* v) {
      for (int i = 0; i < kTile / 2; ++i)
        v[i] = -philox::pf_log_positive(philox::pf_open_double(w[2 * i], w[2 * i + 1])) / rate;
    });
  } else {
    fill<Exponential, T, C>(a, 1, [=](const uint32_t* w, C* v) {
      for (int i = 0; i < kTile; ++i)
        v[i] = -philox::pf_log_positive(philox::pf_open_float(w[i])) / rate;
    });
  }
}

void uniform(const KernelArgs& a) {
  constexpr auto at = tensors<Uniform>;
  dispatch_float(a.dtype(at.out), [&]<class T>() { uniform_as<T>(a); });
}
void normal(const KernelArgs& a) {
  constexpr auto at = tensors<Normal>;
  dispatch_float(a.dtype(at.out), [&]<class T>() { normal_as<T>(a); });
}
void exponential(const KernelArgs& a) {
  constexpr auto at = tensors<Exponential>;
  dispatch_float(a.dtype(at.out), [&]<class T>() { exponential_as<T>(a); });
}

// Two words a value.
void randint(const KernelArgs& a) {
  constexpr auto at = tensors<Randint>;
  constexpr auto number = numbers<Randint>;
  const uint64_t range = static_cast<uint64_t>(a.i(number.range));
  const int64_t low = a.i(number.low);
  dispatch(a.dtype(at.out), [&]<class T>() {
    fill<Randint, T, int64_t>(a, 2, [=](const uint32_t* w, int64_t* v) {
      for (int i = 0; i < kTile / 2; ++i) {
        uint64_t u = philox::pf_join(w[2 * i], w[2 * i + 1]);
        if (range) u = static_cast<uint64_t>((static_cast<unsigned __int128>(u) * range) >> 64);
        v[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + u);
      }
    });
  });
}

void bernoulli(const KernelArgs& a) {
  constexpr auto arg = tensors<Bernoulli>;
  constexpr auto number = numbers<Bernoulli>;
  if (!a.has(arg.probs)) {
    const double p = a.f(number.p);
    dispatch(a.dtype(arg.out), [&]<class T>() {
      fill<Bernoulli, T, int32_t>(a, 1, [=](const uint32_t* w, int32_t* v) {
        for (int i = 0; i < kTile; ++i) v[i] = static_cast<double>(w[i]) * 0x1p-32 < p;
      });
    });
    return;
  }
  // By pointers: a loop for each pair of types would be a hundred.
  double (*chance)(const void*, int64_t) = nullptr;
  void (*put)(void*, int64_t, bool) = nullptr;
  dispatch(a.dtype(arg.probs), [&]<class P>() {
    chance = [](const void* p, int64_t i) {
      return static_cast<double>(load(static_cast<const P*>(p)[i]));
    };
  });
  dispatch(a.dtype(arg.out), [&]<class T>() {
    put = [](void* p, int64_t i, bool v) { static_cast<T*>(p)[i] = store<T>(v ? 1 : 0); };
  });
  const Seed s = seed_of<Bernoulli>(a);
  const pf_tensor &out = a.tensor(arg.out), &probs = a.tensor(arg.probs);
  const int64_t* strides[2] = {out.strides, probs.strides};
  parallel_for((numel(out) + 3) / 4, 4096, [&](int64_t begin, int64_t end) {
    Walker<2> at(out.ndim, out.shape, strides, begin * 4);
    const int64_t n = numel(out);
    for (int64_t b = begin; b < end; ++b) {
      philox::pf_words w = philox::pf_philox(s.offset + static_cast<uint64_t>(b), s.seed);
      for (int64_t i = 0; i < std::min<int64_t>(4, n - 4 * b); ++i, at.next())
        put(out.data, at.offset[0], w.w[i] * 0x1p-32 < chance(probs.data, at.offset[1]));
    }
  });
}

template <class T>
void dropout_as(const KernelArgs& a) {
  using C = Compute<T>;
  constexpr auto arg = tensors<Dropout>;
  const Seed s = seed_of<Dropout>(a);
  const pf_tensor &out = a.tensor(arg.out), &in = a.tensor(arg.x);
  const int64_t n = numel(out);
  const double p = a.f(numbers<Dropout>.p);
  // Kept when word >= threshold; at p = 1 the factor is 0 either way.
  const double bound = std::ceil(p * 0x1p32);
  const bool none = bound >= 0x1p32;
  const uint32_t threshold = none ? 0 : static_cast<uint32_t>(bound);
  const C scale = none ? C(0) : static_cast<C>(1.0 / (1.0 - p));
  const bool flat = contiguous(out) && contiguous(in);
  const int64_t* strides[2] = {out.strides, in.strides};
  T* to = a.data<T>(arg.out);
  const T* from = a.data<T>(arg.x);
  parallel_for((n + kTile - 1) / kTile, kTilesPerThread, [&](int64_t begin, int64_t end) {
    uint32_t words[kTile];
    C factor[kTile];
    Walker<2> at(out.ndim, out.shape, strides, begin * kTile);
    for (int64_t t = begin; t < end; ++t) {
      philox::tile(s.offset + static_cast<uint64_t>(t) * philox::kCounters, s.seed, words);
      const int64_t count = std::min<int64_t>(kTile, n - t * kTile);
      for (int i = 0; i < kTile; ++i) factor[i] = words[i] >= threshold ? scale : C(0);
      if (flat) {
        T* o = to + t * kTile;
        const T* x = from + t * kTile;
        for (int64_t i = 0; i < count; ++i) o[i] = store<T>(load(x[i]) * factor[i]);
      } else {
        for (int64_t i = 0; i < count; ++i, at.next())
          to[at.offset[0]] = store<T>(load(from[at.offset[1]]) * factor[i]);
      }
    }
  });
}

void dropout(const KernelArgs& a) {
  constexpr auto at = tensors<Dropout>;
  dispatch_float(a.dtype(at.out), [&]<class T>() { dropout_as<T>(a); });
}

// Sorts a part of random words that agree in their `known` highest bits. As many bits as give each
// word two places put it nearly where it belongs, neighbours change places, and where upper halves
// are equal, which is rare, `before` decides. One of these for each thread.
class PartSorter {
 public:
  // For parts of at most so many words, in so many bytes.
  static size_t bytes(size_t most) {
    return Parts::bytes<uint64_t>(static_cast<int64_t>(most)) +
           Parts::bytes<uint32_t>(static_cast<int64_t>(2 * std::bit_ceil(most + 1)));
  }
  PartSorter(size_t most, char* memory) {
    Parts parts(memory);
    to_ = parts.take<uint64_t>(static_cast<int64_t>(most));
    place_ = parts.take<uint32_t>(static_cast<int64_t>(2 * std::bit_ceil(most + 1)));
  }

  template <class Before>
  const uint64_t* sorted(const uint64_t* words, size_t count, int known, const Before& before) {
    const int bits = std::min(static_cast<int>(std::bit_width(count)) + 1, 32 - known);
    const int shift = 64 - known - bits;
    const size_t places = size_t{1} << bits, mask = places - 1;
    uint64_t* const to = to_;
    std::fill_n(place_, places, 0);
    for (size_t i = 0; i < count; ++i) ++place_[words[i] >> shift & mask];
    uint32_t sum = 0;
    for (size_t i = 0; i < places; ++i) sum += std::exchange(place_[i], sum);
    for (size_t i = 0; i < count; ++i) to[place_[words[i] >> shift & mask]++] = words[i];
    uint64_t equal = 0;
    for (size_t i = 1; i < count; ++i) {
      const uint64_t word = to[i];
      if (word > to[i - 1]) continue;
      size_t at = i;
      do to[at] = to[at - 1];
      while (--at > 0 && word < to[at - 1]);
      to[at] = word;
    }
    for (size_t i = 1; i < count; ++i) equal |= (to[i] ^ to[i - 1]) <= UINT32_MAX;
    if (equal) settle(to, count, before);
    return to;
  }

 private:
  template <class Before>
  static void settle(uint64_t* words, size_t count, const Before& before) {
    for (size_t i = 0, end; i < count; i = end) {
      for (end = i + 1; end < count && (words[end] ^ words[i]) <= UINT32_MAX;) ++end;
      if (end - i > 1) std::stable_sort(words + i, words + end, before);
    }
  }

  uint64_t* to_;
  uint32_t* place_;
};

// The order of random 64-bit keys, ties by position. A word is the upper half of a key above its
// position: first by the highest bits into parts that fit into a cache, then each part.
void randperm(const KernelArgs& a) {
  constexpr auto arg = tensors<Randperm>;
  const Seed s = seed_of<Randperm>(a);
  const int64_t n = numel(a.tensor(arg.out));
  const auto key = [&](uint64_t at) {
    const philox::pf_words w = philox::pf_philox(s.offset + at / 2, s.seed);
    return at % 2 ? philox::pf_join(w.w[2], w.w[3]) : philox::pf_join(w.w[0], w.w[1]);
  };
  const auto before = [&](uint64_t x, uint64_t y) {
    return key(x & UINT32_MAX) < key(y & UINT32_MAX);
  };
  // 512 parts are the quickest to fill: more want more addresses than are at hand, with fewer a
  // part's end is often still on its way to memory when it is read again.
  const auto count = static_cast<size_t>(n);
  int known = 0;
  while (count > 2048 && known < 11 && count >> known > (known < 9 ? 256 : 4096)) ++known;

  // The result's memory serves where it fits; fresh pages would cost as much as the sorting.
  const bool in_place = a.dtype(arg.out) == DType::Int64 && contiguous(a.tensor(arg.out));
  const Scratch<uint64_t> own_words(in_place ? 0 : n), spare(known > 0 ? n : 0);
  uint64_t* words = in_place ? a.data<uint64_t>(arg.out) : own_words.get();
  std::vector<size_t> ends((size_t{1} << known) + 1);  // counts, moved by one, at first
  constexpr int64_t kKeys = philox::kTile / 2;
  parallel_for((n + kKeys - 1) / kKeys, 2048, [&](int64_t first, int64_t last) {
    std::vector<uint32_t> counts(ends.size() - 1);
    alignas(64) uint32_t tile[philox::kTile];
    for (int64_t t = first; t < last; ++t) {
      const auto begin = static_cast<uint64_t>(t * kKeys);
      const uint64_t end = std::min(begin + kKeys, static_cast<uint64_t>(n));
      philox::tile(s.offset + begin / 2, s.seed, tile);
      for (uint64_t i = begin; i < end; ++i) {
        words[i] = uint64_t{tile[(i - begin) * 2 + 1]} << 32 | i;
        ++counts[words[i] >> 32 >> (32 - known)];
      }
    }
    for (size_t part = 0; part < counts.size(); ++part)
      std::atomic_ref(ends[part + 1]).fetch_add(counts[part], std::memory_order_relaxed);
  });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  const uint64_t* from = words;
  if (known > 0) {
    std::vector<size_t> next(ends.begin(), ends.end() - 1);
    for (size_t i = 0; i < count; ++i) spare.get()[next[words[i] >> (64 - known)]++] = words[i];
    from = spare.get();
  }
  size_t most = 0;  // words of a part
  for (size_t part = 1; part < ends.size(); ++part)
    most = std::max(most, ends[part] - ends[part - 1]);
  const int64_t step = count ? a.tensor(arg.out).strides[0] : 1;
  dispatch(a.dtype(arg.out), [&]<class T>() {
    T* out = a.data<T>(arg.out);
    const size_t bytes = PartSorter::bytes(most);
    parallel_with(int64_t{1} << known, 8, bytes, [&](int64_t first, int64_t last, char* memory) {
      PartSorter sorter(most, memory);
      for (auto part = static_cast<size_t>(first); part < static_cast<size_t>(last); ++part) {
        const size_t begin = ends[part], size = ends[part + 1] - begin;
        const uint64_t* sorted = sorter.sorted(from + begin, size, known, before);
        T* to = out + static_cast<int64_t>(begin) * step;
        for (size_t i = 0; i < size; ++i)
          to[static_cast<int64_t>(i) * step] =
              store<T>(static_cast<int64_t>(sorted[i] & UINT32_MAX));
      }
    });
  });
}

// Weights are added up in an order that GPUs follow, too (kernels/choose.h): inside tiles of this
// many one after the other, then the tiles' totals one after the other.
constexpr int64_t kWeights = 1024;
struct WeightTile {
  double total;
  int64_t nonzero, last;
  bool wrong;
};

template <class T>
void multinomial_as(const KernelArgs& a) {
  constexpr auto arg = tensors<Multinomial>;
  const Seed s = seed_of<Multinomial>(a);
  const pf_tensor &out = a.tensor(arg.out), &weights = a.tensor(arg.weights);
  const int64_t rows = weights.shape[0], n = weights.shape[1], k = out.shape[1];
  const bool replacement = a.i(numbers<Multinomial>.replacement) != 0;
  const int64_t tiles = (n + kWeights - 1) / kWeights;
  // The first bad row decides: its number above its status.
  constexpr int64_t kGood = INT64_MAX;
  std::atomic<int64_t> worst{kGood};
  using Arrival = std::pair<double, int64_t>;
  const size_t bytes = Parts::bytes<double>(n) + Parts::bytes<double>(tiles + 1) +
                       Parts::bytes<WeightTile>(tiles) + Parts::bytes<Arrival>(replacement ? 0 : n);
  const auto choose = [&](int64_t from, int64_t to_row, char* memory) {
    Parts parts(memory);
    // Running sums inside the tiles, or the weights; the sum before each tile.
    auto *const row = parts.take<double>(n), *const before = parts.take<double>(tiles + 1);
    auto* const found = parts.take<WeightTile>(tiles);
    auto* const race = parts.take<Arrival>(replacement ? 0 : n);
    before[0] = 0;
    for (int64_t r = from; r < to_row; ++r) {
      int64_t status = 0;
      const T* p = a.data<T>(arg.weights) + r * weights.strides[0];
      int64_t* o = a.data<int64_t>(arg.out) + r * k;
      parallel_for(tiles, 16, [&, p](int64_t first, int64_t end) {
        const int64_t step = weights.strides[1];
        for (int64_t t = first; t < end; ++t) {
          const int64_t begin = t * kWeights, stop = std::min(n, begin + kWeights);
          double sum = 0;
          int64_t nonzero = 0, last = 0;
          bool wrong = false;
          for (int64_t j = begin; j < stop; ++j) {
            const double w = static_cast<double>(load(p[j * step]));
            if (!(w >= 0) || !std::isfinite(w)) wrong = true;
            if (w > 0) ++nonzero, last = j;
            sum += w;
            row[j] = replacement ? sum : w;
          }
          found[t] = {sum, nonzero, last, wrong};
        }
      });
      int64_t nonzero = 0, last = 0;
      for (int64_t t = 0; t < tiles; ++t) {
        const WeightTile& f = found[t];
        before[t + 1] = before[t] + f.total;
        nonzero += f.nonzero;
        if (f.nonzero) last = f.last;
        if (f.wrong) status = 1;
      }
      const double total = before[tiles];
      if (!status && !(total > 0)) status = 2;
      if (status != 1 && !replacement && nonzero < k) status = 3;
      if (status) {
        const int64_t mine = r << 8 | status;
        int64_t seen = worst.load(std::memory_order_relaxed);
        while (mine < seen && !worst.compare_exchange_weak(seen, mine, std::memory_order_relaxed)) {
        }
        return;
      }
      if (replacement) {
        parallel_for(k, 4096, [&](int64_t first, int64_t end) {
          for (int64_t j = first; j < end; ++j) {
            const uint64_t word = static_cast<uint64_t>(r * k + j) * 2;
            const philox::pf_words w = philox::pf_philox(s.offset + word / 4, s.seed);
            const double u = philox::pf_unit_double(w.w[word % 4], w.w[word % 4 + 1]) * total;
            const int64_t t = std::upper_bound(before + 1, before + tiles + 1, u) - before - 1;
            o[j] = last;
            if (t == tiles) continue;
            const double base = before[t];
            const double* at = row + t * kWeights;
            const auto above = [base](double x, double sum) { return x < base + sum; };
            const double* it =
                std::upper_bound(at, at + std::min(kWeights, n - t * kWeights), u, above);
            o[j] = std::min<int64_t>(it - row, last);
          }
        });
      } else {  // the first k arrivals of exponential clocks with these rates
        Arrival* end = race;
        for (int64_t j = 0; j < n; ++j) {
          if (!(row[j] > 0)) continue;
          uint64_t word = static_cast<uint64_t>(r * n + j) * 2;
          philox::pf_words w = philox::pf_philox(s.offset + word / 4, s.seed);
          double e =
              -philox::pf_log_positive(philox::pf_open_double(w.w[word % 4], w.w[word % 4 + 1]));
          *end++ = {e / row[j], j};
        }
        std::partial_sort(race, race + k, end);
        for (int64_t j = 0; j < k; ++j) o[j] = race[j].second;
      }
    }
  };
  // Many rows beside each other, or the tiles of one row after the other.
  parallel_with(rows, n < 64 * kWeights ? std::max<int64_t>(1, kGrain / n) : rows, bytes, choose);
  *a.data<int64_t>(arg.status) = worst == kGood ? 0 : worst & 255;
}

void multinomial(const KernelArgs& a) {
  constexpr auto at = tensors<Multinomial>;
  dispatch_float(a.dtype(at.weights), [&]<class T>() { multinomial_as<T>(a); });
}

}  // namespace

PF_CPU_KERNEL(Uniform::kInfo, uniform)
PF_CPU_KERNEL(Normal::kInfo, normal)
PF_CPU_KERNEL(Exponential::kInfo, exponential)
PF_CPU_KERNEL(Randint::kInfo, randint)
PF_CPU_KERNEL(Bernoulli::kInfo, bernoulli)
PF_CPU_KERNEL(Dropout::kInfo, dropout)
PF_CPU_KERNEL(Randperm::kInfo, randperm)
PF_CPU_KERNEL(Multinomial::kInfo, multinomial)

}  // namespace pyflame::cpu
