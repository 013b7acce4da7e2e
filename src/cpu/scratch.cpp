#include "cpu/scratch.h"

#include "core/allocator.h"

namespace pyflame::cpu::detail {

ScratchBytes::ScratchBytes(size_t bytes) {
  if (bytes == 0) return;
  constexpr size_t kPage = 4096, kHalf = kPage / 2;
  MemoryUse use{"workspace"};
  use.scratch = true;
  block_ = allocate(Device{}, nullptr, bytes < kHalf ? bytes : bytes + kPage, use);
  data_ = static_cast<char*>(block_->data);
  if (bytes >= kHalf) data_ += (kPage + kHalf - reinterpret_cast<uintptr_t>(data_) % kPage) % kPage;
}

ScratchBytes::~ScratchBytes() {
  if (block_) release(block_);
}

}  // namespace pyflame::cpu::detail
