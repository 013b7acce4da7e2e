"""Custom functions drawn at random: several outputs, some without gradient, some not tensors, inputs given back,
views and writes in place, materialized gradients on and off, parts of the results used, by way of views of them.
What backward gets, what the results say and the gradients are PyTorch's.

PYFLAME_FUNCTIONS says how many are drawn (by default 800).
"""

import os
import random

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
COUNT = int(os.environ.get("PYFLAME_FUNCTIONS", "800"))
OUTPUTS = (
    "double", "sum", "int", "bool", "plain", "mix", "none", "number", "input", "view", "half", "dirty", "complex",
)  # fmt: skip
LOOKS = {
    "view": lambda t: t.view(-1),
    "transpose": lambda t: t.transpose(0, -1) if t.dim() else t,
    "select": lambda t: t[0] if t.dim() else t,
    "slice": lambda t: t[..., :1] if t.dim() else t,
    "unsqueeze": lambda t: t.unsqueeze(0),
    "expand": lambda t: t.expand(2, *t.shape),
    "view_as": lambda t: t.view_as(t),
}


def program(lib, seed):
    r = random.Random(seed)
    kinds = [r.choice(OUTPUTS) for _ in range(r.randint(1, 4))]
    if kinds.count("dirty") > 1 or len(kinds) > 1 and "dirty" in kinds and r.random() < 0.5:
        kinds = [k if k != "dirty" else "double" for k in kinds]
    marks = [r.random() < 0.3 for _ in kinds]
    materialize = r.random() < 0.6
    single = len(kinds) == 1 and r.random() < 0.5
    needs_x, needs_y = r.random() < 0.9, r.random() < 0.5
    shape = [r.randint(1, 3) for _ in range(r.randint(1, 2))]
    seen = []

    def tell(v):
        if isinstance(v, lib.Tensor):
            return "tensor", tuple(v.shape), str(v.dtype).rpartition(".")[2], v.detach().tolist()
        return v

    class Drawn(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, factor):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(x, y)
            made = []
            for kind in kinds:
                if kind == "double":
                    out = x * factor
                elif kind == "sum":
                    out = (x * y).sum()
                elif kind == "int":
                    out = x.argsort(0)
                elif kind == "bool":
                    out = x > 0
                elif kind == "plain":
                    out = lib.ones(2, dtype=lib.float64)
                elif kind == "mix":
                    out = x + y
                elif kind == "none":
                    out = None
                elif kind == "number":
                    out = 3.5
                elif kind == "input":
                    out = y
                elif kind == "view":
                    out = x[:1]
                elif kind == "half":
                    out = (x * 2).to(lib.float16)
                elif kind == "dirty":
                    x.mul_(factor)
                    ctx.mark_dirty(x)
                    out = x
                else:
                    out = lib.complex(x, x)
                made.append(out)
            marked = [
                o
                for o, m, k in zip(made, marks, kinds)
                if isinstance(o, lib.Tensor) and (m and k != "dirty" or k in ("int", "bool"))
            ]
            if marked:
                ctx.mark_non_differentiable(*marked)
            return made[0] if single else tuple(made)

        @staticmethod
        def backward(ctx, *grads):
            seen.append([tell(g) for g in grads])
            seen.append(list(ctx.needs_input_grad))
            gx = gy = None
            for kind, g in zip(kinds, grads):
                if g is None or kind in ("int", "bool", "plain", "none", "number"):
                    continue
                if kind in ("double", "half", "dirty"):
                    gx = g * 2 if gx is None else gx + g * 2
                elif kind == "sum":
                    gx = g.expand(shape) if gx is None else gx + g
                elif kind == "complex":
                    gx = g.real if gx is None else gx + g.real
                elif kind in ("mix", "input") and gy is None:
                    gy = g * 1.5
            return gx, gy, None

    x = lib.arange(1, 1 + shape[0] * (shape[1] if len(shape) > 1 else 1)).to(lib.float64)
    x = x.reshape(shape).requires_grad_(needs_x)
    y = (lib.ones(shape, dtype=lib.float64) * 3).requires_grad_(needs_y)
    arg = x * 1 if "dirty" in kinds else x
    outs = Drawn.apply(arg, y, 2.0)
    outs = (outs,) if single else outs
    for out in outs:
        seen.append(tell(out))
        if isinstance(out, lib.Tensor):
            seen += [
                out.requires_grad,
                out.is_leaf,
                out.grad_fn is None,
                out is x,
                out is y,
                out is arg,
            ]
    if r.random() < 0.15:  # a result is written behind
        r.choice(
            [o for o in outs if isinstance(o, lib.Tensor) and o.requires_grad] or [y * 1]
        ).mul_(2)
    used = [o for o in outs if isinstance(o, lib.Tensor) and o.requires_grad and r.random() < 0.6]
    loss = None
    for o in used:
        for _ in range(r.randint(0, 2)):
            o = LOOKS[r.choice(list(LOOKS))](o)
            seen += [tell(o), o.requires_grad, o.is_leaf]
        part = (lib.view_as_real(o) if o.dtype.is_complex else o).to(lib.float64).sum()
        loss = part if loss is None else loss + part * 2
    if loss is not None and loss.requires_grad:
        again = r.random() < 0.3
        loss.backward(retain_graph=again)
        if again:
            loss.backward()
    seen += [tell(x.grad), tell(y.grad)]
    return kinds, seen


def ended(lib, seed):
    try:
        return program(lib, seed)
    except (RuntimeError, ValueError, TypeError, pf.PyFlameError) as e:
        return None, str(e)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_as_pytorch(part):
    compared = 0
    for seed in range(part, COUNT, 4):
        kinds, theirs = ended(torch, seed)
        if isinstance(theirs, str):
            continue
        _, ours = ended(pf, seed)
        assert ours == theirs, (seed, kinds)
        compared += 1
    assert compared > COUNT // 8


def test_views_of_a_result_that_looks_at_an_input():
    class Reversed(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    x = pf.ones(2, 3, requires_grad=True)
    Reversed.apply(x).view(-1)[1:].sum().backward()
    assert x.grad.tolist() == [[0, -1, -1], [-1, -1, -1]]
    with pytest.raises(pf.AutogradError, match="no_grad"):  # its history would miss the write
        Reversed.apply(x * 1).view(-1).mul_(2)


def test_views_of_what_a_watched_module_gives():
    module, seen = pf.nn.Linear(3, 4), []
    module.register_full_backward_hook(lambda m, gave, got: seen.append(got[0].tolist()))
    module(pf.ones(2, 3)).view(2, 2, 2)[:, 0].sum().backward()
    assert seen == [[[1, 1, 0, 0]] * 2]
    assert module.bias.grad.tolist() == [2, 2, 0, 0]
