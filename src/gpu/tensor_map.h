// Tensors as Hopper's copy unit sees them (TMA; kernels/tma_nvidia.h): a launcher makes a map of
// each operand and hands it to its kernel.
#pragma once

#include <cstdint>

#include "gpu/kernel.h"
#include "kernels/tensor_map_args.h"

namespace pyflame::gpu {

// Dimensions innermost first; sizes, strides and the box in elements of 1, 2 or 4 bytes.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::Float32;
  int rank = 0;            // 1 to 5
  int64_t size[5] = {};    // at least 1
  int64_t stride[5] = {};  // that of the innermost one is 1
  int32_t box[5] = {};     // what one copy takes
  int32_t permuted = 128;  // chunks of 16 bytes in so many, 32, 64 or 128; 0: as they come
  bool tf32 = false;       // float32 is rounded to tf32 on its way
};

// Whether kernels on this device may copy by maps: Hopper, and a driver that makes them.
bool tensor_maps(const Traits&);
// Whether there is a map of this view: the address and all strides but the innermost one are
// multiples of 16 bytes, strides are below 2^40 bytes and not negative, sizes below 2^32, the box
// at most 256 long and its lines whole chunks (of at most so many bytes where they are permuted).
bool tensor_map_fits(const TensorView&);
// Failure where there is none, or the driver refuses.
pf_tensor_map tensor_map(const TensorView&);

// Pictures in channels-last order, of which a copy takes channels of one pixel of each of some
// windows that follow each other (pf_window_copy), in permuted lines. Of x and y, in this order:
struct WindowView {
  const void* data = nullptr;
  DType dtype = DType::BFloat16;
  bool tf32 = false;
  int64_t channels = 0, pictures = 0;
  int64_t size[2] = {}, stride[2] = {}, picture = 0;  // strides in elements
  int64_t first[2] = {};    // where the first window begins: minus the padding
  int64_t windows[2] = {};  // how many there are
  int64_t step[2] = {};     // from one to the next
  int64_t far[2] = {};      // the furthest pixel from the beginning of its window
  int32_t box_channels = 0, box_windows = 0;
};
bool window_map_fits(const WindowView&);
pf_tensor_map window_map(const WindowView&);

}  // namespace pyflame::gpu
