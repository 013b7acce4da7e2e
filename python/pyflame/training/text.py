"""Text as bytes: where it comes from, and which part of it is held out."""

import hashlib
import os

from .. import _C, _files, _ops

# Every 20th file (or block of a single file) is held out, decided by its name's hash: adding a
# file moves no other one to the other side.
_SHARE = 20
_BLOCK = 4096
# Parts of the standard library that are no ordinary code: tests are missing on many systems,
# the others are generated tables and help texts.
_SKIPPED = {
    "site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test", "encodings",
    "pydoc_data",
}  # fmt: skip


def _tensor(data):
    """The bytes in memory of our own, on the current device."""
    if not data:
        return None
    shown = _ops.frombuffer(data, dtype=_C.uint8)
    return shown.clone().to(_C.get_device())


class Text:
    """Training and held-out bytes, as uint8 tensors, and a fingerprint of both."""

    def __init__(self, name, train, held_out, notes=()):
        self.name = name
        self.notes = list(notes)
        self.fingerprint = hashlib.sha256(train + b"\0held-out\0" + held_out).hexdigest()
        self.train_bytes = len(train)
        self.held_out_bytes = len(held_out)
        self.train = _tensor(train)
        self.held_out = _tensor(held_out)

    def check(self, context):
        """ValueError when there is too little text for windows of `context` bytes."""
        for part, size in (("training", self.train_bytes), ("held-out", self.held_out_bytes)):
            if size < context + 1:
                raise _C.ValueError(
                    f"pf.train: '{self.name}' gives {size} bytes of {part} text; expected at "
                    f"least {context + 1} for a context of {context}; use a longer text or a "
                    "smaller --context"
                )


def is_held_out(name):
    """Whether a file of this relative name is held out."""
    return int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:4], "little") % _SHARE == 0


def _split_files(files):
    """`files` are (relative name, bytes) in order."""
    train, held_out = bytearray(), bytearray()
    for name, data in files:
        (held_out if is_held_out(name) else train).extend(data)
    return train, held_out


def _split_blocks(data):
    """The blocks of one text; of a short one at least one block is held out."""
    block = max(1, min(_BLOCK, len(data) // _SHARE))
    train, held_out = bytearray(), bytearray()
    for i in range(0, len(data), block):
        (held_out if i // block % _SHARE == _SHARE - 1 else train).extend(data[i : i + block])
    return train, held_out


def _walk(root, suffix, skipped):
    """Relative names of files below `root`, sorted, and of folders that cannot be read. Broken
    links are no files."""
    found, closed = [], []
    for folder, folders, names in os.walk(root, onerror=lambda e: closed.append(e.filename)):
        folders[:] = [f for f in folders if f not in skipped and not f.startswith(".")]
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(suffix) and not name.startswith(".") and os.path.isfile(path):
                found.append(os.path.relpath(path, root).replace(os.sep, "/"))
    return sorted(found, key=os.fsencode), [os.path.relpath(c, root) for c in closed]


def _read(path):
    return _files.read_regular(path, "train")


def _read_all(root, names):
    """(name, bytes) of the files that can be read, and the names of the others."""
    files, closed = [], []
    for name in names:
        try:
            files.append((name, _read(os.path.join(root, name))))
        except OSError:
            closed.append(name)
    return files, closed


def _left_out(names, what):
    """A note about files that are not used."""
    return f"left out {len(names)} {what}, such as {names[0]}"


def standard_library():
    """The source of the running Python's standard library."""
    import sysconfig

    root = sysconfig.get_paths()["stdlib"]
    files, _ = _read_all(root, _walk(root, ".py", _SKIPPED)[0])
    if not files:
        raise _C.FileError(
            f"pf.train: there is no Python source in '{root}'; expected the standard library; "
            "install it or pass --data FILE"
        )
    return Text("Python's standard library", *_split_files(files))


def from_path(path):
    """A text file, or all files below a directory that hold text."""
    path = os.fspath(path)
    if not os.path.exists(path):
        raise _C.FileError(
            f"pf.train: there is no '{path}' (from {os.getcwd()}); expected a text file or a "
            "directory; check --data"
        )
    notes = []
    try:
        if os.path.isdir(path):
            names, closed = _walk(path, "", ())
            files, unread = _read_all(path, names)
            if closed := closed + unread:
                notes.append(_left_out(closed, "files or folders that cannot be read"))
            binary = [name for name, data in files if b"\0" in data]
            if binary:
                notes.append(_left_out(binary, "files that hold no text"))
            files = [(name, data) for name, data in files if b"\0" not in data]
            whole = b"".join(data for _, data in files)
            train, held_out = _split_files(files)
            if not train or not held_out:
                train, held_out = _split_blocks(whole)
        else:
            whole = _read(path)
            train, held_out = _split_blocks(whole)
    except _C.FileError:
        raise
    except OSError as e:
        raise _C.FileError(
            f"pf.train: cannot read '{path}' ({e.strerror}); expected a readable text; check its "
            "permissions"
        ) from None
    if not whole:
        raise _C.FileError(
            f"pf.train: '{path}' is empty; expected text to learn from; pass another --data"
        )
    try:
        whole.decode("utf-8")
    except UnicodeDecodeError as e:
        notes.append(
            f"not UTF-8 (byte {e.start}): the model reads bytes, so it learns them as they are"
        )
    return Text(path, train, held_out, notes)


def files(path=None, notes=None):
    """(relative name, bytes) of the texts below a folder, or of the standard library, one by one; what
    was left out is added to `notes`."""
    if path is None:
        import sysconfig

        path, suffix, skipped = sysconfig.get_paths()["stdlib"], ".py", _SKIPPED
    else:
        suffix, skipped = "", ()
    names, closed = _walk(path, suffix, skipped)
    binary = []
    for name in names:
        try:
            data = _read(os.path.join(path, name))
        except OSError:
            closed.append(name)
            continue
        if b"\0" in data:
            binary.append(name)
        else:
            yield name, data
    for left, what in ((closed, "files or folders that cannot be read"),
                       (binary, "files that hold no text")):  # fmt: skip
        if left and notes is not None:
            notes.append(_left_out(left, what))


def load(path=None):
    return standard_library() if path is None else from_path(path)


# ---- batches ----------------------------------------------------------------------------------

_MASK = (1 << 64) - 1


def _scramble(x):
    """64 bits to 64 well mixed bits (the finaliser of SplitMix64)."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def at(data, starts, offsets):
    """The windows of `data` that begin at `starts`: int64 [len(starts), context + 1]. It is a uint8
    tensor of one dimension, or has a length and such windows itself. `offsets` are the integers
    [1, context + 1] from 0 on."""
    if not isinstance(data, _C.Tensor):
        return data.windows(starts)
    index = _ops.tensor(starts).unsqueeze(1) + offsets
    return _ops.index_select(data, 0, index.view(-1)).view(index.shape).long()


class Batches:
    """Random windows of a text. Batch number `step` depends on (seed, step) and nothing else."""

    def __init__(self, data, batch, context, seed):
        self._data = data
        self._batch = batch
        self._offsets = _ops.arange(context + 1).unsqueeze(0)
        self._places = len(data) - context
        self._seed = _scramble(seed)

    def window(self, step):
        """int64 [batch, context + 1]."""
        key = _scramble(self._seed ^ step)
        starts = [_scramble(key + i) % self._places for i in range(self._batch)]
        return at(self._data, starts, self._offsets)

    def __call__(self, step):
        """Inputs and targets, int64 [batch, context]."""
        window = self.window(step)
        return window[:, :-1], window[:, 1:]


def windows(data, context, limit):
    """Starts of windows that cover the text evenly, about `limit` bytes of it at most."""
    count = (len(data) - 1) // context
    wanted = max(1, min(count, limit // context))
    return [i * count // wanted * context for i in range(wanted)]
