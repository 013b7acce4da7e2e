"""Texts as numbers, mapped."""

import os

from .. import _C
from ..utils.data.dataset import Dataset, batched
from ._opening import Mappings, checked_index, damaged, mapped, path_text, regular
from .arrays import read_npy

_DTYPES = ("uint8", "uint16", "uint32", "int32", "int64")


@batched
class Tokens(Dataset):
    """Windows of a file of tokens: (`length` tokens, the `length` tokens one further), int64.

    The file is a .npy file of one dimension, or the numbers alone, little-endian, of `dtype`
    ("uint8", "uint16", "uint32", "int32" or "int64"; a text is a file of uint8). It is mapped, so it may
    be larger than memory. Window i begins at token i * `stride` (`length`). With `vocab` a token that
    is not below it is a FileError that says where it stands.
    """

    def __init__(self, path, length, dtype="uint16", stride=None, vocab=None):
        import numpy as np

        path = self.path = path_text(path, "Tokens")
        self.length = self._positive("length", length)
        self.stride = self._positive("stride", length if stride is None else stride)
        self.vocab = vocab if vocab is None else self._positive("vocab", vocab)
        name = str(dtype).rsplit(".", 1)[-1]
        if name not in _DTYPES:
            raise _C.ValueError(
                f"pf.datasets.Tokens: got dtype {dtype!r}; expected one of {_DTYPES}"
            )
        if path.endswith(".npy"):
            self.tokens, mapping = read_npy(path, "Tokens")
            if self.tokens.ndim != 1 or self.tokens.dtype.kind not in "iu":
                found = f"{self.tokens.dtype} of shape {self.tokens.shape}"
                raise damaged("Tokens", path, f"has {found}", "integers in one dimension")
        else:
            with regular(path, "Tokens") as file:
                size, item = os.fstat(file.fileno()).st_size, np.dtype(name).itemsize
                if size % item:
                    raise damaged(
                        "Tokens", path, f"has {size} bytes", f"a multiple of {item} for {name}",
                        "check dtype",
                    )  # fmt: skip
                kind = np.dtype(name).newbyteorder("<")
                self.tokens, mapping = mapped(file, 0, kind, size // item, path, "Tokens")
        self._mappings = Mappings([mapping])
        if len(self.tokens) <= self.length:
            raise damaged(
                "Tokens", path, f"has {len(self.tokens)} tokens",
                f"at least {self.length + 1} for windows of {self.length}", "use a smaller length",
            )  # fmt: skip

    @staticmethod
    def _positive(name, value):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _C.ValueError(
                f"pf.datasets.Tokens: got {name} {value!r}; expected a positive integer"
            )
        return value

    def __len__(self):
        return (len(self.tokens) - 1 - self.length) // self.stride + 1

    def __getitem__(self, index):
        inputs, targets = self._batch([checked_index(index, len(self), "Tokens")])
        return inputs[0], targets[0]

    def _batch(self, indices):
        windows = self.windows([i * self.stride for i in indices])
        return [windows[:, :-1], windows[:, 1:]]

    def check(self):
        """FileError where others have made the file shorter: what was read may be zeros."""
        self._mappings.check("Tokens")

    def windows(self, begins):
        """int64 [len(begins), length + 1] on the CPU: the tokens from each of these numbers on."""
        import numpy as np

        made = np.empty((len(begins), self.length + 1), np.int64)
        for row, begin in zip(made, begins):
            row[:] = self.tokens[begin : begin + self.length + 1]
        self.check()
        limit = 2**63 if self.vocab is None else self.vocab
        wrong = (made < 0) | (made > limit - 1)
        if wrong.any():
            row, column = map(int, np.argwhere(wrong)[0])
            raise damaged(
                "Tokens", self.path,
                f"has {made[row, column]} as token number {begins[row] + column}",
                f"numbers from 0 to {limit - 1}", "check vocab and dtype",
            )  # fmt: skip
        # In memory of our own, which captured steps can take as it is.
        return _C.from_numpy(made).clone()
