// Floating tensors: copies on the devices that operations run on, kept beside the storage.
#include "engine/placement.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/backends.h"
#include "core/lock.h"
#include "engine/counters.h"
#include "engine/group.h"
#include "engine/trace.h"
#include "engine/upcalls.h"
#include "table/kernels/move.h"
#include "table/rows.h"

namespace pyflame {

// What a storage holds on other devices: at most one copy on each, of the version noted; one for
// each stream where there are several, since nothing orders them.
struct Replicas {
  struct Copy {
    Device device;
    pf_stream stream;
    uint32_t version;
    StorageHandle storage;
  };
  std::vector<Copy> copies;
};

namespace {
Mutex& replica_mutex() {
  static auto* m = new Mutex;
  return *m;
}
}  // namespace

void drop_replicas(Storage& s) noexcept {
  delete std::exchange(s.replicas, nullptr);  // nobody else can reach the storage any more
}

Device runs_on(std::initializer_list<Tensor> operands) {
  const bool many = several_devices();
  Device d;
  for (const Tensor& t : operands) {
    d = t->floating && many ? get_device() : t->storage->device;
    if (!t->floating) break;
  }
  return d;
}

namespace engine {
namespace {

// Less of a storage than this part is copied by itself, and anew each time.
constexpr size_t kPart = 4;

Tensor as_on(const TensorImpl& t, const StorageHandle& where, Device d) {
  return look_at(where.get(), t.dtype, d.floating, t.shape, t.strides, t.offset);
}

// The whole storage as a row of bytes.
Tensor bytes_of(const Tensor& t) {
  Storage* s = t->storage.get();
  return look_at(s, DType::UInt8, false, Dims{static_cast<int64_t>(s->nbytes)}, Dims{1});
}

void count(const Tensor& t, Device to, const char* op, size_t bytes) {
  if (strict() && !t->shape.empty())
    PF_FAIL(DeviceError, op, "got a tensor of shape ", t->shape, " on ", t->storage->device,
            " for an operation on ", to,
            "; strict mode forbids copies that nobody asked for: move "
            "it with .to('",
            to, "'), or make it after set_device('", to, "')");
  if (tracing()) trace_copy(op, t->shape, t->storage->device, to, bytes);
  bump(counters().moved);
  counters().moved_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

// A result that nothing has been written to yet: it goes where the operation runs.
bool is_fresh(const TensorImpl& t) {
  const Storage& s = *t.storage;
  return !s.data && s.version == 0 && !s.foreign && !s.writer.load(std::memory_order_relaxed) &&
         !s.reader.load(std::memory_order_relaxed);
}

}  // namespace

const char* name_of_row(OpId op) {
  static auto* names = new std::map<OpId, std::string>;
  static Mutex m;
  std::lock_guard lock(m);
  auto [it, fresh] = names->try_emplace(op);
  if (fresh) it->second = table::row_name(op);
  return it->second.c_str();
}

Device place_operands(OpId op, std::span<const Operand> operands, Device device, Operand* list,
                      Tensor* moved) {
  std::copy(operands.begin(), operands.end(), list);
  Target target(name_of_row(op));
  for (const Operand& o : operands)
    if (o.tensor) target.add(*o.tensor->impl());
  Device d = target.device(device);
  d.floating = target.floats(device);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].tensor || (*operands[i].tensor)->storage->device == d) continue;
    moved[i] = replica(*operands[i].tensor, d, name_of_row(op));
    list[i].tensor = &moved[i];
  }
  return d;
}

std::span<const Tensor> place_call(std::span<const Tensor> outs, std::span<const Tensor> ins,
                                   const CallOptions& options, std::vector<Tensor>& moved) {
  auto writes = [&](size_t i) {
    return options.inplace == CallOptions::kAllInplace || (i < 32 && (options.inplace >> i & 1)) ||
           !is_fresh(*outs[i].impl());
  };
  const TensorImpl* home = nullptr;
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!outs[i].defined() || !writes(i)) continue;
    if (!home)
      home = outs[i].impl();
    else if (!(outs[i]->storage->device == home->storage->device))
      Target::refuse(options.op, *home, *outs[i].impl());
  }
  Target target(options.op);
  bool any = false;
  for (const Tensor& t : ins) {
    if (!t.defined()) continue;
    any = true;
    if (home)
      check_source(*home, *t.impl(), options.op);
    else
      target.add(*t.impl());
  }
  Device d = home ? home->device() : Device{};
  if (!home) {
    const Tensor* out = nullptr;
    for (const Tensor& t : outs)
      if (t.defined() && !out) out = &t;
    const Device given = out ? (*out)->device() : Device{};
    d = target.device(given);
    d.floating = target.floats(given);
  }
  if (any || home)
    for (size_t i = 0; i < outs.size(); ++i)
      if (outs[i].defined() && !writes(i)) {
        outs[i]->storage->device = d;
        outs[i]->floating = d.floating;
      }
  bool all_there = true;
  for (const Tensor& t : ins) all_there &= !t.defined() || t->storage->device == d;
  if (all_there) return ins;
  moved.assign(ins.begin(), ins.end());
  for (Tensor& t : moved)
    if (t.defined() && !(t->storage->device == d)) t = replica(t, d, options.op);
  return moved;
}

void Target::refuse(const char* op, const TensorImpl& a, const TensorImpl& b) {
  PF_FAIL(DeviceError, op, "got tensors of shapes ", a.shape, " on ", a.storage->device, " and ",
          b.shape, " on ", b.storage->device, "; expected one device; move one of them with .to('",
          a.storage->device, "')");
}

void check_source(const TensorImpl& dst, const TensorImpl& t, const char* op) {
  if (dst.floating || t.floating || Target::is_number(t)) return;
  if (!(dst.storage->device == t.storage->device)) Target::refuse(op, dst, t);
}

Tensor replica(const Tensor& t, Device d, const char* op) {
  Storage& s = *t->storage;
  d = d.placed();
  const size_t part = nbytes(t->dtype, t->numel);
  if (s.foreign || s.exposed || part * kPart < s.nbytes) {
    count(t, d, op, part);
    Tensor source = t;
    if (!t->contiguous) {
      source = make_tensor(t->shape, t->dtype, s.device.placed());
      call<kernels::Copy>({source, as_on(*t.impl(), t->storage, s.device.placed())},
                          {.takes = Takes::All});
    }
    Tensor out = make_tensor(t->shape, t->dtype, d);
    copy_bytes(out, source);
    return out;
  }
  const pf_stream stream = stream_handle(d);
  {
    std::lock_guard lock(replica_mutex());
    if (s.replicas)
      for (const auto& c : s.replicas->copies)
        if (c.device == d && c.stream == stream && c.version == s.version)
          return as_on(*t.impl(), c.storage, d);
  }
  count(t, d, op, s.nbytes);
  const uint32_t version = s.version;
  StorageHandle stale;  // goes first, so that its memory serves the new one
  {
    std::lock_guard lock(replica_mutex());
    if (s.replicas)
      for (auto it = s.replicas->copies.begin(); it != s.replicas->copies.end(); ++it)
        if (it->device == d && it->stream == stream) {
          stale = std::move(it->storage);
          s.replicas->copies.erase(it);
          break;
        }
  }
  stale.reset();
  const Tensor whole = bytes_of(t);
  Tensor out = make_tensor(whole->shape, DType::UInt8, d);
  copy_bytes(out, whole);
  std::lock_guard lock(replica_mutex());
  if (!s.replicas) s.replicas = new Replicas;
  auto& copies = s.replicas->copies;
  const bool known = std::any_of(copies.begin(), copies.end(), [&](const Replicas::Copy& c) {
    return c.device == d && c.stream == stream;
  });
  if (!known) copies.push_back({d, stream, version, StorageHandle::share(out->storage.get())});
  return as_on(*t.impl(), out->storage, d);
}

Tensor bring(const Tensor& t, Device d, const char* op) {
  if (t->storage->device == d) return placed_alias(t);
  count(t, d, op, nbytes(t->dtype, t->numel));
  return operations::move(t, d);
}

}  // namespace engine
}  // namespace pyflame
