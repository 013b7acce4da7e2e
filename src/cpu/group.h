// Groups in pieces: a program, the kernel behind it and the program behind that run over a few rows
// at a time, so that what passes between them stays in a cache. A convolution runs the program
// behind it over what it has finished.
#pragma once

#include "cpu/kernel.h"
#include "pyflame/backend.h"

namespace pyflame::cpu {

bool group_takes(pf_group& g);  // and what then has no memory
// What group_takes() has said yes to.
void group_launch(const pf_group& g);

// What a piece may touch: half of the second cache, as what the next one reads is fetched beside
// it.
double piece_bytes();

struct KernelEntry;
// What a kernel is given that gives numbers of cells: before it reads some of these, what is made
// of their elements, by places as in run().
class BehindCells : public Behind {
 public:
  virtual void run_before(int64_t first, int64_t rows, int64_t width, int64_t apart) const = 0;

 protected:
  ~BehindCells() = default;
};
// A kernel alone, in pieces: of several over the same rows all but the first find these in a cache.
// False, and nothing is done, where it is small or has not enough pieces for the threads.
bool launch_in_pieces(const KernelEntry&, const KernelArgs&);

}  // namespace pyflame::cpu
