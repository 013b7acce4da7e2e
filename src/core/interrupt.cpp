#include "core/interrupt.h"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <utility>

namespace pyflame {
namespace {

constexpr int64_t kEvery = 20'000'000;             // nanoseconds
constexpr int64_t kSurelyLong = int64_t{1} << 24;  // elements, which take milliseconds

thread_local bool t_noted = false;
thread_local bool t_own_copies = false;
thread_local const std::atomic<bool>* t_given_up = nullptr;  // by whom this thread helps

// One at a time: of the thread that hears signals.
std::atomic<bool> g_asked{false};
bool g_installed = false;
struct sigaction g_before;

int64_t clock_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// In front of the handler that there was, which has its turn.
void on_interrupt(int number, siginfo_t* info, void* context) {
  g_asked.store(true, std::memory_order_relaxed);
  if (g_before.sa_flags & SA_SIGINFO)
    g_before.sa_sigaction(number, info, context);
  else
    g_before.sa_handler(number);
}

void install() {
  if (g_installed || sigaction(SIGINT, nullptr, &g_before) != 0) return;
  if (!(g_before.sa_flags & SA_SIGINFO) &&
      (g_before.sa_handler == SIG_DFL || g_before.sa_handler == SIG_IGN))
    return;
  g_asked.store(false, std::memory_order_relaxed);
  struct sigaction ours = g_before;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = &on_interrupt;
  g_installed = sigaction(SIGINT, &ours, nullptr) == 0;
}
void uninstall() {
  if (std::exchange(g_installed, false)) sigaction(SIGINT, &g_before, nullptr);
}

}  // namespace

namespace detail {

constinit thread_local int64_t t_next_question = kNever;

void ask(int64_t time) {
  t_next_question = time + kEvery;
  if (t_given_up) {
    if (!t_given_up->load(std::memory_order_relaxed)) return;
    t_next_question = kNever;
    throw Interrupted();
  }
  install();
  if (!g_asked.load(std::memory_order_relaxed) || !g_installed) return;
  t_next_question = kNever;  // what is unwound is not asked again
  throw Interrupted();
}

}  // namespace detail

MayStop::MayStop(bool may, int64_t elements) : may_(may && !may_stop()) {
  if (!may_) return;
  if (elements >= kSurelyLong) install();
  detail::t_next_question = clock_now() + kEvery / 2;
}
MayStop::~MayStop() {
  if (!may_) return;
  detail::t_next_question = detail::kNever;
  uninstall();
}

OwnCopies::OwnCopies() : before_(std::exchange(t_own_copies, true)) {}
OwnCopies::~OwnCopies() {
  t_own_copies = before_;
}
bool OwnCopies::here() {
  return t_own_copies;
}

HelpMayStop::HelpMayStop(const std::atomic<bool>* given_up) : may_(given_up && !may_stop()) {
  if (!may_) return;
  t_given_up = given_up;
  detail::t_next_question = clock_now() + kEvery;
}
HelpMayStop::~HelpMayStop() {
  if (!may_) return;
  detail::t_next_question = detail::kNever;
  t_given_up = nullptr;
}

void stop_if_asked() {
  if (may_stop()) [[unlikely]]
    stop_if_asked(clock_now());
}

void note_interrupted() {
  t_noted = true;
}
bool take_interrupted() {
  return std::exchange(t_noted, false);
}

}  // namespace pyflame
