// Random numbers of any strides. Logical element i always takes the same word of the generator.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// Numbers of [from, to).
struct Uniform {
  static constexpr KernelInfo kInfo{"uniform",       Anchor::General, 1,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T seed{}, offset{};
    T from, to;
  };
};

struct Normal {
  static constexpr KernelInfo kInfo{"normal",        Anchor::General, 1,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T seed{}, offset{};
    T mean, std;
  };
};

struct Exponential {
  static constexpr KernelInfo kInfo{"exponential",   Anchor::General, 1,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T seed{}, offset{};
    T rate;
  };
};

// Integers of [low, low + range); range as unsigned 64 bits, 0 stands for 2^64.
struct Randint {
  static constexpr KernelInfo kInfo{"randint",       Anchor::General, 1,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T seed{}, offset{};
    T low, range;
  };
};

// 1 with probability p, or with those that the tensor holds, in the shape of the result; else 0.
struct Bernoulli {
  static constexpr KernelInfo kInfo{"bernoulli",     Anchor::General, 1,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out, probs{};
  };
  template <class T>
  struct Numbers {
    T seed, offset, p;
  };
};

// out = x * mask / (1 - p), of one shape. The gradient is the same call on dy.
struct Dropout {
  static constexpr KernelInfo kInfo{"dropout",       Anchor::General, 1,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  struct Numbers {
    T seed, offset, p;
  };
};

// The order of random 64-bit keys, ties by position.
struct Randperm {
  static constexpr KernelInfo kInfo{"randperm",      Anchor::General, 1,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out;  // [n]
  };
  template <class T>
  struct Numbers {
    T seed, offset;
  };
};

// Indices drawn with the weights of each row.
struct Multinomial {
  static constexpr KernelInfo kInfo{"multinomial",   Anchor::General, 2,
                                    Layout::Strided, Indices::None,   true};
  template <class T>
  struct Tensors {
    T out;      // int64 [rows, k], contiguous
    T status;   // int64 [1]: 0 good, 1 a weight is negative or not finite, 2 a row sums to zero, 3
                // fewer nonzero weights than samples without replacement
    T weights;  // [rows, n]
  };
  template <class T>
  struct Numbers {
    T seed, offset, replacement;
  };
};

}  // namespace pyflame::kernels
