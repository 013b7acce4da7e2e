"""pf.compile of a part of a program: gradients end at its arguments, and any backward pass gives what it
gives without."""

import contextlib
import itertools
import warnings

import pytest
from captured_steps import CAPTURED, calls

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn
from pyflame.autograd import Function
from pyflame.autograd.graph import recompute_cheap, saved_tensors_hooks
from pyflame.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def exact():
    """Sums in another order are to be no difference."""
    pf.set_default_dtype(pf.float64)
    yield
    pf.set_default_dtype(pf.float32)


def both(make, times=7):
    """What each call gives, with and without: make(wrap) gives a function to call."""
    wrapped = []

    def wrap(f):
        wrapped.append(pf.compile(f, **CAPTURED))
        return wrapped[-1]

    found = []
    for w in (lambda f: f, wrap):
        pf.manual_seed(2)
        run = make(w)
        found.append([_plain(run()) for _ in range(times)])
    for n, (want, got) in enumerate(zip(*found, strict=True)):
        for g, w in zip(got, want, strict=True):
            assert g == (pytest.approx(w, rel=1e-8, abs=1e-10) if isinstance(w, list) else w), n
    return wrapped[0]


def _plain(values):
    return [v.detach().flatten().tolist() if isinstance(v, pf.Tensor) else v for v in values]


# ---- arguments and weights that lie behind each other -------------------------------------------


def test_one_argument_made_of_another():
    def make(wrap):
        call = wrap(lambda a, b: a * b + b.square())

        def run():
            a = pf.tensor([1.5, -2.0], requires_grad=True)
            call(a, a.exp() + a).sum().backward()
            return [a.grad]

        return run

    assert calls(both(make))[0] == 4


@pytest.mark.parametrize("kind", ["cell", "layer", "tied", "penalty", "skip"])
def test_weights_behind_arguments(kind):
    def make(wrap):
        m = nn.GRUCell(4, 4) if kind == "cell" else nn.Linear(4, 4)
        table = nn.Embedding(5, 4)
        weights = [*m.parameters(), *table.parameters()]
        part = {
            "cell": lambda h: m(pf.ones(3, 4), h),
            "layer": lambda h: m(h).tanh(),
            "tied": lambda h: h @ table.weight.t(),
            "penalty": lambda h: h.square().mean() + sum(w.abs().sum() for w in weights),
            "skip": lambda h, x: F.gelu(h + x) * m(x),
        }[kind]
        call = wrap(part)

        def run():
            for w in weights:
                w.grad = None
            x = table(pf.tensor([0, 3, 1]))
            if kind == "skip":
                y = call(m(x), x)
            elif kind in ("tied", "penalty"):
                y = call(m(x))
            else:
                y = call(call(x) * 2)
            y.square().sum().backward()
            return [w.grad for w in weights]

        return run

    assert calls(both(make))[0] > 0


def test_what_lies_behind_an_argument_runs_once():
    seen = []

    class Outside(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append("backward")
            return g * 2

    def make(wrap):
        w = nn.Parameter(pf.ones(3))
        w.register_post_accumulate_grad_hook(lambda p: seen.append("sum"))
        call = wrap(lambda a, b: (a * b).tanh())

        def run():
            seen.clear()
            a = Outside.apply(w)
            a.register_hook(lambda g: seen.append("hook"))
            y = call(a, a * 3)
            y.register_hook(lambda g: seen.append("result"))
            y.sum().backward()
            return [tuple(seen)]

        return run

    assert calls(both(make))[0] == 4


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
def test_an_argument_that_the_function_reaches_by_itself():
    """At another place in each call."""

    def make(wrap):
        held = pf.zeros(2)

        def step(a, b, c):
            held.mul_(0.9).add_(c * 0.1)
            return c * 2 * held + a

        call = wrap(step)

        def run():
            x = pf.randn(2)
            y = call(pf.ones(2), held, x)
            z = call(held, x, y)
            return [y, z, call(x, y, z), held]

        return run

    both(make)


# ---- any backward pass --------------------------------------------------------------------------


def passes(kind, y, z, x, w):
    if kind == "retained":
        y.sum().backward(retain_graph=True)
        (y * z).sum().backward()
    elif kind == "one by one":
        y.sum().backward(retain_graph=True)
        z.sum().backward()
    elif kind == "penalty":
        (g,) = pf.autograd.grad((y * z).sum(), x, create_graph=True)
        g.square().sum().backward()
    elif kind == "batched":
        (g,) = pf.autograd.grad(y, x, pf.eye(6).reshape(6, 2, 3), is_grads_batched=True)
        return [g]
    elif kind == "one":
        (g,) = pf.autograd.grad(z.sum(), w)
        return [g]
    else:
        (y.sum() + z.square().sum()).backward()
    return [x.grad, w.grad]


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
@pytest.mark.parametrize("kind", ["retained", "one by one", "penalty", "batched", "one"])
@pytest.mark.parametrize("first", [0, 4, 6])  # call that asks for it
def test_another_pass(kind, first):
    """Dropout and statistics are those of the call, whoever runs it once more."""

    def make(wrap):
        w = nn.Parameter(pf.randn(3, 3))
        norm = nn.BatchNorm1d(3)
        drop = nn.Dropout(0.4)
        call = wrap(lambda x: ((x @ w).exp() * drop(x), norm(x @ w).tanh()))
        n = [0]

        def run():
            w.grad = None
            x = pf.randn(2, 3, requires_grad=True)
            y, z = call(x)
            found = passes(kind if n[0] >= first else "plain", y, z, x, w)
            n[0] += 1
            return [y, z, *found, norm.running_mean, norm.num_batches_tracked, pf.rand(1)]

        return run

    c = both(make, 12)
    assert calls(c)[0] >= (1 if first else 0), c.report()


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
def test_derivatives_of_functions():
    def make(wrap):
        cube, total = wrap(lambda x: x**3), wrap(lambda x: (x**3).sum())

        def run():
            v = pf.tensor([1.0, 2.0, -1.0])
            return [
                pf.autograd.functional.jacobian(cube, v),
                pf.func.hessian(total)(v),
                pf.func.vmap(pf.func.grad(total))(pf.stack([v, v * 2])),
            ]

        return run

    both(make)


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
def test_a_pass_for_each_of_several_views():
    def make(wrap):
        call = wrap(lambda x: x.unbind(0))

        def run():
            x = pf.ones(3, 2, requires_grad=True)
            for k, row in enumerate(call(x)):
                (row * (k + 1)).sum().backward()
            return [x.grad]

        return run

    both(make)


def test_results_that_need_nothing_for_their_gradient():
    """A second pass is no error where the first has freed nothing."""

    def make(wrap):
        call = wrap(lambda x: (x * 2 + 1, x.exp()))

        def run():
            x = pf.tensor([1.0, 2.0], requires_grad=True)
            y, z = call(x)
            (y.sum() + z.sum()).backward()
            y.sum().backward()
            with pytest.raises(pf.AutogradError):
                z.sum().backward()
            return [x.grad]

        return run

    both(make)


# ---- history ------------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", [pf.no_grad, pf.enable_grad])
def test_gradients_switched_on_within(outside):
    def make(wrap):
        def part(x):
            with pf.enable_grad():
                y = x * 3
            with pf.no_grad():
                z = x * 2
            return y, z, x + 1

        call = wrap(part)

        def run():
            x = pf.ones(2, requires_grad=True)
            with outside():
                found = call(x)
            found[0].sum().backward()
            return [*[(t.requires_grad, t.is_leaf) for t in found], x.grad]

        return run

    assert calls(both(make))[0] == 4


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
def test_results_that_look_at_arguments():
    """A write to such a view is one to the argument, with its history."""

    def make(wrap):
        call = wrap(lambda x: x.view(-1))

        def run():
            leaf = pf.ones(2, 2, requires_grad=True)
            x = leaf * 1
            call(x).mul_(3)
            x.sum().backward()
            return [leaf.grad, x]

        return run

    both(make)


def test_a_result_that_is_written_before_its_gradient_is_an_error_at_each_call():
    def make(wrap):
        saved, free = wrap(lambda x: x.exp()), wrap(lambda x: x * 2)

        def run():
            x = pf.ones(2, requires_grad=True)
            y, z = saved(x), free(x)
            y.add_(1)
            z.add_(1)
            z.sum().backward()
            with pytest.raises(pf.AutogradError, match="in place"):
                y.sum().backward()
            return [x.grad]

        return run

    both(make)


@pytest.mark.parametrize("lossless", [True, False])
def test_hooks_of_saved_tensors_around_a_write_do_not_see_the_tape_made_for_it(lossless):
    """What the call has saved was saved outside of them: the write is an error at each call."""

    def make(wrap):
        w = nn.Parameter(pf.linspace(-1, 1, 9).reshape(3, 3))
        call = wrap(lambda x: (x @ w).tanh() * 2)
        count = [0]

        def run():
            count[0] += 1
            heard = []

            def pack(t):
                heard.append("packed")
                return t.clone() if lossless else t * 2

            x = pf.full((3, 3), 0.5 + count[0])
            w.grad = None
            y = call(x)
            if count[0] < 5:  # captured, compared and replayed
                y.sum().backward()
                return [w.grad, len(heard)]
            with saved_tensors_hooks(pack, lambda t: t), pf.no_grad():
                x.mul_(0.5)
            try:
                y.sum().backward()
            except pf.AutogradError:
                return ["refused", len(heard)]
            return [w.grad, len(heard)]

        return run

    both(make)


@pytest.mark.parametrize("written", ["argument", "memory", "nothing"])
@pytest.mark.parametrize("breaks", ["always", "at times"])
@pytest.mark.parametrize("result", ["result", "view", "both", "written view"])
def test_an_argument_that_is_written_where_a_capture_has_a_copy(result, breaks, written):
    """The copy may be part of a tape that the program gets: of a capture that has broken off, or of a run
    that one was compared with."""

    def make(wrap):
        w = nn.Parameter(pf.arange(1.0, 4.0))
        count = [0]

        def step(a, b):
            y = w * a + b
            if breaks == "always" or count[0] in (2, 5):
                y = y + y.detach().max().item() * 0  # the host looks
            given = {"result": y * a, "view": (y * a)[1:], "both": ((y * a)[:2], y * 2)}
            return given.get(result, given["view"])

        call = wrap(step)

        def run():
            count[0] += 1
            memory = pf.arange(4.0) + count[0]
            a, b = memory[:-1], memory[1:]
            w.grad = None
            made = call(a, b)
            made = made if isinstance(made, tuple) else (made,)
            if result == "written view":
                made[0].add_(1)
            with pf.no_grad():
                if written == "argument":
                    a.mul_(2)
                elif written == "memory":
                    memory[0] = 5
            try:
                sum(m.sum() for m in made).backward()
            except pf.AutogradError:
                return [*made, "refused"]
            return [*made, w.grad]

        return run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(make)


def test_a_captured_function_within_another_whose_call_runs_again():
    """For the tape of a pass that is to be followed by another: with all nodes of both."""

    def make(wrap):
        w, v = (pf.full((3, 3), k).requires_grad_() for k in (0.5, 0.25))
        outer = wrap(lambda x: (inner(x).exp(), inner(x * 2)))
        inner, count = wrap(lambda x: (x @ w).tanh()), [0]

        def run():
            count[0] += 1
            w.grad = v.grad = None
            a, b = outer(v * 2)
            loss = (a + b * 1.5).sum()
            if count[0] % 4 == 0:
                found = pf.autograd.grad(loss, [w, v], create_graph=True)
                loss = sum(g.square().sum() for g in found)
            loss.backward()
            return [a, b, w.grad, v.grad]

        return run

    assert calls(both(make, 13))[0] > 0


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
def test_a_captured_function_within_vmap(randomness):
    """Also of what is the same for all samples: random numbers are the vmap's."""

    def make(wrap):
        draws = wrap(lambda x: F.dropout(x, 0.5) * 2)
        x = pf.ones(4)

        def run():
            plain = draws(x)
            try:
                over = pf.vmap(lambda t: t + draws(x), randomness=randomness)(pf.ones(3, 4))
            except pf.AutogradError:
                over = "refused"
            return [plain, over]

        return run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert calls(both(make))[0] > 0


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("reentrant", [True, False])
def test_statistics_of_a_captured_block_that_a_checkpoint_runs_again(reentrant, trained):
    """They count what comes once, whichever calls are within a checkpoint."""

    def make(wrap):
        m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double().requires_grad_(trained)
        captured, count = wrap(lambda x: m(x).tanh()), [0]

        def run():
            count[0] += 1
            m.zero_grad()
            x = pf.randn(5, 3, requires_grad=True)
            if count[0] < 5 or count[0] % 4 == 0:
                y = checkpoint(captured, x, use_reentrant=reentrant)
            else:
                y = captured(x)
            y.square().sum().backward()
            return [y, x.grad, m[0].weight.grad, m[1].running_mean, m[1].num_batches_tracked]

        return run

    assert calls(both(make, 15))[0] > 0


def test_a_cast_that_autocast_keeps_for_a_result_and_a_pass_within():
    """The pass within has come by it, and the result's own may follow."""

    def make(wrap):
        w = (pf.ones(3, 3) * 0.5).requires_grad_()

        def step(x):
            y = (x @ w).tanh()
            w.grad = None
            (x.detach() @ w).sin().sum().backward()
            return y.float().square().mean(), w.grad * 0.5

        call = wrap(step)

        def run():
            x = (pf.ones(3, 3) * 0.25).requires_grad_()
            with pf.autocast("cpu", dtype=pf.bfloat16):
                y, g = call(x)
            y.backward()
            return [y, g, x.grad, w.grad]

        return run

    pf.set_default_dtype(pf.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(make)


def test_the_loss_of_a_step_that_makes_its_gradients_itself():
    """It has a history, which the step has used up."""

    def make(wrap):
        m = nn.Linear(3, 1)
        o = pf.optim.SGD(m.parameters(), lr=0.1)

        def step(x):
            o.zero_grad()
            loss = m(x).square().mean()
            loss.backward()
            o.step()
            return loss, m.weight.grad.sum()

        call = wrap(step)

        def run():
            loss, total = call(pf.randn(4, 3))
            with pytest.raises(pf.AutogradError, match="used and freed"):
                loss.backward()
            history = [(t.requires_grad, t.is_leaf, t.grad_fn is None) for t in (loss, total)]
            return [loss, total, m.weight, *history]

        return run

    assert calls(both(make))[0] == 4


def test_a_step_by_hand_behind_gradients_that_are_made_within():
    """It is recorded, and not run, when the first replay lays out the memory that it reads."""

    def make(wrap):
        w, a = nn.Parameter(pf.randn(3, 3)), pf.randn(3, 3)

        def gradients(a):
            w.grad = None
            (a @ w).sin().sum().backward()
            return w.grad * 0.1

        call = wrap(gradients)

        def run():
            if w.grad is not None:
                with pf.no_grad():
                    w.sub_(w.grad.clamp(-1, 1) * 0.01)
            return [call(a), w.grad]

        return run

    assert calls(both(make))[0] == 4


# ---- the comparison -----------------------------------------------------------------------------


def test_a_backward_pass_that_has_changed_is_found():
    """By the comparison, which runs Python's."""
    factors = iter([2.0] * 4 + [5.0] * 100)

    class Drawn(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * next(factors)

    c = pf.compile(lambda x: Drawn.apply(x).sum(), **CAPTURED, options={"verify_every": 3})
    found = []
    with pytest.raises(pf.compiler.CaptureError, match="backward|number"):
        for _ in range(12):
            x = pf.ones(2, requires_grad=True)
            c(x).backward()
            found.append(x.grad[0].item())
    assert found[:6] == [2.0] * 6


# What a launch may be chosen by: who has made an operand.
MAKERS = {
    "tanh": lambda w: w.tanh(),
    "relu": lambda w: w.relu(),
    "scaled": lambda w: w * 2,
    "cast": lambda w: w.float().to(w.dtype),
    "normed": lambda w: F.layer_norm(w, w.shape[1:]),
    "leaf": lambda w: w,
}
READERS = {
    "product": lambda a: a @ a,
    "linear": lambda a: F.linear(a, a, a[0]),
    "tanh": lambda a: a.tanh() * a,
    "norm": lambda a: F.layer_norm(a, a.shape[1:]),
    "loss": lambda a: F.cross_entropy(a, pf.arange(len(a))),
}


@pytest.mark.parametrize("within", ["nothing", "recompute", "autocast"])
@pytest.mark.parametrize("reader", READERS)
def test_who_has_made_an_argument_changes_nothing_of_what_is_captured(reader, within):
    half = within == "autocast"
    around = {
        "nothing": contextlib.nullcontext,
        "recompute": lambda: recompute_cheap(at_least=0),
        "autocast": lambda: pf.autocast(pf.get_default_device().type, pf.bfloat16),
    }[within]

    def f(a):
        with around():
            return READERS[reader](a)

    for one, other in itertools.permutations(MAKERS, 2):
        captured = pf.compile(f, mode="reduce-overhead", options={"verify_every": 1000})
        dtype = pf.float32 if half else pf.float64
        w = (pf.randn(5, 5, dtype=dtype) * 0.5).requires_grad_()
        for n in range(7):
            make = MAKERS[one if n % 3 < 2 else other]
            found = []
            for call in (f, captured):
                w.grad = None
                y = call(make(w.bfloat16() if half else w))
                y.sum().backward()
                found.append((y, w.grad))
            for want, got in zip(*found):
                assert pf.allclose(got, want, *([0.05] * 2 if half else [1e-8] * 2)), (
                    one,
                    other,
                    n,
                )
        assert captured._step.replays == 4  # as one that knows of nobody's history


@pytest.mark.parametrize("asked", ["at times", "in the pass"])
def test_recomputation_around_some_calls_or_the_pass_alone(asked):
    """Whether a cast is made again, and so whether a write to the weight is an error, is the call's."""

    def make(wrap):
        w = nn.Parameter(pf.linspace(-1, 1, 9, dtype=pf.float32).reshape(3, 3))
        call = wrap(lambda x: x @ w.double())
        count = [0]

        def run():
            count[0] += 1
            around = recompute_cheap(at_least=0)
            x = pf.full((3, 3), 0.5 + count[0]).requires_grad_()
            with around if asked == "at times" and count[0] % 3 == 0 else contextlib.nullcontext():
                y = call(x)
            with around if asked == "in the pass" else contextlib.nullcontext():
                if count[0] > 6:
                    with pf.no_grad():
                        w.mul_(0.5)
                try:
                    y.sum().backward()
                except pf.AutogradError:
                    return ["refused"]
            return [x.grad]

        return run

    both(make, times=15)
