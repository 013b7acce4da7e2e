// In-place forms of functions.
#pragma once

#include <functional>

#include "pyflame/tensor.h"

namespace pyflame::ops {

// The in-place form of a function: t becomes f(t). Where the gradient of f reads the old value,
// f gets a copy of it.
enum class Old { kIsRead, kIsNotRead };
Tensor replaced(Tensor t, const char* op, const std::function<Tensor(const Tensor&)>& f,
                Old old = Old::kIsRead);

}  // namespace pyflame::ops
