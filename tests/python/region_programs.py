"""Random programs around captured functions, for test_compile_random_regions.py.

A program is drawn from a number: what a function does with its arguments, with weights, statistics and
Python's state that it reaches; how often it is applied, to what; what is done with its results, and what
changes between ten calls. It is run without a capture and with one; each call gives what can be observed:
values, history, gradients, errors, what was called and how often, random state.
"""

import dataclasses
import random
import typing

import pyflame as pf
from pyflame import nn
from pyflame.autograd import Function, functional, graph
from pyflame.utils._pytree import tree_leaves
from pyflame.utils.checkpoint import checkpoint

N = 3
CALLS = 10


class Doubled(Function):
    """A gradient written in Python; `log` hears of it where it is not None."""

    @staticmethod
    def forward(ctx, x, log):
        ctx.log = log
        return x * 2

    @staticmethod
    def backward(ctx, g):
        if ctx.log is not None:
            ctx.log.append("backward")
        return g * 2, None


class Cubed(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3 * 0.1

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 0.3 * x * x


class Inner:
    """What the function reaches: weights, statistics, layers, numbers, a list that it may append to, and a
    function that is captured itself where it is called from outside, too."""

    def __init__(self, wrap):
        self.w = [nn.Parameter(pf.randn(N, N) * 0.5) for _ in range(3)]
        self.held = pf.zeros(N, N)
        self.linear, self.tied = nn.Linear(N, N), nn.Linear(N, N)
        self.tied.weight = self.w[0]
        self.norm, self.drop = nn.BatchNorm1d(N), nn.Dropout(0.3)
        self.scale, self.numbers, self.log, self.fails = 0.7, [0.3], [], False
        self.optimizers, self.heard = {}, []
        self.captured = wrap(lambda x: (x @ self.w[2]).tanh() * self.scale)

    def parameters(self):
        found = [*self.w]
        for m in (self.linear, self.tied, self.norm):
            found += m.parameters()
        return list({id(p): p for p in found}.values())


# ---- within the function --------------------------------------------------------------------------


def _switched(mode):
    def f(s, a, b):
        with mode():
            c = a * 1.5
        return c + b

    return f


def _only_switched(mode):
    def f(s, a, b):
        with mode():
            return a * 1.5 + b

    return f


def _held(s, a, b):
    with pf.no_grad():
        s.held.mul_(0.9).add_(a.detach() * 0.1)
    return a * s.held + b


def _in_place(s, a, b):
    c = a * 1
    c[1:].mul_(0.5)
    return c.add_(b)


def _argument(s, a, b):
    with pf.no_grad():
        a.mul_(0.5)
    return a * b


def _argument_with_history(s, a, b):
    a.mul_(0.5)
    return a * b


def _half(s, a, b):
    with pf.autocast(a.device.type if a.is_cuda else "cpu", dtype=pf.bfloat16):
        return (a @ s.w[1]).to(a.dtype) + b


def _hooked(s, a, b):
    c = a * b
    if c.requires_grad:
        c.register_hook(lambda g: s.log.append("inside"))
    return c


def _scaled_hook(s, a, b):
    c = a.sin()
    if c.requires_grad:
        c.register_hook(lambda g: g * 2)
    return c + b


def _kept(s, a, b):
    c = a * 2
    if c.requires_grad:
        c.retain_grad()
    return c + b


def _appends(s, a, b):
    s.log.append("called")
    return a + b


def _raises(s, a, b):
    if s.fails:
        raise LookupError("drawn")
    return a - b


def _slope(s, a, b):
    with pf.enable_grad():
        v = a.detach().requires_grad_()
        (g,) = pf.autograd.grad(v.sin().sum(), v)
    return g + b


def _slope_of_weight(s, a, b):
    with pf.enable_grad():
        (g,) = pf.autograd.grad((a.detach() @ s.w[2]).sin().sum(), s.w[2], create_graph=True)
    return g * 0.2 + b


def _functional(s, a, b):
    return pf.func.grad(lambda v: (v.sin() * b.detach()).sum())(a.detach()) + b


def _packed(s, a, b):
    with graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        return a.sin() * b


def _pass_within(s, a, b):
    w = s.w[2]
    if not w.requires_grad:
        return b
    with pf.enable_grad():
        w.grad = None
        (a.detach() @ w).sin().sum().backward()
    return w.grad * 0.1 + b


WITHIN = {
    "add": lambda s, a, b: a + b,
    "mul": lambda s, a, b: a * b * 0.5,
    "matmul": lambda s, a, b: a @ b * 0.3,
    "where": lambda s, a, b: pf.where(a > b, a, b * 0.25),
    "tanh": lambda s, a, b: pf.tanh(a) * b,
    "exp": lambda s, a, b: (a * 0.3).exp(),
    "sin": lambda s, a, b: a.sin() + b.cos(),
    "log": lambda s, a, b: (a.square() + 0.5).log() * b,
    "double": lambda s, a, b: a * 2,
    "weight": lambda s, a, b: a @ s.w[0] * 0.5 + b,
    "weight times": lambda s, a, b: a * s.w[1],
    "two weights": lambda s, a, b: a @ (s.w[0] + s.w[1].t()) * 0.3,
    "layer": lambda s, a, b: s.linear(a),
    "tied": lambda s, a, b: s.tied(a).tanh() + b,
    "softmax": lambda s, a, b: a.softmax(-1) * b,
    "norm": lambda s, a, b: s.norm(a) * 0.5 + b,
    "drop": lambda s, a, b: s.drop(a) + b,
    "noise": lambda s, a, b: a + pf.rand(N, N) * b,
    "scale": lambda s, a, b: a * s.scale + b,
    "number": lambda s, a, b: a + s.numbers[0] * b,
    "view": lambda s, a, b: a.t() * b,
    "part": lambda s, a, b: pf.cat([a[1:], b[:1]]),
    "detached": lambda s, a, b: a.detach() * b,
    "held": _held,
    "held read": lambda s, a, b: a + s.held,
    "in place": _in_place,
    "argument": _argument,
    "argument with history": _argument_with_history,
    "captured": lambda s, a, b: s.captured(a) + b,
    "functional": _functional,
    "packed": _packed,
    "no_grad": _switched(pf.no_grad),
    "all no_grad": _only_switched(pf.no_grad),
    "enable_grad": _switched(pf.enable_grad),
    "all enable_grad": _only_switched(pf.enable_grad),
    "autocast": _half,
    "function": lambda s, a, b: Cubed.apply(a) + b,
    "function hears": lambda s, a, b: Doubled.apply(a, s.log) + b,
    "function deaf": lambda s, a, b: Doubled.apply(a, None) * b,
    "checkpoint": lambda s, a, b: (
        checkpoint(lambda x: (x @ s.w[2]).tanh(), a, use_reentrant=False) + b
    ),
    "hooked": _hooked,
    "scaled by a hook": _scaled_hook,
    "kept": _kept,
    "appends": _appends,
    "raises": _raises,
    "pass": _pass_within,
    "slope": _slope,
    "slope of a weight": _slope_of_weight,
}
# These make a program run as always, or are seldom: others are drawn more often.
SELDOM = {
    "argument", "hooked", "scaled by a hook", "kept", "appends", "function hears", "slope",
    "slope of a weight", "autocast", "checkpoint", "pass", "argument with history", "functional", "packed",
}  # fmt: skip
RESULTS = {
    "last": lambda s, args, v: v[-1],
    "one": lambda s, args, v: v[len(v) // 2],
    "scaled": lambda s, args, v: v[-1] * 1.0,
    "exp": lambda s, args, v: (v[-1] * 0.2).exp(),
    "sum": lambda s, args, v: v[-1].sum(),
    "mean": lambda s, args, v: v[len(v) // 2].square().mean(),
    "argument": lambda s, args, v: args[0],
    "view": lambda s, args, v: v[-1].view(-1),
    "view of an argument": lambda s, args, v: args[-1].t(),
    "row": lambda s, args, v: v[-1][0],
    "weight": lambda s, args, v: s.w[0],
    "detached": lambda s, args, v: v[-1].detach(),
    "leaf": lambda s, args, v: v[-1].detach().requires_grad_(),
    "count": lambda s, args, v: (v[-1] > 0).sum(),
    "number": lambda s, args, v: 3,
    "none": lambda s, args, v: None,
}  # fmt: skip
SELDOM_RESULTS = {"view of an argument", "weight", "leaf", "argument", "row"}


# ---- around it ------------------------------------------------------------------------------------


def _outside(s, log, x):
    return Doubled.apply(x, log)


ARGUMENTS = {  # of (what the function reaches, what hears, leaf, arguments so far)
    "leaf": lambda s, log, x, a: x,
    "made": lambda s, log, x, a: x * 3,
    "of weight": lambda s, log, x, a: (x @ s.w[0]).tanh(),
    "of tied": lambda s, log, x, a: s.tied(x),
    "of another": lambda s, log, x, a: a[-1].sin() if a else x.sin(),
    "another": lambda s, log, x, a: a[-1] if a else x,
    "view of another": lambda s, log, x, a: a[-1].t() if a else x.t(),
    "part": lambda s, log, x, a: (x.repeat(2, 1))[1 : N + 1],
    "weight": lambda s, log, x, a: s.w[1],
    "weight times two": lambda s, log, x, a: s.w[1] * 2,
    "plain": lambda s, log, x, a: pf.ones(N, N) * 0.5,
    "detached": lambda s, log, x, a: (x * 2).detach(),
    "held": lambda s, log, x, a: s.held,
    "function": lambda s, log, x, a: Doubled.apply(x, log),
    "captured": lambda s, log, x, a: s.captured(x),
}


# By what arguments come from those: another at another call, in the place of one kind.
MADE_BY = {
    "nothing": lambda a: a,
    "tanh": lambda a: a.tanh(),
    "relu": lambda a: a.relu(),
    "scale": lambda a: a * 2,
    "product": lambda a: pf.nn.functional.linear(a, a) * 0.3,
    "norm": lambda a: pf.nn.functional.layer_norm(a, (N,)),
    "softmax": lambda a: a.softmax(-1),
    "cast": lambda a: a.float().to(a.dtype),
    "view": lambda a: (a * 2).view(-1).view(N, N),
    "written": lambda a: (a * 1).mul_(0.5),
    "part written": lambda a: pf.cat([(a * 1)[:1].mul_(0.5), a[1:]]),
    "function": Cubed.apply,
    "none": lambda a: a.detach(),
    "leaf": lambda a: a.detach().requires_grad_(a.requires_grad),
}


@dataclasses.dataclass
class Fields:
    values: tuple


class Named(typing.NamedTuple):
    first: object
    rest: list


# How the function is given its arguments: (what a call is made with, what it makes of that).
FORMS = {
    "plain": (lambda a: (a, {}), lambda *args: args),
    "keywords": (
        lambda a: ((), {f"a{k}": v for k, v in enumerate(a)}),
        lambda **kw: [*kw.values()],
    ),
    "both": (lambda a: (a[:1], dict(zip("bcd", a[1:]))), lambda *a, **kw: [*a, *kw.values()]),
    "list": (lambda a: ((list(a),), {}), lambda args: args),
    "dict": (lambda a: (({"x": a[0], "rest": [*a[1:]]},), {}), lambda d: [d["x"], *d["rest"]]),
    "named": (lambda a: ((Named(a[0], [*a[1:]]),), {}), lambda n: [n.first, *n.rest]),
    "fields": (lambda a: ((Fields(tuple(a)),), {}), lambda f: f.values),
    "with a number": (lambda a: ((*a, 0.5, "mean", None), {}), lambda *a: a[:-3]),
}
# And its results: (what it returns of their list, how they are found in that).
GIVEN = {
    "plain": (lambda r: r[0] if len(r) == 1 else tuple(r), None),
    "dict": (lambda r: {k: v for k, v in enumerate(r)}, lambda d: [*d.values()]),
    "named": (lambda r: Named(r[0], r[1:]), lambda n: [n.first, *n.rest]),
    "nested": (lambda r: ({"a": r[0]}, [r[1:]]), lambda t: [t[0]["a"], *t[1][0]]),
}


# Those of a function that changes what it was given.
CHANGED_FORMS = {
    "list that grows": (lambda a: ((list(a),), {}), lambda args: args.append(args[0] * 2) or args),
    "dict that grows": (
        lambda a: ((dict(enumerate(a)),), {}),
        lambda d: d.update(more=d[0] * 2) or [*d.values()],
    ),
    "list that changes": (
        lambda a: ((list(a),), {}),
        lambda args: args.__setitem__(0, args[0] * 2) or args,
    ),
}


def _checkpointed(call, reentrant):
    return lambda *a, **kw: (
        checkpoint(call, *a, use_reentrant=reentrant, **({} if reentrant else kw))
        if not (reentrant and kw)
        else call(*a, **kw)
    )


def _within(make):
    def around(call):
        def called(*args, **kwargs):
            with make():
                return call(*args, **kwargs)

        return called

    return around


# What is around the captured function.
AROUND = {
    "nothing": lambda call: call,
    "checkpoint": lambda call: _checkpointed(call, False),
    "old checkpoint": lambda call: _checkpointed(call, True),
    "packed": _within(lambda: graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2)),
    "packed before": _within(lambda: graph.save_on_cpu()),
    "recomputed": _within(lambda: graph.recompute_cheap(at_least=0)),
    "anomalies": _within(pf.autograd.detect_anomaly),
}
# What is around its backward pass, and writes before that.
AROUND_PASSES = {
    "nothing": lambda run: run,
    "packed": AROUND["packed"],
    "mutation": _within(graph.allow_mutation_on_saved_tensors),
    "recomputed": AROUND["recomputed"],
}
PASSES = {
    "plain": lambda p: p.total().backward(),
    "none": lambda p: None,
    "twice": lambda p: p.twice(retain=True),
    "twice, freed": lambda p: p.twice(retain=False),
    "retained": lambda p: p.total().backward(retain_graph=True),
    "one by one": lambda p: p.one_by_one(retain=True),
    "one by one, freed": lambda p: p.one_by_one(retain=False),
    "first": lambda p: p.weighted(p.floats()[:1]).backward(),
    "last": lambda p: p.weighted(p.floats()[-1:]).backward(),
    "of arguments": lambda p: p.gradients([p.x], create=False),
    "of weights": lambda p: p.gradients(p.s.w, create=False),
    "penalty": lambda p: p.gradients([p.x], create=True),
    "penalty of weights": lambda p: p.gradients(p.s.w, create=True),
    "batched": lambda p: p.batched(),
    "written": lambda p: p.written(),
    "weights written": lambda p: p.weights_written(),
    "argument written": lambda p: p.argument_written(),
    "held written": lambda p: p.held_written(),
    "into": lambda p: p.total().backward(inputs=[p.x]),
    "drawn from": lambda p: p.drawn_from(),
    "jacobian": lambda p: p.derivative(functional.jacobian),
    "hessian": lambda p: p.derivative(lambda f, x: functional.hessian(lambda v: f(v).sum(), x)),
    "jacrev": lambda p: p.derivative(lambda f, x: pf.func.jacrev(f)(x)),
    "jvp": lambda p: p.derivative(lambda f, x: pf.func.jvp(f, (x,), (pf.ones_like(x),))),
    "over samples": lambda p: p.derivative(lambda f, x: pf.vmap(f)(pf.stack([x, x * 2]))),
    "gradients of samples": lambda p: p.derivative(
        lambda f, x: pf.vmap(pf.func.grad(lambda v: f(v).sum()))(pf.stack([x, x * 2]))
    ),
}
SELDOM_PASSES = {
    "jacobian", "hessian", "jacrev", "jvp", "over samples", "gradients of samples",
}  # fmt: skip
CHANGES = {
    "nothing": lambda s, log: None,
    "scale": lambda s, log: setattr(s, "scale", s.scale * 0.5),
    "number": lambda s, log: s.numbers.__setitem__(0, s.numbers[0] + 0.1),
    "eval": lambda s, log: (s.norm.eval(), s.drop.eval()),
    "train": lambda s, log: (s.norm.train(), s.drop.train()),
    "weights": lambda s, log: _write(s),
    "step": lambda s, log: _step(s),
    "SGD": lambda s, log: _optimizer(s, "SGD", lr=0.01, momentum=0.9),
    "AdamW": lambda s, log: _optimizer(s, "AdamW", lr=0.01),
    "no gradients": lambda s, log: _clear(s),
    "zero gradients": lambda s, log: [p.grad.zero_() for p in s.parameters() if p.grad is not None],
    "freeze": lambda s, log: s.w[0].requires_grad_(False),
    "thaw": lambda s, log: s.w[0].requires_grad_(True),
    "another weight": lambda s, log: _another(s),
    "held": lambda s, log: s.held.add_(0.1),
    "seed": lambda s, log: pf.manual_seed(7),
    "hook": lambda s, log: _listen(s, log),
    "scaling hook": lambda s, log: (
        s.w[0].register_hook(lambda g: g * 0.5) if s.w[0].requires_grad else None
    ),
    "sum hook": lambda s, log: s.w[1].register_post_accumulate_grad_hook(lambda p: log.append("s")),
    "forward hook": lambda s, log: s.linear.register_forward_hook(lambda *a: log.append("f")),
    "fails": lambda s, log: setattr(s, "fails", not s.fails),
    "log": lambda s, log: s.log.append("outside"),
}
SELDOM_CHANGES = {"hook", "scaling hook", "sum hook", "forward hook", "another weight", "freeze"}


def _write(s):
    with pf.no_grad():
        for p in s.parameters():
            p.mul_(0.95)


def _step(s):
    with pf.no_grad():
        for p in s.parameters():
            if p.grad is not None and p.requires_grad:
                p.sub_(p.grad.clamp(-1, 1) * 0.01)


def _optimizer(s, name, **how):
    if name not in s.optimizers:
        s.optimizers[name] = getattr(pf.optim, name)(s.parameters(), **how)
    s.optimizers[name].step()


def _clear(s):
    for p in s.parameters():
        p.grad = None


def _another(s):
    s.w[1] = nn.Parameter(s.w[1].detach() * 0.9)


def _listen(s, log):
    if s.w[2].requires_grad:
        s.w[2].register_hook(lambda g: log.append("w"))


class _Call:
    """One call: what it was given and gave, and passes behind it."""

    def __init__(self, s, log, x, args, results, weights, extra, again):
        self.s, self.log, self.x, self.args, self.results = s, log, x, args, results
        self.again = again  # makes the call with another leaf
        self.weights, self.extra, self.found = weights, extra, []

    def floats(self):
        found = [r for r in self.results if isinstance(r, pf.Tensor) and r.requires_grad]
        return found or [(self.x * 1).sum()]

    def weighted(self, tensors):
        return sum((t * (0.5 + k)).sum() for k, t in enumerate(tensors))

    def total(self):
        loss = self.weighted(self.floats())
        if "arguments" in self.extra:
            loss = loss + sum(a.sin().sum() for a in self.args if a.requires_grad)
        if "weights" in self.extra:
            loss = loss + sum(w.square().sum() for w in self.s.w if w.requires_grad)
        if "product" in self.extra:
            loss = loss * self.floats()[0].sum().tanh()
        return loss

    def twice(self, retain):
        loss = self.total()
        loss.backward(retain_graph=retain)
        loss.backward()

    def one_by_one(self, retain):
        for t in self.floats():
            t.sum().backward(retain_graph=retain)

    def gradients(self, of, create):
        of = [t for t in of if t.requires_grad]
        found = pf.autograd.grad(self.total(), of, create_graph=create, allow_unused=True)
        self.found += found
        found = [g for g in found if g is not None and g.requires_grad]
        if found:
            sum(g.square().sum() for g in found).backward()

    def batched(self):
        t = self.floats()[-1]
        eye = pf.eye(t.numel()).reshape(t.numel(), *t.shape)
        self.found += pf.autograd.grad(
            t, [self.x, *self.s.w[2:]], eye, is_grads_batched=True, allow_unused=True
        )

    def written(self):
        loss = self.total()
        for t in self.floats():
            if t.grad_fn is not None:
                with pf.no_grad():
                    t.add_(1)
        loss.backward()

    def weights_written(self):
        loss = self.total()
        _write(self.s)
        loss.backward()

    def argument_written(self):
        loss = self.total()
        with pf.no_grad():
            self.args[-1].mul_(1.5)
        loss.backward()

    def held_written(self):
        loss = self.total()
        self.s.held.add_(0.5)
        loss.backward(retain_graph=True)
        loss.backward()

    def derivative(self, of):
        def f(x):
            found = [r for r in self.again(x) if isinstance(r, pf.Tensor) and r.is_floating_point()]
            return found[-1] * 1.5 if found else x.sin()

        found = of(f, self.x.detach())
        self.found += found if isinstance(found, tuple) else (found,)
        self.total().backward()

    def drawn_from(self):
        pf.rand(2)
        self.total().backward()


class _Module(nn.Module):
    """The function as a module, with what it reaches."""

    def __init__(self, s, run):
        super().__init__()
        self.run, self.linear, self.norm = run, s.linear, s.norm
        self.register_buffer("held", s.held)

    def forward(self, *args, **kwargs):
        return self.run(*args, **kwargs)


class Program:
    """Drawn from a number."""

    def __init__(self, number):
        r = random.Random(number)
        self.number = number

        def some(names, seldom, most):
            weights = [0.12 if n in seldom else 1.0 for n in names]
            return r.choices(list(names), weights, k=r.randint(1, most))

        self.body = [(n, r.randint(0, 9), r.randint(0, 9)) for n in some(WITHIN, SELDOM, 6)]
        self.results = some(RESULTS, SELDOM_RESULTS, 3)
        self.arguments = some(ARGUMENTS, {"weight", "view of another", "held"}, 3)
        self.hooked = r.random() < 0.2  # arguments
        self.wants = r.random() < 0.9  # the leaf, a gradient
        self.times = r.choice([1, 1, 1, 2, 3])
        self.extra = [e for e in ("arguments", "weights", "product") if r.random() < 0.2]
        usual = r.choice(["plain"] * 6 + list(PASSES))
        self.passes = [
            some(PASSES, SELDOM_PASSES, 1)[0] if r.random() < 0.15 else usual for _ in range(CALLS)
        ]
        often = r.choice([0.0, 0.0, 0.15, 0.4])
        self.changes = [
            some(CHANGES, SELDOM_CHANGES, 2) if r.random() < often else ["nothing"]
            for _ in range(CALLS)
        ]
        self.clears = r.choice(["no gradients", "step", "nothing"])
        mode = r.choice(["enable"] * 8 + ["no_grad", "inference", "any"])
        self.modes = [
            r.choice(["enable", "no_grad"]) if mode == "any" else mode for _ in range(CALLS)
        ]
        half = r.choice(["none"] * 8 + ["all", "any"])
        self.half = [half == "all" or (half == "any" and r.random() < 0.5) for _ in range(CALLS)]
        self.kept = r.random() < 0.1  # a result of the call before lives on
        self.every = r.choice([1000, 1000, 3])
        self.form = r.choice(["plain"] * 10 + list(FORMS))
        self.given = r.choice(["plain"] * 8 + list(GIVEN))
        around = r.choice(["nothing"] * 10 + list(AROUND))
        self.around = [around if r.random() < 0.8 else "nothing" for _ in range(CALLS)]
        self.module = r.random() < 0.1  # whether a module is captured
        # Drawn last: the numbers of before give the programs of before, with this added.
        passed_in = r.choice(["nothing"] * 2 + list(AROUND_PASSES))
        self.passed_in = [passed_in if r.random() < 0.7 else "nothing" for _ in range(CALLS)]
        makers = r.choices(list(MADE_BY), k=2) if r.random() < 0.3 else ["nothing"]
        self.made_by = [[r.choice(makers) for _ in self.arguments] for _ in range(CALLS)]
        self.form = r.choice(list(CHANGED_FORMS)) if r.random() < 0.05 else self.form

    def __str__(self):
        return "\n".join(f"{k} = {v}" for k, v in vars(self).items())

    @property
    def exact(self):
        """Whether no 16 bits are within, so that sums in another order make little difference."""
        return not (any(self.half) or any(n == "autocast" for n, *_ in self.body))

    def function(self, s, left):
        """(the function, or module; how it is called with arguments and gives a list). `left` comes to
        be what is in lists and dicts that it was given."""
        body = [(WITHIN[n], i, k) for n, i, k in self.body]
        results = [RESULTS[n] for n in self.results]

        (pack, unpack), (give, take) = (FORMS | CHANGED_FORMS)[self.form], GIVEN[self.given]

        def run(*given, **named):
            args = unpack(*given, **named)
            values = list(args)
            for f, i, k in body:
                values.append(f(s, values[-1 - i % len(values)], values[k % len(values)]))
            return give([f(s, args, values) for f in results])

        def called(call, args):
            given, named = pack(args)
            found = call(*given, **named)
            left[:] = tree_leaves([of for of in given if isinstance(of, (list, dict))])
            if take is not None:
                return take(found)
            return list(found) if isinstance(found, tuple) else [found]

        return (_Module(s, run) if self.module else run), called

    def run(self, wrap, device):
        """What can be observed of each call."""
        pf.manual_seed(self.number)
        s, log = Inner(wrap), []
        left = []
        function, called = self.function(s, left)
        captured = wrap(function)
        kept, seen = None, []
        for n in range(CALLS):
            found = []
            try:
                around = AROUND[self.around[n]](captured)
                kept = self._one(s, log, lambda a, f=around: called(f, a), left, n, found, device)
            except Exception as e:
                kept = None
                found.append(("error", type(e).__name__))
                _clear(s)  # how far a pass came before it failed is nobody's concern
                if isinstance(e, RecursionError):  # a checkpoint that gives a weight itself runs
                    s.log.clear()  # again and again, as often as the stack has room for
            if not self.kept:
                kept = None  # noqa: F841 (or it lives until the next call ends)
            for k, p in enumerate(s.parameters()):
                found += [(f"gradient of weight {k}", p.grad), (f"weight {k}", p)]
            found += [
                ("held", s.held),
                ("mean", s.norm.running_mean),
            ]
            found += [("batches", s.norm.num_batches_tracked), ("random", pf.get_rng_state())]
            found += [("called outside", tuple(log)), ("called inside", tuple(s.log))]
            found += [("leaves heard", tuple(sorted(s.heard)))]
            seen.append([(name, _plain(v)) for name, v in found])
        return seen

    def _one(self, s, log, call, left, n, found, device):
        for name in self.changes[n]:
            CHANGES[name](s, log)
        CHANGES[self.clears](s, log)
        x = (pf.randn(N, N) * 0.7).requires_grad_(self.wants)

        def arguments(x):
            made = []
            for name, by in zip(self.arguments, self.made_by[n]):
                made.append(MADE_BY[by](ARGUMENTS[name](s, log, x, made)))
            return made

        args = arguments(x)
        if self.hooked:
            for k, a in enumerate(args):
                if a.requires_grad and not any(a is w for w in s.w):  # leaves hear in any order
                    a.register_hook(lambda g, k=k, to=s.heard if a.is_leaf else log: to.append(k))
        mode = {"enable": pf.enable_grad, "no_grad": pf.no_grad, "inference": pf.inference_mode}
        given = list(args)
        try:
            for k in range(self.times):
                with mode[self.modes[n]](), pf.autocast(device, pf.bfloat16, enabled=self.half[n]):
                    results = call(given)
                found.append(("left", [_plain(v) for v in left]))
                if k + 1 < self.times:
                    of = [r for r in results if isinstance(r, pf.Tensor) and r.shape == (N, N)]
                    given = [*given[1:], of[0] if of else given[0]]
            for r in results:
                found.append(("result", r))
                if isinstance(r, pf.Tensor):
                    found.append(("history", (r.requires_grad, r.is_leaf, r.grad_fn is not None)))
                    found.append(("is", (any(r is a for a in given), any(r is w for w in s.w))))
                    found.append(("dtype", str(r.dtype)))
            p = _Call(s, log, x, given, results, s.w, self.extra, lambda x: call(arguments(x)))
            AROUND_PASSES[self.passed_in[n]](PASSES[self.passes[n]])(p)
            found += [("gradient", g) for g in [*p.found, x.grad]]
        finally:
            found += [("argument", a) for a in args]
        return results


def _plain(v):
    return v.detach().cpu().double().flatten().tolist() if _is_float(v) else _other(v)


def _is_float(v):
    return isinstance(v, pf.Tensor) and v.is_floating_point()


def _other(v):
    return v.tolist() if isinstance(v, pf.Tensor) else v


def _alike(a, b, tolerance, scale=1.0):
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a == b or (a != a and b != b) or abs(a - b) <= tolerance * scale
    if isinstance(a, list):
        scale = max([1.0, *[abs(x) for x in (*a, *b) if isinstance(x, float)]])
        return len(a) == len(b) and all(_alike(x, y, tolerance, scale) for x, y in zip(a, b))
    return a == b


def difference(program, device, **how):
    """(what a captured run has otherwise, "" if nothing; how many of its calls were replayed)."""
    wrapped = []

    def wrap(f):
        options = {"verify_every": program.every}
        wrapped.append(pf.compile(f, mode="reduce-overhead", options=options, **how))
        return wrapped[-1]

    before = pf.get_default_dtype()
    pf.set_default_dtype(pf.float64 if program.exact else pf.float32)
    try:
        want, got = program.run(lambda f: f, device), program.run(wrap, device)
    finally:
        pf.set_default_dtype(before)
    tolerance = 1e-6 if program.exact else 0.1
    replays = sum(w._step.replays for w in wrapped)
    for n, (a, b) in enumerate(zip(want, got, strict=True)):
        errors = [[v for k, v in c if k == "error"] for c in (a, b)]
        if errors == [[], ["AutogradError"]] and "recomputed" in program.around:
            return "", replays  # it keeps an argument, which would be made again: none may write it
        if errors[0] != errors[1]:
            a, b = [("error", errors[0])], [("error", errors[1])]
        for (name, x), (_, y) in zip(a, b, strict=True):
            if not _alike(x, y, tolerance):
                return f"call {n}, {name}: {y} in place of {x}", replays
    return "", replays
