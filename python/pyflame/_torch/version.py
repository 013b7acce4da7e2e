"""torch.__version__: text that compares as a version."""

import re

# PyTorch's release whose names and behaviour PyFlame has; the local part says who it is.
TORCH = "2.13.0"
TEXT = TORCH + "+pyflame"

_FORM = re.compile(
    r"\s*v?(?P<numbers>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<early>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<early_number>\d*))?"
    r"(?:(?:-|[-_.]?(?P<post>post|rev|r)[-_.]?)(?P<post_number>\d+))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*",
    re.IGNORECASE,
)
_EARLY = {"a": 0, "alpha": 0, "b": 1, "beta": 1}
_FINAL, _DEV_ONLY = (9, 0), (-1, 0)


def key(version):
    """What orders versions as PEP 440 does; None when it is none."""
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    found = _FORM.fullmatch(version) if isinstance(version, str) else None
    if found is None:
        return None
    numbers = [int(n) for n in found["numbers"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    if found["early"]:
        early = _EARLY.get(found["early"].lower(), 2), int(found["early_number"] or 0)
    else:
        alone = found["dev"] and not found["post_number"]
        early = _DEV_ONLY if alone else _FINAL
    post = int(found["post_number"]) if found["post_number"] else -1
    dev = int(found["dev_number"] or 0) if found["dev"] else 1 << 62
    local = re.split(r"[-_.]", (found["local"] or "").lower())
    parts = tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in local if p)
    return tuple(numbers), early, post, dev, parts


def _compared(name, order):
    def compare(self, other):
        theirs = key(other)
        if theirs is None:  # as text, like any other
            return getattr(str, name)(self, other) if isinstance(other, str) else NotImplemented
        return order(key(str(self)), theirs)

    compare.__name__ = name
    return compare


class TorchVersion(str):
    """A version as text. It compares by its numbers, with text and tuples: "2.13.0" > "2.9"."""

    __lt__ = _compared("__lt__", lambda a, b: a < b)
    __le__ = _compared("__le__", lambda a, b: a <= b)
    __gt__ = _compared("__gt__", lambda a, b: a > b)
    __ge__ = _compared("__ge__", lambda a, b: a >= b)
    __eq__ = _compared("__eq__", lambda a, b: a == b)
    __ne__ = _compared("__ne__", lambda a, b: a != b)
    __hash__ = str.__hash__
