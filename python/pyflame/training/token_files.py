"""Files of tokens: made of text (`pyflame data tokenize`), and batches of them.

They are nanoGPT's: the numbers alone, little-endian, uint16 unless said otherwise; `train.bin` and
`val.bin` in one folder. What a file does not say itself stands in `tokens.json` beside them, where
this program has made them.
"""

import contextlib
import hashlib
import json
import os

from .. import _C, _files
from ..datasets import Tokens
from . import text as texts
from .output import say
from .runs import write_json
from .tokenizers import tokenizer

TRAIN, HELD_OUT, ABOUT = "train.bin", "val.bin", "tokens.json"
DTYPES = ("uint8", "uint16", "uint32", "int32", "int64")
_PIECE = 1 << 22  # bytes of text that are turned into tokens at once
_SHARE = 20  # of a single text or file the last part is held out


# ---- making -------------------------------------------------------------------------------------


class _Writer:
    """A file that is there when all of it is written; beside its name meanwhile."""

    def __init__(self, path, dtype):
        import numpy as np

        self.path, self.beside = path, f"{path}.{os.getpid()}.tmp"
        self.kind = np.dtype(dtype).newbyteorder("<")
        self.limit = int(np.iinfo(self.kind).max)
        self.count = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.beside)
        self.file = os.fdopen(os.open(self.beside, flags, 0o666), "wb")

    def add(self, tokens):
        import numpy as np

        self.file.write(np.asarray(tokens, dtype=self.kind).tobytes())
        self.count += len(tokens)

    def close(self, keep):
        if not keep:
            self.file.close()
            with contextlib.suppress(OSError):
                os.unlink(self.beside)
            return
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.beside, self.path)


def _of_file(path):
    """(bytes that begin or go on with a document, held out, whether it ends) of a single text, whose
    end is held out."""
    if not os.path.exists(path):
        raise _C.FileError(
            f"pf.train: there is no '{path}' (from {os.getcwd()}); expected a text file or a "
            "directory; check the path"
        )
    with open(_files.open_regular(path, "train"), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        for end, held_out in ((size - size // _SHARE, False), (size, True)):
            while file.tell() < end:
                data = file.read(min(_PIECE, end - file.tell()))
                # On to the end of the line: no word, and no letter, is cut.
                if data and not data.endswith(b"\n"):
                    data += file.readline(_PIECE)
                if not data:
                    return
                yield data, held_out, file.tell() >= end


def _of_folder(path, notes):
    """The same of the texts below a folder, or of Python's standard library: held out are files by
    their names, or the end of each where that gives none."""
    found = list(texts.files(path, notes))
    held = [texts.is_held_out(name) for name, _ in found]
    by_name = any(held) and not all(held)
    for (_, data), held_out in zip(found, held):
        cuts = [len(data)]
        if not by_name:
            at = data.rfind(b"\n", 0, len(data) - len(data) // _SHARE) + 1
            cuts, held_out = ([at, len(data)], False) if at else ([len(data)], False)
        first = 0
        for cut in cuts:
            while first < cut:
                end = min(first + _PIECE, cut)
                yield data[first:end], held_out, end == cut
                first = end
            held_out = True


def make(path, out, how, dtype=None, notes=None):
    """Turns text into `train.bin` and `val.bin` in the folder `out`; returns what `tokens.json` says.

    `how` is a Tokenizer. `dtype` is uint16, or uint32 for larger vocabularies, unless given.
    ValueError when it cannot hold the tokens or there is no text.
    """
    import numpy as np

    if dtype is None:
        dtype = "uint16" if how.vocab <= 1 << 16 else "uint32"
    if how.vocab - 1 > np.iinfo(dtype).max:
        raise _C.ValueError(
            f"pf.train: {how.vocab} tokens do not fit into {dtype}; expected a dtype that holds "
            "them; choose a wider --dtype"
        )
    os.makedirs(out, exist_ok=True)
    writers, done, read = {}, False, 0
    whole = path is None or os.path.isdir(path)
    try:
        for part in (TRAIN, HELD_OUT):
            writers[part] = _Writer(os.path.join(out, part), dtype)
        for data, held_out, ends in _of_folder(path, notes) if whole else _of_file(path):
            tokens = how.encode(data)
            if ends and how.end is not None:
                tokens.append(how.end)
            writers[HELD_OUT if held_out else TRAIN].add(tokens)
            read += len(data)
        counts = {part: w.count for part, w in writers.items()}
        if not all(counts.values()):
            raise _C.ValueError(
                f"pf.train: '{path}' is too short: {counts[TRAIN]} tokens to learn from and "
                f"{counts[HELD_OUT]} held out; expected some of both; give more text"
            )
        done = True
    except OSError as e:
        if isinstance(e, _C.PyFlameError):
            raise
        raise _C.FileError(
            f"pf.train: cannot write tokens into '{out}' ({e.strerror or e}); expected a folder "
            "with room; check --out"
        ) from None
    finally:
        for w in writers.values():
            w.close(done)
    about = {
        "format": 1, "tokenizer": how.name, "vocab": how.vocab, "end": how.end, "dtype": dtype,
        "train_tokens": counts[TRAIN], "held_out_tokens": counts[HELD_OUT], "bytes": read,
    }  # fmt: skip
    write_json(os.path.join(out, ABOUT), about)
    return about


def command(args):
    """`pyflame data tokenize`."""
    how, note = tokenizer(args.tokenizer)
    if note:
        say(f"note: {note}")
    notes = []
    about = make(args.text, args.out, how, args.dtype, notes)
    for line in notes:
        say(f"note: {line}")
    say(
        f"{args.out}: {about['train_tokens']:,} tokens to learn from, "
        f"{about['held_out_tokens']:,} held out, of {about['bytes']:,} bytes, as {about['dtype']}; "
        f"tokenizer {about['tokenizer']}, {about['vocab']:,} tokens"
    )
    return 0


# ---- reading ------------------------------------------------------------------------------------


def _about(folder):
    """What tokens.json says, checked; {} without one."""
    path = os.path.join(folder, ABOUT)
    if not os.path.lexists(path):
        return {}
    try:
        about = json.loads(_files.read_regular(path, "train", 1 << 20).decode("utf-8"))
        if type(about) is not dict or about.get("dtype") not in DTYPES:
            raise ValueError("it names no dtype")
        if type(about.get("tokenizer")) is not str or type(about.get("vocab")) is not int:
            raise ValueError("it names no tokenizer")
        if not 1 <= about["vocab"] <= 1 << 24:
            raise ValueError(f"'vocab' is {about['vocab']}")
    except (OSError, ValueError, RecursionError) as e:
        raise _C.FileError(
            f"pf.train: '{path}' is damaged ({e}); expected what `pyflame data tokenize` writes; make "
            "the tokens again"
        ) from None
    return about


def _fingerprint(file):
    """Of the file's size and of 64 places in it: to read all of it would take minutes."""
    found = hashlib.sha256()
    raw = file.tokens.view("u1") if len(file.tokens) else file.tokens
    found.update(str(len(raw)).encode())
    step = max(len(raw) // 64, 1 << 16)
    for at in range(0, len(raw), step):
        found.update(raw[at : at + (1 << 16)].tobytes())
    file.check()
    return found.hexdigest()


class TokenData:
    """Token files for training: `train.bin` and `val.bin` of a folder, or one file whose last
    twentieth is held out. `vocab`: tokens from there on are a FileError."""

    def __init__(self, path, context, dtype=None):
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        about = _about(folder)
        self.name = path
        self.tokenizer = about.get("tokenizer", "gpt2")
        self.vocab = about.get("vocab", 50257)
        self.dtype = dtype or about.get("dtype", "uint16")
        where = (TRAIN, HELD_OUT) if os.path.isdir(path) else (os.path.basename(path),)
        files = [Tokens(os.path.join(folder, n), context, self.dtype, 1) for n in where]
        self.fingerprint = "-".join(map(_fingerprint, files))
        sizes = [len(f.tokens) for f in files]
        if len(files) == 1:
            held = max(sizes[0] // _SHARE, context + 1)
            if sizes[0] - held <= context:
                raise _C.ValueError(
                    f"pf.train: '{path}' has {sizes[0]} tokens; expected at least "
                    f"{2 * context + 2} for a context of {context}; use a longer file or a smaller "
                    "--context"
                )
            cut = sizes[0] - held
            self.train, self.held_out = (_Span(files[0], 0, cut), _Span(files[0], cut, sizes[0]))
        else:
            self.train, self.held_out = (_Span(f, 0, n) for f, n in zip(files, sizes))

    def limit(self, vocab):
        """From now on tokens from `vocab` on are a FileError."""
        for part in (self.train, self.held_out):
            part.file.vocab = vocab


class _Span:
    """A part of a token file: what training/text.py makes batches of."""

    def __init__(self, file, first, end):
        self.file, self.first, self.end = file, first, end

    def __len__(self):
        return self.end - self.first

    def windows(self, starts):
        return self.file.windows([self.first + s for s in starts]).to(_C.get_device())


def is_token_data(path):
    """Whether `path` is a token file or a folder with them, by its names."""
    if os.path.isdir(path):
        return os.path.exists(os.path.join(path, TRAIN))
    return path.endswith((".bin", ".npy"))
