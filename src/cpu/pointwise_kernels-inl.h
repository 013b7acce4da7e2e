// Compiles rows of the pointwise table into tile kernels. Include inside a foreach_target
// translation unit after vmath-inl.h; each translation unit instantiates one compute type.

#if defined(PYFLAME_CPU_POINTWISE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_POINTWISE_INL
#undef PYFLAME_CPU_POINTWISE_INL
#else
#define PYFLAME_CPU_POINTWISE_INL
#endif

#include <string_view>

#include "cpu/tile.h"
#include "cpu/vmath-inl.h"
#include "hwy/cache_control.h"
#include "table/rows.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {

// ---- operands and results ----------------------------------------------------------------------
template <class T>
struct Reader;
template <class E>
struct Reader<Lanes<E>> {
  const E* p;
  size_t step;
  HWY_INLINE explicit Reader(const Loc& l)
      : p(reinterpret_cast<const E*>(l.data)),
        step(l.walk ? hn::Lanes(typename Lanes<E>::D()) : 0) {}
  HWY_INLINE Lanes<E> Next() {
    const Lanes<E> v = LoadLanes(p);
    p += step;
    return v;
  }
};
template <class E>
struct Reader<Mask<E>> {
  const uint8_t* p;
  size_t step;
  HWY_INLINE explicit Reader(const Loc& l)
      : p(reinterpret_cast<const uint8_t*>(l.data)),
        step(l.walk ? hn::Lanes(typename Mask<E>::D()) : 0) {}
  HWY_INLINE Mask<E> Next() {
    const Mask<E> v = LoadMask<E>(p);
    p += step;
    return v;
  }
};
template <>
struct Reader<ByteMask> {
  const uint8_t* p;
  size_t step;
  HWY_INLINE explicit Reader(const Loc& l)
      : p(reinterpret_cast<const uint8_t*>(l.data)), step(l.walk ? 16 : 0) {}
  HWY_INLINE ByteMask Next() {
    // A stored byte above 1 is true, too.
    const ByteMask::D d;
    const ByteMask v{hn::Min(hn::LoadU(d, p), hn::Set(d, uint8_t{1}))};
    p += step;
    return v;
  }
};

template <class D, class V, class E>
HWY_INLINE void Put(D d, V v, E* p, bool stream) {
  if (HWY_UNLIKELY(stream))
    hn::Stream(v, d, p);
  else
    hn::StoreU(v, d, p);
}
template <class E>
HWY_INLINE void Write(char* out, size_t i, Lanes<E> r, bool stream) {
  Put(typename Lanes<E>::D(), r.v, reinterpret_cast<E*>(out) + i, stream);
}
template <class E>
HWY_INLINE void Write(char* out, size_t i, Mask<E> r, bool) {
  const hn::Rebind<uint8_t, typename Mask<E>::D> d8;
  hn::StoreU(MaskBytes(r), d8, reinterpret_cast<uint8_t*>(out) + i);
}
HWY_INLINE void Write(char* out, size_t i, ByteMask r, bool) {
  hn::StoreU(r.v, ByteMask::D(), reinterpret_cast<uint8_t*>(out) + i);
}

template <class T>
struct ResultOf;
template <class E>
struct ResultOf<Lanes<E>> {
  static constexpr Reg kReg = std::is_same_v<E, float>     ? Reg::F32
                              : std::is_same_v<E, double>  ? Reg::F64
                              : std::is_same_v<E, int32_t> ? Reg::I32
                                                           : Reg::I64;
};
template <class E>
struct ResultOf<Mask<E>> {
  static constexpr Reg kReg = Reg::Bool;
};
template <>
struct ResultOf<ByteMask> {
  static constexpr Reg kReg = Reg::Bool;
};

template <class T>
struct LaneCount;
template <class E>
struct LaneCount<Lanes<E>> {
  static HWY_INLINE size_t Get() { return hn::Lanes(typename Lanes<E>::D()); }
  static constexpr size_t kBytes = sizeof(E);
};
template <>
struct LaneCount<ByteMask> {
  static HWY_INLINE size_t Get() { return 16; }
  static constexpr size_t kBytes = 1;
};

// ---- the loop ----------------------------------------------------------------------------------
// Body::Eval<T>(x, y, z, w, a0, a1, a2, a3) with T the value type; X and Y are the types of the
// first and second operand, T that of the others.
template <class Body, class T, class X, class Y, int kIn, int kAttrs>
void Tile(size_t n, const Loc* HWY_RESTRICT locs, const Instr& in) {
  Reader<X> x(locs[in.in[0]]);
  Reader<Y> y(locs[in.in[kIn > 1 ? 1 : 0]]);
  Reader<T> z(locs[in.in[kIn > 2 ? 2 : 0]]);
  Reader<T> w(locs[in.in[kIn > 3 ? 3 : 0]]);
  T a0{}, a1{}, a2{}, a3{};
  if constexpr (kAttrs > 0) a0 = Reader<T>(locs[in.attr]).Next();
  if constexpr (kAttrs > 1) a1 = Reader<T>(locs[in.attr + 1]).Next();
  if constexpr (kAttrs > 2) a2 = Reader<T>(locs[in.attr + 2]).Next();
  if constexpr (kAttrs > 3) a3 = Reader<T>(locs[in.attr + 3]).Next();
  char* out = locs[in.out].data;
  const bool stream = locs[in.out].walk == Loc::kStream;
  const char* ahead = locs[in.ahead].ahead;
  const size_t lanes = LaneCount<T>::Get();
  for (size_t i = 0; i < n; i += lanes) {
    const X vx = x.Next();
    Y vy{};
    T vz{}, vw{};
    if constexpr (kIn > 1) vy = y.Next();
    if constexpr (kIn > 2) vz = z.Next();
    if constexpr (kIn > 3) vw = w.Next();
    Write(out, i, Body::template Eval<T>(vx, vy, vz, vw, a0, a1, a2, a3), stream);
    if (HWY_UNLIKELY(ahead != nullptr)) __builtin_prefetch(ahead + i * LaneCount<T>::kBytes, 0, 2);
  }
}

template <class Body, class T, class X, class Y>
using ResultType = decltype(Body::template Eval<T>(
    std::declval<X>(), std::declval<Y>(), std::declval<T>(), std::declval<T>(), std::declval<T>(),
    std::declval<T>(), std::declval<T>(), std::declval<T>()));

// Which instruction takes long enough to hide the prefetch of the next tile.
constexpr uint16_t CostOf(std::string_view body) {
  uint16_t cost = 10;
  for (std::string_view s :
       {"Exp", "Log", "Tanh", "Sigmoid", "Erf", "Gelu", "Sin", "Cos", "Pow", "Atan", "SOFTPLUS"})
    for (size_t at = body.find(s); at != body.npos; at = body.find(s, at + 1)) cost += 40;
  for (std::string_view s : {"/", "Sqrt", "FloorDiv", "Remainder", "Fmod"})
    for (size_t at = body.find(s); at != body.npos; at = body.find(s, at + 1)) cost += 20;
  return cost;
}

template <class Body, class T, class X, class Y, int kIn, int kAttrs>
constexpr Kernel Compiled(std::string_view text) {
  return {&Tile<Body, T, X, Y, kIn, kAttrs>, ResultOf<ResultType<Body, T, X, Y>>::kReg,
          static_cast<uint8_t>(!std::is_same_v<X, T> + 2 * !std::is_same_v<Y, T>), CostOf(text)};
}

#define PF_DUAL_INLINE HWY_INLINE
#include "table/dual.h"
#undef PF_DUAL_INLINE

// ---- rows --------------------------------------------------------------------------------------
#define PF_UNUSED [[maybe_unused]]
// Operands x, y, z are any mix of values, masks and dual numbers.
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, ...)                                         \
  struct Row_##NAME {                                                                             \
    template <class T, class X, class Y, class Z, class W>                                        \
    static HWY_INLINE auto Eval(PF_UNUSED X x, PF_UNUSED Y y, PF_UNUSED Z z, PF_UNUSED W w,       \
                                PF_UNUSED T a0, PF_UNUSED T a1, PF_UNUSED T a2, PF_UNUSED T a3) { \
      return BODY;                                                                                \
    }                                                                                             \
  };
#include "table/pointwise.def"
#undef PF_POINTWISE

using table::Grad;
using table::Rule;
#define PF_ATTR_COUNT(...) table::detail::RowAttrs{__VA_ARGS__}.n

template <class E>
constexpr bool Allows(Rule rule) {
  switch (rule) {
    case Rule::Arith:
    case Rule::Compare:
    case Rule::Select:
      return true;
    case Rule::Float:
    case Rule::Keep:
    case Rule::Test:
      return std::is_floating_point_v<E>;
    case Rule::IntOnly:
      return !std::is_floating_point_v<E>;
    default:
      return false;
  }
}
template <class Body, class E, Rule kRule, int kIn, int kAttrs>
constexpr Kernel ForwardKernel(std::string_view text) {
  if constexpr (!Allows<E>(kRule))
    return {};
  else if constexpr (kRule == Rule::Select)
    return Compiled<Body, Lanes<E>, Mask<E>, Lanes<E>, kIn, kAttrs>(text);
  else
    return Compiled<Body, Lanes<E>, Lanes<E>, Lanes<E>, kIn, kAttrs>(text);
}
// The compiled rows of one type, by row.
template <class E>
HWY_INLINE const Kernel* ForwardTable() {
  static constexpr Kernel table[] = {
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, ...) \
  ForwardKernel<Row_##NAME, E, Rule::RULE, ARITY, PF_ATTR_COUNT ATTRS>(#BODY),
#include "table/pointwise.def"
#undef PF_POINTWISE
  };
  return table;
}
template <class Body, Rule kRule, int kIn>
constexpr Kernel LogicKernel() {
  if constexpr (kRule == Rule::Logic)
    return Compiled<Body, ByteMask, ByteMask, ByteMask, kIn, 0>("");
  else
    return {};
}
HWY_INLINE const Kernel* LogicTable() {
  static constexpr Kernel table[] = {
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, ...) \
  LogicKernel<Row_##NAME, Rule::RULE, ARITY>(),
#include "table/pointwise.def"
#undef PF_POINTWISE
  };
  return table;
}

// ---- gradients ----------------------------------------------------------------------------------

// Operands (g, x, y, z) or (g, r), as x, y, z, w of Tile. kInput says of which operand.
#define PF_GRAD_EVAL(X)                                                                 \
  template <int kInput, class T, class X_, class Y, class Z>                            \
  static HWY_INLINE T Eval(PF_UNUSED T g, PF_UNUSED X_ X, PF_UNUSED Y y, PF_UNUSED Z z, \
                           PF_UNUSED T a0, PF_UNUSED T a1, PF_UNUSED T a2, PF_UNUSED T a3)
#define PF_PICK0(A, ...) A
#define PF_PICK1(A, B, ...) B
#define PF_PICK2(A, B, C, ...) C
#define PF_GRAD_NONE \
  PF_GRAD_EVAL(x) {  \
    return T(0);     \
  }
#define PF_GRAD_AUTO                                                           \
  PF_GRAD_EVAL(x) {                                                            \
    const T w(0);                                                              \
    if constexpr (kInput == 0)                                                 \
      return g * DerivativeOf(Row::Eval(Dual<T>(x), y, z, w, a0, a1, a2, a3)); \
    else if constexpr (kInput == 1)                                            \
      return g * DerivativeOf(Row::Eval(x, Dual<T>(y), z, w, a0, a1, a2, a3)); \
    else                                                                       \
      return g * DerivativeOf(Row::Eval(x, y, Dual<T>(z), w, a0, a1, a2, a3)); \
  }
#define PF_GRAD_FROM_INPUTS(...)                      \
  PF_GRAD_EVAL(x) {                                   \
    if constexpr (kInput == 0)                        \
      return PF_PICK0(__VA_ARGS__, T(0), T(0), T(0)); \
    else if constexpr (kInput == 1)                   \
      return PF_PICK1(__VA_ARGS__, T(0), T(0), T(0)); \
    else                                              \
      return PF_PICK2(__VA_ARGS__, T(0), T(0), T(0)); \
  }
#define PF_GRAD_FROM_RESULT(...) \
  PF_GRAD_EVAL(r) {              \
    return __VA_ARGS__;          \
  }
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, GRAD, ...) \
  struct Grad_##NAME {                                          \
    using Row = Row_##NAME;                                     \
    PF_GRAD_##GRAD                                              \
  };
#include "table/pointwise.def"
#undef PF_POINTWISE
#undef PF_GRAD_NONE
#undef PF_GRAD_AUTO
#undef PF_GRAD_FROM_INPUTS
#undef PF_GRAD_FROM_RESULT

template <class Row, int kInput>
struct GradientBody {
  template <class T, class X, class Y, class Z>
  static HWY_INLINE T Eval(T g, X x, Y y, Z z, T a0, T a1, T a2, T a3) {
    return Row::template Eval<kInput>(g, x, y, z, a0, a1, a2, a3);
  }
};
template <class Row, class E, Rule kRule, Grad kGrad, int kArity, int kAttrs, int kInput>
constexpr Kernel OneGradient(std::string_view text, std::string_view body) {
  using Body = GradientBody<Row, kInput>;
  using T = Lanes<E>;
  if constexpr (kGrad == Grad::NONE || kInput >= kArity || (kRule == Rule::Select && kInput == 0))
    return {};
  else if constexpr (kRule == Rule::Select)
    return Compiled<Body, T, T, Mask<E>, kArity + 1, kAttrs>(text);
  else if constexpr (kGrad == Grad::FROM_RESULT)
    return Compiled<Body, T, T, T, 2, kAttrs>(text);
  else
    return Compiled<Body, T, T, T, kArity + 1, kAttrs>(kGrad == Grad::AUTO ? body : text);
}
// Three entries a row: 3 * row + input.
template <class E>
HWY_INLINE const Kernel* GradientTable() {
  static constexpr Kernel table[] = {
#define PF_GRAD_NONE Grad::NONE
#define PF_GRAD_AUTO Grad::AUTO
#define PF_GRAD_FROM_INPUTS(...) Grad::FROM_INPUTS
#define PF_GRAD_FROM_RESULT(...) Grad::FROM_RESULT
#define PF_ONE(I, NAME, ARITY, RULE, ATTRS, BODY, GRAD)                                         \
  OneGradient<Grad_##NAME, E, Rule::RULE, PF_GRAD_##GRAD, ARITY, PF_ATTR_COUNT ATTRS, I>(#GRAD, \
                                                                                         BODY)
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, GRAD, ...) \
  PF_ONE(0, NAME, ARITY, RULE, ATTRS, #BODY, GRAD),             \
      PF_ONE(1, NAME, ARITY, RULE, ATTRS, #BODY, GRAD),         \
      PF_ONE(2, NAME, ARITY, RULE, ATTRS, #BODY, GRAD),
#include "table/pointwise.def"
#undef PF_POINTWISE
#undef PF_ONE
#undef PF_GRAD_NONE
#undef PF_GRAD_AUTO
#undef PF_GRAD_FROM_INPUTS
#undef PF_GRAD_FROM_RESULT
  };
  return table;
}

}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#endif
