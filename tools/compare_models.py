"""What tools/gpu_models.sh found, as a table: for each model whether it ran here and with PyTorch, how far the
losses and norms of gradients of its three steps are apart (relative), and the times of a forward pass and of
a step, ours / PyTorch's in ms. What is not alike comes first.

PyTorch's runs in float64 are the referee: networks in which rounding grows are judged by how far PyTorch itself
is from them, or weights stirred by a few roundings lead (a ReLU at 1e-7 has one slope or the other). Usage: compare_models.py RESULTS"""

import json
import math
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path

# Apart by, relative: float32, and what is calculated in bfloat16. Or not farther from float64 than
# so many times PyTorch's own distance or that of stirred weights.
FLOAT, SHORT, AS_FAR, CHAOS = 1e-5, 2e-2, 4, 0.1
REFEREES = (" f64", " f64 1", " f64 2", " f64 3")


class Side:
    """What the runs of one side say, in files SIDE.*.jsonl; of runs alone on the device in alone.SIDE.*.jsonl."""

    def __init__(self, folder, side):
        self.asked, self.values, self.errors, self.times = set(), {}, {}, {}
        for path in (
            *sorted(folder.glob(f"{side}.*.jsonl")),
            *sorted(folder.glob(f"alone.{side}.*.jsonl")),
        ):
            alone = path.name.startswith("alone")
            for line in path.read_text(errors="replace").splitlines():
                try:
                    said = json.loads(line)
                except json.JSONDecodeError:
                    continue  # other output, or a line that a time-out cut
                if isinstance(said, dict):
                    self.add(said, alone)

    def add(self, said, alone):
        if "names" in said and not alone:
            self.asked |= set(said["names"])
        name = said.get("name")
        if "values" in said:
            self.values.setdefault(name, said["values"])
        elif "error" in said:
            self.errors.setdefault(name, said["error"])
        elif "step" in said:
            self.times[name] = (said["forward"], said["step"], alone)

    def state(self, name):
        if name in self.values:
            values = self.values[name]
            return "NaN" if any(map(math.isnan, values)) else "ran" if any(values) else "zeros"
        if name in self.errors:
            return "raised"
        return "cut" if name in self.asked else "not there"


def distance(a, b):
    """How far values are apart: in the first, and at most. What is infinite on both sides is alike."""
    each = [0.0 if x == y else abs(x - y) / (abs(y) + 1e-6) for x, y in zip(a, b)]
    each = [math.inf if math.isnan(e) else e for e in each]
    return each[0], max(each)


def as_far(values, others, exact):
    """Whether values are about as near to exact ones as the farthest of others."""
    limits = map(max, *(distance(o, exact) for o in others), (0.0, 0.0))
    return all(a <= AS_FAR * b for a, b in zip(distance(values, exact), limits))


def compared(name, ours, theirs):
    """The verdict on a model, which begins with "alike" where it is, and its distances as text."""
    here, there = ours.state(name), theirs.state(name)
    if (here, there) != ("ran", "ran"):
        return (
            f"{here} on both sides" if here == there else f"{here} here, {there} with PyTorch"
        ), ""
    short = name.endswith(" bf16")
    first, most = distance(ours.values[name], theirs.values[name])
    text = f"{first:.0e} {most:.0e}"
    runs = [theirs.values.get(name.removesuffix(" bf16") + k) for k in REFEREES]
    exact, *stirred = [r for r in runs if r and not any(map(math.isnan, r))] or [None]
    rounding = False
    if exact:
        may = [theirs.values[name]] + ([] if short else stirred)
        near, own, *wide = (distance(v, exact) for v in (ours.values[name], *may))
        text += f"  f64: {near[1]:.0e}/{own[1]:.0e}"
        if wide:
            text += f" ({max(w[1] for w in wide):.0e})"
        # Where float64 itself goes apart, later steps say nothing.
        steps = 2 if max(w[1] for w in (own, *wide)) > CHAOS else None
        rounding = as_far(ours.values[name][:steps], [v[:steps] for v in may], exact[:steps])
    if most <= (SHORT if short else FLOAT):
        return "alike", text
    if rounding:
        return "alike: as rounding goes", text
    return "apart", text


def rows(ours, theirs):
    names = ours.asked | theirs.asked | ours.values.keys() | theirs.values.keys()
    for name in sorted(n for n in names if not n.endswith(REFEREES)):
        verdict, apart = compared(name, ours, theirs)
        times = []
        for which in (0, 1):
            pair = [side.times[name] if name in side.times else None for side in (ours, theirs)]
            times.append(" / ".join(f"{t[which]:.2f}" if t else "-" for t in pair))
        alone = all(name in side.times and side.times[name][2] for side in (ours, theirs))
        error = ours.errors.get(name) or theirs.errors.get(name, "")
        yield verdict, name, apart, *times, "alone" if alone else "", error


def order(verdict):
    """What raises or differs, what did not come to its end, what is alike."""
    return 2 if verdict.startswith("alike") else 1 if re.search("cut|not there", verdict) else 0


def table(folder):
    ours, theirs = Side(folder, "ours"), Side(folder, "theirs")
    found = sorted(rows(ours, theirs), key=lambda r: (order(r[0]), r[0], r[1]))
    counts = Counter(r[0] for r in found)
    yield "; ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    yield f"{'model':45} {'apart: first, most':34} {'forward':>15} {'step':>15}"
    for verdict in counts:
        yield f"-- {verdict}"
        bare = []
        for _, name, apart, forward, step, alone, error in (r for r in found if r[0] == verdict):
            if apart or error:
                yield f"{name:45} {apart:34} {forward:>15} {step:>15} {alone}".rstrip()
            else:
                bare.append(name)
            if error:
                yield f"    {error[:160]}"
        if bare:
            yield textwrap.fill(", ".join(bare), 116, initial_indent="  ", subsequent_indent="  ")


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]))))
