"""pf.compile of parts of random programs: each of ten calls gives what it gives without a capture.

`PYFLAME_REGIONS=20000` draws so many, from PYFLAME_REGIONS_FIRST on; run as a script this file takes the
numbers `FIRST COUNT` and prints those that differ.
"""

import os
import sys
import warnings

import pytest
import region_programs

import pyflame as pf

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
# A stand-in for a GPU compiles each kernel of each program.
COUNT = int(os.environ.get("PYFLAME_REGIONS", "300" if DEVICE in ("cpu", "paranoid") else "10"))
FIRST = int(os.environ.get("PYFLAME_REGIONS_FIRST", "0"))
PARTS = 10


def differing(numbers):
    """(those whose programs differ, with how; calls that were replayed in all)."""
    found, replays = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            what, replayed = region_programs.difference(region_programs.Program(number), DEVICE)
            replays += replayed
            if what:
                found[number] = what
    return found, replays


@pytest.mark.parametrize("part", range(PARTS))
def test_random_regions(part):
    numbers = range(FIRST + part, FIRST + COUNT, PARTS)
    found, replays = differing(numbers)
    for number, what in found.items():
        print(f"{number}: {what}\n{region_programs.Program(number)}\n")
    assert not found
    assert replays > len(numbers) or COUNT < 100  # of ten times as many calls


if __name__ == "__main__":
    pf.set_default_device(DEVICE)
    first, count = map(int, sys.argv[1:3])
    for number in range(first, first + count):
        found, _ = differing([number])
        for what in found.values():
            print(f"{number}: {what}\n{region_programs.Program(number)}\n", flush=True)
