// Tiles between storage and registers, between register types, and rounding of 16-bit floats and
// small integers after each node, so that what is fused equals what is not.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile_convert.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "core/dispatch.h"
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {

using I32 = Lanes<int32_t>;
using D32 = hn::ScalableTag<int32_t>;
using DF = hn::ScalableTag<float>;

HWY_INLINE hn::Vec<D32> Bits(F32 x) {
  return hn::BitCast(D32(), x.v);
}
HWY_INLINE F32 FromBits(hn::Vec<D32> v) {
  return F32(hn::BitCast(DF(), v));
}

// A storage type as seen from its register type: loads, stores, and rounding within registers.
struct BF16 {
  using T = F32;
  using S = uint16_t;
  static HWY_INLINE F32 Load(const S* p) {
    const hn::Rebind<uint16_t, D32> d16;
    return FromBits(hn::ShiftLeft<16>(hn::PromoteTo(D32(), hn::LoadU(d16, p))));
  }
  // The upper half holds the result. NaN keeps its sign and becomes quiet.
  static HWY_INLINE hn::Vec<D32> RoundedBits(F32 x) {
    const D32 d;
    const auto b = Bits(x);
    const auto odd = hn::And(hn::ShiftRight<16>(b), hn::Set(d, 1));
    const auto r = hn::Add(b, hn::Add(odd, hn::Set(d, 0x7fff)));
    const auto quiet = hn::Or(b, hn::Set(d, 0x400000));
    return hn::IfThenElse(hn::RebindMask(d, IsNan(x).m), quiet, r);
  }
  static HWY_INLINE F32 Rounded(F32 x) {
    return FromBits(hn::And(RoundedBits(x), hn::Set(D32(), static_cast<int32_t>(0xffff0000u))));
  }
  static HWY_INLINE auto Stored(F32 x) {
    const hn::ScalableTag<uint32_t> du;
    const auto b = hn::ShiftRight<16>(hn::BitCast(du, RoundedBits(x)));
    return hn::DemoteTo(hn::Rebind<uint16_t, D32>(), hn::BitCast(D32(), b));
  }
};
struct F16 {
  using T = F32;
  using S = hwy::float16_t;
  using D16 = hn::Rebind<hwy::float16_t, DF>;
  static HWY_INLINE F32 Load(const S* p) { return F32(hn::PromoteTo(DF(), hn::LoadU(D16(), p))); }
  static HWY_INLINE auto Stored(F32 x) { return hn::DemoteTo(D16(), x.v); }
  static HWY_INLINE F32 Rounded(F32 x) { return F32(hn::PromoteTo(DF(), Stored(x))); }
};
template <class N>
struct SmallInt {
  using T = I32;
  using S = N;
  using DS = hn::Rebind<N, D32>;
  static HWY_INLINE I32 Load(const S* p) { return I32(hn::PromoteTo(D32(), hn::LoadU(DS(), p))); }
  static HWY_INLINE I32 Rounded(I32 x) {
    constexpr int kShift = 32 - 8 * sizeof(N);
    if constexpr (std::is_signed_v<N>)
      return I32(hn::ShiftRight<kShift>(hn::ShiftLeft<kShift>(x.v)));
    else
      return I32(hn::And(x.v, hn::Set(D32(), std::numeric_limits<N>::max())));
  }
  static HWY_INLINE auto Stored(I32 x) { return hn::DemoteTo(DS(), Rounded(x).v); }
};

template <class C>
void LoadTile(size_t n, const Loc* HWY_RESTRICT locs, const Instr& in) {
  using T = typename C::T;
  using E = typename T::Elem;
  const auto* p = reinterpret_cast<const typename C::S*>(locs[in.in[0]].data);
  const size_t lanes = hn::Lanes(typename T::D());
  const size_t step = locs[in.in[0]].walk ? lanes : 0;
  char* out = locs[in.out].data;
  const char* ahead = locs[in.ahead].ahead;
  for (size_t i = 0; i < n; i += lanes, p += step) {
    Write(out, i, C::Load(p), false);
    if (HWY_UNLIKELY(ahead != nullptr)) hwy::Prefetch(ahead + i * sizeof(typename C::S));
  }
  static_assert(sizeof(E) == 4);
}
template <class C>
void StoreTile(size_t n, const Loc* HWY_RESTRICT locs, const Instr& in) {
  using T = typename C::T;
  Reader<T> x(locs[in.in[0]]);
  auto* p = reinterpret_cast<typename C::S*>(locs[in.out].data);
  const bool stream = locs[in.out].walk == Loc::kStream;
  const size_t lanes = hn::Lanes(typename T::D());
  const hn::Rebind<typename C::S, typename T::D> d;
  for (size_t i = 0; i < n; i += lanes) Put(d, C::Stored(x.Next()), p + i, stream);
}
template <class C>
struct RoundBody {
  template <class T, class X, class Y, class Z, class W>
  static HWY_INLINE T Eval(X x, Y, Z, W, T, T, T, T) {
    return C::Rounded(x);
  }
};
template <class C>
constexpr TileFn RoundTile() {
  using T = typename C::T;
  return &Tile<RoundBody<C>, T, T, T, 1, 0>;
}

// ---- between register types ---------------------------------------------------------------------

// As C on x86 and so as PyTorch: what does not fit becomes the smallest integer.
struct ToInt32 {
  template <class T, class X, class Y, class Z, class W>
  static HWY_INLINE I32 Eval(X x, Y, Z, W, T, T, T, T) {
    const Mask<float> fits = And(Ge(x, F32(-2147483648.0f)), Lt(x, F32(2147483648.0f)));
    const I32 low(std::numeric_limits<int32_t>::min());
    return Select(Mask<int32_t>{hn::RebindMask(D32(), fits.m)}, I32(hn::ConvertTo(D32(), x.v)),
                  low);
  }
};
struct ToFloat {
  template <class T, class X, class Y, class Z, class W>
  static HWY_INLINE F32 Eval(X x, Y, Z, W, T, T, T, T) {
    return F32(hn::ConvertTo(DF(), x.v));
  }
};
struct NotZero {
  template <class T, class X, class Y, class Z, class W>
  static HWY_INLINE auto Eval(X x, Y, Z, W, T, T, T, T) {
    return Ne(x, T(0));
  }
};
struct FromMask {
  template <class T, class X, class Y, class Z, class W>
  static HWY_INLINE T Eval(X x, Y, Z, W, T, T, T, T) {
    return Select(x, T(1), T(0));
  }
};
struct CopyBody {
  template <class T, class X, class Y, class Z, class W>
  static HWY_INLINE T Eval(X x, Y, Z, W, T, T, T, T) {
    return x;
  }
};

template <class To, class From>
HWY_INLINE To PlainConvert(From x) {
  if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    constexpr From limit = static_cast<From>(sizeof(To) == 4 ? 0x1p31 : 0x1p63);
    return x >= -limit && x < limit ? static_cast<To>(x) : std::numeric_limits<To>::min();
  } else {
    return static_cast<To>(x);
  }
}
// For the compiler to vectorise: sixteen at a time.
template <class To, class From>
void PlainTile(size_t n, const Loc* HWY_RESTRICT locs, const Instr& in) {
  const From* HWY_RESTRICT p = reinterpret_cast<const From*>(locs[in.in[0]].data);
  To* HWY_RESTRICT out = reinterpret_cast<To*>(locs[in.out].data);
  if (locs[in.in[0]].walk == Loc::kSplat) {
    const To v = PlainConvert<To>(*p);
    for (size_t i = 0; i < n; ++i) out[i] = v;
    return;
  }
  for (size_t i = 0; i < n; i += kTileGrain)
    for (size_t j = 0; j < kTileGrain; ++j) out[i + j] = PlainConvert<To>(p[i + j]);
}

TileFn ConvertFn(int from, int to) {
  // [from][to]
  static constexpr TileFn table[5][5] = {
      {nullptr, &PlainTile<double, float>, &Tile<ToInt32, F32, F32, F32, 1, 0>,
       &PlainTile<int64_t, float>, &Tile<NotZero, F32, F32, F32, 1, 0>},
      {&PlainTile<float, double>, nullptr, &PlainTile<int32_t, double>, &PlainTile<int64_t, double>,
       &Tile<NotZero, F64, F64, F64, 1, 0>},
      {&Tile<ToFloat, I32, I32, I32, 1, 0>, &PlainTile<double, int32_t>, nullptr,
       &PlainTile<int64_t, int32_t>, &Tile<NotZero, I32, I32, I32, 1, 0>},
      {&PlainTile<float, int64_t>, &PlainTile<double, int64_t>, &PlainTile<int32_t, int64_t>,
       nullptr, &Tile<NotZero, Lanes<int64_t>, Lanes<int64_t>, Lanes<int64_t>, 1, 0>},
      {&Tile<FromMask, F32, Mask<float>, F32, 1, 0>, &Tile<FromMask, F64, Mask<double>, F64, 1, 0>,
       &Tile<FromMask, I32, Mask<int32_t>, I32, 1, 0>,
       &Tile<FromMask, Lanes<int64_t>, Mask<int64_t>, Lanes<int64_t>, 1, 0>, nullptr}};
  return table[from][to];
}
// what: 0 load, 1 store, 2 round.
TileFn StorageFn(int what, int dtype) {
  const auto pick = [what]<class C>(C) -> TileFn {
    return what == 0 ? &LoadTile<C> : what == 1 ? &StoreTile<C> : RoundTile<C>();
  };
  TileFn fn = nullptr;
  dispatch(static_cast<DType>(dtype), [&]<class S>() {
    if constexpr (std::is_same_v<S, bfloat16>)
      fn = pick(BF16());
    else if constexpr (std::is_same_v<S, float16>)
      fn = pick(F16());
    else if constexpr (sizeof(S) < 4 && !std::is_same_v<S, bool8>)
      fn = pick(SmallInt<S>());
  });
  return fn;
}
TileFn CopyFn(int bytes) {
  return bytes == 8   ? &Tile<CopyBody, F64, F64, F64, 1, 0>
         : bytes == 4 ? &Tile<CopyBody, I32, I32, I32, 1, 0>
                      : &Tile<CopyBody, ByteMask, ByteMask, ByteMask, 1, 0>;
}
int TargetBits() {
  return HWY_TARGET == HWY_AVX3 ? 512 : HWY_TARGET == HWY_AVX2 ? 256 : 128;
}

}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <string_view>

#include "cpu/kernel_tables.h"
namespace pyflame::cpu {
HWY_EXPORT(ConvertFn);
HWY_EXPORT(StorageFn);
HWY_EXPORT(CopyFn);
HWY_EXPORT(TargetBits);

TileFn load_kernel(DType storage) {
  return HWY_DYNAMIC_DISPATCH(StorageFn)(0, static_cast<int>(storage));
}
TileFn store_kernel(DType storage) {
  return HWY_DYNAMIC_DISPATCH(StorageFn)(1, static_cast<int>(storage));
}
TileFn round_kernel(DType storage) {
  return HWY_DYNAMIC_DISPATCH(StorageFn)(2, static_cast<int>(storage));
}
TileFn convert_kernel(Reg from, Reg to) {
  return HWY_DYNAMIC_DISPATCH(ConvertFn)(static_cast<int>(from), static_cast<int>(to));
}
TileFn copy_kernel(int bytes) {
  return HWY_DYNAMIC_DISPATCH(CopyFn)(bytes);
}

namespace {
Kernel pick(const Kernel* (*const tables[5])(), Reg type, int index) {
  const auto table = tables[static_cast<int>(type)];
  return table ? table()[index] : Kernel{};
}
}  // namespace
Kernel row_kernel(int row, Reg type) {
  static constexpr const Kernel* (*tables[5])() = {rows_f32, rows_f64, rows_i32, rows_i64,
                                                   rows_bool};
  return pick(tables, type, row);
}
Kernel gradient_kernel(int row, int input, Reg type) {
  static constexpr const Kernel* (*tables[5])() = {gradients_f32, gradients_f64, nullptr, nullptr,
                                                   nullptr};
  return pick(tables, type, 3 * row + input);
}
Kernel micro_kernel(int micro, Reg type) {
  static constexpr const Kernel* (*tables[5])() = {micros_f32, micros_f64, micros_i32, micros_i64,
                                                   micros_bool};
  return pick(tables, type, micro);
}

void limit_simd(const char* name) {
  // 0 lifts the limit again.
  const bool avx2 = name != nullptr && std::string_view(name) == "avx2";
  hwy::SetSupportedTargetsForTest(avx2 ? HWY_AVX2 : 0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}
const char* simd_name() {
  const int bits = HWY_DYNAMIC_DISPATCH(TargetBits)();
  return bits == 512 ? "avx512" : bits == 256 ? "avx2" : "baseline";
}
}  // namespace pyflame::cpu
#endif
