"""One difference that is meant."""

import math
import re
from dataclasses import dataclass, field


@dataclass
class Exempt:
    """Differences of these operations that match `pattern` are expected.

    `program` is looked for in the program: what it must have for the difference to be meant. An entry
    that none of the usual draws meets any more fails the test.
    """

    operations: tuple  # names, or () for any
    kind: str  # of the difference; several are joined by |
    pattern: str
    reason: str
    usual: bool = True  # occurs in the usual draws, or is wanted no more
    program: str = ""
    near: float = math.inf  # how far apart the two numbers may be, relative to the larger
    met: set = field(default_factory=set)

    def covers(self, case, difference):
        names = {case.op, case.op.removesuffix("_")}
        if self.operations and not names & set(self.operations):
            return False
        return (
            difference.kind in self.kind.split("|")
            and re.search(self.pattern, difference.text, re.S)
            and re.search(self.program, case.program(), re.S)
            and (self.near == math.inf or self._is_near(difference.text))
        )

    def _is_near(self, text):
        numbers = re.search(r"(\S+), not (\S+)$", text)
        got, want = (float(x) for x in numbers.groups())
        return abs(got - want) <= self.near * max(abs(got), abs(want))


def accepts(pattern, reason, *operations, usual=True, program=""):
    """PyFlame takes what PyTorch refuses with this text."""
    return Exempt(operations, "accepts", pattern, reason, usual, program)


def refuses(pattern, reason, *operations, usual=True, program=""):
    """PyFlame refuses with this text what PyTorch takes."""
    return Exempt(operations, "refuses", pattern, reason, usual, program)
