// The planner: from a window to a plan, which says what is run, in which order, and what has
// memory. It looks, and changes nothing: no memory is taken, no backend is called.
#pragma once

#include <cstdint>

#include "core/stream.h"
#include "engine/graph.h"
#include "engine/programs.h"

namespace pyflame::engine {

// A program of a plan: what of a phase is run.
struct PlannedProgram {
  Phase* phase = nullptr;  // none: there is no program
  bool empty = false;      // results without elements: they need memory, and nothing runs
  ProgramKey key;
  uint8_t output_dtypes[kMaxNodes];
  int ninputs, noutputs;
  uint8_t used[kMaxInputs], stored[kMaxNodes];  // inputs and nodes of the phase
  // Bits for inputs and outputs that have no memory.
  uint32_t inputs_without = 0, outputs_without = 0;
  // The input whose memory an output takes, since nobody can read that any more; or -1.
  int8_t donor[kMaxNodes];
  pf_operand in[kMaxInputs], out[kMaxNodes];  // addresses so far as they are known
  pf_launch launch;
  // Of a launch whose dimensions are not in the phase's order.
  int64_t shape[kMaxDims], strides[kMaxInputs + kMaxNodes][kMaxDims];

  bool runs() const { return phase && !empty; }
  bool reordered() const { return launch.shape == shape; }
};

// How programs and kernel hang together; see pf_group.
struct Links {
  int8_t feeds[kMaxNodes], takes[kMaxInputs];
  bool apart = false;  // nothing that the program before writes is the kernel's: it runs by itself
  uint32_t unread = 0;
  // Which may be without memory: outputs of the program before, inputs of the one after, tensors of
  // the kernel.
  uint32_t before_without = 0, after_without = 0, kernel_without = 0;
};

// In this order: a program, what the kernel reads of the phase beside it, the kernel, what else
// there is of that, a program. As one launch the first and the last of them go along with the
// kernel.
struct Plan {
  PlannedProgram before, early, late, after;
  bool kernel = false;
  bool to_anchor = false;  // the last phase stays for later
  // The kernel and the programs beside it may run as one launch. False where they must be seen to
  // run one after the other: one reads what another writes in some other way than element by
  // element.
  bool may_join = false;
  Links links;

  // The program before is there, and for the kernel.
  bool before_joins() const { return before.runs() && !links.apart; }
};

// Of plans that the calling thread makes: results within programs that nobody else reads are not
// rounded to 16 bits. Returns what it was. Off by default, when fused is unfused, bit for bit.
bool set_fast_numerics(bool);
bool fast_numerics();

// What messages call a node; of no row, a gradient.
const char* row_label(const pf_node&);
void make_plan(Window&, bool to_anchor, Plan&);
// Which results take the memory of an input, when it is known what has none.
// Of a program behind a kernel results of that are inputs like others; behind one of cells what it
// reads, too.
void plan_donations(PlannedProgram&, const StreamState*, const Window* behind = nullptr);

}  // namespace pyflame::engine
