#include "gpu/builder.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "gpu/compile_only.h"

namespace pyflame::gpu {
namespace {

constexpr size_t kGroupsTogether = 12;  // of pointwise nodes, in one program

// Compilers take down their own state when the process ends, and what they made at first use is
// taken down before what was registered earlier. What the main thread has for itself goes before
// all of that.
struct EndOfMain {
  void exists() {}
  ~EndOfMain() {
    if (gettid() == getpid()) Builder::stop_all();
  }
};
thread_local EndOfMain t_end;

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

void make_module(const Device& device, const Recipe& recipe, Module& m) {
  try {
    m.handle = device.load(make_code(device.traits, {&recipe}));
    m.state.store(Module::kLoaded, std::memory_order_release);
  } catch (const std::exception& e) {
    m.fail(e);
  }
}

Builder& Builder::get() {
  static auto* b = new Builder;
  return *b;
}

void Builder::stop_all() {
  get().stop();
}
void Builder::stop_in_time() {
  t_end.exists();
}

int Builder::most_threads() {
  static const int n = [] {
    if (launch_blocking()) return 0;
    if (const char* v = std::getenv("PYFLAME_COMPILE_THREADS"); v && *v)
      return std::clamp(std::atoi(v), 0, 64);
    if (!compile_only().empty()) return std::clamp(cores(), 1, 64);
    return std::clamp(cores(), 1, PF_RT(2, 8));  // hipRTC compiles one program at a time
  }();
  return n;
}

bool Builder::begin() {
  if (stopping_) return false;
  if (process_ == 0) {
    process_ = getpid();
    std::atexit(&Builder::stop_all);
  }
  return true;
}
void Builder::call(std::unique_lock<std::mutex>& lock) {
  if (jobs_.size() + chores_.size() > static_cast<size_t>(idle_) &&
      static_cast<int>(threads_.size()) < most_threads())
    threads_.emplace_back([this] { work(); });
  lock.unlock();
  more_.notify_one();
}

void Builder::add(const Device& device, Recipe recipe, Module& m) {
  stop_in_time();
  std::unique_lock lock(mutex_);
  if (!begin()) {
    lock.unlock();
    return m.fail(Failure(PF_COMPILE, "the process is ending"));
  }
  jobs_.push_back({&device, std::move(recipe), &m});
  call(lock);
}

void Builder::add(std::function<void()> chore) {
  if (most_threads() == 0) return;
  stop_in_time();
  std::unique_lock lock(mutex_);
  if (!begin()) return;
  chores_.push_back(std::move(chore));
  call(lock);
}

void Builder::wait(const Module& m) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !m.building(); });
}

// The next job; with a group of pointwise nodes all others that wait, since a program costs its
// time whatever is in it (a little with NVRTC, nearly all with hipRTC). One thread at a time takes
// groups: meanwhile the next ones gather.
std::vector<Builder::Job> Builder::take() {
  std::vector<Job> taken;
  for (size_t i = 0; i < jobs_.size() && taken.size() < kGroupsTogether;) {
    const Recipe& r = jobs_[i].recipe;
    const bool fits = taken.empty()
                          ? !r.group || groups_ == 0
                          : r.group && taken[0].recipe.group && taken[0].device == jobs_[i].device;
    if (!fits) {
      ++i;
      continue;
    }
    taken.push_back(std::move(jobs_[i]));
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!taken[0].recipe.group) break;
  }
  return taken;
}

// False where they cannot be compiled together: then each is tried for itself, to see which.
bool Builder::make_together(const std::vector<Job>& jobs) {
  std::vector<const Recipe*> recipes;
  recipes.reserve(jobs.size());
  for (const Job& j : jobs) recipes.push_back(&j.recipe);
  const Device& d = *jobs[0].device;
  try {
    hipModule handle = d.load(make_code(d.traits, recipes));
    for (const Job& j : jobs) {
      j.module->handle = handle;
      j.module->state.store(Module::kLoaded, std::memory_order_release);
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void Builder::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!chores_.empty()) {
      const std::function<void()> chore = std::move(chores_.front());
      chores_.pop_front();
      lock.unlock();
      chore();
      lock.lock();
      continue;
    }
    std::vector<Job> jobs = take();
    if (jobs.empty()) {
      if (stopping_) return;
      ++idle_;
      more_.wait(lock);
      --idle_;
      continue;
    }
    const bool groups = jobs[0].recipe.group;
    groups_ += groups;
    lock.unlock();
    if (jobs.size() == 1 || !make_together(jobs))
      for (const Job& j : jobs) make_module(*j.device, j.recipe, *j.module);
    lock.lock();
    groups_ -= groups;
    done_.notify_all();
    // For programs whose main thread never came here.
    std::atexit(&Builder::stop_all);
  }
}

// At the end of the process: what runs is waited for, the rest given up, so that no compiler works
// while its library is taken down. A forked child has no such threads.
void Builder::stop() {
  if (getpid() != process_) return;
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Job& j : jobs_) j.module->fail(Failure(PF_COMPILE, "the process is ending"));
    jobs_.clear();
    chores_.clear();
    threads.swap(threads_);
  }
  more_.notify_all();
  done_.notify_all();
  for (std::thread& t : threads) t.join();
}

}  // namespace pyflame::gpu
