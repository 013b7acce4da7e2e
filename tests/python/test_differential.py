"""Every operation of the table beside PyTorch's, on drawn arguments: see differential/__init__.py.

PYFLAME_DIFFERENTIAL=50 draws fifty times as many, with other seeds by PYFLAME_TEST_SEED.
"""

import os

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")

from differential import compare, draw, exceptions, hints  # noqa: E402

torch.set_num_threads(1)
DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
MORE = float(os.environ.get("PYFLAME_DIFFERENTIAL", "1"))
USUAL = MORE == 1 and DEVICE == "cpu"
SEED = os.environ.get("PYFLAME_TEST_SEED", "") if MORE > 1 else ""
# Elsewhere the same kernels are compared with the CPU's by other tests: fewer draws are enough.
STANDIN = "standin" in os.environ.get("PYFLAME_HIP_LIBRARY", "")
SHARE = MORE if DEVICE == "cpu" else MORE / 12 if STANDIN else MORE / 6
ACCEPTED, REFUSED, TRIES = int(24 * SHARE), int(8 * SHARE), int(90 * SHARE)

ROWS = {}
for _row in pf.ops.table():
    if not _row["name"].startswith("test_"):
        ROWS.setdefault(_row["name"], []).append(_row)


def find(module, path):
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def places(name):
    """Where both modules have this operation."""
    rows, both = ROWS[name], []
    spots = [
        ("function", name, any(r["function"] for r in rows)),
        ("method", f"Tensor.{name}", any(r["method"] for r in rows)),
        ("functional", f"nn.functional.{name}", any(r["functional"] for r in rows)),
        ("linalg", name.replace("_", ".", 1), name.startswith("linalg_")),
        ("operator", f"Tensor.{name}", name in hints.OPERATORS),
    ]
    for place, path, ours in spots:
        theirs = find(torch, path)
        if not ours or not callable(theirs) or not callable(find(pf, path)):
            continue
        both.append(place)
    if len(both) > 1 and both[0] == "function" and not find(torch, name).__doc__:
        del both[0]  # what a function of nn.functional calls, with numbers for texts
    return both


DRAWN = [name for name in sorted(ROWS) if places(name) and name not in exceptions.ELSEWHERE]


def forms(name, place):
    ours = [draw.our_form(pf._C._parse_schema, row["schema"]) for row in ROWS[name]]
    theirs = []
    if place == "functional":
        theirs = draw.python_forms(find(torch, f"nn.functional.{name}"))
    if not theirs:
        theirs = draw.aten_forms(torch, name)
    return ours, theirs


def cases(name):
    """Programs for this operation with PyTorch's run of each: as many as are wanted."""
    yield from drawn(name, draw.generator(name, SEED), draw.MAIN, ACCEPTED, REFUSED, TRIES)
    rng = draw.generator(name, f"{SEED}:complex")
    yield from drawn(name, rng, list(draw.COMPLEX), ACCEPTED // 4, REFUSED // 4, TRIES // 6)


def drawn(name, rng, dtypes, wanted, unwanted, tries, degenerate=None):
    """`wanted` that PyTorch takes and `unwanted` that it refuses, in so many tries."""
    spots = [(p, *forms(name, p)) for p in places(name)]
    is_random = any(row["family"] == "random" for row in ROWS[name]) or name in hints.RANDOM
    accepted = refused = 0
    for _ in range(tries):
        if accepted >= wanted and refused >= unwanted:
            return
        place, ours, theirs = rng.choice(spots)
        form = rng.choice(theirs if theirs and rng.random() < 0.4 else ours)
        case = draw.draw(rng, name, place, form, dtypes, degenerate and rng.choice(degenerate))
        if case is None or draw.crashes(case):
            continue
        case.undefined = is_random or name in hints.UNDEFINED
        case.unordered = name in hints.TIES
        code = compare.compiled(case)
        side = compare.Side(torch, case, code)
        if side.error is None and accepted < wanted:
            accepted += 1
            yield case, code, side, rng
            one = isinstance(side.result, torch.Tensor)
            if one and place == "function" and rng.random() < 0.35:
                kind = compare.kind_of(side.result.dtype)
                case = draw.with_out(rng, case, tuple(side.result.shape), kind)
                code = compare.compiled(case)
                side = compare.Side(torch, case, code)
                if not isinstance(side.error, TypeError):  # the function takes out=
                    yield case, code, side, rng
        elif side.error is not None and refused < unwanted:
            refused += 1
            yield case, code, side, rng


def differences(name):
    """Every difference of the drawn cases: case, what differs, and a description."""
    for case, code, theirs, rng in cases(name):
        ours = compare.Side(pf, case, code)
        difference = compare.judge(case, ours, theirs)
        if difference is None and theirs.error is None and not case.undefined:
            difference = compare.gradients(case, ours, theirs, rng)
        if difference is None and theirs.error is None:
            difference = compare.aliases(case, ours, theirs)
        if difference is not None:
            yield case, difference, f"{case.program()}\n# {difference}"


def degenerate(name):
    """Gradients that PyTorch has where factors vanish or coincide, and ours has otherwise."""
    rng = draw.generator(name, f"{SEED}:degenerate")
    kinds = list(draw.DEGENERATE)
    for case, code, theirs, dice in drawn(
        name, rng, ["float64"], ACCEPTED // 2, 0, TRIES // 4, kinds
    ):
        if theirs.error is not None or case.undefined or case.bad:
            continue
        ours = compare.Side(pf, case, code)
        difference = compare.judge(case, ours, theirs) or compare.gradients(
            case, ours, theirs, dice, where_finite=True
        )
        if difference is not None:
            yield case, difference, f"{case.program()}\n# {difference}"


RAN = set()


@pytest.mark.parametrize("name", DRAWN)
def test_operation(name):
    RAN.add(name)
    found = []
    for case, difference, description in differences(name):
        entry = exceptions.find(case, difference)
        if entry is None:
            found.append(description)
        else:
            entry.met.add(name)
    if found:
        told(found)


def told(found):
    text = "\n\n".join(found[:5])
    pytest.fail(
        f"{len(found)} differences; the programs run with `import pyflame as m` and with\n"
        f"`import torch as m`, after `from math import inf, nan`:\n\n{text}",
        pytrace=False,
    )


@pytest.mark.parametrize("name", DRAWN)
def test_gradients_where_factors_vanish_or_coincide(name):
    """Zero times infinity in a formula is NaN; PyTorch's finite gradient is the right one."""
    found = [text for case, d, text in degenerate(name) if exceptions.find(case, d) is None]
    if found:
        told(found)


def test_every_operation_is_drawn():
    missing = [
        n
        for n in ROWS
        if n not in DRAWN and n not in exceptions.NOT_DRAWN and n not in exceptions.ELSEWHERE
    ]
    assert not missing, f"neither drawn nor in NOT_DRAWN: {missing}"
    assert not [n for n in exceptions.NOT_DRAWN if n in DRAWN or n not in ROWS]


def test_every_exception_occurs():
    if not USUAL or RAN != set(DRAWN):
        pytest.skip("needs the usual draws of the whole file")
    gone = [
        (e.operations or "any", e.kind, e.pattern)
        for e in exceptions.EXEMPT
        if e.usual and not e.met
    ]
    assert not gone, f"no draw meets these entries of differential/exceptions.py any more: {gone}"


def test_programs_are_the_same_every_time():
    first = [case.program() for case, *_ in cases("add")]
    assert first == [case.program() for case, *_ in cases("add")]
