"""Random groups of pointwise operations, reductions and casts over operands of any layout: fused
equals PYFLAME_EAGER=1 bit for bit, and so does every repetition."""

import os
import random
from functools import partial

import numpy as np
import pytest

import pyflame as pf

pytestmark = pytest.mark.kernels

SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
GROUPS = 60
DTYPES = (
    [pf.float32] * 4 + [pf.bfloat16] * 2 + [pf.float16, pf.float64, pf.int32, pf.int64, pf.bool]
)
SHAPES = [(37,), (4, 33), (64, 128), (5, 1, 16), (3, 40, 7), (1,), (0, 3), (130, 4)]


def rows():
    """Pointwise rows of one or two tensors; whatever else they take has a default."""
    found = []
    for row in pf.ops.table():
        pointwise = "Formula:" in row["doc"] and row["function"] and row["family"] != "test"
        if not pointwise or row["name"].endswith("_"):
            continue
        needed = [p for p in pf._C._parse_schema(row["schema"])["params"] if p["default"] is None]
        if all(p["annotation"] == "Tensor" for p in needed) and len(needed) in (1, 2):
            found.append((row["name"], len(needed)))
    return sorted(set(found))


ROWS = rows()


def leaf(dice, shape):
    """A tensor that broadcasts to shape, often not dense."""
    own = [1 if n > 1 and dice.random() < 0.15 else n for n in shape]
    if dice.random() < 0.1 and len(own) > 1:
        own = own[1:]
    kind = dice.choice(["plain", "plain", "turned", "sliced", "shifted"])
    dtype = dice.choice(DTYPES)
    if kind == "turned":
        t = (pf.randn(*own[::-1]) * 2).to(dtype)
        return t.permute(*reversed(range(len(own))))
    if kind == "sliced":
        return (pf.randn(*[2 * n for n in own]) * 2).to(dtype)[
            tuple(slice(1, None, 2) for _ in own)
        ]
    if kind == "shifted":
        return (pf.randn(*[n + 1 for n in own]) * 2).to(dtype)[tuple(slice(1, None) for _ in own)]
    return (pf.randn(*own) * 2).to(dtype)


def program(dice):
    """Leaves, and steps: (what, which values it takes, by their place)."""
    shape = dice.choice(SHAPES)
    leaves = [leaf(dice, shape) for _ in range(dice.randint(1, 4))]
    n, steps = len(leaves), []
    for _ in range(dice.randint(2, 12)):
        kind = dice.random()
        # Mostly values that were made just now: they are still pending.
        take = [n - 1 - min(int(dice.expovariate(0.7)), n - 1) for _ in range(2)]
        if kind < 0.75:
            name, arity = dice.choice(ROWS)
            steps.append(("row", name, take[:arity]))
        elif kind < 0.88:
            steps.append(("to", dice.choice(DTYPES), take[:1]))
        elif kind < 0.95:
            steps.append((dice.choice(["sum", "amax", "mean"]), dice.choice([0, -1]), take[:1]))
        else:
            steps.append(("scalar", dice.choice([2, -1, 0.5, 3.0]), take[:1]))
        n += 1
    drop = {i for i in range(n) if dice.random() < 0.4}
    return leaves, steps, drop


def results(leaves, steps, drop, made):
    """What was kept; names of errors are added to `made`."""
    values = list(leaves)
    for what, which, take in steps:
        operands = [values[i] for i in take]
        try:
            if what == "row":
                out = getattr(pf, which)(*operands)
            elif what == "to":
                out = operands[0].to(which)
            elif what == "scalar":
                out = operands[0] * which
            else:
                out = getattr(operands[0], what)(which, keepdim=True)
        except pf.PyFlameError as error:
            made.append(type(error).__name__)
            out = operands[0]
        values.append(out)
    return [v for i, v in enumerate(values) if i not in drop or i == len(values) - 1]


def run(leaves, steps, drop, results=results):
    """The bytes of what was kept, or the name of the error in its place."""
    pf.manual_seed(1)  # rows such as dropout
    made = []
    kept = results(leaves, steps, drop, made)
    for t in kept[::-1]:
        values = (t.float() if t.dtype == pf.bfloat16 else t).contiguous().cpu().numpy()
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), np.nan, values)  # nobody promises a NaN's sign
        made.append((t.dtype, tuple(t.shape), values.tobytes()))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_fused_equals_eager(seed):
    done = 0
    for i in range(GROUPS):
        dice = random.Random(1000 * seed + i)
        if dice.random() >= SHARE:
            continue
        pf.manual_seed(i)
        case = program(dice)
        fused = run(*case)
        with pf.debug.eager():
            eager = run(*case)
        for repeat in range(3 if i % 10 else 20):
            assert run(*case) == fused, (seed, i, repeat)
        assert fused == eager, (seed, i, case[1])
        done += any(isinstance(m, tuple) for m in fused)
    assert done > 0.5 * SHARE * GROUPS or SHARE < 1


def captured_program(rest, steps, drop):
    """A function of the first leaves, whose second call is captured; it takes more arguments."""
    compiled = pf.compile(
        lambda *first: results([*first, *rest], steps, drop, []), mode="reduce-overhead"
    )
    return compiled, lambda first, *unused: compiled(*first)


@pytest.mark.parametrize("seed", range(2))
def test_captured_equals_recorded(seed):
    """Leaves are arguments of a captured function where they can be, or are read by it."""
    replayed = 0
    for i in range(GROUPS):
        dice = random.Random(1000 * seed + i + 500)
        if dice.random() >= SHARE:
            continue
        pf.manual_seed(i)
        leaves, steps, drop = program(dice)
        given = dice.randint(0, len(leaves))
        compiled, captured = captured_program(leaves[given:], steps, drop)
        want = run(leaves, steps, drop)
        for repeat in range(5):
            # What the program changes nothing of; arguments in other memory at each call.
            first = [t.clone() for t in leaves[:given]]
            got = run(leaves, steps, drop, partial(captured, first))
            named = [m for m in want if isinstance(m, str)]
            assert got == want[len(named) :], (seed, i, repeat, steps)
        replayed += compiled._step.replays > 0
    assert replayed > 0.5 * SHARE * GROUPS or SHARE < 1


def test_the_rows_are_found():
    assert len(ROWS) > 100 and {("add", 2), ("exp", 1)} <= set(ROWS)
