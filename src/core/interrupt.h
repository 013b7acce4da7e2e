// Ctrl-C while the CPU computes for long. Python's handler only notes the signal, and raises when
// the interpreter goes on: behind a sum over 2^34 elements that is minutes later. So a kernel whose
// results nobody has yet may be given up: it throws Interrupted, its results count as never
// computed.
//
// The thread that called asks, no other; threads that help it look whether it has given up. Between
// a caller's own tensors nothing is given up: a weight would be half updated.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace pyflame {

// No std::exception: whoever takes another way where a library fails is not to take it here.
class Interrupted {
 public:
  static constexpr const char* kText =
      "pf: the values were never computed, as their operation was interrupted; compute them again";
  // The first that is told of it gets the interrupt itself, who reads the results later an error.
  // Under the GIL.
  bool first() const {
    const bool before = told_;
    told_ = true;
    return !before;
  }

 private:
  mutable bool told_ = false;
};

namespace detail {
extern constinit thread_local int64_t t_next_question;  // of the clock, in nanoseconds
inline constexpr int64_t kNever = INT64_MAX;
void ask(int64_t time);
}  // namespace detail

// While it lives, kernels that this thread runs may be given up; they work over about so many
// elements.
class MayStop {
 public:
  MayStop(bool may, int64_t elements);
  ~MayStop();
  MayStop(const MayStop&) = delete;
  MayStop& operator=(const MayStop&) = delete;

 private:
  bool may_;
};
// While it lives, this thread calls kernels over nothing but what one operation has made itself, so
// that they may be given up though they write over values: copies of its operands.
class OwnCopies {
 public:
  OwnCopies();
  ~OwnCopies();
  OwnCopies(const OwnCopies&) = delete;
  OwnCopies& operator=(const OwnCopies&) = delete;
  static bool here();

 private:
  bool before_;
};
// MayStop for a thread that computes a share for another one: it stops where that one has set
// `given_up`. Null: nothing.
class HelpMayStop {
 public:
  explicit HelpMayStop(const std::atomic<bool>* given_up);
  ~HelpMayStop();
  HelpMayStop(const HelpMayStop&) = delete;
  HelpMayStop& operator=(const HelpMayStop&) = delete;

 private:
  bool may_;
};
inline bool may_stop() {
  return detail::t_next_question != detail::kNever;
}
// At a time of CLOCK_MONOTONIC. Throws Interrupted.
inline void stop_if_asked(int64_t time) {
  if (time >= detail::t_next_question) [[unlikely]]
    detail::ask(time);
}
void stop_if_asked();  // now; reads the clock where it may stop at all

// fn(begin, end) over pieces of [0, n), in their order, and between them a chance to stop: what one
// thread alone may be at for long.
template <class F>
void in_pieces(int64_t n, F&& fn) {
  constexpr int64_t kPiece = 65536;
  for (int64_t at = 0; at < n; at += kPiece) {
    if (at > 0) stop_if_asked();
    fn(at, std::min<int64_t>(n, at + kPiece));
  }
}

// What a backend's entry point has turned into a status: noted by it, taken by who reads the
// status.
void note_interrupted();
bool take_interrupted();

}  // namespace pyflame
