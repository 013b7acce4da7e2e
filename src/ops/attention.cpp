// Scaled dot-product attention: one kernel forward, one backward, and the same in operations where
// the kernels do not reach (dropout, a mask that is learnt, gradients of gradients).
#include <cmath>
#include <limits>

#include "core/backends.h"
#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "pyflame/autograd.h"
#include "table/kernels/attention.h"

namespace pyflame {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

// A tensor [batch..., t, e] whose last `inner` batch dimensions lie inside the sequence, as they do
// in a projection [b, t, h * e]: transpose(1, 2).reshape(b, t, h * e) is then a view.
Tensor make_interleaved(const Tensor& like, const Dims& batch, int64_t t, int64_t e, int inner) {
  const int nb = batch.size();
  Dims shape = batch;
  shape.push_back(t);
  shape.push_back(e);
  if (inner == 0) return make_tensor(shape, like->dtype, like->storage->device);
  Dims order;  // outer batch, t, inner batch, e
  for (int i = 0; i < nb - inner; ++i) order.push_back(i);
  order.push_back(nb);
  for (int i = nb - inner; i < nb; ++i) order.push_back(i);
  order.push_back(nb + 1);
  Dims base_shape = shape, strides = shape;
  for (int i = 0; i < order.size(); ++i) base_shape[i] = shape[static_cast<int>(order[i])];
  Tensor base = make_tensor(base_shape, like->dtype, like->storage->device);
  for (int i = 0; i < order.size(); ++i) strides[static_cast<int>(order[i])] = base->strides[i];
  return make_view(base, shape, strides, 0);
}

// A gradient laid out as the operand that it belongs to.
Tensor make_as(const Tensor& like, const Dims& batch, int64_t t, int64_t e) {
  const int nb = batch.size(), nl = like->shape.size();
  int inner = 0;  // trailing batch dimensions with smaller strides than the sequence
  while (!like->contiguous && inner < nb && inner + 2 < nl) {
    const int at = nl - 3 - inner;
    if (like->shape[at] > 1 && like->shape[nl - 2] > 1 &&
        (like->strides[at] >= like->strides[nl - 2] || like->strides[at] == 0))
      break;
    if (like->shape[at] == 1 && batch[nb - 1 - inner] != 1) break;
    ++inner;
  }
  return make_interleaved(like, batch, t, e, inner);
}

Dims batch_of(const Tensor& t) {
  Dims d = t->shape;
  d.resize(d.size() - 2);
  return d;
}

struct Attention {
  double scale;
  bool causal;
  double dropout = 0;
};

using ops::widened;  // scores and probabilities of 16 bits would be rounded between the steps
Tensor widened_mask(const Tensor& mask) {
  return mask.defined() && is_float(mask->dtype) ? widened(mask) : mask;
}

// softmax(scale q k^T + mask) in operations.
Tensor probabilities(const Tensor& q, const Tensor& k, const Tensor& mask, const Attention& a) {
  Tensor scores = mul(matmul(q, transpose(k, -2, -1)), Scalar(a.scale));
  Tensor allowed;
  if (a.causal) {
    const int64_t l = q->shape[q->shape.size() - 2], s = k->shape[k->shape.size() - 2];
    allowed = tril(ones({l, s}, DType::Bool, q->storage->device));
  } else if (mask.defined() && mask->dtype == DType::Bool) {
    allowed = mask;
  } else if (mask.defined()) {
    scores = add(scores, mask);
  }
  if (!allowed.defined()) return softmax(scores, -1);
  // A query that may see nothing gets zeros, in its gradient too.
  Tensor sees = any(allowed, IntList{-1}, true);
  Tensor open = where(sees, allowed, ones_like(allowed));
  Tensor p = softmax(where(open, scores, Scalar(-std::numeric_limits<double>::infinity())), -1);
  return where(sees, p, Scalar(0.0));
}

Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                const Attention& a) {
  Tensor p = probabilities(widened(q), widened(k), widened_mask(mask), a);
  if (a.dropout > 0) p = dropout(p, a.dropout, true);
  return to(matmul(p, widened(v)), q->dtype);
}

// The gradient in operations, for a graph of it.
autograd::Grads composed_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                  const Tensor& value, const Tensor& mask, const Attention& a) {
  const Tensor g = widened(grad), q = widened(query), k = widened(key), v = widened(value);
  Tensor p = probabilities(q, k, widened_mask(mask), a);
  Tensor dp = matmul(g, transpose(v, -2, -1));
  Tensor ds = mul(mul(p, sub(dp, sum(mul(dp, p), IntList{-1}, true))), Scalar(a.scale));
  const auto back = [&](const Tensor& t) { return to(t, query->dtype); };
  return {back(ops::sum_to(matmul(ds, k), q->shape)),
          back(ops::sum_to(matmul(transpose(ds, -2, -1), q), k->shape)),
          back(ops::sum_to(matmul(transpose(p, -2, -1), g), v->shape)),
          {}};
}

// `inner` trailing batch dimensions are heads.
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
             const Attention& a, int inner) {
  const int nd = q->shape.size();
  const int64_t l = q->shape[nd - 2], ev = v->shape.back();
  Dims batch = broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k), kOp), batch_of(v), kOp);
  if (mask.defined() && mask->shape.size() > 2)
    batch = broadcast_shapes(batch, batch_of(mask), kOp);
  Tensor out = make_interleaved(q, batch, l, ev, inner < batch.size() ? inner : 0);
  Dims rows = batch;
  rows.push_back(l);
  Tensor lse = make_tensor(rows, q->dtype == DType::Float64 ? DType::Float64 : DType::Float32,
                           q->storage->device);
  if (out->numel > 0)
    engine::call<kernels::Sdpa>({.out = out, .lse = lse, .q = q, .k = k, .v = v, .mask = mask},
                                {.scale = a.scale, .causal = int64_t{a.causal}}, {.op = kOp});
  if (!autograd::wanted({q, k, v})) return out;
  autograd::attach(
      kOp, {out}, {q, k, v, mask},
      {autograd::Saved(q), autograd::Saved(k), autograd::Saved(v), autograd::Saved(mask),
       autograd::Saved(out, true), autograd::Saved(lse)},
      [a, batch](const autograd::Context& c) -> autograd::Grads {
        const Tensor& g = c.grad();
        if (!g.defined()) return autograd::Grads(4);
        Tensor q = c.saved(0), k = c.saved(1), v = c.saved(2), mask = c.saved(3);
        if (grad_enabled()) return composed_backward(g, q, k, v, mask, a);
        const int64_t l = q->shape[q->shape.size() - 2], s = k->shape[k->shape.size() - 2];
        Tensor dq = make_as(q, batch, l, q->shape.back());
        Tensor dk = make_as(k, batch, s, k->shape.back());
        Tensor dv = make_as(v, batch, s, v->shape.back());
        if (numel(batch) > 0)
          engine::call<kernels::SdpaBackward>({.dq = dq,
                                               .dk = dk,
                                               .dv = dv,
                                               .q = q,
                                               .k = k,
                                               .v = v,
                                               .out = c.saved(4),
                                               .lse = c.saved(5),
                                               .dout = g,
                                               .mask = mask},
                                              {.scale = a.scale, .causal = int64_t{a.causal}},
                                              {.op = kOp});
        return {
            ops::sum_to(dq, q->shape), ops::sum_to(dk, k->shape), ops::sum_to(dv, v->shape), {}};
      });
  return out;
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double dropout_p,
           bool causal) {
  PF_CHECK(q.defined() && k.defined() && v.defined(), ValueError, kOp,
           "got an undefined tensor; expected query, key and value; pass all three");
  PF_CHECK(is_float(q->dtype) && !info(q->dtype).storage_only && q->dtype == k->dtype &&
               q->dtype == v->dtype,
           DTypeError, kOp, "got query ", q->dtype, ", key ", k->dtype, " and value ", v->dtype,
           "; expected one floating dtype; convert with .to(dtype)");
  ops::check_same_device(q, k, kOp);
  ops::check_same_device(q, v, kOp);
  if (mask.defined()) ops::check_same_device(q, mask, kOp);
  const int nq = q->shape.size(), nk = k->shape.size(), nv = v->shape.size();
  PF_CHECK(nq >= 2 && nk >= 2 && nv >= 2 && q->shape.back() == k->shape.back() &&
               k->shape[nk - 2] == v->shape[nv - 2],
           ShapeError, kOp, "got query ", q->shape, ", key ", k->shape, " and value ", v->shape,
           "; expected [..., L, E], [..., S, E] and [..., S, Ev]; check the order of dimensions");
  PF_CHECK(dropout_p >= 0 && dropout_p <= 1, ValueError, kOp, "got dropout_p ", dropout_p,
           "; expected a probability; pass a number from 0 to 1");
  if (!mask.defined()) return;
  PF_CHECK(!causal, ValueError, kOp,
           "got an attn_mask with is_causal=True; expected one of them; combine them in the mask");
  PF_CHECK(mask->dtype == DType::Bool || mask->dtype == q->dtype, DTypeError, kOp, "got attn_mask ",
           mask->dtype, " for query ", q->dtype,
           "; expected bool or the dtype of query; convert with .to(dtype)");
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask_in,
                 double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  PF_AUTOCAST("scaled_dot_product_attention", Lower, attention, query, key, value, mask_in,
              dropout_p, is_causal, scale, enable_gqa);
  check(query, key, value, mask_in, dropout_p, is_causal);
  Tensor q = query, k = key, v = value, mask = mask_in;
  const int nd = q->shape.size();
  const int64_t l = q->shape[nd - 2], s = k->shape[k->shape.size() - 2];
  int64_t heads = 0;
  if (enable_gqa) {
    const int nk = k->shape.size(), nv = v->shape.size();
    PF_CHECK(nd >= 3 && nk >= 3 && nv >= 3 && k->shape[nk - 3] == v->shape[nv - 3] &&
                 k->shape[nk - 3] > 0 && q->shape[nd - 3] % k->shape[nk - 3] == 0,
             ShapeError, kOp, "got query ", q->shape, ", key ", k->shape, " and value ", v->shape,
             " with enable_gqa; expected the heads of query (third from the end) to be a multiple ",
             "of those of key and value; check the number of heads");
    const int64_t kv = k->shape[nk - 3];
    heads = q->shape[nd - 3];
    if (kv == heads) {
      heads = 0;
    } else {  // heads as [kv, heads / kv]; key and value broadcast over the second
      auto split = [&](const Tensor& t) {
        IntList d = t->shape.vec();
        d.insert(d.end() - 2, heads / kv);
        d[d.size() - 4] = kv;
        return reshape(t, d);
      };
      q = split(q);
      k = unsqueeze(k, -3);
      v = unsqueeze(v, -3);
      if (mask.defined() && mask->shape.size() >= 3)
        mask = mask->shape[mask->shape.size() - 3] == heads ? split(mask) : unsqueeze(mask, -3);
    }
  }
  if (mask.defined()) {
    const int nm = mask->shape.size();
    auto fits = [&](int64_t have, int64_t want) { return have == want || have == 1; };
    PF_CHECK(nm >= 1 && fits(mask->shape.back(), s) && (nm < 2 || fits(mask->shape[nm - 2], l)),
             ShapeError, kOp, "got attn_mask ", mask->shape, " for ", l, " queries and ", s,
             " keys; expected a shape that broadcasts to [..., ", l, ", ", s,
             "]; reshape the mask");
    if (nm == 1) mask = unsqueeze(mask, 0);
  }
  const Attention a{
      scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, q->shape.back()))),
      is_causal, dropout_p};
  Tensor r = dropout_p > 0 || (mask.defined() && autograd::requires_grad(mask)) ||
                     !backend_of(runs_on({q, k, v}))->kernel_find(kernels::Sdpa::kInfo.name)
                 ? composed(q, k, v, mask, a)
                 : fused(q, k, v, mask, a, heads == 0 ? 1 : 2);
  if (heads == 0) return r;
  IntList d = r->shape.vec();
  d.erase(d.end() - 3);
  d[d.size() - 3] = heads;
  return reshape(r, d);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale) {
  return attention(query, key, value, attn_mask, dropout_p, is_causal, scale, false);
}

namespace ops {
namespace {

const Family kAttention("attention", [](Family& f) {
  f.op(&attention,
       {"scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool "
        "enable_gqa=False) -> Tensor",
        "softmax(scale * query @ key.T + attn_mask) @ value over the last two dimensions: query "
        "[..., L, E], key [..., S, E], value [..., S, Ev] give [..., L, Ev]; leading dimensions "
        "broadcast. scale is 1 / sqrt(E) by default. A bool attn_mask is True where a query may "
        "see a key, any other is added to the scores; is_causal lets query i see keys 0..i. A "
        "query that may see nothing gives zeros. dropout_p always applies: pass 0 outside "
        "training. enable_gqa shares each head of key and value among several of query.",
        kFunctional});
});

}  // namespace
}  // namespace ops
}  // namespace pyflame
