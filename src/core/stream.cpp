#include "core/stream.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/backends.h"
#include "core/lock.h"

namespace pyflame {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::pair<DeviceType, int>, std::vector<StreamState*>> all;
  std::vector<StreamState*> unused;  // no handle is left: whoever asks next gets one of these
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}
std::vector<StreamState*>& streams_of(Device d) {
  return registry().all[{d.type, d.index}];
}

}  // namespace

StreamState* find_stream(Device d, pf_stream handle) {
  if (!handle) return nullptr;
  std::lock_guard lock(registry().mutex);
  for (StreamState* s : streams_of(d))
    if (s->handle == handle) return s;
  return nullptr;
}

int stream_count(Device d) {
  std::lock_guard lock(registry().mutex);
  return static_cast<int>(streams_of(d).size());
}
StreamState* stream_at(Device d, int i) {
  std::lock_guard lock(registry().mutex);
  return streams_of(d)[static_cast<size_t>(i)];
}

StreamState* take_stream(Device d, int priority) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (size_t i = 0; i < r.unused.size(); ++i)
    if (StreamState* s = r.unused[i]; s->device == d && s->priority == priority) {
      r.unused.erase(r.unused.begin() + static_cast<std::ptrdiff_t>(i));
      return s;
    }
  const pf_backend* b = usable_backend_of(d);
  auto* s = new StreamState{d, nullptr, 0, priority};
  if (PF_HAS(b, stream_create)) {
    pf_status status = b->stream_create(d.index, priority, &s->handle);
    if (status != PF_OK) {
      delete s;
      raise_status(b, status, "Stream");
    }
  }
  auto& list = streams_of(d);
  s->id = static_cast<int64_t>(list.size()) + 1;
  list.push_back(s);
  return s;
}

void give_stream(StreamState* s) noexcept {
  std::lock_guard lock(registry().mutex);
  registry().unused.push_back(s);
}

}  // namespace pyflame
