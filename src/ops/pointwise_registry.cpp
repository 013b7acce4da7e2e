// Rows of the table as rows of the registry: Python functions, methods, in-place methods and
// names in nn.functional, with PyTorch's keywords.
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/pointwise_text.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "table/expr.h"

namespace pyflame::ops {
namespace {

Scalar scalar_of(const Value& v) {
  if (auto* s = std::get_if<Scalar>(&v)) return *s;
  if (auto* b = std::get_if<bool>(&v)) return *b;
  if (auto* i = std::get_if<int64_t>(&v)) return *i;
  return std::get<double>(v);
}

Operand operand_of(const Value& v) {
  if (auto* t = std::get_if<Tensor>(&v)) return Operand(*t);
  return Operand(scalar_of(v));
}

// Calls a row with arguments in the order operands, attributes.
struct RowCall {
  OpId id;
  int arity, nattrs;
  bool inplace = false;
  bool flag = false;  // the last argument says whether to work in place

  Value operator()(std::vector<Value>& v) const {
    Operand operands[4] = {Scalar(), Scalar(), Scalar(), Scalar()};
    Scalar attrs[4];
    for (int i = 0; i < arity; ++i) operands[i] = operand_of(v[static_cast<size_t>(i)]);
    for (int i = 0; i < nattrs; ++i) attrs[i] = scalar_of(v[static_cast<size_t>(arity + i)]);
    const std::span<const Operand> all(operands, static_cast<size_t>(arity));
    const std::span<const Scalar> a(attrs, static_cast<size_t>(nattrs));
    if (inplace || (flag && std::get<bool>(v.back()))) {
      Tensor dst = std::get<Tensor>(v[0]);
      call_row_into(id, dst, all.subspan(1), a);
      return dst;
    }
    return call_row(id, all, a);
  }
};

// Rows whose Python functions have more to say than the row: below, with their C++ functions.
bool has_own_functions(OpId id) {
  switch (id) {
    case op::neg:
    case op::bitwise_not:
    case op::add:
    case op::sub:
    case op::div:
    case op::pow:
    case op::floor_divide:
    case op::remainder:
    case op::fmod:
    case op::round:
    case op::nan_to_num:
    case op::isclose:
    case op::gelu:
    case op::where:
    case op::clamp:
    case op::clamp_min:
    case op::clamp_max:
      return true;
    default:
      return false;
  }
}

const char* second_name(OpId id) {
  return id == op::lerp ? "end" : id == op::heaviside ? "values" : "other";
}

void register_row(OpId id, const RowInfo& row, const PointwiseRow& text) {
  const bool activation = text.family == "activation";
  const bool float_result = row.rule == Rule::Float || row.rule == Rule::Arith ||
                            row.rule == Rule::Keep || row.rule == Rule::IntOnly ||
                            row.rule == Rule::Logic || row.rule == Rule::Compare;
  const unsigned where = kFunction | kMethod;
  const std::string doc = documentation(text);
  std::string attrs;
  for (int i = 0; i < row.nattrs; ++i) attrs += std::string(", Scalar ") + row.attrs[i];
  const std::string name = row.name;
  auto put = [&](const std::string& n, const std::string& params, unsigned flags, RowCall call) {
    Op op{n, n + "(" + params + ") -> Tensor", doc, text.family, flags, text.differentiable, call};
    if (!call.inplace && !call.nattrs) op.quick = id;
    add(std::move(op));
  };
  const RowCall call{id, row.arity, row.nattrs};
  RowCall into = call;
  into.inplace = true;
  if (row.arity == 1) {
    put(name, "Tensor input" + attrs, where, call);
    if (activation) {
      RowCall either = call;
      either.flag = true;
      put(name, "Tensor input" + attrs + ", bool inplace=False", kFunctional, either);
    }
    if (float_result)
      put(name + "_", "Tensor input" + attrs, where | (activation ? kFunctional : 0u), into);
    return;
  }
  const std::string second = second_name(id);
  if (row.arity == 2) {
    put(name, "Tensor input, Tensor " + second + attrs, where, call);
    put(name, "Tensor input, Scalar " + second + attrs, where, call);
    put(name, "Scalar input, Tensor " + second + attrs, kFunction, call);
    if (float_result) {
      put(name + "_", "Tensor input, Tensor " + second + attrs, where, into);
      put(name + "_", "Tensor input, Scalar " + second + attrs, where, into);
    }
    return;
  }
  if (id == op::lerp) {
    for (const char* weight : {"Tensor weight", "Scalar weight"}) {
      put(name, std::string("Tensor input, Tensor end, ") + weight, where, call);
      put(name + "_", std::string("Tensor input, Tensor end, ") + weight, kMethod, into);
    }
    return;
  }
  // addcmul, addcdiv: the factor is a keyword.
  std::string keyword = "Tensor input, Tensor tensor1, Tensor tensor2";
  if (row.nattrs) keyword += ", *" + attrs;
  put(name, keyword, where, call);
  put(name + "_", keyword, kMethod, into);
}

// ---- functions with rules of their own ----------------------------------------------------------

Value tensor_or_scalar(std::vector<Value>& v, auto&& with_tensor, auto&& with_scalar) {
  const Tensor& x = std::get<Tensor>(v[0]);
  if (auto* y = std::get_if<Tensor>(&v[1])) return with_tensor(x, *y);
  return with_scalar(x, scalar_of(v[1]));
}

std::optional<Scalar> optional_scalar(const Value& v) {
  if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
  return scalar_of(v);
}

std::optional<double> optional_double(const Value& v) {
  if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
  return scalar_of(v).to_double();
}

std::string rounding(const Value& v) {
  if (std::holds_alternative<std::monostate>(v)) return "none";
  return std::get<std::string>(v);
}

using Call = std::function<Value(std::vector<Value>&)>;

struct Own {
  const char* schema;
  unsigned where;
  Call call;
};

void put_own(OpId id, std::initializer_list<Own> rows) {
  const PointwiseRow text = describe(id);
  const std::string doc = documentation(text);
  for (const Own& r : rows) {
    const std::string_view s(r.schema);
    add(Op{std::string(s.substr(0, s.find('('))), r.schema, doc, text.family, r.where,
           text.differentiable, r.call});
  }
}

constexpr unsigned kBoth = kFunction | kMethod;

// For functions of two numbers: the first becomes a tensor.
Call first_as_tensor(Call call) {
  return [call = std::move(call)](std::vector<Value>& v) -> Value {
    const Scalar s = scalar_of(v[0]);
    v[0] = scalar_tensor(s, dtype_of(s), get_device());
    return call(v);
  };
}

// alpha times a number beside a tensor, or times the tensor beside a number.
Scalar times(Scalar alpha, const Tensor& beside, Scalar y, const char* op) {
  if (alpha.to_double() == 1) return y;
  if (!y.is_float()) alpha = factor_for(beside->dtype, alpha, op, "alpha");
  if (alpha.is_float() || y.is_float()) return y.to_double() * alpha.to_double();
  return static_cast<int64_t>(static_cast<uint64_t>(y.i) * static_cast<uint64_t>(alpha.i));
}
Tensor times(Scalar alpha, Scalar beside, const Tensor& y, const char* op) {
  if (alpha.to_double() == 1) return y;
  if (!beside.is_float()) alpha = factor_for(y->dtype, alpha, op, "alpha");
  const bool real = beside.is_float() && is_integral(y->dtype, true);  // a float before it can wrap
  return pyflame::mul(real ? pyflame::to(y, default_dtype()) : y, alpha);
}

void register_sums() {
  const Call plus = [](std::vector<Value>& v) -> Value {
    const Scalar alpha = scalar_of(v[2]);
    if (auto* y = std::get_if<Tensor>(&v[1]); y && !std::holds_alternative<Tensor>(v[0]))
      return pyflame::add(times(alpha, scalar_of(v[0]), *y, "add"), scalar_of(v[0]));
    return tensor_or_scalar(
        v, [&](const Tensor& x, const Tensor& y) { return pyflame::add(x, y, alpha); },
        [&](const Tensor& x, Scalar y) { return pyflame::add(x, times(alpha, x, y, "add")); });
  };
  const Call minus = [](std::vector<Value>& v) -> Value {
    refuse_bools(operand_of(v[0]), operand_of(v[1]), "sub");
    const Scalar alpha = scalar_of(v[2]);
    if (auto* y = std::get_if<Tensor>(&v[1]); y && !std::holds_alternative<Tensor>(v[0]))
      return rsub(times(alpha, scalar_of(v[0]), *y, "sub"), scalar_of(v[0]));
    return tensor_or_scalar(
        v, [&](const Tensor& x, const Tensor& y) { return pyflame::sub(x, y, alpha); },
        [&](const Tensor& x, Scalar y) { return pyflame::sub(x, times(alpha, x, y, "sub")); });
  };
  const Call plus_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    const Scalar alpha = scalar_of(v[2]);
    if (auto* y = std::get_if<Tensor>(&v[1])) return add_(x, *y, alpha);
    return add_(x, times(alpha, x, scalar_of(v[1]), "add_"));
  };
  const Call minus_into = [](std::vector<Value>& v) -> Value {
    refuse_bools(operand_of(v[0]), operand_of(v[1]), "sub_");
    Tensor x = std::get<Tensor>(v[0]);
    const Scalar alpha = scalar_of(v[2]);
    if (auto* y = std::get_if<Tensor>(&v[1])) return sub_(x, *y, alpha);
    return sub_(x, times(alpha, x, scalar_of(v[1]), "sub_"));
  };
  put_own(op::add,
          {{"add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor", kBoth, plus},
           {"add(Tensor input, Scalar other, Scalar alpha=1) -> Tensor", kBoth, plus},
           {"add(Scalar input, Tensor other, *, Scalar alpha=1) -> Tensor", kFunction, plus},
           {"add(Scalar input, Scalar other, *, Scalar alpha=1) -> Tensor", kFunction,
            first_as_tensor(plus)},
           {"add_(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor", kBoth, plus_into},
           {"add_(Tensor input, Scalar other, Scalar alpha=1) -> Tensor", kBoth, plus_into}});
  put_own(op::sub,
          {{"sub(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor", kBoth, minus},
           {"sub(Tensor input, Scalar other, Scalar alpha=1) -> Tensor", kBoth, minus},
           {"sub(Scalar input, Tensor other, *, Scalar alpha=1) -> Tensor", kFunction, minus},
           {"sub(Scalar input, Scalar other, *, Scalar alpha=1) -> Tensor", kFunction,
            first_as_tensor(minus)},
           {"sub_(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor", kBoth, minus_into},
           {"sub_(Tensor input, Scalar other, Scalar alpha=1) -> Tensor", kBoth, minus_into}});
  const Call reversed = [](std::vector<Value>& v) -> Value {
    refuse_bools(operand_of(v[0]), operand_of(v[1]), "rsub");
    const Tensor& x = std::get<Tensor>(v[0]);
    const Scalar alpha = scalar_of(v[2]);
    if (auto* y = std::get_if<Tensor>(&v[1])) return pyflame::sub(*y, x, alpha);
    return rsub(times(alpha, scalar_of(v[1]), x, "rsub"), scalar_of(v[1]));
  };
  put_own(op::sub,
          {{"rsub(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor", kBoth, reversed},
           {"rsub(Tensor input, Scalar other, Scalar alpha=1) -> Tensor", kBoth, reversed}});
  put_own(op::mul, {{"mul(Scalar input, Scalar other) -> Tensor", kFunction,
                     first_as_tensor(RowCall{op::mul, 2, 0})}});
}

// Rows that take a tensor or a number on either side.
#define PF_EITHER(NAME, FIRST, SECOND)                                                          \
  put_own(                                                                                      \
      op::NAME,                                                                                 \
      {{#NAME "(Tensor " FIRST ", Tensor " SECOND ") -> Tensor", kBoth, binary_call(NAME)},     \
       {#NAME "(Tensor " FIRST ", Scalar " SECOND ") -> Tensor", kBoth, binary_call(NAME)},     \
       {#NAME "(Scalar " FIRST ", Tensor " SECOND ") -> Tensor", kFunction, binary_call(NAME)}, \
       {#NAME "_(Tensor " FIRST ", Tensor " SECOND ") -> Tensor", kMethod, into_call(NAME##_)}, \
       {#NAME "_(Tensor " FIRST ", Scalar " SECOND ") -> Tensor", kMethod, into_call(NAME##_)}})

struct BinaryFns {
  Tensor (*tt)(const Tensor&, const Tensor&);
  Tensor (*ts)(const Tensor&, Scalar);
  Tensor (*st)(Scalar, const Tensor&);
};
struct IntoFns {
  Tensor& (*tt)(Tensor&, const Tensor&);
  Tensor& (*ts)(Tensor&, Scalar);
};
Call binary_function(BinaryFns f) {
  return [f](std::vector<Value>& v) -> Value {
    auto* x = std::get_if<Tensor>(&v[0]);
    auto* y = std::get_if<Tensor>(&v[1]);
    if (x && y) return f.tt(*x, *y);
    return x ? f.ts(*x, scalar_of(v[1])) : f.st(scalar_of(v[0]), *y);
  };
}
Call into_function(IntoFns f) {
  return [f](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    if (auto* y = std::get_if<Tensor>(&v[1])) return f.tt(x, *y);
    return f.ts(x, scalar_of(v[1]));
  };
}
#define binary_call(NAME) binary_function({&pyflame::NAME, &pyflame::NAME, &pyflame::NAME})
#define into_call(NAME) into_function({&pyflame::NAME, &pyflame::NAME})

void register_divisions() {
  PF_EITHER(floor_divide, "input", "other");
  put_own(op::floor_divide, {{"floor_divide(Scalar input, Scalar other) -> Tensor", kFunction,
                              first_as_tensor(binary_call(floor_divide))}});
  PF_EITHER(remainder, "input", "other");
  PF_EITHER(fmod, "input", "other");
  PF_EITHER(pow, "input", "exponent");
  static constexpr auto refuse_zero = [](const Tensor& x, Scalar s, const std::string& mode) {
    PF_CHECK(s.is_float() || s.i != 0 || !is_integral(x->dtype, true), ValueError, "div",
             "got the divisor 0 for integers with rounding_mode='", mode,
             "'; expected another number; convert the tensor to a float dtype if inf or NaN is "
             "wanted");
  };
  const Call divide = [](std::vector<Value>& v) -> Value {
    const std::string mode = rounding(v[2]);
    auto* x = std::get_if<Tensor>(&v[0]);
    auto* y = std::get_if<Tensor>(&v[1]);
    if (mode == "none")
      return x && y ? pyflame::div(*x, *y)
             : x    ? pyflame::div(*x, scalar_of(v[1]))
                    : rdiv(*y, scalar_of(v[0]));
    // With a number, rounding goes through a tensor of one element.
    const Tensor& like = x ? *x : *y;
    auto tensor = [&](const Value& value, Tensor* t) -> Tensor {
      if (t) return *t;
      const Scalar s = scalar_of(value);
      if (&value == &v[1]) refuse_zero(like, s, mode);
      const Operand both[] = {like, s};
      return scalar_tensor(s, result_type(both), like->storage->device);
    };
    return pyflame::div(tensor(v[0], x), tensor(v[1], y), mode);
  };
  const Call divide_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    const std::string mode = rounding(v[2]);
    auto* y = std::get_if<Tensor>(&v[1]);
    if (mode == "none") return y ? pyflame::div_(x, *y) : pyflame::div_(x, scalar_of(v[1]));
    if (mode == "floor") return y ? floor_divide_(x, *y) : floor_divide_(x, scalar_of(v[1]));
    if (!y) refuse_zero(x, scalar_of(v[1]), mode);
    Tensor other = y ? *y : scalar_tensor(scalar_of(v[1]), x->dtype, x->storage->device);
    const bool keep = autograd::wanted({x, other});  // both gradients read the old value
    return ops::replaced(
        x, "div_", [&](const Tensor& t) { return pyflame::div(keep ? clone(t) : t, other, mode); },
        Old::kIsNotRead);
  };
  put_own(
      op::div,
      {{"div(Tensor input, Tensor other, *, str? rounding_mode=None) -> Tensor", kBoth, divide},
       {"div(Tensor input, Scalar other, *, str? rounding_mode=None) -> Tensor", kBoth, divide},
       {"div(Scalar input, Tensor other, *, str? rounding_mode=None) -> Tensor", kFunction, divide},
       {"div(Scalar input, Scalar other, *, str? rounding_mode=None) -> Tensor", kFunction,
        first_as_tensor(divide)},
       {"div_(Tensor input, Tensor other, *, str? rounding_mode=None) -> Tensor", kBoth,
        divide_into},
       {"div_(Tensor input, Scalar other, *, str? rounding_mode=None) -> Tensor", kBoth,
        divide_into}});
  const Call in_double = [](std::vector<Value>& v) -> Value {
    auto wide = [](const Value& a) {
      auto* t = std::get_if<Tensor>(&a);
      return t ? pyflame::to(*t, is_complex(*t) ? DType::Complex128 : DType::Float64)
               : scalar_tensor(scalar_of(a), DType::Float64);
    };
    if (!std::holds_alternative<Tensor>(v[1]))
      return pyflame::pow(wide(v[0]), Scalar(scalar_of(v[1]).to_double()));
    return pyflame::pow(wide(v[0]), wide(v[1]));
  };
  put_own(op::pow,
          {{"float_power(Tensor input, Tensor exponent) -> Tensor", kBoth, in_double},
           {"float_power(Tensor input, Scalar exponent) -> Tensor", kBoth, in_double},
           {"float_power(Scalar input, Tensor exponent) -> Tensor", kFunction, in_double}});
}

void register_special_values() {
  const Call negate = [](std::vector<Value>& v) -> Value { return neg(std::get<Tensor>(v[0])); };
  const Call negate_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    return neg_(x);
  };
  put_own(op::neg, {{"neg(Tensor input) -> Tensor", kBoth, negate},
                    {"neg_(Tensor input) -> Tensor", kBoth, negate_into}});
  const Call flip = [](std::vector<Value>& v) -> Value {
    return bitwise_not(std::get<Tensor>(v[0]));
  };
  const Call flip_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    return bitwise_not_(x);
  };
  put_own(op::bitwise_not, {{"bitwise_not(Tensor input) -> Tensor", kBoth, flip},
                            {"bitwise_not_(Tensor input) -> Tensor", kBoth, flip_into}});
  const Call rounded = [](std::vector<Value>& v) -> Value {
    return pyflame::round(std::get<Tensor>(v[0]), std::get<int64_t>(v[1]));
  };
  const Call rounded_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    const int64_t decimals = std::get<int64_t>(v[1]);
    if (decimals == 0) return round_(x);
    return ops::replaced(x, "round_", [&](const Tensor& t) { return pyflame::round(t, decimals); });
  };
  put_own(op::round, {{"round(Tensor input, *, int decimals=0) -> Tensor", kBoth, rounded},
                      {"round_(Tensor input, *, int decimals=0) -> Tensor", kBoth, rounded_into}});
  const Call numbers = [](std::vector<Value>& v) -> Value {
    return nan_to_num(std::get<Tensor>(v[0]), optional_double(v[1]), optional_double(v[2]),
                      optional_double(v[3]));
  };
  const Call numbers_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    return nan_to_num_(x, optional_double(v[1]), optional_double(v[2]), optional_double(v[3]));
  };
  put_own(op::nan_to_num,
          {{"nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> "
            "Tensor",
            kBoth, numbers},
           {"nan_to_num_(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> "
            "Tensor",
            kBoth, numbers_into}});
  put_own(op::isclose, {{"isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, "
                         "bool equal_nan=False) -> Tensor",
                         kBoth, [](std::vector<Value>& v) -> Value {
                           return isclose(std::get<Tensor>(v[0]), std::get<Tensor>(v[1]),
                                          scalar_of(v[2]).to_double(), scalar_of(v[3]).to_double(),
                                          std::get<bool>(v[4]));
                         }}});
  // The row has no eps: clamped first.
  const Call inverse_sigmoid = [](std::vector<Value>& v) -> Value {
    const Tensor& x = std::get<Tensor>(v[0]);
    const std::optional<Scalar> eps = optional_scalar(v[1]);
    if (!eps || !(eps->to_double() >= 0)) return logit(x);  // as PyTorch reads NaN, too
    const double low = eps->to_double();
    return logit(clamp(is_float(x->dtype) ? x : pyflame::to(x, default_dtype()), Scalar(low),
                       Scalar(1 - low)));
  };
  put_own(op::logit,
          {{"logit(Tensor input, float? eps) -> Tensor", kBoth, inverse_sigmoid},
           {"logit_(Tensor input, float? eps) -> Tensor", kBoth, [=](std::vector<Value>& v) {
              return Value(ops::replaced(std::get<Tensor>(v[0]), "logit_", [&](const Tensor& t) {
                v[0] = t;
                return std::get<Tensor>(inverse_sigmoid(v));
              }));
            }}});
  const Call unary_plus = [](std::vector<Value>& v) -> Value { return std::get<Tensor>(v[0]); };
  add(Op{"positive", "positive(Tensor input) -> Tensor", "The tensor itself.", "math", kBoth, true,
         unary_plus});
}

void register_activations() {
  const Call smooth = [](std::vector<Value>& v) -> Value {
    return gelu(std::get<Tensor>(v[0]), std::get<std::string>(v[1]));
  };
  const Call smooth_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    return gelu_(x, std::get<std::string>(v[1]));
  };
  put_own(op::gelu,
          {{"gelu(Tensor input, str approximate='none') -> Tensor",
            kFunction | kMethod | kFunctional, smooth},
           {"gelu_(Tensor input, str approximate='none') -> Tensor", kBoth, smooth_into}});
  put_own(op::prelu, {{"prelu(Tensor input, Tensor weight) -> Tensor",
                       kFunction | kMethod | kFunctional, [](std::vector<Value>& v) -> Value {
                         return prelu(std::get<Tensor>(v[0]), std::get<Tensor>(v[1]));
                       }}});
}

void register_choices() {
  const Call choose = [](std::vector<Value>& v) -> Value {
    return call_row(op::where, {operand_of(v[0]), operand_of(v[1]), operand_of(v[2])});
  };
  const Call choose_self = [](std::vector<Value>& v) -> Value {
    return call_row(op::where, {operand_of(v[1]), operand_of(v[0]), operand_of(v[2])});
  };
  put_own(
      op::where,
      {{"where(Tensor condition, Tensor input, Tensor other) -> Tensor", kFunction, choose},
       {"where(Tensor condition, Tensor input, Scalar other) -> Tensor", kFunction, choose},
       {"where(Tensor condition, Scalar input, Tensor other) -> Tensor", kFunction, choose},
       {"where(Tensor condition, Scalar input, Scalar other) -> Tensor", kFunction, choose},
       {"where(Tensor input, Tensor condition, Tensor other) -> Tensor", kMethod, choose_self},
       {"where(Tensor input, Tensor condition, Scalar other) -> Tensor", kMethod, choose_self}});
  const Call limit = [](std::vector<Value>& v) -> Value {
    return clamp(std::get<Tensor>(v[0]), optional_scalar(v[1]), optional_scalar(v[2]));
  };
  const Call limit_tensor = [](std::vector<Value>& v) -> Value {
    return clamp(std::get<Tensor>(v[0]), detail::Unbox<Tensor>::from(v[1]),
                 detail::Unbox<Tensor>::from(v[2]));
  };
  const Call limit_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    return clamp_(x, optional_scalar(v[1]), optional_scalar(v[2]));
  };
  const Call limit_tensor_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    return clamp_(x, detail::Unbox<Tensor>::from(v[1]), detail::Unbox<Tensor>::from(v[2]));
  };
  put_own(
      op::clamp,
      {{"clamp(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor", kBoth, limit_tensor},
       {"clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor", kBoth, limit},
       {"clamp_(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor", kBoth,
        limit_tensor_into},
       {"clamp_(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor", kBoth, limit_into}});
  put_own(op::clamp_min,
          {{"clamp_min(Tensor input, Tensor min) -> Tensor", kBoth,
            RowCall{op::clamp_min_tensor, 2, 0}},
           {"clamp_min(Tensor input, Scalar min) -> Tensor", kBoth, RowCall{op::clamp_min, 1, 1}},
           {"clamp_min_(Tensor input, Tensor min) -> Tensor", kBoth,
            RowCall{op::clamp_min_tensor, 2, 0, true}},
           {"clamp_min_(Tensor input, Scalar min) -> Tensor", kBoth,
            RowCall{op::clamp_min, 1, 1, true}}});
  put_own(op::clamp_max,
          {{"clamp_max(Tensor input, Tensor max) -> Tensor", kBoth,
            RowCall{op::clamp_max_tensor, 2, 0}},
           {"clamp_max(Tensor input, Scalar max) -> Tensor", kBoth, RowCall{op::clamp_max, 1, 1}},
           {"clamp_max_(Tensor input, Tensor max) -> Tensor", kBoth,
            RowCall{op::clamp_max_tensor, 2, 0, true}},
           {"clamp_max_(Tensor input, Scalar max) -> Tensor", kBoth,
            RowCall{op::clamp_max, 1, 1, true}}});
  // The two-operand forms of max and min.
  put_own(op::maximum,
          {{"max(Tensor input, Tensor other) -> Tensor", kBoth, RowCall{op::maximum, 2, 0}}});
  put_own(op::minimum,
          {{"min(Tensor input, Tensor other) -> Tensor", kBoth, RowCall{op::minimum, 2, 0}}});
  const Call fill = [](std::vector<Value>& v) -> Value {
    const Tensor& x = std::get<Tensor>(v[0]);
    const Tensor& mask = std::get<Tensor>(v[1]);
    if (auto* t = std::get_if<Tensor>(&v[2])) return masked_fill(x, mask, *t);
    return masked_fill(x, mask, scalar_of(v[2]));
  };
  const Call fill_into = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    const Tensor& mask = std::get<Tensor>(v[1]);
    if (auto* t = std::get_if<Tensor>(&v[2])) return copy_(x, masked_fill(x, mask, *t));
    return masked_fill_(x, mask, scalar_of(v[2]));
  };
  const char* doc = "input with value where mask is true. The gradient of a filled element is 0.";
  auto put = [&](const char* name, const char* schema, unsigned where, const Call& call) {
    add(Op{name, schema, doc, "choice", where, true, call});
  };
  put("masked_fill", "masked_fill(Tensor input, Tensor mask, Scalar value) -> Tensor", kBoth, fill);
  put("masked_fill", "masked_fill(Tensor input, Tensor mask, Tensor value) -> Tensor", kBoth, fill);
  put("masked_fill_", "masked_fill_(Tensor input, Tensor mask, Scalar value) -> Tensor", kBoth,
      fill_into);
  put("masked_fill_", "masked_fill_(Tensor input, Tensor mask, Tensor value) -> Tensor", kBoth,
      fill_into);
}

void register_writes() {
  const char* family = "in place";
  add(Op{"copy_", "copy_(Tensor input, Tensor src|other, bool non_blocking=False) -> Tensor",
         "Writes src into the tensor, broadcast to its shape and converted to its dtype.", family,
         kMethod, true, [](std::vector<Value>& v) -> Value {
           Tensor x = std::get<Tensor>(v[0]);
           return copy_(x, std::get<Tensor>(v[1]), std::get<bool>(v[2]));
         }});
  add(Op{"copy_", "copy_(Tensor input, Scalar src|other, bool non_blocking=False) -> Tensor",
         "Writes a number into every element.", family, kMethod, true,
         [](std::vector<Value>& v) -> Value {
           Tensor x = std::get<Tensor>(v[0]);
           return fill_(x, scalar_of(v[1]));
         }});
  const Call fill = [](std::vector<Value>& v) -> Value {
    Tensor x = std::get<Tensor>(v[0]);
    if (auto* t = std::get_if<Tensor>(&v[1])) {
      PF_CHECK((*t)->shape.empty(), ShapeError, "fill_", "got a value of shape ", (*t)->shape,
               "; expected a number or a 0-d tensor; use copy_() for more");
      check_fits(x, *t, "fill_");
      return copy_(x, *t);
    }
    return fill_(x, scalar_of(v[1]));
  };
  const char* doc = "Writes one value into every element.";
  add(Op{"fill_", "fill_(Tensor input, Scalar value) -> Tensor", doc, family, kBoth, true, fill});
  add(Op{"fill_", "fill_(Tensor input, Tensor value) -> Tensor", doc, family, kBoth, true, fill});
  add(Op{"zero_", "zero_(Tensor input) -> Tensor", "Writes 0 into every element.", family, kBoth,
         true, [](std::vector<Value>& v) -> Value {
           Tensor x = std::get<Tensor>(v[0]);
           return zero_(x);
         }});
}

// Other names of the same functions.
constexpr const char* kAliases[][2] = {
    {"absolute", "abs"},  {"negative", "neg"},    {"multiply", "mul"},  {"subtract", "sub"},
    {"divide", "div"},    {"true_divide", "div"}, {"greater", "gt"},    {"greater_equal", "ge"},
    {"less", "lt"},       {"less_equal", "le"},   {"not_equal", "ne"},  {"arcsin", "asin"},
    {"arccos", "acos"},   {"arctan", "atan"},     {"arcsinh", "asinh"}, {"arccosh", "acosh"},
    {"arctanh", "atanh"}, {"arctan2", "atan2"},   {"clip", "clamp"},    {"fix", "trunc"},
    {"sgn", "sign"},      {"expit", "sigmoid"},
};

void register_aliases(size_t begin) {
  const size_t end = table().size();
  for (size_t i = begin; i < end; ++i)
    for (const auto& [alias, name] : kAliases)
      for (const char* suffix : {"", "_"}) {
        const Op& row = table()[i];
        if (row.name != std::string(name) + suffix) continue;
        Op copy = row;
        copy.name = std::string(alias) + suffix;
        copy.schema = copy.name + row.schema.substr(row.name.size());
        copy.doc = "Another name of " + row.name + "(). " + row.doc;
        add(std::move(copy));
      }
}

const bool registered = [] {
  const size_t begin = table().size();
  for (OpId id = 0; id < kNumRows; ++id) {
    const PointwiseRow text = describe(id);
    if (text.family != "internal" && !has_own_functions(id)) register_row(id, kRowTable[id], text);
  }
  register_sums();
  register_divisions();
  register_special_values();
  register_activations();
  register_choices();
  register_writes();
  register_aliases(begin);
  return true;
}();

}  // namespace

void register_runtime_row(OpId id, const PointwiseRow& row) {
  static const char* kOperands[] = {"input", "other", "third"};
  const RowCall call{id, row.arity, static_cast<int>(row.attrs.size())};
  std::string attrs;
  for (const auto& [name, value] : row.attrs)
    attrs += ", Scalar " + name + "=" + number_text(value);
  auto put = [&](const std::string& params) {
    add(Op{row.name, row.name + "(" + params + attrs + ") -> Tensor", documentation(row),
           row.family, kFunction | kMethod, row.differentiable, call});
  };
  std::string params;
  for (int i = 0; i < row.arity; ++i)
    params += std::string(i ? ", Tensor " : "Tensor ") + kOperands[i];
  put(params);
  if (row.arity == 2) put("Tensor input, Scalar other");
}

}  // namespace pyflame::ops
