// Tensors from sizes, numbers and host data.

#include <algorithm>
#include <cmath>

#include "engine/group.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/unsigned.h"
#include "table/kernels/create.h"

namespace pyflame {

using std::optional;

namespace {

Device device_or_current(optional<Device> device) {
  return device ? *device : get_device();
}

Dims checked_size(const IntList& size, const char* op) {
  Dims shape(size);
  checked_numel(shape, op);
  return shape;
}

// A fresh tensor without values, or with one everywhere, in the order of memory of another.
Tensor lying_like(Tensor fresh, const Tensor& t) {
  lay_out_like(*fresh.impl(), *t.impl());
  return fresh;
}

// A number as arange and linspace take it: of the output's kind.
Scalar as_kind(Scalar s, DType dtype) {
  return is_float(dtype) ? Scalar(s.to_double()) : Scalar(s.to_int());
}

}  // namespace

Tensor empty(const IntList& size, optional<DType> dtype, optional<Device> device) {
  return make_tensor(checked_size(size, "empty"), dtype.value_or(default_dtype()),
                     device_or_current(device));
}

Tensor full(const IntList& size, Scalar value, optional<DType> dtype, optional<Device> device) {
  return ops::raw_full(checked_size(size, "full"), dtype.value_or(ops::dtype_of(value)),
                       device_or_current(device), value);
}

Tensor zeros(const IntList& size, optional<DType> dtype, optional<Device> device) {
  return ops::raw_full(checked_size(size, "zeros"), dtype.value_or(default_dtype()),
                       device_or_current(device), 0);
}

Tensor ones(const IntList& size, optional<DType> dtype, optional<Device> device) {
  return ops::raw_full(checked_size(size, "ones"), dtype.value_or(default_dtype()),
                       device_or_current(device), 1);
}

Tensor empty_like(const Tensor& t) {
  return lying_like(make_tensor(t->shape, t->dtype, t->storage->device), t);
}
Tensor full_like(const Tensor& t, Scalar value) {
  return lying_like(ops::raw_full(t->shape, t->dtype, t->storage->device, value), t);
}
Tensor zeros_like(const Tensor& t) {
  return full_like(t, 0);
}
Tensor zeros_beside(const Tensor& t) {
  const DeviceScope home(t->storage->device);
  return ops::raw_full(t->shape, t->dtype, t->device(), 0);
}
Tensor ones_like(const Tensor& t) {
  return full_like(t, 1);
}

Tensor scalar_tensor(Scalar value, DType dtype, Device device) {
  return ops::raw_full({}, dtype, device, value);
}

Tensor from_host(const void* data, const IntList& size, DType dtype, Device device) {
  Tensor t = make_tensor(checked_size(size, "from_host"), dtype, device);
  if (t->numel > 0) engine::copy_from_host(t, data);
  return t;
}

Tensor arange(Scalar start, Scalar end, Scalar step, optional<DType> dtype,
              optional<Device> device) {
  const bool whole = !start.is_float() && !end.is_float() && !step.is_float();
  DType type = dtype.value_or(whole ? DType::Int64 : default_dtype());
  PF_CHECK(!ops::has_no_arithmetic(type) && type != DType::Bool, DTypeError, "arange", "got dtype ",
           type, "; expected a dtype with arithmetic; choose another");
  if (ops::is_wide_unsigned(type)) return to(arange(start, end, step, DType::Int64, device), type);
  const auto finite = [](Scalar v) { return std::isfinite(v.to_double()); };
  if (!whole && type == DType::Int64 && finite(start) && finite(end) && finite(step))
    // Counts in it, from the bounds as it holds them.
    return arange(as_kind(start, type), as_kind(end, type), as_kind(step, type), type, device);
  int64_t n;
  if (whole) {
    const int64_t s = step.to_int();
    const __int128 span = static_cast<__int128>(end.to_int()) - start.to_int();
    PF_CHECK(s != 0, ValueError, "arange", "got step 0; expected another; give the distance");
    PF_CHECK((s > 0) == (span > 0) || span == 0, ValueError, "arange", "got start ", start.to_int(),
             ", end ", end.to_int(), " and step ", s,
             "; expected a step that leads from start to end; turn its sign round");
    const __int128 count = s > 0 ? (span + s - 1) / s : (span + s + 1) / s;
    PF_CHECK(count <= (int64_t{1} << 62), ShapeError, "arange",
             "got more than 2^62 values; expected fewer; give a larger step");
    n = static_cast<int64_t>(count);
  } else {
    const double a = start.to_double(), b = end.to_double(), s = step.to_double();
    PF_CHECK(std::isfinite(a) && std::isfinite(b) && s != 0 && !std::isnan(s), ValueError, "arange",
             "got start ", a, ", end ", b, " and step ", s,
             "; expected finite numbers and a step other than 0; correct them");
    PF_CHECK(a == b || (s > 0) == (b > a), ValueError, "arange", "got start ", a, ", end ", b,
             " and step ", s,
             "; expected a step that leads from start to end; turn its sign round");
    const double count = std::ceil((b - a) / s);
    PF_CHECK(count < 0x1p62, ShapeError, "arange", "got ", count,
             " values; expected fewer than 2^62; give a larger step");
    n = static_cast<int64_t>(count);
  }
  Tensor out = make_tensor(checked_size({n}, "arange"), type, device_or_current(device));
  if (n > 0)
    engine::call<kernels::Arange>({out},
                                  {.start = as_kind(start, type), .step = as_kind(step, type)});
  return out;
}

namespace {

Tensor spaced(const char* op, Scalar start, Scalar end, int64_t steps, double base,
              optional<DType> dtype, optional<Device> device) {
  PF_CHECK(steps >= 0, ValueError, op, "got ", steps,
           " steps; expected none below 0; give the number of values");
  const DType type = dtype.value_or(default_dtype());
  if (is_complex(type))
    return to(spaced(op, start, end, steps, base, real_type(type), device), type);
  PF_CHECK(!ops::has_no_arithmetic(type), DTypeError, op, "got dtype ", type,
           "; expected a dtype with arithmetic; choose another");
  if (base == 0)
    for (Scalar s : {start, end}) check_range(s, type, op, "an end");
  if (ops::is_wide_unsigned(type))
    return to(spaced(op, start, end, steps, base, DType::Float64, device), type);
  Tensor out = make_tensor(checked_size({steps}, op), type, device_or_current(device));
  if (steps > 0)
    engine::call<kernels::Linspace>(
        {out}, {.start = start.to_double(), .end = end.to_double(), .base = base}, {.op = op});
  return out;
}

}  // namespace

Tensor linspace(Scalar start, Scalar end, int64_t steps, optional<DType> dtype,
                optional<Device> device) {
  return spaced("linspace", start, end, steps, 0, dtype, device);
}

static Tensor logspace(Scalar start, Scalar end, int64_t steps, double base, optional<DType> dtype,
                       optional<Device> device) {
  return spaced("logspace", start, end, steps, base, dtype, device);
}

Tensor eye(int64_t n, optional<int64_t> m, optional<DType> dtype, optional<Device> device) {
  const DType type = dtype.value_or(default_dtype());
  if (is_complex(type)) return to(eye(n, m, real_type(type), device), type);
  PF_CHECK(!ops::has_no_arithmetic(type), DTypeError, "eye", "got dtype ", type,
           "; expected a dtype with arithmetic; choose another");
  if (ops::is_wide_unsigned(type)) return to(eye(n, m, DType::Bool, device), type);
  Tensor out =
      make_tensor(checked_size({n, m.value_or(n)}, "eye"), type, device_or_current(device));
  if (out->numel > 0) engine::call<kernels::Eye>({out});
  return out;
}

namespace ops {

Tensor triangle_indices(int64_t rows, int64_t columns, int64_t offset, bool upper, DType dtype,
                        Device device) {
  const char* op = upper ? "triu_indices" : "tril_indices";
  PF_CHECK(rows >= 0 && columns >= 0, ValueError, op, "got ", rows, " rows and ", columns,
           " columns; expected none below 0; correct them");
  // Sums of sizes near 2^63 need more bits.
  __extension__ using Wide = __int128;
  const Wide shift = Wide{offset} + (upper ? 0 : 1);
  const auto clamp = [](Wide v, int64_t most) {
    return static_cast<int64_t>(std::clamp<Wide>(v, 0, most));
  };
  const auto cut = [&](int64_t i) { return clamp(i + shift, columns); };
  const auto length = [&](int64_t i) { return upper ? columns - cut(i) : cut(i); };
  // Rows from 0 to `low` are cut at 0, rows from `high` on at the last column.
  int64_t low = clamp(-shift, rows);
  const int64_t high = std::max(low, clamp(columns - shift, rows));
  const Wide whole = Wide{columns} * (upper ? low : rows - high);
  if (low < high && length(low) == 0) ++low;
  const Wide slope = high - low;
  const Wide slanted = slope ? slope * (Wide{length(low)} + length(high - 1)) / 2 : Wide{0};
  const Wide all = whole + slanted;
  PF_CHECK(all < (Wide{1} << 62), ShapeError, op, "got ", rows, " rows and ", columns,
           " columns; expected a triangle of fewer than 2^62 elements; correct them");
  const DType written = dtype == DType::Int32 ? dtype : DType::Int64;
  Tensor out =
      make_tensor(pyflame::checked_size({2, static_cast<int64_t>(all)}, op), written, device);
  if (all > 0) {
    const int64_t shortest = slope ? length(upper ? high - 1 : low) : 0;
    engine::call<kernels::TriangleIndices>({out},
                                           {.upper = upper,
                                            .columns = columns,
                                            .low = low,
                                            .slope = static_cast<int64_t>(slope),
                                            .shortest = shortest},
                                           {.op = op});
  }
  return to(out, dtype);
}

}  // namespace ops

namespace {

Tensor py_triangle_indices(int64_t rows, int64_t columns, int64_t offset, bool upper,
                           optional<DType> dtype, optional<Device> device) {
  return ops::triangle_indices(rows, columns, offset, upper, dtype.value_or(DType::Int64),
                               device_or_current(device));
}

TensorList meshgrid(const TensorList& tensors, const optional<std::string>& indexing) {
  const bool swapped = indexing.value_or("ij") == "xy";
  PF_CHECK(!indexing || swapped || *indexing == "ij", ValueError, "meshgrid", "got indexing '",
           *indexing, "'; expected 'ij' or 'xy'; choose one of them");
  const int n = static_cast<int>(tensors.size());
  Dims shape;
  for (const Tensor& t : tensors) {
    ops::check_defined(t, "meshgrid");
    PF_CHECK(t->shape.size() <= 1, ShapeError, "meshgrid", "got shape ", t->shape,
             "; expected at most 1 dimension; ravel it first");
    shape.push_back(t->numel);
  }
  TensorList out;
  if (swapped && n >= 2) std::swap(shape[0], shape[1]);
  for (int i = 0; i < n; ++i) {
    const int d = swapped && i < 2 && n >= 2 ? 1 - i : i;
    IntList lone(static_cast<size_t>(n), 1);
    lone[static_cast<size_t>(d)] = shape[d];
    out.push_back(expand(reshape(tensors[static_cast<size_t>(i)], lone), shape.vec()));
  }
  return out;
}

// ---- Python's signatures ------------------------------------------------------------------------

Tensor with_grad(Tensor t, bool requires_grad) {
  if (requires_grad) t.requires_grad_();
  return t;
}

// The keywords that every creation function takes.
#define PF_NEW "*, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor"

using Type = optional<DType>;
using Dev = optional<Device>;

Tensor py_full(const IntList& size, Scalar value, Type t, Dev d, bool grad) {
  return with_grad(full(size, value, t, d), grad);
}
Tensor like(const Tensor& x, Type t, Dev d, Scalar value, bool grad, bool fill) {
  ops::check_defined(x, "like");
  const DType dtype = t.value_or(x->dtype);
  const Device device = d.value_or(x->storage->device);
  Tensor out =
      fill ? ops::raw_full(x->shape, dtype, device, value) : make_tensor(x->shape, dtype, device);
  return with_grad(lying_like(std::move(out), x), grad);
}
Tensor fresh(const Tensor& x, const IntList& size, Type t, Dev d, Scalar value, bool grad,
             bool fill) {
  const DType dtype = t.value_or(x->dtype);
  const Device device = d.value_or(x->storage->device);
  const Dims shape = checked_size(size, "new_tensor");
  return with_grad(
      fill ? ops::raw_full(shape, dtype, device, value) : make_tensor(shape, dtype, device), grad);
}

// A complex number comes as a tensor without dimensions.
Tensor filled(Tensor t, const Tensor& value, bool grad) {
  PF_CHECK(value->shape.empty(), ShapeError, "full", "got a value of shape ", value->shape,
           "; expected a number; use expand() of the tensor instead");
  PF_CHECK(!value.requires_grad(), DTypeError, "full",
           "got a value that requires grad, whose history would be lost; expected a number; use "
           "expand() of the tensor instead");
  ops::check_fits(t, value, "full");
  copy_(t, value);
  return with_grad(std::move(t), grad);
}

}  // namespace

namespace ops {
namespace {

const Family kCreation("creation", [](Family& f) {
  f.op(+[](const IntList& size, Type t, Dev d,
           bool grad) { return with_grad(pyflame::empty(size, t, d), grad); },
       {"empty(int[] size, " PF_NEW, "A tensor whose values are whatever memory holds.",
        ops::kFunction, false});
  f.op(+[](const IntList& size, Type t, Dev d,
           bool grad) { return with_grad(zeros(size, t, d), grad); },
       {"zeros(int[] size, " PF_NEW, "A tensor of zeros.", ops::kFunction, false});
  f.op(+[](const IntList& size, Type t, Dev d,
           bool grad) { return with_grad(ones(size, t, d), grad); },
       {"ones(int[] size, " PF_NEW, "A tensor of ones.", ops::kFunction, false});
  f.op(&py_full, {"full(int[] size, Scalar fill_value, " PF_NEW,
                  "A tensor with one value everywhere. The dtype follows the value: bool, int64 or "
                  "the default float.",
                  ops::kFunction, false});
  f.op(
      +[](const IntList& size, const Tensor& value, Type t, Dev d, bool grad) {
        // As a number's: the width of the value says nothing.
        const DType type = value->dtype;
        const DType follows = is_complex(type)      ? complex_type(default_dtype())
                              : is_float(type)      ? default_dtype()
                              : type == DType::Bool ? type
                                                    : DType::Int64;
        return filled(pyflame::empty(size, t.value_or(follows), d), value, grad);
      },
      {"full(int[] size, Tensor fill_value, " PF_NEW, "A complex number everywhere.",
       ops::kFunction, false});

  f.op(+[](const Tensor& x, Type t, Dev d, bool grad) { return like(x, t, d, 0, grad, false); },
       {"empty_like(Tensor input, " PF_NEW, "An empty tensor of the input's shape and dtype.",
        ops::kFunction, false});
  f.op(+[](const Tensor& x, Type t, Dev d, bool grad) { return like(x, t, d, 0, grad, true); },
       {"zeros_like(Tensor input, " PF_NEW, "Zeros of the input's shape and dtype.", ops::kFunction,
        false});
  f.op(
      +[](const Tensor& x, Type t) {
        const DeviceScope home(x->storage->device);
        return lying_like(ops::raw_full(x->shape, t.value_or(x->dtype), x->device(), 0), x);
      },
      {"_zeros_beside(Tensor input, dtype? dtype=None) -> Tensor",
       "Zeros of the input's shape, and of its dtype or another, where its memory is and as it "
       "lies, also when it floats: for what is updated in place together with it.",
       ops::kSpecial, false});
  f.op(+[](const Tensor& x, Type t, Dev d, bool grad) { return like(x, t, d, 1, grad, true); },
       {"ones_like(Tensor input, " PF_NEW, "Ones of the input's shape and dtype.", ops::kFunction,
        false});
  f.op(+[](const Tensor& x, Scalar value, Type t, Dev d,
           bool grad) { return like(x, t, d, value, grad, true); },
       {"full_like(Tensor input, Scalar fill_value, " PF_NEW,
        "One value everywhere, in the input's shape and dtype.", ops::kFunction, false});
  f.op(+[](const Tensor& x, const Tensor& value, Type t, Dev d,
           bool grad) { return filled(like(x, t, d, 0, false, false), value, grad); },
       {"full_like(Tensor input, Tensor fill_value, " PF_NEW,
        "A complex number everywhere, in the input's shape and dtype.", ops::kFunction, false});

  f.op(+[](const Tensor& x, const IntList& size, Type t, Dev d,
           bool grad) { return fresh(x, size, t, d, 0, grad, false); },
       {"new_empty(Tensor input, int[] size, " PF_NEW,
        "An empty tensor with this one's dtype and device.", ops::kMethod, false});
  f.op(+[](const Tensor& x, const IntList& size, Type t, Dev d,
           bool grad) { return fresh(x, size, t, d, 0, grad, true); },
       {"new_zeros(Tensor input, int[] size, " PF_NEW, "Zeros with this tensor's dtype and device.",
        ops::kMethod, false});
  f.op(+[](const Tensor& x, const IntList& size, Type t, Dev d,
           bool grad) { return fresh(x, size, t, d, 1, grad, true); },
       {"new_ones(Tensor input, int[] size, " PF_NEW, "Ones with this tensor's dtype and device.",
        ops::kMethod, false});
  f.op(+[](const Tensor& x, const IntList& size, Scalar value, Type t, Dev d,
           bool grad) { return fresh(x, size, t, d, value, grad, true); },
       {"new_full(Tensor input, int[] size, Scalar fill_value, " PF_NEW,
        "One value everywhere, with this tensor's dtype and device.", ops::kMethod, false});
  f.op(+[](const Tensor& x, const IntList& size, const Tensor& value, Type t, Dev d,
           bool grad) { return filled(fresh(x, size, t, d, 0, false, false), value, grad); },
       {"new_full(Tensor input, int[] size, Tensor fill_value, " PF_NEW,
        "A complex number everywhere, with this tensor's dtype and device.", ops::kMethod, false});

  f.op(+[](Scalar end, Type t, Dev d,
           bool grad) { return with_grad(arange(0, end, 1, t, d), grad); },
       {"arange(Scalar end, " PF_NEW, "0, 1, 2, ... below `end`.", ops::kFunction, false});
  f.op(+[](Scalar start, Scalar end, Scalar step, Type t, Dev d,
           bool grad) { return with_grad(arange(start, end, step, t, d), grad); },
       {"arange(Scalar start, Scalar end, Scalar step=1, " PF_NEW,
        "start, start + step, ... before `end`. int64 when all three are integers.", ops::kFunction,
        false});
  f.op(+[](Scalar start, Scalar end, int64_t steps, Type t, Dev d,
           bool grad) { return with_grad(linspace(start, end, steps, t, d), grad); },
       {"linspace(Scalar start, Scalar end, int steps, " PF_NEW,
        "`steps` values evenly spaced from start to end, both exact.", ops::kFunction, false});
  f.op(+[](Scalar start, Scalar end, int64_t steps, double base, Type t, Dev d,
           bool grad) { return with_grad(logspace(start, end, steps, base, t, d), grad); },
       {"logspace(Scalar start, Scalar end, int steps, float base=10.0, " PF_NEW,
        "`base` to the power of evenly spaced exponents.", ops::kFunction, false});
  f.op(+[](int64_t n, std::optional<int64_t> m, Type t, Dev d,
           bool grad) { return with_grad(eye(n, m, t, d), grad); },
       {"eye(int n, int? m=None, " PF_NEW, "Ones on the diagonal of an n x m matrix of zeros.",
        ops::kFunction, false});
  f.op(
      +[](Scalar s, Type t, Dev d, bool grad) {
        return with_grad(scalar_tensor(s, t.value_or(default_dtype()), d ? *d : get_device()),
                         grad);
      },
      {"scalar_tensor(Scalar s, " PF_NEW, "A tensor of 0 dimensions.", ops::kFunction, false});
  f.op(+[](int64_t row, int64_t col, int64_t offset, Type t,
           Dev d) { return py_triangle_indices(row, col, offset, false, t, d); },
       {"tril_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None) "
        "-> Tensor",
        "Row and column numbers of the lower triangle, [2, N].", ops::kFunction, false});
  f.op(+[](int64_t row, int64_t col, int64_t offset, Type t,
           Dev d) { return py_triangle_indices(row, col, offset, true, t, d); },
       {"triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None) "
        "-> Tensor",
        "Row and column numbers of the upper triangle, [2, N].", ops::kFunction, false});
  f.op(&meshgrid, {"meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]",
                   "Coordinates of a grid from its axes, as expanded views. indexing: 'ij' (the "
                   "first axis is the first dimension) or 'xy' (it is the second).",
                   ops::kFunction});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
