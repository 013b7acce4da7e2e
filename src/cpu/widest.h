// Kernels of many loops have no loops of the widest vectors for float16, which is computed in on
// GPUs: on a CPU networks are kept in float32 and bfloat16. Include after foreach_target.h.
#pragma once

#include <type_traits>

#include "core/dispatch.h"

namespace pyflame::cpu {

template <class S>
inline constexpr bool kWidest = !std::is_same_v<S, float16>;
inline bool widest(DType t) {
  return t != DType::Float16;
}

}  // namespace pyflame::cpu

// Whether the target that is compiled has type S.
#define PF_HAS_TYPE(S) (HWY_TARGET == HWY_STATIC_TARGET || ::pyflame::cpu::kWidest<S>)
// In place of HWY_DYNAMIC_DISPATCH, for a call in a DType.
#define PF_DISPATCH_TYPE(FN, TYPE) \
  (::pyflame::cpu::widest(TYPE) ? HWY_DYNAMIC_DISPATCH(FN) : HWY_STATIC_DISPATCH(FN))
