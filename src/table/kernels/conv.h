// Convolutions over one to three dimensions of space: y[n, o, p] = bias[o] + the sum over c and the
// taps t of weight[o, c, t] x[n, c, p * stride + t * dilation - padding], each of `groups` groups
// of channels by itself. x is [N, C, space...], weight [O, C / groups, taps...]. The three are
// bilinear, and each is the derivative of the others. Numbers are those of (depth, height, width),
// of which fewer dimensions are the last ones.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Conv {
  static constexpr KernelInfo kInfo{"conv", Anchor::Library, 1};
  template <class T>
  struct Tensors {
    T y;
    T x, weight, bias{};
  };
  template <class T>
  struct Numbers {
    T stride_d, stride_h, stride_w, padding_d, padding_h, padding_w, dilation_d, dilation_h,
        dilation_w;
    T groups;
  };
};
// The gradient of x: what a transposed convolution computes.
struct ConvInput {
  static constexpr KernelInfo kInfo{"conv_input", Anchor::Library, 1};
  template <class T>
  struct Tensors {
    T dx;
    T dy, weight;
  };
  template <class T>
  using Numbers = Conv::Numbers<T>;
};
struct ConvWeight {
  static constexpr KernelInfo kInfo{"conv_weight", Anchor::Library, 1};
  template <class T>
  struct Tensors {
    T dweight;
    T dy, x;
  };
  template <class T>
  using Numbers = Conv::Numbers<T>;
};

}  // namespace pyflame::kernels
