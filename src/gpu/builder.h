// Threads that compile programs while launches queue up, and the queue.
//
// A launch whose program is not in memory and not on disk hands it to a few threads and goes on.
// It waits in the backlog; so does everything behind it, on any stream of any device, so that all
// order is kept: fills, copies within the device and from the host, events, products of libraries.
// Whoever comes next runs what has become ready, and who waits for the device (or reads from it)
// waits for the programs first. So a first training step compiles all its programs at once.
// Small launches that wait for no program are gathered (launch_batch.h) in front of all that.
//
// What cannot be compiled is reported by the next wait, like a wrong index: what stood behind it in
// the backlog did not run.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "gpu/device.h"
#include "gpu/launch_batch.h"

namespace pyflame::gpu {

class Builder {
 public:
  static Builder& get();

  // PYFLAME_COMPILE_THREADS; else a thread a core, at most eight with NVRTC and two with hipRTC. 0:
  // nothing is compiled in the background, callers compile themselves (so where launches block).
  static int most_threads();

  void add(const Device&, Recipe, Module&);
  // Returns once it is not being built any more.
  void wait(const Module&);

  static void stop_all();
  // To be called by the main thread some time: its end then stops the threads.
  static void stop_in_time();

 private:
  struct Job {
    const Device* device;
    Recipe recipe;
    Module* module;
  };
  void work();
  std::vector<Job> take();
  static bool make_together(const std::vector<Job>&);
  void stop();

  std::mutex mutex_;
  std::condition_variable more_, done_;
  std::deque<Job> jobs_;
  std::vector<std::thread> threads_;
  int idle_ = 0, groups_ = 0;  // threads that wait; that compile groups
  bool stopping_ = false;
  int process_ = 0;
};

// Compiles and loads; a failure becomes the module's.
void make_module(const Device&, const Recipe&, Module&);

class Backlog {
 public:
  static Backlog& get();

  bool empty() const { return size_.load(std::memory_order_acquire) == 0; }
  // `needs`: a function whose program must be there, or null; `op` for errors; `always`: also
  // after a failure.
  void add(Function needs, const char* op, std::function<void()> run, bool always = false);
  void advance();  // runs what can be run without waiting
  // The same; true when nothing waits then.
  bool settled() {
    if (empty()) [[likely]]
      return true;
    advance();
    return empty();
  }
  // False where something waits for a program: then the launch has to be added.
  bool batch(Device&, Stream&, Function, Grid grid, Grid block, size_t shared, void** args,
             const uint32_t* sizes, int nargs, const char* op);
  void finish();  // waits for programs, and runs all
  void drain();   // the same; throws what has failed since the last time

 private:
  struct Item {
    Function needs;
    const char* op;
    std::function<void()> run;
    bool always;
  };
  const Module* run_ready();  // what is waited for; mutex held
  void run_batch();
  template <class F>
  void attempt(const char* const& op, F&& run);  // a failure is kept
  void count() { size_.store(items_.size() + (batch_.count() ? 1 : 0), std::memory_order_release); }

  std::mutex mutex_;
  std::deque<Item> items_;
  LaunchBatch batch_;
  std::atomic<size_t> size_{0};
  std::optional<Failure> failure_;
  std::atomic<bool> failed_{false};
  bool dropping_ = false;  // until the backlog is empty
};

// Runs fn now, or behind what waits.
template <class F>
void in_order(const char* op, F fn, bool always = false) {
  if (Backlog::get().settled()) [[likely]]
    return fn();
  Backlog::get().add(nullptr, op, std::move(fn), always);
}

// The same for a copy from the host, which has read its source when this returns.
void copy_in_order(Device&, Stream&, const char* op, void* to, const void* from, size_t bytes);

}  // namespace pyflame::gpu
