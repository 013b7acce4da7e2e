// Convolutions over few channels, which begin networks of pictures (kernels/conv_few.h, and for the
// gradient by the weight conv_few_weight.h); kernels_conv.cpp asks here.
#pragma once

#include "gpu/convolution.h"
#include "kernels/conv_args.h"

namespace pyflame::gpu {

// x, weight and y are those of the convolution, whichever is written.
struct FewConvolution {
  const pf_conv& conv;
  Convolution::Kind kind;
  DType dtype;
  const pf_tensor &x, &weight, &y;
  bool pixels, images;  // y lies densely as pixels of channels; as images of channels of pixels
};
// Whether few_convolution() may take it: forward or by the weight, 16-bit floats, at most four
// channels, two dimensions of space, windows of up to 11x11.
bool few_convolution_fits(const Traits&, const FewConvolution&);
// False where it does not fit or the device's shared memory does not suffice.
bool few_convolution(const KernelArgs&, const FewConvolution&);

}  // namespace pyflame::gpu
