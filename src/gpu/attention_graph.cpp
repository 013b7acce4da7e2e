// The operations are those, and in the order, that cuDNN's attention engines know: they look for
// this pattern and run it as one kernel.
#include "gpu/attention_graph.h"

#include <algorithm>

namespace pyflame::gpu {
namespace {

using Id = AttentionGraph::Id;

class Builder {
 public:
  using Sizes = int64_t[4];
  struct Tensor {
    void* handle;
    int64_t size[4], step[4];
  };

  Builder(std::deque<Descriptor>& parts, std::vector<int64_t>& ids) : parts_(parts), ids_(ids) {}
  std::vector<void*> operations;

  // `id` 0: a result that is never in memory.
  Tensor tensor(int64_t id, int type, const Sizes& size, const Sizes& step, bool by_value = false) {
    Descriptor& d = parts_.emplace_back(kDnnTensor);
    d.number(kDnnTensorDataType, kDnnTypeDataType, type);
    d.set(kDnnTensorSizes, kDnnTypeInt64, size, 4);
    d.set(kDnnTensorStrides, kDnnTypeInt64, step, 4);
    d.number(kDnnTensorId, id ? id : next_++);
    d.number(kDnnTensorAlignment, int64_t{16});
    if (!id) d.flag(kDnnTensorVirtual);
    if (by_value) d.flag(kDnnTensorByValue);
    d.finish();
    if (id) ids_.push_back(id);
    Tensor t{d.get(), {}, {}};
    std::copy_n(size, 4, t.size);
    std::copy_n(step, 4, t.step);
    return t;
  }
  Tensor number(Id id, int type) { return tensor(id, type, {1, 1, 1, 1}, {1, 1, 1, 1}, true); }
  // A result of the size of `like`, row-major.
  Tensor like(const Tensor& t, int type) { return tensor(0, type, t.size, t.step); }

  // y = mode(x, b), selected by t.
  void pointwise(int mode, int compute, const Tensor& x, const Tensor* b, const Tensor& y,
                 const Tensor* t = nullptr, int64_t axis = -1) {
    Descriptor& how = parts_.emplace_back(kDnnPointwise);
    how.number(kDnnPointwiseMode, kDnnTypePointwiseMode, mode);
    how.number(kDnnPointwiseComputeType, kDnnTypeDataType, compute);
    if (axis >= 0) how.number(kDnnPointwiseAxis, axis);
    how.finish();
    Descriptor& op = parts_.emplace_back(kDnnPointwiseOp);
    op.set(kDnnOpPointwise, how);
    give(op, kDnnOpPointwiseX, x);
    if (b) give(op, kDnnOpPointwiseB, *b);
    if (t) give(op, kDnnOpPointwiseT, *t);
    give(op, kDnnOpPointwiseY, y);
    done(op);
  }
  Tensor pointwise(int mode, const Tensor& x, const Tensor* b = nullptr) {
    const Tensor y = like(x, kDnnFloat);
    pointwise(mode, kDnnFloat, x, b, y);
    return y;
  }
  void reduce(int mode, const Tensor& x, const Tensor& y) {
    Descriptor& how = parts_.emplace_back(kDnnReduction);
    how.number(kDnnReductionOperator, kDnnTypeReductionOperator, mode);
    how.number(kDnnReductionComputeType, kDnnTypeDataType, kDnnFloat);
    how.finish();
    Descriptor& op = parts_.emplace_back(kDnnReductionOp);
    op.set(kDnnOpReduction, how);
    give(op, kDnnOpReductionX, x);
    give(op, kDnnOpReductionY, y);
    done(op);
  }
  void matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
    Descriptor& how = parts_.emplace_back(kDnnMatmul);
    how.number(kDnnMatmulComputeType, kDnnTypeDataType, kDnnFloat);
    how.finish();
    Descriptor& op = parts_.emplace_back(kDnnMatmulOp);
    op.set(kDnnOpMatmul, how);
    give(op, kDnnOpMatmulA, a);
    give(op, kDnnOpMatmulB, b);
    give(op, kDnnOpMatmulC, c);
    done(op);
  }
  void reshape(const Tensor& x, const Tensor& y) {
    Descriptor& op = parts_.emplace_back(kDnnReshapeOp);
    give(op, kDnnOpReshapeX, x);
    give(op, kDnnOpReshapeY, y);
    done(op);
  }

 private:
  static void give(Descriptor& op, int name, const Tensor& t) {
    op.set(name, kDnnTypeDescriptor, &t.handle);
  }
  void done(Descriptor& op) {
    op.finish();
    operations.push_back(op.get());
  }

  std::deque<Descriptor>& parts_;
  std::vector<int64_t>& ids_;
  int64_t next_ = 1000;
};

using Tensor = Builder::Tensor;

struct Attention {
  const AttentionShape& s;
  Builder& to;

  const int type = static_cast<DType>(s.dtype) == DType::Float16 ? kDnnHalf : kDnnBFloat16;
  int64_t b = s.batch, h = s.heads, l = s.queries, k = s.keys;

  // Operand i; `turned`: with rows and columns exchanged.
  Tensor operand(int i, bool turned = false) const {
    const bool keys = i == AttentionShape::kK || i == AttentionShape::kV ||
                      i == AttentionShape::kDk || i == AttentionShape::kDv;
    const bool values = i == AttentionShape::kV || i == AttentionShape::kOut ||
                        i == AttentionShape::kDout || i == AttentionShape::kDv;
    int64_t size[4] = {b, keys ? s.heads_k : h, keys ? k : l, values ? s.depth_v : s.depth};
    int64_t step[4] = {s.step[i][0], s.step[i][1], s.step[i][2], 1};
    if (turned) std::swap(size[2], size[3]), std::swap(step[2], step[3]);
    return to.tensor(Id::kOperand + i, type, size, step);
  }
  Tensor scores(int type) const {
    return to.tensor(0, type, {b, h, l, k}, {h * l * k, l * k, k, 1});
  }
  Tensor transposed_scores() const {
    return to.tensor(0, type, {b, h, k, l}, {h * l * k, l * k, 1, k});
  }
  Tensor rows(int64_t id = 0) const {
    return to.tensor(id, kDnnFloat, {b, h, l, 1}, {h * l, l, 1, 1});
  }

  // Scores outside of the triangle are -infinity.
  Tensor masked(const Tensor& x) const {
    if (s.causal == 0) return x;
    Tensor row = to.like(x, kDnnInt32);
    to.pointwise(kDnnIndex, kDnnFloat, x, nullptr, row, nullptr, 2);
    const Tensor column = to.like(x, kDnnInt32);
    to.pointwise(kDnnIndex, kDnnFloat, x, nullptr, column, nullptr, 3);
    if (s.causal == 2) {
      const Tensor keys = to.number(Id::kKeys, kDnnInt32);
      const Tensor ahead = to.like(x, kDnnInt32);
      to.pointwise(kDnnAdd, kDnnInt32, row, &keys, ahead);
      const Tensor queries = to.number(Id::kQueries, kDnnInt32);
      row = to.like(x, kDnnInt32);
      to.pointwise(kDnnSub, kDnnInt32, ahead, &queries, row);
    }
    const Tensor seen = to.like(x, kDnnBoolean);
    to.pointwise(kDnnGreaterEqual, kDnnBoolean, row, &column, seen);
    const Tensor low = to.number(Id::kLow, kDnnFloat);
    const Tensor y = to.like(x, kDnnFloat);
    to.pointwise(kDnnSelect, kDnnFloat, x, &low, y, &seen);
    return y;
  }

  void forward() const {
    const Tensor q = operand(AttentionShape::kQ), kt = operand(AttentionShape::kK, true);
    const Tensor products = scores(kDnnFloat);
    to.matmul(q, kt, products);
    const Tensor scale = to.number(Id::kScale, kDnnFloat);
    const Tensor x = masked(to.pointwise(kDnnMul, products, &scale));
    const Tensor high = rows();
    to.reduce(kDnnMax, x, high);
    const Tensor powers = to.pointwise(kDnnExp, to.pointwise(kDnnSub, x, &high));
    const Tensor sum = rows();
    to.reduce(kDnnSum, powers, sum);
    const Tensor log = to.pointwise(kDnnLog, sum);
    to.pointwise(kDnnAdd, kDnnFloat, high, &log, rows(Id::kStats));
    const Tensor weights = scores(type);
    to.pointwise(kDnnDiv, kDnnFloat, powers, &sum, weights);
    to.matmul(weights, operand(AttentionShape::kV), operand(AttentionShape::kOut));
  }

  // The gradient of keys or values: heads that share one are summed.
  void to_keys(const Tensor& weights, const Tensor& of, int result, int64_t depth) const {
    const Tensor y = operand(result);
    if (s.heads_k == h) return to.matmul(weights, of, y);
    const Tensor each = to.tensor(0, type, {b, h, k, depth}, {h * k * depth, k * depth, depth, 1});
    to.matmul(weights, of, each);
    to.reduce(kDnnSum, each, y);
  }

  void backward(AttentionGraph& r) const {
    const int64_t e = s.depth_v, d = s.depth;
    const Tensor q = operand(AttentionShape::kQ), kt = operand(AttentionShape::kK, true),
                 vt = operand(AttentionShape::kV, true), out = operand(AttentionShape::kOut),
                 dout = operand(AttentionShape::kDout), stats = rows(Id::kStats);
    const Tensor scale = to.number(Id::kScale, kDnnFloat), one = to.number(Id::kOne, kDnnFloat);

    const Tensor both = to.tensor(0, kDnnFloat, {b, h, l, e}, {h * l * e, l * e, h * e, 1});
    to.pointwise(kDnnMul, kDnnFloat, dout, &out, both);
    const Tensor summed = rows(), sums = rows(Id::kSums);
    to.reduce(kDnnSum, both, summed);
    to.pointwise(kDnnMul, kDnnFloat, summed, &one, sums);
    r.sums = static_cast<size_t>(b * h * l) * sizeof(float);

    const Tensor products = scores(kDnnFloat);
    to.matmul(q, kt, products);
    const Tensor x = masked(to.pointwise(kDnnSub, to.pointwise(kDnnMul, products, &scale), &stats));
    const Tensor weights = to.pointwise(kDnnExp, x);
    const Tensor turned = transposed_scores();
    to.reshape(weights, turned);
    to_keys(turned, dout, AttentionShape::kDv, e);

    const Tensor dweights = scores(kDnnFloat);
    to.matmul(dout, vt, dweights);
    const Tensor dx = to.pointwise(
        kDnnMul, to.pointwise(kDnnMul, to.pointwise(kDnnSub, dweights, &sums), &weights), &scale);
    const Tensor dturned = transposed_scores();
    to.reshape(dx, dturned);
    to_keys(dturned, q, AttentionShape::kDk, d);

    const Tensor keys =
        to.tensor(0, type, {b, s.heads_k, k, d}, {kt.step[0], kt.step[1], kt.step[3], kt.step[2]});
    to.reshape(kt, keys);
    const Tensor dq = operand(AttentionShape::kDq);
    const Tensor wide = to.tensor(Id::kDqSums, kDnnFloat, {b, h, l, d}, {h * l * d, l * d, d, 1});
    r.dq_sums = static_cast<size_t>(b * h * l * d) * sizeof(float);
    to.matmul(dx, keys, wide);
    to.pointwise(kDnnIdentity, kDnnFloat, wide, nullptr, dq);
  }
};

}  // namespace

void make_attention_graph(AttentionGraph& r, void* handle, const AttentionShape& s,
                          size_t workspace) {
  Builder to(r.plan.parts, r.ids);
  const Attention all{s, to};
  if (s.backward)
    all.backward(r);
  else
    all.forward();
  find_plan(r.plan, handle, make_graph(r.plan, handle, to.operations),
            {workspace, s.proposal, [&](const std::vector<int>& notes) {
               return std::all_of(notes.begin(), notes.end(), [&](int note) {
                 return note == kDnnNoteTensorCore || note == kDnnNoteStrictNan ||
                        (note == kDnnNoteOtherEachTime && s.backward);
               });
             }});
}

}  // namespace pyflame::gpu
