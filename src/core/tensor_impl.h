// The insides of a tensor: storage (memory, shared by views) and impl (geometry, autograd).
// Inside the library read fields directly (`t->shape`, `t->numel`), not through the accessors.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>

#include "pyflame/tensor.h"

namespace pyflame {

namespace engine {
class Group;
}
namespace autograd {
struct Meta;
}
struct Block;        // core/allocator.h
struct PinnedBlock;  // core/pinned.h

// An intrusive pointer for types that begin with detail::RefCounted and have a static destroy().
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  static Ref adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref share(T* p) {
    if (p) p->refs.fetch_add(1, std::memory_order_relaxed);
    return adopt(p);
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { reset(); }
  void reset() noexcept {
    if (T* p = std::exchange(p_, nullptr))
      if (p->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(p);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  T* release() { return std::exchange(p_, nullptr); }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

// Dimensions that operations do not see, by which a tensor differs from one sample of a vmap to the
// next (engine/hidden.h). Oldest vmap first; shared by views and never changed.
struct Hidden : detail::RefCounted {
  static constexpr int kMost = 6;
  struct Dim {
    uint32_t level;  // number of the vmap
    int64_t size;
    int64_t stride;  // in elements
  };
  int n = 0;
  Dim dims[kMost];

  static Hidden* create();
  static void destroy(Hidden*) noexcept;
};
// Whether there is a vmap, or a tensor with hidden dimensions, or one that has to follow its
// storage to them: while not, nobody asks for them. For the library alone: the module has a
// variable of its own of that name.
namespace detail {
inline std::atomic<int> g_hiding{0};
}
inline bool hiding() {
  return detail::g_hiding.load(std::memory_order_relaxed) != 0;
}

// Memory of one device. It exists at record time; `data` stays null until a flush needs it.
// `data` is an address of the device: on the host only readable when the backend says so.
//
// Two counts: `handles` is how many TensorImpls look at it (none left: nobody can read the value
// any more); `refs` keeps the object alive: one for all handles together, one for each place
// in a group that is not run yet.
struct Storage : detail::RefCounted {
  std::atomic<int32_t> handles{0};
  Device device;
  bool foreign = false;   // pointer imported or exported: never pending after a call returns
  bool exposed = false;   // C++ code holds a pointer that it may write through
  bool readonly = false;  // imported memory that must not be written
  bool poisoned = false;  // the flush that should have written it failed
  int16_t writer_node = -1;
  uint32_t version = 0;  // bumped at record time by every in-place write
  uint32_t unseen = 0;   // of those writes the ones through Tensor.data: gradients do not mind them
  uint32_t born = 0;     // the newest vmap when it was made, 0: none; highest bit: inference.h
  std::atomic<uint32_t> serial{0};  // no other storage has it; 0: nobody has asked (captures do)
  size_t nbytes = 0;
  void* data = nullptr;
  Block* block = nullptr;                        // the allocator's, null if foreign or pinned
  PinnedBlock* pinned = nullptr;                 // memory of the host that GPUs read directly
  std::atomic<engine::Group*> writer{nullptr};   // group with a recorded, not yet run write
  std::atomic<engine::Group*> reader{nullptr};   // group with a recorded read, or many_readers()
  std::function<void()>* on_free = nullptr;      // foreign memory: gives it back
  std::exception_ptr error;                      // why it is poisoned
  struct Replicas* replicas = nullptr;           // copies on other devices (engine/placement.cpp)
  std::atomic<struct KeptForms*> kept{nullptr};  // what kernels made of its values (core/kept.h)
  struct Grown* grown = nullptr;  // what it became when values that differ were written into it
  struct SparseParts* sparse = nullptr;  // of a sparse tensor, in place of memory

  static Storage* create(Device device, size_t nbytes);
  static void destroy(Storage*) noexcept;
};

// What a TensorImpl holds: counts as a handle.
class StorageHandle {
 public:
  StorageHandle() = default;
  static StorageHandle share(Storage* s) {
    s->handles.fetch_add(1, std::memory_order_relaxed);
    StorageHandle h;
    h.p_ = s;
    return h;
  }
  StorageHandle(const StorageHandle&) = delete;
  StorageHandle(StorageHandle&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  StorageHandle& operator=(StorageHandle&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~StorageHandle() { reset(); }
  void reset() noexcept;
  Storage* get() const { return p_; }
  Storage* operator->() const { return p_; }
  Storage& operator*() const { return *p_; }
  friend bool operator==(const StorageHandle& a, const StorageHandle& b) { return a.p_ == b.p_; }

 private:
  Storage* p_ = nullptr;
};

struct TensorImpl : detail::RefCounted {
  DType dtype = DType::Float32;
  bool contiguous = true;
  bool requires_grad = false;  // leaf flag; a tensor with a grad_fn requires grad by having it
  bool floating = false;  // no device was named for it: operations on it run on the current one
  bool apart = false;     // Tensor.data gave it, or it is a view of such a tensor
  StorageHandle storage;
  int64_t numel = 1;
  int64_t offset = 0;  // in elements
  autograd::Meta* meta = nullptr;
  Ref<Hidden> hidden;
  void* wrapper = nullptr;  // the Python object of this tensor while it lives: the binding's alone
  Dims shape;
  Dims strides;  // in elements

  Device device() const { return {storage->device.type, storage->device.index, floating}; }

  static TensorImpl* create();  // from a pool
  static void destroy(TensorImpl*) noexcept;
};

// Notes a write into a tensor, when it is recorded.
inline void note_write(const TensorImpl& t) {
  ++t.storage->version;
  if (t.apart) [[unlikely]]
    ++t.storage->unseen;
}
// The writes that a tensor kept for the backward pass must not have missed.
inline uint32_t seen_version(const Storage& s) {
  return s.version - s.unseen;
}

// Whether there ever was anything but the CPU in use: while not, nobody asks where to run.
namespace detail {
inline std::atomic<bool> g_second_device{false};
}
inline bool several_devices() {
  return detail::g_second_device.load(std::memory_order_relaxed);
}
inline void note_second_device() {
  detail::g_second_device.store(true, std::memory_order_relaxed);
}

// A storage that became another: once over for each sample of some vmaps, in that order.
struct Grown {
  Grown() { detail::g_hiding.fetch_add(1); }  // somebody may still have to follow
  ~Grown() { detail::g_hiding.fetch_sub(1); }
  Grown(const Grown&) = delete;
  Grown& operator=(const Grown&) = delete;

  StorageHandle storage;
  int n = 0;
  Hidden::Dim dims[Hidden::kMost];  // those that came to it, without strides
};
// Has a tensor look at what its storage became.
void follow_growth(TensorImpl&);
inline void catch_up(TensorImpl& t) {
  if (t.storage->grown) [[unlikely]]
    follow_growth(t);
}
namespace detail {
inline std::atomic<uint32_t> g_newest_vmap{0};
}

// Where an operation on these runs: as engine/placement.h says, without a check.
Device runs_on(std::initializer_list<Tensor> operands);

// A fresh contiguous tensor without values. Records nothing and allocates nothing. On a floating
// device: on the thread's current one.
Tensor make_tensor(const Dims& shape, DType dtype, Device device);
// On a device that has been settled: there and nowhere else.
Tensor make_tensor_at(const Dims& shape, DType dtype, Device device);
// Gives a fresh tensor other strides over all of its memory.
inline void lay_out(TensorImpl& t, const Dims& strides) {
  t.strides = strides;
  t.contiguous = is_contiguous(t.shape, strides);
}
// As another tensor of its shape lies, without gaps.
inline void lay_out_like(TensorImpl& t, const TensorImpl& other) {
  Dims strides;
  if (!other.contiguous && info(t.dtype).bits >= 8 &&
      dense_strides_like(t.shape, other.strides, &strides)) [[unlikely]]
    lay_out(t, strides);
}
// Makes a fresh tensor, which nobody else has seen, float where it is.
inline Tensor afloat(Tensor t) {
  t->floating = t->storage->device.floating = true;
  return t;
}
// The same memory and history, placed where it is.
Tensor placed_alias(const Tensor& t);
// A tensor that looks at a storage; nothing else is known of it.
Tensor look_at(Storage* s, DType dtype, bool floating, const Dims& shape, const Dims& strides,
               int64_t offset = 0);
// A view of `base`'s storage; no autograd history.
Tensor make_view(const Tensor& base, const Dims& shape, const Dims& strides, int64_t offset);
// Wraps memory that somebody else owns.
Tensor wrap_foreign(void* data, const Dims& shape, const Dims& strides, DType dtype, Device device,
                    bool readonly, std::function<void()> on_free);

}  // namespace pyflame
