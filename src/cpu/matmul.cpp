// Products of matrices (table/kernels/matmul.h).
#include <algorithm>

#include "cpu/gemm.h"
#include "cpu/kernel.h"
#include "cpu/threads.h"
#include "table/kernels/matmul.h"

namespace pyflame::cpu {
namespace {

struct Batch {  // one batch dimension: its size, and strides in a, b and c
  int64_t size, a, b, c;
};

int64_t stride_from_end(const pf_tensor& t, int dim_from_end) {
  int i = t.ndim - 1 - dim_from_end;
  return i < 0 || t.shape[i] == 1 ? 0 : t.strides[i];
}

void matmul(const KernelArgs& args) {
  constexpr auto at = kernels::tensors<kernels::Matmul>;
  constexpr auto number = kernels::numbers<kernels::Matmul>;
  const pf_tensor &out = args.tensor(at.out), &a = args.tensor(at.a), &b = args.tensor(at.b);
  const bool trans_a = args.i(number.a_transposed) != 0, trans_b = args.i(number.b_transposed) != 0;
  Gemm g;
  g.dtype = args.dtype(at.a);
  g.wide = args.dtype(at.out) != g.dtype;
  g.m = out.shape[out.ndim - 2];
  g.n = out.shape[out.ndim - 1];
  g.k = a.shape[a.ndim - (trans_a ? 2 : 1)];
  g.a = a.data;
  g.b = b.data;
  g.c = out.data;
  g.bias = args.tensor(at.bias).data;
  g.a_row = a.strides[a.ndim - (trans_a ? 1 : 2)];
  g.a_col = a.strides[a.ndim - (trans_a ? 2 : 1)];
  g.b_row = b.strides[b.ndim - (trans_b ? 1 : 2)];
  g.b_col = b.strides[b.ndim - (trans_b ? 2 : 1)];
  g.c_row = g.n;
  g.a_batch = g.b_batch = g.c_batch = 0;

  // Batch dimensions, innermost first. Those that b does not have join the rows.
  Batch dims[PF_MAX_DIMS];
  int nd = 0;
  int64_t c_stride = g.m * g.n;
  for (int d = 2; d < out.ndim; ++d) {
    Batch x{out.shape[out.ndim - 1 - d], stride_from_end(a, d), stride_from_end(b, d), c_stride};
    c_stride *= x.size;
    if (x.size == 1) continue;
    if (nd == 0 && x.b == 0 && (g.m == 1 || x.a == g.a_row * g.m)) {
      if (g.m == 1) g.a_row = x.a;
      g.m *= x.size;
    } else if (nd > 0 && x.a == dims[nd - 1].a * dims[nd - 1].size &&
               x.b == dims[nd - 1].b * dims[nd - 1].size) {
      dims[nd - 1].size *= x.size;
    } else {
      dims[nd++] = x;
    }
  }
  if (nd > 0) {
    g.batch = dims[0].size;
    g.a_batch = dims[0].a;
    g.b_batch = dims[0].b;
    g.c_batch = dims[0].c;
  }
  if (nd <= 1) {
    gemm(g);
    return;
  }

  int64_t outer = 1;
  for (int d = 1; d < nd; ++d) outer *= dims[d].size;
  const auto item = static_cast<int64_t>(itemsize(g.dtype));
  const auto out_item = static_cast<int64_t>(itemsize(args.dtype(at.out)));  // of a wider dtype
  const double work = 2.0 * double(g.m) * double(g.n) * double(g.k) * double(g.batch);
  // Many small products: whole ones to each thread. Few large ones: one after the other.
  const int64_t grain =
      work > 4e6 ? outer : std::max<int64_t>(1, static_cast<int64_t>(2.5e5 / (work + 1)));
  parallel_for(outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      Gemm one = g;
      int64_t at_a = 0, at_b = 0, at_c = 0, rest = o;
      for (int d = 1; d < nd; ++d) {
        const int64_t i = rest % dims[d].size;
        rest /= dims[d].size;
        at_a += i * dims[d].a;
        at_b += i * dims[d].b;
        at_c += i * dims[d].c;
      }
      one.a = static_cast<const char*>(g.a) + at_a * item;
      one.b = static_cast<const char*>(g.b) + at_b * item;
      one.c = static_cast<char*>(g.c) + at_c * out_item;
      gemm(one);
    }
  });
}
PF_CPU_KERNEL(kernels::Matmul::kInfo, matmul)

}  // namespace
}  // namespace pyflame::cpu
