// Matrix products. Everything here is one kernel, "matmul", with flags for transposed operands, so
// that no operand is copied and every gradient is again such a product.
#include "ops/matmul.h"
#include "ops/autocast.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "engine/recompute.h"
#include "engine/region.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "pyflame/autograd.h"
#include "table/kernels/matmul.h"

namespace pyflame {
namespace {

// Whether the gradient of `a`, an activation's result, had better be made last of a product's: then
// the gradient of the activation follows the product that makes it, in one launch. On the CPU
// nothing is won: there it is better made on the way to the sum over its rows.
bool gradient_last(const Tensor& a) {
  static constexpr const char* kActivations[] = {"relu", "gelu",       "silu",   "tanh",
                                                 "elu",  "leaky_relu", "sigmoid"};
  if (a->storage->device.is_cpu()) return false;
  const autograd::Node* made = autograd::maker(a);
  return made && std::any_of(std::begin(kActivations), std::end(kActivations),
                             [&](const char* n) { return std::string_view(made->name) == n; });
}

// Whether autocast made a matrix or a bias (of so many dimensions) of a float32 tensor for this
// call, and so nobody looks at its gradient before that tensor has it: then it is not rounded to 16
// bits on the way, where a device has products and sums of 16 bits that give float32.
bool rounds_no_gradient(const Tensor& b, int dims) {
  if (!amp::Casting::runs() || !b.defined() || b->shape.size() != dims ||
      engine::among_samples(b) || amp::slot_of(b->storage->device.type) != amp::kGpu)
    return false;
  const autograd::Node* made = autograd::maker(b);
  return made && std::string_view(made->name) == ops::kRowTable[ops::op::cast].name;
}

void check_operands(const Tensor& a, const Tensor& b, const char* op) {
  PF_CHECK(a.defined() && b.defined(), ValueError, op,
           "got an undefined operand; expected two tensors; pass both");
  PF_CHECK(a->dtype == b->dtype, DTypeError, op, "got ", a->dtype, " ", a->shape, " and ", b->dtype,
           " ", b->shape, "; expected both to have the same dtype; convert one with .to(dtype)");
  PF_CHECK((!ops::has_no_arithmetic(a->dtype) || is_complex(a)) && a->dtype != DType::Bool,
           DTypeError, op, "got ", a->dtype,
           "; expected a dtype with arithmetic; convert with .to(dtype)");
  ops::check_same_device(a, b, op);
}

void check_ndim(const Tensor& t, int ndim, const char* op, const char* name) {
  PF_CHECK(t.defined() && t->shape.size() == ndim, ShapeError, op, "got ", name, " of shape ",
           t.defined() ? t->shape : Dims{}, "; expected ", ndim,
           " dimensions; use matmul for other shapes");
}

Dims drop_matrix(const Dims& s) {
  Dims r = s;
  r.resize(s.size() - 2);
  return r;
}

// Leading dimensions as rows of one matrix.
Tensor fold(const Tensor& t) {
  if (t->shape.size() == 2) return t;
  int64_t rows = 1;
  for (int i = 0; i + 1 < t->shape.size(); ++i) rows *= t->shape[i];
  return reshape(t, {rows, t->shape.back()});
}

Tensor make_product(const Tensor& a, const Tensor& b, const Tensor& bias, bool ta, bool tb,
                    const char* op, DType dtype) {
  const int na = a->shape.size(), nb = b->shape.size();
  const int64_t m = a->shape[na - (ta ? 1 : 2)], ka = a->shape[na - (ta ? 2 : 1)];
  const int64_t kb = b->shape[nb - (tb ? 1 : 2)], n = b->shape[nb - (tb ? 2 : 1)];
  PF_CHECK(ka == kb, ShapeError, op, "got ", a->shape, " and ", b->shape, "; expected ", ka,
           " == ", kb, " (the dimensions that are summed over); transpose or reshape one of them");
  Dims shape;
  if (nb == 2) {
    shape = drop_matrix(a->shape);
  } else if (na == 2) {
    shape = drop_matrix(b->shape);
  } else {
    shape = broadcast_shapes(drop_matrix(a->shape), drop_matrix(b->shape), op);
  }
  shape.push_back(m);
  shape.push_back(n);
  checked_numel(shape, op);
  Tensor out = make_tensor(shape, dtype, a->storage->device);
  if (ka == 0) {  // an empty sum
    NoGrad off;
    if (bias.defined())
      copy_(out, bias);
    else
      zero_(out);
    return out;
  }
  if (out->numel > 0)
    engine::call<kernels::Matmul>({.out = out, .a = a, .b = b, .bias = bias},
                                  {.a_transposed = int64_t{ta}, .b_transposed = int64_t{tb}},
                                  {.op = op});
  return out;
}

// Gradient of the first operand of product(a, b, ta, tb).
Tensor grad_a(const Tensor& g, const Tensor& b, const Dims& shape, bool ta, bool tb,
              const char* op) {
  Tensor r = ta ? product(b, g, {}, tb, true, op) : product(g, b, {}, false, !tb, op);
  return ops::sum_to(r, shape);
}

Tensor grad_b(const Tensor& g, const Tensor& a, const Dims& shape, bool ta, bool tb,
              const char* op) {
  if (shape.size() == 2 && a->shape.size() > 2 && !ta) {  // one product over all rows
    Tensor a2 = fold(a), g2 = fold(g);
    return tb ? product(g2, a2, {}, true, false, op) : product(a2, g2, {}, true, false, op);
  }
  Tensor r = tb ? product(g, a, {}, true, ta, op) : product(a, g, {}, !ta, false, op);
  return ops::sum_to(r, shape);
}

// The same in float32, without a history of its own.
Tensor whole_grad_b(const Tensor& g, const Tensor& a, bool tb, const char* op) {
  const Tensor a2 = fold(a), g2 = fold(g);
  return tb ? make_product(g2, a2, {}, true, false, op, DType::Float32)
            : make_product(a2, g2, {}, true, false, op, DType::Float32);
}

// Which operands are the same for all samples of a vmap, and the other one not.
std::pair<bool, bool> alike_in(const Tensor& a, const Tensor& b) {
  if (!hiding()) return {};
  const bool ha = engine::is_hidden(a), hb = engine::is_hidden(b);
  return {hb && !ha, ha && !hb};
}

// The gradient of such an operand is summed over the samples, by one product where they are rows as
// others are.
void join_samples(Tensor& g, Tensor& other) {
  engine::Levels levels;
  levels.add(g);
  levels.add(other);
  for (const engine::Level& l : autograd::summed_levels(levels)) {
    while (other->shape.size() < g->shape.size()) other = unsqueeze(other, 0);
    g = ops::show(g, 0, l);
    other = ops::show(other, 0, l);
  }
}

// `whole`: in float32, without a history of its own.
Tensor sum_leading(const Tensor& g, bool whole) {
  IntList dims;
  for (int i = 0; i + 1 < g->shape.size(); ++i) dims.push_back(i);
  return dims.empty() ? g : whole ? ops::whole_sum(g, dims) : sum(g, dims);
}

}  // namespace

Tensor product(const Tensor& a, const Tensor& b, const Tensor& bias, bool ta, bool tb,
               const char* op) {
  if (is_complex(a)) return ops::complex_product(a, b, bias, ta, tb, op);
  if (ops::is_wide_unsigned(a)) {
    const Tensor r = product(ops::whole(a), ops::whole(b), {}, ta, tb, op);
    return ops::from_whole(bias.defined() ? add(r, ops::whole(bias)) : r, a->dtype);
  }
  Tensor row = bias;
  if (row.defined() && row->strides[0] != 1 && row->shape[0] > 1) row = contiguous(row);
  Tensor out = make_product(a, b, row, ta, tb, op, a->dtype);
  if (autograd::wanted({a, b, bias})) {
    // Each operand is kept only for the gradient of the other.
    const Tensor none, &keep_a = autograd::requires_grad(b) ? a : none,
                       &keep_b = autograd::requires_grad(a) ? b : none;
    // Logits go as soon as their gradient is known (engine/takeover.h), where all of these stay.
    const bool logits = out->storage->nbytes / 4 > a->storage->nbytes + b->storage->nbytes;
    const autograd::Keep keep(logits);
    using autograd::Saved;
    std::vector<Saved> saved = logits
                                   ? std::vector<Saved>{Saved(keep_a), Saved(keep_b), Saved(bias)}
                                   : std::vector<Saved>{Saved(keep_a), Saved(keep_b)};
    autograd::attach(
        op, std::initializer_list<Tensor>{out}, {a, b, bias}, std::move(saved),
        [ta, tb, op, sa = a->shape, sb = b->shape, alike = alike_in(a, b), last = gradient_last(a),
         whole = !ta && rounds_no_gradient(b, 2),
         whole_bias = rounds_no_gradient(bias, 1)](const autograd::Context& c) -> autograd::Grads {
          const Tensor& g = c.grad();
          autograd::Grads r(3);
          // First, while what makes `g` may still be pending: it is summed on its way.
          if (c.needs(2)) {
            r[2] = sum_leading(g, whole_bias && !grad_enabled());
            autograd::give(c, 2, r[2]);
          }
          const auto first = [&] {
            if (!c.needs(0)) return;
            Tensor g0 = g, b0 = c.saved(1);
            if (hiding() && alike.first) join_samples(g0, b0);
            r[0] = grad_a(g0, b0, sa, ta, tb, op);
          };
          if (!last) first();
          if (c.needs(1)) {
            Tensor g1 = g, a1 = c.saved(0);
            if (hiding() && alike.second) join_samples(g1, a1);
            r[1] = whole && !grad_enabled() ? whole_grad_b(g1, a1, tb, op)
                                            : grad_b(g1, a1, sb, ta, tb, op);
            autograd::give(c, 1, r[1]);
          }
          if (last) first();
          return r;
        });
  }
  return out;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  PF_AUTOCAST("matmul", Lower, matmul, a, b);
  check_operands(a, b, "matmul");
  const int na = a->shape.size(), nb = b->shape.size();
  PF_CHECK(na >= 1 && nb >= 1, ShapeError, "matmul", "got ", a->shape, " and ", b->shape,
           "; expected at least one dimension each; use mul for scalars");
  if (na >= 2 && nb >= 2) return product(a, b, {}, false, false, "matmul");
  PF_CHECK(a->shape.back() == b->shape[nb == 1 ? 0 : nb - 2], ShapeError, "matmul", "got ",
           a->shape, " and ", b->shape, "; expected ", a->shape.back(),
           " == ", b->shape[nb == 1 ? 0 : nb - 2],
           " (the dimensions that are summed over); transpose or reshape one of them");
  Tensor r = product(na == 1 ? unsqueeze(a, 0) : a, nb == 1 ? unsqueeze(b, 1) : b, {}, false, false,
                     "matmul");
  if (nb == 1) r = squeeze(r, -1);
  if (na == 1) r = squeeze(r, nb == 1 ? -1 : -2);
  return r;
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  PF_AUTOCAST("bmm batch_matmul", Lower, bmm, a, b);
  check_operands(a, b, "bmm");
  PF_CHECK(a->shape.size() == 3 && b->shape.size() == 3 && a->shape[0] == b->shape[0], ShapeError,
           "bmm", "got ", a->shape, " and ", b->shape,
           "; expected two batches of matrices, [b, m, k] and [b, k, n]; use matmul to broadcast");
  return product(a, b, {}, false, false, "bmm");
}

Tensor mm(const Tensor& a, const Tensor& b) {
  PF_AUTOCAST("mm", Lower, mm, a, b);
  check_operands(a, b, "mm");
  check_ndim(a, 2, "mm", "input");
  check_ndim(b, 2, "mm", "mat2");
  return product(a, b, {}, false, false, "mm");
}

Tensor int_mm(const Tensor& a, const Tensor& b) {
  check_operands(a, b, "int_mm");
  check_ndim(a, 2, "int_mm", "input");
  check_ndim(b, 2, "int_mm", "mat2");
  PF_CHECK(a->dtype == DType::Int8, DTypeError, "int_mm", "got ", a->dtype,
           "; expected int8; convert with .to(pf.int8), or use matmul for other dtypes");
  return make_product(a, b, {}, false, false, "int_mm", DType::Int32);
}

Tensor mv(const Tensor& a, const Tensor& b) {
  PF_AUTOCAST("mv", LowerElsePromote, mv, a, b);
  check_operands(a, b, "mv");
  check_ndim(a, 2, "mv", "input");
  check_ndim(b, 1, "mv", "vec");
  return matmul(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  PF_AUTOCAST("dot", Promote, dot, a, b);
  check_operands(a, b, "dot");
  check_ndim(a, 1, "dot", "input");
  check_ndim(b, 1, "dot", "tensor");
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_ndim(a, 1, "outer", "input");
  check_ndim(b, 1, "outer", "vec2");
  return mul(unsqueeze(a, 1), unsqueeze(b, 0));
}

namespace {

// beta * input + alpha * (a b)
Tensor add_product(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
                   const char* op) {
  check_operands(a, b, op);
  check_operands(input, a, op);
  const bool row = input->shape.size() == 1 && input->shape[0] == b->shape.back();
  if (row && beta.to_double() == 1 && alpha.to_double() == 1)
    return product(a, b, input, false, false, op);
  // The host rounds to 16 bits once, as PyTorch; GPUs round the product, too.
  if (ops::on_host(a->storage->device) && rounds_sum_once(a->dtype, beta, alpha)) {
    const Tensor r = product(ops::widened(a), ops::widened(b), {}, false, false, op);
    return to(scaled_sum(ops::widened(input), r, beta, alpha, op), a->dtype);
  }
  return scaled_sum(input, product(a, b, {}, false, false, op), beta, alpha, op);
}

}  // namespace

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  PF_AUTOCAST("addmm", Lower, addmm, input, a, b, beta, alpha);
  check_ndim(a, 2, "addmm", "mat1");
  check_ndim(b, 2, "addmm", "mat2");
  return add_product(input, a, b, beta, alpha, "addmm");
}

Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  PF_AUTOCAST("addmv", LowerElsePromote, addmv, input, a, b, beta, alpha);
  return scaled_sum(input, mv(a, b), beta, alpha, "addmv");
}

Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  PF_AUTOCAST("baddbmm", Lower, baddbmm, input, a, b, beta, alpha);
  check_ndim(a, 3, "baddbmm", "batch1");
  check_ndim(b, 3, "baddbmm", "batch2");
  PF_CHECK(a->shape[0] == b->shape[0], ShapeError, "baddbmm", "got ", a->shape, " and ", b->shape,
           "; expected the same number of matrices; use matmul to broadcast");
  return add_product(input, a, b, beta, alpha, "baddbmm");
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  PF_AUTOCAST("linear", Lower, linear, input, weight, bias);
  check_operands(input, weight, "linear");
  if (bias.defined()) check_operands(input, bias, "linear");
  const int nx = input->shape.size(), nw = weight->shape.size();
  PF_CHECK(nx >= 1 && (nw == 1 || nw == 2) && input->shape.back() == weight->shape.back(),
           ShapeError, "linear", "got input ", input->shape, " and weight ", weight->shape,
           "; expected input [..., in_features] and weight [out_features, in_features]; check ",
           "in_features of the layer");
  if (nw == 1) {
    Tensor r = matmul(input, weight);
    return bias.defined() ? add(r, bias) : r;
  }
  PF_CHECK(!bias.defined() || bias->shape.empty() ||
               (bias->shape.size() == 1 && bias->shape[0] == weight->shape[0]),
           ShapeError, "linear", "got bias ", bias->shape, " for weight ", weight->shape,
           "; expected [", weight->shape[0], "]; one value for each output feature");
  if (bias.defined() && bias->shape.empty())
    return add(product(input, weight, {}, false, true, "linear"), bias);
  if (nx == 1) return squeeze(product(unsqueeze(input, 0), weight, bias, false, true, "linear"), 0);
  return product(input, weight, bias, false, true, "linear");
}

namespace ops {
namespace {

const Family kProducts("matrix products", [](Family& f) {
  f.op(&matmul, {"matmul(Tensor input, Tensor other) -> Tensor",
                 "Matrix product. [..., m, k] and [..., k, n] give [..., m, n]; leading dimensions "
                 "broadcast; a 1-d operand is a row (left) or column (right) whose dimension is "
                 "dropped from the result. Both operands must have the same dtype. float16 and "
                 "bfloat16 accumulate in float32 and round once."});
  f.op(&mm, {"mm(Tensor input, Tensor mat2) -> Tensor",
             "Product of two matrices, [m, k] and [k, n], without broadcasting."});
  f.op(&int_mm, {"int_mm(Tensor input, Tensor mat2) -> Tensor",
                 "Product of two int8 matrices, [m, k] and [k, n], as int32, so that no sum of up "
                 "to 131071 products overflows; matmul would keep the lowest 8 bits.",
                 kFunction});
  f.op(&int_mm, {"_int_mm(Tensor input, Tensor mat2) -> Tensor",
                 "The same as int_mm, by PyTorch's name.", kFunction});
  f.op(&bmm, {"bmm(Tensor input, Tensor mat2) -> Tensor",
              "Products of two batches of matrices, [b, m, k] and [b, k, n]."});
  f.op(&bmm, {"batch_matmul(Tensor input, Tensor mat2) -> Tensor", "The same as bmm.", kFunction});
  f.op(&mv, {"mv(Tensor input, Tensor vec) -> Tensor", "Product of a matrix and a vector."});
  f.op(&dot, {"dot(Tensor input, Tensor tensor) -> Tensor",
              "Sum of the products of two 1-d tensors of the same size."});
  f.op(&outer, {"outer(Tensor input, Tensor vec2) -> Tensor",
                "All products of an element of input (rows) and one of vec2 (columns)."});
  f.op(&addmm, {"addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) "
                "-> Tensor",
                "beta * input + alpha * (mat1 @ mat2). With beta = 0 the input is ignored. A 1-d "
                "input with beta = alpha = 1 is added before the only rounding."});
  f.op(&addmv, {"addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> "
                "Tensor",
                "beta * input + alpha * (mat @ vec). With beta = 0 the input is ignored."});
  f.op(&baddbmm,
       {"baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar "
        "alpha=1) -> Tensor",
        "beta * input + alpha * bmm(batch1, batch2). With beta = 0 the input is ignored."});
  f.op(&linear, {"linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
                 "input @ weight.T + bias, rounded once after the bias. input [..., in_features], "
                 "weight [out_features, in_features], bias [out_features].",
                 kFunctional});
});

}  // namespace
}  // namespace ops
}  // namespace pyflame
