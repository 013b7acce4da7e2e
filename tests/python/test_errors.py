"""Errors: typed, naming the operation, saying what was given and what to do; nothing is lost."""

import subprocess
import sys

import pytest
from hangs import HANG

import pyflame as pf


def test_classes():
    assert issubclass(pf.PyFlameError, RuntimeError)
    for cls, base in [
        (pf.ShapeError, ValueError),
        (pf.DTypeError, TypeError),
        (pf.ValueError, ValueError),
        (pf.IndexError, IndexError),
        (pf.OutOfMemoryError, MemoryError),
        (pf.FileError, OSError),
        (pf.NotSupportedError, NotImplementedError),
        (pf.DeviceError, RuntimeError),
        (pf.AutogradError, RuntimeError),
        (pf.BackendError, RuntimeError),
    ]:
        assert issubclass(cls, pf.PyFlameError) and issubclass(cls, base)
        assert cls.__module__ == "pyflame" and cls.__doc__
    assert pf.ValueError is not ValueError


CASES = [
    (lambda: pf.ones(2, 3) + pf.ones(4), pf.ShapeError, "add"),
    (lambda: pf.ones(2, 3) @ pf.ones(2, 3), pf.ShapeError, "matmul"),
    (lambda: pf.ones(2, 3).view(7), pf.ShapeError, "view"),
    (lambda: pf.ones(2, 3).reshape(-1, -1), pf.PyFlameError, "reshape"),
    (lambda: pf.ones(2).sum(3), pf.IndexError, "sum"),
    (lambda: pf.zeros(-1), pf.PyFlameError, "zeros|empty|full|sizes?"),
    (lambda: pf.zeros(2**40, 2**40), pf.PyFlameError, "zeros|empty|full|bytes"),
    (lambda: pf.cat([pf.ones(2), pf.ones(2, 2)]), pf.ShapeError, "cat"),
    (lambda: pf.ones(2).expand(3), pf.ShapeError, "expand"),
    (lambda: pf.ones(2) & 1, (pf.DTypeError, TypeError), "bitwise_and"),
    (lambda: pf.device("rocket"), pf.DeviceError, "rocket"),
    (lambda: pf.ones(2).to("cuda:99"), pf.DeviceError, "cuda|rocm|gpu|GPU"),
    (lambda: pf.ones(2, 3).transpose(0, 5), pf.IndexError, "transpose"),
    (lambda: pf.ones(2, 3).permute(0, 0), pf.PyFlameError, "permute"),
    (lambda: pf.ones(2, dtype=pf.int8) ** 300, pf.ValueError, r"pf\.pow: .*holds, -128 to 127"),
    (lambda: pf.ones(2, dtype=pf.int8).pow_(300), pf.ValueError, r"pf\.pow"),
    (
        lambda: pf.ones(2).clamp_(pf.ones(3, 2)),
        pf.ShapeError,
        r"pf\.clamp_min_: .*use clamp_min\(\)",
    ),
    (lambda: pf.zeros(3).index_fill(0, pf.tensor([5]), 1.0), pf.IndexError, r"pf\.index_fill:"),
    (
        lambda: pf.zeros(3).index_fill(0, pf.tensor([5]), pf.tensor(1.0, requires_grad=True)),
        pf.IndexError,
        r"pf\.index_fill:",
    ),
    (lambda: pf.zeros(3).index_fill_(0, pf.tensor([5]), 1.0), pf.IndexError, r"pf\.index_fill_:"),
    (
        lambda: pf.nn.functional.pad(pf.ones(2, dtype=pf.int8), (1, 1), value=300),
        pf.ValueError,
        r"pf\.pad",
    ),
    (lambda: pf.nn.functional.celu(pf.ones(2), alpha=0), pf.ValueError, "alpha"),
    (lambda: pf.celu_(pf.ones(2), 0), pf.ValueError, "alpha"),
    (lambda: pf.manual_seed("a"), (TypeError, ValueError), None),
    (lambda: pf.set_num_threads(0), (pf.ValueError, ValueError), None),
]


@pytest.mark.parametrize("n", range(len(CASES)))
def test_typed_and_named(n):
    call, error, word = CASES[n]
    with pytest.raises(error, match=word) as caught:
        call()
        pf.synchronize()
    if isinstance(caught.value, pf.PyFlameError):
        assert str(caught.value).startswith("pf.")


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: pf.sum("a"), ["pf.sum", "got (str)", "input"]),
        (lambda: pf.sum(pf.ones(1), "x"), ["pf.sum", "Tensor[1]", "'dim'", "str"]),
        (lambda: pf.sum(), ["pf.sum", "missing argument 'input'"]),
        (lambda: pf.sum(pf.ones(1), wrong=1), ["pf.sum", "unexpected keyword argument 'wrong'"]),
        (lambda: pf.sum(pf.ones(1), 0, dim=0), ["several values for argument 'dim'"]),
        (lambda: pf.ones(2).sum(0, True, 3), ["positional"]),
        (lambda: pf.relu([1.0]), ["pf.relu", "list of float"]),
        (lambda: pf.cat(pf.ones(2), "a"), ["pf.cat"]),
        (lambda: pf.add(pf.ones(2), "x"), ["pf.add", "str"]),
        (lambda: pf.sum(pf.ones(2, 2), True), ["pf.sum", "bool"]),
        (lambda: pf.sum(pf.ones(2), generator=3), ["pf.sum", "int", "Generator"]),
        (lambda: pf.rand(2, generator="x"), ["pf.rand", "str", "Generator"]),
        (lambda: pf.zeros(2, pin_memory=5), ["pf.zeros", "pin_memory", "int"]),
        (lambda: pf.ones(2).to(other=5), ["pf.to", "other", "int"]),
        (lambda: pf.Tensor([1.5], foo=3), ["pf.Tensor", "'foo'", "device"]),
        (lambda: pf.Tensor([1.5], [2.5]), ["pf.Tensor", "2 arguments"]),
        (lambda: pf.Tensor(pf.ones(1), 2), ["pf.Tensor", "2 arguments"]),
        (lambda: pf.ops.define(3, "x"), ["pf.ops.define", "int", "name"]),
        (lambda: pf.memory.set_per_process_memory_fraction("a"), ["fraction", "str", "number"]),
        # A keyword may be text that UTF-8 cannot hold.
        (lambda: pf.add(pf.ones(1), pf.ones(1), **{"\ud800": 1}), ["pf.add", r"'\ud800'"]),
        (lambda: pf.sum(pf.ones(1), **{"\ud800": 1}), ["pf.sum", r"'\ud800'"]),
        (lambda: pf.ones(2).to(**{"\ud800": 1}), ["pf.to", r"'\ud800'"]),
        (lambda: pf.set_strict(**{"\ud800": 1}), ["pf.set_strict", r"\ud800=int", "expected"]),
        (lambda: pf.Tensor([1.5], **{"\ud800": 1}), ["pf.Tensor", r"'\ud800'"]),
    ],
)
def test_argument_errors(call, words):
    with pytest.raises(TypeError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_numpy_argument_says_what_to_do():
    import numpy as np

    with pytest.raises(TypeError, match="from_numpy"):
        pf.relu(np.ones(2))


def test_state_is_usable_after_errors():
    x = pf.ones(3)
    for _ in range(100):
        with pytest.raises(pf.ShapeError):
            x + pf.ones(2)
        x = x + 0
    assert x.tolist() == [1, 1, 1]


def test_wrong_index_is_reported():
    weight = pf.ones(4, 2)
    with pytest.raises(pf.IndexError, match="embedding|used index 9"):
        pf.nn.functional.embedding(pf.tensor([0, 9]), weight)
        pf.synchronize()
    assert weight.sum().item() == 8
    pf.synchronize()


def test_keyboard_interrupt():
    code = """
import signal, threading, os, time
import pyflame as pf
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script in the background ignores it
x = pf.ones(1000)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        x = x * 1.0 + 0.0
except KeyboardInterrupt:
    print("interrupted", x.sum().item())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert out.stdout.strip() == "interrupted 1000.0", out.stderr


def test_exit_is_clean():
    code = """
import numpy as np, pyflame as pf
a = np.ones(3)
keep = [pf.from_numpy(a), pf.ones(3, requires_grad=True)]
keep[1].register_hook(lambda g: g)
keep.append((keep[1] * keep[0].float()).sum())
keep.append(pf.ones(3).numpy())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert out.returncode == 0 and not out.stderr


def test_layouts_other_than_dense_are_refused():
    assert pf.zeros(2, layout=pf.strided, pin_memory=None).tolist() == [0, 0]
    with pytest.raises(pf.NotSupportedError, match="pf.zeros.*layout"):
        pf.zeros(2, layout="sparse_coo")


class Raises:
    """A number whose methods raise `error`."""

    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error

    def __bool__(self):
        raise self.error


class RaisesAsIndex(Raises):
    def __index__(self):
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
@pytest.mark.parametrize(
    "call",
    [
        lambda e: pf.ones(2) + Raises(e),
        lambda e: pf.ones(2) + RaisesAsIndex(e),
        lambda e: pf.tensor([Raises(e)]),
        lambda e: pf.Size([RaisesAsIndex(e)]),
        lambda e: pf.zeros([RaisesAsIndex(e)]),
        lambda e: pf.ones(2).to("cpu", None, Raises(e)),
        lambda e: pf.ones(2).to("cpu", copy=Raises(e)),
    ],
)
def test_errors_of_an_argument_are_not_lost(call, error):
    with pytest.raises(error):
        call(error())


def test_what_says_that_it_is_no_number_is_none():
    for error in (TypeError(), ValueError(), OverflowError()):
        with pytest.raises(TypeError, match="unsupported operand"):
            pf.ones(2) + Raises(error)
