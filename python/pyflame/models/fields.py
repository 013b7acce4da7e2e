"""What the fields of a configuration must be: sizes have limits, so that nobody waits for what cannot
be."""

from .. import _C

MOST = 2**63 - 1


def whole(low, high=MOST):
    return lambda v: type(v) is int and low <= v <= high


def number(low, high, *, without_low=False):
    def good(v):
        return type(v) in (int, float) and low <= v <= high and not (without_low and v == low)

    return good


def flag(v):
    return type(v) is bool


SIZES = {
    "vocab": whole(1, 1 << 24),
    "layers": whole(1, 10_000),
    "width": whole(1, 1 << 17),
    "heads": whole(1, 1 << 17),
    "context": whole(1, 1 << 24),
    "hidden": whole(1, 1 << 20),
}


def wrong(values, fields):
    """What is wrong with the first field that is not as `fields` (name: predicate) say, or None."""
    if type(values) is not dict:
        return "it is no object"
    for name, good in fields.items():
        if name not in values:
            return f"it has no '{name}'"
        if not good(values[name]):
            return f"'{name}' is {str(values[name])[:40]!r}"
    return None


def check(values, fields, op):
    """ValueError unless all `fields` are as they say."""
    if why := wrong(values, fields):
        raise _C.ValueError(f"pf.{op}: got sizes that cannot be: {why}; check them")


class Given:
    """The object of a config.json, and errors that name it."""

    def __init__(self, values, path):
        self.values, self.path = values, path

    def __getitem__(self, name):
        value = self.values.get(name)
        if value is None:
            raise _C.FileError(
                f"pf.models: '{self.path}' has no '{name}'; expected the configuration of a model; "
                "check the folder"
            )
        return value

    def get(self, name, default=None):
        """A field; the default stands for null, too."""
        value = self.values.get(name)
        return default if value is None else value

    def refused(self, name, expected):
        return _C.NotSupportedError(
            f"pf.models: '{self.path}' has {name}={str(self.values.get(name))[:60]!r}; expected "
            f"{expected}; PyFlame's model has nothing else"
        )
