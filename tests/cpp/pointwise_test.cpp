// Pointwise operations through the C++ interface: dtypes, broadcasting, numbers, gradients,
// in-place forms, rows made at run time.
#include "ops/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "ops/record.h"
#include "pyflame/pyflame.h"
#include "table/expr.h"
#include "table/sym.h"

namespace pyflame {
namespace {

Tensor of(std::vector<double> v, DType dtype = DType::Float32) {
  return to(from_host(v.data(), {static_cast<int64_t>(v.size())}, DType::Float64), dtype);
}
Tensor number(double v, DType dtype) {
  return full({}, v, dtype);
}

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Pointwise, promotion_of_tensors_and_numbers) {
  const Tensor f = of({1, 2}), i = of({1, 2}, DType::Int64), b = of({1, 0}, DType::Bool);
  const Tensor h = of({1, 2}, DType::Float16), bf = of({1, 2}, DType::BFloat16);
  const Tensor u8 = of({1, 2}, DType::UInt8), i8 = of({1, 2}, DType::Int8);
  EXPECT_EQ(add(f, i).dtype(), DType::Float32);
  EXPECT_EQ(add(h, bf).dtype(), DType::Float32);
  EXPECT_EQ(add(h, 1.5).dtype(), DType::Float16);
  EXPECT_EQ(add(i, 1).dtype(), DType::Int64);
  EXPECT_EQ(add(i, 1.5).dtype(), DType::Float32);
  EXPECT_EQ(add(u8, i8).dtype(), DType::Int16);
  EXPECT_EQ(add(u8, 1).dtype(), DType::UInt8);
  EXPECT_EQ(add(b, 1).dtype(), DType::Int64);
  EXPECT_EQ(add(b, b).dtype(), DType::Bool);
  EXPECT_EQ(add(b, Scalar(true)).dtype(), DType::Bool);
  EXPECT_EQ(add(f, number(1, DType::Float64)).dtype(), DType::Float32);
  EXPECT_EQ(add(i, number(1, DType::Float64)).dtype(), DType::Float64);
  EXPECT_EQ(add(i8, number(1, DType::Int64)).dtype(), DType::Int8);
  EXPECT_EQ(div(i, i).dtype(), DType::Float32);
  EXPECT_EQ(exp(i).dtype(), DType::Float32);
  EXPECT_EQ(eq(f, i).dtype(), DType::Bool);
  EXPECT_EQ(isnan(i).dtype(), DType::Bool);
  EXPECT_EQ(floor(i).dtype(), DType::Int64);
  EXPECT_EQ(pow(i, 2).dtype(), DType::Int64);
  EXPECT_EQ(pow(i, 0.5).dtype(), DType::Float32);
  EXPECT_EQ(where(b, f, i).dtype(), DType::Float32);
  EXPECT_EQ(where(b, 1.0, i).dtype(), DType::Float32);
}

TEST(Pointwise, values_of_integers_and_bools) {
  using V = std::vector<int64_t>;
  const Tensor x = of({-7, 7, -6, 5}, DType::Int32), y = of({2, -2, 3, 0}, DType::Int32);
  EXPECT_EQ(floor_divide(x, 2).to_vector<int64_t>(), (V{-4, 3, -3, 2}));
  EXPECT_EQ(remainder(x, 4).to_vector<int64_t>(), (V{1, 3, 2, 1}));
  EXPECT_EQ(fmod(x, 4).to_vector<int64_t>(), (V{-3, 3, -2, 1}));
  EXPECT_EQ(div(x, full({}, 2, DType::Int32), "trunc").to_vector<int64_t>(), (V{-3, 3, -3, 2}));
  EXPECT_EQ(bitwise_and(x, 6).to_vector<int64_t>(), (V{0, 6, 2, 4}));
  EXPECT_EQ(bitwise_not(x).to_vector<int64_t>(), (V{6, -8, 5, -6}));
  EXPECT_EQ(bitwise_left_shift(x, 1).to_vector<int64_t>(), (V{-14, 14, -12, 10}));
  EXPECT_EQ(maximum(x, y).to_vector<int64_t>(), (V{2, 7, 3, 5}));
  EXPECT_EQ(relu(x).to_vector<int64_t>(), (V{0, 7, 0, 5}));
  const Tensor b = of({1, 0, 1, 0}, DType::Bool), c = of({1, 1, 0, 0}, DType::Bool);
  EXPECT_EQ(add(b, c).to_vector<int64_t>(), (V{1, 1, 1, 0}));
  EXPECT_EQ(mul(b, c).to_vector<int64_t>(), (V{1, 0, 0, 0}));
  EXPECT_EQ(bitwise_not(b).to_vector<int64_t>(), (V{0, 1, 0, 1}));
  EXPECT_EQ(logical_xor(b, c).to_vector<int64_t>(), (V{0, 1, 1, 0}));
  EXPECT_EQ(logical_and(x, y).to_vector<int64_t>(), (V{1, 1, 1, 0}));
  EXPECT_EQ(of({250, 251}, DType::UInt8).to_vector<int64_t>(), (V{250, 251}));
  EXPECT_EQ(add(of({250, 255}, DType::UInt8), 10).to_vector<int64_t>(), (V{4, 9}));
  const int64_t big = (int64_t{1} << 62) + 1;
  EXPECT_EQ(add(of({0}, DType::Int64), Scalar(big)).to_vector<int64_t>(), V{big});
  EXPECT_EQ(clamp(of({0, 9}, DType::Int64), Scalar(big), {}).to_vector<int64_t>(), (V{big, big}));
}

TEST(Pointwise, broadcasting_views_and_empty_tensors) {
  const Tensor a = reshape(of({1, 2, 3}), {3, 1}), b = reshape(of({10, 20, 30, 40}), {1, 4});
  const Tensor s = a + b;
  EXPECT_EQ(s.shape(), (Dims{3, 4}));
  EXPECT_EQ(s.to_vector<double>()[7], 42);
  const Tensor t = transpose(s, 0, 1);
  EXPECT_EQ((t + t).to_vector<double>()[1], 24);
  EXPECT_EQ((s * full({}, 2.0)).to_vector<double>()[0], 22);
  EXPECT_EQ(exp(zeros({0, 3})).shape(), (Dims{0, 3}));
  EXPECT_EQ(add(zeros({0, 3}), ones({1, 3})).shape(), (Dims{0, 3}));
  EXPECT_EQ(add(full({}, 1.0), full({}, 2.0)).dim(), 0);
  EXPECT_THROW(add(zeros({2, 3}), zeros({4})), ShapeError);
  EXPECT_NE(message([] { add(zeros({2, 3}), zeros({4})); }).find("pf.add: got"), std::string::npos);
}

TEST(Pointwise, special_values) {
  const double inf = HUGE_VAL, nan = std::nan("");
  EXPECT_TRUE(std::isnan(relu(of({nan})).item<double>()));
  EXPECT_TRUE(std::isnan(clamp(of({nan}), 0, 1).item<double>()));
  EXPECT_TRUE(std::isnan(maximum(of({nan}), of({1})).item<double>()));
  EXPECT_EQ(fmax(of({nan}), of({1})).item<double>(), 1);
  EXPECT_EQ(div(of({1}), of({0})).item<double>(), inf);
  EXPECT_EQ(log(of({0})).item<double>(), -inf);
  EXPECT_TRUE(std::isnan(sqrt(of({-1})).item<double>()));
  EXPECT_EQ(sign(of({nan})).item<double>(), 0);
  EXPECT_EQ(pow(of({-2}), 3).item<double>(), -8);
  EXPECT_EQ(pow(of({-2}), of({3})).item<double>(), -8);
  EXPECT_EQ(round(of({0.5, 1.5, 2.5, -0.5})).to_vector<double>(),
            (std::vector<double>{0, 2, 2, -0.0}));
  EXPECT_FALSE(eq(of({nan}), of({nan})).item<bool>());
  EXPECT_TRUE(isclose(of({nan}), of({nan}), 1e-5, 1e-8, true).item<bool>());
  const Tensor n = nan_to_num(of({nan, inf, -inf, 3}));
  EXPECT_EQ(n.to_vector<double>()[0], 0);
  EXPECT_GT(n.to_vector<double>()[1], 3e38);
  EXPECT_EQ(where(gt(of({1, -1}), 0), of({5, 6}), nan).to_vector<double>()[0], 5);
  for (double x : {100.0, -100.0, 1000.0, -1000.0}) {
    EXPECT_FALSE(std::isnan(silu(of({x})).item<double>())) << x;
    EXPECT_FALSE(std::isnan(softplus(of({x})).item<double>())) << x;
    EXPECT_FALSE(std::isnan(logsigmoid(of({x})).item<double>())) << x;
    EXPECT_FALSE(std::isnan(mish(of({x})).item<double>())) << x;
  }
}

// Gradient of sum(f(x)) at the values v.
std::vector<double> slope(std::vector<double> v, const std::function<Tensor(const Tensor&)>& f) {
  Tensor x = of(v, DType::Float64);
  x.requires_grad_();
  sum(f(x)).backward();
  return x.grad().to_vector<double>();
}

TEST(Pointwise, gradients_where_pytorch_defines_them) {
  using V = std::vector<double>;
  EXPECT_EQ(slope({-1, 0, 2}, [](const Tensor& x) { return relu(x); }), (V{0, 0, 1}));
  EXPECT_EQ(slope({-1, 0, 2}, [](const Tensor& x) { return abs(x); }), (V{-1, 0, 1}));
  EXPECT_EQ(slope({-1, 0, 1, 2}, [](const Tensor& x) { return clamp(x, 0, 1); }), (V{0, 1, 1, 0}));
  EXPECT_EQ(slope({1, 2, 3},
                  [](const Tensor& x) {
                    return maximum(x, of({2, 2, 2}, DType::Float64));
                  }),
            (V{0, 0.5, 1}));
  EXPECT_EQ(slope({0, 2}, [](const Tensor& x) { return pow(x, 0.0); }), (V{0, 0}));
  EXPECT_EQ(slope({-2, 3}, [](const Tensor& x) { return pow(x, 2); }), (V{-4, 6}));
  EXPECT_EQ(slope({0, 1}, [](const Tensor& x) { return where(gt(x, 0), sqrt(x), 0.0); })[0] == 0,
            false)
      << "sqrt itself has an infinite gradient at 0, and inf * 0 is NaN, as in PyTorch";
  EXPECT_EQ(slope({1, 2}, [](const Tensor& x) { return where(gt(x, 1), x, 0.0); }), (V{0, 1}));
  EXPECT_EQ(slope({1.5, 2.5}, [](const Tensor& x) { return floor(x); }), (V{0, 0}));
  EXPECT_EQ(slope({1, 2}, [](const Tensor& x) { return sub(x, x); }), (V{0, 0}));
  EXPECT_EQ(slope({1, 2}, [](const Tensor& x) { return rsub(x, 1); }), (V{-1, -1}));
  EXPECT_EQ(slope({1, 2}, [](const Tensor& x) { return masked_fill(x, gt(x, 1), 7.0); }),
            (V{1, 0}));
  EXPECT_EQ(
      slope({1, 2}, [](const Tensor& x) { return to(to(x, DType::Float32), DType::Float64); }),
      (V{1, 1}));
}

TEST(Pointwise, broadcast_gradients_sum_to_the_small_operand) {
  Tensor x = ones({3, 4}, DType::Float64), b = of({1, 2, 3, 4}, DType::Float64);
  Tensor s = full({}, 2.0, DType::Float64);
  b.requires_grad_();
  s.requires_grad_();
  sum(x * b * s).backward();
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{6, 6, 6, 6}));
  EXPECT_EQ(s.grad().item<double>(), 30);
}

TEST(Pointwise, second_derivatives) {
  for (auto f :
       {+[](const Tensor& x) { return tanh(x); }, +[](const Tensor& x) { return gelu(x); },
        +[](const Tensor& x) { return silu(x); }, +[](const Tensor& x) { return exp(x); },
        +[](const Tensor& x) { return pow(x, 3); }, +[](const Tensor& x) { return x * x * x; },
        +[](const Tensor& x) { return div(x, x + Scalar(2.0)); }}) {
    const double at = 0.7, h = 1e-5;
    auto first = [&](double v) {
      Tensor x = of({v}, DType::Float64);
      x.requires_grad_();
      const Tensor y = sum(f(x));
      return grad({&y, 1}, {&x, 1}, {}, false, false)[0].item<double>();
    };
    Tensor x = of({at}, DType::Float64);
    x.requires_grad_();
    const Tensor y = sum(f(x));
    const Tensor g = grad({&y, 1}, {&x, 1}, {}, false, true)[0];
    const Tensor total = sum(g);
    const double got = grad({&total, 1}, {&x, 1})[0].item<double>();
    EXPECT_NEAR(got, (first(at + h) - first(at - h)) / (2 * h), 1e-6);
  }
}

TEST(Pointwise, only_what_a_gradient_reads_is_saved) {
  Tensor x = ones({2}), y = full({2}, 3.0);
  x.requires_grad_();
  Tensor z = mul(x, y);  // reads y
  Tensor w = add(z, y);  // reads nothing
  mul_(z, 2.0);          // so z may change
  sum(w).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 3}));
  Tensor u = mul(x, y);
  add_(y, 1.0);
  EXPECT_THROW(sum(u).backward(), AutogradError);
}

TEST(Pointwise, in_place) {
  Tensor x = of({1, -2, 3});
  relu_(x);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 0, 3}));
  add_(x, of({1, 1, 1}), 2);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{3, 2, 5}));
  Tensor i = of({1, 2}, DType::Int32);
  EXPECT_THROW(add_(i, 1.5), DTypeError);
  EXPECT_THROW(add_(x, ones({2, 3})), ShapeError);
  Tensor half = of({1, 2}, DType::Float16);
  add_(half, of({0.5, 0.5}));
  EXPECT_EQ(half.dtype(), DType::Float16);
  EXPECT_EQ(half.to_vector<double>(), (std::vector<double>{1.5, 2.5}));
  Tensor leaf = ones({2});
  leaf.requires_grad_();
  EXPECT_THROW(exp_(leaf), AutogradError);
  Tensor v = leaf * leaf;
  mul_(v, leaf);  // needs the old v
  exp_(v);        // needs its result
  sum(v).backward();
  const double e = std::exp(1.0);
  EXPECT_NEAR(leaf.grad().to_vector<double>()[0], 3 * e, 1e-5);
}

TEST(Pointwise, in_place_with_itself) {
  Tensor leaf = of({1, 2}, DType::Float64);
  leaf.requires_grad_();
  Tensor v = leaf * Scalar(2.0);
  mul_(v, v);  // 4 x^2
  sum(v).backward();
  EXPECT_EQ(leaf.grad().to_vector<double>(), (std::vector<double>{8, 16}));
}

TEST(Pointwise, work_pending_at_the_end_of_a_thread_is_done) {
  Tensor left;
  std::thread([&] {
    Tensor x = of({1, 2, 3});
    (x + x).to_vector<double>();  // makes the thread's scratch memory
    left = tanh(x * Scalar(0.0)) + x;
  }).join();
  EXPECT_EQ(left.to_vector<double>(), (std::vector<double>{1, 2, 3}));
}

TEST(Pointwise, copy_and_fill) {
  Tensor x = zeros({2, 3});
  copy_(x, of({1, 2, 3}, DType::Int64));
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 2, 3, 1, 2, 3}));
  Tensor t = transpose(x, 0, 1);
  copy_(t, of({7, 8}));
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{7, 7, 7, 8, 8, 8}));
  Tensor column = select(x, 1, 0);
  fill_(column, 5);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{5, 7, 7, 5, 8, 8}));
  EXPECT_THROW(copy_(x, zeros({4})), ShapeError);
  EXPECT_EQ(to(of({0.5, 0, std::nan("")}), DType::Bool).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(to(of({2.9, -2.9}), DType::Int64).to_vector<int64_t>(), (std::vector<int64_t>{2, -2}));
}

TEST(Pointwise, bad_input_names_the_operation) {
  EXPECT_NE(message([] { bitwise_and(of({1}), of({2})); }).find("pf.bitwise_and: got float32"),
            std::string::npos);
  EXPECT_THROW(neg(of({1}, DType::Bool)), DTypeError);
  EXPECT_THROW(sub(of({1}, DType::Bool), of({1}, DType::Bool)), DTypeError);
  EXPECT_THROW(pow(of({2}, DType::Int64), -1), ValueError);
  EXPECT_THROW(remainder(of({2}, DType::Int64), 0), ValueError);
  EXPECT_THROW(clamp(of({2}), std::nullopt, std::nullopt), ValueError);
  EXPECT_THROW(where(of({2}), of({2}), of({2})), DTypeError);
  EXPECT_THROW(gelu(of({2}), "fast"), ValueError);
}

TEST(Pointwise, rows_made_at_run_time) {
  const table::OpId swish = ops::define_pointwise("swish_test", "x * sigmoid(b * x)", {{"b", 1.5}});
  Tensor x = of({-1, 0.5, 2}, DType::Float64);
  x.requires_grad_();
  const Tensor y = ops::call_row(swish, {ops::Operand(x)}, {Scalar(1.5)});
  const Tensor want = x * sigmoid(x * Scalar(1.5));
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(y.to_vector<double>()[i], want.to_vector<double>()[i], 1e-12);
  const Tensor both[] = {sum(y), sum(want)};
  const auto a = grad({&both[0], 1}, {&x, 1})[0].to_vector<double>();
  const auto b = grad({&both[1], 1}, {&x, 1})[0].to_vector<double>();
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(a[i], b[i], 1e-12);

  const table::OpId three =
      ops::define_pointwise("blend_test", "where(z > 0, gelu(x), leaky_relu(y, 0.2)) ** 2");
  const Tensor z = of({1, -1, 1}, DType::Float64), w = of({1, -2, 3}, DType::Float64);
  const Tensor r = ops::call_row(three, {ops::Operand(x), ops::Operand(w), ops::Operand(z)});
  EXPECT_NEAR(r.to_vector<double>()[1], 0.16, 1e-12);
  const table::OpId test = ops::define_pointwise("inside_test", "x > 0 and not x >= 1");
  EXPECT_EQ(ops::call_row(test, {ops::Operand(x)}).dtype(), DType::Bool);
}

TEST(Pointwise, text_of_rows_is_checked) {
  using ops::define_pointwise;
  auto fails = [](const std::string& text, const std::string& expected) {
    const std::string m = message([&] { define_pointwise("never_made", text); });
    EXPECT_NE(m.find(expected), std::string::npos) << text << ": " << m;
  };
  fails("x +", "got the end at position 3");
  fails("x * foo(y)", "a known function");
  fails("x * q", "one of the names x, y, z");
  fails("x + (y > 0)", "a number, not a condition");
  fails("where(x, y, z)", "a condition");
  fails("exp(x, y)", "exp() with 1 arguments, not 2");
  fails("(x", "')'");
  fails("3", "0 operands");
  fails(std::string(500, '(') + "x", "fewer nested");
  fails("x $ y", "an operator or the end");
  EXPECT_THROW(define_pointwise("exp", "x"), ValueError);
  EXPECT_THROW(define_pointwise("a b", "x + 1"), ValueError);
  EXPECT_THROW(define_pointwise("n", "x * y", {{"x", 1}}), ValueError);
}

TEST(Pointwise, the_table_describes_itself) {
  const auto rows = ops::pointwise_rows();
  EXPECT_GE(rows.size(), static_cast<size_t>(table::kNumRows));
  for (const auto& r : rows) {
    EXPECT_FALSE(r.name.empty());
    EXPECT_FALSE(r.formula.empty()) << r.name;
    if (!r.runtime) {
      EXPECT_FALSE(r.doc.empty()) << r.name;
      EXPECT_FALSE(r.reference.empty()) << r.name;
    }
  }
}

}  // namespace
}  // namespace pyflame
