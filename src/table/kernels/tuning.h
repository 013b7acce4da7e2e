// Not of tensors: a command of python/pyflame/tuning.py, its number with a value and a text in the
// host's memory, which becomes the answer.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Tuning {
  static constexpr KernelInfo kInfo{"tuning", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T text;
  };
  template <class T>
  struct Numbers {
    T command, value;
  };
};

}  // namespace pyflame::kernels
