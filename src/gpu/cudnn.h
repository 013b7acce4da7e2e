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
  kDnnInt32 = 4,
  kDnnBFloat16 = 9,
  kDnnBoolean = 11,
  kDnnCrossCorrelation = 1,
  kDnnHeuristicA = 3,
  kDnnHeuristicFallback = 2,

  kDnnTypeHandle = 0,
  kDnnTypeDataType = 1,
  kDnnTypeBoolean = 2,
  kDnnTypeInt64 = 3,
  kDnnTypeFloat = 4,
  kDnnTypeDouble = 5,
  kDnnTypePointer = 6,
  kDnnTypeConvolutionMode = 7,
  kDnnTypeHeuristicMode = 8,
  kDnnTypeNumericalNote = 11,
  kDnnTypePointwiseMode = 14,
  kDnnTypeDescriptor = 15,
  kDnnTypeReductionOperator = 18,

  kDnnPointwise = 0,
  kDnnConvolution = 1,
  kDnnEngine = 2,
  kDnnEngineConfig = 3,
  kDnnHeuristic = 4,
  kDnnPlan = 5,
  kDnnForward = 10,
  kDnnBackwardFilter = 11,
  kDnnBackwardData = 12,
  kDnnPointwiseOp = 13,
  kDnnGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,
  kDnnMatmul = 18,
  kDnnMatmulOp = 19,
  kDnnReduction = 21,
  kDnnReductionOp = 22,
  kDnnReshapeOp = 31,

  kDnnPointwiseMode = 0,
  kDnnPointwiseComputeType = 1,
  kDnnPointwiseAxis = 9,
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
  kDnnOpPointwise = 750,
  kDnnOpPointwiseX = 751,
  kDnnOpPointwiseB = 752,
  kDnnOpPointwiseY = 753,
  kDnnOpPointwiseT = 758,
  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,
  kDnnTensorAlignment = 900,
  kDnnTensorDataType = 901,
  kDnnTensorSizes = 902,
  kDnnTensorStrides = 903,
  kDnnTensorId = 906,
  kDnnTensorVirtual = 907,
  kDnnTensorByValue = 908,
  kDnnPackIds = 1000,
  kDnnPackPointers = 1001,
  kDnnPackWorkspace = 1003,
  kDnnEngineNotes = 1303,
  kDnnMatmulComputeType = 1500,
  kDnnOpMatmulA = 1520,
  kDnnOpMatmulB = 1521,
  kDnnOpMatmulC = 1522,
  kDnnOpMatmul = 1523,
  kDnnReductionOperator = 1600,
  kDnnReductionComputeType = 1601,
  kDnnOpReductionX = 1610,
  kDnnOpReductionY = 1611,
  kDnnOpReduction = 1612,
  kDnnOpReshapeX = 2200,
  kDnnOpReshapeY = 2201,

  // Modes of pointwise operations and reductions.
  kDnnAdd = 0,
  kDnnMul = 1,
  kDnnDiv = 6,
  kDnnSub = 9,
  kDnnExp = 13,
  kDnnLog = 15,
  kDnnIdentity = 21,
  kDnnGreaterEqual = 303,
  kDnnIndex = 501,
  kDnnSelect = 601,
  kDnnSum = 0,
  kDnnMax = 3,

  // What an engine may say of its numbers. Those that we take:
  kDnnNoteTensorCore = 0,
  kDnnNoteDownConvert = 1,    // float32 to TF32
  kDnnNoteOtherEachTime = 4,  // of attention's gradients, where that is allowed
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
