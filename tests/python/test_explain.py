"""pf.explain, and slow ways in strict mode."""

import json

import pytest

import pyflame as pf
import pyflame.nn.functional as F


@pytest.fixture(autouse=True)
def _at_home():
    pf.set_device("cpu")
    yield
    pf.set_strict(False)


def test_groups_with_anchor_prologue_and_epilogue(tmp_path):
    x, w, b = pf.randn(4, 8), pf.randn(3, 8), pf.randn(3)
    pf.flush()
    with pf.explain() as report:
        y = F.linear(x.exp() * 2, w, b).relu() + 1
        y.tolist()
    (group,) = report.groups
    assert group["prologue"] == ["exp", "mul"] and group["epilogue"] == ["relu", "add"]
    assert group["anchor"] == "matmul" and group["library_epilogue"] == "bias"
    assert group["shape"] == "[4, 3]" and group["device"] == "cpu" and group["count"] == 1
    assert group["reason"] == "data" and report.flushes == {"data": 1}
    file, line = group["where"].rsplit(":", 1)
    assert file == __file__ and int(line) > 0
    text = str(report)
    assert "exp mul -> [matmul+bias] -> relu add" in text and "run by data" in text
    assert json.loads(report.to_json()) == report.to_dict()


def test_graph_and_plan():
    x = pf.randn(4, 8)
    pf.flush()
    with pf.explain() as report:
        y = pf.softmax(x * 2 + 1, 1) - 3
        y.tolist()
    (group,) = report.groups
    assert group["graph"].splitlines() == [
        "%0 = input float32 [4, 8]",
        "%1 = mul(%0, 2) float32 [4, 8]",
        "%2 = add(%1, 1) float32 [4, 8]",
        "%3 = softmax(%2) float32 [4, 8]",
        "%4 = sub(%3, 3) float32 [4, 8]",
    ]
    # Neither %1 nor, where one launch does it all, %2 and %3 need memory.
    steps = [line.lstrip("| ") for line in group["plan"].splitlines() if line != "one launch:"]
    assert [s.split(" ->")[0] for s in steps] == [
        "program mul add",
        "kernel softmax(%2)",
        "program sub",
    ]
    one = "one launch:" in group["plan"]
    assert steps[2].endswith("%4 in 128 new bytes" if one else "%4 in the memory of %3")
    assert "%1" not in group["plan"]
    text = report.to_text(plans=True)
    assert "  %3 = softmax(%2) float32 [4, 8]\n" in text and "> program sub" in text.replace(
        "| ", ""
    )
    assert "softmax(%2)" not in str(report)


def test_a_dead_inputs_memory_is_taken_and_said():
    x = pf.randn(1000)
    pf.flush()
    x = x.exp()
    pf.flush()
    with pf.explain() as report:
        y = x * 2
        del x
        y.tolist()
    (group,) = report.groups
    assert group["plan"] == "program mul -> %1 in the memory of %0\n"


def test_alike_groups_are_counted():
    x = pf.ones(5)
    with pf.explain() as report:
        for _ in range(7):
            (x * 2).tolist()
    (group,) = report.groups
    assert group["count"] == 7 and group["prologue"] == ["mul"] and "anchor" not in group


def test_what_is_pending_does_not_count_and_what_is_left_does():
    x = pf.ones(5)
    y = x + 1
    with pf.explain() as report:
        z = x - 1
    assert [g["prologue"] for g in report.groups] == [["sub"]]
    assert report.groups[0]["reason"] == "explicit" and (y + z).tolist() == [2] * 5


def test_operations_by_themselves():
    x = pf.tensor([3.0, 1.0, 2.0])
    report = pf.explain(pf.sort, x, descending=True)
    assert report.result[0].tolist() == [3, 2, 1]
    assert any("sort" in k["kernel"] for k in report.kernels)
    assert all(k["where"].startswith(__file__) for k in report.kernels)


def test_copies_that_nobody_asked_for():
    x = pf.ones(4, 8)
    pf.set_device("paranoid")
    with pf.explain() as report:
        for _ in range(3):
            y = x * 2
        assert y.sum().item() == 64
        x.cpu().tolist()
    (copy,) = report.copies
    assert copy["op"] == "mul" and copy["shape"] == "[4, 8]" and copy["bytes"] == 128
    assert (copy["from"], copy["to"], copy["count"]) == ("cpu", "paranoid:0", 1)
    assert report.copied_bytes == 128 and "128 bytes" in str(report)
    assert report.transfers["from_host"] == 1 and report.transfers["to_host"] >= 1
    pf.set_device("cpu")
    big = [pf.ones(1 << 18), pf.ones(1 << 18)]
    pf.set_device("paranoid")
    two = pf.explain(lambda: pf.dot(*big).item())
    assert len(two.copies) == 2  # the second is made while the GIL is away
    assert all(c["where"].startswith(__file__) for c in two.copies)
    again = pf.explain(lambda: (x * 2).sum().item())
    assert again.copies == [] and again.result == 64


def test_nested_and_after_an_error():
    x = pf.ones(3)
    with pf.explain() as outer:
        (x + 1).tolist()
        with pf.explain() as inner:
            (x - 1).tolist()
        with pytest.raises(RuntimeError), pf.explain() as broken:
            (x * 2).tolist()
            raise RuntimeError
    assert [g["prologue"] for g in inner.groups] == [["sub"]]
    assert [g["prologue"] for g in broken.groups] == [["mul"]]
    assert [g["prologue"] for g in outer.groups] == [["add"], ["sub"], ["mul"]]
    (x + 5).tolist()
    assert len(outer.groups) == 3


def test_backward_and_optimizer():
    model = pf.nn.Linear(4, 2)
    optimizer = pf.optim.AdamW(model.parameters())
    x = pf.randn(3, 4)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), pf.tensor([0, 1, 0])).backward()
        optimizer.step()

    report = pf.explain(step)
    assert any(k["op"] == "adamw_step" for k in report.kernels)
    assert report.copies == [] and report.slow == [] and "slow ways: 0" in str(report)


SLOW = """
import pyflame as pf
x = pf.randn(128, 128)
with pf.explain() as report:
    (x @ x).sum().item()
(slow,) = report.slow
assert slow["op"] == "matmul" and "oneDNN" in slow["what"] and slow["count"] == 1, report
assert "slow ways: 1" in str(report)
try:
    pf.set_strict(True)
    (x @ x).sum().item()
except pf.NotSupportedError as e:
    assert "pf.matmul" in str(e) and "PYFLAME_GEMM=own" in str(e), e
else:
    raise AssertionError
pf.set_strict(False)
assert (x @ x).shape == (128, 128)
"""


def test_products_without_a_library_are_slow_ways():
    import os
    import subprocess
    import sys

    env = {k: v for k, v in os.environ.items() if k not in ("PYFLAME_GEMM", "PYFLAME_STRICT")}
    env["PYFLAME_ONEDNN_PATH"] = "/nowhere/libdnnl.so"
    env["PYFLAME_GEMM"] = "onednn"  # which "auto" wants where it is quicker
    done = subprocess.run([sys.executable, "-c", SLOW], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    asked = (
        SLOW.split("(slow,)")[0] + "assert report.slow == []\npf.set_strict(True)\n(x @ x).tolist()"
    )
    env["PYFLAME_GEMM"] = "own"  # asked for
    done = subprocess.run([sys.executable, "-c", asked], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
