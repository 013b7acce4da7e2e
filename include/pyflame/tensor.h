// The tensor handle: one pointer, cheap to copy, shared like PyTorch's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <utility>
#include <vector>

#include "pyflame/device.h"
#include "pyflame/dtype.h"
#include "pyflame/shape.h"

namespace pyflame {

namespace detail {
struct RefCounted {
  std::atomic<uint32_t> refs{1};
};
}  // namespace detail

struct TensorImpl;
namespace detail {
void destroy(TensorImpl*) noexcept;
}

class Tensor {
 public:
  Tensor() noexcept : p_(nullptr) {}
  Tensor(const Tensor& o) noexcept : p_(o.p_) { retain(); }
  Tensor(Tensor&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Tensor& operator=(Tensor o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Tensor() { release(); }

  // Takes over one reference.
  static Tensor adopt(TensorImpl* p) {
    Tensor t;
    t.p_ = p;
    return t;
  }
  static Tensor share(TensorImpl* p) {
    Tensor t;
    t.p_ = p;
    t.retain();
    return t;
  }
  TensorImpl* impl() const { return p_; }
  TensorImpl* operator->() const { return p_; }  // TensorImpl is internal: src/core/tensor_impl.h
  bool defined() const { return p_ != nullptr; }
  explicit operator bool() const = delete;

  const Dims& shape() const;
  const Dims& strides() const;  // in elements
  int64_t storage_offset() const;
  DType dtype() const;
  Device device() const;
  int dim() const;
  int64_t numel() const;
  int64_t size(int64_t d) const;  // negative d counts from the end
  bool is_contiguous() const;

  // Host pointer to the first element; runs what is pending first. DeviceError off the CPU,
  // DTypeError when T is another type. The tensor need not be contiguous: mind the strides.
  template <class T>
  T* data() const;
  // The one element of the tensor, converted. ShapeError when there is more than one.
  template <class T>
  T item() const;
  Scalar item() const;
  // All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  // Autograd. Names and meaning as in PyTorch.
  bool requires_grad() const;
  Tensor& requires_grad_(bool on = true);
  bool is_leaf() const;
  Tensor grad() const;
  void set_grad(const Tensor&);
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  Tensor detach() const;
  // Called with the gradient of this tensor; a returned tensor replaces it. Returns a handle
  // for remove_hook.
  int64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  void remove_hook(int64_t handle) const;

 private:
  void retain() const {
    if (p_) reinterpret_cast<detail::RefCounted*>(p_)->refs.fetch_add(1, std::memory_order_relaxed);
  }
  void release() noexcept {
    if (p_ && reinterpret_cast<detail::RefCounted*>(p_)->refs.fetch_sub(
                  1, std::memory_order_acq_rel) == 1)
      detail::destroy(p_);
  }
  TensorImpl* p_;
};

std::ostream& operator<<(std::ostream&, const Tensor&);

}  // namespace pyflame
