"""How the rows of a packed dimension belong to components: offsets, and what follows from them."""

import functools
import itertools

from .. import _C, _ops

_numbers = itertools.count(1)


class Ragged(int):
    """The size of a dimension that differs from component to component: equal to itself alone. It is no
    number to calculate with."""

    def __new__(cls):
        number = next(_numbers)
        self = super().__new__(cls, -number - 1)
        self._name = f"j{number}"
        return self

    def __repr__(self):
        return self._name

    __str__ = __repr__

    def _no_number(self, *others):
        raise TypeError(
            f"pf.nested: got {self._name}, a size that differs from component to component, in a calculation; "
            "expected a number; take the lengths by offsets().diff()"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __neg__ = (
        _no_number
    )
    __truediv__ = __mod__ = __rfloordiv__ = __rtruediv__ = __pow__ = __lt__ = __le__ = _no_number


class Rows:
    """Component i has the rows from offsets[i] to offsets[i + 1]; `offsets` [components + 1] begins with 0
    and ends with the number of rows. What the host has to know of them is read once."""

    def __init__(self, offsets, host=None):
        self.offsets, self.count = offsets, offsets.shape[0] - 1
        self.size = Ragged()
        if host is not None:
            self.host = host

    @functools.cached_property
    def host(self):
        """The offsets as a list."""
        return self.offsets.tolist()

    @functools.cached_property
    def host_lengths(self):
        """The length of each component."""
        return [b - a for a, b in itertools.pairwise(self.host)]

    @property
    def total(self):
        return self.host[-1]

    @functools.cached_property
    def longest(self):
        return max(self.host_lengths, default=0)

    @functools.cached_property
    def shortest(self):
        return min(self.host_lengths, default=0)

    @functools.cached_property
    def lengths(self):
        return self.offsets[1:] - self.offsets[:-1]

    @functools.cached_property
    def row(self):
        """The component of each row."""
        each = _ops.arange(self.count, device=self.offsets.device)
        return _ops.repeat_interleave(each, self.lengths, output_size=self.total)

    @functools.cached_property
    def position(self):
        """The place of each row in its component."""
        every = _ops.arange(self.total, device=self.offsets.device)
        return every - self.offsets[:-1].index_select(0, self.row)

    @functools.cached_property
    def starts(self):
        """The offsets as attention takes them."""
        return self.offsets.to(_C.int32)

    def flat(self, width):
        """The place of each row where every component has `width` places."""
        return self.row * width + self.position

    def to(self, device):
        """The same on another device."""
        if self.offsets.device == device:
            return self
        moved = Rows(self.offsets.to(device), self.__dict__.get("host"))
        moved.size = self.size
        return moved

    def same(self, other):
        """Whether both cut rows alike."""
        return self is other or self.size is other.size or self.host == other.host


def of_lengths(lengths, device, dtype=_C.int64):
    """Rows of components of these lengths, a list."""
    host = [0, *itertools.accumulate(lengths)]
    return Rows(_C.tensor(host, dtype=dtype, device=device), host)
