#include "io/stored.h"

#include <algorithm>
#include <mutex>

#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "files/temporary.h"
#include "ops/functions.h"

namespace pyflame::io {

namespace {

// A bool is 0 or 1 for every kernel; a file may hold anything.
void normalise_bools(void* data, size_t n) {
  auto* p = static_cast<unsigned char*>(data);
  for (size_t i = 0; i < n; ++i)
    if (p[i] > 1) p[i] = 1;
}

void swap_bytes(void* data, size_t size, size_t item) {
  auto* p = static_cast<unsigned char*>(data);
  for (size_t i = 0; i + item <= size; i += item) std::reverse(p + i, p + i + item);
}

}  // namespace

Stored::Stored(const std::string& path) {
  // Before the file is opened: if there is none, that is what must be said.
  files::sweep_temporaries(path);
  source_ = std::make_unique<files::ReadFile>(path, "load");
}

Stored::Stored(const Memory& memory)
    : source_(std::make_unique<files::ReadMemory>(memory.name, memory.data, memory.size)) {}

std::shared_ptr<MappedFile> Stored::map() const {
  std::lock_guard lock(mutex_);
  if (!mapping_)
    mapping_ =
        std::make_shared<MappedFile>(source_->fd(), source_->size(), source_->path(), "load");
  return mapping_;
}

Tensor Stored::tensor(uint64_t at, const Dims& shape, DType dtype, Load how, Device device,
                      bool swapped) const {
  const size_t size = nbytes(dtype, numel(shape));
  const size_t item = itemsize(dtype);
  if (how == Load::Map && source_->fd() >= 0 && device.is_cpu() && size > 0 && at % item == 0 &&
      !swapped) {
    std::shared_ptr<MappedFile> mapping = map();
    void* data = mapping->data() + at;
    if (dtype == DType::Bool) normalise_bools(data, size);
    check_mapped(data, "load");
    return wrap_foreign(data, shape, contiguous_strides(shape), dtype, device, false, [mapping] {});
  }
  Tensor t = make_tensor(shape, dtype, Device{});
  if (size > 0) {
    void* data = engine::host_data(t, "load", true);
    source_->read(at, data, size);
    if (dtype == DType::Bool) normalise_bools(data, size);
    if (swapped) swap_bytes(data, size, info(dtype).kind == Kind::Complex ? item / 2 : item);
    t->storage->exposed = false;
  }
  if (!device.is_cpu()) {
    Tensor moved = make_tensor(shape, dtype, device.placed());
    if (size > 0) engine::copy_bytes(moved, t);
    t = std::move(moved);
  }
  return device.floating ? afloat(std::move(t)) : t;
}

}  // namespace pyflame::io
