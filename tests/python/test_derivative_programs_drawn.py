"""Short programs around derivatives of functions, drawn at random and run by both: `autograd.functional` with its
options and dual tensors of `autograd.forward_ad`. Values and errors are PyTorch's.

PYFLAME_PROGRAMS says how many of each kind are drawn (by default 60).
"""

import os
import random
import warnings

import pytest
from test_module_programs_drawn import Log, drawn, same

torch = pytest.importorskip("torch")

import pyflame as pf  # noqa: E402

COUNT = int(os.environ.get("PYFLAME_PROGRAMS", "60"))


def of_0d(f):
    """f, or twice the number where there is no dimension."""
    return lambda m, x: f(m, x) if x.dim() else x * 2


STEPS = {
    **{
        name: lambda m, x, name=name: getattr(x, name)()
        for name in "exp sin cos tanh sigmoid neg square abs relu sum mean prod clone detach norm max".split()
    },
    "cumsum": of_0d(lambda m, x: x.cumsum(0)),
    "flat": lambda m, x: x.reshape(-1),
    "turned": of_0d(lambda m, x: x.transpose(0, -1)),
    "softmax": lambda m, x: x.softmax(0),
    "clamp": lambda m, x: x.clamp(-1, 1),
    "row": of_0d(lambda m, x: x[0]),
    "rows": of_0d(lambda m, x: x[[0, 0]]),
    "doubled": of_0d(lambda m, x: m.cat([x, x])),
    "flip": of_0d(lambda m, x: x.flip(0)),
    "logsumexp": lambda m, x: x.logsumexp(0),
    "sorted": of_0d(lambda m, x: x.sort(0).values),
    "variance": lambda m, x: x.var(unbiased=False),
}
JOINS = {
    "none": lambda y, z: y,
    "product": lambda y, z: y * z.sum(),
    "sum": lambda y, z: y + z.mean(),
    "both": lambda y, z: y.sum() * z,
    "quotient": lambda y, z: y / (z.square().sum() + 1),
}


def function(m, r, without=()):
    steps = [
        STEPS[r.choice([s for s in STEPS if s not in without])] for _ in range(r.randint(1, 3))
    ]
    join = JOINS[r.choice(list(JOINS))]
    two, number = r.random() < 0.3, r.random() < 0.5

    def f(*xs):
        y = xs[0]
        for step in steps:
            y = step(m, y)
        if len(xs) > 1:
            y = join(y, xs[1])
        if number:
            y = y.sum()
        return (y, xs[-1] * 2) if two else y

    return f


def values(result):
    """Without what requires a gradient: a mask's derivative is 0 and known to be here, and not there."""
    if isinstance(result, (tuple, list)):
        return [values(x) for x in result]
    return None if result is None else [str(result.dtype).rpartition(".")[2], result.tolist()]


def functional(m, r, log):
    shape, count = r.choice([(3,), (2, 2), ()]), r.choice([1, 1, 2])
    xs = tuple(drawn(m, r, *shape, grad=r.random() < 0.3) for _ in range(count))
    name = r.choice(["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
    inputs = xs if count > 1 or r.random() < 0.3 else xs[0]
    options = {"create_graph": r.random() < 0.4}
    options["strict"] = not options["create_graph"] and r.random() < 0.4
    # A mask depends on what it is made of here, by a derivative of 0.
    f = function(m, r, ["clamp", "relu"] if options["strict"] else [])
    more = ()
    if name in ("jacobian", "hessian"):
        options["vectorize"] = not options["strict"] and r.random() < 0.3
    elif r.random() < 0.8:
        like = xs
        if name == "vjp":
            with m.no_grad():
                like = f(*xs)
            like = like if isinstance(like, tuple) else (like,)
        v = tuple(drawn(m, r, *t.shape) for t in like)
        more = (v if len(v) > 1 or (name != "vjp" and isinstance(inputs, tuple)) else v[0],)
    log.append([name, str(options)])
    try:
        found = getattr(m.autograd.functional, name)(f, inputs, *more, **options)
        log.append(values(found))
    except (RuntimeError, ValueError) as e:
        # Without strict PyTorch raises where a gradient is of masks and signs alone.
        none = m is torch and not options["strict"] and "v" not in str(e).split()
        log.append("none" if none else "RuntimeError")
    log.append([x.grad is None for x in xs])


def dual(m, r, log):
    ad = m.autograd.forward_ad
    shape = r.choice([(3,), (2, 2), ()])
    x, t = drawn(m, r, *shape, grad=r.random() < 0.3), drawn(m, r, *shape)
    f = function(m, r)
    with ad.dual_level():
        d = ad.make_dual(x, t)
        for _ in range(r.randint(1, 4)):
            act = r.choice("call unpack inplace view detach again mix constant primal part".split())
            log.append(act)
            if act == "again":
                d = ad.make_dual(x, t * 2)
                continue
            if act == "call":
                y = f(d)
            elif act == "inplace":
                y = d.clone().mul_(3).add_(d)
            elif act == "view":
                y = d.reshape(-1)
            elif act == "detach":
                y = d.detach()
            elif act == "mix":
                c = drawn(m, r, *shape)
                y = c * d + d / (c.square() + 1)
            elif act == "constant":
                y = drawn(m, r, *shape).exp()
            elif act == "primal":
                y = ad.unpack_dual(d).primal.exp()
            elif act == "part":
                y = m.zeros(shape, dtype=m.float64)
                if shape:
                    y[0] = d[0]
                else:
                    y.copy_(d)
            else:
                y = d
            log.append(
                [values(part) for part in ad.unpack_dual(y if not isinstance(y, tuple) else y[0])]
            )
        last = d * d
    log.append(values(ad.unpack_dual(last).primal))


def agree(ours, theirs):
    """As PyTorch has it; where it finds nothing that requires a gradient, or 0 times an infinity, zeros are as
    good."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    return same(ours, theirs) or theirs == "none" or (ours == 0 and theirs != theirs)


@pytest.mark.parametrize("program", [functional, dual], ids=lambda f: f.__name__)
def test_programs(program):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(COUNT):
            logs = []
            for m in (pf, torch):
                logs.append(log := Log())
                program(m, random.Random(seed), log)
            if not agree(*logs):
                wrong.append((seed, *logs))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"
