// Products of eight-bit floats with scales, and what makes their operands.
#include "pyflame/float8.h"

#include <optional>

#include "engine/engine.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "pyflame/autograd.h"
#include "table/kernels/float8.h"

namespace pyflame {
namespace {

bool is_float8(DType t) {
  return t == DType::Float8E4M3 || t == DType::Float8E5M2;
}

void check_operand(const Tensor& t, bool first, const char* op) {
  const char* name = first ? "mat1" : "mat2";
  PF_CHECK(t.defined() && t->shape.size() == 2, ShapeError, op, "got ", name, " of shape ",
           t.defined() ? t->shape : Dims{}, "; expected a matrix; reshape it");
  PF_CHECK(is_float8(t->dtype), DTypeError, op, "got ", name, " of ", t->dtype,
           "; expected float8_e4m3fn or float8_e5m2; convert it with .to()");
  const int along = first ? 1 : 0;
  const int64_t k = t->shape[along];
  const bool dense = t->numel == 0 || ((k == 1 || t->strides[along] == 1) &&
                                       (t->shape[1 - along] == 1 || t->strides[1 - along] >= k));
  PF_CHECK(dense, ValueError, op, "got ", name, " with strides ", t->strides, "; expected ",
           first ? "rows that lie dense; call .contiguous()"
                 : "columns that lie dense; give .t() of a contiguous matrix");
}

// Whether scales are one number each, or one for each row of a and column of b.
bool scales_by_row(const Tensor& a, const Tensor& b, int64_t m, int64_t n, const char* op) {
  for (const Tensor& t : {a, b}) {
    PF_CHECK(t.defined(), ValueError, op,
             "got no scale; expected a float32 tensor for each matrix");
    PF_CHECK(t->dtype == DType::Float32, DTypeError, op, "got a scale of ", t->dtype,
             "; expected float32; convert it with .to(pf.float32)");
  }
  if (a->numel == 1 && b->numel == 1) return false;
  PF_CHECK((a->shape == Dims{m, 1} && b->shape == Dims{1, n}), ShapeError, op,
           "got scales of shapes ", a->shape, " and ", b->shape, "; expected one number each, or ",
           Dims{m, 1}, " and ", Dims{1, n}, " for rows and columns; reshape them");
  return true;
}

}  // namespace

Tensor scaled_mm(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                 const Tensor& bias, const Tensor& scale_result, std::optional<DType> out_dtype,
                 bool use_fast_accum) {
  const char* op = "_scaled_mm";
  NoGrad off;  // bytes have no gradient
  check_operand(a, true, op);
  check_operand(b, false, op);
  PF_CHECK(a->dtype == DType::Float8E4M3 || b->dtype == DType::Float8E4M3, DTypeError, op, "got ",
           a->dtype, " and ", b->dtype,
           "; expected float8_e4m3fn of at least one: no device multiplies two of float8_e5m2; "
           "convert one with .to()");
  const int64_t m = a->shape[0], k = a->shape[1], n = b->shape[1];
  PF_CHECK(k == b->shape[0], ShapeError, op, "got ", a->shape, " and ", b->shape, "; expected ", k,
           " == ", b->shape[0], " (the dimensions that are summed over); transpose one of them");
  const DType dtype = out_dtype.value_or(a->dtype);
  const bool narrow = is_float8(dtype);
  PF_CHECK(
      narrow || dtype == DType::Float32 || dtype == DType::Float16 || dtype == DType::BFloat16,
      DTypeError, op, "got out_dtype ", dtype,
      "; expected bfloat16, float16, float32, float8_e4m3fn or float8_e5m2; convert the result");
  PF_CHECK(narrow || !scale_result.defined(), ValueError, op, "got scale_result for a result of ",
           dtype, "; expected it for float8 results alone; multiply the result instead");
  PF_CHECK(!scale_result.defined() ||
               (scale_result->dtype == DType::Float32 && scale_result->numel == 1),
           ValueError, op, "got scale_result ",
           scale_result.defined() ? scale_result->shape : Dims{},
           "; expected one float32 number; reshape it");
  const bool by_row = scales_by_row(scale_a, scale_b, m, n, op);
  const DType sums = narrow ? DType::Float32 : dtype;
  Tensor row = bias;
  if (row.defined()) {
    PF_CHECK(row->shape == Dims{n}, ShapeError, op, "got bias ", row->shape, "; expected ", Dims{n},
             "; one value for each column");
    const bool fits =
        row->dtype == sums || (sums == DType::Float32 && row->dtype == DType::BFloat16);
    PF_CHECK(fits, DTypeError, op, "got bias of ", row->dtype, " for a result of ", dtype,
             "; expected ", sums, "; convert it with .to()");
    row = contiguous(to(row, sums));
  }
  for (const Tensor& t : {b, scale_a, scale_b, row, scale_result})
    if (t.defined()) ops::check_same_device(a, t, op);
  Tensor out = make_tensor({m, n}, sums, a->storage->device);
  if (k == 0) {  // an empty sum
    if (row.defined())
      copy_(out, row);
    else
      zero_(out);
  } else if (out->numel > 0) {
    engine::call<kernels::ScaledMatmul>(
        {.out = out,
         .a = a,
         .b = b,
         .scale_a = contiguous(scale_a),
         .scale_b = contiguous(scale_b),
         .bias = row},
        {.by_row = int64_t{by_row}, .fast_sums = int64_t{use_fast_accum}},
        {.op = op, .takes = engine::Takes::Bytes});
  }
  if (!narrow) return out;
  if (scale_result.defined()) out = mul(out, reshape(scale_result, {}));
  return to(out, dtype);
}

TensorList to_float8(const Tensor& x, DType dtype, bool turned) {
  const char* op = "_to_float8";
  NoGrad off;
  PF_CHECK(x.defined() && x->shape.size() == 2, ShapeError, op, "got shape ",
           x.defined() ? x->shape : Dims{}, "; expected a matrix; reshape it");
  PF_CHECK(x->dtype == DType::Float32 || x->dtype == DType::Float16 || x->dtype == DType::BFloat16,
           DTypeError, op, "got ", x->dtype, "; expected float32, float16 or bfloat16; convert it");
  PF_CHECK(is_float8(dtype), DTypeError, op, "got dtype ", dtype,
           "; expected float8_e4m3fn or float8_e5m2");
  const int64_t m = x->shape[0], n = x->shape[1];
  const Device device = x->storage->device;
  const Tensor out = make_tensor({m, n}, dtype, device);
  Tensor inverse = make_tensor({}, DType::Float32, device);
  const Tensor other = turned ? make_tensor({n, m}, dtype, device) : Tensor();
  if (out->numel == 0) {
    fill_(inverse, 1);
  } else {
    engine::call<kernels::ToFloat8>({.out = out, .turned = other, .inverse = inverse, .x = x},
                                    {.op = op, .takes = engine::Takes::Bytes});
  }
  return turned ? TensorList{out, other, inverse} : TensorList{out, inverse};
}

namespace ops {
namespace {

const Family kFloat8("float8", [](Family& f) {
  f.op(
      &scaled_mm,
      {"_scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
       "Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
       "input @ mat2 * scale_a * scale_b + bias of eight-bit floats, summed in float32 and rounded "
       "once. input [m, k] has dense rows, mat2 [k, n] dense columns, both float8_e4m3fn or one of "
       "them float8_e5m2. The scales are float32: one number each, or [m, 1] and [1, n]. bias [n] "
       "has the dtype of the result. out_dtype is bfloat16, float16, float32 or a float8 dtype "
       "(None: that of input), for which the result is multiplied by scale_result first. "
       "use_fast_accum lets the device keep fewer bits of sums. Has no gradient.",
       kFunction, false});
  f.op(&to_float8,
       {"_to_float8(Tensor input, dtype dtype, bool turned=False) -> Tensor[]",
        "A matrix as a float8 dtype, scaled so that its largest magnitude becomes the "
        "largest number; with turned its dense transpose; and the inverse of the scale.",
        kSpecial, false});
});

}  // namespace
}  // namespace ops
}  // namespace pyflame
