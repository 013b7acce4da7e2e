// What the system lets this process have of memory, beside what the machine has.
#pragma once

#include <cstddef>
#include <string>

namespace pyflame {

// Whether memory is counted when it is mapped, so that a mapping can be refused: RLIMIT_AS,
// RLIMIT_DATA, strict overcommit. Asked anew each time, since a program may lower them.
bool mappings_are_counted();

// The tightest memory limit of this process's cgroup and of those around it (v1 or v2). What files
// have in memory that can be dropped is not among `used`.
struct CgroupMemory {
  size_t limit = 0;  // 0: none
  size_t used = 0;
  size_t left() const { return limit > used ? limit - used : 0; }
};
CgroupMemory cgroup_memory();
// The same of another process's list of groups, below another folder: for tests.
CgroupMemory cgroup_memory(const std::string& groups, const std::string& root);

// Those that are set, by names that users can look up; empty where none is.
std::string memory_limits();

}  // namespace pyflame
