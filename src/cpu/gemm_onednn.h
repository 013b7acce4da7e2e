// oneDNN as the second source of matrix products: opened at the first large one, never linked.
#pragma once

#include <string>

#include "cpu/gemm.h"

namespace pyflame::cpu {

// "onednn 2.6.3", or why it cannot be used ("libdnnl.so.3: cannot open ..."). Opens it.
bool onednn_available(std::string* text);
// Whether oneDNN has a good kernel for this product, and memory for it. gemm_onednn asks too.
bool onednn_takes(const Gemm&);
// On the calling thread alone. False when it did not (then c holds anything). Neither throws.
bool gemm_onednn(const Gemm&);

}  // namespace pyflame::cpu
