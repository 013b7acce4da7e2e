// oneDNN as the second source of matrix products: opened at the first large one, never linked.
#pragma once

#include <string>

#include "cpu/gemm.h"

namespace pyflame::cpu {

// "onednn 2.6.3", or why it cannot be used ("libdnnl.so.3: cannot open ..."). Opens it.
bool onednn_available(std::string* text);
// False when oneDNN has no good kernel for this product (then nothing was written).
bool gemm_onednn(const Gemm&);

}  // namespace pyflame::cpu
