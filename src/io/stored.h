// Bytes of a file, or of memory, as tensors: what the formats of files have in common.
#pragma once

#include <memory>
#include <string>

#include "core/lock.h"
#include "core/mapped.h"
#include "files/file.h"
#include "pyflame/io.h"

namespace pyflame::io {

class Stored {
 public:
  explicit Stored(const std::string& path);
  explicit Stored(const Memory& memory);

  uint64_t size() const { return source_->size(); }
  const std::string& path() const { return source_->path(); }
  // FileError when there are fewer.
  void read(uint64_t at, void* to, size_t size) const { source_->read(at, to, size); }

  // The elements that lie there, row-major. A dtype takes whole bytes, and whoever calls has
  // checked that shape and dtype take as many as there are. `swapped`: in the other byte order.
  Tensor tensor(uint64_t at, const Dims& shape, DType dtype, Load how, Device device,
                bool swapped = false) const;

 private:
  std::shared_ptr<MappedFile> map() const;
  std::unique_ptr<files::Source> source_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<MappedFile> mapping_;
};

}  // namespace pyflame::io
