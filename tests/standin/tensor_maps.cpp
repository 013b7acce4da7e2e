// Tensor maps, with the conditions of the driver's documentation.
#include <algorithm>
#include <cstring>

#define PF_GPU_CUDA 1
#include "gpu/runtime.h"
#include "machine.h"
#include "tensor_map.h"

using namespace standin;
using namespace pyflame::gpu;

namespace {
bool describe(pf_standin_map& m, const void* map, int type, uint32_t rank, void* data,
              const uint64_t* sizes, const uint64_t* strides, const uint32_t* steps, int interleave,
              int swizzle) {
  const auto odd = [](const void* p, uintptr_t by) {
    return reinterpret_cast<uintptr_t>(p) % by != 0;
  };
  const int item = type == kMapUInt8 ? 1 : type == kMapUInt16 ? 2 : 4;
  if ((item == 4 && type != kMapUInt32 && type != kMapTF32) || rank < 1 || rank > 5 ||
      interleave != 0 || swizzle < 0 || swizzle > 3 || odd(map, 128) || odd(data, 16))
    return false;
  m.rank = static_cast<unsigned char>(rank);
  m.item = static_cast<unsigned char>(item);
  m.swizzle = static_cast<unsigned char>(swizzle == 0 ? 0 : 16 << swizzle);
  m.tf32 = type == kMapTF32;
  m.data = static_cast<const char*>(data);
  for (uint32_t d = 0; d < rank; ++d) {
    if (sizes[d] < 1 || sizes[d] > uint64_t{1} << 32 || steps[d] < 1 || steps[d] > 8) return false;
    m.size[d] = static_cast<unsigned>(sizes[d]);
    if (d == 0) continue;
    if (strides[d - 1] % 16 != 0 || strides[d - 1] >= uint64_t{1} << 40) return false;
    m.stride[d - 1] = strides[d - 1];
  }
  return true;
}
// The lines of a copy; then the map is as it should be.
int finish(pf_standin_map& m, void* map, uint32_t elements) {
  const uint32_t line = elements * m.item;
  if (line % 16 != 0 || (m.swizzle && line > m.swizzle)) return kInvalidValue;
  std::memset(map, 0, 128);
  std::memcpy(map, &m, sizeof m);
  return kOk;
}
}  // namespace
CALL cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* data, const uint64_t* sizes,
                            const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                            int interleave, int swizzle, int, int) {
  FAULT("cuTensorMapEncodeTiled");
  pf_standin_map m{};
  m.kind = pf_standin_map::kTiled;
  if (!describe(m, map, type, rank, data, sizes, strides, steps, interleave, swizzle))
    return kInvalidValue;
  for (uint32_t d = 0; d < rank; ++d) {
    if (box[d] < 1 || box[d] > 256 || steps[d] != 1) return kInvalidValue;
    m.box[d] = static_cast<unsigned short>(box[d]);
  }
  return finish(m, map, box[0]);
}
CALL cuTensorMapEncodeIm2col(void* map, int type, uint32_t rank, void* data, const uint64_t* sizes,
                             const uint64_t* strides, const int* low, const int* high,
                             uint32_t channels, uint32_t pixels, const uint32_t* steps,
                             int interleave, int swizzle, int, int) {
  FAULT("cuTensorMapEncodeIm2col");
  pf_standin_map m{};
  m.kind = pf_standin_map::kWindows;
  if (!describe(m, map, type, rank, data, sizes, strides, steps, interleave, swizzle) ||
      rank != 4 || channels < 1 || channels > 256 || pixels < 1 || pixels > 1024 || steps[0] != 1 ||
      steps[3] != 1)
    return kInvalidValue;
  m.box[0] = static_cast<unsigned short>(channels), m.box[1] = static_cast<unsigned short>(pixels);
  for (int d = 0; d < 2; ++d) {
    if (std::min(low[d], high[d]) < -128 || std::max(low[d], high[d]) > 127) return kInvalidValue;
    m.low[d] = static_cast<short>(low[d]), m.high[d] = static_cast<short>(high[d]);
    m.step[d] = static_cast<unsigned char>(steps[1 + d]);
  }
  return finish(m, map, channels);
}
