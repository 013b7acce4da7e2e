// Rules by which a kernel joins a group that has a kernel already. All of them stand in rules.cpp.
#pragma once

#include <span>

#include "engine/engine.h"
#include "engine/group.h"

namespace pyflame::engine {

// Has the pending kernel do the work of `k`, too, where a rule says so. The caller has settled what
// is read and written, and holds the group.
bool merge(Group&, const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
           std::span<const Scalar> attrs);
// Has the pending product write some columns of its one row to where an index says, too, which is
// what `k` would do. The caller has settled what is read and written, and holds the group.
bool keep_row(Group&, const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
              std::span<const Scalar> attrs, const CallOptions&);
// The phase, of `from`, is made before the kernel of the group from now on: the last one of its
// own, or the only one of another. False, and nothing is done, where it cannot be.
bool make_before(Group&, Group& from, Phase&);
// What was set aside is what is recorded again, behind what was recorded meanwhile: one phase. As
// above.
bool bring_back_before(Group&);
// What follows a product is better run with the kernel over rows that reads it: a residual's sum
// with the norm behind it. The product runs, and its last phase becomes the first of the group.
bool keep_last_phase(Group&, const Kernel& k, std::span<const Tensor> ins);
// A cast at the end of the group that reads nothing of it and that only `k` will read goes along to
// the window of `k`, whose loads then make it: a gradient in 16 bits for the norm that it goes to.
// The group runs; false, and nothing is done, where there is no such cast.
bool carry_cast(Group&, const Kernel& k, std::span<const Tensor> ins);
// Whether the group had better run when more has been recorded: what its kernel makes is read
// within, by a cast, and by then maybe by nobody else. `linear(norm(x))` holds the norm until
// linear() has returned.
bool better_later(const Group&);
// The same of a product that nothing follows yet: between the gradient of a layer's input and the
// activation's, which follows it, stand casts of the gradients of its weights.
bool follows_later(const Group&);
// The same of reductions: this, of what they read and as large, may come to be reduced with them.
bool reduces_the_same(const Group&, const Dims& shape, std::span<const Operand>);
// Whether these read what the kernel of the window aside makes, so that they can follow it.
bool follows_aside(const Group&, std::span<const Operand>);

}  // namespace pyflame::engine
