// A stand-in for MIOpen's immediate mode: plain loops in double. It lists three solutions:
// Winograd, whose result would be wrong, one that takes a workspace, and one that was not asked
// for.
#include "convolution.h"

namespace {
struct Handle {
  void* stream = nullptr;
};
struct Convolution {
  Shape shape;
  int space = 0, groups = 1;
  bool deterministic = false;
};
struct Solution {
  float time;
  size_t workspace;
  uint64_t id;
  int algorithm;
};
enum : int { kSuccess = 0, kInvalid = 3, kInternal = 7 };
constexpr size_t kBytes = 4096;

struct Tensor : Operand {
  int ndim = 0;
};

int get_solution(Tensor* w, void* convolution, size_t wanted, size_t* count, Solution* found) {
  const auto& c = *static_cast<Convolution*>(convolution);
  if (failing()) return kInternal;
  if (wanted < 3 || !c.deterministic || w->ndim != c.space + 2) return kInvalid;
  found[0] = {0.1f, 0, 70, 3};
  found[1] = {0.2f, kBytes, 71, 5};
  found[2] = {0.3f, 0, 72, 1};
  return *count = 3, kSuccess;
}
int compile(uint64_t solution) {
  return failing() ? kInternal : solution == 71 ? kSuccess : kInvalid;
}
int run(void* handle, Kind kind, Tensor* x, const void* x_at, Tensor* w, const void* w_at,
        Tensor* y, const void* y_at, void* convolution, void* workspace, size_t bytes,
        uint64_t solution) {
  if (failing()) return kInternal;
  const auto& c = *static_cast<Convolution*>(convolution);
  if (solution != 71 || bytes < kBytes || !workspace || x->size[1] != w->size[1] * c.groups)
    return kInvalid;
  if (int error = wait_for(static_cast<Handle*>(handle)->stream)) return error;
  std::memset(workspace, 0xff, bytes);
  convolve(kind, c.shape, *x, *w, *y, const_cast<void*>(x_at), const_cast<void*>(w_at),
           const_cast<void*>(y_at), 0, false);
  return kSuccess;
}
Tensor* tensor(void* t) {
  return static_cast<Tensor*>(t);
}
}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) const char* miopenGetErrorString(int) {
  return "as asked";
}
CALL miopenCreate(void** out) {
  return failing() ? kInternal : (*out = new Handle, kSuccess);
}
CALL miopenSetStream(void* handle, void* stream) {
  return failing() ? kInternal : (static_cast<Handle*>(handle)->stream = stream, kSuccess);
}
CALL miopenCreateTensorDescriptor(void** out) {
  return failing() ? kInternal : (*out = new Tensor, kSuccess);
}
CALL miopenDestroyTensorDescriptor(void* t) {
  return delete tensor(t), kSuccess;
}
CALL miopenSetTensorDescriptor(void* t, int type, int ndim, const int* sizes, const int* steps) {
  if (failing()) return kInternal;
  Tensor& x = *tensor(t);
  x.type = type == 1 ? 0 : type == 0 ? 2 : 14;
  x.ndim = ndim;
  operand_of(x.size, sizes, ndim - 2);
  operand_of(x.step, steps, ndim - 2);
  return kSuccess;
}
CALL miopenCreateConvolutionDescriptor(void** out) {
  return failing() ? kInternal : (*out = new Convolution, kSuccess);
}
CALL miopenDestroyConvolutionDescriptor(void* c) {
  return delete static_cast<Convolution*>(c), kSuccess;
}
CALL miopenInitConvolutionNdDescriptor(void* convolution, int space, const int* padding,
                                       const int* stride, const int* dilation, int mode) {
  if (failing()) return kInternal;
  if (mode != 0) return kInvalid;
  auto& c = *static_cast<Convolution*>(convolution);
  c.space = space;
  last_of(c.shape.padding, padding, space);
  last_of(c.shape.stride, stride, space);
  last_of(c.shape.dilation, dilation, space);
  return kSuccess;
}
CALL miopenSetConvolutionGroupCount(void* c, int groups) {
  return failing() ? kInternal : (static_cast<Convolution*>(c)->groups = groups, kSuccess);
}
CALL miopenSetConvolutionAttribute(void* c, int attribute, int value) {
  if (failing()) return kInternal;
  return static_cast<Convolution*>(c)->deterministic = attribute == 1 && value == 1, kSuccess;
}
CALL miopenOpTensor(void* handle, int op, const float* alpha_a, void* a, const void* a_at,
                    const float* alpha_b, void* b, const void* b_at, const float* beta, void* c,
                    void* c_at) {
  if (failing()) return kInternal;
  if (op != 0 || *alpha_a != 1 || *alpha_b != 1 || *beta != 0 || a != c || a_at != c_at)
    return kInvalid;
  if (int error = wait_for(static_cast<Handle*>(handle)->stream)) return error;
  const Tensor &y = *tensor(c), &bias = *tensor(b);
  for (int64_t n = 0; n < y.size[0]; ++n)
    for (int64_t o = 0; o < y.size[1]; ++o)
      for (int64_t p = 0; p < y.size[2] * y.size[3] * y.size[4]; ++p) {
        const int64_t w = p % y.size[4], h = p / y.size[4] % y.size[3],
                      d = p / (y.size[4] * y.size[3]),
                      at = n * y.step[0] + o * y.step[1] + d * y.step[2] + h * y.step[3] +
                           w * y.step[4];
        put(c_at, at, y.type, get(c_at, at, y.type) + get(b_at, o * bias.step[1], bias.type));
      }
  return kSuccess;
}

#define KIND(NAME, A, B, C, SIDES)                                                                \
  CALL miopenConvolution##NAME##GetSolution(void*, void*, void*, void* convolution, void* t,      \
                                            size_t wanted, size_t* count, Solution* found) {      \
    return get_solution(tensor(t), convolution, wanted, count, found);                            \
  }                                                                                               \
  CALL miopenConvolution##NAME##CompileSolution(void*, void*, void*, void*, void*, uint64_t id) { \
    return compile(id);                                                                           \
  }                                                                                               \
  CALL miopenConvolution##NAME##Immediate(                                                        \
      void* handle, void* A, const void* A##_at, void* B, const void* B##_at, void* convolution,  \
      void* C, void* C##_at, void* workspace, size_t bytes, uint64_t id) {                        \
    return run(handle, Kind::SIDES, tensor(x), x_at, tensor(w), w_at, tensor(y), y_at,            \
               convolution, workspace, bytes, id);                                                \
  }
KIND(Forward, w, x, y, Forward)
KIND(BackwardData, y, w, x, Input)
KIND(BackwardWeights, y, x, w, Weight)
