// What tells a GPU's copy unit how a tensor lies in memory and which boxes of it are copied
// (src/gpu/tensor_map.h makes it, tma_nvidia.h copies by it): of NVIDIA's Hopper, its own bits.
// Kernels take it, or a struct that begins with some, as a PF_GRID_CONSTANT parameter.
#ifndef PF_TENSOR_MAP_ARGS_H
#define PF_TENSOR_MAP_ARGS_H
#include "integers.h"

struct alignas(128) pf_tensor_map {
  pf_u64 words[16];
};
static_assert(sizeof(pf_tensor_map) == 128 && alignof(pf_tensor_map) == 128,
              "as the unit reads it");

#endif
