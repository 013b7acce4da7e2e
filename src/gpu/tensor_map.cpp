#include "gpu/tensor_map.h"

#include <algorithm>

#include "gpu/runtime.h"

namespace pyflame::gpu {
namespace {

// Where the driver writes a map: aligned, which GCC 12 does not make the temporary that a function
// returns its value in.
struct Encoded {
  alignas(128) pf_u64 words[16] = {};
  pf_tensor_map get() const {
    pf_tensor_map map;
    std::copy_n(words, 16, map.words);
    return map;
  }
};

}  // namespace

bool tensor_maps(const Traits& t) {
  return !t.amd && t.architecture == "sm_90" && runtime().tensor_maps();
}

bool tensor_map_fits(const TensorView& v) {
  const auto item = static_cast<int64_t>(itemsize(v.dtype));
  if (v.rank < 1 || v.rank > 5 || item > 4 || (v.tf32 && v.dtype != DType::Float32) ||
      reinterpret_cast<uintptr_t>(v.data) % 16 != 0 || v.stride[0] != 1)
    return false;
  for (int d = 0; d < v.rank; ++d) {
    const int64_t bytes = v.stride[d] * item;
    if (v.size[d] < 1 || v.size[d] >= int64_t{1} << 32 || v.box[d] < 1 || v.box[d] > 256)
      return false;
    if (d > 0 && (bytes % 16 != 0 || bytes < 0 || bytes >= int64_t{1} << 40)) return false;
  }
  const int64_t line = v.box[0] * item;
  return line % 16 == 0 &&
         (v.permuted == 0 ||
          (line <= v.permuted && (v.permuted == 32 || v.permuted == 64 || v.permuted == 128)));
}

pf_tensor_map tensor_map(const TensorView& v) {
  if (!tensor_map_fits(v)) throw Failure(PF_INVALID, "there is no tensor map of this view");
  Encoded map;
  const auto item = itemsize(v.dtype);
  uint64_t sizes[5], strides[5];
  uint32_t box[5];
  for (int d = 0; d < v.rank; ++d) {
    sizes[d] = static_cast<uint64_t>(v.size[d]);
    box[d] = static_cast<uint32_t>(v.box[d]);
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(v.stride[d]) * item;
  }
  check(runtime().encode_tensor_map(map.words, item, v.tf32, v.permuted, v.rank, v.data, sizes,
                                    strides, box),
        "cuTensorMapEncodeTiled");
  return map.get();
}

// Windows begin between `first` pixels from the first one and so many from the last one.
static int64_t last_from_end(const WindowView& v, int d) {
  return v.first[d] + (v.windows[d] - 1) * v.step[d] - (v.size[d] - 1);
}
bool window_map_fits(const WindowView& v) {
  const auto item = static_cast<int64_t>(itemsize(v.dtype));
  const auto fits = [&](int64_t size, int64_t stride) {
    const int64_t bytes = stride * item;
    return size >= 1 && size < int64_t{1} << 31 && bytes % 16 == 0 && bytes >= 0 &&
           bytes < int64_t{1} << 40;
  };
  if (item > 4 || (v.tf32 && v.dtype != DType::Float32) ||
      reinterpret_cast<uintptr_t>(v.data) % 16 != 0 || !fits(v.channels, 0) ||
      !fits(v.pictures, v.picture) || v.box_channels * item != 128 || v.box_windows < 1 ||
      v.box_windows > 1024)
    return false;
  for (int d = 0; d < 2; ++d) {
    const int64_t last = last_from_end(v, d);
    // The unit counts in 8 bits, and finds the last window by itself.
    if (!fits(v.size[d], v.stride[d]) || v.windows[d] < 1 || v.step[d] < 1 || v.step[d] > 8 ||
        std::min(v.first[d], last) < -128 || std::max(v.first[d], last) > 127 || v.far[d] < 0 ||
        v.far[d] > 255)
      return false;
  }
  return true;
}
pf_tensor_map window_map(const WindowView& v) {
  if (!window_map_fits(v)) throw Failure(PF_INVALID, "there is no tensor map of these windows");
  Encoded map;
  const auto item = itemsize(v.dtype);
  const auto of = [](int64_t i) { return static_cast<uint64_t>(i); };
  const uint64_t sizes[] = {of(v.channels), of(v.size[0]), of(v.size[1]), of(v.pictures)},
                 strides[] = {of(v.stride[0]) * item, of(v.stride[1]) * item, of(v.picture) * item};
  const uint32_t steps[] = {1, static_cast<uint32_t>(v.step[0]), static_cast<uint32_t>(v.step[1]),
                            1};
  int low[2], high[2];
  for (int d = 0; d < 2; ++d) {
    low[d] = static_cast<int>(v.first[d]);
    high[d] = static_cast<int>(last_from_end(v, d));
  }
  check(runtime().encode_window_map(map.words, item, v.tf32, v.data, sizes, strides, low, high,
                                    static_cast<uint32_t>(v.box_channels),
                                    static_cast<uint32_t>(v.box_windows), steps),
        "cuTensorMapEncodeIm2col");
  return map.get();
}

}  // namespace pyflame::gpu
