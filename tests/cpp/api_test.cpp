// pyflame/ops.h, which is printed from the registry: every operation can be called, what it calls
// is there, and a direct call gives what one through the registry does.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/pointwise.h"
#include "ops/registry.h"
#include "pyflame/optim_ops.h"
#include "pyflame/pyflame.h"
#include "table/schema.h"

namespace pyflame {
namespace {

#define PF_PLAIN(...) __VA_ARGS__

// Calls as a program writes them, with literals: none is ambiguous, each gives what its schema
// says.
[[maybe_unused]] void calls(Tensor& x, const TensorList& list) {
#define PF_CALL(SCHEMA, RESULT, CALL) \
  static_assert(std::is_same_v<decltype(PF_PLAIN CALL), PF_PLAIN RESULT>, SCHEMA);
#define PF_DIRECT(SCHEMA, RESULT, NAME, PARAMETERS)
#include "ops_checks.inc"
#undef PF_CALL
}

std::set<std::string> printed() {
  return {
#define PF_CALL(SCHEMA, RESULT, CALL) SCHEMA,
#include "ops_checks.inc"
#undef PF_CALL
#undef PF_DIRECT
  };
}

template <class F>
void* address(F* f) {
  return reinterpret_cast<void*>(f);
}

TEST(Api, EveryOperationHasAFunction) {
  // Rows with an underscore are how Python's modules reach functions that C++ has by other names.
  const std::map<std::string, void*> underscored = {
      {"_init_uniform_", address(&init::uniform_)},
      {"_init_normal_", address(&init::normal_)},
      {"_init_trunc_normal_", address(&init::trunc_normal_)},
      {"_init_constant_", address(&init::constant_)},
      {"_init_eye_", address(&init::eye_)},
      {"_init_xavier_uniform_", address(&init::xavier_uniform_)},
      {"_init_xavier_normal_", address(&init::xavier_normal_)},
      {"_init_kaiming_uniform_", address(&init::kaiming_uniform_)},
      {"_init_kaiming_normal_", address(&init::kaiming_normal_)},
      {"_init_orthogonal_", address(&init::orthogonal_)},
      {"_init_sparse_", address(&init::sparse_)},
      {"_init_dirac_", address(&init::dirac_)},
      {"_init_calculate_gain", address(&init::calculate_gain)},
      {"_init_linear_", address(&init::linear_)},
      {"_init_embedding_", address(&init::embedding_)},
      {"_zeros_beside", address(&zeros_beside)},
      {"_scaled_mm", address(&scaled_mm)},
      {"_to_float8", address(&to_float8)},
      {"_int_mm", address<Tensor(const Tensor&, const Tensor&)>(&int_mm)},
      {"_sgd", address(&sgd_step)},
      {"_adamw", address(&adamw_step)},
      {"_optim_step", address(&optim_step)},
      {"_multi_norm", address(&multi_norm)},
      {"_clip_grad_norm_", address<Tensor(const TensorList&, double, double)>(&clip_grad_norm_)},
      {"_clip_grad_value_", address(&clip_grad_value_)},
      {"_found_nonfinite", address(&found_nonfinite)},
      {"_warmup_cosine", address(&optim::warmup_cosine)},
  };
  // Not in C++ yet: what pyflame.finance and nn.attention.flex_attention alone call.
  const std::set<std::string> of_python = {"_binned_sums", "_scored_attention"};
  std::set<std::string> at_run_time;  // rows that other tests define
  for (const ops::PointwiseRow& row : ops::pointwise_rows())
    if (row.runtime) at_run_time.insert(row.name);
  const std::set<std::string> functions = printed();
  int methods = 0;
  for (const ops::Op& op : ops::table()) {
    if (op.where & ops::kOld || at_run_time.contains(op.name)) continue;
    if (op.name[0] == '_') {
      EXPECT_TRUE(underscored.contains(op.name) || of_python.contains(op.name)) << op.schema;
    } else if (!functions.contains(op.schema)) {
      EXPECT_EQ(op.name, "where");  // the method, whose arguments stand in another order
      EXPECT_EQ(op.where, unsigned{ops::kMethod});
      ++methods;
    }
  }
  EXPECT_EQ(methods, 2);
  for (const std::string& schema : functions) EXPECT_EQ(ops::find(schema).schema, schema);
}

// ---- direct calls and calls of the registry -----------------------------------------------------
// Values, or the words of the error.
template <class F>
std::string outcome(F call) {
  manual_seed(3);
  try {
    const Tensor t = call();
    std::ostringstream s;
    s << t.dtype() << t.shape() << t.strides();
    for (double v : t.to_vector<double>()) s << " " << std::hexfloat << v;
    return s.str();
  } catch (const Error& e) {
    return e.what();
  }
}

template <class T>
constexpr bool kTensor = std::is_same_v<std::decay_t<T>, Tensor>;
template <class T>
constexpr bool kTensorOrScalar = kTensor<T> || std::is_same_v<T, Scalar>;

// Compares functions of tensors and numbers alone, over operands of one dtype.
struct Compare {
  DType dtype;
  int count = 0;

  template <class T>
  T operand(size_t i) const {
    static constexpr float kFirst[] = {0.25F, -0.5F, 3, 2, 1, -7}, kOther[] = {-1, 0.5F, 2};
    if constexpr (std::is_same_v<T, Scalar>)
      return 2.5;
    else
      return to(from_host(i ? kOther : kFirst, i ? IntList{3} : IntList{2, 3}, DType::Float32),
                dtype);
  }

  template <class R, class... A>
  requires(kTensor<R> && (kTensorOrScalar<A> && ...)) void operator()(const char* schema,
                                                                      R (*f)(A...)) {
    if (std::string_view(schema).starts_with("empty")) return;  // any values
    ++count;
    [&]<size_t... I>(std::index_sequence<I...>) {
      const auto direct = outcome([&]() -> Tensor {
        std::tuple<std::decay_t<A>...> operands{operand<std::decay_t<A>>(I)...};
        return f(std::get<I>(operands)...);
      });
      const auto boxed = outcome([&] {
        std::vector<ops::Value> values{ops::Value(operand<std::decay_t<A>>(I))...};
        const table::Schema parsed = table::parse_schema(schema);
        while (values.size() < parsed.params.size())
          values.push_back(parsed.params[values.size()].default_value);
        return std::get<Tensor>(ops::call(ops::find(schema), values));
      });
      EXPECT_EQ(direct, boxed) << schema << " of " << dtype;
    }
    (std::index_sequence_for<A...>());
  }
  template <class F>
  void operator()(const char*, F*) {}
};

TEST(Api, DirectFunctionsDoWhatTheRegistryDoes) {
  for (DType dtype : {DType::Float32, DType::Int64, DType::Bool}) {
    Compare compare{dtype};
#define PF_CALL(SCHEMA, RESULT, CALL)
#define PF_DIRECT(SCHEMA, RESULT, NAME, PARAMETERS) \
  compare(SCHEMA, static_cast<PF_PLAIN RESULT (*)(PF_PLAIN PARAMETERS)>(&NAME));
#include "ops_checks.inc"
#undef PF_CALL
#undef PF_DIRECT
    EXPECT_GT(compare.count, 200);
  }
}

}  // namespace
}  // namespace pyflame

// ---- samples, as a program has them -------------------------------------------------------------
namespace {

namespace pf = pyflame;
using pf::IntList;
using pf::Tensor;

using Numbers = std::vector<double>;

Tensor floats(const std::vector<float>& values, const IntList& shape) {
  return pf::from_host(values.data(), shape, pf::DType::Float32);
}
Tensor whole(const std::vector<int64_t>& values) {
  return pf::from_host(values.data(), {static_cast<int64_t>(values.size())}, pf::DType::Int64);
}
Numbers numbers(const Tensor& t) {
  return t.to_vector<double>();
}

TEST(Api, DefaultsAndKeywords) {
  const Tensor x = floats({1, 2, 3, 4}, {2, 2}), one = pf::ones({2, 2});
  EXPECT_EQ(numbers(pf::addmm(one, x, x)), (Numbers{8, 11, 16, 23}));
  EXPECT_EQ(numbers(pf::addmm(one, x, x, 2, 0.5)), (Numbers{5.5, 7, 9.5, 13}));
  EXPECT_EQ(numbers(pf::var(x, {{1}})), (Numbers{0.5, 0.5}));
  EXPECT_EQ(numbers(pf::var(x, {{1}}, false)), (Numbers{0.25, 0.25}));
  EXPECT_EQ(pf::var(x, {}, true, false, 0).item<double>(), 1.25);
  EXPECT_EQ(pf::var(x, false).item<double>(), 1.25);
  EXPECT_EQ(numbers(pf::div(x, 2, "floor")), (Numbers{0, 1, 1, 2}));
  EXPECT_EQ(numbers(pf::logit(floats({0.5F, 2}, {2}), 0.5)), (Numbers{0, 0}));
  EXPECT_EQ(numbers(pf::clamp(x, 2)), (Numbers{2, 2, 3, 4}));
  EXPECT_EQ(numbers(pf::clamp(x, {}, 3)), (Numbers{1, 2, 3, 3}));
  EXPECT_EQ(numbers(pf::clamp(x, {}, one)), (Numbers{1, 1, 1, 1}));
  EXPECT_EQ(pf::linalg_norm(x, "fro").item<double>(), std::sqrt(30.0F));
  EXPECT_EQ(pf::linalg_matrix_norm(x, 1).item<double>(), 6);
}

TEST(Api, OverloadsByTypeAndNumber) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {6});
  EXPECT_EQ(pf::split(x, 4).size(), 2u);
  EXPECT_EQ(pf::split(x, {1, 2, 3})[2].numel(), 3);
  EXPECT_EQ(pf::tensor_split(x, 1).size(), 1u);
  EXPECT_EQ(pf::tensor_split(x, {1}).size(), 2u);  // where to cut, not how many
  EXPECT_EQ(pf::tensor_split(x, whole({1, 2})).size(), 3u);
  EXPECT_EQ(numbers(pf::isin(x, 3)), (Numbers{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(pf::isin(3, x).item<bool>(), true);
  EXPECT_EQ(numbers(pf::searchsorted(x, floats({2, 9}, {2}), false, true)), (Numbers{2, 6}));
  EXPECT_EQ(pf::searchsorted(x, 2).item<int64_t>(), 1);
  EXPECT_EQ(numbers(pf::where(pf::gt(x, 4), x, 0)), (Numbers{0, 0, 0, 0, 5, 6}));
  EXPECT_EQ(pf::arange(3).numel(), 3);
  EXPECT_EQ(numbers(pf::arange(1, 2, 0.25)), (Numbers{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(pf::arange(3, pf::DType::Float64).dtype(), pf::DType::Float64);
  EXPECT_EQ(pf::randint(5, 6, {2}).to_vector<int64_t>(), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(pf::randint(1, {2}).to_vector<int64_t>(), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(pf::view(x, {2, 3}).dim(), 2);
  EXPECT_EQ(pf::view(x, pf::DType::Int32).dtype(), pf::DType::Int32);
  EXPECT_EQ(pf::softmax(x, 0).numel(), 6);
}

TEST(Api, SeveralResultsAndLists) {
  const Tensor x = floats({3, 1, 2, 3}, {4});
  const auto [values, indices] = pf::kthvalue(x, 2);
  EXPECT_EQ(values.item<double>(), 2);
  EXPECT_EQ(indices.item<int64_t>(), 2);
  const auto [low, high] = pf::aminmax(x);
  EXPECT_EQ(high.item<double>() - low.item<double>(), 2);
  EXPECT_EQ(pf::var_mean(x).second.item<double>(), 2.25);
  EXPECT_EQ(numbers(pf::unique(x)[0]), (Numbers{1, 2, 3}));
  const pf::TensorList all = pf::unique(x, true, true, true);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(numbers(all[2]), (Numbers{1, 1, 2}));
  EXPECT_EQ(pf::nonzero(x).shape(), (pf::Dims{4, 1}));
  EXPECT_EQ(pf::nonzero(x, true).size(), 1u);
  EXPECT_EQ(pf::meshgrid({x, x}, "ij").size(), 2u);
  EXPECT_EQ(pf::atleast_2d(pf::TensorList{x, x}).size(), 2u);
  EXPECT_EQ(pf::atleast_2d(x).dim(), 2);
  EXPECT_TRUE(pf::is_same_size(x, x));
}

TEST(Api, OptionalTensorsAndTypes) {
  EXPECT_EQ(numbers(pf::bincount(whole({0, 2, 2}))), (Numbers{1, 0, 2}));
  EXPECT_EQ(numbers(pf::bincount(whole({0, 2}), floats({0.5F, 2}, {2}), 4)),
            (Numbers{0.5, 0, 2, 0}));
  EXPECT_EQ(pf::zeros({2}, pf::DType::Int32, pf::Device(), false).dtype(), pf::DType::Int32);
  EXPECT_TRUE(pf::full({2}, 1.5, {}, {}, true).requires_grad());
  EXPECT_EQ(pf::full_like(pf::zeros({2}), 3, pf::DType::Int64).dtype(), pf::DType::Int64);
  EXPECT_EQ(pf::new_zeros(pf::zeros({2}, pf::DType::Float64), {3}).dtype(), pf::DType::Float64);
  EXPECT_EQ(pf::clone(pf::zeros({2}), "contiguous_format").numel(), 2);
}

TEST(Api, InPlace) {
  Tensor x = pf::zeros({2, 2});
  EXPECT_EQ(pf::addmm_(x, pf::ones({2, 2}), pf::ones({2, 2})).impl(), x.impl());
  EXPECT_EQ(numbers(x), (Numbers{2, 2, 2, 2}));
  pf::index_fill_(x, 0, whole({1}), -1);
  pf::lerp_(x, pf::zeros({2, 2}), 0.5);
  EXPECT_EQ(numbers(x), (Numbers{1, 1, -0.5, -0.5}));
  pf::unsqueeze_(x, 0);
  EXPECT_EQ(x.shape(), (pf::Dims{1, 2, 2}));
  EXPECT_GT(pf::amax(pf::random_(x)).item<double>(), 10);
  EXPECT_LT(pf::amax(pf::random_(x, 4)).item<double>(), 4);
  EXPECT_GE(pf::amin(pf::random_(x, 2, 4)).item<double>(), 2);
}

TEST(Api, GradientsAndErrorsPassThrough) {
  Tensor x = floats({1, 2, 3, 4}, {2, 2});
  x.requires_grad_();
  pf::trace(pf::matrix_power(x, 2)).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{2, 6, 4, 8}));
  EXPECT_THROW(pf::addmm(x, x, pf::zeros({3, 3})), pf::ShapeError);
  EXPECT_THROW(pf::scatter_reduce(x, 0, x, x, "sum"), pf::DTypeError);
  EXPECT_THROW(pf::ops::find("addmm(Tensor input) -> Tensor"), pf::NotSupportedError);
}

}  // namespace
