// What a stream is given, in its order.
//
// As a rule that goes to the driver at once. Kept back are small launches, until some can be handed
// over together (launch_batch.h), and what stands behind a program that is still compiled
// (builder.h): launches, fills, copies, events, products of libraries. Every stream has a queue of
// its own and waits for no other, but where an event says so: a wait whose event is itself kept
// back stands in its queue until that event went to the driver. So the driver gets everything in
// an order in which a program without queues could have given it.
//
// Nobody runs a queue but callers: each new entry and each query runs what has become ready, here
// and in the queues that this one waits for, and now and then in the others. Who waits for a stream
// (or reads from it) waits for its programs first.
//
// What fails, or cannot be compiled, is told by the stream's next wait, like a wrong index: what
// stood behind it did not run. Events carry it on to the streams that wait for them.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "gpu/kernel.h"
#include "gpu/launch_batch.h"
#include "gpu/runtime.h"

namespace pyflame::gpu {

class GraphRecorder;
class Queue;
struct Module;

struct KeptFailure : Failure {
  using Failure::Failure;
  std::atomic<bool> told{false};  // to somebody who waited
};

// A point in a stream's order: what an event was recorded as.
struct Mark {
  Mark(const Device& device, unsigned flags);  // as the runtime takes them
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  // Runs what can be run without waiting; true when it is with the driver then.
  bool advance();
  void reach();  // waits for programs until it is

  const Device& device;
  hipEvent event = nullptr;
  Queue* kept_in = nullptr;              // null: it went to the driver at once
  std::atomic<bool> given{true};         // to the driver; then:
  std::shared_ptr<KeptFailure> failure;  // of what stands in front of it
};

class Queue {
 public:
  // `recorder`: of a stream on which nothing runs (graph_recorder.h).
  Queue(Device&, Stream&, GraphRecorder* recorder = nullptr);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  GraphRecorder* recorder() const { return recorder_; }
  // Whether any queue keeps something back.
  static bool any() { return busy_.load(std::memory_order_acquire) != 0; }
  bool empty() const { return size_.load(std::memory_order_acquire) == 0; }
  // Runs what can be run without waiting. True when nothing waits then: callers go to the driver
  // themselves.
  bool settled() {
    if (!any() && !recorder_) [[likely]]
      return true;
    return settle();
  }
  // The same; null when nothing waits, else a program that is waited for.
  const Module* advance();
  // `needs`: a function whose program must be there, or null; `op` for errors.
  void add(Function needs, const char* op, std::function<void()> run);
  // Runs fn now, or behind what waits.
  template <class F>
  void in_order(const char* op, F fn) {
    if (settled()) [[likely]]
      return fn();
    add(nullptr, op, std::move(fn));
  }
  // The same for a copy from the host, which has read its source when this returns.
  void copy_from_host(const char* op, void* to, const void* from, size_t bytes);
  // False where something waits: then the launch has to be added.
  bool batch(Function, Grid grid, Grid block, size_t shared, void** args, const uint32_t* sizes,
             int nargs, const char* op);
  // The mark is made, and made anew where somebody still needs what it was.
  void record(std::shared_ptr<Mark>& mark, unsigned flags = kEventDisableTiming);
  // What comes later waits for the mark.
  void wait(const std::shared_ptr<Mark>& mark);

  void finish();  // waits for programs, and runs all
  void drain();   // the same; throws what has failed since the last time

 private:
  struct Item {
    enum Kind { Run, Record, Wait } kind;
    Function needs;
    const char* op;
    std::function<void()> run;
    std::shared_ptr<Mark> mark;
  };
  struct Obstacle {  // in front of what is kept back; neither: nothing is
    const Module* module = nullptr;
    std::shared_ptr<Mark> mark = nullptr;
  };
  void push(Item);
  Obstacle run_ready();  // mutex held
  Obstacle run() {
    std::lock_guard lock(mutex_);
    return run_ready();
  }
  bool settle();
  void help_others();
  void run_batch();
  void record_now(Mark&);
  void wait_now(const Mark&);
  template <class F>
  void attempt(const char* const& op, F&& run);  // a failure is kept
  void fail(std::shared_ptr<KeptFailure>);
  void count();

  static std::atomic<int> busy_;  // queues that keep something back

  Device& device_;
  Stream& stream_;
  GraphRecorder* const recorder_;
  std::mutex mutex_;
  std::deque<Item> items_;
  std::unique_ptr<LaunchBatch> batch_;  // made at its first launch; in front of the items
  bool seen_ = false;                   // by another stream that came by
  std::atomic<size_t> size_{0};
  std::atomic<unsigned> calls_{0};
  std::shared_ptr<KeptFailure> failure_;
  std::atomic<bool> failed_{false};
  bool dropping_ = false;  // until nothing is kept back
};

}  // namespace pyflame::gpu
