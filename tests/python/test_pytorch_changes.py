"""What PyTorch changed between 2.9 and 2.13: each line of docs/pytorch_changes.md under both."""

import math
import pathlib
import pickle
import re

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "pytorch_changes.md"
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def parameter(lib, *values):
    return lib.nn.Parameter(lib.tensor(values or (1.0,)))


@case
def lbfgs_evaluations(lib):
    p, calls = parameter(lib, 100.0), []
    opt = lib.optim.LBFGS([p], lr=1e-3, max_iter=2, line_search_fn="strong_wolfe")

    def closure():
        calls.append(1)
        opt.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    opt.step(closure)
    return [len(calls), p]


@case
def rates_are_copies(lib):
    opt = lib.optim.SGD([parameter(lib)], lr=lib.tensor(0.5))
    s = lib.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    first, held = s.get_last_lr()[0], opt.param_groups[0]["lr"]
    opt.step()
    s.step()
    return [first, held, s.get_last_lr(), s.base_lrs]


@case
def sequence_at_milestone_0(lib):
    opt = lib.optim.SGD([parameter(lib)], lr=1.0)
    S = lib.optim.lr_scheduler
    s = S.SequentialLR(opt, [S.ConstantLR(opt, 0.1, 3), S.ExponentialLR(opt, 0.5)], [0])
    seen = [opt.param_groups[0]["lr"]]
    for _ in range(3):
        opt.step()
        s.step()
        seen.append(opt.param_groups[0]["lr"])
    return seen


@case
def swalr_state(lib):
    s = lib.optim.swa_utils.SWALR(lib.optim.SGD([parameter(lib)], lr=1.0), 0.1)
    state = pickle.loads(pickle.dumps(s.state_dict()))
    return [state["_anneal_strategy"], "anneal_func" in state]


@case
def betas_are_numbers(lib):
    p = parameter(lib)
    opt = lib.optim.Adam([p], lr=0.1, betas=(lib.tensor(0.5), lib.tensor(0.9)))
    p.grad = lib.ones(1)
    opt.step()
    return p


@case
def adagrad_late_state(lib):
    p = parameter(lib, 1.0, 2.0)
    opt = lib.optim.Adagrad([p], lr=0.1)
    opt.state.clear()
    p.grad = lib.ones(2)
    opt.step()
    return p


@case
def lp_pool_infinity(lib):
    x = lib.arange(64.0).reshape(1, 1, 4, 4, 4) - 30
    F = lib.nn.functional
    return [
        F.lp_pool1d(x[0, 0, 0], math.inf, 2),
        F.lp_pool2d(x[0, 0], -math.inf, 2, 1, True),
        F.lp_pool3d(x, math.inf, 2),
    ]


@case
def max_unpool_sizes(lib):
    values, at = lib.nn.functional.max_pool1d(lib.ones(1, 1, 8), 2, return_indices=True)
    return lib.nn.functional.max_unpool1d(values, at, 2, output_size=[-8])


@case
def embedding_bag_rows(lib):
    rows = lib.tensor([[0, 1], [1, 2]])
    return lib.nn.functional.embedding_bag(rows, lib.eye(3), include_last_offset=True)


@case
def batch_norm_eps(lib):
    return lib.nn.functional.batch_norm(lib.ones(2, 3), None, None, training=True, eps=0.0)


@case
def gaussian_nll_variance(lib):
    loss = lib.nn.functional.gaussian_nll_loss
    return [
        loss(lib.ones(2, 3, 4), lib.zeros(2, 3, 4), lib.full((2, 1, 4), 2.0)),
        loss(lib.ones(2, 3), lib.zeros(2, 3), lib.full((1, 3), 0.5)),
    ]


@case
def norms_without_bias(lib):
    nn = lib.nn
    made = [
        nn.BatchNorm2d(2, bias=False), nn.InstanceNorm1d(2, affine=True, bias=False),
        nn.SyncBatchNorm(2, bias=False), nn.LazyBatchNorm1d(bias=False),
    ]  # fmt: skip
    return [[n for n, _ in m.named_parameters()] for m in made] + [repr(made[0])]


@case
def layers_check(lib):
    for make in (
        lambda: lib.nn.Bilinear(0, 2, 3),
        lambda: lib.nn.HuberLoss(delta="a"),
        lambda: lib.nn.Unflatten(1, (2, "a")),
    ):
        with pytest.raises((ValueError, TypeError)):
            make()
    return 0


@case
def linear_cross_entropy(lib):
    x, w = lib.arange(6.0).reshape(2, 3) / 6, lib.arange(12.0).reshape(4, 3) / 12
    loss = lib.nn.LinearCrossEntropyLoss(3, 4)
    return [
        lib.nn.functional.linear_cross_entropy(x, w, lib.tensor([1, 3])), list(loss.linear.weight.shape)
    ]  # fmt: skip


@case
def gradients_by_name(lib):
    a, b = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    found = lib.autograd.grad((a * 2 + b * 3).sum(), {"a": a, "b": b})
    lib.autograd.backward((a * 5).sum(), inputs={"a": a})
    return [type(found).__name__, found["a"], found["b"], a.grad]


@case
def gradients_of_nothing(lib):
    for ask in (
        lambda loss: lib.autograd.grad(loss, []),
        lambda loss: lib.autograd.backward(loss, inputs=[]),
        lambda loss: loss.backward(inputs=[]),
    ):
        with pytest.raises(RuntimeError, match="empty"):
            ask(lib.ones(2, requires_grad=True).sum())
    return 0


@case
def functions_by_name(lib):
    class Times(lib.autograd.Function):
        @staticmethod
        def forward(x, k=3.0):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    class Plus(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, k=1.0):
            return x + k

        @staticmethod
        def backward(ctx, g):
            return g, g * 7

    out = []
    named = lib.ones(2, requires_grad=True)
    for f in (
        lambda x: Times.apply(x, k=5.0),
        Times.apply,
        lambda x: Plus.apply(x, k=named),
        lambda x: Plus.apply(k=named, x=x),
    ):
        x = lib.ones(2, requires_grad=True)
        y = f(x)
        y.sum().backward()
        out += [y, x.grad]
    return [*out, named.grad]


@case
def functions_boxed(lib):
    class Boxed(lib.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            a, b = grads
            grads.clear()
            return a * 2 + b * 3

    x = lib.ones(2, requires_grad=True)
    a, b = Boxed.apply(x)
    (a + b * 2).sum().backward()
    return x.grad


@case
def functions_clear(lib):
    class Square(lib.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = lib.full((2,), 3.0, requires_grad=True)
    Square.apply(x).sum().backward()
    return x.grad


@case
def lanczos(lib):
    x = lib.arange(30.0).reshape(1, 1, 5, 6).sin().requires_grad_()

    def smaller(x, **how):
        return lib.nn.functional.interpolate(x, mode="lanczos", **how)

    made = []
    for how in (dict(size=(3, 4)), dict(size=(7, 6)), dict(scale_factor=0.6)):
        made.append(smaller(x, antialias=True, align_corners=False, **how))
    lib.stack([m.square().sum() for m in made]).sum().backward()
    for how in (dict(), dict(antialias=True, align_corners=True)):
        try:
            smaller(x, size=(3, 4), **how)
        except ValueError:
            made.append(lib.ones(1))
    return [*made, x.grad]


@case
def like_with_generator(lib):
    def drawn(name, *args):
        return getattr(lib, name)(lib.zeros(9), *args, generator=lib.Generator().manual_seed(3))

    return [
        bool((drawn(*call) == drawn(*call)).all())
        for call in (("rand_like",), ("randn_like",), ("randint_like", 5), ("randint_like", 1, 5))
    ]


@case
def aminmax_gradient(lib):
    x = lib.tensor([1.0, 1.0, 3.0, 2.0], requires_grad=True)
    low, high = lib.aminmax(x)
    (low * 2 + high).backward()
    return x.grad


@case
def ldexp_gradient(lib):
    x, e = lib.tensor([1.0, 2.0], requires_grad=True), lib.tensor([2.0, 3.0], requires_grad=True)
    lib.ldexp(x, e).sum().backward()
    return [x.grad, e.grad]


@case
def grid_sample_second(lib):
    x = lib.arange(9.0).reshape(1, 1, 3, 3).requires_grad_()
    at = (lib.ones(1, 2, 2, 2) * 0.3).requires_grad_()
    y = lib.nn.functional.grid_sample(x, at, align_corners=False).pow(2).sum()
    a, b = lib.autograd.grad(y, [x, at], create_graph=True)
    (a.sum() + b.pow(2).sum()).backward()
    return [x.grad, at.grad]


@case
def nextafter_gradient(lib):
    x = lib.tensor([1.0, 3.0], requires_grad=True)
    lib.nextafter(x, lib.tensor([2.0, 2.0])).sum().backward()
    return x.grad


def plain(v):
    if isinstance(v, (list, tuple)):
        return [w for part in v for w in plain(part)]
    v = v.detach().reshape(-1).tolist() if hasattr(v, "detach") else [v]
    return v


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_followed(name):
    try:
        want = plain(CASES[name](torch))
    except (ValueError, RuntimeError, TypeError) as e:
        with pytest.raises((type(e), pf.PyFlameError)):
            CASES[name](pf)
        return
    got = plain(CASES[name](pf))
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a == (pytest.approx(b, rel=1e-4, abs=1e-6) if isinstance(b, float) else b)


def subset_items():
    for lib, refused in ((torch, True), (pf, False)):
        Five = type(
            "Five", (lib.utils.data.Subset,), {"__getitem__": lambda self, i: self.dataset[i] + 5}
        )

        def batches(lib=lib, kind=Five):
            loader = lib.utils.data.DataLoader(kind(range(4), [0, 1]), batch_size=2)
            return [b.tolist() for b in loader]

        if refused:
            with pytest.raises(NotImplementedError):
                batches()
        else:
            assert batches() == [[5, 6]]


def new_switches():
    for module, name in (
        ("optim", "swap_in_optimizer_params_and_state"),
        ("autograd.grad_mode", "enforce_grad_layout_policy"),
        ("autograd.graph", "set_warn_on_accumulate_grad_stream_mismatch"),
    ):
        theirs, ours = torch, pf
        for part in module.split("."):
            theirs, ours = getattr(theirs, part), getattr(ours, part)
        assert hasattr(theirs, name) and not hasattr(ours, name)


OTHERWISE = {f.__name__: f for f in (subset_items, new_switches)}


@pytest.mark.parametrize("name", OTHERWISE)
def test_written_down(name):
    OTHERWISE[name]()


def test_the_page_and_the_tests_name_the_same():
    rows = re.findall(r"^\| (\w+) \|", PAGE.read_text(), re.M)
    assert sorted(rows) == sorted(["what", *CASES, *OTHERWISE])
