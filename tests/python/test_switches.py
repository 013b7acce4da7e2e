"""What programs written for PyTorch say before they begin: switches, types of tensors, formats."""

import importlib
import importlib.util
import os
import random
import subprocess
import sys
import typing

import numpy as np
import pytest
import standin

import pyflame as pf

BOTH = ["pyflame"] + ["torch"] * bool(importlib.util.find_spec("torch"))


@pytest.fixture(params=BOTH)
def t(request):
    return importlib.import_module(request.param)


def test_seeding_functions(t):
    """As they stand in most programs."""

    def seed_everything(seed):
        random.seed(seed)
        np.random.seed(seed)
        t.manual_seed(seed)
        t.cuda.manual_seed(seed)
        t.cuda.manual_seed_all(seed)
        t.backends.cudnn.deterministic = True
        t.backends.cudnn.benchmark = False
        t.backends.cudnn.enabled = False
        t.use_deterministic_algorithms(True)

    before = t.are_deterministic_algorithms_enabled()
    try:
        seed_everything(3)
        a = t.rand(2).tolist()
        seed_everything(3)
        assert t.rand(2).tolist() == a
        assert t.backends.cudnn.deterministic is True and t.backends.cudnn.benchmark is False
    finally:
        t.use_deterministic_algorithms(before)
        t.backends.cudnn.deterministic = False
        t.backends.cudnn.enabled = True
    device = "mps" if t.backends.mps.is_available() else "cpu"
    assert t.zeros(1, device=device).device.type == "cpu" and not t.backends.mps.is_built()


def test_flags_and_what_is_there(t):
    assert t.version.__version__ == t.__version__
    cudnn = importlib.import_module(t.__name__ + ".backends.cudnn")
    assert cudnn is t.backends.cudnn
    if t is pf or not t.cuda.is_available():
        assert cudnn.is_available() is False and cudnn.version() is None
    with cudnn.flags(enabled=False, benchmark=True, deterministic=True):
        assert cudnn.benchmark and cudnn.deterministic and not cudnn.enabled
    assert not cudnn.benchmark and not cudnn.deterministic and cudnn.enabled
    with t.backends.mkldnn.flags(enabled=False):
        assert t.backends.mkldnn.enabled is False
    assert t.backends.mkldnn.enabled is True
    for known in ("mkl", "openmp", "opt_einsum", "mkldnn"):
        assert isinstance(getattr(t.backends, known).is_available(), bool)
    assert isinstance(t.backends.cuda.is_built(), bool)
    assert t.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512", "DEFAULT")
    t.backends.cuda.enable_flash_sdp(False)
    assert not t.backends.cuda.flash_sdp_enabled()
    t.backends.cuda.enable_flash_sdp(True)
    with pytest.raises((TypeError, RuntimeError)):
        cudnn.benchmark = 3
    assert "benchmark" in dir(cudnn) or t is not pf


def test_precision_is_one_switch(t):
    """allow_tf32 and set_float32_matmul_precision are two names for the same thing."""
    before = t.get_float32_matmul_precision()
    matmul = t.backends.cuda.matmul
    try:
        matmul.allow_tf32 = True
        assert t.get_float32_matmul_precision() == "high" and matmul.fp32_precision == "tf32"
        matmul.allow_tf32 = False
        assert t.get_float32_matmul_precision() == "highest" and not matmul.allow_tf32
        t.set_float32_matmul_precision("medium")
        assert matmul.allow_tf32
        t.set_float32_matmul_precision("high")
        assert matmul.allow_tf32
    finally:
        t.set_float32_matmul_precision(before)


# Says things of precision at random, and prints what the names then are.
SAY = """
import importlib, random, sys
t = importlib.import_module(sys.argv[1])
b, dice = t.backends, random.Random(int(sys.argv[2]))
places = {n: eval(n, {"b": b}) for n in (
    "b", "b.cuda.matmul", "b.cudnn", "b.cudnn.conv", "b.cudnn.rnn",
    "b.mkldnn.matmul", "b.mkldnn.conv", "b.mkldnn.rnn")}
def state():
    def of(what, name):
        try:
            return getattr(what, name)
        except RuntimeError:
            return "raises"
    try:
        level = t.get_float32_matmul_precision()
    except RuntimeError:
        level = "raises"
    return [level, of(b.cudnn, "allow_tf32"), of(b.cuda.matmul, "allow_tf32")] + [
        of(p, "fp32_precision") for p in places.values()]
print("first", state())
for _ in range(60):
    kind = dice.randrange(8)
    if kind == 0:
        said = "allow", dice.choice(("cudnn", "cuda.matmul")), dice.random() < 0.5
        setattr(b.cudnn if said[1] == "cudnn" else b.cuda.matmul, "allow_tf32", said[2])
    elif kind == 1:
        said = "level", dice.choice(("highest", "high", "medium"))
        t.set_float32_matmul_precision(said[1])
    else:
        said = dice.choice(sorted(places)), dice.choice(("none", "ieee", "tf32", "bf16"))
        try:
            places[said[0]].fp32_precision = said[1]
        except (RuntimeError, ValueError):
            said += ("raises",)
    print(said, state())
"""


@pytest.mark.skipif("torch" not in BOTH, reason="no PyTorch")
@pytest.mark.parametrize("seed", range(int(os.environ.get("PYFLAME_TEST_PRECISIONS", "2"))))
def test_names_of_precision_at_random(seed):
    """Whatever is said in whatever order, each name then is what it is in PyTorch."""
    ours, theirs = (
        subprocess.run(
            [sys.executable, "-c", SAY, name, str(seed)],
            env=os.environ | {"PYTHONPATH": str(standin.PACKAGE)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for name in ("pyflame", "torch")
    )
    assert len(ours) == len(theirs) == 61
    for mine, other in zip(ours, theirs, strict=True):
        (said, a), (what, b) = (line.rsplit(" [", 1) for line in (mine, other))
        a, b = a.split(", "), b.split(", ")
        assert said == what and len(a) == len(b) == 11
        # Where PyTorch raises older names are at odds with newer ones, which are compared.
        first = 3 if "'raises'" in b else 0
        assert a[first:] == b[first:], (mine, other)


def test_words_of_precision():
    """What is no word is refused, and everything stays as it was."""
    conv, matmul = pf.backends.cudnn.conv, pf.backends.cuda.matmul
    before = conv.fp32_precision
    with pytest.raises(ValueError, match="cudnn.conv.fp32_precision"):
        conv.fp32_precision = "bf16"
    with pytest.raises(TypeError, match="str"):
        matmul.fp32_precision = 3
    with pytest.raises(TypeError, match="bool"):
        pf.backends.cudnn.allow_tf32 = 1
    with pytest.raises(AttributeError):
        conv.precision = "tf32"
    assert conv.fp32_precision == before
    with pf.backends.cudnn.flags(allow_tf32=False):
        assert pf.backends.cudnn.allow_tf32 is False and conv.fp32_precision == "none"
    with pf.backends.flags(fp32_precision="ieee"):
        assert pf.backends.fp32_precision == "ieee"


def test_backends_there_are():
    assert pf.backend_status() == pf.backends() and pf.backends()["cpu"] == "loaded"
    with pytest.raises(TypeError, match="flags"):
        pf.backends.cudnn.flags(speed=1).__enter__()
    with pytest.raises(ValueError, match="ieee"):
        pf.backends.cuda.matmul.fp32_precision = "tf64"


TYPES = "Float Double Half BFloat16 Long Int Short Char Byte Bool".split()


@pytest.mark.cpu_only
@pytest.mark.parametrize("kind", TYPES)
def test_typed_tensors(t, kind):
    cls = getattr(t, kind + "Tensor")
    x = cls([1, 0])
    assert isinstance(x, cls) and type(x) is t.Tensor
    assert x.type() == f"{t.__name__}.{kind}Tensor"
    assert t.typename(x).endswith(f"{kind}Tensor")
    for other in TYPES:
        assert isinstance(x, getattr(t, other + "Tensor")) == (other == kind)
    there = t.ones(2)
    for to in (cls, f"torch.{kind}Tensor" if t is not pf else f"pyflame.{kind}Tensor", x.dtype):
        assert there.type(to).dtype == x.dtype
    assert there.type(x.type()).dtype == x.dtype
    assert not isinstance(x, getattr(t.cuda, kind + "Tensor")) and not isinstance([1], cls)
    assert tuple(cls(2, 3).shape) == (2, 3) and tuple(cls().shape) == (0,)
    assert tuple(cls(t.Size([4])).shape) == (4,)


def test_typed_tensors_in_annotations():
    def f(x: pf.FloatTensor, y: typing.Optional["pf.cuda.LongTensor"] = None) -> pf.BoolTensor:
        return x > 0

    assert typing.get_type_hints(f)["return"] is pf.BoolTensor
    assert "float32" in pf.FloatTensor.__doc__ and "GPU" in pf.cuda.FloatTensor.__doc__
    assert pf.ones(1).type("torch.DoubleTensor").dtype is pf.float64  # text of programs for PyTorch
    if pf.cuda.is_available():
        assert isinstance(pf.ones(1).type(pf.cuda.FloatTensor), pf.cuda.FloatTensor)
    else:
        with pytest.raises(pf.DeviceError):
            pf.ones(1).type("torch.cuda.FloatTensor")
        with pytest.raises(pf.DeviceError):
            pf.cuda.FloatTensor(2)


FORMATTED = {
    "to": lambda t, x, f: x.to(t.float64, memory_format=f),
    "to device": lambda t, x, f: x.to("cpu", memory_format=f),
    "clone": lambda t, x, f: x.clone(memory_format=f),
    "contiguous": lambda t, x, f: x.contiguous(memory_format=f),
    "float": lambda t, x, f: x.float(memory_format=f),
    "double": lambda t, x, f: x.double(memory_format=f),
    "half": lambda t, x, f: x.half(memory_format=f),
    "long": lambda t, x, f: x.long(memory_format=f),
    "bool": lambda t, x, f: x.bool(memory_format=f),
    "cpu": lambda t, x, f: x.cpu(memory_format=f),
    "empty": lambda t, x, f: t.empty(2, 3, memory_format=f),
    "empty_like": lambda t, x, f: t.empty_like(x, memory_format=f),
    "zeros_like": lambda t, x, f: t.zeros_like(x, memory_format=f),
    "rand_like": lambda t, x, f: t.rand_like(x, memory_format=f),
    "full_like": lambda t, x, f: t.full_like(x, 2.0, memory_format=f),
    "is_contiguous": lambda t, x, f: t.tensor(x.is_contiguous(memory_format=f)),
    "Module.to": lambda t, x, f: t.nn.Linear(2, 2).to(memory_format=f).weight,
}


@pytest.mark.parametrize("name", FORMATTED)
def test_memory_formats(t, name):
    x = t.ones(2, 3)
    formats = [t.contiguous_format]
    if name not in ("contiguous", "empty", "is_contiguous"):
        formats.append(t.preserve_format)
    for f in formats:
        assert isinstance(f, t.memory_format)
        assert FORMATTED[name](t, x, f).is_contiguous()
    if name not in ("is_contiguous", "Module.to"):  # two dimensions
        with pytest.raises(RuntimeError if t is not pf else pf.ShapeError):
            FORMATTED[name](t, x, t.channels_last)
    if t is pf:
        with pytest.raises(TypeError, match="memory_format"):
            FORMATTED[name](t, x, 3)


def test_formats_print(t):
    assert repr(t.contiguous_format) == t.__name__ + ".contiguous_format"


ABSENT = """
import pyflame as pf
assert not pf.cuda.is_available()
allowed = (pf.PyFlameError, TypeError, pf.ValueError)
for name in dir(pf.cuda):
    f = getattr(pf.cuda, name)
    if name.startswith("_") or not callable(f) or name == "OutOfMemoryError":
        continue
    for args in ((), (0,), ("cuda",)):
        try:
            f(*args)
        except allowed as e:
            assert len(str(e)) > 20, (name, args, e)
for name in ("device_count", "is_available", "is_initialized", "is_bf16_supported"):
    assert not getattr(pf.cuda, name)()
for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
    assert getattr(pf.cuda, name)() == getattr(pf.cuda, name)(0) == getattr(pf.cuda, name)("cuda") == 0
needy = ("current_device", "get_device_name", "get_device_capability", "get_device_properties")
for name in needy:
    try:
        getattr(pf.cuda, name)()
    except pf.DeviceError as e:
        assert name in str(e) or name == "get_device_properties", e
        assert "is_available" in str(e)
    else:
        raise AssertionError(name)
"""


@pytest.mark.cpu_only
def test_cuda_without_a_gpu():
    """Every name of pf.cuda answers 0 or False, or says what is missing, as PyTorch's CPU build."""
    env = {"PYTHONPATH": str(standin.PACKAGE), "PYFLAME_HIP_LIBRARY": "/none"}
    env["PYFLAME_CUDA_LIBRARY"] = "/none"
    done = subprocess.run([sys.executable, "-c", ABSENT], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
