#include "gpu/queue.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gpu/builder.h"
#include "gpu/device.h"
#include "gpu/graph_recorder.h"

namespace pyflame::gpu {
namespace {

// Calls between two looks at what other streams keep back: one that nobody touches any more hands
// its batch over at the second look, and eight streams that take turns keep theirs.
constexpr unsigned kHelpEvery = 4;

struct All {
  std::mutex mutex;
  std::vector<Queue*> queues;
};
All& all() {
  static auto* a = new All;
  return *a;
}

}  // namespace

// ---- marks -------------------------------------------------------------------------------------

Mark::Mark(const Device& d, unsigned flags) : device(d) {
  device.activate();
  check(runtime().EventCreateWithFlags(&event, flags),
        PF_RT("hipEventCreateWithFlags", "cuEventCreate"));
}

// The runtime keeps what it needs until it has happened.
Mark::~Mark() {
  try {
    device.activate();
    runtime().EventDestroy(event);
  } catch (const Failure&) {
    // A device that is lost says so to everybody.
  }
}

bool Mark::advance() {
  if (given.load(std::memory_order_acquire)) [[likely]]
    return true;
  kept_in->advance();
  return given.load(std::memory_order_acquire);
}

void Mark::reach() {
  while (!given.load(std::memory_order_acquire)) {
    const Module* m = kept_in->advance();
    if (m && !given.load(std::memory_order_acquire)) Builder::get().wait(*m);
  }
}

void Queue::record_now(Mark& mark) {
  device_.activate();
  check(runtime().EventRecord(mark.event, stream_.handle),
        PF_RT("hipEventRecord", "cuEventRecord"));
}

void Queue::wait_now(const Mark& mark) {
  device_.activate();
  check(runtime().StreamWaitEvent(stream_.handle, mark.event, 0),
        PF_RT("hipStreamWaitEvent", "cuStreamWaitEvent"));
}

void Queue::record(std::shared_ptr<Mark>& mark, unsigned flags) {
  const bool now = settled() && !failed_.load(std::memory_order_acquire);
  if (!now || !mark || mark->kept_in || mark.use_count() > 1)
    mark = std::make_shared<Mark>(device_, flags);
  if (now) return record_now(*mark);
  mark->kept_in = this;
  push({Item::Record, nullptr, "Event.record", nullptr, mark});
}

void Queue::wait(const std::shared_ptr<Mark>& mark) {
  const bool now = mark->advance() && !mark->failure && settled();
  if (now) return wait_now(*mark);
  push({Item::Wait, nullptr, "Event.wait", nullptr, mark});
}

// ---- queues ------------------------------------------------------------------------------------

std::atomic<int> Queue::busy_{0};

Queue::Queue(Device& device, Stream& stream, GraphRecorder* recorder)
    : device_(device), stream_(stream), recorder_(recorder) {
  std::lock_guard lock(all().mutex);
  all().queues.push_back(this);
}
Queue::~Queue() {
  std::lock_guard lock(all().mutex);
  std::erase(all().queues, this);
}

void Queue::count() {
  const size_t n = items_.size() + (batch_ && batch_->count() ? 1 : 0);
  const bool before = !empty();
  size_.store(n, std::memory_order_release);
  if (before != (n != 0)) busy_.fetch_add(n ? 1 : -1, std::memory_order_acq_rel);
}

void Queue::push(Item item) {
  std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
  if (const Item& i = items_.back(); i.kind == Item::Record)
    i.mark->given.store(false, std::memory_order_release);
  count();
  run_ready();
}

void Queue::add(Function needs, const char* op, std::function<void()> run) {
  push({Item::Run, needs, op, std::move(run), nullptr});
}

void Queue::copy_from_host(const char* op, void* to, const void* from, size_t bytes) {
  if (recorder_) return recorder_->copy_from_host(op, to, from, bytes);
  constexpr size_t kMost = size_t{16} << 20;  // of the host's memory that a copy may hold
  if (bytes > kMost) finish();
  if (settled()) return device_.staging.from_host(stream_, to, from, bytes);
  const auto* p = static_cast<const char*>(from);
  add(nullptr, op, [this, to, held = std::string(p, p + bytes)] {
    device_.staging.from_host(stream_, to, held.data(), held.size());
  });
}

bool Queue::batch(Function f, Grid grid, Grid block, size_t shared, void** args,
                  const uint32_t* sizes, int nargs, const char* op) {
  std::unique_lock lock(mutex_);
  if (!items_.empty()) {
    lock.unlock();
    if (advance()) return false;
    lock.lock();
    if (!items_.empty()) return false;
  }
  if (!batch_) batch_ = std::make_unique<LaunchBatch>(device_, stream_);
  if (!batch_->add(f, grid, block, shared, args, sizes, nargs, op)) {
    run_batch();
    if (!batch_->add(f, grid, block, shared, args, sizes, nargs, op)) return false;
  }
  const bool full = batch_->full();
  if (full) run_batch();
  dropping_ = false;  // nothing stands behind it
  count();
  lock.unlock();
  if (full && any()) help_others();
  return true;
}

template <class F>
void Queue::attempt(const char* const& op, F&& run) {
  try {
    run();
  } catch (const std::exception& e) {
    const auto* f = dynamic_cast<const Failure*>(&e);
    fail(std::make_shared<KeptFailure>(
        f ? f->status : PF_LAUNCH, std::string(e.what()) + "\n(launched for '" + (op ? op : "?") +
                                       "'; what was launched after it did not run)"));
  }
}

void Queue::fail(std::shared_ptr<KeptFailure> f) {
  if (!failure_) failure_ = std::move(f);
  failed_.store(true, std::memory_order_release);
  dropping_ = true;
}

void Queue::run_batch() {
  seen_ = false;
  const char* op = nullptr;
  if (batch_ && batch_->count()) attempt(op, [&] { batch_->run(op); });
}

Queue::Obstacle Queue::run_ready() {
  run_batch();
  while (!items_.empty()) {
    Item& i = items_.front();
    if (i.kind == Item::Wait && !i.mark->given.load(std::memory_order_acquire)) {
      count();
      return {.mark = i.mark};
    }
    if (i.needs && i.needs->module->building() && !dropping_) {
      count();
      return {.module = i.needs->module};
    }
    switch (i.kind) {
      case Item::Run:
        if (!dropping_) attempt(i.op, i.run);
        break;
      case Item::Record:
        attempt(i.op, [&] { record_now(*i.mark); });
        // One that somebody was told of is no news to those who wait for later work.
        if (failure_ && !failure_->told) i.mark->failure = failure_;
        i.mark->given.store(true, std::memory_order_release);
        break;
      case Item::Wait:
        attempt(i.op, [&] { wait_now(*i.mark); });
        if (i.mark->failure) fail(i.mark->failure);
        break;
    }
    items_.pop_front();
  }
  dropping_ = false;
  count();
  return {};
}

// What stands in front was always there first, so queues never wait for each other in a circle.
const Module* Queue::advance() {
  for (;;) {
    if (empty()) return nullptr;
    Queue* q = this;
    Obstacle o = q->run();
    while (o.mark) {
      if (!o.mark->given.load(std::memory_order_acquire)) q = o.mark->kept_in;
      o = q->run();
    }
    if (o.module || q == this) return o.module;
  }
}

bool Queue::settle() {
  if (recorder_) return recorder_->let_through(), true;
  advance();
  help_others();
  return empty();
}

void Queue::help_others() {
  const unsigned n = calls_.load(std::memory_order_relaxed) + 1;
  calls_.store(n, std::memory_order_relaxed);
  if (n % kHelpEvery) return;
  std::unique_lock lock(all().mutex, std::try_to_lock);
  if (!lock) return;
  for (Queue* q : all().queues) {
    if (q == this || q->empty()) continue;
    std::unique_lock its(q->mutex_, std::try_to_lock);
    if (!its) continue;  // its own threads are at it
    if (!q->items_.empty() || std::exchange(q->seen_, true)) q->run_ready();
  }
}

void Queue::finish() {
  if (recorder_) return recorder_->let_through();
  while (!empty())
    if (const Module* m = advance()) Builder::get().wait(*m);
}

void Queue::drain() {
  if (recorder_) throw Failure(PF_UNSUPPORTED, "a launch waits for its stream");
  finish();
  if (!failed_.load(std::memory_order_acquire) && !LaunchBatch::available()) return;
  std::shared_ptr<KeptFailure> failure;
  {
    std::lock_guard lock(mutex_);
    if (batch_) batch_->restart();
    failure = std::exchange(failure_, nullptr);
    failed_.store(false, std::memory_order_release);
  }
  if (!failure) return;
  failure->told = true;
  // What did run behind it may have taken for an index what was never made.
  pf_index_error ignored;
  try {
    stream_.synchronize(&ignored);
  } catch (const Failure&) {
    // A device that is lost says so to everybody.
  }
  throw static_cast<const Failure&>(*failure);
}

}  // namespace pyflame::gpu
