// What the files of the stand-in's runtime share: failures on request, devices and their memory,
// streams that run on threads of their own, launches.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "block.h"

#define CALL extern "C" __attribute__((visibility("default"))) int
#define FAULT(NAME) \
  if (int e = fault(NAME)) return e

namespace standin {

enum : int {
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNotFound = 500,
  kNotReady = 600,
  kLaunchOutOfResources = 701,
  kLaunchFailure = 719,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kUpdateFailure = 910,
};

using Clock = std::chrono::steady_clock;

std::string setting(const char* name, const char* otherwise);
// What a call of that name is to return: an error that was asked for, or kOk.
int fault(const char* call);

struct Allocation {
  char* map;
  size_t map_bytes, bytes;
  int device;  // -1: pinned memory of the host
};

struct Gpu {
  std::string target;
  unsigned warp = 64;
  size_t total = 0;
  std::atomic<size_t> used{0};
  std::atomic<int> lost{0};
};

struct Machine {
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::mutex mutex;
  std::map<char*, Allocation> allocations;

  Machine() {
    int n = std::atoi(setting("PYFLAME_STANDIN_DEVICES", "1").c_str());
    for (const char* name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
      const char* visible = std::getenv(name);
      if (!visible) continue;
      int listed = 0;
      for (const char* c = visible; *c; ++c) listed += *c >= '0' && *c <= '9' && c[1] != *c;
      n = std::min(n, listed);
    }
    for (int i = 0; i < n; ++i) {
      auto g = std::make_unique<Gpu>();
      g->target = setting("PYFLAME_STANDIN_ARCH", "gfx942:sramecc+:xnack-");
      g->warp = g->target.rfind("gfx9", 0) == 0 ? 64 : 32;
      g->total =
          std::strtoull(setting("PYFLAME_STANDIN_MEMORY", "8589934592").c_str(), nullptr, 10);
      gpus.push_back(std::move(g));
    }
  }
};
Machine& machine();
int current_device();  // of the calling thread

// ---- modules and launches ----------------------------------------------------------------------

struct Module {
  void* handle = nullptr;
  int fd = -1;
  std::mutex running;  // one block at a time: its shared memory is the module's
};
struct Function {
  Module* module;
  Entry* entry;
  std::string name;
};

// What a launch needs when it runs.
struct Launch {
  Function* f;
  void* packed;
  Launch(Function* f_, void** args) : f(f_), packed(f_->entry->pack(args)) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() { f->entry->drop(packed); }
};
// As much as an H200 gives a block; an AMD device says less of itself, and the plug-in asks.
enum { kMostShared = 227 << 10 };
// What is wrong with a launch, or kOk.
int check_launch(const Function& f, Extent grid, Extent block, unsigned shared);
// What it comes to on a stream of the device. `early`: beside the kernel before it, for which it
// then has to wait by itself.
std::function<void()> job_of(int device, std::shared_ptr<Launch> launch, Extent grid, Extent block,
                             unsigned shared, bool early = false);

// ---- streams and events ------------------------------------------------------------------------

struct Moment {
  std::mutex mutex;
  std::condition_variable happened;
  bool done = false;
  Clock::time_point at;

  void set() {
    {
      std::lock_guard lock(mutex);
      done = true;
      at = Clock::now();
    }
    happened.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    happened.wait(lock, [&] { return done; });
  }
};
struct Event {
  bool timed;
  std::mutex mutex;
  std::shared_ptr<Moment> moment;  // null: never recorded, which counts as done
  std::shared_ptr<Moment> get() {
    std::lock_guard lock(mutex);
    return moment;
  }
};

// What a stream does at once; of a kernel, which.
struct Work {
  std::function<void()> job;
  const Function* kernel = nullptr;
};

class Stream {
 public:
  explicit Stream(int device) : device_(device) {
    random_.seed(static_cast<unsigned>(device) + 7u);
    max_delay_us_ = std::atoi(setting("PYFLAME_STANDIN_DELAY_US", "20").c_str());
    worker_ = std::thread([this] { work(); });
  }
  ~Stream() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    worker_.join();
  }
  void push(Work work) {
    {
      std::lock_guard lock(mutex_);
      if (captured_) return captured_->push_back(std::move(work));
      jobs_.push_back(std::move(work.job));
    }
    wake_.notify_one();
  }
  void push(std::function<void()> job) { push(Work{std::move(job), {}}); }
  // What comes is kept, until end_capture() gives it; null where there is no capture, or something
  // was asked that it cannot keep.
  bool begin_capture() {
    std::lock_guard lock(mutex_);
    if (captured_ || !jobs_.empty() || busy_) return false;
    captured_ = std::make_unique<std::vector<Work>>();
    return valid_ = true;
  }
  std::unique_ptr<std::vector<Work>> end_capture() {
    std::lock_guard lock(mutex_);
    auto all = std::move(captured_);
    return valid_ ? std::move(all) : nullptr;
  }
  // Whether it captures; then what was asked of it makes the capture invalid.
  bool spoils_capture() {
    std::lock_guard lock(mutex_);
    if (captured_) valid_ = false;
    return captured_ != nullptr;
  }
  bool captures() {
    std::lock_guard lock(mutex_);
    return captured_ != nullptr;
  }
  void drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return jobs_.empty() && !busy_; });
  }
  bool idle() {
    std::lock_guard lock(mutex_);
    return jobs_.empty() && !busy_;
  }
  int device() const { return device_; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      const bool pause = max_delay_us_ > 0 && random_() % 16 == 0;
      const auto delay = static_cast<int>(random_() % static_cast<unsigned>(max_delay_us_ + 1));
      lock.unlock();
      if (pause) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      job();
      job = nullptr;
      lock.lock();
      busy_ = false;
      if (jobs_.empty()) idle_.notify_all();
    }
  }
  int device_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> jobs_;
  std::mt19937 random_;
  int max_delay_us_;
  std::unique_ptr<std::vector<Work>> captured_;
  bool valid_ = false;
  bool busy_ = false, stop_ = false;
  std::thread worker_;
};

// Those that nobody destroyed are left running at exit: static destructors of the program may still
// use them.
inline Stream* of(void* s) {
  return static_cast<Stream*>(s);
}
inline int lost_on(void* s) {
  return machine().gpus[static_cast<size_t>(of(s)->device())]->lost.load();
}

}  // namespace standin
