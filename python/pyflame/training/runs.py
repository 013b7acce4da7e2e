"""Directories of runs: which one, and that one process trains in it at a time."""

import contextlib
import itertools
import json
import os

from .. import _C, _files
from .output import say

CONFIG = "config.json"
_LOCK = ".lock"


def write_json(path, value):
    _C._write_file(path, (json.dumps(value, indent=1) + "\n").encode())


# Where an option stands in a configuration by another name; --minutes settles the steps.
_NAMES = {
    "accumulate": "accumulation",
    "gradient_accumulation_steps": "accumulation",
    "minutes": "steps",
    "use_mixed_precision": "mixed_precision",
}


def note_left_out(args, config):
    """Says which options of the command line a run that goes on does not take: it has its own."""
    from .._arguments import parser

    usual = vars(parser().parse_args(["train", args.model]))
    own = {**config, **config["model"]} if isinstance(config.get("model"), dict) else config
    for name, given in vars(args).items():
        has = own.get(_NAMES.get(name, name))
        same = given in (usual[name], has, "auto") or (
            name == "data" and os.path.abspath(given) == has
        )
        if has is not None and not same:
            where = _NAMES.get(name, name)
            say(f"note: --{name} {given} is for new runs; this one goes on with {where} {has}")


class RunInUseError(_C.FileError):
    """Another process trains in the directory."""


def _open_lock(directory):
    path = os.path.join(directory, _LOCK)
    return _files.open_regular(path, "train", flags=os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)


@contextlib.contextmanager
def claimed(directory):
    """Keeps the run in `directory` for this process within a ``with`` block. The lock goes with the
    process, however it ends; the file stays, for removing it could take another's lock away.

    RunInUseError names the process that has it.
    """
    fd = _open_lock(directory)
    try:
        if not _files.lock(fd):
            who = os.pread(fd, 300, 0).decode("utf-8", "replace").strip() or "another process"
            raise RunInUseError(
                f"pf.train: '{directory}' is in use by {who}; expected a run that no other process "
                "trains; wait for it, stop it, or name another --out"
            )
        try:
            os.truncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        except OSError:  # a full disk: the lock holds all the same
            pass
        yield directory
    finally:
        os.close(fd)


@contextlib.contextmanager
def new_run(wanted):
    """Makes `wanted`, or the first of wanted-2, wanted-3, ... that holds no run and in which nobody
    begins one, and keeps it as `claimed` does."""
    if not wanted:
        raise _C.ValueError("pf.train: got an empty --out; expected a directory; name one")
    for number in itertools.count(1):
        path = wanted if number == 1 else f"{wanted}-{number}"
        if os.path.lexists(os.path.join(path, CONFIG)):
            continue
        os.makedirs(path, exist_ok=True)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(claimed(path))
            except RunInUseError:
                continue
            if os.path.lexists(os.path.join(path, CONFIG)):  # begun and ended in between
                continue
            yield path
            return


def newest_directory(
    wanted, op="pf.train", advice="start one without --resume, or name it with --out"
):
    """Of `wanted`, wanted-2, ... the run with the latest sign of life. `op` and `advice` are for the error
    where there is none."""
    candidates = []
    if os.path.exists(os.path.join(wanted, CONFIG)):
        candidates.append(wanted)
    number = 2
    while os.path.exists(os.path.join(f"{wanted}-{number}", CONFIG)):
        candidates.append(f"{wanted}-{number}")
        number += 1
    if not candidates:
        raise _C.FileError(f"{op}: there is no run in '{wanted}'; expected its {CONFIG}; {advice}")

    def age(path):
        return max(os.path.getmtime(p) for p in (path, os.path.join(path, CONFIG)))

    return max(candidates, key=age)
