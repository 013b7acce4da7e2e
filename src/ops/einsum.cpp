// Einstein sums: parsed into labels for each dimension, then contracted pair by pair with matmul.
#include <algorithm>
#include <bitset>
#include <string>
#include <vector>

#include "core/tensor_impl.h"
#include "ops/autocast.h"
#include "ops/functions.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {

Tensor diagonal(const Tensor&, int64_t offset, int64_t dim1, int64_t dim2);

namespace {

constexpr int kLetters = 52, kLabels = kLetters + kMaxDims;  // A-Z, a-z, dimensions of '...'
using LabelSet = std::bitset<kLabels>;
using Labels = std::vector<int>;

struct Term {
  Tensor t;
  Labels labels;  // one for each dimension
  LabelSet set() const {
    LabelSet s;
    for (int l : labels) s.set(static_cast<size_t>(l));
    return s;
  }
};

int label_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return 26 + c - 'a';
  return -1;
}
std::string name_of(int label) {
  if (label >= kLetters) return "...";
  return std::string(1, static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26));
}

// The labels of one subscript; -1 stands for the ellipsis.
Labels parse(const std::string& text, const std::string& equation) {
  Labels r;
  bool ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      PF_CHECK(!ellipsis && text.compare(i, 3, "...") == 0, ValueError, "einsum", "got '", equation,
               "'; expected at most one '...' in each subscript; check the dots");
      ellipsis = true;
      r.push_back(-1);
      i += 2;
      continue;
    }
    const int l = label_of(text[i]);
    PF_CHECK(l >= 0, ValueError, "einsum", "got '", equation, "' with the character '", text[i],
             "'; expected letters, ',', '...' and one '->'; remove it");
    r.push_back(l);
  }
  return r;
}

class Einsum {
 public:
  Einsum(const std::string& equation, const TensorList& operands) : equation_(equation) {
    std::string text;
    for (char c : equation)
      if (c != ' ') text += c;
    const size_t arrow = text.find("->");
    std::vector<Labels> inputs;
    const std::string left = text.substr(0, arrow);
    for (size_t begin = 0;;) {
      const size_t comma = left.find(',', begin);
      inputs.push_back(parse(left.substr(begin, comma - begin), equation));
      if (comma == std::string::npos) break;
      begin = comma + 1;
    }
    PF_CHECK(inputs.size() == operands.size(), ValueError, "einsum", "got '", equation, "' with ",
             inputs.size(), " subscripts for ", operands.size(),
             " operands; expected one for each; separate them by commas");
    bind(inputs, operands);
    if (arrow != std::string::npos)
      explicit_output(parse(text.substr(arrow + 2), equation));
    else
      implicit_output(inputs);
    for (Term& t : terms_) simplify(t);
  }

  Tensor run() {
    while (terms_.size() > 1) {
      auto [i, j] = next_pair();
      Term b = std::move(terms_[j]);
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(j));
      Term a = std::move(terms_[i]);
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(i));
      LabelSet keep = output_set_;
      for (const Term& t : terms_) keep |= t.set();
      terms_.insert(terms_.begin() + static_cast<std::ptrdiff_t>(i), contract(a, b, keep));
    }
    Term t = std::move(terms_[0]);
    sum_out(t, output_set_);
    // Labels of the output whose every operand had size 1 are all here; order them.
    return arrange(t, output_);
  }

 private:
  void bind(const std::vector<Labels>& inputs, const TensorList& operands) {
    std::vector<int> dots(inputs.size(), 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = operands[i];
      PF_CHECK(t.defined(), ValueError, "einsum", "got an undefined operand ", i,
               "; expected tensors; pass one");
      PF_CHECK(t->dtype == operands[0]->dtype, DTypeError, "einsum", "got ", operands[0]->dtype,
               " and ", t->dtype, "; expected all to have the same dtype; convert with .to(dtype)");
      ops::check_same_device(operands[0], t, "einsum");
      const bool has = std::count(inputs[i].begin(), inputs[i].end(), -1) > 0;
      const int named = static_cast<int>(inputs[i].size()) - (has ? 1 : 0);
      dots[i] = t->shape.size() - named;
      PF_CHECK(has ? dots[i] >= 0 : dots[i] == 0, ShapeError, "einsum", "got operand ", i,
               " of shape ", t->shape, " for a subscript of ", named,
               has ? " letters and '...'" : " letters", " in '", equation_,
               "'; expected as many dimensions as letters; fix the subscript");
      if (has) most_dots_ = std::max(most_dots_, dots[i]);
    }
    std::fill(std::begin(sizes_), std::end(sizes_), -1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      Term term{operands[i], {}};
      for (int l : inputs[i]) {
        if (l >= 0)
          term.labels.push_back(l);
        else
          for (int d = most_dots_ - dots[i]; d < most_dots_; ++d)
            term.labels.push_back(kLetters + d);
      }
      for (size_t d = 0; d < term.labels.size(); ++d) {
        int64_t& size = sizes_[term.labels[d]];
        const int64_t have = term.t->shape[static_cast<int>(d)];
        PF_CHECK(size < 0 || size == 1 || have == 1 || size == have, ShapeError, "einsum",
                 "got sizes ", size, " and ", have, " for '", name_of(term.labels[d]), "' in '",
                 equation_, "' (operand ", i, " has shape ", term.t->shape,
                 "); expected one size for each label; check the operands");
        if (size < 0 || size == 1) size = have;
      }
      terms_.push_back(std::move(term));
    }
  }

  void explicit_output(const Labels& subscript) {
    for (int l : subscript) {
      if (l < 0) {
        for (int d = 0; d < most_dots_; ++d) output_.push_back(kLetters + d);
        continue;
      }
      PF_CHECK(sizes_[l] >= 0, ValueError, "einsum", "got '", equation_, "' whose output has '",
               name_of(l), "'; expected labels of the operands; remove it");
      PF_CHECK(std::count(output_.begin(), output_.end(), l) == 0, ValueError, "einsum", "got '",
               equation_, "' whose output repeats '", name_of(l),
               "'; expected each label once; remove one");
      output_.push_back(l);
    }
    for (int l : output_) output_set_.set(static_cast<size_t>(l));
  }

  // The ellipsis first, then the letters that occur once, in alphabetical order.
  void implicit_output(const std::vector<Labels>& inputs) {
    int count[kLetters] = {};
    for (const Labels& in : inputs)
      for (int l : in)
        if (l >= 0) ++count[l];
    for (int d = 0; d < most_dots_; ++d) output_.push_back(kLetters + d);
    for (int l = 0; l < kLetters; ++l)
      if (count[l] == 1) output_.push_back(l);
    for (int l : output_) output_set_.set(static_cast<size_t>(l));
  }

  // Repeated labels become diagonals; dimensions of size 1 that broadcast go.
  void simplify(Term& t) {
    for (size_t i = 0; i < t.labels.size(); ++i)
      if (t.labels.size() > i && sizes_[t.labels[i]] != 1 && t.t->shape[static_cast<int>(i)] == 1) {
        t.t = squeeze(t.t, static_cast<int64_t>(i));
        t.labels.erase(t.labels.begin() + static_cast<std::ptrdiff_t>(i));
        --i;
      }
    for (size_t i = 0; i < t.labels.size(); ++i)
      for (size_t j = i + 1; j < t.labels.size(); ++j)
        if (t.labels[i] == t.labels[j]) {
          const int label = t.labels[i];
          t.t = diagonal(t.t, 0, static_cast<int64_t>(i), static_cast<int64_t>(j));
          t.labels.erase(t.labels.begin() + static_cast<std::ptrdiff_t>(j));
          t.labels.erase(t.labels.begin() + static_cast<std::ptrdiff_t>(i));
          t.labels.push_back(label);
          i = 0;
          j = 0;
        }
  }

  // The pair whose result is smallest beside its operands; the first of equals.
  std::pair<size_t, size_t> next_pair() const {
    if (terms_.size() == 2) return {0, 1};
    double best = 0;
    std::pair<size_t, size_t> pair{0, 1};
    for (size_t i = 0; i < terms_.size(); ++i)
      for (size_t j = i + 1; j < terms_.size(); ++j) {
        LabelSet keep = output_set_;
        for (size_t o = 0; o < terms_.size(); ++o)
          if (o != i && o != j) keep |= terms_[o].set();
        const LabelSet result = (terms_[i].set() | terms_[j].set()) & keep;
        double cost = 1;
        for (int l = 0; l < kLabels; ++l)
          if (result[static_cast<size_t>(l)]) cost *= double(sizes_[l]);
        cost -= double(terms_[i].t->numel) + double(terms_[j].t->numel);
        if ((i == 0 && j == 1) || cost < best) best = cost, pair = {i, j};
      }
    return pair;
  }

  // Sums over the labels that nobody needs any more.
  static void sum_out(Term& t, const LabelSet& keep) {
    IntList dims;
    Labels left;
    for (size_t i = 0; i < t.labels.size(); ++i)
      if (keep[static_cast<size_t>(t.labels[i])])
        left.push_back(t.labels[i]);
      else
        dims.push_back(static_cast<int64_t>(i));
    if (dims.empty()) return;
    t.t = sum(t.t, dims, false, t.t->dtype);
    t.labels = left;
  }

  static Tensor arrange(const Term& t, const Labels& order) {
    IntList dims;
    bool same = true;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto at = std::find(t.labels.begin(), t.labels.end(), order[i]) - t.labels.begin();
      dims.push_back(at);
      same = same && at == static_cast<std::ptrdiff_t>(i);
    }
    return same ? t.t : permute(t.t, dims);
  }

  Term contract(Term& a, Term& b, const LabelSet& keep) const {
    const LabelSet in_a = a.set(), in_b = b.set();
    sum_out(a, keep | in_b);
    sum_out(b, keep | in_a);
    Labels batch, summed, left, right;
    for (int l : a.labels) {
      if (!in_b[static_cast<size_t>(l)])
        left.push_back(l);
      else if (keep[static_cast<size_t>(l)])
        batch.push_back(l);
      else
        summed.push_back(l);
    }
    for (int l : b.labels)
      if (!in_a[static_cast<size_t>(l)]) right.push_back(l);
    Labels result = batch;
    result.insert(result.end(), left.begin(), left.end());
    result.insert(result.end(), right.begin(), right.end());
    if (summed.empty()) return {outer_product(a, b, batch, left, right), result};
    PF_CHECK(a.t->dtype != DType::Bool, DTypeError, "einsum",
             "got bool; expected a dtype with arithmetic; convert with .to(dtype)");

    // [batch..., left, summed] times [batch..., summed, right], each group one dimension.
    auto matrix = [&](const Term& t, const Labels& rows, const Labels& cols) {
      Labels order = batch;
      order.insert(order.end(), rows.begin(), rows.end());
      order.insert(order.end(), cols.begin(), cols.end());
      IntList shape;
      for (int l : batch) shape.push_back(sizes_[l]);
      shape.push_back(product_of(rows));
      shape.push_back(product_of(cols));
      const Tensor ordered = arrange(t, order);
      return ordered->shape == Dims(shape) ? ordered : reshape(ordered, shape);
    };
    Tensor r =
        product(matrix(a, left, summed), matrix(b, summed, right), {}, false, false, "einsum");
    IntList shape;
    for (int l : result) shape.push_back(sizes_[l]);
    return {r->shape == Dims(shape) ? r : reshape(r, shape), result};
  }

  Tensor outer_product(const Term& a, const Term& b, const Labels& batch, const Labels& left,
                       const Labels& right) const {
    Labels la = batch, lb = batch;
    la.insert(la.end(), left.begin(), left.end());
    lb.insert(lb.end(), right.begin(), right.end());
    Tensor x = arrange(a, la), y = arrange(b, lb);
    for (size_t i = 0; i < right.size(); ++i) x = unsqueeze(x, -1);
    for (size_t i = 0; i < left.size(); ++i) y = unsqueeze(y, static_cast<int64_t>(batch.size()));
    return mul(x, y);
  }

  int64_t product_of(const Labels& labels) const {
    int64_t n = 1;
    for (int l : labels) n *= sizes_[l];
    return n;
  }

  std::string equation_;
  std::vector<Term> terms_;
  Labels output_;
  LabelSet output_set_;
  int64_t sizes_[kLabels];
  int most_dots_ = 0;
};

}  // namespace

Tensor einsum(const std::string& equation, const TensorList& operands) {
  PF_AUTOCAST("einsum", Lower, einsum, equation, operands);
  PF_CHECK(!operands.empty(), ValueError, "einsum", "got '", equation,
           "' without operands; expected at least one; pass the tensors after the equation");
  return Einsum(equation, operands).run();
}

Tensor tensordot(const Tensor& first, const Tensor& second, const IntList& dims_a,
                 const IntList& dims_b) {
  PF_AUTOCAST("tensordot", Promote, tensordot, first, second, dims_a, dims_b);
  Tensor a = first, b = second;
  PF_CHECK(a.defined() && b.defined() && a->dtype == b->dtype, DTypeError, "tensordot",
           "got tensors of different dtypes; expected the same; convert one with .to(dtype)");
  PF_CHECK(dims_a.size() == dims_b.size(), ShapeError, "tensordot", "got ", dims_a.size(), " and ",
           dims_b.size(), " dimensions to sum over; expected as many; match the two lists");
  const int na = a->shape.size(), nb = b->shape.size();
  std::vector<bool> used_a(static_cast<size_t>(na)), used_b(static_cast<size_t>(nb));
  IntList sum_a, sum_b, free_a, free_b, shape;
  int64_t summed = 1;
  for (size_t i = 0; i < dims_a.size(); ++i) {
    const int da = wrap_dim(dims_a[i], na, "tensordot"), db = wrap_dim(dims_b[i], nb, "tensordot");
    // A size of 1 broadcasts: the other side is summed first.
    if (na > da && nb > db && b->shape[db] == 1 && a->shape[da] != 1)
      a = sum(a, IntList{da}, true, a->dtype);
    else if (na > da && nb > db && a->shape[da] == 1 && b->shape[db] != 1)
      b = sum(b, IntList{db}, true, b->dtype);
    PF_CHECK(na > da && nb > db && !used_a[static_cast<size_t>(da)] &&
                 !used_b[static_cast<size_t>(db)] && a->shape[da] == b->shape[db],
             ShapeError, "tensordot", "got ", a->shape, " and ", b->shape, " with dimensions ", da,
             " and ", db, "; expected equal sizes, each dimension once; check dims");
    used_a[static_cast<size_t>(da)] = used_b[static_cast<size_t>(db)] = true;
    sum_a.push_back(da);
    sum_b.push_back(db);
    summed *= a->shape[da];
  }
  int64_t rows = 1, cols = 1;
  for (int d = 0; d < na; ++d)
    if (!used_a[static_cast<size_t>(d)])
      free_a.push_back(d), shape.push_back(a->shape[d]), rows *= a->shape[d];
  for (int d = 0; d < nb; ++d)
    if (!used_b[static_cast<size_t>(d)])
      free_b.push_back(d), shape.push_back(b->shape[d]), cols *= b->shape[d];
  free_a.insert(free_a.end(), sum_a.begin(), sum_a.end());
  sum_b.insert(sum_b.end(), free_b.begin(), free_b.end());
  return reshape(matmul(reshape(permute(a, free_a), {rows, summed}),
                        reshape(permute(b, sum_b), {summed, cols})),
                 shape);
}

namespace ops {
namespace {

const Family kEinsum("matrix products", [](Family& f) {
  f.op(&einsum, {"einsum(str equation, Tensor[] operands) -> Tensor",
                 "Sum of products by named dimensions: 'ij,jk->ik' is a matrix product. Letters "
                 "that are not in the output are summed over, a letter repeated in one operand "
                 "takes its diagonal, '...' stands for dimensions that broadcast. Without '->' the "
                 "output has the letters that occur once, in alphabetical order.",
                 kFunction});
  f.op(&tensordot, {"tensordot(Tensor a, Tensor b, int[] dims_a, int[] dims_b) -> Tensor",
                    "Sum of products over dimensions dims_a of a and dims_b of b.", kSpecial});
});

}  // namespace
}  // namespace ops
}  // namespace pyflame
