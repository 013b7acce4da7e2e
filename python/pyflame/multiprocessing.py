"""Python's multiprocessing, and spawn().

`import torch` means PyFlame in the processes, too. Tensors go between them as copies of their values, but
for those of share_memory_(): what one process writes into such a tensor the others see.
"""

import multiprocessing as _mp
import multiprocessing.connection as _connection
import os as _os
import pickle as _pickle
import signal as _signal
import tempfile as _tempfile
import traceback as _traceback
from multiprocessing import *  # noqa: F403
from multiprocessing import reducer  # noqa: F401

_strategy = "file_descriptor"


def get_all_sharing_strategies():
    """The names that set_sharing_strategy() takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy():
    """What was set last."""
    return _strategy


def set_sharing_strategy(new_strategy):
    """Accepted: tensors are copied between processes."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(
            f"pf.multiprocessing.set_sharing_strategy: got {new_strategy!r}; expected one of "
            f"{sorted(get_all_sharing_strategies())}"
        )
    _strategy = new_strategy


class ProcessException(Exception):
    """A process of spawn() has ended badly."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """It raised an exception."""


class ProcessExitedException(ProcessException):
    """It ended by a signal or an exit status."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (
            self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)  # fmt: skip


def _begin(fn, i, args, error_file):
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was stopped, too
    except Exception:
        with open(error_file, "wb") as f:
            _pickle.dump(_traceback.format_exc(), f)
        raise SystemExit(1) from None


class ProcessContext:
    """The processes that spawn() has started."""

    def __init__(self, processes, error_files):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self):
        """Their numbers."""
        return [p.pid for p in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Waits until one ends. True when all have; when one ended badly the others are ended and its
        error is raised."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in _connection.wait(list(self.sentinels), timeout):
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0:
                failed = i
                break
        if failed is None:
            if not self.sentinels:
                self._clean()
            return not self.sentinels
        for p in self.processes:
            if p.is_alive():
                p.terminate()
            p.join()
        try:
            self._raise(failed)
        finally:
            self._clean()

    def _clean(self):
        for name in self.error_files:
            if _os.path.exists(name):
                _os.unlink(name)

    def _raise(self, i):
        p = self.processes[i]
        if _os.path.exists(self.error_files[i]) and _os.path.getsize(self.error_files[i]):
            with open(self.error_files[i], "rb") as f:
                trace = _pickle.load(f)
            raise ProcessRaisedException(
                f"\n\n-- Process {i} terminated with the following error:\n{trace}", i, p.pid
            )
        if p.exitcode < 0:
            name = _signal.Signals(-p.exitcode).name
            raise ProcessExitedException(
                f"process {i} terminated with signal {name}", i, p.pid, p.exitcode, name
            )
        raise ProcessExitedException(
            f"process {i} terminated with exit code {p.exitcode}", i, p.pid, p.exitcode
        )


SpawnContext = ProcessContext


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs `fn(i, *args)` in `nprocs` processes. With `join` it waits for all; when one ends badly, the
    others are ended and ProcessRaisedException or ProcessExitedException is raised."""
    context = _mp.get_context(start_method)
    processes, files = [], []
    for i in range(nprocs):
        handle, name = _tempfile.mkstemp(prefix="pyflame-spawn-", suffix=".error")
        _os.close(handle)
        files.append(name)
        p = context.Process(target=_begin, args=(fn, i, args, name), daemon=daemon)
        p.start()
        processes.append(p)
    started = ProcessContext(processes, files)
    if not join:
        return started
    while not started.join():
        pass


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """start_processes()."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def __getattr__(name):
    if hasattr(_mp, name):  # what Python's has beside its public names
        return getattr(_mp, name)
    raise AttributeError(
        f"pf.multiprocessing.{name}: there is no such name; expected one of Python's multiprocessing, or "
        "spawn and start_processes"
    )
