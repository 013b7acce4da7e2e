#include "core/allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/backends.h"
#include "pyflame/error.h"

namespace pyflame {
namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr size_t kTracked = 64 * kKiB;  // blocks this large are listed when memory runs out

// Sizes are rounded to classes so that freed blocks fit again: steps of 64 bytes, then eighths of
// a power of two, then 2 MiB (one huge page).
size_t round_size(size_t n) {
  if (n <= 1024) return std::max<size_t>((n + 63) / 64 * 64, 64);
  if (n <= 16 * kMiB) {
    size_t step = size_t{1} << (63 - __builtin_clzll(n) - 3);
    return (n + step - 1) / step * step;
  }
  return (n + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}

std::string megabytes(int64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
  return text;
}

class Allocator {
 public:
  explicit Allocator(Device device) : device_(device), backend_(backend_of(device)) {
    // The test backend must see every allocation fresh, and its exact size: it guards the ends.
    caching_ = device.type != DeviceType::Paranoid;
    set_limit(0);
  }

  void* allocate(size_t bytes, size_t* capacity, const char* op) {
    size_t size = caching_ ? round_size(bytes) : bytes;
    std::lock_guard lock(mutex_);
    ++stats_.allocations;
    void* block = take_cached(size);
    if (block) {
      ++stats_.cache_hits;
    } else {
      pf_status status = fresh(size, &block);
      if (status == PF_OOM) {
        drop_cache();
        status = fresh(size, &block);
      }
      if (status != PF_OK) raise(bytes, status, op);
    }
    stats_.allocated += static_cast<int64_t>(size);
    stats_.max_allocated = std::max(stats_.max_allocated, stats_.allocated);
    headroom_.store(limit_ - stats_.allocated, std::memory_order_relaxed);
    if (size >= kTracked) live_.emplace(block, size);
    *capacity = size;  // not before: a failed allocation leaves nothing to release
    return block;
  }

  void release(void* block, size_t size) noexcept {
    std::lock_guard lock(mutex_);
    stats_.allocated -= static_cast<int64_t>(size);
    headroom_.store(limit_ - stats_.allocated, std::memory_order_relaxed);
    if (size >= kTracked) live_.erase(block);
    if (caching_) {
      bins_[size].push_back(block);
    } else {
      give_back(block, size);
    }
  }

  void empty_cache() {
    std::lock_guard lock(mutex_);
    drop_cache();
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.max_allocated = stats_.allocated;
    stats_.max_reserved = stats_.reserved;
  }

  int64_t headroom() const { return headroom_.load(std::memory_order_relaxed); }

  void set_limit(int64_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes <= 0) {
      pf_memory_info info{};
      pf_status status = backend_->memory_info(device_.index, &info);
      // The first thing that is asked of a device: one that cannot be used says so here.
      PF_CHECK(status == PF_OK, DeviceError, "device", device_.str(),
               " is not usable: ", backend_error(backend_, status),
               "; use another device or 'cpu'");
      bytes = static_cast<int64_t>(info.free_bytes) + stats_.reserved;
    }
    limit_ = bytes;
    headroom_.store(limit_ - stats_.allocated, std::memory_order_relaxed);
  }

 private:
  void* take_cached(size_t size) {
    auto it = bins_.find(size);
    if (it != bins_.end() && !it->second.empty()) {
      void* block = it->second.back();
      it->second.pop_back();
      return block;
    }
    return nullptr;
  }

  pf_status fresh(size_t size, void** block) {
    if (stats_.reserved + static_cast<int64_t>(size) > limit_) return PF_OOM;
    pf_status status = backend_->allocate(device_.index, size, block);
    if (status == PF_OK) {
      stats_.reserved += static_cast<int64_t>(size);
      stats_.max_reserved = std::max(stats_.max_reserved, stats_.reserved);
    }
    return status;
  }

  void give_back(void* block, size_t size) noexcept {
    backend_->release(device_.index, block, size);
    stats_.reserved -= static_cast<int64_t>(size);
  }

  void drop_cache() {
    for (auto& [size, blocks] : bins_)
      for (void* block : blocks) give_back(block, size);
    bins_.clear();
  }

  [[noreturn]] void raise(size_t bytes, pf_status status, const char* op) {
    if (status != PF_OOM)
      PF_FAIL(BackendError, op, "allocating ", bytes, " bytes on ", device_.str(),
              " failed: ", backend_error(backend_, status));
    std::vector<size_t> sizes;
    for (auto& [block, size] : live_) sizes.push_back(size);
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    std::string largest;
    for (size_t i = 0; i < std::min<size_t>(sizes.size(), 5); ++i)
      largest += (i ? ", " : "") + megabytes(static_cast<int64_t>(sizes[i]));
    PF_FAIL(OutOfMemoryError, op, "out of memory on ", device_.str(), ": asked for ",
            megabytes(static_cast<int64_t>(bytes)), " with ", megabytes(stats_.allocated),
            " in live tensors (largest: ", largest.empty() ? "none" : largest, ") and a limit of ",
            megabytes(limit_),
            "; use a smaller batch or model, accumulate gradients over several smaller batches, "
            "or drop tensors that are no longer needed");
  }

  Device device_;
  const pf_backend* backend_;
  bool caching_;
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> bins_;
  std::unordered_map<void*, size_t> live_;
  MemoryStats stats_;
  int64_t limit_ = 0;
  std::atomic<int64_t> headroom_{0};
};

constexpr int kMaxDevices = 16;

Allocator& allocator_of(Device d) {
  // Never destroyed: tensors in static storage may outlive every destructor order.
  static std::array<std::array<std::atomic<Allocator*>, kMaxDevices>, 4> all{};
  auto& slot = all[static_cast<size_t>(d.type)][static_cast<size_t>(d.index)];
  Allocator* a = slot.load(std::memory_order_acquire);
  if (!a) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    a = slot.load(std::memory_order_acquire);
    if (!a) slot.store(a = new Allocator(d), std::memory_order_release);
  }
  return *a;
}

}  // namespace

void* allocate(Device device, size_t bytes, size_t* capacity, const char* op) {
  return allocator_of(device).allocate(bytes, capacity, op);
}
void release(Device device, void* block, size_t capacity) noexcept {
  allocator_of(device).release(block, capacity);
}
MemoryStats memory_stats(Device device) {
  return allocator_of(device).stats();
}
void reset_peak_memory_stats(Device device) {
  allocator_of(device).reset_peak();
}
void empty_cache(Device device) {
  allocator_of(device).empty_cache();
}
int64_t memory_headroom(Device device) {
  return allocator_of(device).headroom();
}
void set_memory_limit(Device device, int64_t bytes) {
  allocator_of(device).set_limit(bytes);
}

}  // namespace pyflame
