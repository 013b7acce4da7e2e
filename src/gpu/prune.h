// Kernel text cut down to what a program needs. Run-time compilers read and check every line that
// they are given, and kernels/ is written in large shared files: a program that adds two tensors
// uses a twentieth of them.
//
// The text is one of ours with its includes expanded: declarations at the outermost level (or in
// a namespace), each begun by its own tokens. A declaration stays when its name is reached from
// the roots, by identifiers alone: overloads of a name stay together. A specialisation may go,
// where none of its arguments is reached and the general template has no body that could stand in
// for it. What a macro makes is looked at, with each of its definitions; where that does not tell
// what is declared, the declaration stays. So what is left means what it meant. Directives stay
// where they are, and so do line numbers.
#pragma once

#include <string>
#include <vector>

namespace pyflame::gpu {

// `entry`: the names of PF_KERNELs that are needed, with blanks between; empty: all. `roots`: text
// whose identifiers are needed too: the values of -D options.
std::string prune_kernel_text(const std::string& text, const std::string& entry,
                              const std::string& roots);

}  // namespace pyflame::gpu
