// Scaled dot-product attention, out = softmax(scale q k^T + mask) v, and its gradients. q [..., L,
// E], k [..., S, E], v [..., S, Ev], with any strides; their batch dimensions broadcast to those of
// out. lse, contiguous [..., L], has the logarithm of each row's sum of exponentials, in float32 or
// float64. The mask is bool (what may be seen) or of q's dtype (what is added).
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Sdpa {
  static constexpr KernelInfo kInfo{"sdpa", Anchor::General, 2};
  template <class T>
  struct Tensors {
    T out, lse;
    T q, k, v, mask{};
  };
  template <class T>
  struct Numbers {
    T scale, causal;
  };
};

// dq, dk and dv have all batch dimensions of out.
struct SdpaBackward {
  static constexpr KernelInfo kInfo{"sdpa_backward", Anchor::General, 3};
  template <class T>
  struct Tensors {
    T dq, dk, dv;
    T q, k, v, out, lse, dout, mask{};
  };
  template <class T>
  using Numbers = Sdpa::Numbers<T>;
};

}  // namespace pyflame::kernels
