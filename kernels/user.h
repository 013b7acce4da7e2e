// What stands before a kernel of the user's (pf.kernel), so that text in either dialect runs on
// either vendor. The vendors' compilers bring threadIdx, atomicAdd, expf, float4 and the like;
// here is what only one of them has, under the other's name, and what their headers would bring.
//
//   -DPF_WARP        the device's warp width
//   -DPF_USER_WARP   the width that the text sees: 32 for text in CUDA's dialect, whose masks,
//                    shuffles and ballots name 32 lanes; a wider warp then holds two such groups
//   -DPF_USER_HALF   the text names 16-bit floats
//
// Vendors' names are macros here, because their own headers may have declared them as functions.
#ifndef PF_USER_H
#define PF_USER_H

#if defined(PF_HOST)  // the stand-in's warps are as wide as an entry says
#undef PF_WARP
#define PF_WARP PF_USER_WARP
#endif
#include "prelude.h"
#if !defined(PF_NVIDIA) && !defined(__HIPCC_RTC__)
#include "builtins.h"  // tests: what hipRTC knows without an include (tests/standin/builtins.h)
#endif

#define int8_t pf_i8
#define uint8_t pf_u8
#define int16_t pf_i16
#define uint16_t pf_u16
#define int32_t pf_i32
#define uint32_t pf_u32
#define int64_t pf_i64
#define uint64_t pf_u64
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;

#ifndef INFINITY
#define INFINITY PF_INF
#endif
#ifndef NAN
#define NAN PF_NAN
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif
#ifndef INT_MAX
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

#undef warpSize
#define warpSize PF_USER_WARP

// ---- names of HIP ------------------------------------------------------------------------------
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#undef HIP_DYNAMIC_SHARED
#if defined(PF_HOST)
#define HIP_DYNAMIC_SHARED(TYPE, NAME) TYPE* NAME = reinterpret_cast<TYPE*>(pf_dynamic_shared());
#else
#define HIP_DYNAMIC_SHARED(TYPE, NAME) extern __shared__ TYPE NAME[];
#endif

#if defined(PF_NVIDIA)
#include "user_nvidia.h"
#else
#include "user_amd.h"
#endif

// ---- 16-bit floats -----------------------------------------------------------------------------
#if defined(PF_USER_HALF)
#include "user_half.h"
#endif

// Behind the user's text; the stand-in needs a table of what a kernel takes.
#if defined(PF_HOST)
#define PF_USER_ENTRY(NAME) PF_HOST_ENTRY(NAME, 1024)
#else
#define PF_USER_ENTRY(NAME)
#endif

#endif
