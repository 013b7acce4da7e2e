// A stand-in for rocBLAS: plain loops in double. Any workspace is overwritten, so that one which is
// too small or not there shows.
#include <cstring>

#include "numbers.h"

namespace {
struct Handle {
  void* stream = nullptr;
  void* memory = nullptr;
  size_t bytes = 0;
};
enum : int { kSuccess = 0, kInvalid = 11, kTransposed = 112 };
int dtype(int type) {
  return type == 151 ? 0 : type == 152 ? 1 : type == 150 ? 2 : 14;
}
}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int

CALL rocblas_create_handle(void** out) {
  return *out = new Handle, kSuccess;
}
CALL rocblas_set_stream(void* handle, void* stream) {
  return static_cast<Handle*>(handle)->stream = stream, kSuccess;
}
CALL rocblas_set_workspace(void* handle, void* memory, size_t bytes) {
  auto& h = *static_cast<Handle*>(handle);
  return h.memory = memory, h.bytes = bytes, kSuccess;
}
CALL rocblas_gemm_strided_batched_ex(void* handle, int trans_a, int trans_b, int m, int n, int k,
                                     const void* alpha, const void* a, int type, int lda,
                                     int64_t step_a, const void* b, int, int ldb, int64_t step_b,
                                     const void* beta, const void* c, int type_c, int ldc,
                                     int64_t step_c, void* d, int type_d, int ldd, int64_t step_d,
                                     int batches, int compute_type, int, int32_t, uint32_t) {
  const auto& h = *static_cast<Handle*>(handle);
  const bool ta = trans_a == kTransposed, tb = trans_b == kTransposed;
  if (!h.memory || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || ldd < m) return kInvalid;
  if (type_c != type_d || (type_d != type && (type == 152 || type_d != 151))) return kInvalid;
  const int t = dtype(type), of = dtype(type_d), factor = dtype(compute_type);
  const double by = get(alpha, 0, factor), more = get(beta, 0, factor);
  return on_stream(h.stream, [=, memory = h.memory, bytes = h.bytes] {
    std::memset(memory, 0xff, bytes);
    for (int64_t o = 0; o < batches; ++o)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < m; ++i) {
          double sum = 0;
          for (int64_t q = 0; q < k; ++q)
            sum += get(a, o * step_a + (ta ? i * lda + q : q * lda + i), t) *
                   get(b, o * step_b + (tb ? q * ldb + j : j * ldb + q), t);
          const double was = more != 0 ? more * get(c, o * step_c + j * ldc + i, of) : 0;
          put(d, o * step_d + j * ldd + i, of, by * sum + was);
        }
  });
}
