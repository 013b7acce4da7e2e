// Files that are being written, beside the name that they will have.
//
// A temporary is called ".NAME.HOST.PID.SERIAL.tmp" and is locked (flock) until it is renamed. The
// lock goes with the process, however it ends, and cannot be taken for another's by a process
// number that is used again or that counts in another container. HOST keeps machines that share a
// network file system from judging each other's locks.
#pragma once

#include <sys/types.h>

#include <string>

namespace pyflame::files {

// Makes and locks a temporary for `path` with exactly the permissions `mode`, or, for mode -1,
// those that a new file gets (umask). Returns its descriptor and sets `name`; -1 with errno.
int open_temporary(const std::string& path, int mode, std::string* name);

// Removes the temporaries of `path` that processes of this machine left when they died. Never
// fails: what cannot be removed stays, and folders that take long are not looked through each time.
void sweep_temporaries(const std::string& path) noexcept;

std::string directory_of(const std::string& path);

}  // namespace pyflame::files
