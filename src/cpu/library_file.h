// Whether a shared library's file is whole, asked before it is opened: the dynamic linker maps it
// unseen, and one that was cut off ends the process by a signal.
#pragma once

#include <string>

namespace pyflame::cpu {

// Why a file cannot be opened as a library, or "": what is not there is the linker's to say.
std::string damage_of(const std::string& path);
// The same for a bare name, of the first file that the usual places have under it.
std::string damage_of_named(const std::string& name);

}  // namespace pyflame::cpu
