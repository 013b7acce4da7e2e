"""PyTorch's own samples of its operations, run by both modules: values, first gradients, errors.

    python tests/python/pytorch_samples.py                  every operation in float32
    python tests/python/pytorch_samples.py --dtype int64 add linalg.lstsq
    python tests/python/pytorch_samples.py --here gather    in this process, for a debugger

The tests of PyTorch's package have a table of operations (`op_db`), each with arguments that it must take
and arguments that it must refuse. What differs is printed with the sample. Child processes do the work: one
that crashes or hangs is told by the operation that it was at, and the next goes on behind it.
"""

import argparse
import collections
import copy
import functools
import json
import os
import random
import select
import subprocess
import sys
import types
import unittest
import unittest.mock
import warnings
import zlib

import numpy as np
import torch
from differential import compare
from hangs import HANG

import pyflame as pf
from pyflame._torch.finder import FINDER

# Results are random, or memory as it was found: shapes and dtypes are compared.
UNDEFINED = set(
    """
    bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal
    multinomial new_empty new_empty_strided nn.functional.alpha_dropout nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.rrelu normal
    rand_like randint randint_like randn randn_like svd_lowrank uniform
    """.split()
)


class Absent(Exception):
    """PyFlame has no function of this name."""


@functools.cache
def table():
    """PyTorch's table, by full names."""
    try:
        import expecttest  # noqa: F401
    except ImportError:  # a base class of tests that are not run here
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    # Its import would forbid every later test of the process to set flags of precision.
    with unittest.mock.patch.object(torch.backends, "disable_global_flags", lambda: None):
        from torch.testing._internal.common_methods_invocations import op_db

    return {e.full_name: e for e in op_db}


def names(dtype):
    kind = getattr(torch, dtype)
    return [n for n, e in table().items() if kind in e.supported_dtypes("cpu")]


# ---- functions of PyTorch's, and ours ----


class Ours:
    """A module of PyTorch's with PyFlame's functions, of which `import torch` is not wanted here."""

    def __init__(self, path="torch"):
        self._path = path

    def __getattr__(self, name):
        path = f"{self._path}.{name}"
        for source in FINDER.sources(self._path):
            value = getattr(source, name, None)
            if value is not None:
                return Ours(path) if isinstance(value, types.ModuleType) else value
        if FINDER.sources(path):
            return Ours(path)
        raise Absent(path)


PLACES = (
    "", "nn.functional", "linalg", "special", "fft", "masked", "signal.windows", "Tensor", "functional",
    "_C._nn",
)  # fmt: skip


def find(module, path):
    for part in filter(None, path.split(".")):
        if not hasattr(module, part):
            raise Absent(path)
        module = getattr(module, part)
    return module


@functools.cache
def _paths():
    found = {}
    for place in PLACES:
        for name, value in vars(find(torch, place)).items():
            if callable(value):
                found.setdefault(id(value), f"{place}.{name}".strip("."))
    return found


def translated(value, memo):
    """An argument, or a function with what it refers to, of PyFlame's."""
    if isinstance(value, torch.Tensor):
        return _tensor(value, memo)
    if isinstance(value, torch.Size):
        return pf.Size(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(translated(v, memo) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(translated(v, memo) for v in value)
    if isinstance(value, dict):
        return {k: translated(v, memo) for k, v in value.items()}
    if isinstance(value, torch.dtype):
        return getattr(Ours(), compare.kind_of(value))
    if isinstance(value, (torch.layout, torch.memory_format)):
        return getattr(Ours(), compare.kind_of(value))
    if isinstance(value, torch.device):
        return pf.device(str(value))
    if value is torch:
        return Ours()
    if isinstance(value, types.ModuleType) and value.__name__.startswith("torch."):
        if not value.__name__.startswith("torch.testing"):
            return Ours(value.__name__)
    if isinstance(value, functools.partial):
        return functools.partial(
            _function(value.func, memo),
            *translated(value.args, memo),
            **translated(value.keywords, memo),
        )
    if isinstance(value, type):
        of_torch = value.__module__.split(".")[0] == "torch" and "testing" not in value.__module__
        return find(Ours(), value.__qualname__) if of_torch else value
    if callable(value) and not isinstance(value, np.generic):
        return _function(value, memo)
    return value


def _function(f, memo):
    key = ("function", id(f))
    if key in memo:
        return memo[key]
    if isinstance(f, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        namespace, name = str(f).split(".")[:2]
        return find(Ours(), name) if namespace == "aten" else find(Ours("torch.ops"), str(f))
    if id(f) in _paths():
        return find(Ours(), _paths()[id(f)])
    if getattr(torch.Tensor, getattr(f, "__name__", ""), None) is f:
        return find(Ours(), f"Tensor.{f.__name__}")
    if isinstance(f, torch.nn.Module):
        layer = find(Ours("torch.nn"), type(f).__name__)()
        for name in f.__constants__:
            setattr(layer, name, getattr(f, name))
        return layer
    module = getattr(f, "__module__", None) or ""
    if module.startswith("torch.testing") and isinstance(f, types.FunctionType):
        if f.__name__ == "wrapper_set_seed":
            return lambda op, *args, **kwargs: op(*args, **kwargs)
        return _rebuilt(f, memo)
    if module.split(".")[0] == "torch" and not module.startswith("torch.testing"):
        raise Absent(f"{module}.{getattr(f, '__qualname__', f)}")
    return f


def _globals_of(code):
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _rebuilt(f, memo):
    """The same code over names of PyFlame's."""
    space = {"__builtins__": __builtins__, "__name__": f.__module__}
    g = types.FunctionType(
        f.__code__, space, f.__name__, closure=tuple(types.CellType() for _ in f.__closure__ or ())
    )
    memo["function", id(f)] = g
    memo["keep", id(f)] = f  # a number of an object that is gone may come back
    for name in set(_globals_of(f.__code__)) & f.__globals__.keys():
        space[name] = translated(f.__globals__[name], memo)
    for mine, other in zip(g.__closure__ or (), f.__closure__ or ()):
        mine.cell_contents = translated(other.cell_contents, memo)
    g.__defaults__ = translated(f.__defaults__, memo)
    g.__kwdefaults__ = translated(f.__kwdefaults__, memo)
    return g


def ours(entry, memo):
    """PyFlame's function for an entry of the table."""
    try:
        by_name = find(torch, entry.name)
    except Absent:
        by_name = None
    f = entry.op
    if by_name is f or isinstance(f, types.BuiltinFunctionType) and by_name == f:
        return find(Ours(), entry.name)
    return _function(f, memo)


# ---- tensors ----

_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def _tensor(t, memo):
    """A tensor with the same values, strides and neighbours in memory; a leaf where it has gradients."""
    if ("tensor", id(t)) in memo:
        return memo["tensor", id(t)]
    x = t.detach()
    if x.layout == torch.sparse_coo:
        y = pf.sparse_coo_tensor(
            _tensor(x._indices().clone(), memo), _tensor(x._values().clone(), memo), tuple(x.shape)
        )
        y = y.coalesce() if x.is_coalesced() else y
    elif x.layout == torch.sparse_csr:
        parts = (x.crow_indices().clone(), x.col_indices().clone(), x.values().clone())
        y = pf.sparse_csr_tensor(*(_tensor(p, memo) for p in parts), tuple(x.shape))
    elif x.layout != torch.strided:
        raise Absent(str(x.layout))
    elif x.device.type == "meta":
        y = pf.empty(tuple(x.shape), dtype=translated(x.dtype, memo), device="meta")
    else:
        x = x.resolve_conj().resolve_neg()
        y = _flat(x, memo).as_strided(tuple(x.shape), x.stride(), x.storage_offset()).detach()
    memo["keep", id(t)] = t
    memo["tensor", id(t)] = y.requires_grad_() if t.requires_grad else y
    return y


def _flat(x, memo):
    """The whole memory of a tensor."""
    storage = x.untyped_storage()
    key = ("storage", storage.data_ptr(), x.dtype)
    if storage.nbytes() == 0 or key not in memo:
        # A copy: memory that NumPy has seen cannot be resized, and is then refused for that.
        flat = x.as_strided((storage.nbytes() // x.element_size(),), (1,), 0).clone()
        dtype = translated(x.dtype, memo)
        if x.dtype in (torch.bool, torch.complex64, torch.complex128):
            memo[key] = pf.tensor(flat.numpy())
        else:
            bits = flat.view(getattr(torch, _BITS[x.element_size()])).numpy()
            memo[key] = pf.tensor(bits).view(dtype)
        memo["keep", key] = x
    return memo[key]


def _tensors(value, kind):
    """Tensors of a result, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from _tensors(v, kind)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v, kind)


# ---- what may differ ----

# Where the argument `dim` stands, behind the input. Of equal elements any may be named, unless stable=True.
TIES = {"sort": 0, "argsort": 0, "mode": 0, "topk": 1, "kthvalue": 1, "msort": None}
WIDER = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip


def among_equals(entry, sample, got, want):
    """Whether results differ by which of equal elements they name."""
    if entry.name not in TIES or sample.kwargs.get("stable"):
        return False
    if entry.name == "msort":
        x = sample.input.detach().double()
        return any(c.unique().numel() < c.numel() for c in x.reshape(len(x), -1).T)
    at = TIES[entry.name]
    dim = sample.kwargs.get("dim", sample.args[at] if len(sample.args) > at else -1)
    pairs = list(zip(_tensors(got, pf.Tensor), _tensors(want, torch.Tensor)))
    if sample.input.dim() == 0 or not all(tuple(g.shape) == tuple(w.shape) for g, w in pairs):
        return False
    x, (g, w) = compare.array(sample.input), (compare.array(t) for t in pairs[-1])
    if g.ndim < x.ndim:
        g, w = np.expand_dims(g, dim), np.expand_dims(w, dim)
    if g.size and not (0 <= g.min() and g.max() < x.shape[dim]):
        return False
    named = (np.take_along_axis(x, i, dim) for i in (g, w))
    return np.array_equal(*named, equal_nan=x.dtype.kind in "fc")


class Wide:
    """The same sample in float64 by PyTorch: what rounds less is no fault."""

    def __init__(self, entry, sample):
        self.entry, self.sample = entry, sample

    @functools.cached_property
    def run(self):
        """(results as they are compared, leaves), or None where PyTorch has none in float64."""
        leaves = {}

        def widened(t):
            if not isinstance(t, torch.Tensor) or t.layout != torch.strided:
                return t
            if id(t) not in leaves:
                wide = t.detach().to(WIDER.get(t.dtype, t.dtype))
                leaves[id(t)] = wide.requires_grad_(t.requires_grad)
            return leaves[id(t)]

        s = self.sample.transform(widened)
        try:
            result = _wrapper(self.entry)(self.entry.op, s.input, *s.args, **s.kwargs)
            result = self.sample.output_process_fn_grad(result)
        except Exception:
            return None
        return list(_tensors(result, torch.Tensor)), leaves

    def results(self, got, want):
        """Whether no result is farther from that than PyTorch's is."""
        triples = list(zip(_tensors(got, pf.Tensor), _tensors(want, torch.Tensor)))
        if self.run is None or len(self.run[0]) != len(triples):
            return False
        return all(nearer(g, w, wide) for (g, w), wide in zip(triples, self.run[0]))

    def gradient(self, leaf, got, want, weights):
        if self.run is None:
            return False
        outputs, leaves = self.run
        outputs = [o for o in outputs if o.requires_grad]
        try:
            weights = [w.to(o.dtype) for o, w in zip(outputs, weights, strict=True)]
            wide = torch.autograd.grad(
                outputs, leaves[id(leaf)], weights, allow_unused=True, retain_graph=True
            )[0]
        except Exception:
            return False
        return wide is not None and nearer(got, want, wide)


def nearer(got, want, wide):
    if wide.dtype not in (torch.float64, torch.complex128) or wide.dtype == want.dtype:
        return False
    if tuple(got.shape) != tuple(wide.shape) or compare.kind_of(got.dtype) != compare.kind_of(
        want.dtype
    ):
        return False
    got, want, wide = (compare.array(t).astype("complex128") for t in (got, want, wide.detach()))
    with np.errstate(all="ignore"):
        limit = torch.finfo(torch.float16).max  # where it overflows in 16 bits, either may
        far = [
            np.where((t == wide) | (np.isnan(t) & np.isnan(wide)), 0, np.abs(t - wide))
            for t in (got, want)
        ]
    far = [np.nan_to_num(f, nan=np.inf, posinf=np.inf).max(initial=0) for f in far]
    return bool(far[0] <= far[1]) and (np.isfinite(far[0]) or np.abs(wide).max(initial=0) > limit)


# ---- comparison ----

Difference = compare.Difference


def _dense(t):
    return t.to_dense() if "sparse" in str(t.layout) else t


def results(got, want, undefined, what="result"):
    """The first difference of two results, or None."""
    if isinstance(want, (torch.Tensor, pf.Tensor)):
        if not isinstance(got, pf.Tensor):
            return Difference("type", f"{what}: {type(got).__name__}, not a tensor")
        difference = compare.tensors(_dense(got), _dense(want), what, values=not undefined)
        if difference is None and got.requires_grad != want.requires_grad:
            return Difference("history", f"{what}.requires_grad: {got.requires_grad}")
        return difference
    if isinstance(want, dict):
        if not isinstance(got, dict) or got.keys() != want.keys():
            return Difference("type", f"{what}: {got!r:.80}, not {want!r:.80}")
        pairs = [(got[k], want[k]) for k in want]
    elif isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return Difference("type", f"{what}: {got!r:.80}, not {want!r:.80}")
        pairs = list(zip(got, want))
    elif isinstance(want, (torch.dtype, torch.device)):
        same = str(got).split(".")[-1] == str(want).split(".")[-1]
        return None if same else Difference("value", f"{what}: {got}, not {want}")
    elif undefined:
        return None
    elif isinstance(want, (bool, int, float, complex)):
        if type(got) is not type(want):
            return Difference("type", f"{what}: {got!r:.80}, not {want!r:.80}")
        return compare.arrays(np.asarray(got), np.asarray(want), "float32", what)
    else:
        return (
            None if got == want else Difference("value", f"{what}: {got!r:.80}, not {want!r:.80}")
        )
    for i, (g, w) in enumerate(pairs):
        if difference := results(g, w, undefined, f"{what}[{i}]"):
            return difference
    return None


def _leaves(sample):
    return [
        t
        for t in _tensors((sample.input, sample.args, sample.kwargs), torch.Tensor)
        if t.requires_grad
    ]


def gradients(sample, memo, got, want, undefined, wide):
    """The first difference of the derivatives for random cotangents, or None."""
    leaves = list({id(t): t for t in _leaves(sample)}.values())
    pairs = [
        (_dense(g), _dense(w))
        for g, w in zip(_tensors(got, pf.Tensor), _tensors(want, torch.Tensor))
        if w.requires_grad
    ]
    if not leaves or not pairs:
        return None
    if not all(g.requires_grad for g, _ in pairs):
        return Difference("history", "what is made of the result has no history")
    rng = np.random.default_rng(len(pairs))
    mine, other = [], []
    for _, w in pairs:
        weights = rng.standard_normal(tuple(w.shape))
        if w.is_complex():
            weights = weights + 1j * rng.standard_normal(tuple(w.shape))
        other.append(torch.tensor(weights, dtype=w.dtype))
        mine.append(_tensor(other[-1], {}))
    try:
        wanted = torch.autograd.grad([w for _, w in pairs], leaves, other, allow_unused=True)
    except Exception:  # has no derivative there
        return None
    try:
        given = pf.autograd.grad(
            [g for g, _ in pairs], [_tensor(t, memo) for t in leaves], mine, allow_unused=True
        )
    except Exception as error:
        return Difference("grad", said(error))
    digits = compare.coarsest(
        {
            compare.PARTS.get(k, k)
            for k in (compare.kind_of(t.dtype) for t in [*leaves, *(w for _, w in pairs)])
        }
    )
    scale = 0.0 if digits == "float64" else 3.0
    for i, (g, w) in enumerate(zip(given, wanted)):
        what = f"gradient of leaf {i}"
        if (g is None) != (w is None) and leaves[i].numel():
            return Difference("grad", f"{what}: {g!r:.80}, not {w!r:.80}")
        if g is None or w is None:
            continue
        g, w = _dense(g), _dense(w)
        difference = compare.tensors(g, w, what, 10, not undefined, digits, scale)
        if difference and not wide.gradient(leaves[i], g, w, other):
            return Difference("grad", difference.text)
    return None


def said(error):
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]:.200}"


def _call(module, f, args):
    """(result, error) of one call with what `args()` gives."""
    try:
        value, rest, named = args()
        result = f(value, *rest, **named)
        if hasattr(module, "synchronize"):  # what is wrong may be known late
            module.synchronize()
        return result, None
    except Absent:
        raise
    except AttributeError as error:
        if module is pf and isinstance(error.obj, pf.Tensor):
            raise Absent(f"Tensor.{error.name}") from None
        return None, error
    except Exception as error:  # which one is judged by the caller
        if str(error).startswith("torch.ops.aten."):
            raise Absent(str(error)) from None
        return None, error


def _run(entry, sample, wrapper, memo):
    """(ours, theirs): result and error of each. `wrapper` calls: it may prepare what comes first."""
    theirs = (sample.input, sample.args, sample.kwargs)
    f, call = ours(entry, memo), _function(wrapper, memo)
    mine = _call(pf, functools.partial(call, f), lambda: translated(theirs, memo))
    return mine, _call(torch, functools.partial(wrapper, entry.op), lambda: theirs)


def _wrapper(entry):
    # Of masked operations it would hide what is masked.
    return _plainly if entry.name.startswith("masked.") else entry.gradcheck_wrapper


def _plainly(op, *args, **kwargs):
    return op(*args, **kwargs)


def one_sample(entry, sample):
    """The difference of one sample, or None."""
    undefined = entry.name in UNDEFINED
    memo = {}
    # Of a triangular argument the wrapper takes the triangle, of a symmetric one the symmetric part.
    (got, error), (want, refused) = _run(entry, sample, _wrapper(entry), memo)
    if refused is not None:
        return None
    if error is not None:
        return Difference("refuses", said(error))
    # What has a sign or an order of its own: what is made of it for gradients says what is determined.
    process = sample.output_process_fn_grad
    try:
        want = process(want)
    except Exception:  # is for gradients, and this one has none
        pass
    else:
        got = _function(process, memo)(got)
    difference = results(got, want, undefined)
    wide = Wide(entry, sample)
    if difference is not None and difference.kind == "value":
        if among_equals(entry, sample, got, want) or wide.results(got, want):
            difference = None
        elif _is_random(entry, sample, got):
            undefined, difference = True, results(got, want, True)
    difference = difference or gradients(sample, memo, got, want, undefined, wide)
    if difference and difference.kind == "grad" and among_equals(entry, sample, got, want):
        return None
    return difference


def _is_random(entry, sample, got):
    """Whether there is something else when it is asked again: dropout by some argument."""
    memo = {}
    (again, error), _ = _run(entry, sample, _wrapper(entry), memo)
    return error is None and results(again, got, False) is not None


OUTS = ("as it is", "wider", "another kind", "over itself")


def one_out(entry, sample, how):
    """The difference of a call with `out=`, or None."""
    plain = sample.transform(lambda t: t.detach() if isinstance(t, torch.Tensor) else t)
    try:
        first = entry.op(plain.input, *plain.args, **plain.kwargs)
    except Exception:
        return None
    several = isinstance(first, (tuple, list))
    if not all(isinstance(t, torch.Tensor) for t in (first if several else [first])):
        return None
    outs = [_out(t, how) for t in (first if several else [first])]
    if any(o is None for o in outs):
        return None
    written = copy.copy(plain)
    written.kwargs = {**plain.kwargs, "out": tuple(outs) if several else outs[0]}
    memo = {}
    (got, error), (_, refused) = _run(entry, written, _plainly, memo)
    if refused is not None:
        accepted = error is None and how != "as it is"
        return Difference("accepts", f"out= {how}: {said(refused)}") if accepted else None
    if error is not None:
        return Difference("refuses", f"out= {how}: {said(error)}")
    if not all(t is _tensor(o, memo) for t, o in zip(_tensors(got, pf.Tensor), outs)):
        return Difference("type", "the result is not what was passed as out")
    (plain_got, _), _ = _run(entry, plain, _plainly, {})  # whose values are compared elsewhere
    plain_got = list(_tensors(plain_got, pf.Tensor))
    got = [_tensor(o, memo).to(p.dtype) for o, p in zip(outs, plain_got)]
    return results(got, plain_got, entry.name in UNDEFINED)


_WIDER = {"float32": "float64", "int64": "float32", "bool": "int64", "complex64": "complex128"}
_OTHER = {"float32": "int64", "int64": "bool", "complex64": "float32"}


def _out(t, how):
    """A tensor for a result, or None."""
    kind = compare.kind_of(t.dtype)
    if how == "over itself":
        # In memory enough for what writes as if it were not so.
        return (
            torch.zeros(2 * t.numel(), dtype=t.dtype)[:1].expand(t.shape) if t.numel() > 1 else None
        )
    other = {"wider": _WIDER, "another kind": _OTHER}.get(how, {kind: kind}).get(kind)
    return None if other is None else torch.zeros(t.shape, dtype=getattr(torch, other))


def one_error(entry, wrong):
    """The difference of a sample that PyTorch refuses, or None."""
    (_, error), (_, refused) = _run(entry, wrong.sample_input, _plainly, {})
    if refused is None:
        return None
    if error is None:
        return Difference("accepts", said(refused))
    if not isinstance(error, (pf.PyFlameError, TypeError, ValueError)):
        return Difference("untyped", said(error))
    return None


def _drawn(function, *args, **kwargs):
    """What a generator of samples gives, until it fails itself."""
    try:
        yield from function(*args, **kwargs)
    except Exception as error:
        print(f"no samples: {said(error)}", file=sys.stderr)


def _guarded(judge, *args):
    try:
        return judge(*args)
    except Absent as absent:
        return Difference("absent", str(absent))


def _shown(sample):
    text = f"{sample.input!s:.200} args={sample.args!s:.200} kwargs={sample.kwargs!s:.200}"
    return " ".join(text.split())


def check(name, dtype="float32", seed=""):
    """(how many samples, differences as (sample, kind, text)) of one operation."""
    entry, kind = table()[name], getattr(torch, dtype)
    number = zlib.crc32(f"{name}{seed}".encode())
    torch.manual_seed(number)
    pf.manual_seed(number)
    random.seed(number)
    np.random.seed(number)
    ours(entry, {})  # raises Absent
    differentiable = entry.supports_autograd and kind in entry.supported_backward_dtypes("cpu")
    samples = _drawn(entry.sample_inputs, "cpu", kind, requires_grad=differentiable)
    errors = ()
    if entry.error_inputs_func is not None and dtype == "float32":
        errors = _drawn(entry.error_inputs, "cpu")
    found, count = [], 0
    for sample in samples:
        count += 1
        if difference := _guarded(one_sample, entry, sample):
            found.append((_shown(sample), difference.kind, difference.text))
        if count <= 3 and entry.supports_out and dtype == "float32":
            for how in OUTS:
                if difference := _guarded(one_out, entry, sample, how):
                    found.append((_shown(sample), difference.kind, difference.text))
    for wrong in errors:
        count += 1
        text = _shown(
            wrong.sample_input
        )  # what is refused half-way may be broken, and crash when printed
        if difference := _guarded(one_error, entry, wrong):
            found.append((text, difference.kind, difference.text))
    return count, found


# ---- child processes ----


def _child(arguments):
    """Runs the operations named on stdin; says on stdout when each begins and ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**what):
        print(json.dumps(what), file=out, flush=True)

    torch.set_num_threads(1)
    for name in sys.stdin.read().split("\n"):
        say(begin=name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                count, found = check(name, arguments.dtype, arguments.seed)
            say(end=name, count=count, found=found)
        except Absent as absent:
            say(end=name, absent=str(absent))


def _lines(process):
    """Lines of a child's output as they come; ends with it, or when it hangs."""
    rest, fd = b"", process.stdout.fileno()
    while select.select([fd], [], [], HANG)[0]:
        data = os.read(fd, 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from map(json.loads, lines)
    process.kill()


def run(wanted, dtype="float32", seed="", command=None):
    """Yields (name, answer) of each operation: {count, found}, {absent} or {crash}."""
    command = command or [
        sys.executable, __file__, "--child", "--dtype", dtype, "--seed", seed,
    ]  # fmt: skip
    wanted = collections.deque(wanted)
    while wanted:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        errors = []
        with process:
            process.stdin.write("\n".join(wanted).encode())
            process.stdin.close()
            os.set_blocking(process.stderr.fileno(), False)
            for line in _lines(process):
                if "end" in line:
                    yield wanted.popleft(), line
                if text := process.stderr.read():
                    errors.append(text)
            process.wait()
            if text := process.stderr.read():
                errors.append(text)
        if wanted:
            tail = b"".join(errors).decode(errors="replace")[-2000:]
            yield wanted.popleft(), {"crash": f"ended with {process.returncode}\n{tail}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="operations, by names of PyTorch's table")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seed", default="")
    parser.add_argument(
        "--most", type=int, default=5, help="differences to print of each operation"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help="without child processes")
    arguments = parser.parse_args()
    if arguments.child:
        return _child(arguments)
    from pytorch_samples_known import known, meant

    wanted = arguments.names or names(arguments.dtype)
    if arguments.here:
        answers = (
            (n, dict(zip(("count", "found"), check(n, arguments.dtype, arguments.seed))))
            for n in wanted
        )
    else:
        answers = run(wanted, arguments.dtype, arguments.seed)
    tally, listed = collections.Counter(), collections.defaultdict(list)
    for name, answer in answers:
        tally["samples"] += answer.get("count", 0)
        found = [f for f in answer.get("found", ()) if not meant(*f[1:])]
        new = [f for f in found if not known(name, *f[1:])]
        kind = next((k for k in ("absent", "crash") if k in answer), None)
        if found and all(f[1] == "absent" for f in found):
            kind = "absent"
        kind = kind or ("bad" if new else "known" if found else "good")
        tally[kind] += 1
        listed[kind].append(name)
        if kind == "crash":
            print(f"{name}: {answer['crash']}", flush=True)
        for sample, what, text in (new or found)[: arguments.most]:
            print(f"{name}: {kind}: {what}: {text}\n    {sample}", flush=True)
    for kind in ("absent", "known", "bad", "crash"):
        print(f"{kind}: {' '.join(listed[kind])}")
    print(dict(tally))
    return 1 if tally["bad"] or tally["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
