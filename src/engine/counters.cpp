#include "engine/counters.h"

#include <iterator>

namespace pyflame::engine {
namespace {

struct Named {
  const char* name;
  std::atomic<int64_t> Counters::*counter;
};
constexpr Named kNamed[] = {
    {"nodes", &Counters::nodes},
    {"groups", &Counters::groups},
    {"programs", &Counters::programs},
    {"kernels", &Counters::kernels},
    {"joined", &Counters::joined},
    {"merged", &Counters::merged},
    {"programs_made", &Counters::programs_made},
    {"programs_found", &Counters::programs_found},
    {"donated", &Counters::donated},
    {"copies_to_host", &Counters::copies_to_host},
    {"copies_from_host", &Counters::copies_from_host},
    {"moved", &Counters::moved},
    {"moved_bytes", &Counters::moved_bytes},
    {"slow", &Counters::slow},
};

}  // namespace

Counters& counters() {
  static Counters c;
  return c;
}

const char* flush_name(Flush f) {
  static constexpr const char* kNames[] = {
      "cannot_join",   "caps",         "alias_hazard", "dropped_root", "held_memory",
      "data",          "item",         "print",        "synchronize",  "explicit",
      "device_switch", "other_thread", "foreign",      "general",      "eager",
      "memory_stats",  "thread_exit",  "budget",       "event",        "stream_switch"};
  static_assert(std::size(kNames) == static_cast<size_t>(Flush::kCount));
  return kNames[static_cast<int>(f)];
}

std::vector<std::pair<std::string, int64_t>> stats() {
  Counters& c = counters();
  std::vector<std::pair<std::string, int64_t>> r;
  int64_t total = 0;
  for (int i = 0; i < static_cast<int>(Flush::kCount); ++i) {
    r.emplace_back(std::string("flush.") + flush_name(static_cast<Flush>(i)), c.flushes[i].load());
    total += c.flushes[i].load();
  }
  r.emplace_back("flushes", total);
  for (const Named& n : kNamed) r.emplace_back(n.name, (c.*n.counter).load());
  return r;
}

void reset_stats() {
  Counters& c = counters();
  for (auto& f : c.flushes) f.store(0);
  for (const Named& n : kNamed) (c.*n.counter).store(0);
}

}  // namespace pyflame::engine
