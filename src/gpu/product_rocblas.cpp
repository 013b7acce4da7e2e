// Products through rocBLAS, the second library of AMD's: it does what hipBLASLt cannot, and all
// where that is missing. Column-major too: c^T = b^T a^T.
#include "gpu/rocblas.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "gpu/device.h"
#include "gpu/library.h"
#include "gpu/move.h"
#include "gpu/product.h"

namespace pyflame::gpu {
namespace {

// It would take memory of the device for itself if it were not given some.
constexpr size_t kWorkspace = size_t{32} << 20;

struct RocBlasCalls {
  PF_ROCBLAS_CALLS(PF_CALL_POINTER)
  template <class F>
  void each(F&& take) {
    const std::string prefix = "rocblas_";
    PF_ROCBLAS_CALLS(PF_CALL_TAKE)
  }
};

const VendorLibrary<RocBlasCalls>& rocblas() {
  static const VendorLibrary<RocBlasCalls> b("rocBLAS", "PYFLAME_ROCBLAS_LIBRARY", "librocblas",
                                             {".so.5", ".so.4"});
  return b;
}

struct Handle {
  void* handle = nullptr;
  std::mutex mutex;  // it has one stream and one workspace at a time
};

Handle& handle_of(Device& d) {
  static std::mutex mutex;
  static auto* all = new std::unordered_map<int, std::unique_ptr<Handle>>;
  std::lock_guard lock(mutex);
  auto& h = (*all)[d.index];
  if (!h) {
    h = std::make_unique<Handle>();
    d.activate();
    if (int status = rocblas().create_handle(&h->handle))
      throw Failure(PF_LAUNCH, "rocblas_create_handle gave status " + std::to_string(status));
  }
  return *h;
}

// c = bias in every row: the product is added to it before the one rounding.
void lay_bias(const KernelArgs& args, const Product& p) {
  pf_tensor c{}, bias{};
  c.data = p.c;
  bias.data = const_cast<void*>(p.bias);
  c.dtype = bias.dtype = static_cast<int32_t>(p.out);
  c.ndim = bias.ndim = 2;
  c.shape[0] = bias.shape[0] = p.m * p.batches();
  c.shape[1] = bias.shape[1] = p.n;
  c.strides[0] = p.n;
  c.strides[1] = bias.strides[1] = 1;
  bias.strides[0] = 0;
  copy_tensor(args, c, bias);
}

}  // namespace

bool rocblas_usable() {
  return rocblas().usable;
}
const char* rocblas_text() {
  return rocblas().text.c_str();
}

bool rocblas_product(const KernelArgs& args, const Product& p) {
  const bool widens = itemsize(p.dtype) == 2 && p.out == DType::Float32;
  if (!is_float(p.dtype) || itemsize(p.dtype) < 2 || (p.out != p.dtype && !widens) || p.k == 0 ||
      !rocblas().usable)
    return false;
  constexpr int64_t kMost = 2147483647;
  Stored a, b;
  if (!transpose_of(p.m, p.k, p.a_row, p.a_col, &a) ||
      !transpose_of(p.k, p.n, p.b_row, p.b_col, &b))
    return false;
  for (int64_t x : {p.m, p.n, p.k, a.ld, b.ld})
    if (x > kMost) return false;
  for (int d = 0; d < p.ndim; ++d)
    if (p.batch[d].a < 0 || p.batch[d].b < 0 || p.batch[d].size > kMost) return false;

  if (p.bias) lay_bias(args, p);
  void* workspace = args.workspace(kWorkspace);
  Handle& h = handle_of(args.device);
  Stream& stream = args.device.stream(args.stream);
  stream.queue.finish();  // whether it can is known only once it was asked to
  std::lock_guard lock(h.mutex);
  args.device.activate();
  const auto& l = rocblas();
  if (l.set_stream(h.handle, stream.handle) != 0 ||
      l.set_workspace(h.handle, workspace, kWorkspace) != 0)
    return false;
  const auto type_of = [](DType t) {
    return t == DType::Float32   ? kRocF32
           : t == DType::Float64 ? kRocF64
           : t == DType::Float16 ? kRocF16
                                 : kRocBF16;
  };
  const int type = type_of(p.dtype), out = type_of(p.out);
  const bool wide = p.dtype == DType::Float64;
  const double one = 1, some = p.bias ? 1 : 0;
  const float one_f = 1, some_f = p.bias ? 1.0f : 0.0f;
  const void *alpha = wide ? static_cast<const void*>(&one) : &one_f,
             *beta = wide ? static_cast<const void*>(&some) : &some_f;
  const auto op = [](const Stored& s) { return s.transposed ? kRocTransposed : kRocAsItIs; };
  const Product::Batch inner = p.inner();
  const int m = static_cast<int>(p.n), n = static_cast<int>(p.m), k = static_cast<int>(p.k);
  for (int64_t i = 0, runs = p.runs(); i < runs; ++i) {
    const Product::Run at = p.run(i);
    const int status = l.gemm_strided_batched_ex(
        h.handle, op(b), op(a), m, n, k, alpha, at.b, type, static_cast<int>(b.ld), inner.b, at.a,
        type, static_cast<int>(a.ld), inner.a, beta, at.c, out, m, p.m * p.n, at.c, out, m,
        p.m * p.n, static_cast<int>(inner.size), wide ? kRocF64 : kRocF32, 0, 0, 0);
    // Our own kernel writes everything anew.
    if (status == kRocNotImplemented || status == kRocMemoryError) return false;
    if (status != 0)
      throw Failure(PF_LAUNCH,
                    "rocblas_gemm_strided_batched_ex gave status " + std::to_string(status));
  }
  note_float32(args, p.dtype, false, {"rocBLAS, in float32", nullptr});
  return true;
}

}  // namespace pyflame::gpu
