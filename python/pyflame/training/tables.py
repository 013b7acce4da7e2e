"""Tables to learn from: what is predicted from what, which rows are held out, and in which units."""

import hashlib
import json

from .. import _C
from ..datasets.table import CSV

_CLASSES = 32  # a text column of more is a name, not a kind; a target of whole numbers of more is an amount


def _bad(table, why, expected, fix):
    return _C.ValueError(f"pf.train: '{table}' {why}; expected {expected}; {fix}")


def _digits():
    from ..datasets.digits import Digits

    try:
        digits = Digits()
    except _C.NotSupportedError as e:
        raise _C.NotSupportedError(f"{e}, or name a table with --data") from None
    images, labels = (t.cpu().numpy() for t in digits.tensors)
    columns = {f"pixel{i}": c for i, c in enumerate(images.reshape(len(images), -1).T)}
    return {**columns, "digit": labels}, {}


def _read(path, delimiter):
    """The columns of a table as NumPy arrays, and the names of the classes of those of text."""
    if path == "digits":
        return _digits()
    table = CSV(path, delimiter=delimiter)
    columns = {name: t.cpu().numpy() for name, t in table.column.items()}
    return columns, {name: table.classes[name] for name in table.classes}


class Table:
    """The rows of a table as two pairs of arrays, `train` and `held_out`: features float32 [rows,
    `input_size`] with mean 0 and deviation 1 over the rows to learn from, and the target: float32 in
    such units too (`task` "regression"), or the number of a class ("classification").

    What is missing in a column of numbers becomes its mean. A column of text becomes a feature for
    each of its classes. Rows without a target are left out. `notes` says what was done.
    """

    def __init__(self, path, *, target=None, task="auto", held_out=0.2, split="random", seed=1,
                 data_fraction=1.0, delimiter=","):  # fmt: skip
        import numpy as np

        self.name, self.notes = path, []
        columns, classes = _read(path, delimiter)
        self.target = self._target(columns, target)
        y = columns.pop(self.target)
        text = self.target in classes
        keep = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), bool)
        if text and "missing" in classes[self.target]:
            keep = y != classes[self.target].index("missing")
        if not keep.all():
            self.notes.append(f"left out {(~keep).sum()} rows in which '{self.target}' is missing")
        rows = np.flatnonzero(keep)
        rows = rows[: max(1, round(len(rows) * data_fraction))] if data_fraction < 1 else rows
        if len(rows) < 2:
            raise _bad(path, f"has {len(rows)} row{'s' * (len(rows) != 1)} with a target",
                       "at least 2, one of them to be held out", "use a longer table")  # fmt: skip
        learn, held = self._split(len(rows), held_out, split, seed)
        y = y[rows]
        self._set_target(y, learn, text, classes.get(self.target), task)
        x = self._features(columns, classes, rows, learn)
        self.input_size = x.shape[1]
        y = self.encoded(y)
        self.train, self.held_out = (x[learn], y[learn]), (x[held], y[held])
        about = json.dumps([self.target, self.task, self.features, sorted(map(int, held))])
        sums = hashlib.sha256(about.encode())
        sums.update(np.ascontiguousarray(x).tobytes() + np.ascontiguousarray(y).tobytes())
        self.fingerprint = sums.hexdigest()

    def _target(self, columns, target):
        names = list(columns)
        target = names[-1] if target is None else target
        if target not in columns:
            raise _bad(
                self.name, f"has no column '{target}'", f"one of {names[:20]}", "check --target"
            )
        if len(names) < 2:
            raise _bad(self.name, "has one column", "features and a target", "use another table")
        return target

    def _split(self, n, share, split, seed):
        import numpy as np

        held = min(max(1, round(n * share)), n - 1)
        if split == "order":
            return np.arange(n - held), np.arange(n - held, n)
        order = np.random.Generator(np.random.Philox(seed)).permutation(n)
        return np.sort(order[held:]), np.sort(order[:held])

    def _set_target(self, y, learn, text, names, task):
        import numpy as np

        if np.isinf(y.astype(np.float64)).any():
            raise _bad(
                self.name, f"has an infinite '{self.target}'", "finite numbers", "correct it"
            )
        values = np.unique(y)
        whole = text or bool(np.all(values == np.round(values)))
        if task == "auto":
            task = "classification" if text or (whole and len(values) <= _CLASSES) else "regression"
        if task == "regression" and text:
            raise _bad(self.name, f"has text in '{self.target}'", "numbers for a regression",
                       "use --task classification")  # fmt: skip
        if len(np.unique(y[learn])) < 2:
            raise _bad(self.name, f"has the one value {names[int(y[0])] if text else y[0]} of "
                       f"'{self.target}' in all rows to learn from",
                       "a target that differs", "choose another --target")  # fmt: skip
        self.task = task
        if task == "classification":
            self.values = values
            self.classes = [names[int(v)] if text else str(v) for v in values]
            self.output_size = len(values)
        else:
            self.classes, self.output_size = None, 1
            known = y[learn].astype(np.float64)
            self.mean, self.deviation = float(known.mean()), float(known.std())

    def encoded(self, y):
        """A target as the model learns it."""
        import numpy as np

        if self.task == "classification":
            return np.searchsorted(self.values, y).astype(np.int64)
        return ((y - self.mean) / self.deviation).astype(np.float32)

    def _features(self, columns, classes, rows, learn):
        import numpy as np

        self.features, made = [], []
        for name, values in columns.items():
            values = values[rows]
            if name in classes:
                kinds = np.unique(values)
                if len(kinds) > min(_CLASSES, max(2, len(rows) // 2)):
                    self.notes.append(
                        f"left out column '{name}': {len(kinds)} different texts in {len(rows)} rows"
                    )
                    continue
                for kind in kinds:
                    self.features.append(f"{name}={classes[name][int(kind)]}")
                    made.append((values == kind).astype(np.float64))
                continue
            values = values.astype(np.float64)
            if np.isinf(values).any():
                raise _bad(self.name, f"has an infinite value in column '{name}'", "finite numbers",
                           "correct or remove it")  # fmt: skip
            missing = np.isnan(values)
            if missing[learn].all():
                self.notes.append(
                    f"left out column '{name}': it is missing in all rows to learn from"
                )
                continue
            if missing.any():
                self.notes.append(f"column '{name}': its mean for {missing.sum()} missing values")
                values = np.where(missing, values[learn][~missing[learn]].mean(), values)
            self.features.append(str(name))
            made.append(values)
        if not made:
            raise _bad(self.name, "has no column that can be learned from", "a column of numbers, or of "
                       "a few texts", "add one")  # fmt: skip
        x = np.stack(made, 1)
        self.means, self.deviations = x[learn].mean(0), x[learn].std(0)
        self.deviations[self.deviations < 1e-12] = 1.0
        return ((x - self.means) / self.deviations).astype(np.float32)

    def baseline(self):
        """What always saying the most frequent class, or the mean, reaches on the held-out rows."""
        import numpy as np

        learned, held = self.train[1], self.held_out[1]
        if self.task == "classification":
            return float(np.mean(held == np.bincount(learned).argmax()))
        return float(np.sqrt(np.mean(held.astype(np.float64) ** 2))) * self.deviation
