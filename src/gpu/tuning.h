// Which source computes a product, where somebody measured: `pyflame tune`, pf.tune(). Nothing is
// ever measured unasked; without a measured choice a product's source follows from the product.
//
// The choices are kept in a file: PYFLAME_TUNING_FILE, or $XDG_CACHE_HOME/pyflame/tuning.txt
// (~/.cache/...). PYFLAME_TUNING=0 ignores it. A line for each: device, library and its version,
// product, choice, microseconds, separated by tabs; the last line is a checksum.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/kernel.h"

namespace pyflame::gpu {

struct Choice {
  bool own = false;  // our kernel, else the library's
  int index = 0;     // which of its tiles, -1 as usual; which of the library's proposals
};

// Whether there are choices or products are measured.
bool choices_matter();
// Whether products are measured now, and whether all candidates then take part.
bool measuring();
bool exhaustive();

// The choice for a product on a device with a library; false when nobody measured it. Counts hits
// while there are choices.
bool find_choice(const KernelArgs&, const std::string& library, const std::string& product,
                 Choice&);
// Times each candidate that `run` accepts (it is false where one cannot do the product), and keeps
// the fastest. `run` has then run the chosen one last.
Choice measure(const KernelArgs&, const std::string& library, const std::string& product,
               const std::vector<Choice>& candidates, const std::function<bool(Choice)>& run);

}  // namespace pyflame::gpu
