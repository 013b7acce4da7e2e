// Convolutions through the vendor's library, cuDNN or MIOpen, beside our own kernels
// (kernels_conv.cpp, which chooses).
#pragma once

#include <cstdint>
#include <string>

#include "gpu/kernel.h"

namespace pyflame::gpu {

// As table/kernels/conv.h has it: y = conv(x, w) or, by kind, the gradient of x or w; that one is
// written. Two or three dimensions of space: [N, C, space...], w [O, C / groups, taps...].
struct Convolution {
  enum class Kind : uint8_t { Forward, Input, Weight };
  struct Operand {
    void* data;
    int64_t size[5], step[5];  // dense, all three in one order of dimensions
  };
  Kind kind;
  DType dtype;
  bool tf32;  // float32 may be rounded to it
  int space;
  Operand x, w, y;
  const void* bias;  // of the channels of y, dense, or null
  int64_t stride[3], padding[3], dilation[3], groups;
  int proposal;  // of the algorithms that the library lists, and whose numbers are ours: the first
                 // unless somebody measured (tuning.h)
};

// False when the library, which is usable, does not take this convolution or fails, and then `why`
// says so: our own kernels do it. A function of the convolution alone which algorithm it is.
bool library_convolution(const KernelArgs&, const Convolution&, std::string& why);
bool convolution_library_usable();
// "cuDNN (path)", or why there is none.
const char* convolution_library();
// "cuDNN 91200", or "none".
std::string convolution_library_version();

// y = bias in every pixel: what is then added to it is rounded once.
void lay_bias(const KernelArgs&, const Convolution&);

// What a convolution is to a library, without addresses: the key of what was prepared for it.
struct ConvolutionKey {
  int64_t size[3][5], step[3][5], stride[3], padding[3], dilation[3];
  int32_t align[4], kind, dtype, tf32, space, bias, proposal;
  explicit ConvolutionKey(const Convolution&);
  friend bool operator==(const ConvolutionKey&, const ConvolutionKey&);
};
struct ConvolutionHash {
  size_t operator()(const ConvolutionKey&) const;
};

// Memory of theirs is taken for one convolution at a time; more is not given.
inline constexpr size_t kConvolutionWorkspace = size_t{1} << 30;

}  // namespace pyflame::gpu
