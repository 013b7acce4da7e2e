// Captures: what one thread launched, kept to be launched again without the program that said so.
//
// While a thread captures, everything runs as it always does, and is noted besides: programs and
// kernels with their sizes and numbers, and where each address came from. Its memory comes from a
// pool of its own, so that what was used twice within the capture is used twice by each run of it,
// and by nobody else meanwhile. A storage is a *slot* of the capture, and of one of four kinds:
//
//   inner   made and used within: its address is the pool's, for ever
//   outer   was there before (parameters, states): its address is looked up at each run
//   input   named as such: each run brings another
//   output  made within and given away: each run gets fresh memory for it
//
// A capture has stages, which are run one after the other with inputs and outputs of their own (a
// forward and a backward pass), and stages have parts: between two of them is what the caller does
// itself (the step of an optimizer, whose numbers change).
//
// What cannot be kept (a value that the host reads, a copy from another device) breaks the capture,
// with a reason, and still happens: a broken capture was an ordinary run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/capture_graph.h"
#include "engine/capture_launch.h"
#include "engine/group.h"
#include "pyflame/random.h"

namespace pyflame::engine {

class Capture {
 public:
  // The calling thread's launches are noted from here on. One capture at a time: ValueError.
  // `trial`: only to be compared with another, and with the memory that the program takes anyway.
  static std::shared_ptr<Capture> begin(Device, bool trial);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // ---- while it captures, on its thread --------------------------------------------------------
  void open_stage(std::span<const Tensor> inputs);
  void pause();   // a part ends
  void resume();  // the next one begins
  void close_stage(std::span<const Tensor> outputs);
  // What is launched between these is a *cell*: kernels whose numbers are told anew before each run
  // (see capture_cells.cpp). False where there was something else: then nothing of it is kept, and
  // the next part begins.
  void open_cell();
  bool close_cell();
  void end();
  void abandon() noexcept;  // the program raised

  // Whether what somebody can still look at may give its memory away (takeover.h): a capture where
  // somebody then does look is broken by that, and may be made without.
  bool moves = false;
  bool read_again() const { return read_again_; }
  void note_read_again() {
    read_again_ = true;
    break_off("logits are read behind the gradient of their loss");
  }
  bool may_move(const Storage& s) const { return moves && inner(s); }

  const std::string& broken() const { return broken_; }
  void break_off(const std::string& reason);  // the first reason counts
  // Leaves whose .grad a backward pass within has changed, and whether the first time found one.
  struct Leaf {
    Tensor tensor;
    bool had;
  };
  const std::vector<Leaf>& leaves() const { return leaves_; }

  // What the engine tells. Addresses are there already.
  void note_program(const ProgramStep&, const std::shared_ptr<const CompiledProgram>&);
  void note_kernel(const Kernel&, std::span<const pf_tensor>, std::span<Storage* const>,
                   std::span<const pf_scalar>, int outputs, const CallOptions&);
  void note_group(const Plan&, const AnchorCall&, const pf_group&,
                  const std::shared_ptr<const CompiledProgram>& before,
                  const std::shared_ptr<const CompiledProgram>& after);
  void note_bytes(const Tensor& to, const void* from, size_t bytes);
  void note_leaf(const Tensor& leaf, bool had);
  void note_random_state(RandomState);  // is about to be set
  // Results may take over memory that was made within, no other.
  void forbid_donations(ProgramStep&) const;

  // ---- when it has ended, on any thread, one at a time -----------------------------------------
  // Inputs of the geometry that they had. For a stage behind the first: AutogradError when what it
  // reads of the stage before was changed meanwhile.
  void start(int stage, std::span<const Tensor> inputs);
  void run(int stage, int part);
  // Before that, on its thread: what is called between these tells the numbers of a cell.
  void feed(int cell);
  void end_feed();
  // Whether what the thread does is no part of the capture but for the kernels of a cell.
  bool in_cell() const { return in_cell_ || feeding_ >= 0; }
  // What is about to be launched; true: it will be, with the part.
  bool takes(const Kernel&, std::span<const pf_tensor>, std::span<const Ref<Storage>>,
             std::span<const pf_scalar>, const CallOptions&);
  bool cells_differed();  // since this was last asked: tensors were others than captured
  std::vector<Tensor> results(int stage);  // and forgets what no later stage reads

  // Of the run that was captured: in memory of their own, for theirs is written by the next run.
  std::vector<Tensor> copied_results(int stage);

  // The tensors that are to be the storages that they are now; false once one of them has another.
  void watch(std::span<const Tensor>);
  bool watched_still_there() const;
  // What of a trial's first stage is not as here: the launches, the numbers that they take, or the
  // storages from outside that they read and write. "" if all is.
  struct Difference {
    std::string what;
    bool numbers = false;  // only numbers: of the program, which nobody told us change
  };
  Difference difference(const Capture& trial) const;

  Device device() const { return device_; }
  size_t launches() const { return launches_.size(); }
  int64_t pool_bytes() const;
  // Of the device's: how many there are, or why there is none; "" where there cannot be any.
  std::string graphs() const;
  int parts(int stage) const;

 private:
  enum class Kind : uint8_t { Inner, Outer, Input, Output };
  struct Site {
    void** where;
    std::ptrdiff_t offset;
    uint32_t launch;
  };
  struct Slot {
    Kind kind = Kind::Inner;
    bool written = false;
    int8_t first_stage = 0, last_stage = 0;
    uint32_t version = 0;
    uint32_t serial = 0;  // of the storage that it was
    size_t nbytes = 0;
    Ref<Storage> storage;
    Tensor holder;  // of what is handed out: somebody can read it
    void* base = nullptr;
    std::vector<Site> sites;

    bool within(int stage) const { return first_stage <= stage && last_stage >= stage; }
  };
  struct Part {
    size_t first = 0, last = 0;  // launches
    std::unique_ptr<PartGraph> graph = nullptr;
  };
  struct Call {
    const Kernel* kernel;
    std::vector<pf_tensor> tensors;
    std::vector<Ref<Storage>> storages;
    std::vector<pf_scalar> attrs;
    CallOptions options;
  };
  struct Cell {
    size_t first = 0, last = 0;  // launches
    size_t next = 0;             // of them, whose numbers are told next
    bool differs = false;        // from `next` on these are to be launched:
    std::vector<Call> instead;
  };
  struct Seen {  // how a tensor looks at its slot
    int slot;
    DType dtype;
    Dims shape, strides;
    int64_t offset;
    bool floating;
  };
  struct Stage {
    std::vector<Seen> inputs, results;
    std::vector<Part> parts;
  };

  explicit Capture(Device);
  void leave() noexcept;
  bool inner(const Storage&) const;
  int slot_of(Storage&);
  void note(void** where, Storage&, bool writes);
  CapturedLaunch& add();
  void keep_program(struct CapturedProgram&, const ProgramStep&,
                    const std::shared_ptr<const CompiledProgram>&);
  void make_memory(Slot&);
  void patch(Slot&);
  void launch(CapturedLaunch&, StreamState*);
  bool launch_as_graph(Part&, StreamState*);
  void launch_one_by_one(const Part&, StreamState*);
  bool same_call(size_t launch, const Kernel&, std::span<const pf_tensor>,
                 std::span<const Ref<Storage>>, size_t numbers) const;
  bool cells_differ(const Part&) const;

  Device device_;
  Group* group_ = nullptr;  // of the thread that captures; null when it has ended
  bool noting_ = false;
  int64_t pool_ = 0, route_before_ = 0;  // a trial has no pool
  std::string broken_;
  bool read_again_ = false;
  std::vector<std::unique_ptr<CapturedLaunch>> launches_;
  std::vector<Slot> slots_;
  std::unordered_map<uint32_t, int> by_serial_;
  std::vector<Stage> stages_;
  std::vector<Cell> cells_;
  bool in_cell_ = false;   // which is captured
  int feeding_ = -1;       // a cell
  bool differed_ = false;  // one of them, since that was asked
  std::vector<Leaf> leaves_;
  struct Watched {
    Tensor tensor;
    Storage* storage;
  };
  std::vector<Watched> watched_;
  uint64_t random_first_ = 0, random_count_ = 0;
  uint64_t seed_ = 0, random_now_ = 0;
  std::vector<uint8_t> changed_;  // launches whose addresses or numbers are others
  std::vector<uint32_t> random_;  // launches that draw numbers
  RandomState drawn_{};           // from which they did last
  int64_t work_ = 0;
  StreamState* stream_ = nullptr;  // of the last run
  bool ran_ = false;
};

// The capture that the calling thread is making, or null.
inline Capture* capturing() {
  return detail::t_group ? detail::t_group->capture : nullptr;
}
// Breaks it, where there is one.
inline void break_capture(const char* op, const char* why) {
  if (Capture* c = capturing()) [[unlikely]]
    c->break_off(std::string(op) + ": " + why);
}

}  // namespace pyflame::engine
