// Products through hipBLASLt or cuBLASLt, opened when the first product runs. Both speak the same
// language: column-major matrices, so ours (row-major) are computed as c^T = b^T a^T.
//
// The algorithm is the library's first choice for (sizes, layouts, dtype, bias, alignment class)
// within a fixed workspace, or that of product_proposal.h: a function of the product alone, never
// of time.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/hash.h"
#include "gpu/blas.h"
#include "gpu/compile_only.h"
#include "gpu/device.h"
#include "gpu/library.h"
#include "gpu/product.h"
#include "gpu/product_proposal.h"
#include "pyflame/amp.h"

namespace pyflame::gpu {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;

struct BlasCalls {
  PF_BLAS_CALLS(PF_CALL_POINTER)
  void* version = nullptr;  // the function that says it
  template <class F>
  void each(F&& take) {
    const std::string prefix = PF_RT("hipblasLt", "cublasLt");
    PF_BLAS_CALLS(PF_CALL_TAKE)
    take(version, PF_RT("hipblasLtGetVersion", "cublasLtGetVersion"), false);
  }
};

const VendorLibrary<BlasCalls>& blas() {
  static const VendorLibrary<BlasCalls> b(
      PF_RT("hipBLASLt", "cuBLASLt"),
      PF_RT("PYFLAME_HIPBLASLT_LIBRARY", "PYFLAME_CUBLASLT_LIBRARY"),
      PF_RT("libhipblaslt", "libcublasLt"), {PF_RT(".so.1", ".so.13"), PF_RT(".so.0", ".so.12")});
  return b;
}

struct Key {
  int64_t m, n, k, batch, a_ld, b_ld, a_step, b_step;
  int32_t a_op, b_op, dtype, bias;
  int32_t align[4];
  int32_t tf32, proposal;
  int32_t out, other, scaled, fast;  // other, scaled and fast: of eight-bit floats
  friend bool operator==(const Key& x, const Key& y) { return !std::memcmp(&x, &y, sizeof x); }
};
static_assert(sizeof(Key) == 8 * 8 + 14 * 4);
struct KeyHash {
  size_t operator()(const Key& k) const { return hash_bytes(&k, sizeof k); }
};

// A product that is ready to be launched; null desc: the library cannot do it.
struct Ready {
  BlasDesc desc = nullptr;
  BlasLayout a = nullptr, b = nullptr, c = nullptr;
  BlasAlgo algo;
  size_t workspace = 0;
  bool tf32 = false;
};

int type_of(DType t) {
  switch (t) {
    case DType::Float32:
      return kR32F;
    case DType::Float64:
      return kR64F;
    case DType::Float16:
      return kR16F;
    case DType::Int8:
      return kR8I;
    case DType::Int32:
      return kR32I;
    case DType::Float8E4M3:
      return kR8E4M3;
    case DType::Float8E5M2:
      return kR8E5M2;
    default:
      return kR16BF;
  }
}

int32_t alignment(const void* p) {
  const uintptr_t v = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<int32_t>(v & -v);
}

void must(int status, const char* call) {
  if (status != 0)
    throw Failure(PF_LAUNCH, std::string(PF_RT("hipblasLt", "cublasLt")) + call + " gave status " +
                                 std::to_string(status));
}

constexpr int32_t kByFacts = -1;  // in place of a proposal: choose_proposal's

class Products {
 public:
  explicit Products(Device& d) {
    d.activate();
    must(blas().Create(&handle_), "Create");
  }

  std::string version() const {
    if (!blas().version) return PF_RT("hipBLASLt", "cuBLASLt");
    if constexpr (kAmd) {
      int v = 0;
      reinterpret_cast<int (*)(BlasHandle, int*)>(blas().version)(handle_, &v);
      return "hipBLASLt " + std::to_string(v);
    }
    return "cuBLASLt " + std::to_string(reinterpret_cast<size_t (*)()>(blas().version)());
  }

  bool run(const KernelArgs& args, const Product& p, const Stored& a, const Stored& b,
           int proposal) {
    const Product::Batch inner = p.ndim ? p.batch[0] : Product::Batch{1, 0, 0};
    Key key{};
    key.m = p.m, key.n = p.n, key.k = p.k, key.batch = inner.size;
    key.a_ld = a.ld, key.b_ld = b.ld, key.a_step = inner.a, key.b_step = inner.b;
    key.a_op = a.transposed, key.b_op = b.transposed, key.proposal = proposal;
    key.dtype = static_cast<int32_t>(p.dtype), key.bias = p.bias != nullptr;
    key.out = static_cast<int32_t>(p.out), key.other = static_cast<int32_t>(p.scaling.b);
    key.scaled = !p.scaling.of_a ? 0 : p.scaling.by_row ? 2 : 1, key.fast = p.scaling.fast_sums;
    key.tf32 = p.tf32;
    const int64_t item = static_cast<int64_t>(itemsize(p.dtype));
    // With outer batches the addresses move: assume only what all of them have.
    const auto worst = [&](const void* at, auto step) {
      int32_t r = alignment(at);
      for (int d = 1; d < p.ndim; ++d)
        r = std::min(r, alignment(reinterpret_cast<void*>(step(d) * item)));
      return r;
    };
    key.align[0] = worst(p.b, [&](int d) { return p.batch[d].b; });
    key.align[1] = worst(p.a, [&](int d) { return p.batch[d].a; });
    key.align[2] = worst(p.c, [&](int) { return p.m * p.n * inner.size; });
    key.align[3] = p.bias ? alignment(p.bias) : 0;
    if (proposal == 0 && args.traits().architecture == "sm_90" && itemsize(p.dtype) == 2 &&
        inner.size == 1 && proposals_matter(p.m, p.n, whole(key)))
      key.proposal = kByFacts;

    const Ready& r = find(key, p, a, b);
    if (!r.desc) return false;
    static constexpr Float32By kBy{PF_RT("hipBLASLt, in float32", "cuBLASLt, in float32"),
                                   PF_RT("hipBLASLt, in xf32", "cuBLASLt, in TF32")};
    note_float32(args, p.dtype, r.tf32, kBy);

    void* workspace = r.workspace ? args.workspace(r.workspace) : nullptr;
    Stream& s = args.device.stream(args.stream);
    s.queue.in_order(args.op, [this, &d = args.device, p, &r, workspace, stream = s.handle] {
      d.activate();
      launch(p, r, workspace, stream);
    });
    return true;
  }

 private:
  // Of numbers of two bytes: whether all rows begin at multiples of 16 bytes.
  static bool whole(const Key& key) {
    return std::min({key.align[0], key.align[1], key.align[2]}) >= 16 && key.a_ld % 8 == 0 &&
           key.b_ld % 8 == 0 && key.n % 8 == 0;
  }

  // Stays where it is.
  const Ready& find(const Key& key, const Product& p, const Stored& a, const Stored& b) {
    std::lock_guard lock(mutex_);
    auto [it, fresh] = ready_.try_emplace(key);
    Ready& r = it->second;
    if (!fresh) return r;
    r.tf32 = key.tf32 && prepare(r, key, p, a, b, kComputeTF32);
    if (!r.tf32)
      prepare(r, key, p, a, b,
              p.dtype == DType::Float64 ? kCompute64F
              : p.dtype == DType::Int8  ? kCompute32I
                                        : kCompute32F);
    return r;
  }

  void launch(const Product& p, const Ready& r, void* workspace, hipStream stream) {
    std::lock_guard lock(mutex_);  // descriptors carry the pointers of bias and scales
    if (p.scaling.of_a && !set_scales(r.desc, p))
      must(1, "MatmulDescSetAttribute");  // it was taken before
    if (p.bias)
      must(blas().MatmulDescSetAttribute(r.desc, kDescBias, &p.bias, sizeof p.bias),
           "MatmulDescSetAttribute");
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const int32_t one_i = 1, zero_i = 0;
    const bool wide = p.dtype == DType::Float64, integers = p.dtype == DType::Int8;
    const void* alpha = integers ? static_cast<const void*>(&one_i)
                        : wide   ? static_cast<const void*>(&one)
                                 : &one_f;
    const void* beta = integers ? static_cast<const void*>(&zero_i)
                       : wide   ? static_cast<const void*>(&zero)
                                : &zero_f;
    for (int64_t i = 0, runs = p.runs(); i < runs; ++i) {
      const Product::Run at = p.run(i);
      const int status = blas().Matmul(handle_, r.desc, alpha, at.b, r.b, at.a, r.a, beta, at.c,
                                       r.c, at.c, r.c, &r.algo, workspace, r.workspace, stream);
      must(status, "Matmul");
    }
  }

  // Ours are the library's the other way round.
  static bool set_scales(BlasDesc desc, const Product& p) {
    const auto& l = blas();
    return l.MatmulDescSetAttribute(desc, kDescScaleA, &p.scaling.of_b, sizeof(void*)) == 0 &&
           l.MatmulDescSetAttribute(desc, kDescScaleB, &p.scaling.of_a, sizeof(void*)) == 0;
  }
  // False where an old library knows none of them.
  static bool describe_scaling(BlasDesc desc, const Product& p) {
    const auto& l = blas();
    if (p.scaling.of_a && !set_scales(desc, p)) return false;
    const int32_t mode = kScaleOuter;
    if (p.scaling.by_row &&
        (l.MatmulDescSetAttribute(desc, kDescScaleModeA, &mode, sizeof mode) != 0 ||
         l.MatmulDescSetAttribute(desc, kDescScaleModeB, &mode, sizeof mode) != 0))
      return false;
    const int8_t fast = 1;
    return !p.scaling.fast_sums || kDescFastSums < 0 ||
           l.MatmulDescSetAttribute(desc, kDescFastSums, &fast, sizeof fast) == 0;
  }

  // False when the library has no algorithm for it.
  bool prepare(Ready& r, const Key& key, const Product& p, const Stored& a, const Stored& b,
               int compute) {
    const auto& l = blas();
    const int type = type_of(p.dtype), out = type_of(p.out);
    const int scale = type == kR8I ? kR32I : type == kR64F ? kR64F : kR32F;
    BlasDesc desc = nullptr;
    must(l.MatmulDescCreate(&desc, compute, scale), "MatmulDescCreate");
    const int32_t op_b = b.transposed ? kOpT : kOpN, op_a = a.transposed ? kOpT : kOpN;
    must(l.MatmulDescSetAttribute(desc, kDescTransA, &op_b, sizeof op_b), "MatmulDescSetAttribute");
    must(l.MatmulDescSetAttribute(desc, kDescTransB, &op_a, sizeof op_a), "MatmulDescSetAttribute");
    if (p.bias) {
      const uint32_t epilogue = kEpilogueBias;
      const int32_t bias_type = out;
      must(l.MatmulDescSetAttribute(desc, kDescEpilogue, &epilogue, sizeof epilogue),
           "MatmulDescSetAttribute");
      must(l.MatmulDescSetAttribute(desc, kDescBias, &p.bias, sizeof p.bias),
           "MatmulDescSetAttribute");
      must(l.MatmulDescSetAttribute(desc, kDescBiasType, &bias_type, sizeof bias_type),
           "MatmulDescSetAttribute");
    }
    const bool eight_bits = type == kR8E4M3 || type == kR8E5M2;
    if (eight_bits && !describe_scaling(desc, p)) {
      l.MatmulDescDestroy(desc);
      return false;
    }
    const auto layout = [&](BlasLayout* to, int type, const Stored& s, int64_t step) {
      must(l.MatrixLayoutCreate(to, type, s.rows, s.cols, s.ld), "MatrixLayoutCreate");
      if (key.batch > 1) {
        const int32_t count = static_cast<int32_t>(key.batch);
        must(l.MatrixLayoutSetAttribute(*to, kLayoutBatchCount, &count, sizeof count),
             "MatrixLayoutSetAttribute");
        must(l.MatrixLayoutSetAttribute(*to, kLayoutBatchStride, &step, sizeof step),
             "MatrixLayoutSetAttribute");
      }
    };
    layout(&r.a, type, a, key.a_step);
    layout(&r.b, eight_bits ? type_of(p.scaling.b) : type, b, key.b_step);
    layout(&r.c, out, {uint64_t(p.n), uint64_t(p.m), p.n, false}, p.m * p.n);
    BlasPreference preference = nullptr;
    must(l.MatmulPreferenceCreate(&preference), "MatmulPreferenceCreate");
    const uint32_t align[4] = {uint32_t(key.align[0]), uint32_t(key.align[1]),
                               uint32_t(key.align[2]), uint32_t(key.align[2])};
    for (int i = 0; i < 4 && kPrefAlignA >= 0; ++i)
      l.MatmulPreferenceSetAttribute(preference, kPrefAlignA + i, &align[i], sizeof align[i]);
    const bool by_facts = key.proposal == kByFacts;
    const size_t wanted = by_facts ? 8 : key.proposal ? 32 : 1;
    const auto ask = [&](uint64_t workspace) {
      std::vector<BlasHeuristic> found(wanted);
      int count = 0;
      l.MatmulPreferenceSetAttribute(preference, kPrefWorkspace, &workspace, sizeof workspace);
      const int status = l.MatmulAlgoGetHeuristic(handle_, desc, r.b, r.a, r.c, r.c, preference,
                                                  static_cast<int>(wanted), found.data(), &count);
      found.resize(status == 0 ? static_cast<size_t>(count) : 0);
      if (by_facts) std::erase_if(found, [](const BlasHeuristic& x) { return x.state != 0; });
      return found;
    };
    std::vector<BlasHeuristic> found = ask(kWorkspace);
    if (by_facts && !found.empty()) found = {choose_proposal(p.k, whole(key), found, ask(0))};
    l.MatmulPreferenceDestroy(preference);
    const size_t at = by_facts ? 0 : static_cast<size_t>(key.proposal);
    if (at < found.size() && found[at].state == 0) {
      r.desc = desc;
      r.algo = found[at].algo;
      r.workspace = found[at].workspace;
      return true;
    }
    l.MatmulDescDestroy(desc);
    for (BlasLayout x : {r.a, r.b, r.c}) l.MatrixLayoutDestroy(x);
    return false;
  }

  BlasHandle handle_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Key, Ready, KeyHash> ready_;
};

Products& products(Device& d) {
  static std::mutex mutex;
  static auto* all = new std::unordered_map<int, std::unique_ptr<Products>>;
  std::lock_guard lock(mutex);
  auto& p = (*all)[d.index];
  if (!p) p = std::make_unique<Products>(d);
  return *p;
}

}  // namespace

bool transpose_of(int64_t rows, int64_t cols, int64_t row, int64_t col, Stored* s) {
  if (col == 1 && row >= cols) {
    *s = {uint64_t(cols), uint64_t(rows), row, false};
    return true;
  }
  if (row == 1 && col >= rows) {
    *s = {uint64_t(rows), uint64_t(cols), col, true};
    return true;
  }
  return false;
}

bool library_product(const KernelArgs& args, const Product& p, int proposal) {
  const bool integers = p.dtype == DType::Int8 && p.out == DType::Int32 && !p.bias;
  if (p.dtype != DType::Float32 && p.dtype != DType::Float64 && p.dtype != DType::Float16 &&
      p.dtype != DType::BFloat16 && !integers)
    return false;
  if (p.k == 0) return false;
  // Without a GPU: as if there were a library, since with one other groups follow a product.
  const bool acted = !compile_only().empty();
  const auto otherwise = [&] {
    if constexpr (kAmd) return proposal == 0 && !integers && rocblas_product(args, p);
    return false;
  };
  if (!acted && !blas().usable) return otherwise();
  constexpr int64_t kMost = 2147483647;  // sizes of old releases are 32 bits
  if (p.m > kMost || p.n > kMost || p.k > kMost) return false;
  Stored a, b;
  if (!transpose_of(p.m, p.k, p.a_row, p.a_col, &a) ||
      !transpose_of(p.k, p.n, p.b_row, p.b_col, &b))
    return false;
  // What cuBLASLt asks of int8; hipBLASLt is not known to ask for less.
  if (integers && (p.ndim || p.n % 4 || p.k % 4 || a.ld % 4 || b.ld % 4 || alignment(p.a) < 16 ||
                   alignment(p.b) < 16))
    return false;
  for (int d = 0; d < p.ndim; ++d)
    if (p.batch[d].a < 0 || p.batch[d].b < 0 || p.batch[d].size > 65535) return false;
  if (acted) return true;
  args.device.activate();
  if (products(args.device).run(args, p, a, b, proposal)) return true;
  return otherwise();
}

bool library_scaled_product(const KernelArgs& args, const Product& p, std::string* why) {
  const Traits& t = args.traits();
  // gfx942 multiplies the fnuz kinds, of which the same bytes are other numbers.
  const bool has = t.amd ? t.architecture == "gfx950" || t.architecture.rfind("gfx12", 0) == 0
                         : std::stoi(t.architecture.substr(3)) >= 89;
  constexpr int64_t kMost = 2147483647;
  if (!has)
    *why = t.architecture + " multiplies no float8_e4m3fn or float8_e5m2";
  else if (p.n % 16 || p.k % 16 || p.a_row % 16 || p.b_col % 16 || alignment(p.a) < 16 ||
           alignment(p.b) < 16 || alignment(p.c) < 16)
    *why = "libraries take n and k that are multiples of 16, and operands at multiples of 16 bytes";
  else if (p.m > kMost || p.n > kMost || p.k > kMost)
    *why = "libraries take sizes below 2^31";
  else if (compile_only().empty() && !blas().usable)
    *why = blas().text;
  if (!why->empty()) return false;
  if (!compile_only().empty()) return true;  // as if there were a library
  Stored a{uint64_t(p.k), uint64_t(p.m), p.a_row, false},
      b{uint64_t(p.k), uint64_t(p.n), p.b_col, true};
  args.device.activate();
  return products(args.device).run(args, p, a, b, 0);
}

void open_product_library() {
  if (compile_only().empty() && product_source() != ProductSource::Own) (void)blas();
}

bool product_library_usable() {
  if constexpr (kAmd)
    if (rocblas_usable()) return true;
  return blas().usable;
}
std::string product_library_version(const KernelArgs& args) {
  if (!compile_only().empty()) return "none";
  if constexpr (kAmd)
    if (!blas().usable && rocblas_usable()) return "rocBLAS";
  if (!blas().usable) return "none";
  args.device.activate();
  return products(args.device).version();
}

const char* product_library() {
  if constexpr (kAmd)
    if (!blas().usable && rocblas_usable()) return rocblas_text();
  return blas().text.c_str();
}

}  // namespace pyflame::gpu
