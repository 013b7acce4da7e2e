// Whether memory is left, asked before code that ends the process when there is none: a library's
// generated code, libgomp's threads, glibc's list of what a thread destroys at its end.
#pragma once

#include <cstddef>
#include <mutex>

#include "core/lock.h"

namespace pyflame {

// Whether so much can be had now; always where nothing limits the process (core/limits.h). Under a
// limit others who ask wait while it lives: asking alone takes the room for a moment, from who has
// just been told that it is there. So no thread has two. Costs a tenth of a microsecond without a
// limit, two with one.
class Room {
 public:
  explicit Room(size_t bytes);
  explicit operator bool() const { return found_; }

 private:
  std::unique_lock<Mutex> turn_;
  bool found_;
};
inline bool has_room(size_t bytes) {
  return static_cast<bool>(Room(bytes));
}

// Makes a thread-local object with a destructor when a thread starts, in place of when it is first
// used:  [[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_object); });
class AtThreadStart {
 public:
  explicit AtThreadStart(void (*make)());
  static void touch(const volatile void*) {}
  AtThreadStart(const AtThreadStart&) = delete;
  AtThreadStart& operator=(const AtThreadStart&) = delete;

 private:
  friend void start_thread();
  void (*make_)();
  AtThreadStart* next_;
};
// Makes them all, once in each thread; std::bad_alloc where memory might not suffice.
void start_thread();

}  // namespace pyflame
