"""Random programs of everything that a window may hold (rows, casts, norms, softmax, reductions, products,
convolutions, losses), of views, writes in place and gradients, over operands of any layout: fused equals
PYFLAME_EAGER=1 bit for bit, in whatever order results are read, with one thread and several."""

import os
import random

import numpy as np
import pytest

import pyflame as pf

pytestmark = pytest.mark.kernels

F = pf.nn.functional
SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
ON_CPU = os.environ.get("PYFLAME_TEST_DEVICE", "cpu") == "cpu"
PROGRAMS = 60
SHAPES = [(5, 7), (64, 96), (300, 257), (2, 3, 12, 16), (4, 8, 14, 14), (17, 9, 64), (1, 1), (0, 8)]
# Large enough for pieces, rings and results around the caches.
LARGE = [(1100, 512), (33, 1000), (2, 16, 56, 56), (3, 40000), (4000, 24)] if ON_CPU else []
DTYPES = [pf.float32] * 5 + [pf.bfloat16] * 4 + [pf.float16, pf.float64]
ROWS = "exp tanh sigmoid relu neg abs sin square log1p erf sqrt reciprocal floor expm1".split()
PAIRS = "add mul sub maximum minimum div pow lt".split()


def tensor(shape, dtype, seed, layout="plain", grad=True):
    pf.manual_seed(seed)
    if layout == "turned":
        t = pf.randn(*shape[::-1]).to(dtype).permute(*reversed(range(len(shape))))
    elif layout == "sliced":
        t = pf.randn(*[2 * n for n in shape]).to(dtype)[tuple(slice(1, None, 2) for _ in shape)]
    else:
        t = pf.randn(*shape).to(dtype)
        if layout == "last" and len(shape) == 4:
            t = t.contiguous(memory_format=pf.channels_last)
    return t.detach().requires_grad_(grad)


def fits(t, *others):
    """Whether these broadcast to t."""
    try:
        shape = np.broadcast_shapes(tuple(t.shape), *(tuple(o.shape) for o in others))
    except ValueError:
        return False
    return shape == tuple(t.shape)


# name -> function of the dice and of a picker of values: operands' places and a function of these and
# of seeded parameters, or None where nothing fits. Functions draw nothing themselves.
def row(dice, t, pick):
    name = dice.choice(ROWS)
    return [], lambda p, t: getattr(pf, name)(t)


def pair(dice, t, pick):
    i, u = pick()
    name = dice.choice(PAIRS)
    return ([i], lambda p, t, u: getattr(pf, name)(t, u)) if fits(t, u) else None


def number(dice, t, pick):
    by = dice.choice([2, -1, 0.5, 3.0])
    return [], lambda p, t: t * by


def cast(dice, t, pick):
    dtype = dice.choice(DTYPES)
    return [], lambda p, t: t.to(dtype)


def softmax(dice, t, pick):
    name, dim = dice.choice(["softmax", "log_softmax"]), dice.choice([-1, -1, 0])
    return [], lambda p, t: getattr(F, name)(t, dim)


def norm(dice, t, pick):
    kind = dice.choice(["layer", "layer", "rms", "batch", "group"])
    last, channels = (t.shape[-1],), (t.shape[1],)
    if kind == "layer":
        wide = dice.choice([t.dtype, pf.float32])
        return [], lambda p, t: F.layer_norm(t, last, p(last, wide), p(last, wide))
    if kind == "rms":
        return [], lambda p, t: F.rms_norm(t, last, p(last, t.dtype))
    if t.numel() <= t.shape[1]:
        return None
    if kind == "group":
        return [], lambda p, t: F.group_norm(t, 1, p(channels, t.dtype), p(channels, t.dtype))
    act = dice.choice([F.relu, lambda y: y])
    return [], lambda p, t: act(
        F.batch_norm(t, None, None, p(channels, pf.float32), p(channels, pf.float32), True)
    )


def reduction(dice, t, pick):
    dims = sorted(dice.sample(range(t.dim()), dice.randint(1, t.dim())))
    name, keep = dice.choice(["sum", "mean", "amax", "var", "var_mean", "logsumexp"]), dice.random()
    of = pf if name in ("var_mean", "logsumexp") else pf.Tensor
    return [], lambda p, t: getattr(of, name)(t, dims, keepdim=keep < 0.5)


def places(dice, t, pick):
    """What finds elements, with their values or without, counts them, or goes along a dimension."""
    d = dice.randrange(t.dim())
    name = dice.choice(
        "argmax argmin max min sort argsort cumsum cummax median topk any all count_nonzero prod".split()
    )
    if t.shape[d] == 0:
        return None
    if name in ("any", "all", "count_nonzero"):
        return [], lambda p, t: getattr(t > 0, name)(d)
    if name == "topk":
        return [], lambda p, t: list(t.topk(1, d))
    if name in ("sort", "argsort"):
        return [], lambda p, t: getattr(pf, name)(t, dim=d, stable=True)
    return [], lambda p, t: getattr(t, name)(d)


def product(dice, t, pick):
    n, k = dice.choice([8, 64, 33]), t.shape[-1]
    act = dice.choice([F.gelu, F.relu, lambda y: y])
    if k > 1024:
        return None
    return [], lambda p, t: act(F.linear(t, p((n, k), t.dtype), p((n,), t.dtype)))


def convolution(dice, t, pick):
    stride, n = dice.choice([1, 2]), dice.choice([4, 16])
    if t.dim() != 4 or min(t.shape[2:]) < 3 or t.shape[1] > 16:
        return None
    shape = (n, t.shape[1], 3, 3)
    return [], lambda p, t: F.conv2d(t, p(shape, t.dtype), p((n,), t.dtype), stride, 1)


def view(dice, t, pick):
    d = dice.randrange(t.dim())
    return [], dice.choice(
        [
            lambda p, t: t.transpose(d, -1),
            lambda p, t: t.narrow(d, 0, max(t.shape[d] - 1, 0)),
            lambda p, t: t[..., ::2],
            lambda p, t: t.flip(d),
            lambda p, t: t.reshape(t.shape[0], -1) if t.numel() else t,
            lambda p, t: pf.cat([t, t * 2], d),
            lambda p, t: list(t.chunk(2, d)),
        ]
    )


def write(dice, t, pick):
    i, u = pick()
    what = dice.choice(["add_", "copy_", "mul_", "exp_", "part"])
    if not fits(t, u):
        return None

    def run(p, t, u):
        t = t * 1 if t.requires_grad and t.is_leaf else t
        if what in ("add_", "copy_"):
            getattr(t, what)(u)
        elif what == "part":
            t[:1] = t[-1:] * 2
        else:
            getattr(t, what)(*[0.5] * (what == "mul_"))
        return t

    return [i], run


def loss(dice, t, pick):
    n, classes = t.shape[0], t.shape[-1]
    seed, how = dice.randrange(99), dice.choice(["mean", "sum", "none"])
    if t.dim() != 2 or t.numel() == 0:
        return None
    name = dice.choice(["cross_entropy", "mse_loss", "smooth_l1_loss", "cross_entropy"])

    def run(p, t):
        pf.manual_seed(seed)
        goal = pf.randint(0, classes, (n,)) if name[0] == "c" else pf.rand(n, classes).to(t.dtype)
        return getattr(F, name)(t, goal, reduction=how)

    return [], run


KINDS = [row] * 5 + [pair] * 5 + [number, cast, cast, softmax, norm, norm, reduction, reduction]
KINDS += [product, convolution, view, view, write, loss, places]


class Program:
    """Leaves, steps that were chosen by running them eagerly, and when values go."""

    def __init__(self, seed):
        dice = self.dice = random.Random(seed)
        shape, dtype = dice.choice(SHAPES * 2 + LARGE), dice.choice(DTYPES)
        layouts = ["plain"] * 4 + ["turned", "sliced", "last"]
        small = [tuple(1 if dice.random() < 0.5 else n for n in shape) for _ in range(2)]
        self.leaves = [
            (s, dice.choice([dtype] * 3 + DTYPES), dice.randrange(10**6), dice.choice(layouts))
            for s in [shape] * dice.randint(1, 3) + small
        ]
        self.steps, self.gone = [], {}
        values = self.start()
        with pf.debug.eager():
            for _ in range(dice.randint(3, 16)):
                self.choose(dice, values)
        for i in range(len(values) - 1):
            if dice.random() < 0.5:
                last = [k for k, (_, places, _) in enumerate(self.steps) if i in places]
                made = [k for k, (n, _, _) in enumerate(self.steps) if n <= i]
                self.gone.setdefault(max(last + made + [0]), []).append(i)

    def start(self):
        self.parameters = {}
        return [tensor(*leaf, grad=leaf[2] % 2 == 0) for leaf in self.leaves]

    def parameter(self, step):
        """By its step and order there."""
        made = iter(range(9))

        def get(shape, dtype):
            key = (step, next(made))
            if key not in self.parameters:
                self.parameters[key] = tensor(shape, dtype, hash(key) % 10**6)
            return self.parameters[key]

        return get

    def choose(self, dice, values):
        def pick():
            i = max(0, len(values) - 1 - int(dice.expovariate(0.6)))
            return i, values[i]

        (i, t), kind = pick(), dice.choice(KINDS)
        needs = 2 if kind in (norm, loss) else 1
        if kind not in (row, pair, number, cast) and (
            t.dim() < needs or not t.dtype.is_floating_point or (kind is norm and t.numel() == 0)
        ):
            return
        chosen = kind(dice, t, pick)
        if chosen:
            step = (len(values), [i, *chosen[0]], chosen[1])
            self.do(len(self.steps), step, values)
            self.steps.append(step)

    def do(self, k, step, values):
        operands = [values[i] for i in step[1]]
        try:
            out = step[2](self.parameter(k), *operands)
        except pf.PyFlameError as error:
            out = pf.tensor(float(len(type(error).__name__)))
        values.extend(out if isinstance(out, (tuple, list)) else [out])

    def run(self, backwards=False):
        """Bytes of what is left, and of the gradients of a sum of it."""
        values = self.start()
        leaves = list(values)
        for k, step in enumerate(self.steps):
            self.do(k, step, values)
            for i in self.gone.get(k, []):
                values[i] = None
        total = pf.zeros(())
        for n, v in enumerate(values):
            if v is not None and v.requires_grad and not v.is_leaf:
                total = total + (v.float() * (0.1 + 0.01 * n)).sum()
        failed = ""
        if total.requires_grad:
            try:
                total.backward()
            except pf.AutogradError as error:  # something was written that is needed
                failed = type(error).__name__
        found = {f"value {i}": v for i, v in enumerate(values) if v is not None}
        found |= {f"leaf {i}": v.grad for i, v in enumerate(leaves) if v.grad is not None}
        found |= {k: v.grad for k, v in self.parameters.items() if v.grad is not None}
        names = list(found)[::-1] if backwards else list(found)
        return {name: content(found[name]) for name in names} | {"failed": failed}


def content(t):
    values = t.detach().double().contiguous().cpu().numpy()
    return t.dtype, tuple(t.shape), np.where(np.isnan(values), np.nan, values).tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_fused_equals_eager(seed):
    threads = pf.get_num_threads()
    pf.debug.reset_stats()
    for i in range(PROGRAMS):
        if random.Random(1000 * seed + i).random() >= SHARE * (1 if ON_CPU else 0.1):
            continue
        program = Program(1000 * seed + i)
        with pf.debug.eager():
            want = program.run()
        assert program.run() == want, (seed, i)
        assert program.run(backwards=True) == want, (seed, i)
        if ON_CPU:
            pf.set_num_threads(1)
            try:
                assert program.run() == want, (seed, i)
            finally:
                pf.set_num_threads(threads)
    stats = pf.debug.stats()
    assert SHARE < 1 or not ON_CPU or (stats["joined"] > 50 and stats["donated"] > 50), stats


def test_every_kind_is_drawn():
    kinds = {step[2].__qualname__.split(".")[0] for s in range(80) for step in Program(s).steps}
    assert kinds >= {k.__name__ for k in KINDS}, kinds
