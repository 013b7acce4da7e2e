// Kernels of many loops are made for the widest vectors in the two types that networks on a CPU are
// kept in, and in the others for vectors of the baseline alone. Include after foreach_target.h.
#pragma once

#include <type_traits>

#include "core/dispatch.h"

namespace pyflame::cpu {

template <class S>
inline constexpr bool kWidest = std::is_same_v<S, float> || std::is_same_v<S, bfloat16>;
inline bool widest(DType t) {
  return t == DType::Float32 || t == DType::BFloat16;
}

}  // namespace pyflame::cpu

// Whether the target that is compiled has type S.
#define PF_HAS_TYPE(S) (HWY_TARGET == HWY_STATIC_TARGET || ::pyflame::cpu::kWidest<S>)
// In place of HWY_DYNAMIC_DISPATCH, for a call in a DType.
#define PF_DISPATCH_TYPE(FN, TYPE) \
  (::pyflame::cpu::widest(TYPE) ? HWY_DYNAMIC_DISPATCH(FN) : HWY_STATIC_DISPATCH(FN))
