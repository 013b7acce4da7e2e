// One kernel for each micro-operation and type: rows made at run time execute as tapes of these.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/micro_kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"
#include "table/expr.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {

template <class T>
HWY_INLINE T Add(T x, T y) {
  return x + y;
}
template <class T>
HWY_INLINE T Sub(T x, T y) {
  return x - y;
}
template <class T>
HWY_INLINE T Mul(T x, T y) {
  return x * y;
}
template <class T>
HWY_INLINE T Div(T x, T y) {
  return x / y;
}
template <class T>
HWY_INLINE T Neg(T x) {
  return -x;
}
HWY_INLINE ByteMask Select(ByteMask m, ByteMask a, ByteMask b) {
  return Or(And(m, a), And(Not(m), b));
}

#define PF_ARGS_0
#define PF_ARGS_1 (x)
#define PF_ARGS_2 (x, y)
#define PF_ARGS_3 (x, y, z)
#define PF_MICRO(NAME, ARITY, ...)                                                            \
  struct Micro_##NAME {                                                                       \
    static constexpr std::string_view kName = #NAME;                                          \
    static constexpr int kArity = ARITY;                                                      \
    template <class T, class X, class Y, class Z, class W>                                    \
    static HWY_INLINE auto Eval(PF_UNUSED X x, PF_UNUSED Y y, PF_UNUSED Z z, W, T, T, T, T) { \
      return NAME PF_ARGS_##ARITY;                                                            \
    }                                                                                         \
  };
// Leaves are no instructions.
#define Input X()
#define Attr X()
#define Const X()
#include "table/micro.def"
#undef Input
#undef Attr
#undef Const

constexpr bool OneOf(std::string_view name, std::initializer_list<std::string_view> list) {
  for (std::string_view s : list)
    if (s == name) return true;
  return false;
}
constexpr bool OfMasks(std::string_view name) {
  return OneOf(name, {"And", "Or", "Xor", "Not"});
}
constexpr bool OfIntegers(std::string_view name) {
  return OneOf(name, {"BitAnd", "BitOr", "BitXor", "BitNot", "Shl", "Shr"});
}
constexpr bool OfNumbers(std::string_view name) {
  return OneOf(name,
               {"Add",    "Sub",   "Mul",   "Div",  "Neg", "Fma", "Pow",  "Abs",      "Floor",
                "Ceil",   "Round", "Trunc", "Fmod", "Max", "Min", "Sign", "FloorDiv", "Remainder",
                "Select", "Lt",    "Le",    "Gt",   "Ge",  "Eq",  "Ne"});
}

template <class M, class T>
constexpr Kernel OneMicro() {
  constexpr std::string_view name = M::kName;
  if constexpr (M::kArity == 0) {
    return {};
  } else if constexpr (std::is_same_v<T, ByteMask>) {
    if constexpr (OfMasks(name) || name == "Select")
      return Compiled<M, T, T, T, M::kArity, 0>(name);
    else
      return {};
  } else {
    using E = typename T::Elem;
    if constexpr (OfMasks(name) || (std::is_floating_point_v<E> && OfIntegers(name)) ||
                  (!std::is_floating_point_v<E> && !OfIntegers(name) && !OfNumbers(name)))
      return {};
    else if constexpr (name == "Select")
      return Compiled<M, T, Mask<E>, T, M::kArity, 0>(name);
    else
      return Compiled<M, T, T, T, M::kArity, 0>(name);
  }
}
template <class T>
HWY_INLINE const Kernel* MicroTable() {
  static constexpr Kernel table[] = {
#define PF_MICRO(NAME, ...) OneMicro<Micro_##NAME, T>(),
#include "table/micro.def"
  };
  return table;
}
const Kernel* MicrosF32() {
  return MicroTable<Lanes<float>>();
}
const Kernel* MicrosF64() {
  return MicroTable<Lanes<double>>();
}
const Kernel* MicrosI32() {
  return MicroTable<Lanes<int32_t>>();
}
const Kernel* MicrosI64() {
  return MicroTable<Lanes<int64_t>>();
}
const Kernel* MicrosBool() {
  return MicroTable<ByteMask>();
}
#undef PF_ARGS_0
#undef PF_ARGS_1
#undef PF_ARGS_2
#undef PF_ARGS_3

}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/kernel_tables.h"
namespace pyflame::cpu {
PF_CPU_TABLE(micros_f32, MicrosF32)
PF_CPU_TABLE(micros_f64, MicrosF64)
PF_CPU_TABLE(micros_i32, MicrosI32)
PF_CPU_TABLE(micros_i64, MicrosI64)
PF_CPU_TABLE(micros_bool, MicrosBool)
}  // namespace pyflame::cpu
#endif
