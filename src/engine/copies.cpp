// Copies between host and devices, between devices, and within one.
#include <vector>

#include "core/backends.h"
#include "core/mapped.h"
#include "core/pinned.h"
#include "engine/capture.h"
#include "engine/counters.h"
#include "engine/group.h"
#include "engine/hidden.h"
#include "engine/placement.h"
#include "engine/trace.h"
#include "table/kernels/move.h"

namespace pyflame::engine {

namespace {

// Between a device and pinned memory of the host, without a detour. Without `async` the call
// waits, so that the host's side may be used again.
void copy_pinned(const Tensor& dst, const Tensor& src, bool async) {
  GilScope gil;
  break_capture("copy", "between the host and a device");
  const bool up = src->storage->device.is_cpu();
  const void* from = device_data(src);
  void* to = writable_data(dst);
  const Device d = (up ? dst : src)->storage->device;
  const pf_backend* b = backend_of(d);
  StreamState* stream = current_group().stream(d);
  bump(up ? counters().copies_from_host : counters().copies_to_host);
  const size_t bytes = nbytes(src->dtype, src->numel);
  add_pinned_user(*(up ? src : dst)->storage->pinned, d, stream);
  pf_status status = b->copy_async(d.index, handle_of(stream), to, from, bytes,
                                   up ? PF_COPY_FROM_HOST : PF_COPY_TO_HOST);
  if (status != PF_OK) raise_status(b, status, "copy");
  if (async) return;
  long_work(int64_t{1} << 40);
  wait_for_stream(d, stream, "copy");
}

}  // namespace

void copy_from_host(const Tensor& dst, const void* src) {
  GilScope gil;
  const auto held = Ref<Storage>::share(dst->storage.get());  // see engine::call
  Storage& s = *held;
  void* p = writable_data(dst);
  const pf_backend* b = backend_of(s.device);
  size_t bytes = nbytes(dst->dtype, dst->numel);
  long_work(static_cast<int64_t>(bytes));
  bump(counters().copies_from_host);
  pf_status status = b->copy_from_host(s.device.index, stream_handle(s.device), p, src, bytes);
  if (status != PF_OK) raise_status(b, status, "copy");
  if (Capture* c = capturing()) [[unlikely]]
    c->note_bytes(dst, src, bytes);
}

void copy_to_host(void* dst, const Tensor& src) {
  GilScope gil;
  break_capture("copy", "the host reads a value, which the program may decide by");
  const auto held = Ref<Storage>::share(src->storage.get());
  Storage& s = *held;
  void* p = device_data(src);
  const pf_backend* b = backend_of(s.device);
  size_t bytes = nbytes(src->dtype, src->numel);
  long_work(static_cast<int64_t>(bytes));
  bump(counters().copies_to_host);
  pf_status status = b->copy_to_host(s.device.index, stream_handle(s.device), dst, p, bytes);
  if (status != PF_OK) raise_status(b, status, "copy");
  if (!b->synchronous) wait_for_stream(s.device, current_group().stream(s.device), "copy");
  check_mapped(s.data, "copy");
}

void copy_bytes(const Tensor& dst, const Tensor& src, bool async) {
  constexpr size_t kDirect = 1 << 20;  // smaller ones do not wait, on their way through staging
  if (hiding() && is_hidden(src)) [[unlikely]] {
    Levels levels;
    levels.add(src);
    grow(dst, levels, "to");
    Tensor from = shown(src, levels, src->shape.size(), true);
    if (!from->contiguous) {
      const Tensor row_major = make_tensor_at(from->shape, from->dtype, from->storage->device);
      call<kernels::Copy>({row_major, from}, {.takes = Takes::All});
      from = row_major;
    }
    return copy_bytes(shown(dst, levels, dst->shape.size(), true), from, async);
  }
  // Both, for only one of them is known below: see engine::call.
  const auto held_dst = Ref<Storage>::share(dst->storage.get());
  const auto held_src = Ref<Storage>::share(src->storage.get());
  if (dst->storage->device == src->storage->device) {
    call<kernels::Copy>({dst, src}, {.takes = Takes::All});
  } else if ((src->storage->pinned || dst->storage->pinned) &&
             (async || nbytes(src->dtype, src->numel) >= kDirect) &&
             PF_HAS(backend_of((src->storage->pinned ? dst : src)->storage->device), copy_async)) {
    copy_pinned(dst, src, async);
  } else if (dst->storage->device.is_cpu()) {
    copy_to_host(writable_data(dst), src);
  } else if (src->storage->device.is_cpu()) {
    break_capture("copy", "from the host to a device; have it there before the step");
    copy_from_host(dst, device_data(src));
    check_mapped(held_src->data, "copy");
  } else if (const pf_backend* b = backend_of(dst->storage->device);
             dst->storage->device.type == src->storage->device.type && PF_HAS(b, copy_peer)) {
    GilScope gil;
    break_capture("copy", "between two devices");
    const Device sender = src->storage->device, receiver = dst->storage->device;
    const void* from = device_data(src);
    void* to = writable_data(dst);
    pf_status status = b->copy_peer(receiver.index, stream_handle(receiver), to, sender.index,
                                    stream_handle(sender), from, nbytes(src->dtype, src->numel));
    if (status != PF_OK) raise_status(b, status, "copy");
  } else {
    if (dst->storage->device.type == src->storage->device.type)
      slow_path("to",
                "these GPUs cannot reach each other's memory: what is sent from one to the "
                "other passes through the host; keep what works together on one");
    std::vector<char> bytes(nbytes(src->dtype, src->numel));
    copy_to_host(bytes.data(), src);
    copy_from_host(dst, bytes.data());
  }
}

}  // namespace pyflame::engine
