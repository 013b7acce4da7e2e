"""Programs of a few lines that are run under PyTorch and under PyFlame, line by line.

A line is text, `m` is the module, and a name stands before what is looked at: `a = m.ones(2)`. What a line gives
(values, dtypes, shapes, layouts, flags, gradients, containers), the classes of its warnings and of its error are
compared. A name that one line could not give is unknown to both behind it.
"""

import builtins
import math
import random
import re
import warnings

import numpy as np

import pyflame as pf

# relative, and beside the largest magnitude of a result
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
ERRORS = (
    *("KeyError", "IndexError", "NotImplementedError", "AttributeError", "TypeError", "ValueError"),
    *("ZeroDivisionError", "StopIteration", "ImportError", "OSError", "AssertionError", "RuntimeError"),
)  # fmt: skip


def word(value):
    """A dtype, layout or class without its module."""
    return str(value).rpartition(".")[2].rstrip("'>")


def numbers(t):
    t = t.detach()
    t = t.to_dense() if t.is_sparse or "sparse" in word(t.layout) else t
    if word(t.dtype) == "bfloat16":
        t = t.float()
    for resolve in ("resolve_conj", "resolve_neg"):
        t = getattr(t, resolve)() if hasattr(t, resolve) else t
    return t.cpu().numpy().copy()


def flags(t):
    return f"grad {t.requires_grad}, leaf {t.is_leaf}"


def dense(t, strides=False):
    out = ["tensor", word(t.dtype), tuple(t.shape), flags(t), numbers(t)]
    return out + [tuple(t.stride())] if strides else out


def seen(m, value, depth=0):
    """What can be looked at of a value, as lists, text, numbers and arrays."""
    if depth > 6:
        return "deep"
    again = lambda v: seen(m, v, depth + 1)  # noqa: E731
    if isinstance(value, m.masked.MaskedTensor):
        mask = numbers(value.get_mask())
        data = numbers(value.get_data())
        return ["masked", word(value.dtype), tuple(value.shape), value.requires_grad, mask,
                np.where(mask, data, np.zeros_like(data))]  # fmt: skip
    if isinstance(value, m.Tensor):
        if value.is_nested:
            return ["nested", word(value.dtype), word(value.layout), flags(value),
                    [dense(p.detach()) for p in value.unbind()]]  # fmt: skip
        layout = word(value.layout)
        if layout == "strided":
            return dense(value)
        out = [layout, word(value.dtype), tuple(value.shape), flags(value)]
        value = value.detach()
        if layout == "sparse_coo":
            out += [value.sparse_dim(), value.dense_dim(), value.is_coalesced()]
            value = value.coalesce()
            return out + [numbers(value.indices()), numbers(value.values())]
        rows = layout in ("sparse_csr", "sparse_bsr")
        parts = ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")
        return (
            out
            + [numbers(getattr(value, n)()).astype(np.int64) for n in parts]
            + [numbers(value.values())]
        )
    if isinstance(value, np.ndarray):
        return ["array", value]
    if isinstance(value, str):
        # a test backend is named in what tensors print, which is broken elsewhere then
        value = re.sub(r",\s*device='paranoid:0'", "", value.replace("pyflame", "torch"))
        return " ".join(value.split())
    if isinstance(value, (bool, int, float, complex, bytes, type(None))):
        return value
    if isinstance(value, (tuple, list)):
        name = (
            type(value).__name__
            if hasattr(value, "_fields")
            else "list"
            if isinstance(value, list)
            else "tuple"
        )
        return [name, *map(again, value)]
    if isinstance(value, dict):
        return ["dict", [[again(k), again(v)] for k, v in value.items()]]
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, m.distributions.Distribution):
        return [type(value).__name__, again(value.batch_shape), again(value.event_shape)]
    if isinstance(value, m.Generator):
        return "generator"
    if isinstance(value, (m.dtype, m.device, m.layout, m.memory_format)):
        return word(value)
    if isinstance(value, m.distributions.constraints.Constraint):
        return "constraint"
    if isinstance(value, m.distributions.Transform):
        return "transform"
    return type(value).__name__


def differs(ours, theirs, digits=None):
    """What differs of two that seen() gave, or None."""
    if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
        if ours.dtype.kind in "biuSUO":
            same = ours == theirs
        else:
            near = TOLERANCE[digits or "float64"]
            a, b = ([x.real, x.imag] if x.dtype.kind == "c" else [x] for x in (ours, theirs))
            a, b = np.stack(a).astype(np.float64), np.stack(b).astype(np.float64)
            finite = np.isfinite(b)
            scale = np.abs(b[finite]).max(initial=0)
            with np.errstate(all="ignore"):
                same = np.where(finite, np.abs(a - b) <= near * (np.abs(b) + scale + 0.01),
                                (a == b) | np.isnan(a) & np.isnan(b))  # fmt: skip
        return None if same.all() else f"{ours.tolist()!r:.300}, not {theirs.tolist()!r:.300}"
    if isinstance(theirs, list) and theirs[:1] == ["sparse_coo"] and ours[:1] == ["sparse_coo"]:
        if not theirs[6]:  # what is coalesced beyond PyTorch's is no harm
            ours = [*ours[:6], False, *ours[7:]]
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        if len(ours) != len(theirs):
            return f"{ours!r:.300}, not {theirs!r:.300}"
        for text in (t for t in theirs if isinstance(t, str)):
            text = text.replace("complex64", "float32")
            if TOLERANCE.get(text, 0) > TOLERANCE.get(digits, 0):
                digits = text
        found = [differs(a, b, digits) for a, b in zip(ours, theirs)]
        first = next((f for f in found if f), None)
        return first and (
            f"{theirs[0]}: {first}" if theirs and isinstance(theirs[0], str) else first
        )
    if isinstance(theirs, float) and isinstance(ours, float):
        return None if ours == theirs or ours != ours and theirs != theirs or math.isclose(
            ours, theirs, rel_tol=TOLERANCE[digits or "float32"], abs_tol=1e-7) else f"{ours}, not {theirs}"  # fmt: skip
    return (
        None
        if type(ours) is type(theirs) and ours == theirs
        else f"{ours!r:.200}, not {theirs!r:.200}"
    )


def kinds(error):
    """The builtin classes that would catch it."""
    return {n for n in ERRORS if isinstance(error, getattr(builtins, n))}


class Run:
    """A program under one module: for each line what it gave, its error and the classes of its warnings."""

    def __init__(self, m, lines, names=()):
        self.given = []
        space = {"m": m, "nan": math.nan, "inf": math.inf, "D": m.distributions, "F": m.nn.functional,
                 **{n: v(m) for n, v in dict(names).items()}}  # fmt: skip
        for line in lines:
            name = re.match(r"(\w+) = ", line)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                try:
                    exec(line, space)
                    shown = name and not name[1].endswith("__")  # those are not looked at
                    value, error = shown and seen(m, space[name[1]]), None
                except Exception as e:
                    value, error = None, e
                    if name:
                        space.pop(name[1], None)
            self.given.append((value, error, {w.category for w in heard}))


def compare(torch, lines, names=(), accepts=True, warned=False, digits=None):
    """(line number, what differs) for each line that differs. `accepts`: what PyFlame takes and PyTorch refuses is
    no difference, and what follows of it neither."""
    ours, theirs = Run(pf, lines, names), Run(torch, lines, names)
    out, unknown = [], set()
    for i, (a, b) in enumerate(zip(ours.given, theirs.given)):
        name = re.match(r"(\w+) = ", lines[i])
        words = set(re.findall(r"\w+", lines[i]))
        if words & unknown:
            if not name:  # what a statement changes is not known any more
                break
            unknown.add(name[1])
            continue
        text = None
        if b[1] is not None and a[1] is not None:
            # an AssertionError of PyTorch's is a check, ours have the class of what is wrong
            if not isinstance(b[1], AssertionError) and not kinds(b[1]) <= kinds(a[1]):
                text = f"error: {type(a[1]).__name__} {str(a[1])[:200]}, not {type(b[1]).__name__} {str(b[1])[:200]}"
        elif b[1] is not None:
            if not accepts:
                text = f"accepts: PyTorch {type(b[1]).__name__} {str(b[1])[:300]}"
            if not name:  # what a statement changed on one side alone
                break
            unknown.add(name[1])
        elif a[1] is not None:
            text = f"refuses: {type(a[1]).__name__} {str(a[1])[:300]}"
            unknown |= {name[1]} if name else set()
        else:
            text = differs(a[0], b[0], digits)
            if text and name:
                unknown.add(name[1])
            if not text and warned and {w.__name__ for w in a[2]} != {w.__name__ for w in b[2]}:
                text = f"warnings: {a[2]}, not {b[2]}"
        if text:
            out.append((i, text))
            if not name:
                break
    return out


def draw(make, seed):
    return make(random.Random(seed))
