"""Processes and threads: the group that this process is in, as what shares work out asks for it, and threads
that may not be had."""

import resource
import sys

from . import _C


def group_module():
    """The module with the names of torch.distributed whose process group is made; None without a group."""
    module = sys.modules.get("pyflame.distributed")  # what makes a group has imported it
    return module if module is not None and module.is_initialized() else None


def start_thread(thread, what):
    """Starts it. DeviceError, which says the limit, where the system gives none; `what` needs it, and is
    what may be done without."""
    try:
        thread.start()
    except RuntimeError as error:
        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        limit = "none" if most == resource.RLIM_INFINITY else most
        raise _C.DeviceError(
            f"pf.{what[0]}: no thread can be started ({error}); expected one more (the limit of processes "
            f"and threads is {limit}, a container may have a lower one); raise it with ulimit -u, end "
            f"other threads, or {what[1]}"
        ) from None
