"""Programs with workers of a DataLoader, drawn at random, run under PyTorch and under PyFlame, each in a process of
its own: drawn_workers.py draws them. PYFLAME_BESIDE as in test_beside_drawn.py, a fifth of it here."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

import drawn_workers
import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.cpu_only
COUNT = max(int(os.environ.get("PYFLAME_BESIDE", "60")) // 5, 1)
FIRST = int(os.environ.get("PYFLAME_BESIDE_FIRST", "0"))


def start(module, to):
    program = pathlib.Path(drawn_workers.__file__)
    return subprocess.Popen(
        [sys.executable, str(program), module, str(FIRST), str(COUNT), str(to)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=program.parent, start_new_session=True,
    )  # fmt: skip


def given(tmp_path):
    """What the lines of each program gave here and there."""
    paths = [tmp_path / "pyflame", tmp_path / "torch"]
    children = [start(path.name, path) for path in paths]
    try:
        for c in children:
            assert c.wait(timeout=60 + drawn_workers.LIMIT * COUNT) == 0
    finally:
        for c in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(c.pid, signal.SIGKILL)  # workers that are left, too
    ours, theirs = ([json.loads(text) for text in p.read_text().splitlines()] for p in paths)
    assert [s for s, _ in ours] == [s for s, _ in theirs] == list(range(FIRST, FIRST + COUNT))
    return [(seed, a, b) for (seed, a), (_, b) in zip(ours, theirs)]


def differs(ours, theirs):
    if ours[0] == "raised" and theirs[0] == "raised":
        plain = set(theirs[1]) - {"AssertionError"}  # PyTorch's are checks
        return None if plain <= set(ours[1]) else f"raised {ours[2]}, not {theirs[2]}"
    if ours[0] != theirs[0]:
        return f"{ours[-1]}, not {theirs[-1]}"
    return None if ours[1] == theirs[1] else f"{ours[1]}, not {theirs[1]}"


def first_difference(lines, ours, theirs):
    gone = set()
    if ours is None:
        return "\n".join(lines) + "\ndid not end"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        name = re.match(r"(\w+) = ", lines[i])
        if gone & set(re.findall(r"\w+", lines[i])):
            if not name:
                break
            gone.add(name[1])
            continue
        if found := differs(a, b):
            return "\n".join(lines[: i + 1]) + f"\n{found}"
        if a[0] == "raised":
            if not name:
                break
            gone.add(name[1])
    return None


def test_workers_as_pytorch(tmp_path):
    found, compared = [], 0
    for seed, ours, theirs in given(tmp_path):
        if theirs is None:  # PyTorch did not end
            continue
        compared += 1
        if text := first_difference(drawn_workers.workers(random.Random(seed)), ours, theirs):
            found.append(f"{seed}\n{text}")
    assert not found, f"{len(found)} differ\n" + "\n\n".join(found[:5])
    assert compared > COUNT // 2
