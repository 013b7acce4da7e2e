// Hidden dimensions: vmap without batching rules for operations.
//
// Within a vmap a tensor that differs from sample to sample keeps the dimension of the samples
// where operations do not look: in TensorImpl::hidden. Its shape, strides and offset are those of
// one sample, so every operation, view and gradient is written as for one. What operations are made
// of knows better: engine::pointwise, pointwise_into and call show the hidden dimensions of their
// operands, as leading ones of plain tensors, and hide those of the result again. Pointwise rows
// broadcast; a kernel has a rule (hidden_kernels.cpp) or runs once for each sample.
//
// What an operation makes for itself is plain until values that differ are written into it. Then
// its storage grows: a new one holds it once for each sample, and whoever looks at the old one
// follows (Storage::grown). Only what was made inside of the vmap may grow.
//
// Nothing of this costs more than a load where there is no vmap (hiding()). That counter is of the
// whole process, and a tensor that somebody has kept (an exception, its frame) counts as long as it
// lives: it only saves asking. What decides how something is done asks among_samples().
#pragma once

#include <optional>
#include <span>

#include "core/tensor_impl.h"
#include "engine/engine.h"

namespace pyflame::engine {

enum class Randomness : uint8_t { Error, Same, Different };

struct Level {
  uint32_t id;
  int64_t size;
};

// Levels of several tensors, oldest first.
class Levels {
 public:
  void add(Level);
  void add(const Tensor&);  // those that it has
  bool has(uint32_t id) const;
  Levels without(const Levels& others) const;
  bool empty() const { return n_ == 0; }
  int size() const { return n_; }
  const Level& operator[](int i) const { return levels_[i]; }
  const Level* begin() const { return levels_; }
  const Level* end() const { return levels_ + n_; }
  int64_t samples() const;  // of all together

 private:
  int n_ = 0;
  Level levels_[Hidden::kMost];
};

// The hidden dimensions of a tensor, null where it has none.
const Hidden* hidden_of(const Tensor&);
bool is_hidden(const Tensor&);
// Raises where it has some: there is no one value that the host could read.
void refuse_to_read(const Tensor&);
// Whether the calling thread is within a vmap.
bool within_vmap();
// Whether work on these may come to see samples: the thread is within a vmap, or one of them is of
// one. Then it is done by operations that have rules for samples.
template <class... T>
bool among_samples(const T&... tensors) {
  return hiding() && (within_vmap() || (is_hidden(tensors) || ...));
}
// How many samples a tensor holds together.
int64_t samples_of(const Tensor&);

// ---- levels of the calling thread ---------------------------------------------------------------
uint32_t begin_level(int64_t size, Randomness);
void end_level();  // the innermost
// The levels that have begun and not ended; their ids.
Levels active_levels();
Randomness randomness_at(uint32_t level);
// What random operations do: as the innermost level says. Raises where they are an error. Levels
// over which their numbers differ.
Levels random_levels(const char* op);

// ---- showing and hiding -------------------------------------------------------------------------
// The same memory as a plain tensor: [levels, ones, shape], `rank` dimensions behind the levels.
// A level that it does not have has size 1, or with `whole` its own size and stride 0.
Tensor shown(const Tensor&, const Levels&, int rank, bool whole);
// Hides the first dimensions of a tensor that nobody else has seen.
Tensor hide_front(Tensor fresh, const Levels&);
// Makes room for values that differ over these levels.
void grow(const Tensor&, const Levels&, const char* op);

// ---- the three ways into the engine -------------------------------------------------------------
// Undefined or false where no operand has hidden dimensions.
Tensor pointwise_hidden(OpId, const Dims& shape, DType out, DType compute, Device,
                        std::span<const Operand>, std::span<const Scalar> attrs);
bool pointwise_into_hidden(OpId, const Tensor& dst, DType compute, std::span<const Operand>,
                           std::span<const Scalar> attrs);
bool call_hidden(const Kernel&, std::span<const Tensor> outs, std::span<const Tensor> ins,
                 std::span<const Scalar> attrs, const CallOptions&);

// A kernel's call with hidden dimensions, for its rule.
struct HiddenCall {
  const Kernel& kernel;
  std::span<const Tensor> outs, ins;  // outs have grown
  std::span<const Scalar> attrs;
  const CallOptions& options;
  const Levels& levels;  // of all of them

  // All tensors shown, each with its own dimensions behind those of the levels; undefined ones as
  // they are.
  std::vector<Tensor> show(std::span<const Tensor>, bool whole = true) const;
  void run(const std::vector<Tensor>& outs, const std::vector<Tensor>& ins,
           std::span<const Scalar> attrs) const;
};
// Runs the kernel once for all samples. False where it has no rule for such operands.
bool run_by_rule(const HiddenCall&);

}  // namespace pyflame::engine
