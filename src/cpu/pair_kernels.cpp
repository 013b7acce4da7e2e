// Two of add, sub and mul as one instruction, the first of which nobody else reads: x * s + m, (x -
// y)
// * z. Each is rounded as by itself; what is saved is a pass over a tile.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pair_kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {

template <int kOp, class T>
HWY_INLINE T One(T x, T y) {
  if constexpr (kOp == 0)
    return x + y;
  else if constexpr (kOp == 1)
    return x - y;
  else
    return x * y;
}

template <class E>
TileFn RowOf(int op) {
  constexpr table::OpId kRows[] = {table::op::add, table::op::sub, table::op::mul};
  return row_kernel(kRows[op], sizeof(E) == 4 ? Reg::F32 : Reg::F64).fn;
}

// Operands are those of the first, then the other one of the second. Which of two NaN is a sum's is
// known to the rows' own kernels alone, so where one comes out these run.
template <class E, int kFirst, int kSecond, bool kRight>
HWY_NOINLINE void PairExactly(size_t i, size_t n, const Loc* locs, const Instr& in) {
  alignas(64) E first[64];
  const auto at = [&](int loc) {
    const Loc& l = locs[loc];
    return Loc{l.data + (l.walk ? i * sizeof(E) : 0), l.walk, nullptr};
  };
  const Loc own[] = {{nullptr, Loc::kSplat, nullptr},
                     at(in.in[0]),
                     at(in.in[1]),
                     at(in.in[2]),
                     {reinterpret_cast<char*>(first), Loc::kStep, nullptr},
                     at(in.out)};
  Instr one{}, two{};
  one.in[0] = 1, one.in[1] = 2, one.out = 4;
  two.in[0] = kRight ? 3 : 4, two.in[1] = kRight ? 4 : 3, two.out = 5;
  RowOf<E>(kFirst)(n, own, one);
  RowOf<E>(kSecond)(n, own, two);
}

template <class E, int kFirst, int kSecond, bool kRight>
void PairTile(size_t n, const Loc* HWY_RESTRICT locs, const Instr& in) {
  using T = Lanes<E>;
  const typename T::D d;
  Reader<T> x(locs[in.in[0]]), y(locs[in.in[1]]), z(locs[in.in[2]]);
  char* const out = locs[in.out].data;
  const bool stream = locs[in.out].walk == Loc::kStream;
  const char* const ahead = locs[in.ahead].ahead;
  const size_t lanes = LaneCount<T>::Get();
  const auto result = [&]() HWY_ATTR __attribute__((always_inline)) {
    const T first = One<kFirst>(x.Next(), y.Next()), other = z.Next();
    return kRight ? One<kSecond>(other, first) : One<kSecond>(first, other);
  };
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const T a = result(), b = result(), c = result(), e = result();
    // Or of infinities, but that is rare, too.
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(((a + b) + (c + e)).v)))) {
      PairExactly<E, kFirst, kSecond, kRight>(i, 4 * lanes, locs, in);
    } else {
      Write(out, i, a, stream);
      Write(out, i + lanes, b, stream);
      Write(out, i + 2 * lanes, c, stream);
      Write(out, i + 3 * lanes, e, stream);
    }
    if (HWY_UNLIKELY(ahead != nullptr))
      for (size_t k = 0; k < 4; ++k) __builtin_prefetch(ahead + (i + k * lanes) * sizeof(E), 0, 2);
  }
  if (i < n) PairExactly<E, kFirst, kSecond, kRight>(i, n - i, locs, in);
}

template <class E>
TileFn PairOf(int pair) {
  static constexpr TileFn table[] = {
#define PF_PAIRS(FIRST)                                                                       \
  &PairTile<E, FIRST, 0, false>, &PairTile<E, FIRST, 0, true>, &PairTile<E, FIRST, 1, false>, \
      &PairTile<E, FIRST, 1, true>, &PairTile<E, FIRST, 2, false>, &PairTile<E, FIRST, 2, true>,
      PF_PAIRS(0) PF_PAIRS(1) PF_PAIRS(2)
#undef PF_PAIRS
  };
  return table[pair];
}
TileFn PairF32(int pair) {
  return PairOf<float>(pair);
}
TileFn PairF64(int pair) {
  return PairOf<double>(pair);
}

}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/pair_kernels.h"
namespace pyflame::cpu {
HWY_EXPORT(PairF32);
HWY_EXPORT(PairF64);

TileFn pair_kernel(Simple first, Simple second, bool right, Reg type) {
  const int pair = (static_cast<int>(first) * 3 + static_cast<int>(second)) * 2 + (right ? 1 : 0);
  if (type == Reg::F32) return HWY_DYNAMIC_DISPATCH(PairF32)(pair);
  return type == Reg::F64 ? HWY_DYNAMIC_DISPATCH(PairF64)(pair) : nullptr;
}
}  // namespace pyflame::cpu
#endif
