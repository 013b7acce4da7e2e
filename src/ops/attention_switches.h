// Switches of the process: who computes attention, and whether results repeat.
#pragma once

#include <cstdint>

namespace pyflame {

// Whether results have the same bits in every run. Where not, gradients of attention may come from
// a library that adds in the order in which blocks end. On until set.
bool deterministic();
void set_deterministic(bool);

enum class AttentionLibrary : uint8_t {
  Table,   // where it is known to be quicker
  Always,  // where it can
  Never,
};
AttentionLibrary attention_library();
void set_attention_library(AttentionLibrary);

}  // namespace pyflame
