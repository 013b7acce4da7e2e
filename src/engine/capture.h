// Captures: what one thread launched, kept to be launched again without the program that said so.
//
// While a thread captures, everything runs as it always does, and is noted besides: programs and
// kernels with their sizes and numbers, and where each address came from. Its memory comes from a
// pool of its own, so that what was used twice within the capture is used twice by each run of it,
// and by nobody else meanwhile. A storage is a *slot* of the capture, and of one of five kinds:
//
//   inner   made and used within: its address is the pool's, and the arena's when it is planned
//   held    made within, and somebody still has it (gradients): its address is looked up at each
//   run outer   was there before (parameters, states): its address is looked up at each run input
//   named as such: each run brings another output  made within and given away: each run gets fresh
//   memory for it
//
// A capture has stages, which are run one after the other with inputs and outputs of their own (a
// forward and a backward pass), and stages have parts: between two of them is what the caller does
// itself (the step of an optimizer, whose numbers change).
//
// Before its first run a capture is *planned* (capture_passes.cpp, capture_arena.h): launches go
// whose results nobody reads or another launch makes, those that depend on nothing but unchanged
// tensors run when these change, and what is left of the inner slots gets one block of memory, the
// arena, in place of the pool.
//
// What cannot be kept (a value that the host reads, a copy from another device) breaks the capture,
// with a reason, and still happens: a broken capture was an ordinary run.
#pragma once

#include <cstddef>
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
  // A trial of `tried`: only to be compared with it, and with the memory that the program takes
  // anyway.
  static std::shared_ptr<Capture> begin(Device, const Capture* tried = nullptr);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // ---- while it captures, on its thread --------------------------------------------------------
  void open_stage(std::span<const Tensor> inputs);
  void pause();   // a part ends
  void resume();  // the next one begins
  void close_stage(std::span<const Tensor> outputs);
  // Of the results of the last stage these have a history that a pass within has used up.
  void spend(const std::vector<bool>& which);
  // Goes on where abandon() left off between two stages, perhaps on another thread. False: another
  // one is being made just then.
  bool reopen();
  // What is launched between these is a *cell*: kernels whose numbers are told anew before each run
  // (see capture_cells.cpp). False where there was something else: then nothing of it is kept, and
  // the next part begins.
  void open_cell();
  bool close_cell();
  void end();
  void abandon() noexcept;  // the program raised, or there may be another stage later

  // Whether what somebody can still look at may give its memory away (takeover.h): a capture where
  // somebody then does look is broken by that, and may be made without.
  bool moves = false;
  bool passes = false;  // a backward pass has run within
  bool read_again() const { return read_again_; }
  void note_read_again() {
    read_again_ = true;
    break_off("logits are read behind the gradient of their loss");
  }
  bool may_move(const Storage& s) const { return moves && inner(s); }

  uint64_t tape_begins() const { return tape_begins_; }  // record number of what it records first
  const std::string& broken() const { return broken_; }
  void break_off(const std::string& reason);  // the first reason counts
  // Leaves whose .grad a backward pass within has changed, and whether the first time found one.
  struct Leaf {
    Tensor tensor;
    bool had;
  };
  const std::vector<Leaf>& leaves() const { return leaves_; }

  // What the engine tells. Addresses are there already.
  void note_program(const PlannedProgram&, const std::shared_ptr<const CompiledProgram>&);
  struct Located {
    Storage* storage;
    int64_t offset;  // in bytes, of the address in it
  };
  void note_kernel(const Kernel&, std::span<const pf_tensor>, std::span<const Located>,
                   std::span<const pf_scalar>, int outputs, const CallOptions&);
  void note_group(const Plan&, const AnchorCall&, const pf_group&,
                  const std::shared_ptr<const CompiledProgram>& before,
                  const std::shared_ptr<const CompiledProgram>& after);
  void note_bytes(const Tensor& to, const void* from, size_t bytes);
  void note_leaf(const Tensor& leaf, bool had);
  void note_random_state(RandomState);  // is about to be set
  void note_place(const Storage&);  // this line of the program is about to write it, if recorded
  // Results may take over memory that was made within, no other.
  void forbid_donations(PlannedProgram&) const;

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
  // In place of that, where the caller knows that the tensors are as captured: a number of a
  // launch.
  void tell(int cell, size_t launch, int number, Scalar value);
  size_t cell_launches(int cell) const;
  bool cells_differed();  // since this was last asked: tensors were others than captured
  std::vector<Tensor> results(int stage);  // and forgets what no later stage reads

  // Of the run that was captured: in memory of their own, for theirs is written by the next run.
  std::vector<Tensor> copied_results(int stage);

  // The bytes of the program's tensors that stage 0 writes, and which of its inputs it writes.
  std::vector<Tensor> written() const;
  std::vector<size_t> written_inputs() const;
  // Whether the rest of what stage 0 reads is as it was when it ran last. `inputs`: its inputs.
  bool unchanged(std::span<const Tensor> inputs) const;
  bool only_reads(const Storage&) const;        // which is none of its inputs
  RandomState began() const { return began_; }  // that run
  // Its results that a later stage reads, as long as that has not run; undefined: others.
  struct Given {
    Tensor tensor;
    uint32_t version;  // when it was given
  };
  std::vector<Given> given() const;

  // Whether a run of the program's own has room beside what is planned.
  bool room_for_trial() const;
  // The tensors that are to be what they are now; false once one of them has another storage, lies
  // otherwise in it, or wants a gradient where it did not.
  void watch(std::span<const Tensor>);
  bool watched_still_there() const;
  // What of a trial's stage is not as here: the launches, the numbers that they take, or the
  // storages from outside that they read and write. "" if all is.
  struct Difference {
    std::string what;      // with file and line
    bool numbers = false;  // only numbers: of the program, which nobody told us change
  };
  Difference difference(const Capture& trial, int stage) const;

  // A gradient that the captured call has made need not outlive the trial: the slot of its storage
  // until planned, or -1 where it cannot be another's; then what the trial has made is in its
  // place.
  int slot_of_made(const Tensor&) const;
  bool put_in_place(int slot, const Tensor&);

  // Takes the arena, once; start() does it. OutOfMemoryError: there is no room for it, and nothing
  // can be run.
  void plan();
  // What planning has come to.
  struct Outcome {
    struct Piece {  // of the arena
      size_t offset, bytes;
      int first, last;  // launches that use it
      bool constant;
      std::string label;
    };
    bool planned = false;
    size_t dead = 0, equal = 0, constant = 0;
    size_t copied = 0;        // of the constant ones: by a step that has what they would cast
    int64_t pool_bytes = 0;   // of the run that was captured
    int64_t arena_bytes = 0;  // of ours
    int64_t bound_bytes = 0;  // what is needed at once, whatever the plan
    int64_t held_bytes = 0;   // of tensors that somebody has
    std::vector<Piece> pieces;
  };
  const Outcome& outcome() const { return outcome_; }
  const std::vector<std::unique_ptr<CapturedLaunch>>& list() const { return launches_; }
  const std::string& text_of_place(int32_t place) const {
    return places_[static_cast<size_t>(place)];
  }
  // From here on each run is timed, launch by launch, which waits for the device behind each.
  void time_launches() { timed_ = true; }

  Device device() const { return device_; }
  size_t launches() const { return launches_.size(); }
  int64_t pool_bytes() const;  // that it keeps
  // Of the device's: how many there are, or why there is none; "" where there cannot be any.
  std::string graphs() const;
  int parts(int stage) const;

  // Of storages that a capture has numbered: its last owner went.
  static void storage_ends(Storage&) noexcept;

 private:
  enum class Kind : uint8_t { Inner, Held, Outer, Input, Output };
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
    uint32_t at_end = 0;  // of the capture: with writes that gradients do not mind
    uint32_t serial = 0;  // of the storage that it was
    size_t nbytes = 0;
    Ref<Storage> storage;
    Tensor holder;  // of what is handed out: somebody can read it
    void* base = nullptr;
    std::vector<Site> sites;
    // Of inner ones, until planned. Dead: when so many launches had been noted.
    Storage* alive = nullptr;
    int died_at = 0;
    bool fixed = false;   // it cannot be moved
    bool window = false;  // held, and a part of the arena

    bool within(int stage) const { return first_stage <= stage && last_stage >= stage; }
  };
  struct Part {
    size_t first = 0, last = 0;  // launches
    // Counters of the generator that it takes: where they began when it was made, how many, and
    // where they begin in this run. What is done between two parts takes its own.
    uint64_t drawn_first = 0, drawn = 0, drawn_now = 0;
    std::unique_ptr<PartGraph> graph = nullptr;
    // Of constant launches: what they follow from, as it was when they ran.
    struct Root {
      int slot;
      uint32_t version;
      const void* data;
    };
    std::vector<Root> roots;
    bool stale = true;
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
    bool spent = false;
  };
  struct Stage {
    std::vector<Seen> inputs, results;
    std::vector<Part> parts;
  };

  explicit Capture(Device);
  void open_part(Stage&);
  void close_part();
  bool set_drawn(CapturedLaunch&) const;
  void enter();
  void leave() noexcept;
  void listen(bool) noexcept;  // to storages that end
  bool inner(const Storage&) const;
  int slot_of(Storage&);
  void note(void** where, const Located&, bool reads, bool writes, const Reach&);
  CapturedLaunch& add();
  int32_t place_here();
  int32_t place_of(const Storage&) const;
  void keep_program(struct CapturedProgram&, const PlannedProgram&,
                    const std::shared_ptr<const CompiledProgram>&);
  void find_fixed();
  bool any_fixed() const;
  void hold_what_lives();
  bool survives(const Slot&) const;
  std::vector<int> writers() const;  // of each slot: how many of the launches that run
  // Whether it is all that ever writes what lies within.
  bool sole(const Access&, std::span<const int> writers) const;
  void drop_dead();
  void drop_equal();
  void find_constants();
  static bool only_ours(const Storage&);  // no write of others goes unseen
  class Copies;
  size_t find_copies(size_t below);  // bytes each; the size of the largest
  void make_room_for_copies(CapturedLaunch&, uint8_t dtype);
  void forget_copies();
  template <class F>
  void change_tensors(CapturedLaunch&, F change);
  void note_copied(bool lost);
  void give_up(CapturedLaunch::Fate);
  bool takes_more_than_the_run() const;  // for what constant launches keep
  void lay_out();
  void move_out_of_pool(Slot&);
  bool fits_in_arena(const Slot&) const;
  void take_arena();
  static void poison(Storage&);  // with the exception that is being handled
  bool constants_changed(Part&);
  Tensor fresh_memory(const Slot&) const;
  void make_memory(Slot&);
  void forget_behind(int stage);  // what no later stage reads
  static Tensor look(Storage*, const Seen&);
  void patch(Slot&);
  void launch(CapturedLaunch&, StreamState*);
  bool launch_as_graph(Part&, StreamState*);
  void launch_one_by_one(const Part&, StreamState*);
  bool same_call(size_t launch, const Kernel&, std::span<const pf_tensor>,
                 std::span<const Ref<Storage>>, size_t numbers) const;
  bool cells_differ(const Part&) const;
  void launch_noted(size_t launch, StreamState*);  // unless a pass has dropped it

  Device device_;
  Group* group_ = nullptr;  // of the thread that captures; null when it has ended
  bool noting_ = false, ended_ = false;
  int64_t pool_ = 0, route_before_ = 0;  // a trial has no pool
  int64_t borrowed_ = 0;                 // but that of what it tries, until this is planned
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
  bool lost_ = false;      // what they copy, in this run
  std::vector<Leaf> leaves_;
  struct Watched {
    Tensor tensor;
    Storage* storage;
    Dims shape, strides;
    int64_t offset;
    bool requires_grad, hooked;
  };
  std::vector<Watched> watched_;
  uint64_t random_first_ = 0, seed_ = 0, tape_begins_ = 0;
  RandomState began_{};
  std::vector<uint8_t> changed_;  // launches whose addresses or numbers are others
  std::vector<uint32_t> random_;  // launches that draw numbers
  int64_t work_ = 0;
  StreamState* stream_ = nullptr;  // of the last run
  bool ran_ = false;
  std::vector<std::string> places_{""};
  std::unordered_map<std::string, int32_t> known_places_;
  std::unordered_map<const Storage*, int32_t> place_of_;  // what is recorded and not run
  bool timed_ = false;
  Outcome outcome_;
  Ref<Storage> arena_;
  std::vector<std::ptrdiff_t> in_arena_;  // where slots lie, or -1
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
