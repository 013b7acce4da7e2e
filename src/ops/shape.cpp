// Operations that rearrange elements into fresh memory.
#include <algorithm>

#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/registry.h"
#include "table/kernels/move.h"

namespace pyflame {

using autograd::Context;
using autograd::Grads;

MemoryFormat memory_format_from(const std::string& name, const char* op) {
  if (name == "contiguous_format") return MemoryFormat::Contiguous;
  if (name == "preserve_format") return MemoryFormat::Preserve;
  if (name == "channels_last") return MemoryFormat::ChannelsLast;
  if (name == "channels_last_3d") return MemoryFormat::ChannelsLast3d;
  PF_FAIL(ValueError, op, "got memory_format '", name,
          "'; expected contiguous_format, preserve_format, channels_last or channels_last_3d");
}

Tensor contiguous(const Tensor& t, MemoryFormat format) {
  ops::check_defined(t, "contiguous");
  if (format == MemoryFormat::Contiguous) return t->contiguous ? t : clone(t);
  return lies_in(format, t->shape, t->strides) ? t : clone(t, format);
}

Tensor clone(const Tensor& t, MemoryFormat format) {
  ops::check_defined(t, "clone");
  Tensor out = make_tensor(t->shape, t->dtype, t->storage->device);
  if (format == MemoryFormat::Preserve)
    lay_out_like(*out.impl(), *t.impl());
  else
    lay_out(*out.impl(), strides_in(format, t->shape, "clone"));
  ops::raw_clone_into(out, t);
  if (autograd::wanted({t}))
    autograd::attach("clone", {out}, {t}, {}, [](const Context& c) -> Grads { return {c.grad()}; });
  return out;
}

// ---- joining ------------------------------------------------------------------------------------

namespace {

// Brings the tensors to one dtype; checks that they are there and live together.
TensorList common(const TensorList& tensors, const char* op) {
  PF_CHECK(!tensors.empty(), ValueError, op,
           "got no tensors; expected at least one; check the list");
  DType dtype = DType::Bool;
  bool first = true;
  for (const Tensor& t : tensors) {
    ops::check_defined(t, op);
    ops::check_same_device(tensors[0], t, op);
    dtype = first ? t->dtype : promote(dtype, t->dtype);
    first = false;
  }
  TensorList out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(t->dtype == dtype ? t : to(t, dtype));
  return out;
}

// Where dimension d of n is once channels stand at the end.
int when_channels_end(int d, int n) {
  return d == 0 ? 0 : d == 1 ? n - 1 : d - 1;
}

}  // namespace

Tensor cat(const TensorList& tensors, int64_t dim) {
  TensorList list = common(tensors, "cat");
  // A 1-D tensor without elements joins anything, as in PyTorch.
  auto skipped = [](const Tensor& t) { return t->shape.size() == 1 && t->shape[0] == 0; };
  const Tensor* model = nullptr;
  for (const Tensor& t : list) {
    PF_CHECK(t->shape.size() > 0, ShapeError, "cat",
             "got a tensor of 0 dimensions; expected at least one; use stack");
    if (!model && !skipped(t)) model = &t;
  }
  const int n = model ? (*model)->shape.size() : 1, d = model ? wrap_dim(dim, n, "cat") : 0;
  if (!model) model = list.data();
  Dims shape = (*model)->shape;
  shape[d] = 0;
  TensorList ins;
  for (const Tensor& t : list) {
    if (skipped(t) && n != 1) continue;
    bool fits = t->shape.size() == n;
    for (int i = 0; fits && i < n; ++i) fits = i == d || t->shape[i] == shape[i];
    PF_CHECK(fits, ShapeError, "cat", "got shapes ", (*model)->shape, " and ", t->shape,
             "; expected them to agree except in dimension ", d, "; reshape or slice one of them");
    shape[d] += t->shape[d];
    ins.push_back(t);
  }
  checked_numel(shape, "cat");
  const bool last = ops::channels_lie_last(ins[0]);
  Tensor out = make_tensor(shape, ins[0]->dtype, ins[0]->storage->device);
  if (last) lay_out(*out.impl(), channels_last_strides(shape));
  if (out->numel > 0) {
    const NoGrad off;
    const auto seen = [&](const Tensor& t) { return last ? ops::channels_to_end(t) : t; };
    TensorList given;  // empty ones have no address
    for (const Tensor& t : ins)
      if (t->numel > 0) given.push_back(seen(t));
    const Tensor to = seen(out);
    const kernels::Cat::Numbers<Scalar> numbers{.dim = last ? when_channels_end(d, n) : d};
    engine::call(engine::kernel<kernels::Cat>(), std::span<const Tensor>(&to, 1), given,
                 kernels::span_of(numbers), {.takes = engine::Takes::Bytes});
  }
  if (autograd::wanted(ins)) {
    IntList sizes;
    for (const Tensor& t : ins) sizes.push_back(t->shape[d]);
    autograd::attach("cat", std::span<const Tensor>(&out, 1), ins, {},
                     [d, sizes](const Context& c) -> Grads {
                       Grads r(sizes.size());
                       int64_t at = 0;
                       for (size_t i = 0; i < sizes.size(); ++i) {
                         if (c.needs(i)) r[i] = slice(c.grad(), d, at, at + sizes[i]);
                         at += sizes[i];
                       }
                       return r;
                     });
  }
  return out;
}

Tensor stack(const TensorList& tensors, int64_t dim) {
  PF_CHECK(!tensors.empty(), ValueError, "stack",
           "got no tensors; expected at least one; check the list");
  ops::check_defined(tensors[0], "stack");
  const int d = wrap_dim(dim, tensors[0]->shape.size() + 1, "stack");
  TensorList list;
  for (const Tensor& t : tensors) {
    ops::check_defined(t, "stack");
    PF_CHECK(t->shape == tensors[0]->shape, ShapeError, "stack", "got shapes ", tensors[0]->shape,
             " and ", t->shape, "; expected equal shapes; reshape or expand one of them");
    list.push_back(unsqueeze(t, d));
  }
  return cat(list, d);
}

static Tensor at_least(const Tensor& t, int n) {
  if (t->shape.size() == 0) return reshape(t, IntList(static_cast<size_t>(n), 1));
  if (t->shape.size() == 1 && n >= 2)
    return n == 2 ? unsqueeze(t, 0) : unsqueeze(unsqueeze(t, 0), 2);
  if (t->shape.size() == 2 && n >= 3) return unsqueeze(t, 2);
  return t;
}

static TensorList all_at_least(const TensorList& tensors, int n) {
  TensorList out;
  for (const Tensor& t : tensors) out.push_back(at_least(t, n));
  return out;
}

static Tensor hstack(const TensorList& tensors) {
  TensorList list = all_at_least(tensors, 1);
  return cat(list, !list.empty() && list[0]->shape.size() > 1 ? 1 : 0);
}
static Tensor vstack(const TensorList& tensors) {
  return cat(all_at_least(tensors, 2), 0);
}
static Tensor dstack(const TensorList& tensors) {
  return cat(all_at_least(tensors, 3), 2);
}
static Tensor column_stack(const TensorList& tensors) {
  TensorList list;
  for (const Tensor& t : tensors)
    list.push_back(t->shape.size() <= 1 ? reshape(t, {t->numel, 1}) : t);
  return cat(list, 1);
}
static Tensor atleast_1d(const Tensor& t) {
  return at_least(t, 1);
}
static Tensor atleast_2d(const Tensor& t) {
  return at_least(t, 2);
}
static Tensor atleast_3d(const Tensor& t) {
  return at_least(t, 3);
}
static TensorList each_at_least(const TensorList& tensors, int n) {
  TensorList out;
  for (const Tensor& t : tensors) out.push_back(at_least(t, n));
  return out;
}

// ---- turning and repeating ----------------------------------------------------------------------

Tensor flip(const Tensor& t, const IntList& dims) {
  ops::check_defined(t, "flip");
  int64_t mask = 0;
  for (int64_t d : dims) {
    int64_t bit = int64_t{1} << wrap_dim(d, t->shape.size(), "flip");
    PF_CHECK(!(mask & bit), ValueError, "flip", "got dimension ", d,
             " twice; expected each once; remove the repetition");
    mask |= bit;
  }
  Tensor out = make_tensor(t->shape, t->dtype, t->storage->device);
  if (ops::channels_lie_last(t)) lay_out(*out.impl(), channels_last_strides(t->shape));
  if (t->numel > 0)
    engine::call<kernels::Flip>({out, t}, {.dims = mask}, {.takes = engine::Takes::Bytes});
  if (autograd::wanted({t}))
    autograd::attach("flip", {out}, {t}, {},
                     [dims](const Context& c) -> Grads { return {flip(c.grad(), dims)}; });
  return out;
}

static Tensor fliplr(const Tensor& t) {
  return flip(t, {1});
}
static Tensor flipud(const Tensor& t) {
  ops::check_defined(t, "flipud");
  PF_CHECK(!t->shape.empty(), ShapeError, "flipud",
           "got a tensor of 0 dimensions; expected at least one; unsqueeze it first");
  return flip(t, {0});
}

Tensor roll(const Tensor& t, const IntList& shifts, const IntList& dims) {
  ops::check_defined(t, "roll");
  if (dims.empty()) {
    PF_CHECK(shifts.size() == 1, ValueError, "roll", "got ", shifts.size(),
             " shifts and no dims; expected one shift, or a dimension for each; give dims");
    return reshape(roll(reshape(t, {-1}), shifts, {0}), t->shape.vec());
  }
  PF_CHECK(shifts.size() == dims.size(), ValueError, "roll", "got ", shifts.size(), " shifts and ",
           dims.size(), " dims; expected as many; pair them up");
  PF_CHECK(!t->shape.empty(), IndexError, "roll",
           "got dims for a tensor of 0 dimensions; expected none; leave them out");
  if (t->numel == 0) return clone(t);
  Tensor out = t;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim(dims[i], t->shape.size(), "roll");
    Tensor next = make_tensor(t->shape, t->dtype, t->storage->device);
    const int64_t n = t->shape[d], shift = ((shifts[i] % n) + n) % n;
    engine::call<kernels::Roll>({next, out}, {.dim = d, .shift = shift},
                                {.takes = engine::Takes::Bytes});
    out = next;
  }
  if (autograd::wanted({t})) {
    IntList back = shifts;
    for (int64_t& s : back) s = -s;
    autograd::attach("roll", {out}, {t}, {}, [back, dims](const Context& c) -> Grads {
      return {roll(c.grad(), back, dims)};
    });
  }
  return out;
}

static Tensor rot90(const Tensor& t, int64_t k, const IntList& dims) {
  ops::check_defined(t, "rot90");
  PF_CHECK(dims.size() == 2 && t->shape.size() >= 2, ValueError, "rot90", "got ", dims.size(),
           " dims for shape ", t->shape, "; expected two different dimensions; name them");
  const int64_t a = wrap_dim(dims[0], t->shape.size(), "rot90"),
                b = wrap_dim(dims[1], t->shape.size(), "rot90");
  PF_CHECK(a != b, ValueError, "rot90", "got dimension ", a,
           " twice; expected two different ones; name another");
  switch (((k % 4) + 4) % 4) {
    case 1:
      return transpose(flip(t, {b}), a, b);
    case 2:
      return flip(t, {a, b});
    case 3:
      return flip(transpose(t, a, b), {b});
    default:
      return clone(t);
  }
}

Tensor repeat(const Tensor& t, const IntList& repeats) {
  ops::check_defined(t, "repeat");
  const int n = static_cast<int>(repeats.size()), extra = n - t->shape.size();
  PF_CHECK(extra >= 0, ShapeError, "repeat", "got ", n, " repeats for shape ", t->shape,
           "; expected at least one for each dimension; give more");
  // Each repeated dimension is seen as (repeats, size), the first of them without a stride.
  IntList seen, wide, joined;
  for (int d = 0; d < n; ++d) {
    const int64_t r = repeats[static_cast<size_t>(d)];
    const int64_t s = d < extra ? 1 : t->shape[d - extra];
    PF_CHECK(r >= 0, ValueError, "repeat", "got repeats ", Dims(repeats),
             "; expected none below 0; correct them");
    if (r != 1) {
      seen.push_back(1);
      wide.push_back(r);
    }
    seen.push_back(s);
    wide.push_back(s);
    joined.push_back(ops::checked_size(s, r, "repeat"));
  }
  checked_numel(Dims(joined), "repeat");
  Tensor e = expand(reshape(t, seen), wide);
  return view(clone(e), joined);
}

static Tensor tile(const Tensor& t, const IntList& dims) {
  ops::check_defined(t, "tile");
  IntList repeats = dims;
  while (static_cast<int>(repeats.size()) < t->shape.size()) repeats.insert(repeats.begin(), 1);
  return repeat(t, repeats);
}

static Tensor repeat_interleave(const Tensor& t, int64_t repeats, std::optional<int64_t> dim) {
  ops::check_defined(t, "repeat_interleave");
  PF_CHECK(repeats >= 0, ValueError, "repeat_interleave", "got ", repeats,
           " repeats; expected none below 0; correct it");
  if (!dim) return repeat_interleave(reshape(t, {-1}), repeats, 0);
  const int d = wrap_dim(*dim, t->shape.size(), "repeat_interleave");
  if (t->shape.size() == 0) return repeat_interleave(reshape(t, {1}), repeats, 0);
  Dims wide = t->shape, joined = t->shape;
  wide.insert(d + 1, repeats);
  checked_numel(wide, "repeat_interleave");
  joined[d] = ops::checked_size(joined[d], repeats, "repeat_interleave");
  return view(clone(expand(unsqueeze(t, d + 1), wide.vec())), joined.vec());
}

// counts[i] times i, for each i. Reads the counts on the host.
static Tensor repeated_indices(const Tensor& repeats, std::optional<int64_t> output_size) {
  const char* op = "repeat_interleave";
  ops::check_defined(repeats, op);
  PF_CHECK(repeats->shape.size() == 1, ShapeError, op, "got repeats of shape ", repeats->shape,
           "; expected one dimension; ravel them");
  const Tensor counts = ops::as_index(repeats, op);
  int64_t total = 0;
  for (int64_t c : counts.to_vector<int64_t>()) {
    PF_CHECK(c >= 0, ValueError, op, "got ", c, " repeats; expected none below 0; correct it");
    PF_CHECK(!__builtin_add_overflow(total, c, &total) && total < int64_t{1} << 61, ShapeError, op,
             "got 2^61 or more repeats together; expected fewer; correct them");
  }
  PF_CHECK(!output_size || *output_size == total, ValueError, op, "got output_size ",
           output_size.value_or(0), " for ", total, " repeats; expected their sum; correct it");
  const Device device = repeats->storage->device;
  if (total == 0) return make_tensor({0}, DType::Int64, device);
  // Each index begins where those before it end.
  const Tensor ends = slice(cumsum(counts, 0), 0, 0, counts->numel - 1);
  const Tensor steps = scatter_add(ops::raw_full({total + 1}, DType::Int64, device, 0), 0, ends,
                                   ops::raw_full(ends->shape, DType::Int64, device, 1));
  return cumsum(slice(steps, 0, 0, total), 0);
}
static Tensor repeat_interleave_indices(const Tensor& repeats, std::optional<int64_t> output_size) {
  return to(repeated_indices(repeats, output_size), repeats->dtype);
}

static Tensor repeat_interleave_each(const Tensor& t, const Tensor& repeats,
                                     std::optional<int64_t> dim,
                                     std::optional<int64_t> output_size) {
  ops::check_defined(t, "repeat_interleave");
  ops::check_defined(repeats, "repeat_interleave");
  if (!dim || t->shape.empty())
    return repeat_interleave_each(reshape(t, {-1}), repeats, 0, output_size);
  const int d = wrap_dim(*dim, t->shape.size(), "repeat_interleave");
  const int64_t n = t->shape[d];
  PF_CHECK(repeats->shape.size() <= 1 && (repeats->numel == n || repeats->numel == 1), ShapeError,
           "repeat_interleave", "got repeats of shape ", repeats->shape, " for dimension ", d,
           " of shape ", t->shape, "; expected one, or one for each of its ", n,
           " indices; correct the list");
  return index_select(
      t, d, repeated_indices(expand(reshape(repeats, {repeats->numel}), {n}), output_size));
}

static Tensor repeat_interleave_same(const Tensor& t, int64_t repeats, std::optional<int64_t> dim,
                                     std::optional<int64_t> output_size) {
  Tensor r = repeat_interleave(t, repeats, dim);
  const int64_t n =
      dim && !t->shape.empty() ? r->shape[wrap_dim(*dim, r->shape.size(), "")] : r->numel;
  PF_CHECK(!output_size || *output_size == n, ValueError, "repeat_interleave", "got output_size ",
           output_size.value_or(0), " for ", n, " repeats; expected their sum; correct it");
  return r;
}

// ---- triangles and padding ----------------------------------------------------------------------

namespace {

void run_triangle(const Tensor& out, const Tensor& in, int64_t diagonal, bool upper,
                  bool inplace = false) {
  // All or nothing is the same however far away the diagonal is, and kernels add to it.
  const int n = in->shape.size();
  diagonal = std::clamp(diagonal, -in->shape[n - 2] - 1, in->shape[n - 1] + 1);
  if (in->numel > 0)
    engine::call<kernels::Triangle>(
        {out, in}, {.diagonal = diagonal, .upper = upper},
        {.inplace = inplace, .op = upper ? "triu" : "tril", .takes = engine::Takes::Bytes});
}

void check_matrix(const Tensor& t, const char* op) {
  ops::check_defined(t, op);
  PF_CHECK(t->shape.size() >= 2, ShapeError, op, "got shape ", t->shape,
           "; expected at least 2 dimensions; unsqueeze it first");
}

Tensor triangle(const Tensor& t, int64_t diagonal, bool upper) {
  const char* op = upper ? "triu" : "tril";
  check_matrix(t, op);
  Tensor out = make_tensor(t->shape, t->dtype, t->storage->device);
  run_triangle(out, t, diagonal, upper);
  if (autograd::wanted({t}))
    autograd::attach(op, {out}, {t}, {}, [diagonal, upper](const Context& c) -> Grads {
      return {triangle(c.grad(), diagonal, upper)};
    });
  return out;
}

Tensor& triangle_(Tensor& t, int64_t diagonal, bool upper) {
  const char* op = upper ? "triu_" : "tril_";
  check_matrix(t, op);
  ops::write_inplace(
      t, op, {t}, {},
      [diagonal, upper](const Context& c) -> Grads {
        return {triangle(c.grad(), diagonal, upper)};
      },
      [&] { run_triangle(t, t, diagonal, upper, true); });
  return t;
}

}  // namespace

Tensor tril(const Tensor& t, int64_t diagonal) {
  return triangle(t, diagonal, false);
}
Tensor triu(const Tensor& t, int64_t diagonal) {
  return triangle(t, diagonal, true);
}
static Tensor tril_(Tensor t, int64_t diagonal) {
  return triangle_(t, diagonal, false);
}
static Tensor triu_(Tensor t, int64_t diagonal) {
  return triangle_(t, diagonal, true);
}

namespace {

Tensor pad_constant(const Tensor& t, const IntList& before, const IntList& after, Scalar value) {
  check_range(value, t->dtype, "pad", "the value");
  const int n = t->shape.size();
  Tensor inside = t;
  Dims shape = t->shape;
  ops::Geometry place{t->shape, {}, 0};
  for (int d = 0; d < n; ++d) {
    const int64_t b = before[static_cast<size_t>(d)], a = after[static_cast<size_t>(d)];
    shape[d] += b + a;
    PF_CHECK(shape[d] >= 0, ShapeError, "pad", "got padding ", b, " and ", a, " for dimension ", d,
             " of shape ", t->shape, "; expected a size of at least 0 to be left; pad less");
    if (b < 0 || a < 0)
      inside = slice(inside, d, std::max<int64_t>(-b, 0), t->shape[d] - std::max<int64_t>(-a, 0));
  }
  checked_numel(shape, "pad");
  Tensor out = make_tensor(shape, t->dtype, t->storage->device);
  if (ops::channels_lie_last(t)) lay_out(*out.impl(), channels_last_strides(shape));
  if (out->numel > 0) {
    const NoGrad off;
    fill_(out, value);
  }
  place = {shape, out->strides, 0};
  for (int d = 0; d < n; ++d)
    place.offset += std::max<int64_t>(before[static_cast<size_t>(d)], 0) * place.strides[d];
  place.shape = inside->shape;
  if (inside->numel > 0) ops::raw_copy(ops::raw_view(out, place), inside);
  if (autograd::wanted({inside}))
    autograd::attach("pad", {out}, {inside}, {},
                     [before, size = inside->shape](const Context& c) -> Grads {
                       Tensor g = c.grad();
                       for (int d = 0; d < size.size(); ++d) {
                         int64_t at = std::max<int64_t>(before[static_cast<size_t>(d)], 0);
                         if (g->shape[d] != size[d]) g = slice(g, d, at, at + size[d]);
                       }
                       return {g};
                     });
  return out;
}

// Which index of the input each index of the padded dimension shows.
IntList padded_indices(int64_t n, int64_t before, int64_t after, const std::string& mode) {
  IntList from;
  for (int64_t i = -before; i < n + after; ++i) {
    int64_t j = i;
    if (mode == "replicate") {
      j = std::clamp<int64_t>(i, 0, n - 1);
    } else if (mode == "circular") {
      const int64_t cut = std::max<int64_t>(0, -before),
                    left = n - cut - std::max<int64_t>(0, -after);
      // What is cut does not come back.
      j = cut + (((i - cut) % left) + left) % left;
    } else {
      // Reflected, without repeating the edge.
      if (j < 0) j = -j;
      if (j >= n) j = 2 * (n - 1) - j;
    }
    from.push_back(j);
  }
  return from;
}

}  // namespace

Tensor pad(const Tensor& t, const IntList& padding, const std::string& mode,
           std::optional<Scalar> value) {
  ops::check_defined(t, "pad");
  const int n = t->shape.size(), pairs = static_cast<int>(padding.size()) / 2;
  PF_CHECK(padding.size() % 2 == 0 && pairs <= n, ShapeError, "pad", "got ", padding.size(),
           " paddings for shape ", t->shape,
           "; expected two for each of the last dimensions; give (before, after) from the last "
           "dimension on");
  constexpr int64_t kMost = int64_t{1} << 61;  // sums of these are exact
  for (int64_t p : padding)
    PF_CHECK(p > -kMost && p < kMost, ShapeError, "pad", "got a padding of ", p,
             "; expected one below 2^61 in magnitude; pad less");
  IntList before(static_cast<size_t>(n), 0), after(static_cast<size_t>(n), 0);
  for (int p = 0; p < pairs; ++p) {
    before[static_cast<size_t>(n - 1 - p)] = padding[static_cast<size_t>(2 * p)];
    after[static_cast<size_t>(n - 1 - p)] = padding[static_cast<size_t>(2 * p) + 1];
  }
  if (mode == "constant") return pad_constant(t, before, after, value.value_or(Scalar(0)));
  PF_CHECK(mode == "reflect" || mode == "replicate" || mode == "circular", ValueError, "pad",
           "got mode '", mode,
           "'; expected 'constant', 'reflect', 'replicate' or 'circular'; choose one of them");
  if (mode != "circular" && !(mode == "reflect" && pairs > 2))
    PF_AUTOCAST("", FollowElseRaise, pad, t, padding, mode, value);
  PF_CHECK(!value || value->to_double() == 0, ValueError, "pad", "got a value for mode '", mode,
           "'; expected one for mode 'constant' only; leave it out");
  const bool last = ops::channels_lie_last(t);
  Tensor out = last ? ops::channels_to_end(t) : t;
  for (int d = 0; d < n; ++d) {
    const int64_t b = before[static_cast<size_t>(d)], a = after[static_cast<size_t>(d)];
    if (b == 0 && a == 0) continue;
    const int64_t size = t->shape[d], most = mode == "reflect" ? size - 1 : size;
    PF_CHECK(size + b + a >= 0 && size > 0 && (mode == "replicate" || (b <= most && a <= most)),
             ShapeError, "pad", "got padding ", b, " and ", a, " for dimension ", d, " of shape ",
             t->shape, " in mode '", mode, "'; expected at most ", most, " on each side; pad less");
    const int64_t left = size - std::max<int64_t>(0, -b) - std::max<int64_t>(0, -a);
    PF_CHECK(mode != "circular" || (left > 0 && b <= left && a <= left), ShapeError, "pad",
             "got padding ", b, " and ", a, " for dimension ", d, " of shape ", t->shape,
             " in mode 'circular', which leaves ", left,
             " elements; expected at least as many as are added on a side; cut less");
    IntList from = padded_indices(size, b, a, mode);
    out = index_select(out, last ? when_channels_end(d, n) : d,
                       from_host(from.data(), {static_cast<int64_t>(from.size())}, DType::Int64,
                                 t->storage->device));
  }
  return last ? ops::channels_from_end(out) : out;
}

namespace ops {
namespace {

// Sequences [length, ...] of different lengths in one tensor [longest, batch, ...].
Tensor pad_sequence(const TensorList& sequences, bool batch_first, Scalar value, std::string side) {
  const char* op = "pad_sequence";
  PF_CHECK(!sequences.empty(), ValueError, op,
           "got no tensors; expected at least one; check the list");
  PF_CHECK(side == "right" || side == "left", ValueError, op, "got padding_side '", side,
           "'; expected 'right' or 'left'; choose one of them");
  int64_t longest = 0;
  for (const Tensor& t : sequences) {
    ops::check_defined(t, op);
    PF_CHECK(!t->shape.empty() && t->shape.size() == sequences[0]->shape.size(), ShapeError, op,
             "got shapes ", sequences[0]->shape, " and ", t->shape,
             "; expected [length, ...] with equal other sizes; reshape them");
    longest = std::max(longest, t->shape[0]);
  }
  TensorList padded;
  for (const Tensor& t : sequences) {
    IntList around(static_cast<size_t>(2 * t->shape.size()), 0);
    around[around.size() - (side == "right" ? 1 : 2)] = longest - t->shape[0];
    padded.push_back(longest == t->shape[0] ? t : pad(t, around, "constant", value));
  }
  return stack(padded, batch_first ? 0 : 1);
}

const Family kShapes("shape", [](Family& f) {
  f.op(
      +[](const Tensor& t, const std::string& format) {
        return contiguous(t, memory_format_from(format, "contiguous"));
      },
      {"contiguous(Tensor input, str memory_format='contiguous_format') -> Tensor",
       "The tensor itself when its elements lie in row-major order, or as `memory_format` says, "
       "else a copy.",
       kMethod});
  f.op(
      +[](const Tensor& t, const std::optional<std::string>& format) {
        return clone(t, memory_format_from(format.value_or("preserve_format"), "clone"));
      },
      {"clone(Tensor input, *, str? memory_format=None) -> Tensor",
       "A copy; gradients flow through it. Its dimensions lie in memory in the input's order, or "
       "as `memory_format` says."});
  for (const char* schema : {"cat(Tensor[] tensors, int dim=0) -> Tensor",
                             "concat(Tensor[] tensors, int dim=0) -> Tensor",
                             "concatenate(Tensor[] tensors, int dim=0) -> Tensor"})
    f.op(&cat, {schema,
                "Tensors joined along a dimension. Other dimensions must agree; dtypes are "
                "promoted; 1-D tensors without elements are skipped.",
                kFunction});
  f.op(&stack, {"stack(Tensor[] tensors, int dim=0) -> Tensor",
                "Tensors of one shape joined along a new dimension.", kFunction});
  f.op(&hstack, {"hstack(Tensor[] tensors) -> Tensor",
                 "Joined along the second dimension (the first for 1-D tensors).", kFunction});
  for (const char* schema :
       {"vstack(Tensor[] tensors) -> Tensor", "row_stack(Tensor[] tensors) -> Tensor"})
    f.op(&vstack, {schema, "Joined along the first dimension, 1-D tensors as rows.", kFunction});
  f.op(&dstack,
       {"dstack(Tensor[] tensors) -> Tensor", "Joined along the third dimension.", kFunction});
  f.op(&column_stack, {"column_stack(Tensor[] tensors) -> Tensor",
                       "Joined along the second dimension, 1-D tensors as columns.", kFunction});
  f.op(&atleast_1d,
       {"atleast_1d(Tensor input) -> Tensor", "A scalar as a vector of one element.", kFunction});
  f.op(&atleast_2d, {"atleast_2d(Tensor input) -> Tensor",
                     "At least two dimensions; new ones first.", kFunction});
  f.op(&atleast_3d, {"atleast_3d(Tensor input) -> Tensor",
                     "At least three dimensions, a matrix getting its third last.", kFunction});
  f.op(+[](const TensorList& all) { return each_at_least(all, 1); },
       {"atleast_1d(Tensor[] tensors) -> Tensor[]", "The same for several tensors.", kFunction});
  f.op(+[](const TensorList& all) { return each_at_least(all, 2); },
       {"atleast_2d(Tensor[] tensors) -> Tensor[]", "The same for several tensors.", kFunction});
  f.op(+[](const TensorList& all) { return each_at_least(all, 3); },
       {"atleast_3d(Tensor[] tensors) -> Tensor[]", "The same for several tensors.", kFunction});
  f.op(&flip, {"flip(Tensor input, int[] dims) -> Tensor", "Dimensions turned round (a copy)."});
  f.op(&fliplr, {"fliplr(Tensor input) -> Tensor", "The second dimension turned round."});
  f.op(&flipud, {"flipud(Tensor input) -> Tensor", "The first dimension turned round."});
  f.op(&roll, {"roll(Tensor input, int[] shifts, int[] dims=[]) -> Tensor",
               "Elements moved along dimensions, those that leave come back at the other end. "
               "Without dims over the flattened tensor."});
  f.op(&rot90, {"rot90(Tensor input, int k=1, int[] dims=[0, 1]) -> Tensor",
                "Turned k times by 90 degrees in the plane of two dimensions."});
  f.op(&repeat, {"repeat(Tensor input, int[] repeats) -> Tensor",
                 "Copies of the tensor along each dimension; new dimensions come first.", kMethod});
  f.op(&tile, {"tile(Tensor input, int[] dims) -> Tensor",
               "Copies of the tensor along the last dimensions."});
  f.op(&repeat_interleave_same,
       {"repeat_interleave(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> "
        "Tensor",
        "Each element repeated in its place, along `dim` or in the flattened tensor. output_size, "
        "if given, must be the size of the result there."});
  f.op(&repeat_interleave_each,
       {"repeat_interleave(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) "
        "-> Tensor",
        "Each element repeated so many times as `repeats` says. Reads `repeats` on the host."});
  f.op(&repeat_interleave_indices,
       {"repeat_interleave(Tensor repeats, *, int? output_size=None) -> Tensor",
        "The index i `repeats[i]` times, for each i.", kFunction, false});
  f.op(&tril,
       {"tril(Tensor input, int diagonal=0) -> Tensor", "Matrices with zeros above a diagonal."});
  f.op(&triu,
       {"triu(Tensor input, int diagonal=0) -> Tensor", "Matrices with zeros below a diagonal."});
  f.op(&tril_, {"tril_(Tensor input, int diagonal=0) -> Tensor", "In-place tril.", kMethod});
  f.op(&triu_, {"triu_(Tensor input, int diagonal=0) -> Tensor", "In-place triu.", kMethod});
  f.op(&pad, {"pad(Tensor input, int[] pad, str mode='constant', Scalar? value=None) -> Tensor",
              "Elements added at the ends of the last dimensions: `pad` is (before, after) of the "
              "last one, then of the one before it, and so on. Modes: constant (0 unless `value`), "
              "reflect, replicate, circular. Negative padding cuts.",
              kFunctional});
  f.op(&pad_sequence,
       {"pad_sequence(Tensor[] sequences, bool batch_first=False, Scalar padding_value=0.0, str "
        "padding_side='right') -> Tensor",
        "Sequences [length, ...] as one tensor [longest, batch, ...] (or batch first), the shorter "
        "ones filled up with padding_value.",
        kFunctional});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
