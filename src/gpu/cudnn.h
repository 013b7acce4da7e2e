// The calls and numbers of cuDNN 9 that we use, of its backend ("graph") API alone;
// check_headers_*.cpp compares them with the real header where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.h"

namespace pyflame::gpu {

enum : int {
  kDnnFloat = 0,
  kDnnDouble = 1,
  kDnnHalf = 2,
  kDnnBFloat16 = 9,
  kDnnCrossCorrelation = 1,
  kDnnHeuristicA = 3,
  kDnnHeuristicFallback = 2,

  kDnnTypeHandle = 0,
  kDnnTypeDataType = 1,
  kDnnTypeInt64 = 3,
  kDnnTypeFloat = 4,
  kDnnTypeDouble = 5,
  kDnnTypePointer = 6,
  kDnnTypeConvolutionMode = 7,
  kDnnTypeHeuristicMode = 8,
  kDnnTypeNumericalNote = 11,
  kDnnTypeDescriptor = 15,

  kDnnConvolution = 1,
  kDnnEngine = 2,
  kDnnEngineConfig = 3,
  kDnnHeuristic = 4,
  kDnnPlan = 5,
  kDnnForward = 10,
  kDnnBackwardFilter = 11,
  kDnnBackwardData = 12,
  kDnnGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,

  kDnnConvolutionComputeType = 100,
  kDnnConvolutionMode = 101,
  kDnnConvolutionDilations = 102,
  kDnnConvolutionStrides = 103,
  kDnnConvolutionPostPaddings = 104,
  kDnnConvolutionPrePaddings = 105,
  kDnnConvolutionSpace = 106,
  kDnnHeuristicMode = 200,
  kDnnHeuristicGraph = 201,
  kDnnHeuristicResults = 202,
  kDnnConfigEngine = 300,
  kDnnPlanHandle = 400,
  kDnnPlanConfig = 401,
  kDnnPlanWorkspace = 402,
  // Alpha, beta and the convolution follow each other; then two of the tensors, and the third.
  kDnnForwardAlpha = 700,  // w x y
  kDnnDataAlpha = 706,     // w dx dy
  kDnnFilterAlpha = 712,   // dw x dy
  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,
  kDnnTensorAlignment = 900,
  kDnnTensorDataType = 901,
  kDnnTensorSizes = 902,
  kDnnTensorStrides = 903,
  kDnnTensorId = 906,
  kDnnPackIds = 1000,
  kDnnPackPointers = 1001,
  kDnnPackWorkspace = 1003,
  kDnnEngineNotes = 1303,

  // What an engine may say of its numbers. Those that we take:
  kDnnNoteTensorCore = 0,
  kDnnNoteDownConvert = 1,  // float32 to TF32
  kDnnNoteStrictNan = 9,
};

#define PF_CUDNN_CALLS(X)                                                                 \
  X(Create, (void** handle))                                                              \
  X(SetStream, (void* handle, hipStream))                                                 \
  X(BackendCreateDescriptor, (int type, void** descriptor))                               \
  X(BackendDestroyDescriptor, (void* descriptor))                                         \
  X(BackendSetAttribute,                                                                  \
    (void* descriptor, int name, int type, int64_t count, const void* values))            \
  X(BackendGetAttribute,                                                                  \
    (void* descriptor, int name, int type, int64_t wanted, int64_t* count, void* values)) \
  X(BackendFinalize, (void* descriptor))                                                  \
  X(BackendExecute, (void* handle, void* plan, void* variant_pack))

}  // namespace pyflame::gpu
