// Operations as the library's own sources call them. Programs have pyflame/ops.h in place of this,
// which is printed from the registry: it declares those of these functions again that have the
// signature of a schema, and tests/cpp/api_test.cpp looks that the two say the same.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pyflame/operators.h"

namespace pyflame {

// ---- pointwise: src/table/pointwise.def; name(x) and in place name_(x) --------------------------
// clang-format off
#define PF_UNARY_FUNCTIONS(X)                                                                      \
  X(abs)                                                                                           \
  X(sign) X(square) X(reciprocal) X(sqrt) X(rsqrt) X(exp) X(exp2) X(expm1) X(log) X(log1p) X(log2) \
      X(log10) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(acosh)      \
          X(atanh) X(tanh) X(sigmoid) X(erf) X(erfc) X(erfinv) X(logit) X(sinc) X(deg2rad)         \
          X(rad2deg)                                                                               \
              X(floor) X(ceil) X(round) X(trunc) X(frac) X(relu) X(relu6) X(selu) X(silu) X(mish)  \
                  X(softsign) X(hardswish) X(hardsigmoid) X(logsigmoid) X(tanhshrink)              \
                      X(logical_not)
// Tests: bool results.
#define PF_TEST_FUNCTIONS(X) X(isnan) X(isinf) X(isfinite) X(isposinf) X(isneginf) X(signbit)
// name(x, y) with tensors, name(x, 2) and name(2, x) with a number, in place name_(x, y).
#define PF_BINARY_FUNCTIONS(X)                                                               \
  X(mul)                                                                                     \
  X(div) X(maximum) X(minimum) X(fmax) X(fmin) X(atan2) X(hypot) X(copysign) X(logaddexp)    \
      X(logaddexp2) X(xlogy) X(heaviside) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(logical_and) \
          X(logical_or) X(logical_xor) X(bitwise_and) X(bitwise_or) X(bitwise_xor)           \
              X(bitwise_left_shift) X(bitwise_right_shift)
// clang-format on
// The same, with rules beyond their row (integer divisors and exponents, bools).
#define PF_CHECKED_UNARY_FUNCTIONS(X) X(neg) X(bitwise_not)
#define PF_CHECKED_BINARY_FUNCTIONS(X) X(floor_divide) X(remainder) X(fmod) X(pow)

#define X(NAME)               \
  Tensor NAME(const Tensor&); \
  Tensor& NAME##_(Tensor&);
PF_UNARY_FUNCTIONS(X)
PF_CHECKED_UNARY_FUNCTIONS(X)
#undef X
#define X(NAME) Tensor NAME(const Tensor&);
PF_TEST_FUNCTIONS(X)
#undef X
#define X(NAME)                              \
  Tensor NAME(const Tensor&, const Tensor&); \
  Tensor NAME(const Tensor&, Scalar);        \
  Tensor NAME(Scalar, const Tensor&);        \
  Tensor& NAME##_(Tensor&, const Tensor&);   \
  Tensor& NAME##_(Tensor&, Scalar);
PF_BINARY_FUNCTIONS(X)
PF_CHECKED_BINARY_FUNCTIONS(X)
#undef X

Tensor add(const Tensor&, const Tensor&, Scalar alpha = 1);  // x + alpha * y
Tensor add(const Tensor&, Scalar);
Tensor& add_(Tensor&, const Tensor&, Scalar alpha = 1);
Tensor& add_(Tensor&, Scalar);
Tensor sub(const Tensor&, const Tensor&, Scalar alpha = 1);
Tensor sub(const Tensor&, Scalar);
Tensor& sub_(Tensor&, const Tensor&, Scalar alpha = 1);
Tensor& sub_(Tensor&, Scalar);
Tensor rsub(const Tensor&, Scalar);  // scalar - x
Tensor rdiv(const Tensor&, Scalar);  // scalar / x
// rounding_mode: "none", "trunc" (towards 0) or "floor"
Tensor div(const Tensor&, const Tensor&, const std::string& rounding_mode);
Tensor round(const Tensor&, int64_t decimals);
Tensor nan_to_num(const Tensor&, std::optional<double> nan = {}, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
Tensor isclose(const Tensor&, const Tensor&, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
bool equal(const Tensor&, const Tensor&);  // shapes and all elements: src/ops/compare.cpp
bool allclose(const Tensor&, const Tensor&, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);

Tensor leaky_relu(const Tensor&, Scalar negative_slope = 0.01);
Tensor elu(const Tensor&, Scalar alpha = 1.0);
Tensor celu(const Tensor&, Scalar alpha = 1.0);
Tensor gelu(const Tensor&, const std::string& approximate = "none");  // or "tanh"
Tensor softplus(const Tensor&, Scalar beta = 1.0, Scalar threshold = 20.0);
Tensor hardtanh(const Tensor&, Scalar min_val = -1, Scalar max_val = 1);
Tensor softshrink(const Tensor&, Scalar lambd = 0.5);
Tensor hardshrink(const Tensor&, Scalar lambd = 0.5);
Tensor threshold(const Tensor&, Scalar threshold, Scalar value);
Tensor prelu(const Tensor&, const Tensor& weight);  // one slope, or one for each of dimension 1

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight);
Tensor addcmul(const Tensor&, const Tensor&, const Tensor&, Scalar value = 1);  // x + value * y * z
Tensor addcdiv(const Tensor&, const Tensor&, const Tensor&, Scalar value = 1);  // x + value * y / z
Tensor where(const Tensor& condition, const Tensor& input, const Tensor& other);
Tensor where(const Tensor& condition, const Tensor& input, Scalar other);
Tensor where(const Tensor& condition, Scalar input, const Tensor& other);
Tensor where(const Tensor& condition, Scalar input, Scalar other);
Tensor clamp(const Tensor&, std::optional<Scalar> min, std::optional<Scalar> max);
Tensor clamp(const Tensor&, const Tensor& min, const Tensor& max);  // undefined: no bound
Tensor& clamp_(Tensor&, std::optional<Scalar> min, std::optional<Scalar> max);
Tensor masked_fill(const Tensor&, const Tensor& mask, Scalar value);
Tensor masked_fill(const Tensor&, const Tensor& mask, const Tensor& value);  // a 0-d value
Tensor& masked_fill_(Tensor&, const Tensor& mask, Scalar value);
// In place, casts and broadcasts src. With non_blocking the call does not wait for copies between
// pinned memory and a device of contiguous tensors of one shape and dtype, to the host either.
Tensor& copy_(Tensor& dst, const Tensor& src, bool non_blocking = false);
Tensor& fill_(Tensor&, Scalar);
Tensor& zero_(Tensor&);

Tensor i0(const Tensor&);  // src/ops/special.cpp

// ---- creation: src/ops/creation.cpp ----------------------------------------------------------
Tensor empty(const IntList& size, std::optional<DType> = {}, std::optional<Device> = {});
Tensor full(const IntList& size, Scalar value, std::optional<DType> = {},
            std::optional<Device> = {});
Tensor zeros(const IntList& size, std::optional<DType> = {}, std::optional<Device> = {});
Tensor ones(const IntList& size, std::optional<DType> = {}, std::optional<Device> = {});
Tensor empty_like(const Tensor&);
Tensor zeros_like(const Tensor&);
Tensor ones_like(const Tensor&);
Tensor full_like(const Tensor&, Scalar);
Tensor scalar_tensor(Scalar, DType, Device = {});
Tensor arange(Scalar start, Scalar end, Scalar step = 1, std::optional<DType> = {},
              std::optional<Device> = {});
Tensor linspace(Scalar start, Scalar end, int64_t steps, std::optional<DType> = {},
                std::optional<Device> = {});
Tensor eye(int64_t n, std::optional<int64_t> m = {}, std::optional<DType> = {},
           std::optional<Device> = {});
Tensor randn(const IntList& size, std::optional<DType> = {}, std::optional<Device> = {});
Tensor rand(const IntList& size, std::optional<DType> = {}, std::optional<Device> = {});
Tensor randint(int64_t low, int64_t high, const IntList& size, std::optional<DType> = {},
               std::optional<Device> = {});
// The numbers 0 to n - 1 in random order; int64 unless a dtype is given.
Tensor randperm(int64_t n, std::optional<DType> = {}, std::optional<Device> = {});
Tensor multinomial(const Tensor& probs, int64_t num_samples, bool replacement = false);
Tensor& uniform_(Tensor&, double from = 0, double to = 1);
Tensor& normal_(Tensor&, double mean = 0, double std = 1);
Tensor dropout(const Tensor&, double p = 0.5, bool training = true);

// ---- views and shape: src/ops/view.cpp, src/ops/shape.cpp ---------------------------------------
Tensor reshape(const Tensor&, const IntList& shape);
Tensor view(const Tensor&, const IntList& shape);
Tensor permute(const Tensor&, const IntList& dims);
Tensor transpose(const Tensor&, int64_t dim0, int64_t dim1);
Tensor squeeze(const Tensor&);
Tensor unsqueeze(const Tensor&, int64_t dim);
Tensor expand(const Tensor&, const IntList& size);
Tensor flatten(const Tensor&, int64_t start_dim = 0, int64_t end_dim = -1);
Tensor select(const Tensor&, int64_t dim, int64_t index);
Tensor slice(const Tensor&, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
Tensor narrow(const Tensor&, int64_t dim, int64_t start, int64_t length);
Tensor as_strided(const Tensor&, const IntList& size, const IntList& stride, int64_t offset);
Tensor contiguous(const Tensor&, MemoryFormat = MemoryFormat::Contiguous);
Tensor clone(const Tensor&, MemoryFormat = MemoryFormat::Contiguous);
MemoryFormat memory_format_from(const std::string& name, const char* op);
Tensor cat(const TensorList&, int64_t dim = 0);
Tensor stack(const TensorList&, int64_t dim = 0);
TensorList split(const Tensor&, int64_t size, int64_t dim = 0);
TensorList split(const Tensor&, const IntList& sizes, int64_t dim = 0);
TensorList chunk(const Tensor&, int64_t chunks, int64_t dim = 0);
TensorList unbind(const Tensor&, int64_t dim = 0);
Tensor diagonal(const Tensor&, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
Tensor diag_embed(const Tensor&, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
Tensor pad(const Tensor&, const IntList& padding, const std::string& mode = "constant",
           std::optional<Scalar> value = {});
Tensor flip(const Tensor&, const IntList& dims);
Tensor roll(const Tensor&, const IntList& shifts, const IntList& dims = {});
Tensor repeat(const Tensor&, const IntList& repeats);
Tensor tril(const Tensor&, int64_t diagonal = 0);
Tensor triu(const Tensor&, int64_t diagonal = 0);

// ---- indexing, sorting, scanning: src/ops/index.cpp, src/ops/sort.cpp, src/ops/scan.cpp ---------
Tensor gather(const Tensor&, int64_t dim, const Tensor& index);
Tensor scatter(const Tensor&, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter_add(const Tensor&, int64_t dim, const Tensor& index, const Tensor& src);
Tensor index_select(const Tensor&, int64_t dim, const Tensor& index);
// indices[i] is undefined for a full slice of dimension i; bool and uint8 tensors are masks.
Tensor index(const Tensor&, const TensorList& indices);
Tensor& index_put_(Tensor&, const TensorList& indices, const Tensor& values,
                   bool accumulate = false);
Tensor masked_select(const Tensor&, const Tensor& mask);
Tensor nonzero(const Tensor&);
Tensor embedding(const Tensor& input, const Tensor& weight, int64_t padding_idx = -1);
Tensor one_hot(const Tensor&, int64_t num_classes = -1);
std::pair<Tensor, Tensor> sort(const Tensor&, int64_t dim = -1, bool descending = false,
                               bool stable = true);
Tensor argsort(const Tensor&, int64_t dim = -1, bool descending = false);
std::pair<Tensor, Tensor> topk(const Tensor&, int64_t k, int64_t dim = -1, bool largest = true,
                               bool sorted = true);
Tensor cumsum(const Tensor&, int64_t dim);
// The largest and the smallest so far, and where they are (the last of equals).
std::pair<Tensor, Tensor> cummax(const Tensor&, int64_t dim);
std::pair<Tensor, Tensor> cummin(const Tensor&, int64_t dim);

// ---- reductions: src/ops/reduce.cpp ----------------------------------------------------------
Tensor sum(const Tensor&, const std::optional<IntList>& dim = {}, bool keepdim = false,
           std::optional<DType> dtype = {});
Tensor mean(const Tensor&, const std::optional<IntList>& dim = {}, bool keepdim = false,
            std::optional<DType> dtype = {});
Tensor var(const Tensor&, const std::optional<IntList>& dim = {}, int64_t correction = 1,
           bool keepdim = false);
Tensor prod(const Tensor&, const std::optional<IntList>& dim = {}, bool keepdim = false);
Tensor amax(const Tensor&, const std::optional<IntList>& dim = {}, bool keepdim = false);
Tensor amin(const Tensor&, const std::optional<IntList>& dim = {}, bool keepdim = false);
std::pair<Tensor, Tensor> max(const Tensor&, int64_t dim, bool keepdim = false);
std::pair<Tensor, Tensor> min(const Tensor&, int64_t dim, bool keepdim = false);
Tensor argmax(const Tensor&, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor&, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor any(const Tensor&, const std::optional<IntList>& dim = {}, bool keepdim = false);
Tensor all(const Tensor&, const std::optional<IntList>& dim = {}, bool keepdim = false);
Tensor max(const Tensor&);  // of all elements
Tensor min(const Tensor&);
Tensor std(const Tensor&, const std::optional<IntList>& dim = {}, int64_t correction = 1,
           bool keepdim = false);
Tensor norm(const Tensor&, double p = 2, const std::optional<IntList>& dim = {},
            bool keepdim = false);
Tensor logsumexp(const Tensor&, const IntList& dim, bool keepdim = false);
Tensor count_nonzero(const Tensor&, const std::optional<IntList>& dim = {});
Tensor median(const Tensor&);
std::pair<Tensor, Tensor> median(const Tensor&, int64_t dim, bool keepdim = false);

// ---- products: src/ops/matmul.cpp, src/ops/einsum.cpp, src/ops/attention.cpp --------------------
Tensor matmul(const Tensor&, const Tensor&);
Tensor bmm(const Tensor&, const Tensor&);
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
Tensor einsum(const std::string& equation, const TensorList& operands);
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask = {}, double dropout_p = 0,
                                    bool is_causal = false, std::optional<double> scale = {});

// ---- rows: src/ops/softmax.cpp, src/ops/norm.cpp, src/ops/loss.cpp ------------------------------
Tensor softmax(const Tensor&, int64_t dim, std::optional<DType> dtype = {});
Tensor log_softmax(const Tensor&, int64_t dim, std::optional<DType> dtype = {});
Tensor layer_norm(const Tensor&, const IntList& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
Tensor rms_norm(const Tensor&, const IntList& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});
Tensor cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                     int64_t ignore_index = -100, const std::string& reduction = "mean",
                     double label_smoothing = 0);
Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                int64_t ignore_index = -100, const std::string& reduction = "mean");
Tensor mse_loss(const Tensor& input, const Tensor& target, const std::string& reduction = "mean");
Tensor l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction = "mean");
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const std::string& reduction = "mean", double beta = 1);
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                            const std::string& reduction = "mean");
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight = {},
                                        const std::string& reduction = "mean",
                                        const Tensor& pos_weight = {});
Tensor kl_div(const Tensor& input, const Tensor& target, const std::string& reduction = "mean",
              bool log_target = false);

// ---- special functions, calculated in float64: src/ops/gamma.cpp --------------------------------
Tensor lgamma(const Tensor&);                // log |gamma(x)|; inf at 0, -1, -2, ...
Tensor digamma(const Tensor&);               // derivative of lgamma; -inf at 0, NaN at -1, -2, ...
Tensor polygamma(int64_t n, const Tensor&);  // its n-th derivative, for n of 0 and 1

// ---- order statistics, means that leave NaN out, covariances: src/ops/statistics.cpp ------------
// Quantiles along `dim` (of all elements without it). `q` is 0-d or 1-d with values from 0 to 1;
// its dimension comes first in the result. interpolation: linear, lower, higher, midpoint, nearest.
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> dim = {},
                bool keepdim = false, const std::string& interpolation = "linear");
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                const std::string& interpolation = "linear");
// The same of what is not NaN.
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int64_t> dim = {},
                   bool keepdim = false, const std::string& interpolation = "linear");
Tensor nanquantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                   const std::string& interpolation = "linear");
Tensor nansum(const Tensor& x, const std::optional<IntList>& dim = {}, bool keepdim = false,
              std::optional<DType> dtype = {});
Tensor nanmean(const Tensor& x, const std::optional<IntList>& dim = {}, bool keepdim = false,
               std::optional<DType> dtype = {});
Tensor nanmedian(const Tensor& x);
std::pair<Tensor, Tensor> nanmedian(const Tensor& x, int64_t dim, bool keepdim = false);
std::pair<Tensor, Tensor> mode(const Tensor& x, int64_t dim = -1, bool keepdim = false);
// (minimum, maximum) along `dim`, or of all elements.
std::pair<Tensor, Tensor> aminmax(const Tensor& x, std::optional<int64_t> dim = {},
                                  bool keepdim = false);
// Rows are variables, columns observations.
Tensor cov(const Tensor& x, int64_t correction = 1, const Tensor& fweights = {},
           const Tensor& aweights = {});
Tensor corrcoef(const Tensor& x);
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
Tensor trapezoid(const Tensor& y, double dx = 1, int64_t dim = -1);

// ---- convolution: src/ops/conv.cpp --------------------------------------------------------------
// input [N, C, space...] or [C, space...], weight [O, C / groups, taps...]; lists have one number
// or one for each dimension of space.
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const IntList& stride = {1}, const IntList& padding = {0},
              const IntList& dilation = {1}, int64_t groups = 1);
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const IntList& stride = {1}, const IntList& padding = {0},
                        const IntList& output_padding = {0}, int64_t groups = 1,
                        const IntList& dilation = {1});
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const IntList& stride = {1}, const IntList& padding = {0},
              const IntList& dilation = {1}, int64_t groups = 1);
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const IntList& stride = {1}, const IntList& padding = {0},
                        const IntList& output_padding = {0}, int64_t groups = 1,
                        const IntList& dilation = {1});
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const IntList& stride = {1}, const IntList& padding = {0},
              const IntList& dilation = {1}, int64_t groups = 1);
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const IntList& stride = {1}, const IntList& padding = {0},
                        const IntList& output_padding = {0}, int64_t groups = 1,
                        const IntList& dilation = {1});

// ---- pooling: src/ops/pool.cpp -----------------------------------------------------------------
// input [N, C, space...] or [C, space...]; lists have one number or one for each dimension of
// space, and no stride is that of the windows' size. Places are counted row-major in their plane.
Tensor max_pool1d(const Tensor& input, const IntList& kernel_size, const IntList& stride = {},
                  const IntList& padding = {0}, const IntList& dilation = {1},
                  bool ceil_mode = false);
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, const IntList& kernel_size,
                                                  const IntList& stride = {},
                                                  const IntList& padding = {0},
                                                  const IntList& dilation = {1},
                                                  bool ceil_mode = false);
std::pair<Tensor, Tensor> adaptive_max_pool1d(const Tensor& input, const IntList& output_size);
Tensor max_pool2d(const Tensor& input, const IntList& kernel_size, const IntList& stride = {},
                  const IntList& padding = {0}, const IntList& dilation = {1},
                  bool ceil_mode = false);
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, const IntList& kernel_size,
                                                  const IntList& stride = {},
                                                  const IntList& padding = {0},
                                                  const IntList& dilation = {1},
                                                  bool ceil_mode = false);
std::pair<Tensor, Tensor> adaptive_max_pool2d(const Tensor& input, const IntList& output_size);
Tensor max_pool3d(const Tensor& input, const IntList& kernel_size, const IntList& stride = {},
                  const IntList& padding = {0}, const IntList& dilation = {1},
                  bool ceil_mode = false);
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input, const IntList& kernel_size,
                                                  const IntList& stride = {},
                                                  const IntList& padding = {0},
                                                  const IntList& dilation = {1},
                                                  bool ceil_mode = false);
std::pair<Tensor, Tensor> adaptive_max_pool3d(const Tensor& input, const IntList& output_size);
Tensor adaptive_avg_pool1d(const Tensor& input, const IntList& output_size);
Tensor avg_pool1d(const Tensor& input, const IntList& kernel_size, const IntList& stride = {},
                  const IntList& padding = {0}, bool ceil_mode = false,
                  bool count_include_pad = true);
Tensor adaptive_avg_pool2d(const Tensor& input, const IntList& output_size);
Tensor avg_pool2d(const Tensor& input, const IntList& kernel_size, const IntList& stride = {},
                  const IntList& padding = {0}, bool ceil_mode = false,
                  bool count_include_pad = true, std::optional<int64_t> divisor_override = {});
Tensor adaptive_avg_pool3d(const Tensor& input, const IntList& output_size);
Tensor avg_pool3d(const Tensor& input, const IntList& kernel_size, const IntList& stride = {},
                  const IntList& padding = {0}, bool ceil_mode = false,
                  bool count_include_pad = true, std::optional<int64_t> divisor_override = {});

// ---- resampling: src/ops/resample.cpp -----------------------------------------------------------
// input [N, C, space...]; lists have one number or one for each dimension of space.
Tensor interpolate(const Tensor& input, const std::optional<IntList>& size,
                   const std::optional<std::vector<double>>& scale_factor = {},
                   const std::string& mode = "nearest", std::optional<bool> align_corners = {},
                   std::optional<bool> recompute_scale_factor = {}, bool antialias = false);

// ---- pixels, channels and columns: src/ops/rearrange.cpp ----------------------------------------
Tensor pixel_shuffle(const Tensor& input, int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& input, int64_t downscale_factor);
Tensor channel_shuffle(const Tensor& input, int64_t groups);
// What the taps of a window see, [N, C * taps, places], and its gradient. One number or two.
Tensor im2col(const Tensor& input, const IntList& kernel_size, const IntList& dilation,
              const IntList& padding, const IntList& stride);
Tensor col2im(const Tensor& input, const IntList& output_size, const IntList& kernel_size,
              const IntList& dilation, const IntList& padding, const IntList& stride);

// ---- sampling: src/ops/grid_sample.cpp ----------------------------------------------------------
Tensor grid_sampler(const Tensor& input, const Tensor& grid, const std::string& mode = "bilinear",
                    const std::string& padding_mode = "zeros", bool align_corners = false);
Tensor affine_grid_generator(const Tensor& theta, const IntList& size, bool align_corners = false);

// ---- norms of channels: src/ops/channel_norms.cpp -----------------------------------------------
// input [N, C, ...]; weight, bias and running statistics are [C] or undefined. Running statistics
// are written to where the input's own are used.
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5);
Tensor instance_norm(const Tensor& input, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, bool use_input_stats = true, double momentum = 0.1,
                     double eps = 1e-5);
Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
Tensor local_response_norm(const Tensor& input, int64_t size, double alpha = 1e-4,
                           double beta = 0.75, double k = 1);

// ---- distances: src/ops/distance.cpp ------------------------------------------------------------
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-8);
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2);  // [..., P, M] and [..., R, M]
Tensor pdist(const Tensor& x, double p = 2);                     // pairs of rows of a matrix
Tensor dist(const Tensor& x, const Tensor& y, double p = 2);     // norm of the difference
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12);

// ---- weighted differences: src/ops/loss.cpp -----------------------------------------------------
// The mean of a weighted mse_loss and l1_loss divides by the sum of the weights.
Tensor mse_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                const Tensor& weight);
Tensor l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
               const Tensor& weight);
Tensor huber_loss(const Tensor& input, const Tensor& target, const std::string& reduction = "mean",
                  double delta = 1, const Tensor& weight = {});

// ---- margins and likelihoods: src/ops/loss_margin.cpp -------------------------------------------
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true,
                        bool full = false, double eps = 1e-8,
                        const std::string& reduction = "mean");
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         bool full = false, double eps = 1e-6,
                         const std::string& reduction = "mean");
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1,
                            const std::string& reduction = "mean");
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin = 0, const std::string& reduction = "mean");
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin = 0, const std::string& reduction = "mean");
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                           const std::string& reduction = "mean");
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        const std::string& reduction = "mean");
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const Tensor& weight = {},
                                   const std::string& reduction = "mean");
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, int64_t p = 1,
                         double margin = 1, const Tensor& weight = {},
                         const std::string& reduction = "mean");
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const std::string& reduction = "mean");

// ---- connectionist temporal classification: src/ops/ctc.cpp -------------------------------------
// One loss for each sequence of log_probs [T, N, C]; targets are [N, S], or all of them in one row.
Tensor ctc_losses(const Tensor& log_probs, const Tensor& targets, const IntList& input_lengths,
                  const IntList& target_lengths, int64_t blank = 0, bool zero_infinity = false);

// ---- bags of rows: src/ops/embedding.cpp --------------------------------------------------------
Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Tensor& offsets = {},
                     const std::string& mode = "mean", const Tensor& per_sample_weights = {},
                     bool include_last_offset = false, std::optional<int64_t> padding_idx = {},
                     bool scale_grad_by_freq = false, bool sparse = false);

}  // namespace pyflame
