// Who still has to read or write a storage before somebody else may touch it.
#pragma once

#include "engine/group.h"

namespace pyflame::engine {

// The value was never made. Who is told so here is not told again at the next flush.
[[noreturn]] void raise_poison(const Storage& s, Group& locked);
[[noreturn]] void raise_poison(const Storage& s);

// Before this thread's lock is taken: nobody else may still have to write what we read.
inline void settle_read(Storage& s, const Group* mine) {
  if (s.poisoned) [[unlikely]]
    raise_poison(s);
  Group* w = s.writer.load(std::memory_order_acquire);
  if (w && w != mine) [[unlikely]] {
    flush_other(w, Flush::OtherThread);
    if (s.poisoned) raise_poison(s);
  }
}

// And nobody else may still have to read what we overwrite.
void settle_write(Storage& s, const Group* mine, const char* op);

inline void mark_reader(Storage& s, Group& g) {
  Group* r = s.reader.load(std::memory_order_relaxed);
  // Other threads may be recording reads of it at this moment: none may get lost.
  while (r != &g && r != many_readers() &&
         !s.reader.compare_exchange_weak(r, r ? many_readers() : &g, std::memory_order_acq_rel)) {
  }
}

// Whether the group writes it, in this part where one is given.
inline bool writes(const Group& g, const Storage& s) {
  return s.writer.load(std::memory_order_relaxed) == &g;
}
inline bool writes(const Group& g, const Storage& s, Part part) {
  return writes(g, s) && part_of(s.writer_node) == part;
}

}  // namespace pyflame::engine
