// Convolutions of row-major images on Hopper, which its copy unit reads as they lie
// (kernels/conv_rows_hopper.h); kernels_conv.cpp asks here.
#pragma once

#include "gpu/kernel.h"
#include "kernels/conv_args.h"

namespace pyflame::gpu {

// A convolution or (`inverse`) its gradient by the input, with stride 1: conv.gathered to conv.out,
// dense images of `conv.n` channels; `images` of them.
struct RowConvolution {
  const pf_conv& conv;
  DType dtype;
  int64_t images;
  bool inverse;
};
// Whether row_convolution() takes it: 16-bit floats in one group, up to 2 dimensions of space,
// lines and channels of the input that are whole chunks of 16 bytes apart, and weights of 64
// results that find room in shared memory.
bool row_convolution_fits(const Traits&, const RowConvolution&);
// `weights`: [outs][taps][channels], with channels filled up to whole 64.
void row_convolution(const KernelArgs&, const RowConvolution&, const void* weights);

}  // namespace pyflame::gpu
