#include "core/allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "core/backends.h"
#include "core/blocks.h"
#include "core/kept.h"
#include "core/limits.h"
#include "core/lock.h"
#include "core/memory_words.h"
#include "pyflame/error.h"

namespace pyflame {

using namespace blocks;

namespace {

constexpr size_t kScratch = 15 * kMiB, kIdleScratch = 64 * kMiB;  // see MemoryUse
// Unused segments are exchanged for one that fits when the new one would take what is reserved
// beyond 9/8 of what was ever in use: best fit alone ends at up to 1.5 times that. Exchanging may
// have to wait for the device, so a program that does not grow may do it so often, and once more
// in so many allocations: one that comes round to the same sizes keeps its segments at last. Little
// memory is left as it is.
constexpr int64_t kSpare = 8, kWorthwhile = 64 * kMiB;
constexpr int kExchanges = 32;
constexpr int64_t kExchangeEvery = 4096;

}  // namespace

class Allocator {
 public:
  explicit Allocator(Device device) : device_(device), backend_(backend_of(device)) {
    const bool gpu = device.type == DeviceType::ROCm || device.type == DeviceType::CUDA;
    const bool test = device.type == DeviceType::Paranoid;
    limited_ = gpu || test;
    configure(alloc_settings_of_environment(), false);
    // The test backend must see every allocation fresh, and its exact size: it guards the ends.
    caching_ = settings_.caching >= 0 ? settings_.caching != 0 : !test;
    // The host's own allocator is good at small blocks; a device's takes microseconds, or waits.
    carve_ = (gpu || test) && settings_.split;
    small_ = gpu || test ? 256 * kKiB : 64 * kKiB;
    align_ = gpu || test ? 256 : 64;
    set_limit(0);
  }

  Block* allocate(StreamState* stream, size_t bytes, const MemoryUse& use) {
    const bool small = bytes <= small_ || (use.scratch && !carve_ && bytes <= kScratch);
    const size_t size = rounded(bytes, small);
    std::lock_guard lock(mutex_);
    ++stats_.allocations;
    ++made_;
    if (!waiting_.empty()) collect_waiting(false);
    Block* b = take_cached(stream, size, small);
    if (b) {
      ++stats_.cache_hits;
    } else {
      pf_status status = fresh(stream, size, small, &b);
      if (status == PF_OOM) {
        // Once more, with everything released that nobody uses.
        ++stats_.retries;
        collect_waiting(true);
        b = take_cached(stream, size, small);
        if (b) {
          status = PF_OK;
        } else {
          drop_cache();
          status = fresh(stream, size, small, &b);
        }
      }
      if (status != PF_OK) raise(bytes, status, use);
    }
    b->state = Block::Used;
    b->requested = bytes;
    if (b->segment->live++ == 0) busy_ += static_cast<int64_t>(b->segment->size);
    account(*b, [](MemoryCounter& c, int64_t n) { c.add(n); });
    most_ = std::max(most_, stats_.all.allocated_bytes.current);
    update_headroom();
    label(*b, use);
    return b;
  }

  void release(Block* b) noexcept {
    std::lock_guard lock(mutex_);
    account(*b, [](MemoryCounter& c, int64_t n) { c.remove(n); });
    if (b->users.empty() || !caching_) {
      retire(b);
    } else {
      wait_for_users(b);
    }
    update_headroom();
  }

  void relabel(Block& b, const MemoryUse& use) {
    std::lock_guard lock(mutex_);
    label(b, use);
  }

  void add_user(Block& b, StreamState* stream) {
    std::lock_guard lock(mutex_);
    if (stream == b.stream) return;
    if (std::find(b.users.begin(), b.users.end(), stream) == b.users.end())
      b.users.push_back(stream);
  }

  void empty_cache() {
    std::lock_guard lock(mutex_);
    collect_waiting(true);
    drop_cache();
    if (!PF_HAS(backend_, discard)) return;
    each_pool([&](Pool& p) {
      for (const Block* b : p.large) backend_->discard(device_.index, b->data, b->size);
    });
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    if (!waiting_.empty()) collect_waiting(false);
    MemoryStats r = stats_;
    r.allocated = r.all.allocated_bytes.current;
    r.max_allocated = r.all.allocated_bytes.peak;
    r.reserved = r.all.reserved_bytes.current;
    r.max_reserved = r.all.reserved_bytes.peak;
    r.limit = limit_;
    for (PoolStats* p : {&r.all, &r.small, &r.large}) {
      p->active = p->allocation.current;
      p->active_bytes = p->allocated_bytes.current;
    }
    auto each = [&](bool small, auto&& fn) {
      fn(r.all);
      fn(small ? r.small : r.large);
    };
    for (const Waiting& w : waiting_)
      each(is_small(*w.block), [&](PoolStats& p) {
        ++p.active;
        p.active_bytes += static_cast<int64_t>(w.block->size);
      });
    for (const auto& [base, s] : segments_)
      for (const Block* b = s->first; b; b = b->next)
        if (s->live && (b->state == Block::Free || b->state == Block::Binned))
          each(s->small, [&](PoolStats& p) {
            ++p.inactive_split;
            p.inactive_split_bytes += static_cast<int64_t>(b->size);
          });
    return r;
  }

  void reset_peak() {
    std::lock_guard lock(mutex_);
    for (PoolStats* p : {&stats_.all, &stats_.small, &stats_.large})
      for (MemoryCounter* c : {&p->allocation, &p->allocated_bytes, &p->requested_bytes,
                               &p->segment, &p->reserved_bytes})
        c->reset_peak();
  }

  void reset_accumulated() {
    std::lock_guard lock(mutex_);
    for (PoolStats* p : {&stats_.all, &stats_.small, &stats_.large})
      for (MemoryCounter* c : {&p->allocation, &p->allocated_bytes, &p->requested_bytes,
                               &p->segment, &p->reserved_bytes})
        c->allocated = c->current;
    stats_.allocations = stats_.cache_hits = stats_.retries = stats_.ooms = 0;
    stats_.device_allocs = stats_.device_frees = 0;
  }

  int64_t make_pool() {
    std::lock_guard lock(mutex_);
    private_[++last_pool_];
    return last_pool_;
  }
  int64_t use_pool(int64_t pool) {
    std::lock_guard lock(mutex_);
    PF_CHECK(pool == 0 || private_.count(pool), ValueError, "use_memory_pool", "got pool ", pool,
             " of ", device_.str(), ", which is not there; make one");
    return std::exchange(route_, pool);
  }
  PoolStats pool_statistics(int64_t pool) {
    std::lock_guard lock(mutex_);
    return private_.at(pool).stats;
  }
  void keep_pool(int64_t pool) {
    std::lock_guard lock(mutex_);
    private_.at(pool).kept = true;
  }
  void drop_pool(int64_t pool) {
    std::lock_guard lock(mutex_);
    if (route_ == pool) route_ = 0;
    collect_waiting(false);
    Private& own = private_.at(pool);
    own.dropped = true;
    own.kept = false;
    for (Block* b : own.idle) give_back(b->segment);
    own.idle.clear();
    drop_private(pool);
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
      bytes = static_cast<int64_t>(info.free_bytes) + stats_.all.reserved_bytes.current;
      if (limited_ && settings_.fraction > 0)
        bytes = static_cast<int64_t>(settings_.fraction * static_cast<double>(info.total_bytes));
      if (limited_ && settings_.limit > 0) bytes = std::min(bytes, settings_.limit);
    }
    limit_ = bytes;
    update_headroom();
  }

  void set_fraction(double fraction) {
    pf_memory_info info{};
    pf_status status = backend_->memory_info(device_.index, &info);
    if (status != PF_OK) raise_status(backend_, status, "set_per_process_memory_fraction");
    set_limit(std::max<int64_t>(
        static_cast<int64_t>(fraction * static_cast<double>(info.total_bytes)), 1));
  }

  void configure(const AllocSettings& s, bool apply_limit) {
    {
      std::lock_guard lock(mutex_);
      settings_ = s;
    }
    if (apply_limit && limited_ && (s.fraction > 0 || s.limit > 0)) set_limit(0);
  }

  std::string snapshot() {
    std::lock_guard lock(mutex_);
    if (!waiting_.empty()) collect_waiting(false);
    return blocks::snapshot(device_, segments_);
  }

 private:
  struct Waiting {
    Block* block;
    std::vector<pf_event> events;
  };
  using Pools = std::unordered_map<StreamState*, std::unique_ptr<Pool>>;
  struct Private {  // a pool that somebody made
    Pools pools;
    PoolStats stats;
    bool dropped = false;      // goes with its last segment
    bool kept = false;         // nothing goes before that: others know its addresses
    std::vector<Block*> idle;  // of one that is kept on a device without a cache
  };

  size_t rounded(size_t bytes, bool small) const {
    if (!caching_) return bytes;
    if (small) return small_size(bytes, align_);
    if (settings_.split) return round_up(bytes, kPage);
    return bytes <= 16 * kMiB ? small_size(bytes, align_) : round_up(bytes, kHugePage);
  }

  static bool is_small(const Block& b) { return b.segment->small; }
  PoolStats& pool_stats(bool small) { return small ? stats_.small : stats_.large; }

  template <class F>
  void account(const Block& b, F&& change) {
    const auto size = static_cast<int64_t>(b.size), requested = static_cast<int64_t>(b.requested);
    for (PoolStats* p : {&stats_.all, &pool_stats(is_small(b))}) {
      change(p->allocation, 1);
      change(p->allocated_bytes, size);
      change(p->requested_bytes, requested);
    }
    if (b.segment->pool) {
      PoolStats& p = private_.at(b.segment->pool).stats;
      change(p.allocation, 1);
      change(p.allocated_bytes, size);
      change(p.requested_bytes, requested);
    }
  }
  void account_segment(const Segment& s, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(s.size);
    PoolStats* own = s.pool ? &private_.at(s.pool).stats : nullptr;
    for (PoolStats* p : {&stats_.all, &pool_stats(s.small), own})
      if (!p) {
        continue;
      } else if (count > 0) {
        p->segment.add(count);
        p->reserved_bytes.add(bytes);
      } else {
        p->segment.remove(-count);
        p->reserved_bytes.remove(-bytes);
      }
  }

  // Segments with live blocks cannot be exchanged for others: their free parts may not fit.
  void update_headroom() {
    const int64_t used = caching_ ? busy_ : stats_.all.allocated_bytes.current;
    headroom_.store(limit_ - used, std::memory_order_relaxed);
  }

  static void label(Block& b, const MemoryUse& use) {
    b.op = use.op;
    if (b.size < kLabelled) return;
    b.dtype = use.dtype;
    if (use.shape) b.shape = *use.shape;
  }

  Pool& pool_of(StreamState* stream, int64_t pool) {
    if (!stream && !pool) return default_pool_;
    auto& p = (pool ? private_.at(pool).pools : pools_)[stream];
    if (!p) p = std::make_unique<Pool>();
    return *p;
  }
  // Whose unused memory may go.
  template <class F>
  void each_pool(F&& fn) {
    fn(default_pool_);
    for (auto& [stream, pool] : pools_) fn(*pool);
    for (auto& [id, own] : private_)
      if (!own.kept)
        for (auto& [stream, pool] : own.pools) fn(*pool);
  }

  // ---- what is free ----------------------------------------------------------------------------

  Block* take_cached(StreamState* stream, size_t size, bool small) {
    if (!caching_) return nullptr;
    Pool& p = pool_of(stream, route_);
    if (!small) return take_fitting(p.large, size);
    Block*& bin = p.bins[static_cast<size_t>(class_of(size))];
    if (bin) {
      --p.binned;
      if (size > small_) idle_scratch_ -= size;
      return std::exchange(bin, bin->next_binned);
    }
    if (!carve_) return nullptr;
    if (Block* b = take_fitting(p.small, size)) return b;
    if (!p.binned) return nullptr;
    join_bins(p);
    return take_fitting(p.small, size);
  }

  Block* take_fitting(FreeList& free, size_t size) {
    auto it = free.lower_bound(size);
    if (it == free.end()) return nullptr;
    Block* b = *it;
    if (!settings_.split && b->size != size) return nullptr;
    if (b->size > settings_.max_split) {
      // Large blocks stay whole: only for what is large too, and nearly as large.
      if (size <= settings_.max_split || b->size - size >= kLargeSegment) return nullptr;
      unlist(free, it);
      return b;
    }
    unlist(free, it);
    if (settings_.split) split(b, size, align_, free);
    return b;
  }

  // Nothing uses it any more, or only earlier work of its own stream.
  void retire(Block* b) noexcept {
    Segment* s = b->segment;
    if (--s->live == 0) busy_ -= static_cast<int64_t>(s->size);
    b->users.clear();
    const bool scratch = s->small && b->size > small_;
    const int64_t of = s->pool;
    const bool kept = of && private_.at(of).kept;
    if (!caching_) {
      if (kept)
        private_.at(of).idle.push_back(b);
      else
        give_back(s);
      if (of && private_.at(of).dropped) drop_private(of);
      return;
    }
    Pool& p = pool_of(b->stream, of);
    if (scratch) {
      const size_t all = idle_scratch_ + b->size;
      if (all > kIdleScratch && !kept) drop_bins(p, class_of(small_) + 1, all - kIdleScratch);
      idle_scratch_ += b->size;
    }
    if (s->small) {
      b->state = Block::Binned;
      Block*& bin = p.bins[static_cast<size_t>(class_of(b->size))];
      b->next_binned = bin;
      bin = b;
      ++p.binned;
    } else {
      // What comes free beside the pool of a capture lies idle until it ends.
      if (route_ && !of && PF_HAS(backend_, discard))
        backend_->discard(device_.index, b->data, b->size);
      join(b, p.large);
    }
    if (of && s->live == 0 && private_.at(of).dropped) drop_private(of);
  }

  // ---- other streams ---------------------------------------------------------------------------

  pf_event take_event() {
    if (!events_.empty()) {
      pf_event e = events_.back();
      events_.pop_back();
      return e;
    }
    pf_event e = nullptr;
    return backend_->event_create(device_.index, &e) == PF_OK ? e : nullptr;
  }

  void wait_for_users(Block* b) noexcept {
    b->state = Block::Waiting;
    try {
      Waiting w{b, {}};
      w.events.reserve(b->users.size());
      size_t coming_back = b->users.size();
      for (const Waiting& other : waiting_) coming_back += other.events.size();
      events_.reserve(events_.size() + coming_back);
      waiting_.reserve(waiting_.size() + 1);
      for (StreamState* s : b->users) {
        pf_event e = take_event();
        if (e && backend_->event_record(device_.index, e, handle_of(s)) == PF_OK) {
          w.events.push_back(e);
          continue;
        }
        if (e) events_.push_back(e);
        // No event to be had: wait here. A device that fails this, too, is lost.
        backend_->synchronize(device_.index, handle_of(s), nullptr);
      }
      waiting_.push_back(std::move(w));
    } catch (const std::bad_alloc&) {  // nor memory for a list of them
      for (StreamState* s : b->users) backend_->synchronize(device_.index, handle_of(s), nullptr);
      retire(b);
    }
  }

  int32_t wait_for(pf_event e, const Block& b) noexcept {
    if (PF_HAS(backend_, event_synchronize)) {
      backend_->event_synchronize(device_.index, e);
    } else {
      for (StreamState* s : b.users) backend_->synchronize(device_.index, handle_of(s), nullptr);
    }
    return 1;
  }

  // Blocks whose users are done become free; `all` waits for them.
  void collect_waiting(bool all) noexcept {
    for (size_t i = 0; i < waiting_.size();) {
      Waiting& w = waiting_[i];
      while (!w.events.empty()) {
        pf_event e = w.events.back();
        int32_t done = 0;
        pf_status status = backend_->event_query(device_.index, e, &done);
        if (status == PF_OK && !done && all) done = wait_for(e, *w.block);
        if (status == PF_OK && !done) break;
        events_.push_back(e);
        w.events.pop_back();
      }
      if (!w.events.empty()) {
        ++i;
        continue;
      }
      retire(w.block);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // ---- the device ------------------------------------------------------------------------------

  pf_status fresh(StreamState* stream, size_t size, bool small, Block** out) {
    size_t wanted = size;
    if (caching_ && settings_.split && (carve_ || !small)) {
      wanted = small ? kSmallSegment : round_up(size, kHugePage);
      if (!small && size <= kSharing && settings_.max_split >= kLargeSegment) {
        // Room for others, in proportion to what is there.
        const auto part = static_cast<size_t>(stats_.all.reserved_bytes.current) / 8;
        wanted = std::max(wanted, std::min(round_up(part, kHugePage), kLargeSegment));
      }
    }
    collect_garbage(wanted);
    if (!small && caching_ && settings_.split) exchange(size, wanted);
    pf_status status = take_segment(stream, wanted, small, out);
    if (status == PF_OOM && wanted > size) status = take_segment(stream, size, small, out);
    if (status != PF_OK) return status;
    if (caching_ && settings_.split && (carve_ || !small) &&
        (*out)->size <= std::max(settings_.max_split, kSmallSegment))
      split(*out, size, align_,
            small ? pool_of(stream, route_).small : pool_of(stream, route_).large);
    return PF_OK;
  }

  pf_status take_segment(StreamState* stream, size_t size, bool small, Block** out) {
    if (stats_.all.reserved_bytes.current + static_cast<int64_t>(size) > limit_) return PF_OOM;
    void* data = nullptr;
    pf_status status = backend_->allocate(device_.index, size, &data);
    if (status != PF_OK) return status;
    ++stats_.device_allocs;
    Segment* s = nullptr;
    Block* b = nullptr;
    try {
      s = new Segment{static_cast<char*>(data), size, stream, nullptr, route_, 0, small};
      b = make_block();
      segments_.emplace(data, s);
    } catch (const std::bad_alloc&) {
      backend_->release(device_.index, data, size);
      delete_block(b);
      delete s;
      throw;
    }
    b->data = data;
    b->size = size;
    b->owner = this;
    b->stream = stream;
    b->segment = s;
    s->first = b;
    account_segment(*s, 1);
    *out = b;
    return PF_OK;
  }

  // The segment's blocks are in no list any more. The backend waits for what still uses it.
  void give_back(Segment* s) noexcept {
    backend_->release(device_.index, s->base, s->size);
    ++stats_.device_frees;
    account_segment(*s, -1);
    segments_.erase(s->base);
    for (Block* b = s->first; b;) delete_block(std::exchange(b, b->next));
    delete s;
  }

  void drop_cache() {
    each_pool([&](Pool& p) { drop_unused(p); });
  }
  void drop_unused(Pool& p) {
    if (carve_) {
      join_bins(p);
    } else {
      drop_bins(p, 0);
    }
    drop_free(p.small, INT64_MAX);
    drop_free(p.large, INT64_MAX);
  }
  void drop_private(int64_t pool) {
    const auto own = private_.find(pool);
    for (auto& [stream, p] : own->second.pools) drop_unused(*p);
    if (own->second.stats.segment.current == 0) private_.erase(own);
  }

  // Of devices where a small block is a segment: the largest first, until so many bytes are gone.
  void drop_bins(Pool& p, int first, size_t enough = SIZE_MAX) {
    size_t dropped = 0;
    for (size_t c = p.bins.size(); c-- > static_cast<size_t>(first);) {
      while (Block* b = p.bins[c]) {
        if (dropped >= enough) return;
        dropped += b->size;
        if (b->size > small_) idle_scratch_ -= b->size;
        p.bins[c] = b->next_binned;
        --p.binned;
        give_back(b->segment);
      }
    }
  }

  // Gives segments back of which nothing is in use, the largest first; returns the bytes.
  int64_t drop_free(FreeList& free, int64_t enough) {
    int64_t dropped = 0;
    for (auto it = free.end(); it != free.begin() && dropped < enough;) {
      --it;
      Segment* s = (*it)->segment;
      if (s->live) continue;
      dropped += static_cast<int64_t>(s->size);
      it = unlist(free, it);
      give_back(s);
    }
    return dropped;
  }

  // garbage_collection_threshold: near the limit unused segments go before a new one comes.
  void collect_garbage(size_t wanted) {
    if (settings_.garbage_threshold <= 0) return;
    const auto threshold =
        static_cast<int64_t>(settings_.garbage_threshold * static_cast<double>(limit_));
    int64_t over = stats_.all.reserved_bytes.current + static_cast<int64_t>(wanted) - threshold;
    if (over <= 0) return;
    each_pool([&](Pool& p) {
      if (over > 0) over -= drop_free(p.large, over);
    });
  }

  void exchange(size_t size, size_t wanted) {
    const int64_t most =
        std::max(most_, stats_.all.allocated_bytes.current + static_cast<int64_t>(size));
    const int64_t over =
        stats_.all.reserved_bytes.current + static_cast<int64_t>(wanted) - (most + most / kSpare);
    if (over <= 0 || over + most < kWorthwhile) return;
    const int64_t earned = (made_ - earned_) / kExchangeEvery;
    earned_ += earned * kExchangeEvery;
    exchanges_ = static_cast<int>(std::min<int64_t>(exchanges_ + earned, kExchanges));
    const bool grown = most > most_then_;  // cannot come round
    if (!exchanges_ && !grown) return;
    int64_t left = over;
    each_pool([&](Pool& p) {
      if (left > 0) left -= drop_free(p.large, left);
    });
    if (left == over) return;
    if (!grown) --exchanges_;
    most_then_ = most;
  }

  [[noreturn]] void raise(size_t bytes, pf_status status, const MemoryUse& use) {
    const char* op = use.op ? use.op : "allocate";
    if (status != PF_OOM)
      PF_FAIL(BackendError, op, "allocating ", bytes, " bytes on ", device_.str(),
              " failed: ", backend_error(backend_, status));
    ++stats_.ooms;
    pf_memory_info info{};
    std::string free;
    if (backend_->memory_info(device_.index, &info) == PF_OK)
      free = "; the device has " + megabytes(static_cast<int64_t>(info.free_bytes)) + " free of " +
             megabytes(static_cast<int64_t>(info.total_bytes));
    const int64_t allocated = stats_.all.allocated_bytes.current,
                  reserved = stats_.all.reserved_bytes.current;
    if (const std::string limits = device_.is_cpu() ? memory_limits() : ""; !limits.empty())
      free += "; this process may have " + limits;
    PF_FAIL(OutOfMemoryError, op, "out of memory on ", device_.str(), ": asked for ",
            megabytes(static_cast<int64_t>(bytes)), " with ", megabytes(allocated),
            " in live tensors (largest: ", largest(segments_), "), ",
            megabytes(reserved - allocated), " reserved beside them and a limit of ",
            megabytes(limit_), free,
            "; use a smaller batch or model, accumulate gradients over several smaller batches, "
            "drop tensors that are no longer needed, or, where much is reserved beside them, set "
            "PYFLAME_ALLOC_CONF=max_split_size_mb:128");
  }

  Device device_;
  const pf_backend* backend_;
  bool caching_ = true, carve_ = false, limited_ = false;
  size_t align_ = 64, small_ = 0;
  AllocSettings settings_;
  Mutex mutex_;
  Pool default_pool_;
  Pools pools_;
  std::map<int64_t, Private> private_;
  int64_t route_ = 0, last_pool_ = 0;  // of allocations now; 0: the common pools
  Segments segments_;
  std::vector<Waiting> waiting_;
  std::vector<pf_event> events_;  // to be used again
  MemoryStats stats_;
  int64_t limit_ = 0;
  int64_t busy_ = 0;                  // bytes of segments with live blocks
  int64_t most_ = 0, most_then_ = 0;  // bytes that were ever in use; at the last exchange
  int64_t made_ = 0, earned_ = 0;     // allocations; for how many of them exchanges were granted
  int exchanges_ = kExchanges;
  size_t idle_scratch_ = 0;  // bytes in bins for larger blocks than small ones
  std::atomic<int64_t> headroom_{0};
};

// ---- one for each device -----------------------------------------------------------------------

namespace {

using Slots = std::array<std::array<std::atomic<Allocator*>, kMaxDevices>, kDeviceTypes>;

// Never destroyed: tensors in static storage may outlive every destructor order.
Slots& slots() {
  static Slots all{};
  return all;
}

Allocator& allocator_of(Device d) {
  auto& slot = slots()[static_cast<size_t>(d.type)][static_cast<size_t>(d.index)];
  Allocator* a = slot.load(std::memory_order_acquire);
  if (!a) {
    static Mutex mutex;
    std::lock_guard lock(mutex);
    a = slot.load(std::memory_order_acquire);
    if (!a) slot.store(a = new Allocator(d), std::memory_order_release);
  }
  return *a;
}

}  // namespace

Block* allocate(Device device, StreamState* stream, size_t bytes, const MemoryUse& use) {
  Allocator& from = allocator_of(device);
  if (device.is_cpu() && any_kept() && from.headroom() < static_cast<int64_t>(bytes)) [[unlikely]]
    drop_all_kept();
  return from.allocate(stream, bytes, use);
}
void release(Block* b) noexcept {
  b->owner->release(b);
}
void relabel(Block& b, const MemoryUse& use) {
  if (b.size >= kLabelled) b.owner->relabel(b, use);
}
void add_user(Block& b, StreamState* stream) {
  b.owner->add_user(b, stream);
}
int64_t memory_headroom(Device device) {
  return allocator_of(device).headroom();
}

MemoryStats memory_stats(Device device) {
  return allocator_of(device).stats();
}
void reset_peak_memory_stats(Device device) {
  allocator_of(device).reset_peak();
}
void reset_accumulated_memory_stats(Device device) {
  allocator_of(device).reset_accumulated();
}
void empty_cache(Device device) {
  if (device.is_cpu()) drop_all_kept();
  allocator_of(device).empty_cache();
}
void set_memory_limit(Device device, int64_t bytes) {
  allocator_of(device).set_limit(bytes);
}
void set_memory_fraction(Device device, double fraction) {
  PF_CHECK(fraction > 0 && fraction <= 1, ValueError, "set_per_process_memory_fraction", "got ",
           fraction, "; expected a number above 0 and up to 1; pass one");
  allocator_of(device).set_fraction(fraction);
}
void set_allocator_settings(const std::string& text) {
  const AllocSettings s = parse_alloc_settings(text, kAllocVariable);
  for (auto& type : slots())
    for (auto& slot : type)
      if (Allocator* a = slot.load(std::memory_order_acquire)) a->configure(s, true);
}
int64_t make_memory_pool(Device device) {
  return allocator_of(device).make_pool();
}
int64_t use_memory_pool(Device device, int64_t pool) {
  return allocator_of(device).use_pool(pool);
}
void keep_memory_pool(Device device, int64_t pool) {
  allocator_of(device).keep_pool(pool);
}
PoolStats memory_pool_stats(Device device, int64_t pool) {
  return allocator_of(device).pool_statistics(pool);
}
void drop_memory_pool(Device device, int64_t pool) {
  allocator_of(device).drop_pool(pool);
}
std::string memory_snapshot(Device device) {
  return allocator_of(device).snapshot();
}

}  // namespace pyflame
