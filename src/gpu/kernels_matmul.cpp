// Products of matrices (table/kernels/matmul.h), by the vendor's library or our own kernels.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "engine/trace.h"
#include "gpu/host.h"
#include "gpu/product_own.h"
#include "gpu/runtime.h"
#include "gpu/tuning.h"
#include "pyflame/amp.h"
#include "table/kernels/index.h"
#include "table/kernels/matmul.h"
#include "table/kernels/norm.h"

namespace pyflame::gpu {

ProductSource source_asked(const char* variable) {
  const char* v = std::getenv(variable);
  if (v && std::strcmp(v, "own") == 0) return ProductSource::Own;
  if (v && std::strcmp(v, "library") == 0) return ProductSource::Library;
  if (v && *v && std::strcmp(v, "auto") != 0 && host() && host()->notice) {
    const std::string text =
        std::string(variable) + "='" + v + "' is ignored: expected own, library or auto";
    host()->notice(host(), text.c_str());
  }
  return ProductSource::Auto;
}
void note_own(const char* op, const std::string& what, const char* variable) {
  const std::string text = what + "; " + variable + "=own says that this is meant";
  if (engine::note_slow(op, text))
    throw Failure(PF_UNSUPPORTED, text + " (strict mode refuses slow ways)");
}

void note_float32(const KernelArgs& args, DType t, bool rounded, const Float32By& by) {
  if (t == DType::Float32) engine::note_served(args.op, rounded ? by.rounded : by.exact);
}
void note_ours(const KernelArgs& args, DType t, bool rounded) {
  note_float32(args, t, rounded,
               {"our kernels, in float32",
                args.traits().amd ? "our kernels, in xf32" : "our kernels, in TF32"});
}

ProductSource product_source() {
  static const ProductSource s = source_asked("PYFLAME_GPU_GEMM");
  return s;
}

namespace {

// A library spends more of the host's time on a product this small than the product takes: 5 to
// 10 us beyond the launch, and often two launches (cuBLASLt 13 on a slow host).
bool small(const Product& p) {
  const auto padded = [](int64_t n) { return static_cast<double>(ceil_div(n, 16) * 16); };
  const double work = static_cast<double>(p.batches()) * padded(p.m) * padded(p.n) * padded(p.k);
  return work <= 1 << 23 && p.k <= 2048;
}

int64_t stride_from_end(const pf_tensor& t, int from_end) {
  const int i = t.ndim - 1 - from_end;
  return i < 0 || t.shape[i] == 1 ? 0 : t.strides[i];
}

// The strides of a dimension of size 1 mean nothing: give it one that makes the matrix dense.
void normalise(int64_t rows, int64_t cols, int64_t* row, int64_t* col) {
  if (rows == 1) *row = *col == 1 ? cols : 1;
  if (cols == 1) *col = *row == 1 ? rows : 1;
}

// What decides over the speed of a product, as text.
std::string description(const Product& p) {
  std::ostringstream s;
  s << "matmul " << name(p.dtype) << " ";
  if (p.out != p.dtype) s << "to " << name(p.out) << " ";
  s << p.m << "x" << p.k << "x" << p.n;
  if (p.bias) s << " bias";
  if (p.tf32) s << " tf32";
  s << " a " << p.a_row << "," << p.a_col << " b " << p.b_row << "," << p.b_col;
  for (int d = 0; d < p.ndim; ++d)
    s << " batch " << p.batch[d].size << ":" << p.batch[d].a << "," << p.batch[d].b;
  for (const void* at : {p.a, p.b, static_cast<const void*>(p.c)})
    if (reinterpret_cast<uintptr_t>(at) % 16 != 0) s << " odd";
  return s.str();
}

// As somebody measured, or measured now; false when nobody did.
bool by_choice(const KernelArgs& args, const Product& p) {
  const std::string product = description(p), library = product_library_version(args);
  const auto run = [&](const KernelArgs& with, Choice c) {
    return c.own ? own_product(with, p, c.index) : library_product(with, p, c.index);
  };
  Choice choice;
  if (find_choice(args, library, product, choice)) return run(args, choice);
  if (!measuring()) return false;
  if (product_source() == ProductSource::Library && library != "none" && !library_product(args, p))
    return false;  // nothing to choose from: ours
  std::vector<Choice> candidates;
  if (product_source() != ProductSource::Own)
    for (int i = 0; i < (exhaustive() ? kMostProposals : 4); ++i) candidates.push_back({false, i});
  if (product_source() != ProductSource::Library || library == "none")
    for (int i = exhaustive() ? 0 : -1; i < (exhaustive() ? kOwnTiles : 0); ++i)
      candidates.push_back({true, i});
  // An epilogue in place must not run as often as is measured.
  KernelArgs alone = args;
  alone.around = nullptr;
  measure(alone, library, product, candidates, [&](Choice c) { return run(alone, c); });
  return true;
}

}  // namespace

void multiply(const KernelArgs& args, Product p) {
  normalise(p.m, p.k, &p.a_row, &p.a_col);
  normalise(p.k, p.n, &p.b_row, &p.b_col);
  if (choices_matter() && by_choice(args, p)) return;
  const ProductSource from = product_source();
  if (from == ProductSource::Auto && small(p)) {
    const int tile = small_product_tile(args.traits(), p);
    // Few tiles: lanes share k, where both operands lie along it.
    if (tile == kSharedTile && rows_product(args, p, true))
      note_ours(args, p.dtype, false);
    else
      own_product(args, p, tile);
    return;
  }
  if (from != ProductSource::Library && rows_product(args, p))
    return note_ours(args, p.dtype, false);
  if (from != ProductSource::Library && product_and_after(args, p)) return;
  if (from != ProductSource::Library && product_of_parts(args, p)) return;
  if (from != ProductSource::Own) {
    if (library_product(args, p)) return;
    if (from == ProductSource::Auto && !product_library_usable())
      note_own("matmul", std::string("products run by our own kernel: ") + product_library(),
               "PYFLAME_GPU_GEMM");
  }
  own_product(args, p);
}

namespace {

// False where there is nothing to multiply.
bool describe(const pf_tensor& out, const pf_tensor& a, const pf_tensor& b, bool trans_a,
              bool trans_b, Product& p) {
  p.dtype = static_cast<DType>(a.dtype);
  p.out = static_cast<DType>(out.dtype);
  p.tf32 = p.dtype == DType::Float32 && float32_matmul_precision() != MatmulPrecision::Highest;
  p.m = out.shape[out.ndim - 2];
  p.n = out.shape[out.ndim - 1];
  p.k = a.shape[a.ndim - (trans_a ? 2 : 1)];
  p.a = a.data;
  p.b = b.data;
  p.c = out.data;
  p.a_row = a.strides[a.ndim - (trans_a ? 1 : 2)];
  p.a_col = a.strides[a.ndim - (trans_a ? 2 : 1)];
  p.b_row = b.strides[b.ndim - (trans_b ? 1 : 2)];
  p.b_col = b.strides[b.ndim - (trans_b ? 2 : 1)];

  for (int d = 2; d < out.ndim; ++d) {
    const Product::Batch x{out.shape[out.ndim - 1 - d], stride_from_end(a, d),
                           stride_from_end(b, d)};
    if (x.size == 0) return false;
    if (x.size == 1) continue;
    if (p.ndim == 0 && x.b == 0 && (p.m == 1 || x.a == p.a_row * p.m)) {
      if (p.m == 1) p.a_row = x.a;  // b is the same for all: they are rows of one product
      p.m *= x.size;
      continue;
    }
    Product::Batch& last = p.batch[p.ndim ? p.ndim - 1 : 0];
    if (p.ndim && x.a == last.a * last.size && x.b == last.b * last.size)
      last.size *= x.size;
    else
      p.batch[p.ndim++] = x;
  }
  return p.m > 0 && p.n > 0;
}

void matmul(const KernelArgs& args) {
  constexpr auto at = kernels::tensors<kernels::Matmul>;
  constexpr auto number = kernels::numbers<kernels::Matmul>;
  Product p;
  if (!describe(args.tensor(at.out), args.tensor(at.a), args.tensor(at.b),
                args.i(number.a_transposed) != 0, args.i(number.b_transposed) != 0, p))
    return;
  p.bias = args.data(at.bias);
  p.steady = args.steady(at.b);
  multiply(args, p);
}

// In one launch, or as two kernels.
template <class Norm, bool kRms>
void norm_matmul(const KernelArgs& args) {
  using namespace kernels;
  constexpr auto at = tensors<NormMatmul>;
  constexpr auto number = numbers<NormMatmul>;
  const auto optional = [&](int i) { return args.has(i) ? args.data(i) : nullptr; };
  const pf_tensor &out = args.tensor(at.out), &y = args.tensor(at.y), &b = args.tensor(at.b);
  const bool trans_b = args.i(number.b_transposed) != 0;
  Product p;
  const ProductSource from = product_source();
  // Where the product alone would be that kernel's, too: its bits are the same.
  if (describe(out, y, b, false, trans_b, p) && from != ProductSource::Library &&
      !(from == ProductSource::Auto && small(p)) && !choices_matter()) {
    p.bias = optional(at.bias);
    p.steady = args.steady(at.b);
    normalise(p.m, p.k, &p.a_row, &p.a_col);
    normalise(p.k, p.n, &p.b_row, &p.b_col);
    const auto alike = [&](int i) { return !args.has(i) || args.dtype(i) == p.dtype; };
    pf_kept_row kept{};
    if (args.has(at.kept)) {
      const pf_tensor &to = args.tensor(at.kept), &place = args.tensor(at.place);
      kept = {to.data,
              static_cast<const pf_i64*>(place.data),
              to.shape[0],
              to.strides[0],
              args.i(number.first),
              numel(place),
              args.error()};
    }
    const RowNorm norm{{args.data(at.x), optional(at.scale), optional(at.shift), y.data,
                        optional(at.mean), args.data(at.rstd), 1, 0, args.f(number.eps), 0, 0},
                       kRms,
                       kept,
                       args.steady(at.scale) && args.steady(at.shift)};
    if (alike(at.x) && alike(at.scale) && alike(at.shift) && norm_product(args, p, norm)) return;
  }
  KernelArgs part = args;
  const pf_tensor of_norm[] = {y,
                               args.tensor(at.mean),
                               args.tensor(at.rstd),
                               args.tensor(at.x),
                               args.tensor(at.scale),
                               args.tensor(at.shift)};
  part.tensors = of_norm;
  part.ntensors = static_cast<int>(std::size(of_norm));
  part.around = nullptr;
  find_kernel(Norm::kInfo.name)->launch(part);
  const pf_tensor of_product[] = {out, y, b, args.tensor(at.bias)};
  const pf_scalar numbers_of_product[] = {{}, args.attrs[number.b_transposed]};
  KernelArgs rest = args;
  rest.tensors = of_product;
  rest.ntensors = static_cast<int>(std::size(of_product));
  rest.attrs = numbers_of_product;
  rest.nattrs = static_cast<int>(std::size(numbers_of_product));
  matmul(rest);
  if (!args.has(at.kept)) return;
  constexpr auto scatter = numbers<Scatter>;
  const pf_tensor place = args.tensor(at.place);
  pf_tensor row = place;  // as wide
  row.dtype = out.dtype;
  row.data =
      static_cast<char*>(out.data) + args.i(number.first) * static_cast<int64_t>(itemsize(p.dtype));
  for (int64_t d = row.ndim - 1, step = 1; d >= 0; step *= row.shape[d--]) row.strides[d] = step;
  const pf_tensor of_scatter[] = {args.tensor(at.kept), place, row};
  pf_scalar numbers_of_scatter[kCount<Scatter::Numbers>] = {};
  numbers_of_scatter[scatter.mode].i = kAssign;
  numbers_of_scatter[scatter.skip].i = INT64_MIN;
  KernelArgs written = args;
  written.tensors = of_scatter;
  written.ntensors = static_cast<int>(std::size(of_scatter));
  written.attrs = numbers_of_scatter;
  written.nattrs = static_cast<int>(std::size(numbers_of_scatter));
  written.around = nullptr;
  find_kernel(Scatter::kInfo.name)->launch(written);
}

PF_GPU_KERNEL(kernels::Matmul::kInfo, matmul)
PF_GPU_KERNEL(kernels::NormMatmul::kInfo, (norm_matmul<kernels::LayerNorm, false>))
PF_GPU_KERNEL(kernels::RmsNormMatmul::kInfo, (norm_matmul<kernels::RmsNorm, true>))

}  // namespace
}  // namespace pyflame::gpu
