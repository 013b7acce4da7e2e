"""Lines that stand in many programs, under both modules: tests/python/idioms/*.py.

Each `# %% title` begins an idiom: code over `torch`, `nn`, `F`, `np` as people write it. What it
leaves in variables must be the same under PyTorch (where it is installed) and PyFlame: structure,
dtype, shape, values, requires_grad, gradients, and how it prints. Names with _ are not compared, nor
are functions and classes. `[own]` behind a title: only its assertions count (it draws numbers at
random). `[host]`: it is about memory or files of the host.
"""

import collections
import copy
import inspect
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

import pyflame

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

FOLDER = Path(__file__).parent / "idioms"

# What differs on purpose: title: why. Each stands in docs/pytorch_differences.md.
# There is none: what else that page has is rarer than an idiom.
DIFFERENT = {}


def idioms():
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text()
        heads = list(re.finditer(r"^# %% (.*?)(?: \[(\w+)\])?\n", text, re.M))
        for head, after in itertools.zip_longest(heads, heads[1:]):
            body = text[head.end() : after.start() if after else None]
            line = text.count("\n", 0, head.end())
            yield pytest.param(
                "\n" * line + body,
                path,
                head[2],
                head[1],
                id=f"{path.stem}: {head[1]}",
                marks=[pytest.mark.cpu_only]
                if head[2] == "host" or path.stem in ("printing", "devices_dtypes")
                else [],
            )


def run(module, code, path, folder):
    """The variables that an idiom leaves behind."""
    folder.mkdir()
    if module is pyflame:
        code = re.sub(r"^(\s*(?:from|import) )torch\b", r"\1pyflame", code, flags=re.M)
        code = re.sub(
            r"^(\s*import pyflame(?:\.\w+)+)$", r"\1; import pyflame as torch", code, flags=re.M
        )
    names = {"torch": module, "nn": module.nn, "F": module.nn.functional, "np": np, "math": math}
    names |= {"copy": copy, "collections": collections, "folder": folder, "__name__": "idiom"}
    given = set(names)
    module.manual_seed(0)
    exec(compile(code, str(path), "exec"), names)
    return {n: v for n, v in names.items() if not n.startswith("_") and n not in given}


def plain(text):
    return re.sub(r"grad_fn=<\w+>", "grad_fn=<>", text.replace("pyflame", "torch"))


def kind(value):
    """Name of a value's type, the same in both modules."""
    return type(value).__name__


def builtin_base(error):
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


def skipped(value):
    return inspect.ismodule(value) or (callable(value) and not is_module(value))


def is_module(value):
    return isinstance(value, pyflame.nn.Module) or torch and isinstance(value, torch.nn.Module)


def is_tensor(value):
    return isinstance(value, pyflame.Tensor) or torch and isinstance(value, torch.Tensor)


def compare(theirs, ours, where):
    """Fails where `ours` is not what PyTorch left."""
    if is_tensor(theirs):
        return compare_tensors(theirs, ours, where)
    if isinstance(theirs, BaseException):
        assert isinstance(ours, builtin_base(theirs)), (where, repr(theirs), type(ours).__mro__)
        return
    assert kind(theirs) == kind(ours), (where, theirs, ours)
    if isinstance(theirs, (bool, type(None), int, bytes)):
        assert theirs == ours, (where, theirs, ours)
    elif isinstance(theirs, (float, complex)):
        assert theirs == pytest.approx(ours, rel=1e-5, abs=1e-6, nan_ok=True), where
    elif isinstance(theirs, str):
        assert plain(theirs) == plain(ours), where
    elif isinstance(theirs, dict):
        assert list(map(repr, theirs)) == list(map(plain, map(repr, ours))), where
        for (key, a), b in zip(theirs.items(), ours.values()):
            compare(a, b, f"{where}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        assert len(theirs) == len(ours), (where, theirs, ours)
        for i, (a, b) in enumerate(zip(theirs, ours)):
            compare(a, b, f"{where}[{i}]")
        if hasattr(theirs, "_fields") or kind(theirs) == "Size":
            assert repr(theirs) == plain(repr(ours)), where
    elif isinstance(theirs, (np.ndarray, np.generic)):
        assert theirs.dtype == ours.dtype and theirs.shape == ours.shape, where
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6, err_msg=where)
    elif is_module(theirs):
        text = plain(repr(ours))
        if "bias=" not in repr(torch.nn.LayerNorm(1)):  # before PyTorch 2.12
            text = re.sub(r"(LayerNorm\(.*elementwise_affine=\w+), bias=\w+", r"\1", text)
        assert repr(theirs) == text, where
        compare_state(theirs.state_dict(), ours.state_dict(), where)
    elif "object at 0x" not in repr(theirs):
        assert repr(theirs) == plain(repr(ours)), where


def compare_state(theirs, ours, where):
    """Of layers: names, shapes, dtypes; start values are drawn at random."""
    assert list(theirs) == list(ours), where
    for (name, a), b in zip(theirs.items(), ours.values()):
        assert a.shape == b.shape and repr(a.dtype) == plain(repr(b.dtype)), (where, name)


def compare_tensors(theirs, ours, where):
    assert kind(theirs) == kind(ours), (where, theirs, ours)
    facts = [
        (repr(x.dtype), tuple(x.shape), x.requires_grad, x.is_leaf, x.grad_fn is None)
        for x in (theirs, ours)
    ]
    assert facts[0][1:] == facts[1][1:] and facts[0][0] == plain(facts[1][0]), (where, *facts)
    a, b = theirs.detach(), ours.detach().cpu()
    if a.dtype in (torch.bfloat16, torch.float16):
        a, b = a.float(), b.float()
    np.testing.assert_allclose(
        b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6, err_msg=where, equal_nan=True
    )
    if ours.device.type == "cpu":
        assert plain(repr(theirs)) == plain(repr(ours)), where
    if theirs.is_leaf:
        assert (theirs.grad is None) == (ours.grad is None), (where, "grad")
        if theirs.grad is not None:
            compare_tensors(theirs.grad, ours.grad, where + ".grad")


@pytest.mark.parametrize("code, path, tag, title", idioms())
def test_idiom(code, path, tag, title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours = run(pyflame, code, path, tmp_path / "ours")
    if torch is None or title in DIFFERENT:
        return
    theirs = run(torch, code, path, tmp_path / "theirs")
    if tag == "own":
        return
    assert list(theirs) == list(ours)
    for name, value in theirs.items():
        if not skipped(value):
            compare(value, ours[name], name)


def test_there_are_enough():
    titles = [p.id for p in idioms()]
    assert len(titles) >= 500 and len(set(titles)) == len(titles)
    assert set(DIFFERENT) <= {t.split(": ", 1)[1] for t in titles}
