// pyflame.linalg: norms of vectors and matrices, and other names for products.
#include <cmath>
#include <limits>

#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

using std::optional;
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor converted(const Tensor& x, optional<DType> dtype, const char* op) {
  ops::check_defined(x, op, "input");
  const Tensor t = dtype ? to(x, *dtype) : x;
  if (!is_complex(t)) ops::check_floating(t, op);
  return t;
}

Tensor vector_norm(const Tensor& x, double ord, const optional<IntList>& dim, bool keepdim,
                   optional<DType> dtype) {
  const Tensor t = converted(x, dtype, "linalg.vector_norm");
  return norm(is_complex(t) ? abs(t) : t, ord, dim, keepdim);
}

// The two dimensions of a matrix norm, wrapped.
std::pair<int, int> matrix_dims(const Tensor& x, const IntList& dim, const char* op) {
  PF_CHECK(dim.size() == 2 && x->shape.size() >= 2, ShapeError, op, "got shape ", x->shape, " and ",
           dim.size(), " dimensions; expected two of at least two; pass dim=(-2, -1)");
  const int n = x->shape.size();
  const int a = wrap_dim(dim[0], n, op), b = wrap_dim(dim[1], n, op);
  PF_CHECK(a != b, ValueError, op, "got dimension ", a,
           " twice; expected two different ones; name another");
  return {a, b};
}

// Singular values of the matrices that two dimensions make, and the norm with these kept.
Tensor values_of(const Tensor& t, int rows, int columns, const char* op) {
  IntList order;
  for (int d = 0; d < t->shape.size(); ++d)
    if (d != rows && d != columns) order.push_back(d);
  order.insert(order.end(), {rows, columns});
  return linalg::svdvals(permute(t, order), op);
}
Tensor kept(const Tensor& y, int rows, int columns) {
  return unsqueeze(unsqueeze(y, std::min(rows, columns)), std::max(rows, columns));
}

Tensor matrix_norm_number(const Tensor& x, double ord, const IntList& dim, bool keepdim,
                          optional<DType> dtype) {
  const char* op = "linalg.matrix_norm";
  const Tensor t = converted(x, dtype, op);
  const auto [rows, columns] = matrix_dims(t, dim, op);
  PF_CHECK(std::abs(ord) == 1 || std::abs(ord) == 2 || std::abs(ord) == kInf, ValueError, op,
           "got ord ", ord,
           "; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf; pass one of these");
  if (std::abs(ord) == 2) {
    const Tensor s = values_of(t, rows, columns, op);
    const bool none = ord > 0 && s->numel == 0;  // whose largest is 0
    const Tensor y = none      ? sum(s, IntList{-1})
                     : ord > 0 ? amax(s, IntList{-1})
                               : amin(s, IntList{-1});
    return keepdim ? kept(y, rows, columns) : y;
  }
  // Sums of |x| down the columns (1) or along the rows (inf); the largest or smallest of them.
  const int over = std::abs(ord) == 1 ? rows : columns, of = std::abs(ord) == 1 ? columns : rows;
  const Tensor sums = sum(abs(t), IntList{over}, true);
  const Tensor y = ord > 0 ? amax(sums, IntList{of}, true) : amin(sums, IntList{of}, true);
  if (keepdim) return y;
  return squeeze(squeeze(y, std::max(rows, columns)), std::min(rows, columns));
}

Tensor matrix_norm(const Tensor& x, std::string ord, const IntList& dim, bool keepdim,
                   optional<DType> dtype) {
  const char* op = "linalg.matrix_norm";
  const Tensor t = converted(x, dtype, op);
  const auto [rows, columns] = matrix_dims(t, dim, op);
  PF_CHECK(ord == "fro" || ord == "nuc", ValueError, op, "got ord '", ord,
           "'; expected 'fro' or a number; pass one of them");
  if (ord == "nuc") {
    const Tensor y = sum(values_of(t, rows, columns, op), IntList{-1});
    return keepdim ? kept(y, rows, columns) : y;
  }
  return norm(is_complex(t) ? abs(t) : t, 2, IntList{rows, columns}, keepdim);
}

Tensor any_norm(const Tensor& x, optional<double> ord, const optional<IntList>& dim, bool keepdim,
                optional<DType> dtype) {
  ops::check_defined(x, "linalg.norm", "input");
  if (!ord) return vector_norm(x, 2, dim, keepdim, dtype);
  if (dim ? dim->size() == 2 : x->shape.size() == 2)
    return matrix_norm_number(x, *ord, dim.value_or(IntList{-2, -1}), keepdim, dtype);
  PF_CHECK(dim || x->shape.size() <= 1, ShapeError, "linalg.norm", "got shape ", x->shape,
           " and ord ", *ord, "; expected a vector or a matrix; pass dim");
  return vector_norm(x, *ord, dim, keepdim, dtype);
}
Tensor any_norm_named(const Tensor& x, std::string ord, const optional<IntList>& dim, bool keepdim,
                      optional<DType> dtype) {
  return matrix_norm(x, ord, dim.value_or(IntList{-2, -1}), keepdim, dtype);
}

Tensor multi_dot(const TensorList& factors) {
  PF_AUTOCAST("multi_dot", Lower, multi_dot, factors);
  PF_CHECK(factors.size() >= 2, ValueError, "linalg.multi_dot", "got ", factors.size(),
           " tensors; expected at least two; pass the factors");
  for (size_t i = 0; i < factors.size(); ++i) {
    ops::check_defined(factors[i], "linalg.multi_dot", "factor");
    const int n = factors[i]->shape.size();
    const bool end = i == 0 || i + 1 == factors.size();
    PF_CHECK(n == 2 || (end && n == 1), ShapeError, "linalg.multi_dot", "got shape ",
             factors[i]->shape, " as factor ", i,
             "; expected matrices; the first and the last may be vectors");
  }
  return product_of_all(factors);
}

}  // namespace

Tensor linalg::matrix_norm_of(const Tensor& a, double ord) {
  return matrix_norm_number(a, ord, {-2, -1}, false, {});
}
Tensor linalg::matrix_norm_named(const Tensor& a, const std::string& ord, const IntList& dim,
                                 bool keepdim) {
  return matrix_norm(a, ord, dim, keepdim, {});
}

namespace {

// Names begin with linalg_; pyflame/linalg.py takes that away.
const ops::Family kLinalg("linear algebra", [](ops::Family& f) {
  using namespace ops;
  const auto row = [](const char* schema, const char* doc) { return Row{schema, doc, kSpecial}; };
  f.op(&any_norm,
       row("linalg_norm(Tensor input, float? ord=None, int[]? dim=None, bool keepdim=False, *, "
           "dtype? dtype=None) -> Tensor",
           "matrix_norm over two dimensions, vector_norm else; without `ord` the 2-norm of all."));
  f.op(&any_norm_named, row("linalg_norm(Tensor input, str ord, int[]? dim=None, bool "
                            "keepdim=False, *, dtype? dtype=None) -> Tensor",
                            "matrix_norm by name: 'fro' or 'nuc'."));
  f.op(&vector_norm,
       row("linalg_vector_norm(Tensor input, float ord=2, int[]? dim=None, bool keepdim=False, *, "
           "dtype? dtype=None) -> Tensor",
           "(sum |x|^ord)^(1/ord) over `dim`, or over all elements; inf, -inf and 0 as in norm."));
  f.op(&matrix_norm,
       row("linalg_matrix_norm(Tensor input, str ord='fro', int[] dim=[-2, -1], bool "
           "keepdim=False, *, dtype? dtype=None) -> Tensor",
           "The Frobenius norm of matrices, or with 'nuc' the sum of their singular values."));
  f.op(&matrix_norm_number,
       row("linalg_matrix_norm(Tensor input, float ord, int[] dim=[-2, -1], bool keepdim=False, *, "
           "dtype? dtype=None) -> Tensor",
           "1 and -1: the largest and smallest sum of |x| down a column; inf and -inf: along a "
           "row; 2 and -2: the largest and smallest singular value."));
  f.op(&multi_dot, row("linalg_multi_dot(Tensor[] tensors) -> Tensor",
                       "Product of several matrices; the first and last may be vectors."));
  f.op(&cross, row("linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor",
                   "Cross product of vectors of three elements along `dim`."));
  f.op(&vecdot, row("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
                    "Sum of products along one dimension."));
  f.op(&matrix_power, row("linalg_matrix_power(Tensor input, int n) -> Tensor",
                          "Square matrices to a power; a negative one is of the inverse."));
  f.op(&pyflame::matmul,
       row("linalg_matmul(Tensor input, Tensor other) -> Tensor", "The same as pyflame.matmul."));
  f.op(&pyflame::diagonal, row("linalg_diagonal(Tensor input, int offset=0, int dim1=-2, int "
                               "dim2=-1) -> Tensor",
                               "The diagonals of matrices; a view."));
});

}  // namespace
}  // namespace pyflame
