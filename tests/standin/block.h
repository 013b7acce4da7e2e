// Runs the threads of one block of a kernel on the host.
#pragma once

#include <cstdint>
#include <string>

namespace standin {

// As shim.h of the same folder has them.
struct Block {
  unsigned thread, block, threads, blocks, lane;
  char* dynamic_shared;
  void (*barrier)();
  unsigned (*shuffle)(unsigned value, unsigned from);
  unsigned long long (*ballot)(bool);
  unsigned block_size[3], grid_size[3];
  void (*pause)();
  unsigned progress;
  unsigned waited, waited_in[1024];
};
struct Entry {
  void* (*pack)(void** args);
  void (*run)(void* packed);
  void (*drop)(void* packed);
  int most_threads, warp;
  Block** shim;
  char *lds_begin, *lds_end;
};

struct Extent {
  unsigned x, y, z;
  unsigned count() const { return x * y * z; }
};
// All blocks, in order. Empty, or what the kernel did that no GPU forgives: a barrier that not all
// threads reach, lanes missing at a shuffle, threads that wait for what nobody does; `early`, as
// launched beside the kernel before it: threads that do not wait for that.
std::string run_blocks(const Entry&, void* packed, Extent grid, Extent block, unsigned shared_bytes,
                       bool early);

}  // namespace standin
