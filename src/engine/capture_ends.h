// Captures that have not been planned, which want to know when a storage ends.
#pragma once

#include <vector>

#include "core/lock.h"

namespace pyflame::engine {

class Capture;

struct Ends {
  Mutex mutex;  // of their slots, too, which storages of all threads come to; nothing is locked
                // within
  std::vector<Capture*> captures;
};
Ends& ends();

}  // namespace pyflame::engine
