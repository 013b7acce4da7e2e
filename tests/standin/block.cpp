// Threads of a block as fibers: each runs until its first barrier or shuffle on a stack that the
// next thread then uses again, so kernels without either run as a plain loop.
#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#if !defined(__x86_64__)
#error "the stand-in switches stacks by hand, for x86-64"
#endif

// Saves the callee-saved registers and the stack of the caller in *from, goes on with `to`.
extern "C" void standin_switch(void** from, void* to);
asm(R"(
.text
.globl standin_switch
.hidden standin_switch
.type standin_switch, @function
standin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size standin_switch, .-standin_switch
)");

namespace standin {
namespace {

constexpr size_t kStack = 128 << 10, kPage = 4096;

enum class Wait : uint8_t { None, Barrier, Warp, Done };

struct Fiber {
  char* memory = nullptr;
  void* stack = nullptr;  // where it goes on
  Fiber() {
    memory = static_cast<char*>(mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    mprotect(memory, kPage, PROT_NONE);
  }
  ~Fiber() { munmap(memory, kStack + kPage); }
};

struct Warp {
  unsigned waiting = 0, round = 0;
  uint64_t slots[2][64] = {};
};

class Runner {
 public:
  std::string run(const Entry& e, void* packed, Extent grid, Extent block, unsigned shared,
                  bool early) {
    const unsigned blocks = grid.count(), threads = block.count();
    entry_ = &e;
    packed_ = packed;
    warp_ = static_cast<unsigned>(e.warp);  // what the text was compiled for
    std::vector<char> dynamic(shared + 16);
    Block b{};
    b.threads = threads;
    b.blocks = blocks;
    for (int d = 0; d < 3; ++d) {
      b.block_size[d] = d == 0 ? block.x : d == 1 ? block.y : block.z;
      b.grid_size[d] = d == 0 ? grid.x : d == 1 ? grid.y : grid.z;
    }
    b.dynamic_shared = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(dynamic.data()) + 15) &
                                               ~uintptr_t{15});
    b.barrier = [] { current->wait_at_barrier(); };
    b.shuffle = [](unsigned v, unsigned from) { return current->shuffle(v, from); };
    b.ballot = [](bool p) { return current->ballot(p); };
    b.pause = [] { current->yield(); };
    block_ = &b;
    current = this;
    *e.shim = &b;
    for (unsigned i = 0; i < blocks && error_.empty(); ++i) {
      b.block = i;
      std::memset(b.dynamic_shared, 0xFF, shared);
      if (e.lds_end > e.lds_begin)
        std::memset(e.lds_begin, 0xFF, static_cast<size_t>(e.lds_end - e.lds_begin));
      run_block(threads, i % 2 != 0);
    }
    *e.shim = nullptr;
    current = nullptr;
    if (early && error_.empty() && b.waited != blocks * threads)
      error_ = "it was launched early, and not all threads wait for what is before it";
    return std::exchange(error_, "");
  }

 private:
  static thread_local Runner* current;

  struct Thread {
    Wait wait = Wait::None;
    Fiber* fiber = nullptr;
  };

  void run_block(unsigned threads, bool backwards) {
    threads_.assign(threads, Thread{});
    warps_.assign((threads + warp_ - 1) / warp_, Warp{});
    live_ = threads;
    at_barrier_ = 0;
    while (live_) {
      unsigned ran = 0;
      const unsigned progress = block_->progress;
      for (unsigned k = 0; k < threads; ++k) {
        const unsigned t = backwards ? threads - 1 - k : k;
        if (threads_[t].wait != Wait::None) continue;
        ++ran;
        resume(t);
        if (!error_.empty()) return give_up();
      }
      if (block_->progress == progress && live_) {
        error_ = ran ? "threads wait for a barrier in memory that nobody arrives at"
                 : at_barrier_
                     ? "threads wait at a barrier that the others do not reach"
                     : "lanes wait at a shuffle that the rest of their warp does not reach";
        return give_up();
      }
    }
  }

  // Stacks of threads that were left in the middle are used again: nothing on them needs
  // destruction (kernels have no destructors).
  void give_up() {
    for (Thread& t : threads_)
      if (t.fiber) spare_.push_back(std::exchange(t.fiber, nullptr));
  }

  void resume(unsigned t) {
    Thread& th = threads_[t];
    running_ = t;
    block_->thread = t;
    block_->lane = t % warp_;
    if (!th.fiber) {
      th.fiber = take();
      start(*th.fiber);
    }
    standin_switch(&scheduler_, th.fiber->stack);
    if (th.wait != Wait::None) ++block_->progress;
    if (th.wait == Wait::Done) {
      spare_.push_back(std::exchange(th.fiber, nullptr));
      --live_;
      // Who is left must not wait for this one.
      if (at_barrier_) error_ = "a thread left the kernel while others wait at a barrier";
      if (warps_[t / warp_].waiting)
        error_ = "a lane left the kernel while the rest of its warp waits at a shuffle";
    }
  }

  Fiber* take() {
    if (spare_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      return fibers_.back().get();
    }
    Fiber* f = spare_.back();
    spare_.pop_back();
    return f;
  }

  static void body() {
    Runner* r = current;
    r->entry_->run(r->packed_);
    r = current;
    Thread& t = r->threads_[r->running_];
    t.wait = Wait::Done;
    standin_switch(&t.fiber->stack, r->scheduler_);
    __builtin_unreachable();
  }

  static void start(Fiber& f) {
    auto* top = reinterpret_cast<void**>(f.memory + kPage + kStack);
    *--top = nullptr;  // keeps the stack at 8 modulo 16 on entry, as after a call
    *--top = reinterpret_cast<void*>(&body);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    f.stack = top;
  }

  void yield() {
    const unsigned t = running_;
    standin_switch(&threads_[t].fiber->stack, scheduler_);
  }

  void wait_at_barrier() {
    if (live_ != threads_.size()) {
      error_ = "a barrier after some threads of the block have left the kernel";
      threads_[running_].wait = Wait::Barrier;
      return yield();
    }
    if (++at_barrier_ == live_) {
      at_barrier_ = 0;
      ++block_->progress;
      for (Thread& t : threads_)
        if (t.wait == Wait::Barrier) t.wait = Wait::None;
      return;
    }
    threads_[running_].wait = Wait::Barrier;
    yield();
  }

  // All lanes of the warp hand in a value; gives the slots that they are in. The two sets of slots
  // alternate: nobody can reach the next use of a set before everybody has read this one.
  const uint64_t* gather(uint64_t value) {
    const unsigned t = running_, w = t / warp_;
    Warp& warp = warps_[w];
    const unsigned first = w * warp_;
    const unsigned lanes =
        std::min<unsigned>(warp_, static_cast<unsigned>(threads_.size()) - first);
    uint64_t* slots = warp.slots[warp.round & 1];
    slots[t - first] = value;
    if (++warp.waiting == lanes) {
      warp.waiting = 0;
      ++warp.round;
      ++block_->progress;
      for (unsigned l = lanes; l < 64; ++l) slots[l] = 0;  // lanes that do not exist
      for (unsigned l = 0; l < lanes; ++l)
        if (threads_[first + l].wait == Wait::Warp) threads_[first + l].wait = Wait::None;
    } else {
      threads_[t].wait = Wait::Warp;
      yield();
    }
    return slots;
  }

  unsigned shuffle(unsigned v, unsigned from) {
    return static_cast<unsigned>(gather(v)[from % warp_]);
  }
  unsigned long long ballot(bool p) {
    const uint64_t* s = gather(p);
    unsigned long long r = 0;
    for (unsigned l = 0; l < warp_; ++l) r |= static_cast<unsigned long long>(s[l] & 1) << l;
    return r;
  }

  const Entry* entry_ = nullptr;
  void* packed_ = nullptr;
  Block* block_ = nullptr;
  unsigned warp_ = 32, running_ = 0, live_ = 0, at_barrier_ = 0;
  void* scheduler_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> spare_;
  std::string error_;
};
thread_local Runner* Runner::current = nullptr;

}  // namespace

std::string run_blocks(const Entry& e, void* packed, Extent grid, Extent block,
                       unsigned shared_bytes, bool early) {
  static thread_local Runner runner;
  return runner.run(e, packed, grid, block, shared_bytes, early);
}

}  // namespace standin
