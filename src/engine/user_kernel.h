// A kernel that the user wrote, in CUDA's or HIP's dialect (pf.kernel): compiled for a device at
// its first launch there, launched in order with everything else.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/lock.h"
#include "core/tensor_impl.h"

namespace pyflame::engine {

struct UserArgument {
  Tensor tensor;           // its address is passed; when undefined, the bytes
  bool written = false;    // the kernel may change it
  unsigned char bytes[8];  // a number as the kernel declares it
};

class UserKernel {
 public:
  // `entry` is a function with C linkage; `options` are separated by blanks.
  UserKernel(std::string source, std::string entry, std::string options);

  // Compiles it, or takes it from the disk cache; BackendError with the compiler's words.
  void compile(Device);
  // Where it runs: where the tensors are that it writes, else as for any operation.
  Device target(std::span<const Tensor> written, std::span<const Tensor> read) const;
  // On `device`, its target(); floating tensors that it reads are copied there.
  void launch(Device device, const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
              std::vector<UserArgument> args);

 private:
  void* function(Device);
  std::string source_, entry_, options_, op_;
  Mutex mutex_;
  std::map<int, void*> functions_;  // by device; they live as long as the process
};

}  // namespace pyflame::engine
