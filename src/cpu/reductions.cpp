// Several reductions at once: each over the same piece of its tensor, while that is in a cache.
// What is more than caches hold and cannot be cut is reduced one after the other.
#include <algorithm>

#include "cpu/group.h"
#include "cpu/kernel.h"
#include "cpu/reduce_cut.h"
#include "table/kernels/reduce.h"

namespace pyflame::cpu {
namespace {

constexpr auto kAt = kernels::tensors<kernels::Reductions>;
constexpr auto kNumber = kernels::numbers<kernels::Reductions>;

// One of them, as a call of its own kernel.
class One {
 public:
  One(const KernelArgs& a, int i) : x(kAt.x + kernels::tensor_of(a.i(kNumber.a + i))) {
    using namespace kernels;
    const SumKind what = what_of(a.i(kNumber.a + i));
    static const KernelEntry* const kernels[] = {
        find_kernel(Sum::kInfo.name), find_kernel(Prod::kInfo.name), find_kernel(Amax::kInfo.name),
        find_kernel(Amin::kInfo.name)};
    kernel = kernels[what == kProduct ? 1 : what == kLargest ? 2 : what == kSmallest ? 3 : 0];
    tensors_[tensors<Sum>.out] = a.tensor(kAt.a + i);
    tensors_[tensors<Sum>.x] = a.tensor(x);
    attrs_[numbers<Sum>.dims] = a.attrs[kNumber.dims];
    attrs_[numbers<Sum>.kind].i = static_cast<int64_t>(what);
    attrs_[numbers<Sum>.divisor] = a.attrs[kNumber.a_by + i];
    args = {tensors_, kCount<Sum::Tensors>, attrs_, kCount<Sum::Numbers>, a.error};
  }
  One(const One&) = delete;
  One& operator=(const One&) = delete;

  // How it is cut, of a tensor that has so many pieces' rows.
  Pieces pieces(Cut cut, int64_t rows, int64_t width) const {
    constexpr auto at = kernels::tensors<kernels::Sum>;
    pf_tensor tensors[kernels::kCount<kernels::Sum::Tensors>] = {tensors_[at.out], tensors_[at.x]};
    pf_scalar attrs[kernels::kCount<kernels::Sum::Numbers>];
    std::copy(std::begin(attrs_), std::end(attrs_), attrs);
    attrs[kernels::numbers<kernels::Sum>.dims].i = cut == Cut::Columns ? 1 : 2;
    pf_tensor& t = tensors[at.x];
    const int64_t outs = cut == Cut::Blocks ? numel(tensors[at.out]) : rows;
    t.ndim = 2;
    t.shape[0] = outs;
    t.shape[1] = t.strides[0] = rows * width / outs;
    t.strides[1] = 1;
    return kernel->pieces({tensors, args.ntensors, attrs, args.nattrs, args.error});
  }

  const KernelEntry* kernel;
  int x;  // its tensor
  KernelArgs args{};

 private:
  pf_tensor tensors_[kernels::kCount<kernels::Sum::Tensors>]{};
  pf_scalar attrs_[kernels::kCount<kernels::Sum::Numbers>]{};
};

template <class F>
void each(const KernelArgs& a, F&& fn) {
  for (int i = 0; i < kernels::kMostReductions; ++i)
    if (a.has(kAt.a + i)) fn(i, One(a, i));
}

// Each of them over the piece, or finished, with its part of the memory of pieces and of threads.
template <Cut kCut, KernelFn Pieces::*kDoes>
void part(const KernelArgs& a) {
  Piece piece = *a.piece;
  const int64_t width = kCut == Cut::Blocks    ? CutReduction::kBlocks
                        : kCut == Cut::Columns ? numel(a.tensor(kAt.a))
                                               : a.tensor(kAt.x).shape[1];
  each(a, [&](int, One&& one) {
    const Pieces p = one.pieces(kCut, piece.rows, width);
    one.args.piece = &piece;
    (p.*kDoes)(one.args);
    if (p.workspace) piece.workspace = static_cast<char*>(piece.workspace) + p.workspace;
    if (p.scratch && piece.scratch) piece.scratch += p.scratch;
  });
}

Pieces pieces(const KernelArgs& a) {
  const CutReduction c(a.tensor(kAt.x), kAt.x, kAt.a, a.i(kNumber.dims), true);
  Pieces all = c.pieces;
  each(a, [&](int i, One&& one) {
    all.per_row[kAt.a + i] = all.per_row[kAt.a];
    all.per_row[one.x] = all.width;
    if (c.cut == Cut::None) return;
    const Pieces p = one.pieces(c.cut, all.rows, all.width);
    all.workspace += p.workspace;
    all.scratch += p.scratch;
  });
  all.run = c.cut == Cut::Rows     ? part<Cut::Rows, &Pieces::run>
            : c.cut == Cut::Blocks ? part<Cut::Blocks, &Pieces::run>
                                   : part<Cut::Columns, &Pieces::run>;
  all.finish = c.cut == Cut::Blocks    ? part<Cut::Blocks, &Pieces::finish>
               : c.cut == Cut::Columns ? part<Cut::Columns, &Pieces::finish>
                                       : nullptr;
  return all;
}

void run(const KernelArgs& a) {
  if (is_float(a.dtype(kAt.x))) return reductions_of_floats(a);
  // Short rows are reduced many at a time, which pieces have no room for.
  const bool many = numel(a.tensor(kAt.x)) <= 128 * numel(a.tensor(kAt.a));
  if (!many && launch_in_pieces(*find_kernel(kernels::Reductions::kInfo.name), a)) return;
  each(a, [](int, One&& one) { one.kernel->run(one.args); });
}

}  // namespace
PF_CPU_KERNEL(kernels::Reductions::kInfo, run, pieces)
}  // namespace pyflame::cpu
