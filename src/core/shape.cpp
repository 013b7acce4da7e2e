#include "pyflame/shape.h"

#include <algorithm>
#include <ostream>

namespace pyflame {

void Dims::insert(int at, int64_t v) {
  check_rank(static_cast<size_t>(n_) + 1);
  for (int i = n_; i > at; --i) d_[i] = d_[i - 1];
  d_[at] = v;
  ++n_;
}

void Dims::erase(int at) {
  for (int i = at; i + 1 < n_; ++i) d_[i] = d_[i + 1];
  --n_;
}

void Dims::resize(int n, int64_t fill) {
  check_rank(static_cast<size_t>(n));
  for (int i = n_; i < n; ++i) d_[i] = fill;
  n_ = n;
}

std::ostream& operator<<(std::ostream& s, const Dims& d) {
  s << '[';
  for (int i = 0; i < d.size(); ++i) s << (i ? ", " : "") << d[i];
  return s << ']';
}

int64_t checked_numel(const Dims& shape, const char* op) {
  constexpr int64_t kLimit = int64_t{1} << 58;  // times 16 bytes, the widest dtype, stays in 2^62
  int64_t n = 1;
  bool empty = false, too_large = false;
  for (int64_t s : shape) {
    PF_CHECK(s >= 0, ShapeError, op, "got the negative size ", s, " in shape ", shape,
             "; sizes must be 0 or more");
    empty |= s == 0;
    too_large |= __builtin_mul_overflow(n, std::max<int64_t>(s, 1), &n) || n > kLimit;
    if (too_large) n = 1;
  }
  if (empty) return 0;
  PF_CHECK(!too_large, ShapeError, op, "shape ", shape,
           " has more elements than an address can reach; use smaller sizes");
  return n;
}

Dims contiguous_strides(const Dims& shape) {
  Dims r = shape;
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    r[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return r;
}

bool dense_strides_like(const Dims& shape, const Dims& strides, Dims* dense) {
  int order[kMaxDims], n = 0;  // dimensions that matter, outermost first
  bool same = true;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (strides[d] <= 0 || shape[d] == 0) return false;
    int at = n++;
    for (; at > 0 && strides[order[at - 1]] < strides[d]; --at) order[at] = order[at - 1];
    same = same && at == n - 1;
    order[at] = d;
  }
  if (same) return false;
  *dense = Dims::filled(shape.size(), 1);
  int64_t step = 1;
  for (int i = n - 1; i >= 0; --i) {
    (*dense)[order[i]] = step;
    step *= shape[order[i]];
  }
  return true;
}

bool is_contiguous(const Dims& shape, const Dims& strides) {
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1) {
      if (strides[i] != step) return false;
      step *= shape[i];
    }
  }
  return true;
}

Dims strides_in(MemoryFormat format, const Dims& shape, const char* op) {
  if (format != MemoryFormat::ChannelsLast && format != MemoryFormat::ChannelsLast3d)
    return contiguous_strides(shape);
  const int n = format == MemoryFormat::ChannelsLast ? 4 : 5;
  PF_CHECK(shape.size() == n, ShapeError, op, "got shape ", shape, "; expected ", n,
           " dimensions for memory_format=", n == 4 ? "channels_last" : "channels_last_3d",
           "; leave it away for others");
  return channels_last_strides(shape);
}

Dims channels_last_strides(const Dims& shape) {
  Dims strides = shape;
  int64_t step = std::max<int64_t>(shape[1], 1);
  strides[1] = 1;
  for (int d = shape.size() - 1; d >= 2; --d) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  strides[0] = step;
  return strides;
}

bool lies_as(const Dims& shape, const Dims& strides, const Dims& others) {
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && strides[d] != others[d]) return false;
  return true;
}

bool lies_in(MemoryFormat format, const Dims& shape, const Dims& strides) {
  if (format == MemoryFormat::Preserve) return true;
  if (format == MemoryFormat::Contiguous) return is_contiguous(shape, strides);
  if (shape.size() != (format == MemoryFormat::ChannelsLast ? 4 : 5)) return false;
  return lies_as(shape, strides, channels_last_strides(shape));
}

bool may_self_overlap(const Dims& shape, const Dims& strides) {
  // Sorted by stride, each step must pass everything that the smaller ones can reach.
  int order[kMaxDims];
  int n = 0;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return false;
    if (shape[i] != 1) order[n++] = i;
  }
  std::sort(order, order + n, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t reach = 0;
  for (int k = 0; k < n; ++k) {
    int i = order[k];
    if (strides[i] <= reach) return true;
    reach += strides[i] * (shape[i] - 1);
  }
  return false;
}

Dims broadcast_shapes(const Dims& a, const Dims& b, const char* op) {
  if (a == b) return a;
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims r = longer;
  int shift = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    int64_t x = longer[i + shift], y = shorter[i];
    PF_CHECK(x == y || x == 1 || y == 1, ShapeError, op, "got shapes ", a, " and ", b,
             "; sizes must be equal or 1, counted from the last dimension, but dimension ",
             i + shift, " has ", x, " and ", y, "; reshape or expand one of them");
    r[i + shift] = x == 1 ? y : x;
  }
  return r;
}

Dims broadcast_strides(const Dims& shape, const Dims& strides, const Dims& target) {
  Dims r = Dims::filled(target.size(), 0);
  int shift = target.size() - shape.size();
  for (int i = 0; i < shape.size(); ++i)
    r[i + shift] = shape[i] == 1 && target[i + shift] != 1 ? 0 : strides[i];
  return r;
}

bool view_strides(const Dims& old_shape, const Dims& old_strides, const Dims& shape,
                  Dims* strides) {
  *strides = contiguous_strides(shape);
  if (numel(old_shape) == 0) return true;
  // Merge old dimensions into runs that are evenly strided; each run must be cut by new ones.
  int o = old_shape.size() - 1, n = shape.size() - 1;
  while (o >= 0) {
    int64_t run = old_shape[o], step = old_strides[o];
    while (o > 0 && (old_shape[o - 1] == 1 || run == 1 || old_strides[o - 1] == step * run)) {
      if (run == 1) step = old_strides[o - 1];
      run *= old_shape[o - 1];
      --o;
    }
    --o;
    int64_t filled = 1;
    while (n >= 0 && (filled < run || shape[n] == 1)) {
      (*strides)[n] = step * filled;
      filled *= shape[n];
      --n;
      if (filled > run) return false;
    }
    if (filled != run) return false;
  }
  return true;
}

Dims infer_shape(const Dims& shape, int64_t n, const char* op) {
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      PF_CHECK(unknown < 0, ShapeError, op, "got shape ", shape,
               " with more than one -1; only one size can be inferred");
      unknown = i;
    } else {
      PF_CHECK(shape[i] >= 0, ShapeError, op, "got the negative size ", shape[i], " in shape ",
               shape, "; sizes must be 0 or more, or -1 once");
      PF_CHECK(!__builtin_mul_overflow(known, shape[i], &known), ShapeError, op, "shape ", shape,
               " has more elements than an address can reach");
    }
  }
  Dims r = shape;
  if (unknown >= 0) {
    PF_CHECK(known != 0 && n % known == 0, ShapeError, op, "cannot make shape ", shape, " from ", n,
             " elements; the other sizes must divide them");
    r[unknown] = n / known;
  } else {
    PF_CHECK(known == n, ShapeError, op, "cannot make shape ", shape, " (", known,
             " elements) from ", n, " elements; use sizes with the same product, or -1 for one");
  }
  return r;
}

int wrap_dim(int64_t dim, int ndim, const char* op) {
  int range = std::max(ndim, 1);
  PF_CHECK(dim >= -range && dim < range, IndexError, op, "got dimension ", dim,
           " for a tensor with ", ndim, " dimensions; expected ", -range, " to ", range - 1);
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

}  // namespace pyflame
