"""Runs a program under both modules and says what differs."""

import math
import random
import warnings
from dataclasses import dataclass

import numpy as np

from . import draw

# (relative, absolute beside the largest magnitude of the result): what rounding may do in a few
# steps. Products and sums of the drawn sizes stay below.
TOLERANCE = {
    "float64": (1e-10, 1e-12),
    "float32": (2e-5, 2e-6),
    "float16": (4e-3, 2e-3),
    "bfloat16": (2e-2, 1e-2),
}


@dataclass
class Difference:
    kind: str  # refuses, accepts, untyped, type, dtype, shape, value, argument, alias, history, ...
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


def kind_of(dtype):
    return str(dtype).rsplit(".", 1)[-1]


def array(t):
    t = t.detach().to_dense() if t.is_sparse else t.detach()
    if kind_of(t.dtype) == "bfloat16":
        t = t.float()
    return t.resolve_neg().numpy(force=True) if hasattr(t, "resolve_neg") else t.numpy()


class Side:
    """One module's run of a case."""

    def __init__(self, module, case, code):
        self.module, self.leaves = module, case.leaves
        self.space = {"m": module, "nan": math.nan, "inf": math.inf}
        setup, call = code
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(setup, self.space)
            try:
                exec(call, self.space)
                if hasattr(module, "synchronize"):  # a wrong index may be known late
                    module.synchronize()
                self.result, self.error = self.space["r"], None
            except Exception as error:  # which one is judged later
                self.result, self.error = None, error

    def outputs(self):
        return list(_flat(self.result, self.module.Tensor))


def _flat(value, tensor):
    if isinstance(value, tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _flat(v, tensor)


def compiled(case):
    return (
        compile("\n".join(case.setup), "<setup>", "exec"),
        compile("r = " + case.call, "<call>", "exec"),
    )


def tensors(
    ours, theirs, what="result", loose=1.0, values=True, digits=None, scale=0.0, where_finite=False
):
    """The difference of two tensors, or None."""
    if kind_of(ours.dtype) != kind_of(theirs.dtype):
        return Difference("dtype", f"{what}: {kind_of(ours.dtype)}, not {kind_of(theirs.dtype)}")
    if tuple(ours.shape) != tuple(theirs.shape):
        return Difference("shape", f"{what}: {tuple(ours.shape)}, not {tuple(theirs.shape)}")
    if not values:
        return None
    digits = digits or kind_of(theirs.dtype)
    return arrays(array(ours), array(theirs), digits, what, loose, scale, where_finite)


PARTS = {"complex64": "float32", "complex128": "float64"}
COARSE = ["bfloat16", "float16", "float32", "float64"]


def coarsest(names):
    """The floating-point dtype with the fewest digits."""
    return next((n for n in COARSE if n in names), "float64")


def arrays(got, want, dtype, what="result", loose=1.0, scale=0.0, where_finite=False):
    if got.dtype.kind in "biu":
        same = got == want
    else:
        relative, absolute = TOLERANCE[PARTS.get(dtype, dtype)]
        if got.dtype.kind == "c":  # parts side by side
            got, want = (np.stack([a.real, a.imag], -1) for a in (got, want))
        got, want = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(want)
        scale = np.abs(want[finite]).max(initial=scale)
        with np.errstate(all="ignore"):
            near = np.abs(got - want) <= loose * (
                relative * np.abs(want) + absolute * (scale + 0.01)
            )
        same = np.where(
            finite, near, (got == want) | (np.isnan(got) & np.isnan(want)) | where_finite
        )
    if same.all():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(~same)) if same.ndim else ()
    return Difference("value", f"{what}{list(at) if at else ''}: {got[at]}, not {want[at]}")


def results(case, ours, theirs):
    """Compares what two calls returned."""
    got, want = ours.result, theirs.result
    is_tensor = isinstance(want, theirs.module.Tensor)
    if is_tensor != isinstance(got, ours.module.Tensor):
        return Difference("type", f"{type(got).__name__}, not {type(want).__name__}")
    if is_tensor:
        pairs = [(got, want)]
    elif isinstance(want, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(want):
            return Difference("type", f"{got!r:.60}, not {want!r:.60}")
        pairs = list(zip(_flat(got, ours.module.Tensor), _flat(want, theirs.module.Tensor)))
    else:
        same = got == want or (got != got and want != want)
        if isinstance(want, float) and isinstance(got, float):
            same = same or math.isclose(got, want, rel_tol=1e-6)
        return None if same else Difference("value", f"{got!r}, not {want!r}")
    for i, (g, w) in enumerate(pairs):
        what = "result" if is_tensor else f"result[{i}]"
        if case.unordered:  # indices: compared by what they point at
            is_index = kind_of(w.dtype) == "int64" and (i > 0 or case.op == "argsort")
            if is_index and g.dtype == ours.module.int64 and tuple(g.shape) == tuple(w.shape):
                if difference := pointed(case, theirs, array(g), array(w), what):
                    return difference
                continue
        if difference := tensors(g, w, what, values=not case.undefined):
            return difference
        if g.requires_grad != w.requires_grad:
            return Difference("history", f"{what}.requires_grad: {g.requires_grad}")
    return None


def pointed(case, theirs, got, want, what):
    x = array(eval(case.first.text, theirs.space))
    dim = case.args.get("dim", -1)
    if x.ndim == 0:
        return arrays(got, want, "int64", what)
    if case.op == "median" and "dim" not in case.args:
        return None
    if case.op == "msort":
        dim = 0
    if case.bad:  # dim is not the one that was drawn
        return None
    if got.ndim == x.ndim - 1:
        got, want = np.expand_dims(got, dim), np.expand_dims(want, dim)
    if got.size and (got.min() < 0 or got.max() >= x.shape[dim]):
        return Difference("value", f"{what}: an index out of range")
    x = x.astype(np.float64)
    return arrays(
        np.take_along_axis(x, got, dim), np.take_along_axis(x, want, dim), "float64", what
    )


def arguments(case, ours, theirs):
    """What became of the tensors that were passed."""
    for name in case.names:
        mine, other = ours.space[name], theirs.space[name]
        if difference := tensors(mine, other, name, values=not case.undefined):
            return Difference("argument", str(difference))
    if case.out and ours.result is not ours.space["out"]:
        return Difference("type", "the result is not what was passed as out")
    return None


def aliases(case, ours, theirs):
    """Which arguments a result shares its memory with: a view of them, or a copy."""

    def shared(side):
        owners = {}
        for name in case.names:
            t = side.space[name]
            if t.numel():
                owners.setdefault(t.untyped_storage().data_ptr(), set()).add(name)
        return [
            sorted(owners.get(o.untyped_storage().data_ptr(), ())) if o.numel() else []
            for o in side.outputs()
        ]

    for i, (mine, other) in enumerate(zip(shared(ours), shared(theirs))):
        if mine != other:
            return Difference("alias", f"result[{i}] is in the memory of {mine}, not of {other}")
    return None


def gradients(case, ours, theirs, rng, where_finite=False):
    """First derivatives for random cotangents, and for a share the second ones. `where_finite`: where
    PyTorch's are."""
    outs = [o for o in theirs.outputs() if o.requires_grad]
    mine = [o for o, t in zip(ours.outputs(), theirs.outputs()) if t.requires_grad]
    if not outs or not case.leaves:
        return None
    seen = [theirs.space[n] for n in case.names] + outs
    digits = coarsest({PARTS.get(kind_of(t.dtype), kind_of(t.dtype)) for t in seen})
    # In 16 bits PyTorch rounds after each step of a gradient: second ones hold little of it.
    if any(kind_of(theirs.space[n].dtype) not in ("float64", "complex128") for n in case.leaves):
        rng = draw.beside(rng)
    second = rng.random() < 0.4 and digits in ("float32", "float64")
    # What cancels in a gradient leaves the rounding of what was added.
    scale = 0.0 if digits == "float64" else 3.0

    def cotangent(o):
        parts = np.array([rng.gauss(0, 1) for _ in range(o.numel() * (1 + o.is_complex()))])
        return parts.reshape(-1, 2) @ [1, 1j] if o.is_complex() else parts

    cotangents = [cotangent(o) for o in outs]

    def grad(side, outs, order):
        m, leaves = side.module, [side.space[n] for n in case.leaves]
        weights = [
            m.tensor(c.tolist(), dtype=o.dtype).reshape(tuple(o.shape))
            for c, o in zip(cotangents, outs)
        ]
        return m.autograd.grad(outs, leaves, weights, allow_unused=True, create_graph=order > 1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = grad(theirs, outs, 2 if second else 1)
        except Exception:  # has no derivative there
            return None
        try:
            got = grad(ours, mine, 2 if second else 1)
        except Exception as error:
            return Difference("grad", f"{type(error).__name__}: {error}")
        for name, g, w in zip(case.leaves, got, want):
            if (g is None) != (w is None):
                missing = "None" if g is None else "given"
                return Difference("grad", f"of {name}: {missing}; PyTorch's is {w!r:.80}")
            if g is not None and (
                difference := tensors(
                    g, w, f"gradient of {name}", 10, digits=digits, scale=scale,
                    where_finite=where_finite,
                )
            ):  # fmt: skip
                return Difference("grad", str(difference))
        if not second:
            return None
        # A gradient without history has zero derivatives: missing and zero are the same.
        try:
            want = seconds(grad, theirs, want)
        except Exception:
            return None
        if want is None:
            return None
        try:
            got = seconds(grad, ours, got)
        except Exception as error:
            return Difference("second", f"{type(error).__name__}: {error}")
    for i, name in enumerate(case.leaves):
        w = want[i]
        if w is None:
            w = theirs.module.zeros_like(theirs.space[name])
        g = got[i] if got is not None else None
        if g is None:
            g = ours.module.zeros_like(ours.space[name])
        if difference := tensors(
            g, w, f"second derivative for {name}", 100, digits=digits, scale=scale,
            where_finite=where_finite,
        ):  # fmt: skip
            return Difference("second", str(difference))
    return None


def seconds(grad, side, firsts):
    total = None
    rng = random.Random(0)
    for f in firsts:
        if f is None:
            continue
        weights = side.module.tensor([rng.gauss(0, 1) for _ in range(f.numel())], dtype=f.dtype)
        if f.requires_grad:
            term = (f.reshape(-1) * weights).sum()
            total = term if total is None else total + term
    if total is None:
        return None
    leaves = [side.space[n] for n in side.leaves]
    return side.module.autograd.grad([total], leaves, allow_unused=True)


def judge(case, ours, theirs):
    """The first difference of two sides that have run, or None."""
    if theirs.error is not None:
        if ours.error is None:
            return Difference("accepts", f"{said(theirs.error)}")
        if not isinstance(ours.error, (ours.module.PyFlameError, TypeError)):
            return Difference("untyped", said(ours.error))
        return None
    if ours.error is not None:
        return Difference("refuses", said(ours.error))
    return results(case, ours, theirs) or arguments(case, ours, theirs)


def said(error):
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]:.200}"
