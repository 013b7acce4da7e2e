// The test backend: a device as unlike the CPU as a CPU can be. Its memory cannot be read by the
// host, fresh memory is poisoned, guards around every block are checked, work runs on a thread of
// its own after random delays, and failures arrive late. The whole test suite runs on it, so that
// the core does not come to rely on what only a CPU does.
#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/backend_call.h"
#include "core/backends.h"
#include "cpu/kernel.h"
#include "cpu/machine.h"
#include "cpu/tape.h"

namespace pyflame::paranoid {
namespace {

using backend::Faults;

constexpr size_t kArena = size_t{8} << 30;  // address space, not memory
constexpr size_t kGuard = 256;
constexpr unsigned char kGuardByte = 0xA5;
constexpr unsigned char kPoison = 0xFF;  // NaN in every float dtype, -1 in every signed one

// Two mappings of the same layout: one that nobody can touch, whose addresses are handed out, and
// one that the worker uses.
class Arena {
 public:
  Arena() {
    device_ = static_cast<char*>(
        mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    host_ = static_cast<char*>(mmap(nullptr, kArena, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (device_ != MAP_FAILED && host_ != MAP_FAILED) free_[0] = kArena;
  }

  void* host(const void* device) const {
    return device ? host_ + (static_cast<const char*>(device) - device_) : nullptr;
  }

  void* take(size_t bytes) {
    size_t need = (bytes + 63) / 64 * 64 + 2 * kGuard;
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < need) continue;
      size_t at = it->first, left = it->second - need;
      free_.erase(it);
      if (left) free_[at + need] = left;
      return device_ + at + kGuard;
    }
    return nullptr;
  }

  void prepare(void* device, size_t bytes) {
    char* p = static_cast<char*>(host(device));
    std::memset(p - kGuard, kGuardByte, kGuard);
    std::memset(p, kPoison, bytes);
    std::memset(p + bytes, kGuardByte, kGuard);
  }

  bool guards_whole(void* device, size_t bytes) const {
    const unsigned char* p = static_cast<const unsigned char*>(host(device));
    for (size_t i = 0; i < kGuard; ++i)
      if (p[i - kGuard] != kGuardByte || p[bytes + i] != kGuardByte) return false;
    return true;
  }

  void give(void* device, size_t bytes) {
    size_t at = static_cast<size_t>(static_cast<char*>(device) - device_) - kGuard;
    size_t size = (bytes + 63) / 64 * 64 + 2 * kGuard;
    if (size >= (size_t{1} << 20)) madvise(host_ + at, size / 4096 * 4096, MADV_DONTNEED);
    std::lock_guard lock(mutex_);
    auto next = free_.emplace(at, size).first;
    auto after = std::next(next);
    if (after != free_.end() && at + size == after->first) {
      next->second += after->second;
      free_.erase(after);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == next->first) {
        before->second += next->second;
        free_.erase(next);
      }
    }
  }

 private:
  char* device_;
  char* host_;
  std::mutex mutex_;
  std::map<size_t, size_t> free_;
};

// One stream: a thread that runs what it is given, in order, some time later.
class Stream {
 public:
  explicit Stream(unsigned number) {
    const char* seed = std::getenv("PYFLAME_PARANOID_SEED");
    random_.seed((seed ? static_cast<unsigned>(std::atoi(seed)) : 1u) + number);
    const char* delay = std::getenv("PYFLAME_PARANOID_DELAY_US");
    max_delay_us_ = delay ? std::atoi(delay) : 20;
    worker_ = std::thread([this] { work(); });
  }
  // Finishes what is queued; later pushes are dropped (tensors in static storage die late).
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (worker_.joinable()) worker_.join();
  }

  // False once it has been stopped.
  bool push(std::function<pf_status()> job) {
    {
      std::lock_guard lock(mutex_);
      if (stop_) return false;
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
    return true;
  }

  bool idle() {
    std::lock_guard lock(mutex_);
    return jobs_.empty() && !busy_;
  }
  // Waits for everything, and leaves what failed to others.
  void settle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return jobs_.empty() && !busy_; });
  }
  // Waits for everything; hands out the first failure since the last call.
  pf_status drain(pf_index_error* error) {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return jobs_.empty() && !busy_; });
    if (error) *error = std::exchange(index_error, pf_index_error{});
    pf_status s = std::exchange(failed_, PF_OK);
    if (s != PF_OK) backend::set_last_error(text_.c_str());
    return s;
  }

  pf_index_error index_error{};  // written by jobs

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      int delay = max_delay_us_ > 0 && random_() % 8 == 0
                      ? static_cast<int>(random_() % static_cast<unsigned>(max_delay_us_))
                      : 0;
      lock.unlock();
      if (delay) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      pf_status s = job();
      job = nullptr;
      lock.lock();
      busy_ = false;
      if (s != PF_OK && failed_ == PF_OK) {
        failed_ = s;
        text_ = backend::last_error();
      }
      if (jobs_.empty()) idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<pf_status()>> jobs_;
  std::thread worker_;
  std::mt19937 random_;
  int max_delay_us_;
  bool busy_ = false, stop_ = false;
  pf_status failed_ = PF_OK;
  std::string text_;
};

// A moment in a stream's work.
struct Moment {
  std::mutex mutex;
  std::condition_variable happened;
  bool done = false;
  std::chrono::steady_clock::time_point at;

  void set() {
    {
      std::lock_guard lock(mutex);
      done = true;
      at = std::chrono::steady_clock::now();
    }
    happened.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    happened.wait(lock, [&] { return done; });
  }
  bool is_done() {
    std::lock_guard lock(mutex);
    return done;
  }
};
std::shared_ptr<Moment> mark(Stream& s) {
  auto m = std::make_shared<Moment>();
  if (!s.push([m] { return m->set(), PF_OK; })) m->set();
  return m;
}

struct Paranoid {
  Arena arena;
  Faults faults;
  std::mutex mutex;
  std::vector<std::unique_ptr<Stream>> others;
  Stream stream{0};  // last: its thread uses the rest

  Stream& of(pf_stream s) { return s ? *static_cast<Stream*>(s) : stream; }
  std::vector<Stream*> all() {
    std::lock_guard lock(mutex);
    std::vector<Stream*> r{&stream};
    for (auto& s : others) r.push_back(s.get());
    return r;
  }
};
Paranoid& state() {
  static Paranoid& p = *new Paranoid;
  static struct Stopper {
    ~Stopper() {
      for (Stream* s : p.all()) s->settle();
      for (Stream* s : p.all()) s->stop();
    }
  } stopper;
  return p;
}

pf_status allocate(pf_device, size_t bytes, void** out) {
  Paranoid& p = state();
  if (pf_status s = p.faults.check(Faults::kAllocate)) return s;
  void* block = p.arena.take(bytes);
  if (!block) return PF_OOM;
  p.arena.prepare(block, bytes);  // nobody has it: any stream may be the first to use it
  *out = block;
  return PF_OK;
}

void release(pf_device, void* block, size_t bytes) {
  Paranoid& p = state();
  std::vector<std::shared_ptr<Moment>> given;
  for (Stream* s : p.all())
    if (s != &p.stream && !s->idle()) given.push_back(mark(*s));
  p.stream.push([&p, block, bytes, given = std::move(given)] {
    for (auto& m : given) m->wait();
    bool whole = p.arena.guards_whole(block, bytes);
    if (!whole) backend::set_last_error("a kernel wrote outside of a tensor's memory");
    p.arena.give(block, bytes);
    return whole ? PF_OK : PF_LAUNCH;
  });
}

pf_status copy_to_host(pf_device, pf_stream stream, void* to, const void* from, size_t bytes) {
  Paranoid& p = state();
  if (pf_status s = p.faults.check(Faults::kCopy)) return s;
  if (!bytes) return PF_OK;
  pf_status before = p.of(stream).drain(nullptr);
  std::memcpy(to, p.arena.host(from), bytes);
  return before;
}

pf_status copy_from_host(pf_device, pf_stream stream, void* to, const void* from, size_t bytes) {
  Paranoid& p = state();
  if (pf_status s = p.faults.check(Faults::kCopy)) return s;
  if (!bytes) return PF_OK;
  const char* c = static_cast<const char*>(from);
  p.of(stream).push([&p, to, data = std::vector<char>(c, c + bytes)] {
    std::memcpy(p.arena.host(to), data.data(), data.size());
    return PF_OK;
  });
  return PF_OK;
}

// Reads its source when the stream comes there, as a device does.
pf_status copy_async(pf_device, pf_stream stream, void* to, const void* from, size_t bytes,
                     pf_copy kind) {
  Paranoid& p = state();
  if (pf_status s = p.faults.check(Faults::kCopy)) return s;
  if (!bytes) return PF_OK;
  if (kind != PF_COPY_TO_HOST) to = p.arena.host(to);
  if (kind != PF_COPY_FROM_HOST) from = p.arena.host(from);
  p.of(stream).push([to, from, bytes] { return std::memcpy(to, from, bytes), PF_OK; });
  return PF_OK;
}

pf_status create(pf_device, const pf_program* program, void** kernel) {
  if (pf_status s = state().faults.check(Faults::kProgramCreate)) return s;
  pf_status status = PF_OK;
  pf_status thrown = backend::guard([&] { status = cpu::program_create(program, kernel); });
  return thrown ? thrown : status;
}

// A launch with everything that it points to.
struct OwnedLaunch {
  pf_launch launch;
  std::vector<int64_t> numbers;
  std::vector<pf_operand> operands;
  std::vector<pf_scalar> scalars;

  OwnedLaunch(const pf_launch& l, uint32_t ninputs, uint32_t noutputs, uint32_t nscalars,
              const Arena& arena)
      : launch(l) {
    size_t nd = static_cast<size_t>(l.ndim);
    numbers.reserve(nd * (1 + ninputs + noutputs));
    numbers.assign(l.shape, l.shape + nd);
    operands.reserve(ninputs + noutputs);
    auto take = [&](const pf_operand& o) {
      const int64_t* at = numbers.data() + numbers.size();
      numbers.insert(numbers.end(), o.strides, o.strides + nd);
      operands.push_back({arena.host(o.data), at, o.contiguous});
    };
    for (uint32_t i = 0; i < ninputs; ++i) take(l.inputs[i]);
    for (uint32_t i = 0; i < noutputs; ++i) take(l.outputs[i]);
    scalars.assign(l.scalars, l.scalars + nscalars);
    launch.shape = numbers.data();
    launch.inputs = operands.data();
    launch.outputs = operands.data() + ninputs;
    launch.scalars = scalars.data();
  }
};

// Kernels of this backend know their operand counts: a launch does not repeat them.
struct ProgramKernel {
  void* kernel = nullptr;
  uint32_t ninputs = 0, noutputs = 0, nscalars = 0;

  ProgramKernel() = default;
  ProgramKernel(const ProgramKernel&) = delete;
  ProgramKernel& operator=(const ProgramKernel&) = delete;
  ~ProgramKernel() {
    if (kernel) cpu::program_destroy(kernel);
  }
};
using SharedKernel = std::shared_ptr<ProgramKernel>;  // a queued launch has a share

pf_status create_program(pf_device d, const pf_program* program, void** kernel) {
  auto k = std::make_shared<ProgramKernel>();
  if (pf_status s = create(d, program, &k->kernel)) return s;
  k->ninputs = program->ninputs;
  k->noutputs = program->noutputs;
  k->nscalars = program->nscalars;
  *kernel = new SharedKernel(std::move(k));
  return PF_OK;
}

pf_status launch(pf_device, pf_stream stream, void* kernel, const pf_launch* l) {
  Paranoid& p = state();
  if (pf_status s = p.faults.check(Faults::kProgramLaunch)) return s;
  const SharedKernel k = *static_cast<SharedKernel*>(kernel);
  auto owned = std::make_shared<OwnedLaunch>(*l, k->ninputs, k->noutputs, k->nscalars, p.arena);
  p.of(stream).push([k, owned] {
    return backend::guard([&] { cpu::program_launch(k->kernel, &owned->launch); });
  });
  return PF_OK;
}

pf_status launch_kernel(pf_device, pf_stream stream, void* kernel, const pf_tensor* tensors,
                        int32_t n, const pf_scalar* attrs, int32_t nattrs, pf_index_error* error) {
  Paranoid& p = state();
  if (pf_status s = p.faults.check(Faults::kKernelLaunch)) return s;
  std::vector<pf_tensor> list(tensors, tensors + n);
  for (pf_tensor& t : list) t.data = p.arena.host(t.data);
  Stream& on = p.of(stream);
  on.push([&on, kernel, list = std::move(list),
           numbers = std::vector<pf_scalar>(attrs, attrs + nattrs), found = *error]() mutable {
    cpu::KernelArgs args{list.data(), static_cast<int>(list.size()), numbers.data(),
                         static_cast<int>(numbers.size()), &found};
    pf_status status =
        backend::guard([&] { static_cast<const cpu::KernelEntry*>(kernel)->run(args); });
    if (found.set && !on.index_error.set) on.index_error = found;
    return status;
  });
  return PF_OK;
}

// Events: how much of a stream had been given when it was recorded.
struct Event {
  std::mutex mutex;
  std::shared_ptr<Moment> moment;  // null: never recorded, which counts as done
  std::shared_ptr<Moment> get() {
    std::lock_guard lock(mutex);
    return moment;
  }
};

pf_status event_record(pf_device, pf_event e, pf_stream s) {
  auto m = mark(state().of(s));
  auto* event = static_cast<Event*>(e);
  std::lock_guard lock(event->mutex);
  event->moment = std::move(m);
  return PF_OK;
}
pf_status event_wait(pf_device, pf_stream s, pf_event e) {
  if (auto m = static_cast<Event*>(e)->get()) state().of(s).push([m] { return m->wait(), PF_OK; });
  return PF_OK;
}
pf_status event_query(pf_device, pf_event e, int32_t* done) {
  auto m = static_cast<Event*>(e)->get();
  return *done = !m || m->is_done(), PF_OK;
}
pf_status event_synchronize(pf_device, pf_event e) {
  if (auto m = static_cast<Event*>(e)->get()) m->wait();
  return PF_OK;
}
pf_status event_elapsed(pf_device, pf_event from, pf_event to, float* ms) {
  auto a = static_cast<Event*>(from)->get(), b = static_cast<Event*>(to)->get();
  if (!a || !b || !a->is_done() || !b->is_done()) return PF_INVALID;
  *ms = std::chrono::duration<float, std::milli>(b->at - a->at).count();
  return PF_OK;
}

pf_status stream_create(pf_device, int32_t, pf_stream* out) {
  Paranoid& p = state();
  std::lock_guard lock(p.mutex);
  p.others.push_back(std::make_unique<Stream>(static_cast<unsigned>(p.others.size()) + 1));
  *out = p.others.back().get();
  return PF_OK;
}

}  // namespace
}  // namespace pyflame::paranoid

extern "C" const pf_backend* pyflame_paranoid_backend(void) {
  namespace paranoid = pyflame::paranoid;
  using paranoid::Event;
  using paranoid::state;
  static const pf_backend backend = [] {
    pf_backend b{};
    b.size = sizeof(pf_backend);
    b.version = PF_BACKEND_VERSION;
    b.name = "paranoid";
    b.device_count = [] { return int32_t{1}; };
    b.device_info = [](pf_device, char* text, size_t n) {
      return pyflame::cpu::describe_cpu("paranoid", text, n);
    };
    b.memory_info = [](pf_device, pf_memory_info* i) {
      *i = {paranoid::kArena / 2, paranoid::kArena / 2};
      return PF_OK;
    };
    b.allocate = paranoid::allocate;
    b.release = paranoid::release;
    b.copy_to_host = paranoid::copy_to_host;
    b.copy_from_host = paranoid::copy_from_host;
    b.synchronize = [](pf_device, pf_stream s, pf_index_error* e) {
      return state().of(s).drain(e);
    };
    b.event_create =
        b.event_create_timed = [](pf_device, pf_event* e) { return *e = new Event, PF_OK; };
    b.event_record = paranoid::event_record;
    b.event_wait = paranoid::event_wait;
    b.event_query = paranoid::event_query;
    b.event_synchronize = paranoid::event_synchronize;
    b.event_elapsed = paranoid::event_elapsed;
    b.event_destroy = [](pf_device, pf_event e) { delete static_cast<Event*>(e); };
    b.stream_create = paranoid::stream_create;
    b.stream_query = [](pf_device, pf_stream s, int32_t* done) {
      return *done = state().of(s).idle(), PF_OK;
    };
    b.pinned_allocate = [](pf_device, size_t bytes, void** out) {
      *out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
      return *out ? PF_OK : PF_OOM;
    };
    b.pinned_release = [](pf_device, void* p) { std::free(p); };
    b.copy_async = paranoid::copy_async;
    b.program_create = paranoid::create_program;
    b.program_destroy = [](pf_device, void* k) { delete static_cast<paranoid::SharedKernel*>(k); };
    b.program_launch = paranoid::launch;
    b.kernel_find = [](const char* name) -> void* {
      return const_cast<pyflame::cpu::KernelEntry*>(pyflame::cpu::find_kernel(name));
    };
    b.kernel_launch = paranoid::launch_kernel;
    b.last_error = pyflame::backend::last_error;
    b.inject_fault = [](const char* call, int64_t nth, pf_status s) {
      return state().faults.inject(call, nth, s);
    };
    return b;
  }();
  return &backend;
}
