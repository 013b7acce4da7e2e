"""Training checkpoints that survive kills, full disks and flipped bits.

A checkpoint is a directory: ``state.safetensors`` (what :func:`pyflame.save` writes) and
``manifest.json`` with sizes and SHA-256 sums, of the manifest itself too. It is written beside its
final name, every file is synced, and it is renamed only when it is complete; so at every moment the
newest complete one is there. Loading checks the sums and falls back to the one before when they do
not agree.

    checkpoints = pf.checkpoint.Checkpoints("runs/gpt", keep=3)
    checkpoints.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    found = checkpoints.load()          # newest good one, None when there is none
    model.load_state_dict(found.state["model"])
"""

import contextlib
import errno
import hashlib
import itertools
import json
import operator
import os
import re
import shutil
import time
import warnings

from . import _C, _files
from .serialization import FileError, load, path_text, save

__all__ = ["Checkpoint", "CheckpointWarning", "Checkpoints", "verify"]

_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?$")
_STATE = "state.safetensors"
_MANIFEST = "manifest.json"
_MAX_MANIFEST = 16 << 20
_MAX_STEP = 2**63 - 1
_OP = "checkpoint"


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


def _digest(path, size=None):
    """The SHA-256 sum of a file; with `size` of no more than that."""
    h = hashlib.sha256()
    with open(_files.open_regular(path, _OP), "rb", buffering=0) as f:
        left = os.fstat(f.fileno()).st_size if size is None else size
        while left and (block := f.read(min(left, 1 << 20))):
            h.update(block)
            left -= len(block)
    return h.hexdigest()


# ---- the manifest -------------------------------------------------------------------------------


def _text(manifest):
    return json.dumps(manifest, indent=1, sort_keys=True) + "\n"


def _sealed(manifest):
    """The text of a manifest, with a checksum over all the rest of it."""
    seal = hashlib.sha256(_text(manifest).encode()).hexdigest()
    return _text({**manifest, "checksum": seal})


def _whole(value, most):
    return type(value) is int and 0 <= value <= most


def _entry(entry):
    return (
        type(entry) is dict
        and set(entry) == {"size", "sha256"}
        and _whole(entry["size"], _MAX_STEP)
        and type(entry["sha256"]) is str
        and re.fullmatch("[0-9a-f]{64}", entry["sha256"])
    )


def _no_twice(pairs):
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands there twice")
    return made


def _parse(text, name):
    """The manifest in `text`, whose directory is called `name`. ValueError says what is wrong."""
    manifest = json.loads(text.decode("utf-8"), object_pairs_hook=_no_twice)
    if type(manifest) is not dict:
        raise ValueError("it is no object")
    made = manifest.get("format")
    if made != 1 and "checksum" not in manifest:
        raise ValueError("it has no checksum")
    if "checksum" in manifest:
        body = {key: value for key, value in manifest.items() if key != "checksum"}
        # The text itself is compared: no byte of it can change unnoticed.
        if _sealed(body).encode() != text:
            raise ValueError("it does not have its own checksum")
        if made not in (1, 2):
            raise ValueError(f"it has format {made}, of a newer PyFlame: load it with that")
    files, info = manifest.get("files"), manifest.get("info", {})
    if not _whole(manifest.get("step"), _MAX_STEP):
        raise ValueError("its step is no whole number from 0")
    if type(files) is not dict or not all(map(_entry, files.values())):
        raise ValueError("its list of files is none")
    if _STATE not in files:
        raise ValueError(f"it does not list {_STATE}")
    for file in files:
        if os.path.basename(file) != file or file in ("", ".", "..") or "\0" in file:
            raise ValueError(f"it lists {file!r}, which is no name of a file")
    if type(info) is not dict:
        raise ValueError("its info is no object")
    # Manifests of versions before the checksum: the directory says the step again.
    match = _NAME.match(name)
    if "checksum" not in manifest and match and int(match[1]) != manifest["step"]:
        raise ValueError(f"it is of step {manifest['step']}, in a directory of another")
    return manifest


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
    path = path_text(path, _OP)
    manifest_path = os.path.join(path, _MANIFEST)
    try:
        text = _files.read_regular(manifest_path, _OP, _MAX_MANIFEST)
        manifest = _parse(text, os.path.basename(os.path.abspath(path)))
    except (OSError, ValueError, RecursionError) as e:
        why = str(e) or type(e).__name__
        raise FileError(
            f"pf.checkpoint: '{manifest_path}' is missing or damaged ({why}); "
            "expected the manifest of a complete checkpoint; use an older checkpoint"
        ) from None
    for name, entry in manifest["files"].items():
        file = os.path.join(path, name)
        try:
            size = os.stat(file).st_size
            if size != entry["size"]:
                raise FileError(
                    f"pf.checkpoint: '{file}' has {size} bytes, its manifest says {entry['size']}; "
                    "expected a complete file; use an older checkpoint"
                )
            digest = _digest(file, size)
        except FileError:
            raise
        except (OSError, ValueError) as e:  # ValueError: a name that the system does not take
            why = getattr(e, "strerror", None) or e
            raise FileError(
                f"pf.checkpoint: '{file}' is missing or cannot be read ({why}); expected "
                "every file of the manifest; use an older checkpoint"
            ) from None
        if digest != entry["sha256"]:
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
            older ones only after a newer one has been written, complete and synced.
    """

    def __init__(self, directory, keep=3):
        if keep is not None and keep < 1:
            raise _C.ValueError(
                f"pf.checkpoint: got keep={keep}; expected at least 1, or None to keep all; raise it"
            )
        self.directory = path_text(directory, _OP)
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

    def _newest(self, use):
        """What `use` makes of the newest checkpoint for which it raises no FileError; and how many
        are damaged."""
        damaged = set()
        # While others save, a listing may miss what is renamed during it: looked at again.
        for patience in itertools.count():
            paths = [p for p in reversed(self.paths()) if p not in damaged]
            if not paths and patience > 2:
                return None, len(damaged)
            for path in paths:
                try:
                    return use(path), len(damaged)
                except FileError as e:
                    if not os.path.lexists(path):
                        break  # another process has replaced it by newer ones: look again
                    damaged.add(path)
                    warnings.warn(
                        f"{e} (looking for the one before)", CheckpointWarning, stacklevel=3
                    )

    def latest(self):
        """The directory of the newest checkpoint whose checksums agree, or None.

        Warns (CheckpointWarning) of each newer one that is damaged, naming the file.
        """

        def checked(path):
            verify(path)
            return path

        return self._newest(checked)[0]

    def load(self, map_location=None):
        """The newest good checkpoint, or None when there is none at all.

        Raises FileError when checkpoints exist and all of them are damaged.
        """
        found, damaged = self._newest(lambda path: load_checkpoint(path, map_location))
        if found is None and damaged:
            raise FileError(
                f"pf.checkpoint: all {damaged} checkpoints in '{self.directory}' are damaged; "
                "expected one whose checksums agree; restore a copy or start anew"
            )
        return found

    def save(self, step, state, **info):
        """Saves `state` (see :func:`pyflame.save`) as the checkpoint of `step`; returns its path.

        `info` are values for people and tools, kept in the manifest: they must be JSON.
        """
        try:
            step = operator.index(step)
        except TypeError:
            raise TypeError(
                f"pf.checkpoint: got a {type(step).__name__} as step; expected a whole number; "
                "convert it with int()"
            ) from None
        if not 0 <= step <= _MAX_STEP:
            raise _C.ValueError(
                f"pf.checkpoint: got step {step}; expected 0 or more, below 2**63; count from 0"
            )
        try:
            info = json.loads(json.dumps(info, sort_keys=True))
        except (TypeError, ValueError, RecursionError) as e:
            raise TypeError(
                f"pf.checkpoint: got info that is no JSON ({e}); expected numbers, text, lists and "
                "dicts; put other values into the state"
            ) from None
        os.makedirs(self.directory, exist_ok=True)
        self._sweep()
        stem = f"step-{step:08d}"
        work, lock = self._work_directory(stem)
        try:
            state_path = os.path.join(work, _STATE)
            save(state, state_path)
            manifest = {
                "format": 2,
                "step": step,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "files": {
                    _STATE: {"size": os.path.getsize(state_path), "sha256": _digest(state_path)}
                },
                "info": info,
            }
            _C._write_file(os.path.join(work, _MANIFEST), _sealed(manifest).encode())
            _sync_directory(work)
            path = self._publish(work, stem)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        finally:
            os.close(lock)
        self._prune(path)
        return path

    def _work_directory(self, stem):
        """A new directory to write in, and the descriptor that keeps it locked: with the process
        the lock goes, and then the next save removes the directory."""
        for number in itertools.count():
            name = f".{stem}-{_files.host()}-{os.getpid()}.{number}.tmp"
            work = os.path.join(self.directory, name)
            os.makedirs(self.directory, exist_ok=True)  # it may be removed at any moment
            try:
                os.mkdir(work)
                lock = _files.open_regular(work, _OP, directory=True)
            except (FileExistsError, FileNotFoundError):  # another thread's, or swept just now
                continue
            if _files.lock(lock) and os.path.lexists(work):
                return work, lock
            os.close(lock)

    def _publish(self, work, stem):
        """Renames to the first free name: an older one of the same step stays until then."""
        for number in itertools.count():
            path = os.path.join(self.directory, f"{stem}.{number}" if number else stem)
            if os.path.lexists(path):
                continue
            try:
                os.rename(work, path)
            except OSError as e:
                if e.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
                continue  # another process was quicker
            _sync_directory(self.directory)
            return path

    def _prune(self, newest):
        """Removes the oldest. Other processes may be doing the same: what is gone is gone, and what
        cannot be removed stays until another time. One of them at a time, for two could remove each
        other's newest."""
        if self.keep is None:
            return
        lock = _files.open_regular(self.directory, _OP, directory=True)
        try:
            if not _files.lock(lock):
                return
            found = self.paths()
            older = [p for p in found if p != newest]
            for path in older[: max(len(found) - self.keep, 0)]:
                # Renamed first: a kill in the middle leaves no half checkpoint that looks whole.
                hidden = os.path.join(
                    self.directory, f".{os.path.basename(path)}.{os.getpid()}.removed"
                )
                shutil.rmtree(hidden, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.rename(path, hidden)
                shutil.rmtree(hidden, ignore_errors=True)
        finally:
            os.close(lock)

    def _sweep(self):
        """Removes what killed processes left; half-written ones only of this machine, for only
        here their locks mean something."""
        ours = re.compile(rf"\.step-\d+-{re.escape(_files.host())}-\d+\.\d+\.tmp$")
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            if name.startswith(".step-") and name.endswith(".removed"):
                shutil.rmtree(path, ignore_errors=True)
            elif ours.match(name):
                with _files.left_behind(path) as left:
                    if left:
                        shutil.rmtree(path, ignore_errors=True)


def load_checkpoint(path, map_location=None):
    """The checkpoint in directory `path`, after checking it. FileError when it is damaged."""
    path = path_text(path, _OP)
    manifest = verify(path)
    state = load(os.path.join(path, _STATE), map_location)
    return Checkpoint(manifest["step"], state, path, manifest.get("info", {}))
