// What the core has to tell the rooms above it, which define these.
#pragma once

#include "core/tensor_impl.h"

namespace pyflame {

namespace engine {
// The last handle of a storage with a pending write went away. record.cpp
void on_last_handle(Storage&) noexcept;
// One that a capture has numbered ends. capture.cpp
void on_numbered_storage_ends(Storage&) noexcept;
}  // namespace engine

namespace autograd {
void destroy_meta(TensorImpl&) noexcept;  // engine/autograd.cpp
}

void drop_replicas(Storage&) noexcept;  // engine/placement.cpp
void drop_sparse(Storage&) noexcept;    // core/sparse.cpp

}  // namespace pyflame
