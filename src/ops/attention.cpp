// Scaled dot-product attention: one kernel forward, one backward, and the same in operations where
// the kernels do not reach (dropout under vmap, gradients of gradients).
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "core/backends.h"
#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "engine/capture.h"
#include "engine/engine.h"
#include "engine/hidden.h"
#include "engine/planner.h"
#include "ops/attention_switches.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/side_by_side.h"
#include "pyflame/autograd.h"
#include "pyflame/random.h"
#include "table/kernels/attention.h"
#include "table/kernels/random.h"
#include "table/score.h"

namespace pyflame {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

std::atomic<bool> g_deterministic{true};
std::atomic<AttentionLibrary> g_library{AttentionLibrary::Table};

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

// Lengths of sequences that lie one behind the other.
struct Sequences {
  Tensor starts_q, starts_k, used_k, pages;  // int32
  int64_t max_queries = 0, max_keys = 0, page = 0;
  bool dense = false;  // no row of q is left out
};

struct Attention {
  double scale = 1;
  int64_t left = -1, right = -1;  // how many keys before and behind its own a query sees; -1: all
  bool bottom_right = false;      // a query's own key: the last query's is the last key
  double soft_cap = 0, dropout = 0;
  bool grouped = false;  // gradients of keys are summed over the last batch dimension at once
  Tensor slopes;         // float32 [..., H, 1 or sequences, 1]
  Sequences cut;
  int64_t score = 0, score_heads = 1, first_query = 0, first_key = 0;  // table/score.h
  std::array<Tensor, 4> tables;
  Scalar seed = int64_t{0}, offset = int64_t{0};
  // As it was when the forward pass was recorded, for both.
  AttentionLibrary library = attention_library();
  bool repeats = deterministic();
  bool fast = engine::fast_numerics();  // a compiled program that asks for no certain bits

  kernels::Sdpa::Numbers<Scalar> numbers() const {
    return {.seed = seed,
            .offset = offset,
            .scale = scale,
            .left = left,
            .right = right,
            .bottom_right = int64_t{bottom_right},
            .soft_cap = soft_cap,
            .dropout = dropout,
            .max_queries = cut.max_queries,
            .max_keys = cut.max_keys,
            .page = cut.page,
            .library = static_cast<int64_t>(library),
            .repeats = int64_t{!fast && (repeats || deterministic())},
            .score = score,
            .score_heads = score_heads,
            .first_query = first_query,
            .first_key = first_key};
  }
};

using ops::widened;  // scores and probabilities of 16 bits would be rounded between the steps
Tensor widened_mask(const Tensor& mask) {
  return mask.defined() && is_float(mask->dtype) ? widened(mask) : mask;
}

// Counters of dropout of a head: rows of them, and how many are in one.
std::pair<int64_t, int64_t> drawn_of(int64_t l, int64_t s, int64_t sequences) {
  return {(l + 15 * sequences) / 16 * 8, (s + 15) / 16 * 4};
}

// What weights are multiplied with: 0, or what makes up for that. As kernels draw it, 16 bits for
// each (table/kernels/attention.h).
Tensor dropout_factors(const Dims& batch, int64_t l, int64_t s, const Attention& a,
                       const Tensor& like) {
  const auto [rows, columns] = drawn_of(l, s, 1);
  IntList shape = batch.vec(), order, whole = shape;
  const int64_t n = batch.size();
  // Counters, and of each two queries apart; a number has those of four keys, two beside each other
  // and two apart.
  shape.insert(shape.end(), {rows / 8, 8, columns / 4, 4, 2});
  whole.insert(whole.end(), {rows * 2, columns * 4});
  const Tensor bits = make_tensor(Dims(shape), DType::Int64, like->device());
  if (bits->numel > 0)
    engine::call<kernels::Randint>(
        {bits}, {.seed = a.seed, .offset = a.offset, .low = int64_t{0}, .range = int64_t{0}});
  std::vector<Tensor> keys;
  for (int64_t k = 0; k < 4; ++k)
    keys.push_back(bitwise_and(bitwise_right_shift(bits, Scalar(16 * k)), Scalar(int64_t{65535})));
  // [..., rows / 8, 8, columns / 4, 4, 2 queries, 2 keys apart, 2 beside]
  IntList halves = shape;
  halves.insert(halves.end(), {2, 2});
  const Tensor each = reshape(stack(keys, -1), halves);
  for (int64_t d = 0; d < n; ++d) order.push_back(d);
  order.insert(order.end(), {n, n + 4, n + 1, n + 2, n + 5, n + 3, n + 6});
  const Tensor drawn = narrow(narrow(reshape(permute(each, order), whole), -2, 0, l), -1, 0, s);
  const int64_t threshold = std::lround(a.dropout * 65536);
  const double keeping = threshold < 65536 ? 65536.0 / static_cast<double>(65536 - threshold) : 0.0;
  return mul(to(ge(drawn, Scalar(threshold)), like->dtype), Scalar(keeping));
}

// The steps of attention in operations.
struct Composed {
  Tensor weights;  // softmax
  Tensor tanh;     // of the soft cap
  Tensor dropped;  // factors of dropout, or undefined

  Composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
           const Attention& a) {
    const Device device = q->device();
    const int64_t l = q->shape[q->shape.size() - 2], s = k->shape[k->shape.size() - 2];
    const int64_t shift = a.bottom_right ? s - l : 0;
    Tensor scores = mul(matmul(q, transpose(k, -2, -1)), Scalar(a.scale));
    if (a.soft_cap > 0) {
      tanh = pyflame::tanh(mul(scores, Scalar(1 / a.soft_cap)));
      scores = mul(tanh, Scalar(a.soft_cap));
    }
    Tensor allowed;
    if (a.left >= 0 || a.right >= 0) {
      allowed = ones({l, s}, DType::Bool, device);
      if (a.right >= 0) allowed = tril(allowed, shift + a.right);
      if (a.left >= 0) allowed = triu(allowed, shift - a.left);
    }
    if (mask.defined() && mask->dtype == DType::Bool)
      allowed = allowed.defined() ? logical_and(allowed, mask) : mask;
    else if (mask.defined())
      scores = add(scores, mask);
    if (a.slopes.defined()) {
      const Tensor i = unsqueeze(add(arange(0, l, 1, DType::Int64, device), Scalar(shift)), -1),
                   j = arange(0, s, 1, DType::Int64, device);
      scores = sub(scores, mul(to(a.slopes, scores->dtype), to(abs(sub(i, j)), scores->dtype)));
    }
    if (!allowed.defined()) {
      weights = softmax(scores, -1);
    } else {  // A query that may see nothing gets zeros, in its gradient too.
      Tensor sees = any(allowed, IntList{-1}, true);
      Tensor open = where(sees, allowed, ones_like(allowed));
      const Scalar low(-std::numeric_limits<double>::infinity());
      weights = where(sees, softmax(where(open, scores, low), -1), Scalar(0.0));
    }
    if (a.dropout <= 0) return;
    if (engine::among_samples(weights, v)) [[unlikely]]
      dropped = dropout(ones_like(weights), a.dropout, true);
    else
      dropped =
          dropout_factors(broadcast_shapes(batch_of(weights), batch_of(v), kOp), l, s, a, weights);
  }
  Tensor meets_values() const { return dropped.defined() ? mul(weights, dropped) : weights; }
};

Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                const Attention& a) {
  const Composed c(widened(q), widened(k), v, widened_mask(mask), a);
  return to(matmul(c.meets_values(), widened(v)), q->dtype);
}

// The gradient in operations, for a graph of it.
autograd::Grads composed_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                  const Tensor& value, const Tensor& mask, const Attention& a) {
  const Tensor g = widened(grad), q = widened(query), k = widened(key), v = widened(value);
  const Composed c(q, k, v, widened_mask(mask), a);
  const Tensor& p = c.weights;
  Tensor dp = matmul(g, transpose(v, -2, -1));
  if (c.dropped.defined()) dp = mul(dp, c.dropped);
  Tensor ds = mul(p, sub(dp, sum(mul(dp, p), IntList{-1}, true)));
  const auto back = [&](const Tensor& t) { return to(t, query->dtype); };
  Tensor dmask;
  if (mask.defined() && mask->dtype != DType::Bool && autograd::requires_grad(mask))
    dmask = back(ops::sum_to(ds, mask->shape));
  if (c.tanh.defined()) ds = mul(ds, sub(ones_like(c.tanh), mul(c.tanh, c.tanh)));
  ds = mul(ds, Scalar(a.scale));
  return {back(ops::sum_to(matmul(ds, k), q->shape)),
          back(ops::sum_to(matmul(transpose(ds, -2, -1), q), k->shape)),
          back(ops::sum_to(matmul(transpose(c.meets_values(), -2, -1), g), v->shape)), dmask};
}

// Sequences may leave rows out.
void clear(const Tensor& t) {
  if (!t.defined() || t->numel == 0) return;
  ops::raw_copy(t, expand(ops::raw_full({}, t->dtype, t->device(), 0), t->shape.vec()));
}

// What is saved for the gradient, in this order.
enum SavedAt {
  kQ,
  kK,
  kV,
  kMask,
  kOut,
  kLse,
  kSlopes,
  kStartsQ,
  kStartsK,
  kUsedK,
  kPages,
  kTables
};

autograd::Grads fused_backward(const char* op, const autograd::Context& c, Attention a,
                               const Dims& batch) {
  const Tensor& g = c.grad();
  const Tensor q = c.saved(kQ), k = c.saved(kK), v = c.saved(kV), mask = c.saved(kMask);
  a.slopes = c.saved(kSlopes);
  a.cut.starts_q = c.saved(kStartsQ), a.cut.starts_k = c.saved(kStartsK);
  a.cut.used_k = c.saved(kUsedK), a.cut.pages = c.saved(kPages);
  for (size_t t = 0; t < a.tables.size(); ++t) a.tables[t] = c.saved(kTables + static_cast<int>(t));
  const bool cut = a.cut.starts_q.defined();
  if (grad_enabled()) {
    PF_CHECK(a.score == 0, NotSupportedError, op,
             "got a gradient of a gradient with a score_mod; expected first gradients only; pass "
             "kernel_options={'BACKEND': 'OPERATIONS'}");
    PF_CHECK(!cut, ValueError, op,
             "got a gradient of a gradient with cu_seqlens; expected first gradients only; pad the "
             "sequences");
    return composed_backward(g, q, k, v, mask, a);
  }
  const int64_t l = q->shape[q->shape.size() - 2], s = k->shape[k->shape.size() - 2];
  Dims owners = batch;
  if (a.grouped) owners.back() = 1;
  // As slices of one gradient where the operands are slices of one projection.
  std::array<Tensor, 3> grads;
  if (batch == batch_of(q) && owners == batch_of(k) && owners == batch_of(v))
    grads = ops::make_side_by_side({q, k, v});
  if (!grads[0].defined())
    grads = {make_as(q, batch, l, q->shape.back()), make_as(k, owners, s, k->shape.back()),
             make_as(v, owners, s, v->shape.back())};
  const auto& [dq, dk, dv] = grads;
  Tensor dmask;
  if (mask.defined() && mask->dtype != DType::Bool && c.needs(kMask))
    dmask = make_tensor(mask->shape, mask->dtype, mask->device());
  const bool runs = numel(batch) > 0;
  if (!runs || cut)
    for (const Tensor& t : {dq, dk, dv, dmask}) clear(t);
  if (runs)
    engine::call<kernels::SdpaBackward>({.dq = dq,
                                         .dk = dk,
                                         .dv = dv,
                                         .dmask = dmask,
                                         .q = q,
                                         .k = k,
                                         .v = v,
                                         .out = c.saved(kOut),
                                         .lse = c.saved(kLse),
                                         .dout = g,
                                         .mask = mask,
                                         .slopes = a.slopes,
                                         .starts_q = a.cut.starts_q,
                                         .starts_k = a.cut.starts_k,
                                         .used_k = a.cut.used_k,
                                         .pages = a.cut.pages,
                                         .table0 = a.tables[0],
                                         .table1 = a.tables[1],
                                         .table2 = a.tables[2],
                                         .table3 = a.tables[3]},
                                        a.numbers(), {.inplace = cut ? 7u : 0u, .op = op});
  return {ops::sum_to(dq, q->shape), ops::sum_to(dk, k->shape), ops::sum_to(dv, v->shape), dmask};
}

// `inner` trailing batch dimensions are heads. `logs`: gets the logarithms of sums, if not null.
Tensor fused(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
             const Attention& a, int inner, Tensor* logs) {
  const int nd = q->shape.size();
  const int64_t l = q->shape[nd - 2], ev = v->shape.back();
  Dims batch = broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k), op), batch_of(v), op);
  if (mask.defined() && mask->shape.size() > 2) batch = broadcast_shapes(batch, batch_of(mask), op);
  const bool cut = a.cut.starts_q.defined();
  const Tensor out = make_interleaved(q, batch, l, ev, inner < batch.size() ? inner : 0);
  Dims rows = batch;
  rows.push_back(l);
  const DType wide = q->dtype == DType::Float64 ? DType::Float64 : DType::Float32;
  const Tensor lse = make_tensor(rows, wide, q->storage->device);
  if (logs) *logs = make_tensor(rows, wide, q->storage->device);
  const bool cleared = cut && !a.cut.dense;
  if (cleared) {
    clear(out);
    if (logs)
      *logs = ops::raw_full(rows, wide, q->device(), -std::numeric_limits<double>::infinity());
  }
  const Sequences& c = a.cut;
  if (lse->numel > 0)
    engine::call<kernels::Sdpa>({.out = out,
                                 .lse = lse,
                                 .logs = logs ? *logs : Tensor(),
                                 .q = q,
                                 .k = k,
                                 .v = v,
                                 .mask = mask,
                                 .slopes = a.slopes,
                                 .starts_q = c.starts_q,
                                 .starts_k = c.starts_k,
                                 .used_k = c.used_k,
                                 .pages = c.pages,
                                 .table0 = a.tables[0],
                                 .table1 = a.tables[1],
                                 .table2 = a.tables[2],
                                 .table3 = a.tables[3]},
                                a.numbers(), {.inplace = cleared ? logs ? 5u : 1u : 0u, .op = op});
  if (!autograd::wanted({q, k, v, mask})) return out;
  using autograd::Saved;
  Attention kept = a;
  kept.slopes = kept.cut.starts_q = kept.cut.starts_k = kept.cut.used_k = kept.cut.pages = {};
  kept.tables = {};
  autograd::attach(
      op, {out}, {q, k, v, mask},
      {Saved(q), Saved(k), Saved(v), Saved(mask), Saved(out, true), Saved(lse), Saved(a.slopes),
       Saved(c.starts_q), Saved(c.starts_k), Saved(c.used_k), Saved(c.pages), Saved(a.tables[0]),
       Saved(a.tables[1]), Saved(a.tables[2]), Saved(a.tables[3])},
      [op, kept, batch](const autograd::Context& context) -> autograd::Grads {
        return fused_backward(op, context, kept, batch);
      });
  return out;
}

void check(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
           double dropout_p) {
  PF_CHECK(q.defined() && k.defined() && v.defined(), ValueError, op,
           "got an undefined tensor; expected query, key and value; pass all three");
  PF_CHECK(is_float(q->dtype) && !info(q->dtype).storage_only && q->dtype == k->dtype &&
               q->dtype == v->dtype,
           DTypeError, op, "got query ", q->dtype, ", key ", k->dtype, " and value ", v->dtype,
           "; expected one floating dtype; convert with .to(dtype)");
  ops::check_same_device(q, k, op);
  ops::check_same_device(q, v, op);
  if (mask.defined()) ops::check_same_device(q, mask, op);
  const int nq = q->shape.size(), nk = k->shape.size(), nv = v->shape.size();
  PF_CHECK(nq >= 2 && nk >= 2 && nv >= 2 && q->shape.back() == k->shape.back() &&
               k->shape[nk - 2] == v->shape[nv - 2],
           ShapeError, op, "got query ", q->shape, ", key ", k->shape, " and value ", v->shape,
           "; expected [..., L, E], [..., S, E] and [..., S, Ev]; check the order of dimensions");
  PF_CHECK(dropout_p >= 0 && dropout_p <= 1, ValueError, op, "got dropout_p ", dropout_p,
           "; expected a probability; pass a number from 0 to 1");
  if (!mask.defined()) return;
  PF_CHECK(mask->dtype == DType::Bool || mask->dtype == q->dtype, DTypeError, op, "got attn_mask ",
           mask->dtype, " for query ", q->dtype,
           "; expected bool, float32 or the dtype of query; convert with .to(dtype)");
}

// A mask of float32 serves queries of any dtype. What is finite stays so in 16 bits: of a row of
// nothing but its lowest number the keys count, of -inf none does.
Tensor mask_for(const Tensor& q, const Tensor& mask) {
  if (!q.defined() || !mask.defined() || mask->dtype != DType::Float32 || !is_float(q->dtype) ||
      q->dtype == DType::Float32)
    return mask;
  if (itemsize(q->dtype) > 2) return to(mask, q->dtype);
  const double most = greatest_finite(q->dtype);
  return to(where(isinf(mask), mask, clamp(mask, Scalar(-most), Scalar(most))), q->dtype);
}

// Sums over the heads of a group run one behind the other; few of them would leave a device idle.
bool sums_groups(const Tensor& k, const Tensor& like) {
  const int64_t s = k->shape[k->shape.size() - 2];
  int64_t owners = 1;
  for (const int64_t n : batch_of(k)) owners *= n;
  return like->device().is_cpu() ? owners >= 16 : owners * ((s + 63) / 64) >= 512;
}

Tensor attend(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
              const Tensor& mask_in, Attention a, bool enable_gqa, Tensor* logs) {
  Tensor q = query, k = key, v = value, mask = mask_in;
  const int nd = q->shape.size();
  const int64_t l = q->shape[nd - 2], s = k->shape[k->shape.size() - 2];
  int64_t heads = 0;
  bool shared = false;
  if (enable_gqa) {
    const int nk = k->shape.size(), nv = v->shape.size();
    PF_CHECK(nd >= 3 && nk >= 3 && nv >= 3, ShapeError, op, "got query ", q->shape, ", key ",
             k->shape, " and value ", v->shape,
             " with enable_gqa; expected heads, third from the end, in each; unsqueeze them");
    const int64_t kv = k->shape[nk - 3];
    heads = q->shape[nd - 3];
    PF_CHECK(kv == v->shape[nv - 3] && (heads == kv || (kv > 0 && heads % kv == 0)), ShapeError, op,
             "got ", heads, " heads of query (third from the end), ", kv, " of key and ",
             v->shape[nv - 3],
             " of value with enable_gqa; expected as many of key as of value, and of query a "
             "multiple of them; check the number of heads");
    shared = kv != heads;
    if (shared) {  // heads as [kv, heads / kv]; key and value broadcast over the second
      auto split = [&](const Tensor& t) {
        IntList d = t->shape.vec();
        d.insert(d.end() - 2, heads / kv);
        d[d.size() - 4] = kv;
        return reshape(t, d);
      };
      const auto beside = [&](const Tensor& t) {
        if (!t.defined() || t->shape.size() < 3) return t;
        return t->shape[t->shape.size() - 3] == heads ? split(t) : unsqueeze(t, -3);
      };
      q = split(q);
      a.grouped = sums_groups(k, q);
      k = unsqueeze(k, -3);
      v = unsqueeze(v, -3);
      mask = beside(mask);
      a.slopes = beside(a.slopes);
    }
  }
  if (mask.defined()) {
    const int nm = mask->shape.size();
    auto fits = [&](int64_t have, int64_t want) { return have == want || have == 1; };
    PF_CHECK(nm >= 1 && fits(mask->shape.back(), s) && (nm < 2 || fits(mask->shape[nm - 2], l)),
             ShapeError, op, "got attn_mask ", mask->shape, " for ", l, " queries and ", s,
             " keys; expected a shape that broadcasts to [..., ", l, ", ", s,
             "]; reshape the mask");
    if (nm == 1) mask = unsqueeze(mask, 0);
  }
  const bool cut = a.cut.starts_q.defined();
  const bool in_operations =
      (a.dropout > 0 && engine::among_samples(q, k, v, mask)) ||
      (a.slopes.defined() && autograd::requires_grad(a.slopes)) ||
      !backend_of(runs_on({q, k, v}))->kernel_find(kernels::Sdpa::kInfo.name);
  PF_CHECK(!in_operations || (!cut && !logs), ValueError, op,
           "got dropout under vmap or slopes that require a gradient; expected neither of them "
           "here; use scaled_dot_product_attention with a mask");
  if (a.dropout > 0) {
    const Dims batch = broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k), op),
                                        batch_of(mask.defined() ? mask : v), op);
    const int64_t n = numel(broadcast_shapes(batch, batch_of(v), op)),
                  sequences = cut ? a.cut.starts_q->shape[0] - 1 : 1;
    const auto [rows, columns] = drawn_of(l, cut ? a.cut.max_keys : s, sequences);
    const RandomState r = take_random(n * rows * columns, 4);
    a.seed = Scalar(static_cast<int64_t>(r.seed));
    a.offset = Scalar(static_cast<int64_t>(r.offset));
  }
  Tensor r = in_operations ? composed(q, k, v, mask, a)
                           : fused(op, q, k, v, mask, a, shared ? 2 : 1, logs);
  if (!shared) return r;
  const auto merged = [&](const Tensor& t, int behind) {
    IntList d = t->shape.vec();
    d.erase(d.end() - behind - 1);
    d[d.size() - static_cast<size_t>(behind) - 1] = heads;
    return reshape(t, d);
  };
  if (logs) *logs = merged(*logs, 1);
  return merged(r, 2);
}

double scale_of(std::optional<double> scale, const Tensor& q) {
  return scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, q->shape.back())));
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const Tensor& given_mask, double dropout_p, bool is_causal,
                 std::optional<double> scale, bool enable_gqa) {
  PF_AUTOCAST("scaled_dot_product_attention", Lower, attention, query, key, value, given_mask,
              dropout_p, is_causal, scale, enable_gqa);
  const Tensor mask = mask_for(query, given_mask);
  check(kOp, query, key, value, mask, dropout_p);
  PF_CHECK(!mask.defined() || !is_causal, ValueError, kOp,
           "got an attn_mask with is_causal=True; expected one of them; combine them in the mask");
  Attention a;
  a.scale = scale_of(scale, query);
  a.right = is_causal ? 0 : -1;
  a.dropout = dropout_p;
  return attend(kOp, query, key, value, mask, a, enable_gqa, nullptr);
}

// ---- flash_attention ----------------------------------------------------------------------------

constexpr const char* kFlash = "flash_attention";

// What lies on the host is looked at; kernels read no further than there are rows, so a step that
// is being captured, whose first call was looked at, goes on without.
bool looks_at(const Tensor& t) {
  return t->device().is_cpu() && !engine::is_hidden(t) && !engine::capturing();
}
void check_starts(const Tensor& t, int64_t rows, int64_t most, const char* what) {
  if (!looks_at(t)) return;
  const auto* p = static_cast<const int32_t*>(engine::host_data(t, kFlash));
  const int64_t n = t->shape[0], stride = t->strides[0];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t before = i == 0 ? 0 : p[(i - 1) * stride];
    PF_CHECK(p[i * stride] >= before && p[i * stride] <= rows, ValueError, kFlash, "got ", what,
             " with ", p[i * stride], " at position ", i,
             "; expected numbers that never fall, from ", "0 to ", rows,
             "; give where each of the sequences begins, and the end of the last");
    PF_CHECK(i == 0 || p[i * stride] - before <= most, ValueError, kFlash, "got ", what, " with ",
             p[i * stride] - before, " rows in sequence ", i - 1, " and a max_seqlen of ", most,
             "; expected no sequence longer than that");
  }
}
// How many keys of each sequence are there, and on which pages.
void check_used(const Tensor& used, const Tensor& starts, const Tensor& pages, int64_t page,
                int64_t rows, int64_t most) {
  if (!looks_at(used)) return;
  const auto* first = static_cast<const int32_t*>(engine::host_data(starts, kFlash));
  const auto* n = static_cast<const int32_t*>(engine::host_data(used, kFlash));
  const auto* p =
      pages.defined() ? static_cast<const int32_t*>(engine::host_data(pages, kFlash)) : nullptr;
  const int64_t room = std::min(most, p ? pages->shape[1] * page : rows);
  for (int64_t b = 0; b < used->shape[0]; ++b) {
    PF_CHECK(n[b] >= 0 && n[b] <= room, ValueError, kFlash, "got ", n[b], " keys that are used of ",
             "sequence ", b, "; expected a number from 0 to ", room, ", what there is room for");
    PF_CHECK(p || n[b] == 0 || (first[b] >= 0 && first[b] <= rows - n[b]), ValueError, kFlash,
             "got ", n[b], " keys from row ", first[b], " on for sequence ", b,
             "; expected rows from 0 to ", rows, "; give where its keys begin");
    for (int64_t i = 0; p && i * page < n[b]; ++i) {
      const int32_t at = p[b * pages->shape[1] + i];
      PF_CHECK(at >= 0 && at < rows / page, IndexError, kFlash, "got page ", at, " for sequence ",
               b, "; expected a number from 0 to ", rows / page - 1);
    }
  }
}
void check_lengths(const Tensor& t, const char* what, int64_t sequences) {
  PF_CHECK(t->shape.size() == 1 && t->shape[0] == sequences, ShapeError, kFlash, "got ", what, " ",
           t->shape, " for ", sequences, " sequences; expected one number for each");
}
Tensor as_lengths(const Tensor& t, const char* what, const Tensor& beside) {
  if (!t.defined()) return t;
  PF_CHECK(is_integral(t->dtype, false), DTypeError, kFlash, "got ", what, " of dtype ", t->dtype,
           "; expected int32; convert with .to(pf.int32)");
  ops::check_same_device(beside, t, kFlash);
  return contiguous(to(t.detach(), DType::Int32));
}

struct Flash {
  Attention a;
  bool grouped;
};

std::pair<Tensor, Tensor> flash(const Tensor& q, const Tensor& k, const Tensor& v,
                                const Tensor& mask, const Flash& f) {
  PF_AUTOCAST("flash_attention", Lower, flash, q, k, v, mask, f);
  check(kFlash, q, k, v, mask, f.a.dropout);
  Tensor logs;
  Tensor out = attend(kFlash, q, k, v, mask, f.a, f.grouped, &logs);
  return {out, logs};
}

std::pair<Tensor, Tensor> flash_attention(const Tensor& query, const Tensor& key,
                                          const Tensor& value, const Tensor& mask, double dropout_p,
                                          std::optional<double> scale, int64_t left, int64_t right,
                                          bool bottom_right, double soft_cap, const Tensor& slopes,
                                          bool enable_gqa, const Tensor& starts_q,
                                          const Tensor& starts_k, int64_t max_queries,
                                          int64_t max_keys, const Tensor& used_k,
                                          const Tensor& pages, int64_t page, bool dense) {
  check(kFlash, query, key, value, mask, dropout_p);
  Flash f{{}, enable_gqa};
  Attention& a = f.a;
  a.scale = scale_of(scale, query);
  PF_CHECK(left >= -1 && right >= -1, ValueError, kFlash, "got a window of ", left, " and ", right,
           "; expected numbers of keys from 0 on; pass -1 for all");
  a.left = left, a.right = right;
  a.bottom_right = bottom_right;
  PF_CHECK(soft_cap >= 0 && std::isfinite(soft_cap), ValueError, kFlash, "got softcap ", soft_cap,
           "; expected a finite number from 0 on; pass 0 for none");
  a.soft_cap = soft_cap;
  a.dropout = dropout_p;
  const bool cut = starts_q.defined();
  // One query, beside the last key, has none behind it.
  if (bottom_right && (cut ? max_queries : query->shape[query->shape.size() - 2]) == 1)
    a.right = -1;
  PF_CHECK(cut == starts_k.defined() && (cut || (!used_k.defined() && !pages.defined())),
           ValueError, kFlash,
           "got some of cu_seqlens_q, cu_seqlens_k, seqused_k and block_table; expected the first "
           "two, and the others beside them; pass both");
  int64_t sequences = 0;
  if (cut) {
    PF_CHECK(!mask.defined(), ValueError, kFlash,
             "got an attn_mask with cu_seqlens; expected one of them; pad the sequences");
    PF_CHECK(query->shape.size() == 3 && key->shape.size() == 3 && value->shape.size() == 3,
             ShapeError, kFlash, "got query ", query->shape, " and key ", key->shape,
             " with cu_seqlens; expected [heads, rows of all sequences, E]");
    PF_CHECK(starts_q->shape.size() == 1 && starts_k->shape.size() == 1 &&
                 starts_q->shape[0] == starts_k->shape[0] && starts_q->shape[0] > 0,
             ShapeError, kFlash, "got cu_seqlens_q ", starts_q->shape, " and cu_seqlens_k ",
             starts_k->shape, "; expected one number more than there are sequences in both");
    sequences = starts_q->shape[0] - 1;
    PF_CHECK(max_queries >= 0 && max_keys >= 0, ValueError, kFlash, "got max_seqlen_q ",
             max_queries, " and max_seqlen_k ", max_keys, "; expected the longest lengths");
    Sequences& c = a.cut;
    c.starts_q = as_lengths(starts_q, "cu_seqlens_q", query);
    c.starts_k = as_lengths(starts_k, "cu_seqlens_k", query);
    c.used_k = as_lengths(used_k, "seqused_k", query);
    c.pages = as_lengths(pages, "block_table", query);
    c.max_queries = max_queries, c.max_keys = max_keys, c.page = page;
    c.dense = dense;
    if (used_k.defined()) check_lengths(used_k, "seqused_k", sequences);
    check_starts(c.starts_q, query->shape[1], max_queries, "cu_seqlens_q");
    if (pages.defined()) {
      PF_CHECK(pages->shape.size() == 2 && pages->shape[0] == sequences && page > 0 &&
                   key->shape[1] % page == 0,
               ShapeError, kFlash, "got block_table ", pages->shape, " and pages of ", page,
               " for ", sequences, " sequences and ", key->shape[1],
               " rows; expected [sequences, pages of one]");
      PF_CHECK(!autograd::wanted({query, key, value}), ValueError, kFlash,
               "got a block_table where gradients are wanted; expected none; use no_grad, or put "
               "the keys of a sequence together");
    } else if (!used_k.defined()) {
      check_starts(c.starts_k, key->shape[1], max_keys, "cu_seqlens_k");
    }
    if (used_k.defined()) check_used(c.used_k, c.starts_k, c.pages, page, key->shape[1], max_keys);
  }
  if (slopes.defined()) {
    const int n = slopes->shape.size(), nq = query->shape.size();
    const int64_t heads = nq < 3 ? 1 : query->shape[nq - 3], batch = cut ? sequences
                                                                     : nq < 4
                                                                         ? 1
                                                                         : query->shape[nq - 4];
    PF_CHECK((n == 1 || (n == 2 && slopes->shape[0] == batch)) && slopes->shape.back() == heads,
             ShapeError, kFlash, "got alibi_slopes ", slopes->shape, "; expected [", heads,
             "] or [", batch, ", ", heads, "]: a number for each head");
    PF_CHECK(is_float(slopes->dtype), DTypeError, kFlash, "got alibi_slopes of dtype ",
             slopes->dtype, "; expected float32; convert with .to(pf.float32)");
    ops::check_same_device(query, slopes, kFlash);
    Tensor t = to(slopes, DType::Float32);
    if (cut)
      t = n == 1 ? unsqueeze(unsqueeze(t, -1), -1) : unsqueeze(transpose(t, 0, 1), -1);
    else
      t = unsqueeze(unsqueeze(t, -1), -1);
    a.slopes = t;
  }
  return flash(query, key, value, mask, f);
}

// ---- a function of each score -------------------------------------------------------------------

constexpr const char* kScored = "flex_attention";

std::pair<Tensor, Tensor> scored_attention(const Tensor& query, const Tensor& key,
                                           const Tensor& value, int64_t score,
                                           const TensorList& tables, const Tensor& mask,
                                           double scale, bool enable_gqa, int64_t left,
                                           int64_t right, int64_t first_query, int64_t first_key) {
  check(kScored, query, key, value, mask, 0);
  const DeviceType on = query->device().type;
  const bool hidden =
      engine::is_hidden(query) || engine::is_hidden(key) || engine::is_hidden(value);
  PF_CHECK((on == DeviceType::ROCm || on == DeviceType::CUDA) && query->dtype != DType::Float64 &&
               !hidden,
           NotSupportedError, kScored, "got ", query->dtype, " on ", query->device(),
           " with a function of scores in the kernel; expected a GPU's float32 or 16 bits, not "
           "under vmap; use flex_attention, which takes operations there");
  table::score_function(score);  // there is one
  Flash f{{}, enable_gqa};
  Attention& a = f.a;
  a.scale = scale;
  a.left = left, a.right = right;
  a.score = score;
  const int nq = query->shape.size();
  a.score_heads = nq < 3 ? 1 : std::max<int64_t>(1, query->shape[nq - 3]);
  a.first_query = first_query, a.first_key = first_key;
  PF_CHECK(tables.size() <= a.tables.size(), ValueError, kScored, "got ", tables.size(),
           " tables; expected at most ", a.tables.size(), "; join some");
  for (size_t t = 0; t < tables.size(); ++t) {
    PF_CHECK(tables[t]->dtype == DType::Float32 && tables[t]->numel > 0, DTypeError, kScored,
             "got a table of ", tables[t]->dtype, " and shape ", tables[t]->shape,
             "; expected float32 with an element or more; convert with .to(pf.float32)");
    ops::check_same_device(query, tables[t], kScored);
    a.tables[t] = contiguous(tables[t].detach());
  }
  return flash(query, key, value, mask, f);
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
        "see a key, one of query's dtype or of float32 is added to the scores; is_causal lets "
        "query i see keys 0..i. A "
        "query that may see nothing gives zeros. dropout_p always applies: pass 0 outside "
        "training. enable_gqa shares each head of key and value among several of query.",
        kFunctional});
  f.op(
      &flash_attention,
      {"flash_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
       "dropout_p=0.0, *, float? scale=None, int left=-1, int right=-1, bool bottom_right=False, "
       "float softcap=0.0, Tensor? alibi_slopes=None, bool enable_gqa=False, Tensor? "
       "cu_seqlens_q=None, Tensor? cu_seqlens_k=None, int max_seqlen_q=0, int max_seqlen_k=0, "
       "Tensor? seqused_k=None, Tensor? block_table=None, int page_size=0, bool dense=False) -> "
       "(Tensor output, Tensor lse)",
       "scaled_dot_product_attention with more ways to say what is seen, and the logarithm of each "
       "query's sum of exponentials [..., L], which has no gradient. Query i stands beside key i, "
       "or with bottom_right the last query beside the last key, and sees `left` keys before and "
       "`right` keys behind that (-1: all). softcap c makes a score s c tanh(s / c); "
       "alibi_slopes, [H] or [B, H], times the distance in keys are subtracted; attn_mask comes "
       "on top. With cu_seqlens the rows of query [H, rows, E], key and value are sequences one "
       "behind the other: of int32 [sequences + 1], where each begins and the last ends; "
       "max_seqlen are the longest. seqused_k [sequences] are numbers of keys where not all are "
       "used. With block_table [sequences, pages] key j of a sequence is row page_size * "
       "block_table[sequence, j // page_size] + j % page_size. cu_seqlens that fall or reach "
       "beyond the rows are an error on the CPU; elsewhere no rows but those given are read. Rows "
       "that belong to no sequence are zeros; dense says that there are none, and they are not "
       "cleared first.",
       kFunctional});
  f.op(&scored_attention,
       {"_scored_attention(Tensor query, Tensor key, Tensor value, int score, Tensor[] tables, "
        "Tensor? attn_mask=None, *, float scale=1.0, bool enable_gqa=False, int left=-1, int "
        "right=-1, int first_query=0, int first_key=0) -> (Tensor output, Tensor lse)",
        "flash_attention with a function of each score in a GPU's kernel: number `score` of "
        "_C._define_score, with the float32 tables that it looks up.",
        kSpecial});
});

}  // namespace
}  // namespace ops
bool deterministic() {
  return g_deterministic.load(std::memory_order_relaxed);
}
void set_deterministic(bool on) {
  g_deterministic.store(on, std::memory_order_relaxed);
}
AttentionLibrary attention_library() {
  return g_library.load(std::memory_order_relaxed);
}
void set_attention_library(AttentionLibrary which) {
  g_library.store(which, std::memory_order_relaxed);
}

}  // namespace pyflame
