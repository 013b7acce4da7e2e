// Sizes and strides. A small vector held in place: no allocation on the path of an operation.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <vector>

#include "pyflame/error.h"

namespace pyflame {

inline constexpr int kMaxDims = 12;

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> l) : Dims(std::span<const int64_t>(l.begin(), l.size())) {}
  explicit Dims(std::span<const int64_t> s) {
    check_rank(s.size());
    n_ = static_cast<int>(s.size());
    for (int i = 0; i < n_; ++i) d_[i] = s[static_cast<size_t>(i)];
  }
  explicit Dims(const std::vector<int64_t>& v) : Dims(std::span<const int64_t>(v)) {}
  Dims(const Dims& o) : n_(o.n_) { copy(o); }
  Dims& operator=(const Dims& o) {
    n_ = o.n_;
    copy(o);
    return *this;
  }
  static Dims filled(int n, int64_t v) {
    Dims r;
    check_rank(static_cast<size_t>(n));
    r.n_ = n;
    for (int i = 0; i < n; ++i) r.d_[i] = v;
    return r;
  }

  int size() const { return n_; }
  bool empty() const { return n_ == 0; }
  int64_t operator[](int i) const { return d_[i]; }
  int64_t& operator[](int i) { return d_[i]; }
  const int64_t* data() const { return d_; }
  int64_t* data() { return d_; }
  const int64_t* begin() const { return d_; }
  const int64_t* end() const { return d_ + n_; }
  int64_t back() const { return d_[n_ - 1]; }
  int64_t& back() { return d_[n_ - 1]; }
  void push_back(int64_t v) {
    check_rank(static_cast<size_t>(n_) + 1);
    d_[n_++] = v;
  }
  void insert(int at, int64_t v);
  void erase(int at);
  void resize(int n, int64_t fill = 0);
  std::vector<int64_t> vec() const { return {begin(), end()}; }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.n_ != b.n_) return false;
    for (int i = 0; i < a.n_; ++i)
      if (a.d_[i] != b.d_[i]) return false;
    return true;
  }

 private:
  static void check_rank(size_t n) {
    if (n > kMaxDims)
      PF_FAIL(ShapeError, "tensor", "got ", n, " dimensions; at most ", kMaxDims,
              " are supported; merge dimensions with reshape");
  }
  void copy(const Dims& o) {
    for (int i = 0; i < n_; ++i) d_[i] = o.d_[i];
  }
  int n_ = 0;
  int64_t d_[kMaxDims];
};

std::ostream& operator<<(std::ostream&, const Dims&);  // prints [2, 3]

// Product of the sizes. ShapeError on a negative size or when bytes would pass 2^62.
int64_t checked_numel(const Dims& shape, const char* op);
inline int64_t numel(const Dims& shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}
Dims contiguous_strides(const Dims& shape);
// Dimensions of size 1 may have any stride; an empty tensor is contiguous.
bool is_contiguous(const Dims& shape, const Dims& strides);
// Strides without gaps whose dimensions lie in memory in the order in which those of `strides` do:
// false, and nothing is changed, where that order is row-major or elements lie on each other.
bool dense_strides_like(const Dims& shape, const Dims& strides, Dims* dense);
// How the dimensions of a tensor lie in memory: row-major, as another's do, or with dimension 1
// (the channels of pictures, of volumes) last, of four dimensions or of five.
enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
// Dense strides of a format other than Preserve. ShapeError where the shape has not its dimensions.
Dims strides_in(MemoryFormat format, const Dims& shape, const char* op);
// With dimension 1 last, of any number of dimensions from two on.
Dims channels_last_strides(const Dims& shape);
// Whether the strides are those, but for dimensions of size 1.
bool lies_as(const Dims& shape, const Dims& strides, const Dims& others);
// Whether it lies so; never for another number of dimensions.
bool lies_in(MemoryFormat format, const Dims& shape, const Dims& strides);
// True when two different indices may reach the same element (also stride 0 with size > 1).
bool may_self_overlap(const Dims& shape, const Dims& strides);
// Broadcast two shapes by the usual rule; ShapeError names `op` and both shapes.
Dims broadcast_shapes(const Dims& a, const Dims& b, const char* op);
// Strides that make `shape` look like `target` (stride 0 in expanded dimensions).
Dims broadcast_strides(const Dims& shape, const Dims& strides, const Dims& target);
// Strides of a view with `shape` over the same elements; false when a copy is needed.
bool view_strides(const Dims& old_shape, const Dims& old_strides, const Dims& shape, Dims* strides);
// Replaces one -1 in `shape`; ShapeError when sizes do not multiply to `n`.
Dims infer_shape(const Dims& shape, int64_t n, const char* op);
// Wraps a negative dimension; IndexError when out of range (0-d counts as 1-d).
int wrap_dim(int64_t dim, int ndim, const char* op);

}  // namespace pyflame
