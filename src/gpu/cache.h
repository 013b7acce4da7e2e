// Compiled kernels on disk: $XDG_CACHE_HOME/pyflame/kernels (~/.cache/...), a file for each.
#pragma once

#include <string>

#include "gpu/kernel.h"

namespace pyflame::gpu {

// 128 bits of everything that was added.
class Digest {
 public:
  void add(const std::string& s);
  std::string hex() const;

 private:
  uint64_t a_ = 0xcbf29ce484222325u, b_ = 0x84222325cbf29ce4u;
};

// $XDG_CACHE_HOME/pyflame/kernels; empty when there is no home either.
std::string cache_folder();
bool make_folders(const std::string& path);

struct CacheKey {
  std::string architecture;  // "gfx942"
  std::string digest;        // of all that decides over the code object
  std::string portable;      // the same without the compiler and the features of the target
  std::string info;          // lines of "name value" for people: `pyflame cache show`
};

// False when there is none, or none that is whole: cut short or altered is as if it were not there.
bool read_cached(const CacheKey&, std::string& code);
// From a pack: the file that PYFLAME_KERNEL_PACK names, or pyflame-kernels.pack beside the plug-in.
// `pyflame cache pack` makes them, for architectures and not for one compiler.
bool read_packed(const CacheKey&, std::string& code);
// Whatever goes wrong (a disk that is read-only or full) costs a later process a compilation and
// no more.
void write_cached(const CacheKey&, const std::string& code);

}  // namespace pyflame::gpu
