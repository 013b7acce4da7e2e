// Special functions that no expression of the table makes: element by element, in float64.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// What Special computes; two arguments from kZeta on.
enum class SpecialFunction : int {
  kJ0,
  kJ1,
  kY0,
  kY1,
  kI0,
  kI0e,
  kI1,
  kI1e,
  kK0,
  kK0e,
  kK1,
  kK1e,
  kAiry,
  kErfcx,
  kLogNdtr,
  kZeta,
  kIgamma,
  kIgammac,
  kChebyshevT,
  kChebyshevU,
  kChebyshevV,
  kChebyshevW,
  kHermiteH,
  kHermiteHe,
  kLaguerre,
  kLegendre
};

struct Special {
  static constexpr KernelInfo kInfo{"special", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T y;
    T x, other{};  // float32 or float64, all of one dtype and shape
  };
  template <class T>
  struct Numbers {
    T function;
  };
};

}  // namespace pyflame::kernels
