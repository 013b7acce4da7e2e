"""Every operation of the table with integers at the ends of 64 bits: what test_extreme_integers.py runs.

`python extreme_integers.py LOG` gives each integer argument of each row, one after the other, numbers
near +-2^63 and +-2^62. The call must raise a typed error, or give what it gives for a number that is
as good: a much smaller one of the same sign, or the same number modulo the size. The call that is
being made stands in LOG.
"""

import os
import random
import resource
import sys

import guards
import numpy as np

import pyflame as pf

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
EXTREME = [2**63 - 1, -(2**63), 2**63 - 2, -(2**63) + 1, 2**62, -(2**62), 2**61 + 1]
FREE = ("rand", "bernoulli", "normal", "dropout", "multinomial", "uniform", "exponential", "empty")
# Arguments whose amount is in the result.
AMOUNTS = {"correction"}
# Where only the remainder counts.
MODULO = {"roll": 12, "rot90": 4}


def stand_in(name, value):
    if name.rstrip("_") in MODULO:
        n = MODULO[name.rstrip("_")]
        return value % n
    return 10_000 if value > 0 else -10_000


def outcome(row, call):
    pf.manual_seed(0)
    try:
        results = guards.results_of(pf.ops.get(row["name"])(**call))
        values = [
            (list(r.shape), r.tolist()) if 0 < r.numel() < 5000 else "none or many" for r in results
        ]
        pf.synchronize()
        return values
    except (pf.PyFlameError, TypeError, OverflowError, MemoryError) as error:
        return error


def cases(dice):
    """(row, parameter, whether it is one integer) of every integer argument."""
    for row in pf.ops.table():
        if row["family"] == "test" or any(x in row["name"] for x in FREE) or dice.random() >= SHARE:
            continue
        for p in pf._C._parse_schema(row["schema"])["params"]:
            kind = p["annotation"].removesuffix(" | None")
            if "_int" in kind and p["name"] not in AMOUNTS:
                yield row, p["name"], kind == "_int"


def given(row, parameter, single, shape, value):
    rng = np.random.default_rng(1)
    call = guards.arguments(row, pf.float32, shape, False, False, rng)[0]
    pad = row["name"].endswith("pad")  # two for each dimension
    call[parameter] = value if single else (value,) * (2 if pad else 1)
    return outcome(row, call)


def main(path):
    pf.set_device(DEVICE)
    if DEVICE == "cpu":
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    wrong, done = [], 0
    with open(path, "w") as f:
        for case in cases(random.Random(0)):
            for shape in ((3, 4), (12,)):
                for value in EXTREME:
                    what = f"{case[0]['schema']} {case[1]}={value} {shape}"
                    f.seek(0)
                    f.write(what.ljust(400))
                    f.flush()
                    got = given(*case, shape, value)
                    done += 1
                    if isinstance(got, Exception):
                        continue
                    expected = given(*case, shape, stand_in(case[0]["name"], value))
                    if str(got) != str(expected):
                        wrong.append(f"{what}: {str(got)[:200]} but {str(expected)[:200]}")
    print(done)
    print("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1])
