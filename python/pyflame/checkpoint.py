"""Training checkpoints that survive kills, full disks and flipped bits.

A checkpoint is a directory: ``state.safetensors`` (what :func:`pyflame.save` writes) and
``manifest.json`` with sizes and SHA-256 sums. It is written beside its final name, every file is
synced, and it is renamed only when it is complete; so at every moment the newest complete one is
there. Loading checks the sums and falls back to the one before when they do not agree.

    checkpoints = pf.checkpoint.Checkpoints("runs/gpt", keep=3)
    checkpoints.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    found = checkpoints.load()          # newest good one, None when there is none
    model.load_state_dict(found.state["model"])
"""

import json
import os
import re
import shutil
import time
import warnings

from . import _C
from .serialization import FileError, load, save

__all__ = ["Checkpoint", "CheckpointWarning", "Checkpoints", "verify"]

_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?$")
_STATE = "state.safetensors"
_MANIFEST = "manifest.json"


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged and an older one is used."""


class Checkpoint:
    """One loaded checkpoint: `step`, `state`, the directory `path`, and the `info` saved with it."""

    def __init__(self, step, state, path, info):
        self.step = step
        self.state = state
        self.path = path
        self.info = info

    def __repr__(self):
        return f"Checkpoint(step={self.step}, path={self.path!r})"


def _digest(path):
    import hashlib

    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def _sync_directory(path):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse; the rename itself has happened
    finally:
        os.close(handle)


def verify(path):
    """Checks the checkpoint directory `path` against its manifest and returns the manifest.

    Raises FileError that names the first file that is missing, cut off or altered.
    """
    manifest_path = os.path.join(path, _MANIFEST)
    try:
        with open(manifest_path, encoding="utf-8") as f:
            manifest = json.load(f)
        files = {
            str(name): (int(e["size"]), str(e["sha256"])) for name, e in manifest["files"].items()
        }
        int(manifest["step"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise FileError(
            f"pf.checkpoint: '{manifest_path}' is missing or damaged ({type(e).__name__}: {e}); "
            "expected the manifest of a complete checkpoint; use an older checkpoint"
        ) from None
    if _STATE not in files:
        raise FileError(
            f"pf.checkpoint: '{manifest_path}' does not list {_STATE}; expected the manifest of a "
            "complete checkpoint; use an older checkpoint"
        )
    for name, (size, digest) in files.items():
        file = os.path.join(path, name)
        if os.path.basename(name) != name or not os.path.isfile(file):
            raise FileError(
                f"pf.checkpoint: '{file}' is missing; expected every file of the manifest; use an "
                "older checkpoint"
            )
        found = os.path.getsize(file)
        if found != size:
            raise FileError(
                f"pf.checkpoint: '{file}' has {found} bytes, its manifest says {size}; expected a "
                "complete file; use an older checkpoint"
            )
        if _digest(file) != digest:
            raise FileError(
                f"pf.checkpoint: '{file}' does not have the checksum of its manifest; expected an "
                "unaltered file; use an older checkpoint"
            )
    return manifest


class Checkpoints:
    """The checkpoints of one training run, in one directory.

    Args:
        directory: made when the first checkpoint is saved.
        keep: how many of the newest to keep; None keeps all. The newest one is deleted never, and
            older ones only after a newer one has been written and checked.
    """

    def __init__(self, directory, keep=3):
        if keep is not None and keep < 1:
            raise _C.ValueError(
                f"pf.checkpoint: got keep={keep}; expected at least 1, or None to keep all; raise it"
            )
        self.directory = os.fspath(directory)
        self.keep = keep

    def paths(self):
        """The directories of the complete checkpoints, oldest first (unchecked)."""
        found = []
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        for name in names:
            match = _NAME.match(name)
            if match:
                key = (int(match[1]), int(match[2] or 0))
                found.append((key, os.path.join(self.directory, name)))
        return [path for _, path in sorted(found)]

    def latest(self):
        """The directory of the newest checkpoint whose checksums agree, or None.

        Warns (CheckpointWarning) of each newer one that is damaged, naming the file.
        """
        for path in reversed(self.paths()):
            try:
                verify(path)
            except FileError as e:
                warnings.warn(f"{e} (looking for the one before)", CheckpointWarning, stacklevel=2)
                continue
            return path
        return None

    def load(self, map_location=None):
        """The newest good checkpoint, or None when there is none at all.

        Raises FileError when checkpoints exist and all of them are damaged.
        """
        paths = self.paths()
        for path in reversed(paths):
            try:
                return load_checkpoint(path, map_location)
            except FileError as e:
                warnings.warn(f"{e} (looking for the one before)", CheckpointWarning, stacklevel=2)
        if paths:
            raise FileError(
                f"pf.checkpoint: all {len(paths)} checkpoints in '{self.directory}' are damaged; "
                "expected one whose checksums agree; restore a copy or start anew"
            )
        return None

    def save(self, step, state, **info):
        """Saves `state` (see :func:`pyflame.save`) as the checkpoint of `step`; returns its path.

        `info` are values for people and tools, kept in the manifest: they must be JSON.
        """
        step = int(step)
        if step < 0:
            raise _C.ValueError(f"pf.checkpoint: got step {step}; expected 0 or more; count from 0")
        os.makedirs(self.directory, exist_ok=True)
        self._sweep()
        stem = f"step-{step:08d}"
        work = os.path.join(self.directory, f".{stem}-{os.uname().nodename}-{os.getpid()}.tmp")
        shutil.rmtree(work, ignore_errors=True)
        os.mkdir(work)
        try:
            state_path = os.path.join(work, _STATE)
            save(state, state_path)
            manifest = {
                "format": 1,
                "step": step,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "files": {
                    _STATE: {"size": os.path.getsize(state_path), "sha256": _digest(state_path)}
                },
                "info": info,
            }
            text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
            _C._write_file(os.path.join(work, _MANIFEST), text.encode())
            _sync_directory(work)
            path = self._publish(work, stem)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        self._prune(path)
        return path

    def _publish(self, work, stem):
        """Renames to the first free name: an older one of the same step stays until then."""
        path = os.path.join(self.directory, stem)
        number = 0
        while os.path.lexists(path):
            number += 1
            path = os.path.join(self.directory, f"{stem}.{number}")
        os.rename(work, path)
        _sync_directory(self.directory)
        return path

    def _prune(self, newest):
        if self.keep is None:
            return
        older = [p for p in self.paths() if p != newest]
        surplus = len(older) + 1 - self.keep
        for path in older[: max(surplus, 0)]:
            # Renamed first: a kill in the middle leaves no half checkpoint that looks whole.
            hidden = os.path.join(self.directory, "." + os.path.basename(path) + ".removed")
            shutil.rmtree(hidden, ignore_errors=True)
            os.rename(path, hidden)
            shutil.rmtree(hidden, ignore_errors=True)

    def _sweep(self):
        """Removes what killed processes of this machine left."""
        host = os.uname().nodename
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            if name.startswith(".step-") and name.endswith(".removed"):
                shutil.rmtree(path, ignore_errors=True)
            match = re.match(rf"\.step-\d+-{re.escape(host)}-(\d+)\.tmp$", name)
            if match and not _alive(int(match[1])):
                shutil.rmtree(path, ignore_errors=True)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def load_checkpoint(path, map_location=None):
    """The checkpoint in directory `path`, after checking it. FileError when it is damaged."""
    path = os.fspath(path)
    manifest = verify(path)
    state = load(os.path.join(path, _STATE), map_location)
    return Checkpoint(int(manifest["step"]), state, path, dict(manifest.get("info") or {}))
