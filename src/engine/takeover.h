// A result may take the memory of what it is made of although somebody can still look at that: what
// one kernel made can be made again, and is where somebody does. Logits that a program holds, but
// does not read, live no longer than the loss's gradient needs them so.
#pragma once

#include <memory>
#include <optional>

#include "engine/group.h"

namespace pyflame::engine {

// One product of matrices, a[..., k] b[n, k] + bias[n], that made a tensor.
struct MadeBy {
  Tensor a, b, bias;
};

// Of a window: the kernel's result that takes the memory of what it reads.
struct Takeover {
  Ref<Storage> to, from;
  std::optional<MadeBy> again;
};

// `to` was recorded as a result of the pending kernel, `from` is what it reads, and it may lie
// there: each element of the result is written behind the last reading of what was in its place.
// With nobody left who could look at `from`, or with `again`, it does. Nothing is promised: the two
// are apart where others have work with `from` or know its address.
void may_take_over(const Tensor& to, const Tensor& from, std::optional<MadeBy> again);

// Moves the memory, as the window runs; whether it did.
bool take_over(Group&, StreamState*, const MemoryUse&);

// ---- groups that wait for a reader --------------------------------------------------------------

// Runs such a group on the streams of the calling thread.
void make_again(Group&, Flush why);
// The same where a storage without memory is about to be read.
void make_again_if_it_waits(Storage&);
// All of them.
void make_all_again(Flush why);
// Whether one waits that this capture left behind.
bool waits_in(const Capture&);
void forget_capture(const Capture&) noexcept;  // it ends
// Nobody can look at what it was to make.
void forget_again(Group&, Storage&) noexcept;

}  // namespace pyflame::engine
