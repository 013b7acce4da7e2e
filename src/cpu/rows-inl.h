// The loop over one row for row kernels: four vectors an iteration, each with an accumulator of its
// own, in blocks of 4096 elements. What a sum adds to what is fixed by that: not by the machine's
// vector width, nor by threads.
#if defined(PYFLAME_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_ROWS_INL_H_
#undef PYFLAME_CPU_ROWS_INL_H_
#else
#define PYFLAME_CPU_ROWS_INL_H_
#endif

#include "cpu/kernel.h"
#include "cpu/row_scratch.h"
#include "cpu/threads.h"
#include "cpu/wide-inl.h"

// For the lambdas given to the loops: compiled for the loop's target and always part of it.
#undef PF_INLINE
#define PF_INLINE HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {

inline constexpr int64_t kBlock = 4096;

template <bool kStream, class T, class S>
HWY_INLINE void Put(const Wide<T>& v, S* p) {
  if constexpr (kStream)
    Stream(v, p);
  else
    Store(v, p);
}

// Where a stretch of the row is: pointers to its first element, the place of that in the row, and
// how many elements count (fewer than the loop visits in the last stretch).
template <int kIn, int kOut, class S>
struct At {
  const S* in[kIn > 0 ? kIn : 1];
  S* out[kOut > 0 ? kOut : 1];
  int64_t first = 0, valid = 0;
};
// v with 0 in the lanes that lie behind the end of the row.
template <class T, class Where>
HWY_INLINE Wide<T> Valid(const Wide<T>& v, const Where& at, int64_t j) {
  if (HWY_LIKELY(j + Wide<T>::kLanes <= at.valid)) return v;
  return FirstLanes(v, at.valid > j ? at.valid - j : 0);
}
template <int kIndex>
struct Step {
  static constexpr int index = kIndex;  // which of four accumulators
};

// The loop over a row of n elements:
//   body(Step<0..3>, at, j)  one vector at at.in[...] + j, at.out[...] + j
//   fold()                   at the end of every block of 4096 and of the row
// Bodies load everything before they store: rows are often 4096 bytes apart, and a load waits for
// an earlier store with the same twelve low bits of the address (this halved the speed). What does
// not fill four vectors at the end goes through a buffer, filled up with `rest`.
//   before(i, count)         of some stretches, before they are read
struct NothingBefore {};
template <class T, int kIn, int kOut, class S, class Body, class Fold, class Before = NothingBefore>
HWY_INLINE void ForRow(int64_t n, At<kIn, kOut, S> row, T rest, Body&& body, Fold&& fold,
                       const Before& before = {}) {
  constexpr bool kBefore = !std::is_same_v<Before, NothingBefore>;
  constexpr int64_t W = Wide<T>::kLanes, kStep = 4 * W;
  alignas(64) S buffer[(kIn + kOut) * kStep];
  for (int64_t i = 0; i < n;) {
    const int64_t room = kBlock - i % kBlock, left = n - i < room ? n - i : room;
    const bool tail = left < kStep;
    const int64_t take = tail ? left : left / kStep * kStep;
    At<kIn, kOut, S> at = row;
    at.first = i;
    at.valid = take;
    if (tail) {
      if constexpr (kBefore) before(i, left);
      for (int k = 0; k < kIn; ++k) {
        S* b = buffer + k * kStep;
        for (int64_t w = 0; w < 4; ++w) Store(Fill(rest), b + w * W);
        std::memcpy(b, row.in[k] + i, static_cast<size_t>(left) * sizeof(S));
        at.in[k] = b;
      }
      for (int k = 0; k < kOut; ++k) at.out[k] = buffer + (kIn + k) * kStep;
    } else {
      for (int k = 0; k < kIn; ++k) at.in[k] += i;
      for (int k = 0; k < kOut; ++k) at.out[k] += i;
    }
    for (int64_t j = 0; j < take;) {
      int64_t stop = take;
      if constexpr (kBefore) {
        stop = take - j < RowFeed::kColumns ? take : j + RowFeed::kColumns;
        if (!tail) before(i + j, stop - j);
      }
      for (; j < stop; j += kStep) {
        body(Step<0>(), at, j);
        body(Step<1>(), at, j + W);
        body(Step<2>(), at, j + 2 * W);
        body(Step<3>(), at, j + 3 * W);
      }
    }
    if (tail)
      for (int k = 0; k < kOut; ++k)
        std::memcpy(row.out[k] + i, at.out[k], static_cast<size_t>(left) * sizeof(S));
    i += take;
    if (i % kBlock == 0 || i >= n) fold();
  }
}

template <class T>
struct Four {
  Wide<T> a[4];
  explicit HWY_INLINE Four(T x) { reset(x); }
  HWY_INLINE void reset(T x) {
    a[0] = a[1] = a[2] = a[3] = Fill(x);  // no loop, as in PF_EACH
  }
  HWY_INLINE T sum() const { return SumOf((a[0] + a[1]) + (a[2] + a[3])); }
  HWY_INLINE T max() const { return MaxOf(WMax(WMax(a[0], a[1]), WMax(a[2], a[3]))); }
};

// ---- whole kernels ------------------------------------------------------------------------------

// Non-temporal stores pay only for results that the caches could not keep anyway.
inline constexpr int64_t kStreamBytes = int64_t{16} << 20;
HWY_INLINE bool Streams(const KernelArgs& a, const void* p, int64_t row_bytes,
                        int64_t total_bytes) {
  return (a.piece ? a.piece->stream : total_bytes >= kStreamBytes) &&
         reinterpret_cast<uintptr_t>(p) % 64 == 0 && row_bytes % 64 == 0;
}
// After rows that went around the caches, all of the call or some: others see them. It waits for
// memory as long as some rows take, so of a group's pieces this is asked once, behind the last one
// of a thread (group.cpp); not where the piece was shared out within.
HWY_INLINE void FinishRows(const KernelArgs& a, bool all) {
  if (!a.piece || !all) hwy::FlushStream();
}
// Rows for one thread at least: work below this is done sooner alone.
HWY_INLINE int64_t RowGrain(int64_t n) {
  return n >= 8192 ? 1 : 8192 / (n > 0 ? n : 1);
}
// parallel_for, but for rows that a program makes in their order.
template <class F>
void ForRows(const KernelArgs& a, int64_t rows, int64_t grain, F&& fn) {
  if (a.piece && a.piece->feed) return fn(int64_t{0}, rows);
  parallel_for(rows, grain, fn);
}

// Rows of n elements, which lie one behind the other or are made by a program (kernel.h).
template <class S>
class Rows {
 public:
  Rows(const KernelArgs& a, int i, int64_t n) : data_(a.data<S>(i)), apart_(n) {
    if (!a.piece || !(a.piece->rings >> i & 1)) return;
    apart_ = a.tensor(i).strides[0];
    mask_ = RowFeed::kRows - 1;
  }
  HWY_INLINE const S* at(int64_t r) const { return data_ + (r & mask_) * apart_; }

 private:
  const S* data_;
  int64_t apart_, mask_ = -1;
};
// Makes them, where a program is there for it: whole ones, or beside a loop over the one before.
class Feed {
 public:
  explicit Feed(const KernelArgs& a) : feed_(a.piece ? a.piece->feed : nullptr) {}
  HWY_INLINE explicit operator bool() const { return feed_ != nullptr; }
  void whole(int64_t n) {
    if (!feed_) return;
    feed_->next();
    for (int64_t c = 0; c < n; c += RowFeed::kColumns)
      feed_->columns(c, n - c < RowFeed::kColumns ? n - c : RowFeed::kColumns);
  }
  // What ForRow() asks before it reads; nothing where `is_there` is false.
  HWY_INLINE auto beside(bool is_there) {
    RowFeed* const feed = is_there ? feed_ : nullptr;
    if (feed) feed->next();
    return [feed](int64_t first, int64_t count) {
      if (feed) feed->columns(first, count);
    };
  }

 private:
  RowFeed* feed_;
};

// What a loop over rows of n at x fetches while it calculates: what will be read after its piece,
// or its own input two rows on. Loops have one of their own: what others may look at is loaded for
// each vector.
template <class S>
class Ahead {
 public:
  Ahead(const KernelArgs& a, const S* x, int64_t n) : p_(reinterpret_cast<const char*>(x + 2 * n)) {
    if (!a.piece || !a.piece->ahead[0]) return;
    p_ = a.piece->ahead[0];
    q_ = a.piece->ahead[1];
    p_bytes_ = a.piece->ahead_bytes[0];
    q_bytes_ = a.piece->ahead_bytes[1];
    begun_ = a.piece->begun;
  }
  // Beside element i, counted from the first row, which is one of a loop's four vectors. Into the
  // second cache: what the first one waits for takes the same few buffers as stores around it.
  template <class Step>
  HWY_INLINE void fetch(Step step, int64_t i) const {
    if (step.index == 3 && begun_) return;
    __builtin_prefetch(p_ + i * p_bytes_, 0, 2);
    if (q_) __builtin_prefetch(q_ + i * q_bytes_, 0, 2);
  }

 private:
  const char *p_, *q_ = nullptr;
  int64_t p_bytes_ = sizeof(S), q_bytes_ = 0;
  bool begun_ = false;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
