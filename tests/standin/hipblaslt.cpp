// A stand-in for hipBLASLt: plain loops in double. Its heuristic proposes three algorithms, of
// which the last is the quickest; for int8 it has them only with int32 sums, results and factors.
// Eight-bit floats it multiplies as the real one does: along k alone, not two of e5m2, with scales
// of rows unless PYFLAME_STANDIN_OLD says that it is an old release. With compute type TF32 it
// rounds operands so. The work is done when the stream has come so far.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "numbers.h"

namespace {

struct Desc {
  int compute, scale;
  int trans_a = 111, trans_b = 111, bias_type = 0;
  unsigned epilogue = 0;
  const void* bias = nullptr;
  const float *scale_a = nullptr, *scale_b = nullptr;
  int mode_a = 0, mode_b = 0;
};
struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld, stride = 0;
  int32_t batches = 1;
};
struct Algorithm {
  uint8_t data[16];
  size_t max_workspace;
};
struct Proposal {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
enum : int { kSuccess = 0, kInvalid = 7, kTransposed = 112, kWithBias = 4 };
enum : int {
  kFloat = 0,
  kDouble = 1,
  kInt8 = 3,
  kInt32 = 10,
  kE5M2 = 29,
  kOuter = 3,
  kTf32 = 6,
  kSumInt32 = 9
};

}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int

CALL hipblasLtGetVersion(void*, int* version) {
  return *version = 900, kSuccess;
}
CALL hipblasLtCreate(void** out) {
  static int handle;
  return *out = &handle, kSuccess;
}
CALL hipblasLtMatmulDescCreate(void** out, int compute, int scale) {
  return *out = new Desc{compute, scale}, kSuccess;
}
CALL hipblasLtMatmulDescDestroy(void* d) {
  return delete static_cast<Desc*>(d), kSuccess;
}
CALL hipblasLtMatmulDescSetAttribute(void* d, int which, const void* value, size_t bytes) {
  Desc& x = *static_cast<Desc*>(d);
  void* fields[] = {&x.trans_a,   &x.trans_b, &x.epilogue, &x.bias,
                    &x.bias_type, &x.scale_a, &x.scale_b};
  const size_t sizes[] = {4, 4, 4, sizeof x.bias, 4, sizeof x.scale_a, sizeof x.scale_b};
  if (which == 31 || which == 32) {
    if (bytes != 4 || std::getenv("PYFLAME_STANDIN_OLD")) return kInvalid;
    std::memcpy(which == 31 ? &x.mode_a : &x.mode_b, value, bytes);
    return kSuccess;
  }
  if (which < 0 || which > 6 || bytes != sizes[which]) return kInvalid;
  std::memcpy(fields[which], value, bytes);
  return kSuccess;
}
CALL hipblasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  if (ld < static_cast<int64_t>(rows)) return kInvalid;
  return *out = new Layout{type, rows, cols, ld}, kSuccess;
}
CALL hipblasLtMatrixLayoutDestroy(void* l) {
  return delete static_cast<Layout*>(l), kSuccess;
}
CALL hipblasLtMatrixLayoutSetAttribute(void* l, int which, const void* value, size_t bytes) {
  Layout& x = *static_cast<Layout*>(l);
  if (which == 0 && bytes == 4)
    std::memcpy(&x.batches, value, 4);
  else if (which == 1 && bytes == 8)
    std::memcpy(&x.stride, value, 8);
  else
    return kInvalid;
  return kSuccess;
}
CALL hipblasLtMatmulPreferenceCreate(void** out) {
  return *out = new int, kSuccess;
}
CALL hipblasLtMatmulPreferenceDestroy(void* p) {
  return delete static_cast<int*>(p), kSuccess;
}
CALL hipblasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) {
  return kSuccess;
}
CALL hipblasLtMatmulAlgoGetHeuristic(void*, void* d, void* a, void* b, void*, void* c, void*,
                                     int wanted, Proposal* found, int* count) {
  const Desc& x = *static_cast<Desc*>(d);
  const auto type = [](void* l) { return static_cast<Layout*>(l)->type; };
  const bool eight_bits = is_float8(type(a)) && is_float8(type(b)) &&
                          (type(a) != kE5M2 || type(b) != kE5M2) && x.trans_a == kTransposed &&
                          x.trans_b != kTransposed && !is_float8(type(c)) && type(c) != kInt32 &&
                          (x.epilogue != kWithBias || type(c) != kFloat);
  const bool known =
      eight_bits ||
      (type(a) == type(b) && !is_float8(type(a)) &&
       (type(a) == kInt8 ? x.compute == kSumInt32 && x.scale == kInt32 && type(c) == kInt32
                         : type(c) == type(a) || (type(a) != kDouble && type(c) == kFloat)));
  *count = !known ? 0 : wanted < 3 ? wanted : 3;
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].algorithm.data[0] = static_cast<uint8_t>(i);
    found[i].workspace = i == 1 ? 4096 : 0;
  }
  return kSuccess;
}
CALL hipblasLtMatmul(void*, void* d, const void* alpha, const void* a, void* al, const void* b,
                     void* bl, const void*, const void*, void*, void* c, void* cl,
                     const Algorithm* how, void* workspace, size_t bytes, void* stream) {
  const Desc& x = *static_cast<Desc*>(d);
  const Layout &la = *static_cast<Layout*>(al), &lb = *static_cast<Layout*>(bl),
               &lc = *static_cast<Layout*>(cl);
  const bool at = x.trans_a == kTransposed, bt = x.trans_b == kTransposed;
  const auto inner = static_cast<int64_t>(at ? la.rows : la.cols);
  if ((at ? la.cols : la.rows) != lc.rows || (bt ? lb.rows : lb.cols) != lc.cols ||
      inner != static_cast<int64_t>(bt ? lb.cols : lb.rows) || (how->data[0] == 1 && bytes < 4096))
    return kInvalid;
  const int one = 1;
  if (la.type == kInt8 && std::memcmp(alpha, &one, 4) != 0) return kInvalid;
  const Desc kept = x;
  const Layout ka = la, kb = lb, kc = lc;
  const unsigned delay = 1000u * (2u - how->data[0]);
  return on_stream(stream, [=] {
    const auto value = [&](const void* p, int64_t i, int type) {
      const double v = get(p, i, type);
      return kept.compute == kTf32 ? as_tf32(v) : v;
    };
    usleep(delay);
    if (workspace && bytes) std::memset(workspace, 0xff, bytes);
    for (int64_t s = 0; s < kc.batches; ++s)
      for (int64_t j = 0; j < static_cast<int64_t>(kc.cols); ++j)
        for (int64_t i = 0; i < static_cast<int64_t>(kc.rows); ++i) {
          double sum = 0;
          for (int64_t k = 0; k < inner; ++k)
            sum += value(a, s * ka.stride + (at ? k + i * ka.ld : i + k * ka.ld), ka.type) *
                   value(b, s * kb.stride + (bt ? j + k * kb.ld : k + j * kb.ld), kb.type);
          if (kept.scale_a) sum *= kept.scale_a[kept.mode_a == kOuter ? i : 0];
          if (kept.scale_b) sum *= kept.scale_b[kept.mode_b == kOuter ? j : 0];
          if (kept.epilogue == kWithBias) sum += get(kept.bias, i, kept.bias_type);
          put(c, s * kc.stride + i + j * kc.ld, kc.type, sum);
        }
  });
}
