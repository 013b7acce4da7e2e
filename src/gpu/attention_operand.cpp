#include "gpu/attention_operand.h"

#include "gpu/move.h"

namespace pyflame::gpu {
namespace {

pf_tensor tensor_of(const pf_attention& a, DType t, const pf_matrix& x, int64_t rows,
                    int64_t cols) {
  pf_tensor r{};
  r.ndim = a.batch + 2;
  r.dtype = static_cast<uint8_t>(t);
  r.data = x.data;
  for (int i = 0; i < a.batch; ++i) r.shape[i] = a.size[i], r.strides[i] = x.batch[i];
  r.shape[a.batch] = rows, r.shape[a.batch + 1] = cols;
  r.strides[a.batch] = x.row, r.strides[a.batch + 1] = x.col;
  return r;
}

}  // namespace

bool lies_well(const pf_attention& a, const AttentionOperand& o) {
  const pf_matrix& x = *o.x;
  const bool columns = x.col == 1 || o.cols == 1, lines = x.row > 0 || o.rows == 1;
  bool aligned = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && (o.rows == 1 || x.row % 8 == 0);
  for (int i = 0; i < a.batch; ++i) aligned = aligned && x.batch[i] % 8 == 0 && x.batch[i] >= 0;
  return columns && lines && aligned;
}

void lay_well(const KernelArgs& args, const pf_attention& a, DType t, const AttentionOperand& o) {
  const int64_t wide = ceil_div(o.cols, 8) * 8;
  int64_t step = o.rows * wide;
  for (int i = a.batch - 1; i >= 0; --i) {
    o.x->batch[i] = a.size[i] == 1 ? 0 : step;
    step *= a.size[i];
  }
  o.x->row = wide, o.x->col = 1;
  o.x->data = args.workspace(static_cast<size_t>(step) * itemsize(t));
}

void copy_well(const KernelArgs& args, const pf_attention& a, DType t, const AttentionOperand& o) {
  const pf_matrix from = *o.x;
  lay_well(args, a, t, o);
  copy_result(args, a, t, o, from);
}

void copy_result(const KernelArgs& args, const pf_attention& a, DType t, const AttentionOperand& to,
                 const pf_matrix& from) {
  copy_tensor(args, tensor_of(a, t, *to.x, to.rows, to.cols),
              tensor_of(a, t, from, to.rows, to.cols));
}

}  // namespace pyflame::gpu
