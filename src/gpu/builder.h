// Threads that compile programs while launches queue up behind them (queue.h).
//
// A launch whose program is not in memory and not on disk hands it to a few threads and goes on, so
// a first training step compiles all its programs at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/device.h"

namespace pyflame::gpu {

class Builder {
 public:
  static Builder& get();

  // PYFLAME_COMPILE_THREADS; else a thread a core, at most eight with NVRTC and two with hipRTC. 0:
  // nothing is compiled in the background, callers compile themselves (so where launches block).
  static int most_threads();

  void add(const Device&, Recipe, Module&);
  // Something else that takes its time, which one of the threads does first. It throws nothing, and
  // may never run: who needs it finds out by himself.
  void add(std::function<void()> chore);
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
  bool begin();                              // mutex held; false: the process is ending
  void call(std::unique_lock<std::mutex>&);  // a thread
  void work();
  std::vector<Job> take();
  static bool make_together(const std::vector<Job>&);
  void stop();

  std::mutex mutex_;
  std::condition_variable more_, done_;
  std::deque<Job> jobs_;
  std::deque<std::function<void()>> chores_;
  std::vector<std::thread> threads_;
  int idle_ = 0, groups_ = 0;  // threads that wait; that compile groups
  bool stopping_ = false;
  int process_ = 0;
};

// Compiles and loads; a failure becomes the module's.
void make_module(const Device&, const Recipe&, Module&);

}  // namespace pyflame::gpu
