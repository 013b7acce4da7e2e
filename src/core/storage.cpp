#include <algorithm>
#include <new>

#include "core/allocator.h"
#include "core/inference.h"
#include "core/kept.h"
#include "core/pinned.h"
#include "core/pool.h"
#include "core/tensor_impl.h"
#include "core/upcalls.h"

namespace pyflame {

Storage* Storage::create(Device device, size_t nbytes) {
  Storage* s = new (Pool<Storage>::take()) Storage;
  s->device = device;
  s->nbytes = nbytes;
  if (!device.is_cpu()) [[unlikely]]
    note_second_device();
  return s;
}

void Storage::destroy(Storage* s) noexcept {
  if (s->replicas) [[unlikely]]
    drop_replicas(*s);
  drop_kept(*s);
  if (s->serial.load(std::memory_order_relaxed)) [[unlikely]]
    engine::on_numbered_storage_ends(*s);
  delete s->grown;
  if (s->sparse) [[unlikely]]
    drop_sparse(*s);
  if (s->block) release(s->block);
  if (s->pinned) give_pinned(s->pinned);
  if (s->on_free) {
    (*s->on_free)();
    delete s->on_free;
  }
  s->~Storage();
  Pool<Storage>::give(s);
}

void StorageHandle::reset() noexcept {
  Storage* s = std::exchange(p_, nullptr);
  if (!s) return;
  if (s->handles.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Nobody can read the value any more. A large one that was never used is still computed.
  if (s->writer.load(std::memory_order_relaxed)) engine::on_last_handle(*s);
  if (s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) Storage::destroy(s);
}

Hidden* Hidden::create() {
  detail::g_hiding.fetch_add(1);
  return new Hidden;
}
void Hidden::destroy(Hidden* h) noexcept {
  delete h;
  detail::g_hiding.fetch_sub(1);
}

void follow_growth(TensorImpl& t) {
  while (const Grown* g = t.storage->grown) {
    Hidden* h = Hidden::create();
    if (t.hidden)
      for (int i = 0; i < t.hidden->n; ++i) h->dims[h->n++] = t.hidden->dims[i];
    PF_CHECK(h->n + g->n <= Hidden::kMost, NotSupportedError, "vmap", "got ", h->n + g->n,
             " nested levels; at most ", Hidden::kMost, " are supported");
    int64_t stride =
        static_cast<int64_t>(t.storage->nbytes * 8 / static_cast<size_t>(info(t.dtype).bits));
    for (int i = g->n - 1; i >= 0; --i) {
      h->dims[h->n++] = {g->dims[i].level, g->dims[i].size, stride};
      stride *= g->dims[i].size;
    }
    std::sort(h->dims, h->dims + h->n,
              [](const Hidden::Dim& a, const Hidden::Dim& b) { return a.level < b.level; });
    t.hidden = Ref<Hidden>::adopt(h);
    t.storage = StorageHandle::share(g->storage.get());
  }
}

TensorImpl* TensorImpl::create() {
  return new (Pool<TensorImpl>::take()) TensorImpl;
}

namespace detail {
void destroy(TensorImpl* t) noexcept {
  TensorImpl::destroy(t);
}
}  // namespace detail

void TensorImpl::destroy(TensorImpl* t) noexcept {
  if (t->meta) autograd::destroy_meta(*t);
  t->~TensorImpl();
  Pool<TensorImpl>::give(t);
}

namespace {
thread_local bool t_inference = false;
}
std::atomic<int> detail::g_inferring{0};

bool inference_mode() {
  return t_inference;
}
void set_inference_mode(bool on) {
  if (t_inference != on) detail::g_inferring.fetch_add(on ? 1 : -1);
  t_inference = on;
}

Tensor make_tensor(const Dims& shape, DType dtype, Device device) {
  return make_tensor_at(shape, dtype, device.floating && several_devices() ? get_device() : device);
}

Tensor make_tensor_at(const Dims& shape, DType dtype, Device device) {
  int64_t n = checked_numel(shape, "tensor");
  TensorImpl* t = TensorImpl::create();
  t->dtype = dtype;
  t->floating = device.floating;
  t->numel = n;
  t->shape = shape;
  t->strides = contiguous_strides(shape);
  t->storage = StorageHandle::share(Storage::create(device, nbytes(dtype, n)));
  if (hiding()) [[unlikely]]
    t->storage->born = detail::g_newest_vmap.load(std::memory_order_relaxed);
  if (detail::g_inferring.load(std::memory_order_relaxed) && inference_mode()) [[unlikely]]
    t->storage->born |= kMadeForInference;
  return Tensor::adopt(t);
}

Tensor look_at(Storage* s, DType dtype, bool floating, const Dims& shape, const Dims& strides,
               int64_t offset) {
  TensorImpl* t = TensorImpl::create();
  t->dtype = dtype;
  t->floating = floating;
  t->numel = numel(shape);
  t->shape = shape;
  t->strides = strides;
  t->offset = offset;
  t->contiguous = is_contiguous(shape, strides);
  t->storage = StorageHandle::share(s);
  return Tensor::adopt(t);
}

Tensor make_view(const Tensor& base, const Dims& shape, const Dims& strides, int64_t offset) {
  // Elements of less than a byte have no address of their own.
  if (info(base->dtype).bits < 8) [[unlikely]]
    PF_CHECK(offset == 0 && is_contiguous(shape, strides) &&
                 (pyflame::numel(shape) % 2 == 0 || pyflame::numel(shape) == base->numel),
             NotSupportedError, "view", "got a tensor of ", base->dtype,
             ", two elements in a byte, to be seen in shape ", shape, " with strides ", strides,
             " from element ", offset,
             " on; expected whole bytes from its start; convert it first with .to(pyflame.int8)");
  if (hiding()) [[unlikely]]
    catch_up(*base.impl());
  Tensor t = look_at(base->storage.get(), base->dtype, base->floating, shape, strides, offset);
  t->apart = base->apart;
  if (hiding()) [[unlikely]]
    t->hidden = base->hidden;
  return t;
}

Tensor wrap_foreign(void* data, const Dims& shape, const Dims& strides, DType dtype, Device device,
                    bool readonly, std::function<void()> on_free) {
  int64_t n = checked_numel(shape, "tensor");
  PF_CHECK(info(dtype).bits >= 8 || is_contiguous(shape, strides), NotSupportedError, "tensor",
           "got foreign memory of ", dtype, " with strides ", strides,
           "; expected contiguous memory; copy the array first");
  int64_t reach = n ? 1 : 0;
  for (int i = 0; n && i < shape.size(); ++i) {
    PF_CHECK(strides[i] >= 0, ValueError, "tensor", "got the negative stride ", strides[i],
             " for foreign memory; copy the array first");
    reach += strides[i] * (shape[i] - 1);
  }
  Storage* s = Storage::create(device, nbytes(dtype, reach));
  s->data = data;
  s->foreign = true;
  s->readonly = readonly;
  if (on_free) s->on_free = new std::function<void()>(std::move(on_free));
  return look_at(s, dtype, device.floating, shape, strides);
}

}  // namespace pyflame
