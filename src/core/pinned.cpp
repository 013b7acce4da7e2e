#include "core/pinned.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "core/backends.h"
#include "core/lock.h"
#include "core/tensor_impl.h"
#include "pyflame/error.h"
#include "pyflame/memory.h"

namespace pyflame {
namespace {

// Locking pages costs milliseconds: sizes are powers of two up to 1 MiB, then whole MiB.
size_t pinned_size(size_t bytes) {
  size_t n = 4096;
  while (n < bytes && n < (size_t{1} << 20)) n *= 2;
  return n >= bytes ? n : (bytes + (size_t{1} << 20) - 1) >> 20 << 20;
}

}  // namespace

class PinnedPool {
 public:
  explicit PinnedPool(Device d) : device_(d), backend_(backend_of(d)) {}

  PinnedBlock* take(size_t bytes) {
    const size_t size = pinned_size(bytes);
    std::lock_guard lock(mutex_);
    ++stats_.acquired;
    collect();
    PinnedBlock* b = nullptr;
    // A block that is a little larger does as well.
    auto it = free_.lower_bound(size);
    if (it != free_.end() && it->first <= size + size / 4) {
      b = it->second;
      free_.erase(it);
      ++stats_.hits;
    } else {
      b = fresh(size);
    }
    stats_.allocated += static_cast<int64_t>(b->size);
    return b;
  }

  void give(PinnedBlock* b) noexcept {
    std::lock_guard lock(mutex_);
    stats_.allocated -= static_cast<int64_t>(b->size);
    Waiting w{b, {}};
    for (auto [device, stream] : b->users) {
      pf_event e = nullptr;
      if (backend_->event_create(device.index, &e) == PF_OK &&
          backend_->event_record(device.index, e, handle_of(stream)) == PF_OK) {
        w.events.emplace_back(device, e);
      } else {
        backend_->synchronize(device.index, handle_of(stream), nullptr);
      }
    }
    b->users.clear();
    waiting_.push_back(std::move(w));
    collect();
  }

  void add_user(PinnedBlock& b, Device d, StreamState* s) {
    std::lock_guard lock(mutex_);
    const std::pair user{d, s};
    if (std::find(b.users.begin(), b.users.end(), user) == b.users.end()) b.users.push_back(user);
  }

  void warmup(const std::vector<int64_t>& sizes) {
    std::vector<PinnedBlock*> blocks;
    blocks.reserve(sizes.size());
    for (int64_t n : sizes) blocks.push_back(take(static_cast<size_t>(n)));
    for (PinnedBlock* b : blocks) give(b);
  }

  void clear() {
    std::lock_guard lock(mutex_);
    collect();
    for (auto& [size, b] : free_) {
      backend_->pinned_release(device_.index, b->data);
      stats_.reserved -= static_cast<int64_t>(size);
      delete b;
    }
    free_.clear();
  }

  PinnedStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Waiting {
    PinnedBlock* block;
    std::vector<std::pair<Device, pf_event>> events;
  };

  PinnedBlock* fresh(size_t size) {
    auto* b = new PinnedBlock;
    b->size = size;
    b->owner = this;
    pf_status status = backend_->pinned_allocate(device_.index, size, &b->data);
    if (status != PF_OK) {
      delete b;
      if (status != PF_OOM) raise_status(backend_, status, "pin_memory");
      PF_FAIL(OutOfMemoryError, "pin_memory", "the host has no ", size,
              " bytes of memory that can be pinned, with ", stats_.reserved,
              " bytes pinned; use ordinary memory, or raise the limit (ulimit -l)");
    }
    stats_.reserved += static_cast<int64_t>(size);
    return b;
  }

  void collect() noexcept {
    for (size_t i = 0; i < waiting_.size();) {
      Waiting& w = waiting_[i];
      while (!w.events.empty()) {
        auto [device, e] = w.events.back();
        int32_t done = 0;
        if (backend_->event_query(device.index, e, &done) == PF_OK && !done) break;
        backend_->event_destroy(device.index, e);
        w.events.pop_back();
      }
      if (!w.events.empty()) {
        ++i;
        continue;
      }
      free_.emplace(w.block->size, w.block);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  Device device_;
  const pf_backend* backend_;
  Mutex mutex_;
  std::multimap<size_t, PinnedBlock*> free_;
  std::vector<Waiting> waiting_;
  PinnedStats stats_;
};

namespace {

// Pinned memory is the same for all devices of one backend. Null where there is none.
PinnedPool* pool_of(Device d) {
  const pf_backend* b = usable_backend_of(d);
  if (!PF_HAS(b, pinned_allocate)) return nullptr;
  static Mutex mutex;
  static std::array<std::atomic<PinnedPool*>, kDeviceTypes> pools{};
  auto& slot = pools[static_cast<size_t>(d.type)];
  PinnedPool* p = slot.load(std::memory_order_acquire);
  if (p) return p;
  std::lock_guard lock(mutex);
  p = slot.load(std::memory_order_acquire);
  if (!p) slot.store(p = new PinnedPool(d), std::memory_order_release);
  return p;
}

void check_sizes(const std::vector<int64_t>& sizes) {
  for (int64_t n : sizes)
    PF_CHECK(n > 0, ValueError, "warmup", "got the size ", n,
             "; expected sizes in bytes above 0; correct it");
}

}  // namespace

PinnedBlock* take_pinned(Device d, size_t bytes) {
  PinnedPool* p = pool_of(d);
  return p ? p->take(bytes) : nullptr;
}
void give_pinned(PinnedBlock* b) noexcept {
  b->owner->give(b);
}
void add_pinned_user(PinnedBlock& b, Device d, StreamState* s) {
  b.owner->add_user(b, d, s);
}

Tensor pinned_like(const Dims& shape, DType dtype, Device d) {
  Tensor r = make_tensor(shape, dtype, Device{});
  Storage& s = *r->storage;
  if (d.is_cpu() || s.nbytes == 0) return r;
  if ((s.pinned = take_pinned(d, s.nbytes))) s.data = s.pinned->data;
  return r;
}

Tensor pinned_empty(int64_t bytes, Device d) {
  PF_CHECK(bytes >= 0, ValueError, "pinned_empty", "got ", bytes,
           " bytes; expected a number from 0 on; correct it");
  return pinned_like({bytes}, DType::UInt8, d);
}

bool is_pinned(const Tensor& t) {
  return t->storage->pinned != nullptr;
}

PinnedStats pinned_stats(Device d) {
  PinnedPool* p = pool_of(d);
  return p ? p->stats() : PinnedStats{};
}
void warmup_pinned(Device d, const std::vector<int64_t>& sizes) {
  check_sizes(sizes);
  if (PinnedPool* p = pool_of(d)) p->warmup(sizes);
}
void clear_pinned(Device d) {
  if (PinnedPool* p = pool_of(d)) p->clear();
}

}  // namespace pyflame
