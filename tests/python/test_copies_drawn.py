"""Copies of graphs of objects drawn at random: tensors that share memory, views, parameters, buffers, modules,
subclasses, gradients, attributes. deepcopy, copy and pickle leave the structure that PyTorch's leave: who is who,
whose memory is whose, values, strides, flags.

PYFLAME_COPIES says how many graphs are drawn (by default 500).
"""

import copy
import os
import pickle
import random

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
COUNT = int(os.environ.get("PYFLAME_COPIES", "500"))


def subclasses(lib):
    class Named(lib.Tensor):
        pass

    class Weight(lib.nn.Parameter):
        pass

    Named.__qualname__, Weight.__qualname__ = f"Named_{lib.__name__}", f"Weight_{lib.__name__}"
    globals()[Named.__qualname__], globals()[Weight.__qualname__] = Named, Weight
    return Named, Weight


KINDS = {torch: subclasses(torch), pf: subclasses(pf)}


def build(lib, seed, way):
    """A dict of tensors, modules and lists of them."""
    r = random.Random(seed)
    named, weight = KINDS[lib]
    tensors, root = [], {}

    def fresh():
        shape = [r.randint(1, 4) for _ in range(r.randint(1, 3))]
        n = 1
        for s in shape:
            n *= s
        dtype = r.choice([lib.float32, lib.float32, lib.float64, lib.int64, lib.complex64])
        t = lib.arange(n).to(dtype).reshape(shape)
        return t.t().contiguous().t() if len(shape) == 2 and r.random() < 0.3 else t

    def view(t):
        t = t.detach()
        kind = r.choice(["same", "part", "t", "flat", "step"])
        if kind == "part":
            return t[r.randrange(t.shape[0]) :]
        if kind == "t" and t.dim() == 2:
            return t.t()
        if kind == "step":
            return t[::2]
        return t.view(-1) if kind == "flat" and t.is_contiguous() else t

    for _ in range(r.randint(1, 5)):
        plain = [t for t in tensors if t.numel() and type(t) is not named]
        t = view(r.choice(plain)) if plain and r.random() < 0.6 else fresh()
        kind = r.choice(["plain", "plain", "parameter", "named", "weight", "buffer", "view"])
        if kind == "named" and way == "deepcopy":  # PyTorch refuses it
            kind = "plain"
        if kind == "weight" and way != "deepcopy":  # PyTorch forgets the class
            kind = "parameter"
        floats = t.is_floating_point() or t.is_complex()
        wants = floats and r.random() < 0.5
        if kind in ("parameter", "weight"):
            t = (lib.nn.Parameter if kind == "parameter" else weight)(t, requires_grad=wants)
        elif kind == "named":
            t = t.as_subclass(named)
        elif kind == "buffer":
            t = lib.nn.Buffer(t, persistent=r.random() < 0.5)
        if kind in ("plain", "named") and wants:
            t = t.requires_grad_()
        if wants and t.requires_grad and r.random() < 0.4:
            t.grad = lib.ones_like(t.detach())
        if r.random() < 0.3:
            t.mark = ["mark", r.choice(tensors)] if tensors and r.random() < 0.5 else "mark"
        tensors.append(t)
    for i, t in enumerate(tensors):
        root[f"t{i}"] = t
    if r.random() < 0.5:
        m = lib.nn.Module()
        for i, t in enumerate(tensors):
            where = r.random()
            if isinstance(t, lib.nn.Parameter):
                m.register_parameter(f"p{i}", t)
            elif where < 0.5 and type(t) is lib.Tensor and not isinstance(t, lib.nn.Buffer):
                m.register_buffer(f"b{i}", t)
            elif where < 0.7:
                setattr(m, f"a{i}", t)
        if r.random() < 0.5:
            m.child = lib.nn.Linear(2, 2)
            m.tied = m.child
            if r.random() < 0.5:
                m.head = lib.nn.Linear(2, 2, bias=False)
                m.head.weight = m.child.weight
        root["module"] = m
    root["list"] = [r.choice(tensors), r.choice(tensors)]
    return root


def found(lib, value, path, out):
    """(path, tensor) of all in a graph, attributes and gradients too."""
    if isinstance(value, lib.Tensor):
        out.append((path, value))
        if value.grad is not None:
            found(lib, value.grad, path + ".grad", out)
        if "mark" in value.__dict__:
            found(lib, value.mark, path + ".mark", out)
    elif isinstance(value, lib.nn.Module):
        for name, part in [*value.__dict__.items()]:
            if isinstance(part, (dict, lib.Tensor, lib.nn.Module)) and "hooks" not in name:
                found(lib, part, f"{path}.{name}", out)
    elif isinstance(value, dict):
        for name, part in value.items():
            found(lib, part, f"{path}[{name}]", out)
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            found(lib, part, f"{path}[{i}]", out)
    return out


def structure(lib, original, copied, strides):
    before, after = found(lib, original, "", []), found(lib, copied, "", [])
    all_ = [("old" + p, t) for p, t in before] + [("new" + p, t) for p, t in after]
    memory, objects, rows = {}, {}, []
    for path, t in all_:
        plain = t.detach().as_subclass(lib.Tensor)
        kind = type(t).__name__.partition("_")[0] if ".grad" not in path else "Tensor"
        where = plain.untyped_storage().data_ptr() if t.numel() else None
        shared = memory.setdefault(where, path) if where else None
        steps = tuple(st for st, n in zip(t.stride(), t.shape) if n > 1)
        rows.append(
            (path, "Tensor" if kind == "Buffer" else kind, str(t.dtype).rpartition(".")[2])
            + (tuple(t.shape), t.requires_grad, t.is_leaf or kind == "Named", str(plain.tolist()))
            + (objects.setdefault(id(t), path), shared)
            + ((steps, t.storage_offset()) if strides and "child" not in path else ())
        )
        if "child" in path or "head" in path or "tied" in path:
            rows[-1] = rows[-1][:6] + rows[-1][7:]  # drawn by the layers themselves
    return rows


WAYS = {
    "deepcopy": copy.deepcopy,
    "copy": lambda root: {k: copy.copy(v) for k, v in root.items()},
    "pickle": lambda root: pickle.loads(pickle.dumps(root)),
}


@pytest.mark.parametrize("way", WAYS)
def test_structure(way):
    for seed in range(COUNT):
        rows = []
        for lib in (torch, pf):
            root = build(lib, seed, way)
            rows.append(structure(lib, root, WAYS[way](root), way == "copy"))
        assert len(rows[0]) == len(rows[1]), seed
        for theirs, ours in zip(*rows):
            assert ours == theirs, f"seed {seed}"
