"""Locks of what all threads of a process share."""

import os
import threading


def shared_lock():
    """A lock that its thread may take again. It is free in a child, whoever held it at the fork."""
    lock = threading.RLock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock
