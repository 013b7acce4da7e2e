#include "gpu/tensor_map.h"

#include "gpu/runtime.h"

namespace pyflame::gpu {

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
  return line % 16 == 0 && (!v.permuted || line <= 128);
}

pf_tensor_map tensor_map(const TensorView& v) {
  if (!tensor_map_fits(v)) throw Failure(PF_INVALID, "there is no tensor map of this view");
  pf_tensor_map map{};
  const auto item = itemsize(v.dtype);
  uint64_t sizes[5], strides[5];
  uint32_t box[5];
  for (int d = 0; d < v.rank; ++d) {
    sizes[d] = static_cast<uint64_t>(v.size[d]);
    box[d] = static_cast<uint32_t>(v.box[d]);
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(v.stride[d]) * item;
  }
  check(runtime().encode_tensor_map(&map, item, v.tf32, v.permuted, v.rank, v.data, sizes, strides,
                                    box),
        "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace pyflame::gpu
