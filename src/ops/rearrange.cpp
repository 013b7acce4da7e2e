// Pixels into channels and back, and the columns that a kernel's taps see. All are a view and a
// copy of it; sums over taps that meet are the gradient of the last.
#include <array>

#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/space.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;

// ---- pixels and channels ------------------------------------------------------------------------

// [..., C, H, W] as [N, C, H, W].
Tensor flat(const Tensor& x) {
  const Dims& s = x->shape;
  if (s.size() == 4) return x;
  int64_t n = 1;
  for (int d = 0; d < s.size() - 3; ++d) n = ops::checked_size(n, s[d], "pixel_shuffle");
  return reshape(x, {n, s[s.size() - 3], s[s.size() - 2], s[s.size() - 1]});
}
Tensor shaped_as(const Tensor& y, const Dims& like) {
  if (like.size() == 4) return y;
  IntList shape = like.vec();
  for (size_t d = 1; d <= 3; ++d) shape[shape.size() - d] = y->shape[4 - static_cast<int>(d)];
  return reshape(y, shape);
}
// What is [n, c, h, w] by name of its parts, `parts` of each in order, goes to memory as the result
// wants it: its channels first or last.
Tensor rearranged(const Tensor& view, const IntList& first, const IntList& last,
                  const IntList& shape, bool channels_last) {
  if (!channels_last) return reshape(contiguous(permute(view, first)), shape);
  const Tensor lines = contiguous(permute(view, last));
  return permute(reshape(lines, {shape[0], shape[2], shape[3], shape[1]}), {0, 3, 1, 2});
}
void check_pixels(const Tensor& input, int64_t factor, const char* what, const char* op) {
  ops::check_defined(input, op, "input");
  PF_CHECK(input->shape.size() >= 3, ShapeError, op, "got input of shape ", input->shape,
           "; expected at least 3 dimensions, channels, height and width; reshape it");
  PF_CHECK(factor > 0, ValueError, op, "got ", what, " ", factor, "; expected at least 1");
}

// Where nothing moves, a view would be the result: it is a copy all the same.
Tensor of_its_own(const Tensor& result, const Tensor& input) {
  return result->storage == input->storage ? clone(result) : result;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& input, int64_t upscale_factor) {
  constexpr const char* kOp = "pixel_shuffle";
  const int64_t r = upscale_factor;
  check_pixels(input, r, "upscale_factor", kOp);
  const Tensor x = flat(input);
  const Dims& s = x->shape;
  const int64_t area = ops::checked_size(r, r, kOp), c = s[1] / area;
  PF_CHECK(s[1] % area == 0, ShapeError, kOp, "got ", s[1], " channels for an upscale_factor of ",
           r, "; expected a multiple of ", area, "; change one of them");
  const int64_t h = ops::checked_size(s[2], r, kOp), w = ops::checked_size(s[3], r, kOp);
  const Tensor view = reshape(x, {s[0], c, r, r, s[2], s[3]});
  const Tensor y = rearranged(view, {0, 1, 4, 2, 5, 3}, {0, 4, 2, 5, 3, 1}, {s[0], c, h, w},
                              ops::space_format(x) == MemoryFormat::ChannelsLast);
  return of_its_own(shaped_as(y, input->shape), input);
}

Tensor pixel_unshuffle(const Tensor& input, int64_t downscale_factor) {
  constexpr const char* kOp = "pixel_unshuffle";
  const int64_t r = downscale_factor;
  check_pixels(input, r, "downscale_factor", kOp);
  const Tensor x = flat(input);
  const Dims& s = x->shape;
  PF_CHECK(s[2] % r == 0 && s[3] % r == 0, ShapeError, kOp, "got input of shape ", input->shape,
           " for a downscale_factor of ", r, "; expected it to divide height and width");
  const int64_t h = s[2] / r, w = s[3] / r;
  const int64_t c = ops::checked_size(s[1], ops::checked_size(r, r, kOp), kOp);
  const Tensor view = reshape(x, {s[0], s[1], h, r, w, r});
  const Tensor y = rearranged(view, {0, 1, 3, 5, 2, 4}, {0, 2, 4, 1, 3, 5}, {s[0], c, h, w},
                              ops::space_format(x) == MemoryFormat::ChannelsLast);
  return of_its_own(shaped_as(y, input->shape), input);
}

Tensor channel_shuffle(const Tensor& input, int64_t groups) {
  constexpr const char* kOp = "channel_shuffle";
  ops::check_defined(input, kOp, "input");
  const Dims& s = input->shape;
  PF_CHECK(s.size() >= 3, ShapeError, kOp, "got input of shape ", s,
           "; expected a batch, channels and at least one dimension more; reshape it");
  PF_CHECK(groups > 0, ValueError, kOp, "got ", groups, " groups; expected at least 1");
  PF_CHECK(s[1] % groups == 0, ShapeError, kOp, "got ", s[1], " channels in ", groups,
           " groups; expected groups that divide them");
  const MemoryFormat format = ops::space_format(input);
  if (format != MemoryFormat::Contiguous) {  // channels side by side
    IntList last{0}, back{0, s.size() - 1};
    for (int d = 2; d < s.size(); ++d) {
      last.push_back(d);
      back.push_back(d - 1);
    }
    last.push_back(1);
    const Tensor lines = permute(input, last);
    IntList parts = lines->shape.vec();
    parts.back() = groups;
    parts.push_back(s[1] / groups);
    return of_its_own(
        permute(reshape(transpose(reshape(lines, parts), -1, -2), lines->shape.vec()), back),
        input);
  }
  IntList parts{s[0], groups, s[1] / groups};
  for (int d = 2; d < s.size(); ++d) parts.push_back(s[d]);
  return of_its_own(reshape(transpose(reshape(input, parts), 1, 2), s.vec()), input);
}

// ---- columns ------------------------------------------------------------------------------------

namespace {

// Height and width.
using Two = std::array<int64_t, 2>;
struct Window {
  Two kernel, dilation, padding, stride;
};

Two two(const IntList& given, int64_t least, const char* op, const char* what) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  PF_CHECK(given.size() == 1 || given.size() == 2, ValueError, op, "got ", given.size(),
           " numbers for ", what, "; expected 1 or 2");
  const Two r{given.front(), given.back()};
  for (int64_t v : r)
    PF_CHECK(v >= least && v <= kMost, ValueError, op, "got ", what, " ", v, "; expected at least ",
             least, " and at most ", kMost, "; correct it");
  return r;
}
Window window_of(const IntList& kernel, const IntList& dilation, const IntList& padding,
                 const IntList& stride, const char* op) {
  return {two(kernel, 1, op, "kernel_size"), two(dilation, 1, op, "dilation"),
          two(padding, 0, op, "padding"), two(stride, 1, op, "stride")};
}
// Places of the window in an image.
Two places_of(const Window& w, const Two& image, const char* op) {
  Two r{};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t reach = ops::checked_size(w.dilation[d], w.kernel[d] - 1, op) + 1;
    const int64_t size = image[d] + 2 * w.padding[d];
    PF_CHECK(size >= reach, ShapeError, op, "got an image of ", image[0], " x ", image[1],
             ", padded by ", w.padding[d], ", and a window over ", reach,
             " elements; expected it to fit; pad more or use a smaller one");
    r[d] = (size - reach) / w.stride[d] + 1;
  }
  return r;
}
// What the taps see of a padded image, [n, c, kh, kw, h, w].
Tensor seen(const Tensor& x, const Window& w, const Two& places) {
  const Dims& t = x->strides;
  return make_view(x, {x->shape[0], x->shape[1], w.kernel[0], w.kernel[1], places[0], places[1]},
                   {t[0], t[1], t[2] * w.dilation[0], t[3] * w.dilation[1], t[2] * w.stride[0],
                    t[3] * w.stride[1]},
                   x->offset);
}

Tensor columns_of(const Tensor& x, const Window& w);

Tensor image_of(const Tensor& columns, const Two& image, const Window& w) {
  constexpr const char* kOp = "fold";
  const Two places = places_of(w, image, kOp);
  const int64_t taps = w.kernel[0] * w.kernel[1];
  const int64_t n = columns->shape[0], c = columns->shape[1] / taps;
  Tensor y;
  {
    NoGrad off;
    Tensor sum = zeros({n, c, image[0] + 2 * w.padding[0], image[1] + 2 * w.padding[1]},
                       ops::wide_type(columns->dtype), columns->storage->device);
    if (columns->numel > 0) {
      const Tensor into = seen(sum, w, places);
      const Tensor from = reshape(columns, {n, c, w.kernel[0], w.kernel[1], places[0], places[1]});
      for (int64_t i = 0; i < w.kernel[0]; ++i)
        for (int64_t j = 0; j < w.kernel[1]; ++j) {
          const auto tap = [&](const Tensor& t) { return select(select(t, 2, i), 2, j); };
          Tensor part = tap(into);
          add_(part, to(tap(from), sum->dtype));
        }
    }
    for (int d = 0; d < 2; ++d)
      sum = narrow(sum, d + 2, w.padding[static_cast<size_t>(d)], image[static_cast<size_t>(d)]);
    y = ops::dense(to(sum, columns->dtype));
  }
  if (autograd::wanted({columns}))
    autograd::attach(kOp, {y}, {columns}, {},
                     [w](const Context& c) -> Grads { return {columns_of(c.grad(), w)}; });
  return y;
}

Tensor columns_of(const Tensor& x, const Window& w) {
  constexpr const char* kOp = "unfold";
  const Two image{x->shape[2], x->shape[3]}, places = places_of(w, image, kOp);
  const int64_t n = x->shape[0], c = x->shape[1];
  const int64_t rows = ops::checked_size(c, ops::checked_size(w.kernel[0], w.kernel[1], kOp), kOp);
  const IntList shape{n, rows, ops::checked_size(places[0], places[1], kOp)};
  checked_numel(Dims(shape), kOp);
  Tensor y;
  {
    NoGrad off;
    const auto& p = w.padding;
    const Tensor padded = p[0] || p[1] ? pad(x, {p[1], p[1], p[0], p[0]}) : x;
    y = reshape(contiguous(seen(padded, w, places)), shape);
    if (y->storage.get() == x->storage.get()) y = clone(y);
  }
  if (autograd::wanted({x}))
    autograd::attach(kOp, {y}, {x}, {}, [w, image](const Context& c) -> Grads {
      return {image_of(c.grad(), image, w)};
    });
  return y;
}

}  // namespace

Tensor im2col(const Tensor& input, const IntList& kernel_size, const IntList& dilation,
              const IntList& padding, const IntList& stride) {
  constexpr const char* kOp = "unfold";
  ops::check_defined(input, kOp, "input");
  const auto same = [&](const Tensor& x) {
    return im2col(x, kernel_size, dilation, padding, stride);
  };
  if (is_complex(input)) return complex(same(real(input)), same(imag(input)));
  if (input->dtype == DType::Bool) return to(same(to(input, DType::Float32)), DType::Bool);
  ops::check_floating(input, kOp);
  const int n = input->shape.size();
  PF_CHECK(n == 3 || n == 4, ShapeError, kOp, "got input of shape ", input->shape,
           "; expected [N, C, H, W] or [C, H, W]; reshape it");
  const Window w = window_of(kernel_size, dilation, padding, stride, kOp);
  for (int d = n - 3; d < n; ++d)
    PF_CHECK(input->shape[d] > 0, ShapeError, kOp, "got input of shape ", input->shape,
             "; expected sizes of at least 1 behind the batch");
  const Tensor y = columns_of(n == 4 ? input : unsqueeze(input, 0), w);
  return n == 4 ? y : select(y, 0, 0);
}

Tensor col2im(const Tensor& input, const IntList& output_size, const IntList& kernel_size,
              const IntList& dilation, const IntList& padding, const IntList& stride) {
  constexpr const char* kOp = "fold";
  ops::check_defined(input, kOp, "input");
  const auto same = [&](const Tensor& x) {
    return col2im(x, output_size, kernel_size, dilation, padding, stride);
  };
  if (is_complex(input)) return complex(same(real(input)), same(imag(input)));
  if (input->dtype == DType::Bool) return to(same(to(input, DType::Float32)), DType::Bool);
  ops::check_floating(input, kOp);
  const int n = input->shape.size();
  PF_CHECK(n == 2 || n == 3, ShapeError, kOp, "got input of shape ", input->shape,
           "; expected [N, C * taps, L] or [C * taps, L]; reshape it");
  const Window w = window_of(kernel_size, dilation, padding, stride, kOp);
  const Two image = two(output_size, 1, kOp, "output_size");
  const int64_t rows = input->shape[n - 2], length = input->shape[n - 1];
  const int64_t taps = ops::checked_size(w.kernel[0], w.kernel[1], kOp);
  PF_CHECK(rows > 0 && rows % taps == 0, ShapeError, kOp, "got input of shape ", input->shape,
           " for ", taps, " taps; expected dimension ", n - 2, " to be a multiple of them");
  const Two places = places_of(w, image, kOp);
  const int64_t expected = ops::checked_size(places[0], places[1], kOp);
  PF_CHECK(length == expected, ShapeError, kOp, "got input of shape ", input->shape,
           " for an image of ", image[0], " x ", image[1], "; expected a last dimension of ",
           expected, ", one for each place of the window");
  const Tensor y = image_of(n == 3 ? input : unsqueeze(input, 0), image, w);
  return n == 3 ? y : select(y, 0, 0);
}

namespace {

const ops::Family kRearranging("rearranging", [](ops::Family& f) {
  constexpr unsigned kBoth = ops::kFunction | ops::kFunctional;
  f.op(&pixel_shuffle,
       {"pixel_shuffle(Tensor input, int upscale_factor) -> Tensor",
        "[..., C r r, H, W] to [..., C, H r, W r]: each pixel becomes r x r of them. What is "
        "channels-last stays so.",
        kBoth});
  f.op(&pixel_unshuffle,
       {"pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor",
        "[..., C, H r, W r] to [..., C r r, H, W]: undoes pixel_shuffle.", kBoth});
  f.op(&channel_shuffle,
       {"channel_shuffle(Tensor input, int groups) -> Tensor",
        "Input [N, C, ...]: the first channel of every group, the second of every one, and so on.",
        kBoth});
  f.op(&channel_shuffle, {"native_channel_shuffle(Tensor input, int groups) -> Tensor",
                          "The same as channel_shuffle.", kBoth});
  f.op(&im2col,
       {"im2col(Tensor input, int[] kernel_size, int[] dilation, int[] padding, int[] stride) -> "
        "Tensor",
        "nn.functional.unfold: input [N, C, H, W] to [N, C * taps, places], what each tap of a "
        "window sees.",
        ops::kSpecial});
  f.op(&col2im,
       {"col2im(Tensor input, int[] output_size, int[] kernel_size, int[] dilation, int[] padding, "
        "int[] stride) -> Tensor",
        "nn.functional.fold: columns [N, C * taps, places] added up where they meet in [N, C, H, "
        "W], the gradient of im2col.",
        ops::kSpecial});
});

}  // namespace
}  // namespace pyflame
