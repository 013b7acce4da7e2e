// A stack for the signal handlers of a thread that may run oneDNN: its products of long sums use
// the stack pointer for an address of the heap, and a handler's frame would be written there.
// Handlers with SA_ONSTACK, as Python's and that of core/mapped.h, run here instead. Every thread
// that records or computes has one from its start on: at its first product there may be no memory
// for it.
#pragma once

#include <signal.h>

#include <cstddef>
#include <memory>
#include <new>

namespace pyflame::cpu {

class SignalStack {
 public:
  SignalStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;  // it has one
    memory_.reset(new (std::nothrow) char[kBytes]);
    if (!memory_) return;
    stack_t ours{};
    ours.ss_sp = memory_.get();
    ours.ss_size = kBytes;
    if (sigaltstack(&ours, nullptr) != 0) memory_.reset();
  }
  ~SignalStack() {
    stack_t now{};
    if (!memory_ || sigaltstack(nullptr, &now) != 0) return;
    if (now.ss_sp == memory_.get()) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  static constexpr size_t kBytes = size_t{64} << 10;  // registers alone may take 12 KB
  std::unique_ptr<char[]> memory_;
};

}  // namespace pyflame::cpu
