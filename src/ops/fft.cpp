// pyflame.fft: discrete Fourier transforms. Three operations have gradients of their own (complex
// to complex over any dimensions, real to half of the terms along the last one, and back), which
// are each other; all names are made of these.
#include <algorithm>
#include <cmath>

#include "engine/autograd.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/linalg.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/fft.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using engine::Takes;
using std::optional;

constexpr int64_t kLongest = int64_t{1} << 27;

// ---- the three ----------------------------------------------------------------------------------

Tensor c2c(const Tensor& x, int64_t dims, bool inverse, double scale, const char* op) {
  Tensor y = linalg::run(engine::kernel<kernels::Fft>(), op, {x}, [&](TensorList& in) {
    Tensor out = make_tensor(x->shape, x->dtype, in[0]->device());
    if (out->numel > 0)
      engine::call<kernels::Fft>({.y = out, .x = in[0].detach()},
                                 {.dims = dims, .inverse = int64_t{inverse}, .scale = scale},
                                 {.op = op, .takes = Takes::Bytes});
    return TensorList{out};
  })[0];
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {}, [dims, inverse, scale, op](const Context& c) -> Grads {
      return {c2c(c.grad(), dims, !inverse, scale, op)};
    });
  return y;
}

// Terms that stand for two, their own and a conjugate's, times `by`.
Tensor weighted(const Tensor& terms, int64_t n, double by) {
  const int64_t count = n / 2 + 1, twice = (n - 1) / 2;
  const DType t = real_type(terms->dtype);
  const Device d = terms->device();
  TensorList w{ones({1}, t, d)};
  if (twice > 0) w.push_back(full({twice}, Scalar(by), t, d));
  if (count - 1 - twice > 0) w.push_back(ones({count - 1 - twice}, t, d));
  return mul(terms, cat(w, 0));
}

Tensor c2r_last(const Tensor& x, int64_t n, double scale, const char* op);

Tensor r2c_last(const Tensor& x, double scale, const char* op) {
  const int64_t n = x->shape.back();
  Tensor y = linalg::run(engine::kernel<kernels::Rfft>(), op, {x}, [&](TensorList& in) {
    Dims shape = x->shape;
    shape.back() = n / 2 + 1;
    Tensor out = make_tensor(shape, complex_type(x->dtype), in[0]->device());
    if (out->numel > 0)
      engine::call<kernels::Rfft>({.y = out, .x = in[0].detach()}, {.scale = scale},
                                  {.op = op, .takes = Takes::Bytes});
    return TensorList{out};
  })[0];
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {}, [n, scale, op](const Context& c) -> Grads {
      return {c2r_last(weighted(c.grad(), n, 0.5), n, scale, op)};
    });
  return y;
}

Tensor c2r_last(const Tensor& x, int64_t n, double scale, const char* op) {
  Tensor y = linalg::run(engine::kernel<kernels::Irfft>(), op, {x}, [&](TensorList& in) {
    Dims shape = x->shape;
    shape.back() = n;
    Tensor out = make_tensor(shape, real_type(x->dtype), in[0]->device());
    if (out->numel > 0)
      engine::call<kernels::Irfft>({.y = out, .x = in[0].detach()}, {.scale = scale},
                                   {.op = op, .takes = Takes::Bytes});
    return TensorList{out};
  })[0];
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {}, [n, scale, op](const Context& c) -> Grads {
      return {weighted(r2c_last(c.grad(), scale, op), n, 2.0)};
    });
  return y;
}

// ---- arguments ----------------------------------------------------------------------------------

Tensor checked(const Tensor& x, const char* op) {
  PF_AUTOCAST(
      "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fftn fft.ifftn fft.rfftn "
      "fft.irfftn",
      FollowElseRaise, checked, x, op);
  ops::check_defined(x, op, "input");
  if (is_integral(x->dtype, true)) return to(x, default_dtype());
  PF_CHECK(is_complex(x) || x->dtype == DType::Float32 || x->dtype == DType::Float64, DTypeError,
           op, "got ", x->dtype,
           "; expected float32, float64, complex64, complex128 or integers; convert with .to()");
  return x;
}
Tensor as_complex(const Tensor& x) {
  return is_complex(x) ? x : to(x, complex_type(x->dtype));
}
Tensor real_only(const Tensor& x, const char* op) {
  const Tensor t = checked(x, op);
  PF_CHECK(!is_complex(t), DTypeError, op, "got ", t->dtype,
           "; expected real numbers; use the transform of complex ones");
  return t;
}

void check_size(int64_t n, const char* op) {
  PF_CHECK(n >= 1, ValueError, op, "got the size ", n,
           "; expected at least 1 element along a dimension that is transformed; pass n");
  PF_CHECK(n < kLongest, NotSupportedError, op, "got ", n,
           " elements along a dimension; expected fewer than 2^27; cut it");
}

// What all terms are multiplied by, for `n` elements.
double scale_of(const optional<std::string>& norm, double n, bool inverse, const char* op) {
  const std::string name = norm.value_or("backward");
  PF_CHECK(name == "backward" || name == "forward" || name == "ortho", ValueError, op, "got norm '",
           name, "'; expected 'backward', 'forward' or 'ortho'; pass one of these");
  if (name == "ortho") return 1 / std::sqrt(n);
  return (name == "forward") != inverse ? 1 / n : 1;
}

// With n elements along a dimension: cut, or with zeros behind.
Tensor sized(const Tensor& x, int dim, int64_t n) {
  const int64_t has = x->shape[dim];
  if (has == n) return x;
  if (has > n) return narrow(x, dim, 0, n);
  Dims shape = x->shape;
  shape[dim] = n - has;
  const Tensor none = zeros(shape.vec(), x->dtype, x->device());
  return has == 0 ? none : cat({x, none}, dim);
}

struct Many {
  std::vector<int> dims;
  IntList sizes;
  double count = 1;
};
// The dimensions that are transformed and their sizes; of half of the terms, the last size is that
// of the real side.
Many many_of(const Tensor& x, const optional<IntList>& s, const optional<IntList>& dim,
             bool half_given, const char* op) {
  const int n = x->shape.size();
  Many m;
  if (dim) {
    PF_CHECK(n > 0 || dim->empty(), IndexError, op,
             "got dimensions for a tensor without any; expected at least one; unsqueeze it");
    for (int64_t d : *dim) m.dims.push_back(wrap_dim(d, n, op));
  } else {
    const int count = s ? static_cast<int>(s->size()) : n;
    PF_CHECK(count <= n, ValueError, op, "got ", count, " sizes for a tensor of ", n,
             " dimensions; expected no more; pass dim");
    for (int d = n - count; d < n; ++d) m.dims.push_back(d);
  }
  std::vector<int> sorted = m.dims;
  std::sort(sorted.begin(), sorted.end());
  PF_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), ValueError, op,
           "got a dimension twice; expected different ones; correct dim");
  PF_CHECK(!s || s->size() == m.dims.size(), ValueError, op, "got ", s ? s->size() : 0,
           " sizes for ", m.dims.size(), " dimensions; expected as many; pass both alike");
  for (size_t i = 0; i < m.dims.size(); ++i) {
    int64_t size = x->shape[m.dims[i]];
    if (half_given && i + 1 == m.dims.size()) size = 2 * (size - 1);
    if (s && (*s)[i] != -1) size = (*s)[i];
    check_size(size, op);
    m.sizes.push_back(size);
    m.count *= static_cast<double>(size);
  }
  return m;
}
int64_t mask_of(const std::vector<int>& dims) {
  int64_t mask = 0;
  for (int d : dims) mask |= int64_t{1} << d;
  return mask;
}
Many one_of(const Tensor& x, const optional<int64_t>& n, int64_t dim, bool half_given,
            const char* op) {
  PF_CHECK(!x->shape.empty(), ShapeError, op,
           "got a tensor without dimensions; expected at least one; unsqueeze it");
  if (n) check_size(*n, op);  // -1 leaves a size alone in lists only
  return many_of(x, n ? optional<IntList>(IntList{*n}) : std::nullopt, IntList{dim}, half_given,
                 op);
}

// ---- complex to complex -------------------------------------------------------------------------

Tensor whole(const Tensor& x, const Many& m, double scale, bool inverse, const char* op) {
  Tensor t = as_complex(x);
  for (size_t i = 0; i < m.dims.size(); ++i) t = sized(t, m.dims[i], m.sizes[i]);
  return m.dims.empty() ? clone(t) : c2c(t, mask_of(m.dims), inverse, scale, op);
}

// ---- real to half of the terms, and back --------------------------------------------------------

// Real numbers; the inverse has conjugate terms.
Tensor to_half(const Tensor& x, const Many& m, double scale, bool inverse, const char* op) {
  PF_CHECK(!m.dims.empty(), ValueError, op, "got no dimensions; expected at least one; pass dim");
  Tensor t = x;
  for (size_t i = 0; i < m.dims.size(); ++i) t = sized(t, m.dims[i], m.sizes[i]);
  const int last = m.dims.back();
  const Tensor turned = contiguous(transpose(t, last, -1));
  Tensor y = transpose(r2c_last(turned, scale, op), last, -1);
  if (inverse) y = conj(y);
  const std::vector<int> others(m.dims.begin(), m.dims.end() - 1);
  return others.empty() ? y : c2c(contiguous(y), mask_of(others), inverse, 1, op);
}
// Half of the terms; `inverse` says which transform the other dimensions have, and whether the last
// one's terms are conjugates of what is meant.
Tensor of_half(const Tensor& x, const Many& m, double scale, bool inverse, const char* op) {
  PF_CHECK(!m.dims.empty(), ValueError, op, "got no dimensions; expected at least one; pass dim");
  Tensor t = as_complex(x);
  for (size_t i = 0; i + 1 < m.dims.size(); ++i) t = sized(t, m.dims[i], m.sizes[i]);
  const int last = m.dims.back();
  t = sized(t, last, m.sizes.back() / 2 + 1);
  const std::vector<int> others(m.dims.begin(), m.dims.end() - 1);
  if (!others.empty()) t = c2c(contiguous(t), mask_of(others), inverse, 1, op);
  if (!inverse) t = conj(t);
  return transpose(c2r_last(contiguous(transpose(t, last, -1)), m.sizes.back(), scale, op), last,
                   -1);
}

// ---- the transforms by name ---------------------------------------------------------------------

struct Transform {
  const char *one, *many;  // over one dimension and over several
  Tensor (*run)(const Tensor& x, const Many& m, double scale, bool inverse, const char* op);
  bool inverse;

  bool of_half_terms() const { return run == of_half; }
  Tensor operand(const Tensor& x, const char* op) const {
    return run == to_half ? real_only(x, op) : checked(x, op);
  }
  Tensor operator()(const Tensor& x, const Many& m, const optional<std::string>& norm,
                    const char* op) const {
    return run(x, m, scale_of(norm, m.count, inverse, op), inverse, op);
  }
};
// The terms of real numbers are pairs of conjugates, but fft has all of them.
constexpr Transform kFft{"fft.fft", "fft.fftn", whole, false},
    kIfft{"fft.ifft", "fft.ifftn", whole, true}, kRfft{"fft.rfft", "fft.rfftn", to_half, false},
    kIrfft{"fft.irfft", "fft.irfftn", of_half, true},
    kHfft{"fft.hfft", "fft.hfftn", of_half, false},
    kIhfft{"fft.ihfft", "fft.ihfftn", to_half, true};

template <const Transform& kOf>
Tensor over_one(const Tensor& x, optional<int64_t> n, int64_t dim, optional<std::string> norm) {
  const Tensor t = kOf.operand(x, kOf.one);
  return kOf(t, one_of(t, n, dim, kOf.of_half_terms(), kOf.one), norm, kOf.one);
}
template <const Transform& kOf>
Tensor over_many(const Tensor& x, const optional<IntList>& s, const optional<IntList>& dim,
                 optional<std::string> norm) {
  const Tensor t = kOf.operand(x, kOf.many);
  return kOf(t, many_of(t, s, dim, kOf.of_half_terms(), kOf.many), norm, kOf.many);
}
template <const Transform& kOf>
Tensor over_two(const Tensor& x, const optional<IntList>& s, const IntList& dim,
                optional<std::string> norm) {
  return over_many<kOf>(x, s, dim, norm);
}

// ---- frequencies, shifts ------------------------------------------------------------------------

Tensor fftfreq(int64_t n, double d, optional<DType> dtype, optional<Device> device) {
  PF_CHECK(n >= 0, ValueError, "fft.fftfreq", "got n ", n, "; expected at least 0; correct it");
  const DType t = dtype.value_or(default_dtype());
  const int64_t positive = (n + 1) / 2;
  const Tensor k = cat({arange(0, positive, 1, t, device), arange(-(n / 2), 0, 1, t, device)}, 0);
  return mul(k, Scalar(1 / (static_cast<double>(n) * d)));
}
Tensor rfftfreq(int64_t n, double d, optional<DType> dtype, optional<Device> device) {
  PF_CHECK(n >= 1, ValueError, "fft.rfftfreq", "got n ", n, "; expected at least 1; correct it");
  const Tensor k = arange(0, n / 2 + 1, 1, dtype.value_or(default_dtype()), device);
  return mul(k, Scalar(1 / (static_cast<double>(n) * d)));
}

Tensor shifted(const Tensor& x, const optional<IntList>& dim, bool back, const char* op) {
  ops::check_defined(x, op, "input");
  const int n = x->shape.size();
  IntList dims, by;
  if (dim)
    for (int64_t d : *dim) dims.push_back(wrap_dim(d, n, op));
  else
    for (int d = 0; d < n; ++d) dims.push_back(d);
  if (dims.empty()) return x;
  for (int64_t d : dims) {
    const int64_t size = x->shape[static_cast<int>(d)];
    by.push_back(back ? (size + 1) / 2 : size / 2);
  }
  return roll(x, by, dims);
}
Tensor fftshift(const Tensor& x, const optional<IntList>& dim) {
  return shifted(x, dim, false, "fft.fftshift");
}
Tensor ifftshift(const Tensor& x, const optional<IntList>& dim) {
  return shifted(x, dim, true, "fft.ifftshift");
}

// ---- short-time transforms ----------------------------------------------------------------------

struct Frames {
  int64_t n, hop;
  Tensor window;  // of n elements
};
Frames frames_of(const Tensor& like, int64_t n, optional<int64_t> hop_length,
                 optional<int64_t> win_length, const Tensor& window, const char* op) {
  const int64_t hop = hop_length.value_or(n / 4), length = win_length.value_or(n);
  PF_CHECK(n >= 1 && hop >= 1, ValueError, op, "got n_fft ", n, " and hop_length ", hop,
           "; expected at least 1 each; correct them");
  PF_CHECK(length >= 1 && length <= n, ValueError, op, "got win_length ", length,
           "; expected 1 to n_fft, ", n, "; correct it");
  Tensor w = window;
  if (w.defined()) {
    PF_CHECK(w->shape.size() == 1 && w->shape[0] == length, ShapeError, op,
             "got a window of shape ", w->shape, "; expected [", length, "]; pass win_length");
  } else {
    w = ones({length}, real_type(like->dtype), like->device());
  }
  if (length < n) {  // zeros on both sides
    const int64_t left = (n - length) / 2;
    w = pad(w, {left, n - length - left});
  }
  return {n, hop, w};
}

Tensor stft(const Tensor& input, int64_t n_fft, optional<int64_t> hop_length,
            optional<int64_t> win_length, const Tensor& window, bool center, std::string pad_mode,
            bool normalized, optional<bool> onesided, optional<bool> return_complex) {
  const char* op = "stft";
  Tensor x = checked(input, op);
  const int nd = x->shape.size();
  PF_CHECK(nd == 1 || nd == 2, ShapeError, op, "got shape ", x->shape,
           "; expected [length] or [batch, length]; reshape it");
  const bool whole = is_complex(x) || (window.defined() && is_complex(window));
  PF_CHECK(return_complex || whole, ValueError, op,
           "got no return_complex for real numbers; expected True, or False for parts in a last "
           "dimension; pass it");
  const bool half = onesided.value_or(!whole);
  PF_CHECK(!half || !whole, ValueError, op,
           "got onesided=True for complex numbers; expected False: no terms are conjugates; leave "
           "it out");
  if (nd == 1) x = unsqueeze(x, 0);
  if (center) {
    const int64_t side = n_fft / 2;
    const auto padded = [&](const Tensor& t) {
      return squeeze(pad(unsqueeze(t, 1), {side, side}, pad_mode), 1);
    };
    if (is_complex(x)) {
      const ops::Parts p = ops::parts(x);
      x = complex(padded(p.re), padded(p.im));
    } else {
      x = padded(x);
    }
  }
  const int64_t length = x->shape[1];
  PF_CHECK(n_fft >= 1 && n_fft <= length, ValueError, op, "got n_fft ", n_fft, " for ", length,
           " elements; expected 1 to so many; pad the input");
  const Frames f = frames_of(x, n_fft, hop_length, win_length, window, op);
  const int64_t count = 1 + (length - n_fft) / f.hop;
  const Tensor dense = contiguous(x);
  Tensor frames =
      as_strided(dense, {dense->shape[0], count, n_fft}, {length, f.hop, 1}, dense->offset);
  frames = mul(frames, f.window);
  const optional<std::string> norm = normalized ? optional<std::string>("ortho") : std::nullopt;
  Tensor y = half ? over_one<kRfft>(frames, {}, -1, norm) : over_one<kFft>(frames, {}, -1, norm);
  y = transpose(y, 1, 2);
  if (nd == 1) y = squeeze(y, 0);
  return return_complex.value_or(true) ? y : view_as_real(contiguous(y));
}

Tensor istft(const Tensor& input, int64_t n_fft, optional<int64_t> hop_length,
             optional<int64_t> win_length, const Tensor& window, bool center, bool normalized,
             optional<bool> onesided, optional<int64_t> length, bool return_complex) {
  const char* op = "istft";
  ops::check_defined(input, op, "input");
  PF_CHECK(is_complex(input), DTypeError, op, "got ", input->dtype,
           "; expected a complex dtype; use view_as_complex");
  const int nd = input->shape.size();
  PF_CHECK((nd == 2 || nd == 3) && input->numel > 0, ShapeError, op, "got shape ", input->shape,
           "; expected [terms, frames] or [batch, terms, frames], not empty; reshape it");
  Tensor z = nd == 2 ? unsqueeze(input, 0) : input;
  const int64_t terms = z->shape[1], count = z->shape[2];
  const bool half = onesided.value_or(terms != n_fft);
  PF_CHECK(terms == (half ? n_fft / 2 + 1 : n_fft), ShapeError, op, "got ", terms,
           " terms for n_fft ", n_fft, "; expected ", half ? n_fft / 2 + 1 : n_fft,
           "; pass n_fft or onesided");
  PF_CHECK(!(half && return_complex), ValueError, op,
           "got return_complex=True for half of the terms, which are of real numbers; expected "
           "False; pass all terms");
  const Frames f = frames_of(z, n_fft, hop_length, win_length, window, op);
  PF_CHECK(f.hop <= n_fft, ValueError, op, "got hop_length ", f.hop, " for n_fft ", n_fft,
           "; expected no more: elements between frames are lost; correct it");
  const optional<std::string> norm = normalized ? optional<std::string>("ortho") : std::nullopt;
  z = transpose(z, 1, 2);
  // Of all terms of real numbers, too, the first half says everything.
  Tensor frames = return_complex
                      ? over_one<kIfft>(z, {}, -1, norm)
                      : over_one<kIrfft>(narrow(z, -1, 0, n_fft / 2 + 1), n_fft, -1, norm);
  frames = contiguous(mul(frames, f.window));
  const int64_t full_length = n_fft + f.hop * (count - 1);
  const auto added = [&](const Tensor& t) {  // at their places
    const Dims shape{t->shape[0], full_length};
    return ops::scatter_view(t, shape, {t->shape, {full_length, f.hop, 1}, 0});
  };
  Tensor y = added(frames);
  const Tensor squares = expand(unsqueeze(square(f.window), 0), {count, n_fft});
  Tensor envelope = squeeze(added(contiguous(unsqueeze(squares, 0))), 0);
  const int64_t start = center ? n_fft / 2 : 0;
  const int64_t stop = length ? start + *length : center ? full_length - n_fft / 2 : full_length;
  const int64_t inner = std::min(stop, full_length);
  PF_CHECK(start < inner, ShapeError, op, "got ", count, " frames of ", n_fft,
           "; expected more than are cut away at both ends; pass center=False");
  y = narrow(y, -1, start, inner - start);
  envelope = narrow(envelope, -1, start, inner - start);
  PF_CHECK(amin(ops::all_samples(abs(envelope))).item().to_double() > 1e-11, ValueError, op,
           "got a window whose squares do not cover all elements; expected overlaps without "
           "zeros; choose another window or a smaller hop_length");
  y = div(y, envelope);
  if (stop > inner) y = sized(y, 1, stop - start);
  return nd == 2 ? squeeze(y, 0) : y;
}

const ops::Family kTransforms("Fourier transforms", [](ops::Family& f) {
  using namespace ops;
  const auto row = [](const char* schema, const char* doc) { return Row{schema, doc, kSpecial}; };
  const auto one = [&](auto fn, const char* name, const char* doc) {
    const std::string text = std::string("fft_") + name +
                             "(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor";
    f.op(fn, row(text.c_str(), doc));
  };
  const auto two = [&](auto fn, const char* name, const char* doc) {
    const std::string text =
        std::string("fft_") + name +
        "(Tensor input, int[]? s=None, int[] dim=[-2, -1], str? norm=None) -> Tensor";
    f.op(fn, row(text.c_str(), doc));
  };
  const auto many = [&](auto fn, const char* name, const char* doc) {
    const std::string text =
        std::string("fft_") + name +
        "(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor";
    f.op(fn, row(text.c_str(), doc));
  };
  one(&over_one<kFft>, "fft",
      "Terms sum x[j] exp(-2 pi i j k / n) along `dim`, cut or filled with zeros to n. norm: "
      "'backward' (none), 'forward' (1/n) or 'ortho' (1/sqrt n).");
  one(&over_one<kIfft>, "ifft",
      "The inverse of fft: exp(+2 pi i j k / n), by default times 1/n ('backward').");
  one(&over_one<kRfft>, "rfft",
      "The first n/2 + 1 terms of real numbers; the others are their conjugates.");
  one(&over_one<kIrfft>, "irfft",
      "Real numbers, n of them (by default 2 (terms - 1)), by the first n/2 + 1 terms.");
  one(&over_one<kHfft>, "hfft", "Real terms, n of them, of numbers whose conjugates are left out.");
  one(&over_one<kIhfft>, "ihfft", "The inverse of hfft: half of the numbers, by real terms.");
  two(&over_two<kFft>, "fft2", "fft over two dimensions; s: their sizes.");
  two(&over_two<kIfft>, "ifft2", "ifft over two dimensions; s: their sizes.");
  two(&over_two<kRfft>, "rfft2",
      "rfft over two dimensions, the last of which has half of its terms.");
  two(&over_two<kIrfft>, "irfft2", "The inverse of rfft2; s: the sizes of the real side.");
  two(&over_two<kHfft>, "hfft2", "hfft along the last of two dimensions, fft along the first.");
  two(&over_two<kIhfft>, "ihfft2", "The inverse of hfft2.");
  many(&over_many<kFft>, "fftn", "fft over all dimensions, or over `dim`; s: their sizes.");
  many(&over_many<kIfft>, "ifftn", "ifft over all dimensions, or over `dim`; s: their sizes.");
  many(&over_many<kRfft>, "rfftn",
       "rfft over several dimensions, the last of which has half of its terms.");
  many(&over_many<kIrfft>, "irfftn", "The inverse of rfftn; s: the sizes of the real side.");
  many(&over_many<kHfft>, "hfftn",
       "hfft along the last of several dimensions, fft along the others.");
  many(&over_many<kIhfft>, "ihfftn", "The inverse of hfftn.");
  f.op(&fftfreq,
       row("fft_fftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None) -> "
           "Tensor",
           "Frequencies of the terms of fft, in cycles per unit of the spacing d: 0 and "
           "the positive ones, then the negative ones."));
  f.op(&rfftfreq, row("fft_rfftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None) "
                      "-> Tensor",
                      "Frequencies of the terms of rfft, in cycles per unit of the spacing d."));
  f.op(&fftshift, row("fft_fftshift(Tensor input, int[]? dim=None) -> Tensor",
                      "The term of frequency 0 moved to the middle of each dimension."));
  f.op(&ifftshift,
       row("fft_ifftshift(Tensor input, int[]? dim=None) -> Tensor", "The inverse of fftshift."));
  f.op(&stft,
       {"stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
        "window=None, bool center=True, str pad_mode='reflect', bool normalized=False, bool? "
        "onesided=None, bool? return_complex=None) -> Tensor",
        "Transforms of frames of n_fft elements, hop_length (n_fft / 4) apart, times a window: "
        "[..., terms, frames] of a signal [length] or [batch, length]. center: frames are around "
        "their places, with the signal padded at both ends."});
  f.op(&istft,
       {"istft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
        "window=None, bool center=True, bool normalized=False, bool? onesided=None, int? "
        "length=None, bool return_complex=False) -> Tensor",
        "The signal whose frames come closest to those of stft: frames times the window, added, "
        "over the sum of the window's squares."});
});

}  // namespace
}  // namespace pyflame
