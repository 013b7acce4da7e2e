// The thread pool. One application thread owns it: a second master would make libgomp throttle the
// spinning of both (regions become 50 times slower), so every other thread runs its loops alone,
// until the owner has ended or not used the pool for a second. After fork the child has no workers
// left and runs alone too.
#include "cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#ifdef PYFLAME_OPENMP
#include <omp.h>
#else
#include <condition_variable>
#include <thread>
#endif

#include "core/backends.h"
#include "core/interrupt.h"
#include "core/room.h"
#include "cpu/stack.h"
#include "pyflame/device.h"
#include "pyflame/error.h"

namespace pyflame::cpu {

bool stack_is_small() {
  constexpr size_t kSmall = size_t{512} << 10;
  thread_local signed char small = -1;
  if (small < 0) {
    pthread_attr_t attr;
    size_t size = SIZE_MAX;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
      pthread_attr_getstacksize(&attr, &size);
      pthread_attr_destroy(&attr);
    }
    small = size < kSmall;
  }
  return small != 0;
}

namespace {

// ---- how many --------------------------------------------------------------------------------

// Lowest CPU number of a list such as "3,35" or "0-1" that is in `set`.
int first_sibling(const char* list, const cpu_set_t& set) {
  while (*list) {
    char* end;
    long a = std::strtol(list, &end, 10), b = a;
    if (end == list) break;
    if (*end == '-') b = std::strtol(end + 1, &end, 10);
    for (long c = a; c <= b && c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) return static_cast<int>(c);
    list = *end == ',' ? end + 1 : end;
    if (*list == '\n') break;
  }
  return -1;
}

// Cores of the affinity mask; hardware threads of one core count once, as they share its units.
int cores_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int cores = 0;
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (!CPU_ISSET(c, &set)) continue;
    char path[96], text[256] = "";
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                  c);
    if (FILE* f = std::fopen(path, "r")) {
      if (!std::fgets(text, sizeof text, f)) text[0] = 0;
      std::fclose(f);
    }
    int first = first_sibling(text, set);
    if (first < 0 || first == c) ++cores;
  }
  return std::max(cores, 1);
}

double read_quota(const std::string& dir, bool v2) {
  if (v2) {
    std::ifstream f(dir + "/cpu.max");
    std::string quota;
    double period = 0;
    if (f >> quota >> period && quota != "max" && period > 0)
      return std::atof(quota.c_str()) / period;
    return 0;
  }
  double quota = -1, period = 0;
  std::ifstream q(dir + "/cpu.cfs_quota_us"), p(dir + "/cpu.cfs_period_us");
  if (q >> quota && p >> period && quota > 0 && period > 0) return quota / period;
  return 0;
}

// The tightest CPU quota of this process' cgroup and its parents; 0 when there is none.
double cgroup_quota() {
  double best = 0;
  std::ifstream f("/proc/self/cgroup");
  for (std::string line; std::getline(f, line);) {
    size_t a = line.find(':'), b = a == std::string::npos ? a : line.find(':', a + 1);
    if (b == std::string::npos) continue;
    std::string controllers(",");
    controllers.append(line, a + 1, b - a - 1).push_back(',');
    bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    std::string path = line.substr(b + 1);
    for (;;) {
      double quota = read_quota(root + (path == "/" ? "" : path), v2);
      if (quota > 0 && (best == 0 || quota < best)) best = quota;
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
    }
  }
  return best;
}

// What an environment variable asks for; 0 for nothing. OMP_NUM_THREADS may be a list, by level.
int asked_for(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return 0;
  char* end;
  errno = 0;
  const long n = std::strtol(text, &end, 10);
  if (end == text || (*end && *end != ',') || n < 1) {
    notice((std::string(name) + "='" + text + "' is ignored: expected a number of threads from 1")
               .c_str());
    return 0;
  }
  if (errno == ERANGE || n > kMostThreads) {
    notice((std::string(name) + "='" + text + "' is taken as " + std::to_string(kMostThreads) +
            ", the most threads of one operation")
               .c_str());
    return kMostThreads;
  }
  return static_cast<int>(n);
}

int default_threads() {
  for (const char* name : {"PYFLAME_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const int n = asked_for(name)) return n;
  int n = cores_by_affinity();
  if (double quota = cgroup_quota(); quota > 0)
    n = std::min(n, std::max(1, static_cast<int>(quota + 0.5)));
  return std::min(n, kMostThreads);
}

std::atomic<int> g_threads{0};  // 0: not asked yet
std::atomic<bool> g_forked{false};

int configured() {
  int n = g_threads.load(std::memory_order_relaxed);
  if (n == 0) {
    int fresh = default_threads();
    n = g_threads.compare_exchange_strong(n, fresh) ? fresh : g_threads.load();
  }
  return n;
}

// ---- who -------------------------------------------------------------------------------------

struct Mark;
std::atomic<const Mark*> g_owner{nullptr};

// What regions have been costing lately, against what they would have taken one thread: who waits
// for a thread that another process keeps from running may wait for milliseconds. While they cost
// more than they save there are none, but for one now and then that asks whether it is still so.
class Account {
 public:
  bool pays(int64_t time) const { return time >= rest_until_; }
  // A region from `begin` to `end`, which one thread would have taken `alone`; in nanoseconds. Who
  // has rested asks for two milliseconds before it rests longer, when the threads that slept are
  // awake and have a core each: a thread may be woken on the core of the one that wakes it, which
  // goes on waiting for it until the system moves one of them, at a tick of its clock (4 ms).
  // Otherwise a hiccup decides nothing.
  void note(int64_t begin, int64_t end, double alone) {
    constexpr double kJudges = 20e6, kAsks = 2e6, kWorth = 0.9;
    constexpr int64_t kShortest = 20'000'000, kLongest = 500'000'000, kWakes = 6'000'000;
    if (rest_ > 0 && awake_ < rest_until_) awake_ = end + kWakes, asked_ = begin;
    if (begin < awake_) return;
    took_ += static_cast<double>(end - begin);
    alone_ += alone;
    const bool asks = rest_ > 0, bad = took_ > kWorth * alone_;
    if (bad && took_ > (asks ? kAsks : kJudges)) {
      rest_ = std::clamp(2 * rest_, kShortest, kLongest);
      // Asking again costs as much as this has: a tenth of the time at most.
      if (asks) rest_ = std::max(rest_, 10 * (end - asked_));
      rest_until_ = end + rest_;
      took_ = alone_ = 0;
    } else if (took_ > kJudges) {
      rest_ = 0;
      took_ /= 2;
      alone_ /= 2;
    }
  }

 private:
  double took_ = 0, alone_ = 0;  // of late
  int64_t rest_ = 0, rest_until_ = 0, awake_ = 0, asked_ = 0;
};

// One per thread; its address names the thread, its end gives the pool back.
struct Mark {
  bool inside = false;  // running a range of some parallel_for
  Account account;
  ~Mark() {
    const Mark* me = this;
    g_owner.compare_exchange_strong(me, nullptr);
  }
};
thread_local Mark t_mark;
[[maybe_unused]] const AtThreadStart g_mark([] {
  AtThreadStart::touch(&t_mark);
#ifdef PYFLAME_OPENMP
  omp_set_num_threads(omp_get_max_threads());  // libgomp keeps what is set in memory of its own
#endif
});

[[maybe_unused]] const int g_atfork = pthread_atfork(nullptr, nullptr, [] { g_forked = true; });

constexpr int64_t kIdle = 1000;           // milliseconds
std::atomic<int64_t> g_last_use{-kIdle};  // of the pool
std::atomic<bool> g_busy{false};          // inside a region of the owner

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_now() {  // nanoseconds
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

bool may_own(const Mark& me) {
  const Mark* owner = g_owner.load(std::memory_order_acquire);
  return owner == nullptr || owner == &me ||
         (!g_busy.load(std::memory_order_relaxed) &&
          now() - g_last_use.load(std::memory_order_relaxed) >= kIdle);
}
bool take_pool(Mark& me) {
  const Mark* owner = g_owner.load(std::memory_order_acquire);
  if (owner != &me && (!may_own(me) || !g_owner.compare_exchange_strong(owner, &me))) return false;
  g_last_use.store(now(), std::memory_order_relaxed);
  return true;
}

// ---- running ---------------------------------------------------------------------------------

// A range in steps of some milliseconds, between which it may be given up: `on(now)` says whether
// to go on. `grain` of it take microseconds.
template <class On>
void in_steps(int64_t begin, int64_t end, int64_t grain, detail::RangeFn fn, void* context,
              int range, On on) {
  constexpr int64_t kStep = 5'000'000;  // nanoseconds
  int64_t before = clock_now();
  for (int64_t at = begin, width = 4 * std::max<int64_t>(grain, 1); at < end;) {
    const int64_t to = width < end - at ? at + width : end;
    fn(context, at, to, range);
    at = to;
    const int64_t after = clock_now(), took = after - before;
    if (!on(after)) return;
    before = after;
    if (took < kStep && width < INT64_MAX / 8)
      width *= 4;
    else if (took > 8 * kStep)
      width = std::max<int64_t>(width / 4, 1);
  }
}

struct Region {
  int64_t n;
  int parts;
  detail::RangeFn fn;
  void* context;
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  int64_t own_time = 0;   // nanoseconds of the calling thread for its parts
  int64_t own_units = 0;  // of n, which it has had; 0: all
  int64_t grain = 0;      // of steps; 0: each part as one

  void run(int part) noexcept {
    int64_t begin = n * part / parts, end = n * (part + 1) / parts;
    if (begin >= end) return;
    Mark& me = t_mark;
    bool before = me.inside;
    me.inside = true;
    const HelpMayStop helps(grain == 0 || part == 0 ? nullptr : &failed);
    try {
      if (grain == 0)
        fn(context, begin, end, part);
      else
        in_steps(begin, end, grain, fn, context, part, [this](int64_t time) {
          stop_if_asked(time);
          return !failed.load(std::memory_order_relaxed);
        });
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
    me.inside = before;
  }
};

#ifdef PYFLAME_OPENMP

// libgomp ends the process when it cannot make a thread. So it makes them here alone, when as many
// could just be made, and keeps them: every region has the same number, for libgomp ends the rest
// of a larger team. Parts beyond the threads that there are fall to those, others stay idle.
thread_local int t_team = 1;

// What libgomp gives its threads.
size_t stack_size() {
  pthread_attr_t attr;
  size_t bytes = size_t{8} << 20;
  if (pthread_attr_init(&attr) == 0) {
    pthread_attr_getstacksize(&attr, &bytes);
    pthread_attr_destroy(&attr);
  }
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"})
    if (const char* text = std::getenv(name)) {
      char* unit;
      const size_t n = std::strtoull(text, &unit, 10);
      while (*unit == ' ') ++unit;
      const int shift = *unit == 'B' || *unit == 'b'   ? 0
                        : *unit == 'M' || *unit == 'm' ? 20
                        : *unit == 'G' || *unit == 'g' ? 30
                                                       : 10;
      if (unit != text) bytes = std::max(bytes, n << shift);
    }
  return bytes;
}

// How many of n more threads the system has, all at once, with memory for each (glibc gives most an
// arena of 64 MB of addresses, which later threads take over); none when there is none beside.
int threads_to_be_had(int n) {
  constexpr size_t kOwn = size_t{64} << 10;
  const size_t beside = (size_t{1} << 20) + static_cast<size_t>(n) * kOwn;
  std::vector<pthread_t> made;
  pthread_attr_t attr;
  if (!has_room(beside) || pthread_attr_init(&attr) != 0) return 0;
  pthread_attr_setstacksize(&attr, stack_size());
  struct Probe {
    std::mutex gate;  // closed until all are there; fork: of this call alone
    std::atomic<int> begun{0}, failed{0};
  } probe;
  bool room;
  {
    std::lock_guard closed(probe.gate);
    try {
      made.reserve(static_cast<size_t>(n));
      for (pthread_t t; static_cast<int>(made.size()) < n; made.push_back(t))
        if (pthread_create(
                &t, &attr,
                [](void* context) -> void* {
                  Probe& p = *static_cast<Probe*>(context);
                  void* volatile own = std::malloc(kOwn);
                  if (!own) ++p.failed;
                  ++p.begun;
                  std::lock_guard wait(p.gate);
                  std::free(own);
                  return nullptr;
                },
                &probe) != 0)
          break;
    } catch (const std::bad_alloc&) {
    }
    while (probe.begun < static_cast<int>(made.size())) sched_yield();
    room = has_room(beside);
  }
  for (pthread_t t : made) pthread_join(t, nullptr);
  pthread_attr_destroy(&attr);
  return room && probe.failed == 0 ? static_cast<int>(made.size()) : 0;
}

}  // namespace

namespace {

// The threads of a region with so many parts, the calling one among them.
int team_for(int parts) {
  thread_local int64_t next_try = 0;  // milliseconds: not at every region while there are too few
  const int most = std::min(configured(), omp_get_thread_limit());
  if (t_team > most) t_team = most;
  if (parts <= t_team || t_team == most || now() < next_try) return t_team;
  const int want = 1 + threads_to_be_had(std::min(parts, most) - 1);
  if (want > t_team) {
    int got = 1;
    std::atomic<int> ready{0};
#pragma omp parallel num_threads(want)
    {
      if (omp_get_thread_num() == 0) got = omp_get_num_threads();
      try {
        start_thread();
        ++ready;
      } catch (const std::bad_alloc&) {
      }
    }
    t_team = ready == got ? got : 1;
  }
  if (t_team < std::min(parts, most)) next_try = now() + kIdle;
  return t_team;
}

void run_region(Region& r) {
  const int team = team_for(r.parts);
  if (team == 1) {
    for (int part = 0; part < r.parts; ++part) r.run(part);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const int step = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t begin = me == 0 ? clock_now() : 0;
    for (int part = me; part < r.parts; part += step) r.run(part);
    if (me == 0 && step > 1) {
      r.own_time = clock_now() - begin;
      for (int part = 0; part < r.parts; part += step)
        r.own_units += r.n * (part + 1) / r.parts - r.n * part / r.parts;
    }
  }
}

#else

// Workers wait for a region under a mutex: slower to wake than libgomp's, and visible to TSan.
class Pool {
 public:
  bool run(Region& r) {  // false while another thread is in it: it was idle, then came back
    std::unique_lock lock(mutex_);
    if (region_) return false;
    try {
      while (workers_ < r.parts - 1) {
        std::thread([this, id = workers_ + 1] { work(id); }).detach();
        ++workers_;
      }
    } catch (const std::exception&) {
      if (workers_ == 0) return false;  // no thread to be had
    }
    region_ = &r;
    step_ = left_ = std::min(workers_, r.parts - 1);
    ++step_;
    ++generation_;
    lock.unlock();
    start_.notify_all();
    take(r, 0);
    lock.lock();
    done_.wait(lock, [&] { return left_ == 0; });
    region_ = nullptr;
    return true;
  }

 private:
  void take(Region& r, int id) {
    for (int part = id; part < r.parts; part += step_) r.run(part);
  }
  void work(int id) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return region_ != nullptr && generation_ != seen; });
      seen = generation_;
      Region* r = region_;
      if (id >= step_) continue;
      lock.unlock();
      take(*r, id);
      lock.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }
  std::mutex mutex_;  // fork: a child has no pool
  std::condition_variable start_, done_;
  Region* region_ = nullptr;
  uint64_t generation_ = 0;
  int left_ = 0;  // workers that have not finished the region
  int step_ = 1;  // threads of the region
  int workers_ = 0;
};

void run_region(Region& r) {
  static Pool* pool = new Pool;  // never freed: its workers live until the process ends
  if (!pool->run(r))
    for (int part = 0; part < r.parts; ++part) r.run(part);
}

#endif

}  // namespace

namespace detail {

void parallel(int64_t n, int64_t grain, int most, RangeFn fn, void* context) {
  Mark& me = t_mark;
  const int parts = std::min(most_ranges(n, grain), most);
  if (parts <= 1 || !take_pool(me)) {
    if (may_stop())
      return in_steps(0, n, grain, fn, context, 0, [](int64_t time) {
        stop_if_asked(time);
        return true;
      });
    fn(context, 0, n, 0);
    return;
  }
  const int64_t begin = clock_now();
  stop_if_asked(begin);
  Region region{n, parts, fn, context, {}, {}, 0, 0, may_stop() ? grain : 0};
  if (!me.account.pays(begin)) {
    region.parts = 1;
    region.run(0);  // as in a region: what is nested runs alone
    if (region.failed) std::rethrow_exception(region.error);
    return;
  }
  g_busy.store(true, std::memory_order_relaxed);
  run_region(region);
  g_busy.store(false, std::memory_order_relaxed);
  g_last_use.store(now(), std::memory_order_relaxed);
  if (region.own_units > 0) {
    const int64_t end = clock_now();
    const double share = static_cast<double>(n) / static_cast<double>(region.own_units);
    me.account.note(begin, end, static_cast<double>(region.own_time) * share);
  }
  if (region.failed) std::rethrow_exception(region.error);
}

}  // namespace detail

int most_ranges(int64_t n, int64_t grain) {
  if (n <= grain) return 1;
  const int64_t most = std::min<int64_t>(num_threads(), n / std::max<int64_t>(grain, 1));
  return static_cast<int>(std::max<int64_t>(most, 1));
}

int num_threads() {
  Mark& me = t_mark;
  if (me.inside || g_forked.load(std::memory_order_relaxed) || !may_own(me)) return 1;
  return configured();
}

void set_num_threads(int n) {
  g_threads.store(std::max(n, 1), std::memory_order_relaxed);
}

LibraryAlone::LibraryAlone() {
#ifdef PYFLAME_OPENMP
  before_ = omp_get_max_threads();
  if (before_ != 1) omp_set_num_threads(1);
#endif
}
LibraryAlone::~LibraryAlone() {
#ifdef PYFLAME_OPENMP
  if (before_ != 1) omp_set_num_threads(before_);
#endif
}

}  // namespace pyflame::cpu

namespace pyflame {

void set_num_threads(int n) {
  PF_CHECK(n >= 1 && n <= cpu::kMostThreads, ValueError, "set_num_threads", "got ", n,
           "; expected 1 to ", cpu::kMostThreads,
           "; pass the number of CPU threads that one operation may use");
  cpu::set_num_threads(n);
}

int get_num_threads() {
  return cpu::configured();
}

}  // namespace pyflame
