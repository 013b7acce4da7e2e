// Streams and events: pyflame/stream.h over the backends.
#include "pyflame/stream.h"

#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "core/backends.h"
#include "core/pinned.h"
#include "core/room.h"
#include "core/stream.h"
#include "engine/group.h"
#include "pyflame/memory.h"

namespace pyflame {
namespace {

using Clock = std::chrono::steady_clock;

// The calling thread's choice for each device; none: the default stream. The group has the same
// as bare pointers, null on backends where every call has finished when it returns.
thread_local std::map<std::pair<DeviceType, int>, Stream> t_current;
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_current); });

std::pair<DeviceType, int> key_of(Device d) {
  return {d.type, d.index};
}

void check(const pf_backend* b, pf_status status, const char* op) {
  if (status != PF_OK) raise_status(b, status, op);
}

// What any thread has recorded for a stream is handed to it.
void flush_stream(Device d, StreamState* s, engine::Flush why) {
  for (engine::Group* g : engine::every_group()) {
    std::lock_guard lock(g->mutex);
    if (!g->empty() && g->device == d && g->stream(d) == s) engine::run_group(*g, why);
  }
}

}  // namespace

// ---- streams -----------------------------------------------------------------------------------

Stream::Stream(Device device, int priority)
    : device_(device), state_(take_stream(device, priority), give_stream) {}

int64_t Stream::id() const {
  return state_ ? state_->id : 0;
}
int Stream::priority() const {
  return state_ ? state_->priority : 0;
}

Stream default_stream(Device d) {
  usable_backend_of(d);
  Stream s;
  s.device_ = d;
  return s;
}

Stream current_stream(Device d) {
  auto it = t_current.find(key_of(d));
  return it == t_current.end() ? default_stream(d) : it->second;
}

void set_current_stream(const Stream& s) {
  const Device d = s.device();
  if (current_stream(d) == s) return;
  engine::GilScope gil;
  engine::Group& g = engine::current_group();
  {
    std::lock_guard lock(g.mutex);
    engine::run_group(g, engine::Flush::StreamSwitch);
    auto& of_type = g.streams[static_cast<size_t>(d.type)];
    const auto i = static_cast<size_t>(d.index);
    if (of_type.size() <= i) of_type.resize(i + 1);
    of_type[i] = backend_of(d)->synchronous ? nullptr : s.state();
  }
  t_current.insert_or_assign(key_of(d), s);
}

StreamGuard::~StreamGuard() {
  set_current_stream(before_);
}

bool Stream::query() const {
  engine::GilScope gil;
  flush_stream(device_, state(), engine::Flush::Event);
  const pf_backend* b = backend_of(device_);
  if (b->synchronous) return true;
  if (!PF_HAS(b, stream_query)) {
    synchronize();
    return true;
  }
  int32_t done = 0;
  check(b, b->stream_query(device_.index, handle_of(state()), &done), "Stream.query");
  return done != 0;
}

void Stream::synchronize() const {
  engine::flush(engine::Flush::Synchronize);
  engine::GilScope gil;
  flush_stream(device_, state(), engine::Flush::Synchronize);
  engine::long_work(int64_t{1} << 40);
  engine::wait_for_stream(device_, state(), "Stream.synchronize");
}

void Stream::wait_stream(const Stream& other) const {
  if (*this == other) return;
  wait_event(other.record_event());
}

Event Stream::record_event() const {
  Event e;
  e.record(*this);
  return e;
}

// ---- events ------------------------------------------------------------------------------------

struct Event::Impl {
  bool timed = false;
  bool recorded = false;
  Device device;
  pf_event event = nullptr;
  Clock::time_point at;  // on backends where every call has finished when it returns

  const pf_backend* backend() const { return backend_of(device); }
  void destroy() {
    if (event) backend()->event_destroy(device.index, std::exchange(event, nullptr));
  }
  ~Impl() { destroy(); }
};

Event::Event(bool enable_timing) : p_(std::make_shared<Impl>()) {
  p_->timed = enable_timing;
}

bool Event::timed() const {
  return p_->timed;
}

void Event::record() {
  record(current_stream(get_device()));
}

void Event::record(const Stream& s) {
  engine::GilScope gil;
  flush_stream(s.device(), s.state(), engine::Flush::Event);
  Impl& e = *p_;
  if (e.event && e.device != s.device()) e.destroy();
  e.device = s.device();
  const pf_backend* b = e.backend();
  if (b->synchronous) {
    e.at = Clock::now();
  } else {
    if (!e.event)
      check(b,
            e.timed && PF_HAS(b, event_create_timed)
                ? b->event_create_timed(e.device.index, &e.event)
                : b->event_create(e.device.index, &e.event),
            "Event");
    check(b, b->event_record(e.device.index, e.event, handle_of(s.state())), "Event.record");
  }
  e.recorded = true;
}

void Event::wait() const {
  if (p_->recorded) wait(current_stream(p_->device));
}

void Event::wait(const Stream& s) const {
  const Impl& e = *p_;
  if (!e.recorded || e.backend()->synchronous) return;
  engine::GilScope gil;
  flush_stream(s.device(), s.state(), engine::Flush::Event);
  if (s.device().type != e.device.type) {  // of another backend: nothing but the host can wait
    if (!s.device().is_cpu()) synchronize();
    return;
  }
  const pf_backend* b = e.backend();
  check(b, b->event_wait(s.device().index, handle_of(s.state()), e.event), "Event.wait");
}

bool Event::query() const {
  const Impl& e = *p_;
  if (!e.recorded || !e.event) return true;
  int32_t done = 0;
  check(e.backend(), e.backend()->event_query(e.device.index, e.event, &done), "Event.query");
  return done != 0;
}

void Event::synchronize() const {
  const Impl& e = *p_;
  if (!e.recorded || !e.event) return;
  engine::GilScope gil;
  engine::long_work(int64_t{1} << 40);
  const pf_backend* b = e.backend();
  if (PF_HAS(b, event_synchronize))
    check(b, b->event_synchronize(e.device.index, e.event), "Event.synchronize");
  else
    pyflame::synchronize(e.device);
}

double Event::elapsed_time(const Event& end) const {
  const Impl &a = *p_, &b = *end.p_;
  PF_CHECK(a.timed && b.timed, ValueError, "Event.elapsed_time",
           "got an event without timing; make both with enable_timing=True");
  PF_CHECK(a.recorded && b.recorded, ValueError, "Event.elapsed_time",
           "got an event that was never recorded; record both first");
  PF_CHECK(a.device == b.device, ValueError, "Event.elapsed_time", "got events of ", a.device.str(),
           " and ", b.device.str(), "; expected both on one device");
  PF_CHECK(query() && end.query(), ValueError, "Event.elapsed_time",
           "an event is not over yet; synchronize() first");
  if (a.backend()->synchronous)
    return std::chrono::duration<double, std::milli>(b.at - a.at).count();
  PF_CHECK(PF_HAS(a.backend(), event_elapsed), NotSupportedError, "Event.elapsed_time", "the ",
           a.backend()->name, " backend has no timing");
  float ms = 0;
  check(a.backend(), a.backend()->event_elapsed(a.device.index, a.event, b.event, &ms),
        "Event.elapsed_time");
  return ms;
}

// ---- tensors and devices -----------------------------------------------------------------------

void record_stream(const Tensor& t, const Stream& s) {
  Storage& storage = *t->storage;
  if (storage.device.is_cpu() && !storage.pinned) return;
  engine::GilScope gil;
  engine::device_data(t);
  if (storage.pinned) {
    add_pinned_user(*storage.pinned, s.device(), s.state());
    return;
  }
  PF_CHECK(storage.device == s.device(), DeviceError, "record_stream", "got a tensor on ",
           storage.device.str(), " and a stream of ", s.device().str(),
           "; expected both on one device");
  if (storage.block) add_user(*storage.block, s.state());
}

void warmup_memory(Device d, const std::vector<int64_t>& sizes) {
  std::vector<Block*> blocks;
  blocks.reserve(sizes.size());
  auto give_back = [&] {
    for (Block* b : blocks) release(b);
  };
  for (int64_t n : sizes)
    PF_CHECK(n > 0, ValueError, "warmup", "got the size ", n,
             "; expected sizes in bytes above 0; correct it");
  try {
    for (int64_t n : sizes)
      blocks.push_back(allocate(d, engine::current_group().stream(d), static_cast<size_t>(n),
                                {"warmup", DType::UInt8, nullptr}));
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
}

void synchronize(Device d) {
  engine::flush(engine::Flush::Synchronize);
  engine::GilScope gil;
  for (engine::Group* g : engine::every_group()) {
    std::lock_guard lock(g->mutex);
    if (!g->empty()) engine::run_group(*g, engine::Flush::Synchronize);
  }
  engine::long_work(int64_t{1} << 40);
  engine::wait_for_device(d);
}

namespace engine {

void wait_for_stream(Device d, StreamState* s, const char* op) {
  const pf_backend* b = backend_of(d);
  pf_index_error error{};
  pf_status status = b->synchronize(d.index, handle_of(s), &error);
  if (status != PF_OK) raise_status(b, status, op);
  raise_index_error(error);
}

void wait_for_device(Device d) {
  each_stream(d, [d](StreamState* s) { wait_for_stream(d, s, "synchronize"); });
}

}  // namespace engine

}  // namespace pyflame
