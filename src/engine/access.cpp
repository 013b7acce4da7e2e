// Access to values from outside: what is pending on them runs first.
#include "core/backends.h"
#include "engine/capture.h"
#include "engine/group.h"
#include "engine/hazards.h"
#include "engine/hidden.h"
#include "engine/takeover.h"

namespace pyflame::engine {

[[noreturn]] void raise_poison(const Storage& s, Group& locked) {
  forget_error(locked, s.error);
  std::rethrow_exception(s.error);
}
[[noreturn]] void raise_poison(const Storage& s) {
  Group& g = current_group();
  std::lock_guard lock(g.mutex);
  raise_poison(s, g);
}

static void flush_readers(Group* reader, Flush why) {
  if (reader != many_readers()) return flush_other(reader, why);
  flush_all(why);
  make_all_again(why);
}

void settle_write(Storage& s, const Group* mine, const char* op) {
  PF_CHECK(!s.readonly, ValueError, op,
           "the tensor's memory is read-only (it was imported from a read-only array or file); "
           "clone() it first");
  settle_read(s, mine);
  Group* r = s.reader.load(std::memory_order_acquire);
  if (r && r != mine) {
    flush_readers(r, Flush::OtherThread);
    s.reader.store(nullptr, std::memory_order_release);
  }
}

void flush_storage(Storage& s, Flush why) {
  GilScope gil;
  if (Group* g = s.writer.load(std::memory_order_acquire)) flush_other(g, why);
}

void* device_data(const Tensor& t) {
  if (hiding()) [[unlikely]]
    refuse_to_read(t);
  Storage& s = *t->storage;
  Ref<Storage> held;
  if (s.writer.load(std::memory_order_acquire)) {
    held = Ref<Storage>::share(&s);  // while others have the GIL
    flush_storage(s, Flush::Data);
  }
  if (s.poisoned) raise_poison(s);
  ensure_memory(s, current_group().stream(s.device), {"data", t->dtype, &t->shape});
  return static_cast<char*>(s.data) + t->offset * static_cast<int64_t>(itemsize(t->dtype));
}

void* shared_data(const Tensor& t) {
  break_capture("export", "memory is given to others");
  if (backend_of(t->storage->device)->host_readable) {
    mark_foreign(t);
    return device_data(t);
  }
  void* p = device_data(t);
  t->storage->foreign = true;
  submit(t->storage->device);
  return p;
}

void* host_data(const Tensor& t, const char* op, bool will_write) {
  break_capture(op, "the host reads a value, which the program may decide by");
  const auto held = Ref<Storage>::share(t->storage.get());  // while others have the GIL
  Storage& s = *held;
  if (will_write) {
    GilScope gil;
    if (Group* r = s.reader.load(std::memory_order_acquire)) {
      flush_readers(r, Flush::Data);
    }
  }
  void* p = device_data(t);
  if (will_write) s.exposed = true;
  const pf_backend* b = backend_of(s.device);
  PF_CHECK(b->host_readable, DeviceError, op, "the tensor lives on ", s.device.str(),
           ", whose memory the host cannot read; copy it with .cpu() first");
  if (!b->synchronous) synchronize();
  return p;
}

pf_stream stream_handle(Device d) {
  return handle_of(current_group().stream(d));
}

void* writable_data(const Tensor& dst) {
  settle_write(*dst->storage, nullptr, "copy");
  return device_data(dst);
}

void mark_foreign(const Tensor& t) {
  host_data(t, "export", true);
  t->storage->foreign = true;
}

}  // namespace pyflame::engine
