// Streams as the core sees them: which handle of which backend. Public: pyflame/stream.h.
#pragma once

#include "pyflame/backend.h"
#include "pyflame/device.h"

namespace pyflame {

// Never freed: blocks of memory may name one long after the last handle is gone. The default
// stream of a device is null, and so is every stream of a backend that finishes each call.
struct StreamState {
  Device device;
  pf_stream handle = nullptr;
  int64_t id = 0;  // 1, 2, ... on each device
  int priority = 0;
};

inline pf_stream handle_of(const StreamState* s) {
  return s ? s->handle : nullptr;
}
// The stream of a device with that handle; null when it is the default stream's.
StreamState* find_stream(Device, pf_stream handle);
// Calls fn(StreamState*) for the default stream (null) and every other stream of a device.
template <class F>
void each_stream(Device, F&& fn);
int stream_count(Device);
// One that nobody else has, new or given back; work given to it earlier may still run.
StreamState* take_stream(Device, int priority);
void give_stream(StreamState*) noexcept;
StreamState* stream_at(Device, int i);

template <class F>
void each_stream(Device d, F&& fn) {
  fn(static_cast<StreamState*>(nullptr));
  for (int i = 0, n = stream_count(d); i < n; ++i) fn(stream_at(d, i));
}

}  // namespace pyflame
