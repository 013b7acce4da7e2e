// The calls and numbers of MIOpen that we use, of its immediate mode alone; check_headers_*.cpp
// compares them with the real header where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.h"

namespace pyflame::gpu {

struct MiopenSolution {
  float time;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

enum : int {
  kMioHalf = 0,
  kMioFloat = 1,
  kMioBFloat16 = 5,
  kMioConvolution = 0,
  kMioDeterministic = 1,
  kMioFft = 2,
  kMioWinograd = 3,
  kMioAdd = 0,
};

// Operands in the order of each: w x y, dy w dx, dy x dw.
#define PF_MIOPEN_SOLUTION_CALLS(X, KIND)                                                        \
  X(Convolution##KIND##GetSolution, (void* handle, void* a, void* b, void* convolution, void* c, \
                                     size_t wanted, size_t* count, MiopenSolution* found))       \
  X(Convolution##KIND##CompileSolution,                                                          \
    (void* handle, void* a, void* b, void* convolution, void* c, uint64_t solution))             \
  X(Convolution##KIND##Immediate,                                                                \
    (void* handle, void* a, const void* a_data, void* b, const void* b_data, void* convolution,  \
     void* c, void* c_data, void* workspace, size_t bytes, uint64_t solution))
#define PF_MIOPEN_CALLS(X)                                                                        \
  X(Create, (void** handle))                                                                      \
  X(SetStream, (void* handle, hipStream))                                                         \
  X(CreateTensorDescriptor, (void** tensor))                                                      \
  X(DestroyTensorDescriptor, (void* tensor))                                                      \
  X(SetTensorDescriptor, (void* tensor, int type, int ndim, const int* sizes, const int* steps))  \
  X(CreateConvolutionDescriptor, (void** convolution))                                            \
  X(DestroyConvolutionDescriptor, (void* convolution))                                            \
  X(InitConvolutionNdDescriptor, (void* convolution, int space, const int* padding,               \
                                  const int* stride, const int* dilation, int mode))              \
  X(SetConvolutionGroupCount, (void* convolution, int groups))                                    \
  X(SetConvolutionAttribute, (void* convolution, int attribute, int value))                       \
  X(OpTensor,                                                                                     \
    (void* handle, int op, const void* alpha_a, void* a, const void* a_data, const void* alpha_b, \
     void* b, const void* b_data, const void* beta, void* c, void* c_data))                       \
  PF_MIOPEN_SOLUTION_CALLS(X, Forward)                                                            \
  PF_MIOPEN_SOLUTION_CALLS(X, BackwardData)                                                       \
  PF_MIOPEN_SOLUTION_CALLS(X, BackwardWeights)

}  // namespace pyflame::gpu
