// Streams: queues of work on a device. Work of one stream runs in order; work of two streams may
// overlap, and is ordered by events only. Names and meaning are those of torch.cuda.
//
//   Stream side(device);
//   { StreamGuard on(side); y = x.to(device, /*non_blocking=*/true); }
//   current_stream(device).wait_stream(side);
#pragma once

#include <cstdint>
#include <memory>

#include "pyflame/device.h"
#include "pyflame/tensor.h"

namespace pyflame {

struct StreamState;
class Stream;

class Event {
 public:
  explicit Event(bool enable_timing = false);
  // Marks what the stream has been given so far; the current stream of the current device without
  // one.
  void record();
  void record(const Stream&);
  // Later work of the stream waits for it, the caller does not.
  void wait() const;
  void wait(const Stream&) const;
  bool query() const;  // true when it has happened, or was never recorded
  void synchronize() const;
  // Milliseconds from this event to `end`: both timed, recorded and over.
  double elapsed_time(const Event& end) const;
  bool timed() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> p_;
};

class Stream {
 public:
  // A stream of its own; a lower priority number goes first where the device knows priorities.
  explicit Stream(Device device, int priority = 0);
  Device device() const { return device_; }
  int64_t id() const;  // 0: the default stream
  int priority() const;
  bool query() const;        // true when everything that it was given has run
  void synchronize() const;  // waits for that; raises what failed
  void wait_event(const Event& e) const { e.wait(*this); }
  void wait_stream(const Stream& other) const;
  Event record_event() const;
  friend bool operator==(const Stream& a, const Stream& b) {
    return a.device_ == b.device_ && a.state_ == b.state_;
  }
  StreamState* state() const { return state_.get(); }

 private:
  friend Stream default_stream(Device);
  Stream() = default;
  Device device_;
  std::shared_ptr<StreamState> state_;  // null: the default stream
};

Stream default_stream(Device);
Stream current_stream(Device);           // the calling thread's
void set_current_stream(const Stream&);  // of its device; what was recorded before runs first

class StreamGuard {
 public:
  explicit StreamGuard(const Stream& s) : before_(current_stream(s.device())) {
    set_current_stream(s);
  }
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream before_;
};

// The stream uses the tensor's memory: once freed it is not used again before the stream has come
// there. Work that PyFlame runs on a stream is noted without this.
void record_stream(const Tensor&, const Stream&);
// Waits for every stream of one device.
void synchronize(Device);

}  // namespace pyflame
