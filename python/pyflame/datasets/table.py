"""Tables of text."""

import csv
import io
from array import array

from .. import _C, _ops
from .._misc import finfo, iinfo
from ..utils.data.dataset import Dataset, TensorDataset, batched
from ._opening import damaged, path_text, regular

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
_WORDS = {"true": 1, "false": 0, "yes": 1, "no": 0, "1": 1, "0": 0}
_MAX_LINE = 1 << 20
_DTYPES = (
    _C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.float16, _C.bfloat16, _C.float32,
    _C.float64,
)  # fmt: skip


class _Column:
    """The values of one column as they are read."""

    def __init__(self, name, kind, fill):
        self.name, self.kind, self.fill = name, kind, fill
        self.classes = {} if kind is str else None
        self.dtype = _C.int64 if kind is str else kind
        self.floats = kind is not str and kind.is_floating_point
        self.values = array("d" if self.floats else "q")
        if kind is not str and kind is not _C.bool:
            limits = finfo(kind) if self.floats else iinfo(kind)
            self.limits = limits.min, limits.max

    def take(self, text):
        """Adds the value of a cell; ValueError with the reason where it has none."""
        text = text.strip()
        if text.lower() in _MISSING and not (self.classes and text in self.classes):
            if self.fill is None:
                raise ValueError("is missing" if not text else f"is missing ('{text}')")
            if self.floats and self.fill != self.fill:  # NaN, which no cell may say
                self.values.append(self.fill)
                return
            text = str(self.fill)
        self.values.append(self._value(text))

    def _value(self, text):
        if self.kind is str:
            return self.classes.setdefault(text, len(self.classes))
        shown = text if len(text) <= 40 else text[:40] + "..."
        if self.kind is _C.bool:
            if text.lower() not in _WORDS:
                raise ValueError(f"is '{shown}', expected true or false")
            return _WORDS[text.lower()]
        try:
            if "_" in text or len(text) > 400:  # Python's own spelling of numbers, and endless ones
                raise ValueError
            value = float(text) if self.floats else int(text)
        except ValueError:
            raise ValueError(f"is '{shown}', expected {self.kind}") from None
        low, high = self.limits
        named_inf = self.floats and "inf" in text.lower()
        if not (low <= value <= high or named_inf):
            raise ValueError(f"is '{shown}', which {self.kind} cannot hold")
        return value

    def tensor(self):
        if self.classes is not None:  # numbered in the order of their names, whatever comes first
            ordered = sorted(self.classes)
            places = {self.classes[name]: i for i, name in enumerate(ordered)}
            self.values = array("q", (places[v] for v in self.values))
            self.classes = ordered
        import numpy as np

        kind = np.float64 if self.floats else np.int64
        values = np.array(self.values, dtype=kind)
        return _C.from_numpy(values).to(_C.get_device(), self.dtype)


@batched
class CSV(Dataset):
    """A table of text: sample i is (features [n], target) of its i-th row.

    `columns` gives what is read, by the names in the first row (or, with `header=False`, by number):
    {"width": pf.float32, "kind": str}; without it all are read, those of numbers alone as float32 with
    NaN where one is missing, the others as text. Text becomes the number of its class; `classes["kind"]` has
    their names, in order. `target` is one of them; without it samples are (features,). Features have
    the dtype that all their columns promote to. `column[name]` has a column as it was read.

    A row with too many or too few cells, a cell that is no value of its column's dtype, and one that
    is missing (empty, NA, N/A, NaN, null, None, ?) is a FileError with the number of its line, unless
    `fill` has a value for the missing ones of that column.
    """

    def __init__(
        self, path, columns=None, target=None, *, delimiter=",", header=True, encoding="utf-8",
        fill=None,
    ):  # fmt: skip
        path = path_text(path, "CSV")
        fill = fill or {}
        if columns is None:
            self._check({0: str}, None, {}, delimiter)
            columns, missing = _guess(path, delimiter, header, encoding)
            fill = {**missing, **fill}
        self._check(columns, target, fill, delimiter)
        kinds = [_Column(name, kind, fill.get(name)) for name, kind in columns.items()]
        with regular(path, "CSV") as file:
            self._read(path, file, kinds, delimiter, header, encoding)
        self.column = {k.name: k.tensor() for k in kinds}
        self.classes = {k.name: k.classes for k in kinds if k.kind is str}
        features = [t for name, t in self.column.items() if name != target]
        self.tensors = ()
        if features:
            dtype = features[0].dtype
            for t in features[1:]:
                dtype = _C.promote_types(dtype, t.dtype)
            self.tensors = (_ops.stack([t.to(dtype) for t in features], 1),)
        if target is not None:
            self.tensors += (self.column[target],)

    @staticmethod
    def _check(columns, target, fill, delimiter):
        if not isinstance(columns, dict) or not columns:
            raise _C.ValueError(
                f"pf.datasets.CSV: got columns {columns!r}; expected a dict from names to dtypes"
            )
        for name, kind in columns.items():
            if kind is not str and kind not in _DTYPES:
                raise _C.ValueError(
                    f"pf.datasets.CSV: got {kind!r} for column {name!r}; expected str or one of "
                    f"{', '.join(map(str, _DTYPES))}"
                )
        unknown = [n for n in (*fill, *([] if target is None else [target])) if n not in columns]
        if unknown:
            raise _C.ValueError(
                f"pf.datasets.CSV: got target or fill for {unknown[0]!r}; expected a name of columns"
            )
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
            raise _C.ValueError(
                f"pf.datasets.CSV: got delimiter {delimiter!r}; expected one character"
            )

    @staticmethod
    def _read(path, file, kinds, delimiter, header, encoding):
        def found(names):
            for kind in kinds:
                if names.count(kind.name) != 1:
                    how = "no" if kind.name not in names else "more than one"
                    raise ValueError(f"{how} column {kind.name!r}; expected one of {names[:20]}")
            places[:] = [names.index(kind.name) for kind in kinds]

        def take(row):
            for kind, place in zip(kinds, places):
                try:
                    kind.take(row[place])
                except ValueError as e:
                    raise ValueError(
                        f"column {kind.name!r} {e}; expected a value in each cell; pass fill= for "
                        "missing ones"
                    ) from None

        places = []
        _rows(path, file, delimiter, header, encoding, found, take)

    def __len__(self):
        return self.tensors[0].shape[0]

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    _batch = TensorDataset._batch


def _rows(path, file, delimiter, header, encoding, found, take):
    """Calls `found` with the names of a table's columns, then `take` with each row of as many cells.
    What the table is not, and a ValueError of these, is a FileError with the number of the line."""

    def bad(why):
        return _C.FileError(f"pf.datasets.CSV: '{path}' line {lines.line_num}: {why}")

    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    lines = csv.reader(_short_lines(text), delimiter=delimiter, strict=True)
    names = None
    try:
        for row in lines:
            if not row:  # an empty line
                continue
            try:
                if names is None:
                    names = [c.strip().removeprefix("\ufeff") for c in row]
                    names = names if header else list(range(len(row)))
                    found(names)
                    if header:
                        continue
                if len(row) != len(names):
                    raise ValueError(
                        f"{len(row)} cells; expected {len(names)} as in the first line; check the file"
                    )
                take(row)
            except UnicodeError:
                raise
            except ValueError as e:
                raise bad(e) from None
    except (csv.Error, UnicodeError) as e:
        raise bad(f"{e}; expected a table in {encoding}; check the file") from None
    except LookupError as e:
        raise _C.ValueError(f"pf.datasets.CSV: {e}; expected a known encoding") from None
    if names is None:
        raise damaged("CSV", path, "is empty", "a table")


def _guess(path, delimiter, header, encoding):
    """What columns hold, and what stands for a missing value of each."""
    names, number = [], []

    def found(all_names):
        if len(set(all_names)) != len(all_names):
            twice = next(n for n in all_names if all_names.count(n) > 1)
            raise ValueError(f"more than one column {twice!r}; expected names; pass columns=")
        names.extend(all_names)
        number.extend(_Column(n, _C.float32, float("nan")) for n in all_names)

    def take(row):
        for i, cell in enumerate(row):
            if number[i]:
                try:
                    number[i].take(cell)
                    number[i].values.pop()
                except ValueError:
                    number[i] = None

    with regular(path, "CSV") as file:
        _rows(path, file, delimiter, header, encoding, found, take)
    columns = {name: _C.float32 if as_number else str for name, as_number in zip(names, number)}
    return columns, {
        n: float("nan") if kind is not str else "missing" for n, kind in columns.items()
    }


def _short_lines(text):
    """Lines of a file, none so long that it fills the memory."""
    while line := text.readline(_MAX_LINE):
        if len(line) == _MAX_LINE and not line.endswith(("\n", "\r")):
            raise csv.Error(f"a line is longer than {_MAX_LINE} characters")
        yield line
