// Whether memory is left, asked before code that ends the process when there is none: a library's
// generated code, libgomp's threads, glibc's list of what a thread destroys at its end.
#pragma once

#include <cstddef>

namespace pyflame {

// True where nothing limits the process (no RLIMIT_AS, no strict overcommit), and otherwise if so
// much can be mapped now. Costs a tenth of a microsecond in the first case, two in the other.
bool has_room(size_t bytes);

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
