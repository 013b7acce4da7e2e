"""Parameters of 16 bits in optimizers: float32 masters, and rounding at random."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from optim_reference import adam_step

import pyflame as pf
from pyflame import _ops, nn
from pyflame.nn import functional as F

pytestmark = pytest.mark.kernels

RNG = np.random.default_rng(11)
SHAPES = [(3, 5), (), (1,), (64,), (1025,), (0, 3), (130, 70)]
NARROW = [pf.bfloat16, pf.float16]
DIGITS = {pf.bfloat16: 8, pf.float16: 11}
WAYS = [{"master_weights": True}, {"stochastic_rounding": True}]
OPTIMIZERS = [
    lambda p, **how: pf.optim.AdamW(p, lr=1e-2, **how),
    lambda p, **how: pf.optim.Adam(p, lr=1e-2, weight_decay=0.1, amsgrad=True, **how),
    lambda p, **how: pf.optim.SGD(p, lr=1e-2, **how),
    lambda p, **how: pf.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True, **how),
]


def wide(t):
    return t.detach().to(pf.float64).numpy().copy()


def bits(t):
    if t.dtype in NARROW:
        return t.detach().view(pf.int16).numpy().copy()
    return t.detach().numpy().copy().view(np.int32)


def random(shape, dtype):
    return pf.tensor(RNG.standard_normal(shape), dtype=dtype)


def step_size(x, dtype):
    """The distance of neighbours of |x| in `dtype`."""
    lowest = -133 if dtype == pf.bfloat16 else -24
    exponent = np.floor(np.log2(np.maximum(np.abs(x), 2.0**-149)))
    return 2.0 ** np.maximum(exponent - (DIGITS[dtype] - 1), lowest)


def near(t, want):
    """Of float32 as close as its digits, of 16 bits one of the two neighbours."""
    if t.dtype == pf.float32:
        np.testing.assert_allclose(wide(t), want, rtol=3e-6, atol=1e-6)
    else:
        slack = step_size(want, t.dtype) * 1.001 + 1e-6
        assert (np.abs(wide(t) - want) <= slack).all()


# ---- kernels against float64 --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("kept", ["masters", "random", "random, all in 16 bits"])
@pytest.mark.parametrize("decoupled, amsgrad, maximize", [
    (True, False, False), (False, True, False), (True, True, True),
])  # fmt: skip
def test_adam(dtype, kept, decoupled, amsgrad, maximize):
    masters = kept == "masters"
    states = dtype if kept.endswith("16 bits") else pf.float32
    w = [random(s, dtype) for s in SHAPES]
    p = [t.float() for t in w] if masters else w
    m, v, top = ([pf.zeros(s, dtype=states) for s in SHAPES] for _ in range(3))
    lr, b1, b2, eps, wd = 0.05, 0.9, 0.95, 1e-5, 0.1
    for step in (1, 2, 3):
        g = [random(s, dtype) for s in SHAPES]
        before = [[wide(t) for t in x] for x in (p, g, m, v, top)]
        _ops._adamw(
            p, g, m, v, lr, b1, b2, eps, wd, step, decoupled, maximize, top if amsgrad else None,
            *((w,) if masters else (None, True)),
        )  # fmt: skip
        for i in range(len(SHAPES)):
            want = adam_step(
                *(x[i] for x in before[:4]), before[4][i] if amsgrad else None,
                lr, b1, b2, eps, wd, step, decoupled, maximize,
            )  # fmt: skip
            for got, x in zip((p[i], m[i], v[i], top[i]), want):
                if x is not None:
                    near(got, x)
            assert (bits(w[i]) == bits(p[i].to(dtype))).all()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("masters", [False, True])
@pytest.mark.parametrize("momentum, nesterov", [(0.0, False), (0.9, False), (0.9, True)])
def test_sgd(dtype, masters, momentum, nesterov):
    w = [random(s, dtype) for s in SHAPES]
    p = [t.float() for t in w] if masters else w
    b = [pf.zeros(s) for s in SHAPES] if momentum else []
    for first in (True, False):
        g = [random(s, dtype) for s in SHAPES]
        before = [[wide(t) for t in x] for x in (p, g, b)]
        _ops._sgd(
            p, g, b, 0.05, momentum, 0.0, 0.1, nesterov, False, first,
            *((w,) if masters else (None, True)),
        )  # fmt: skip
        for i in range(len(SHAPES)):
            gv = before[1][i] + 0.1 * before[0][i]
            if momentum:
                bv = gv if first else before[2][i] * momentum + gv
                near(b[i], bv)
                gv = gv + momentum * bv if nesterov else bv
            near(p[i], before[0][i] - 0.05 * gv)
            assert (bits(w[i]) == bits(p[i].to(dtype))).all()


# ---- rounding at random -------------------------------------------------------------------------


def rounded(p, rate, dtype, count=1 << 18):
    """`count` times p + rate, rounded at random."""
    x = pf.full((count,), p, dtype=dtype)
    _ops._sgd([x], [pf.ones(count, dtype=dtype)], [], -rate, 0.0, 0.0, 0.0, False, False, True, None, True)  # fmt: skip
    return wide(x)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_the_mean_is_the_value(dtype):
    pf.manual_seed(3)
    values = [(1.0, 1e-3), (1.0, -1e-3), (-3.0, 2e-4), (100.0, 0.123), (0.0, 0.3), (-0.0, -7e-3)]
    # Below the smallest normal number, and one that is between the last there and the first here.
    values += [(0.0, 3.3e-8), (0.0, -1e-5), (0.0, 6.1017e-5)] if dtype == pf.float16 else [
        (0.0, 3.21e-40), (0.0, -1.17547e-38), (0.0, 1e30),
    ]  # fmt: skip
    for p, rate in values:
        exact = float(np.float32(np.float64(p) + np.float64(np.float32(rate))))
        got, step = rounded(p, rate, dtype), step_size(exact, dtype)
        low = np.floor(exact / step) * step
        assert set(np.unique(got)) <= {low, low + step}, (p, rate)
        up = (exact - low) / step
        error = np.sqrt(up * (1 - up) / got.size)
        assert abs(((got - low) / step).mean() - up) <= 4.5 * error + 2**-16, (p, rate)


def test_numbers_are_used_once():
    """Neighbours, parameters and steps do not go the same way."""
    pf.manual_seed(1)
    count = 4096
    xs = [pf.ones(count, dtype=pf.bfloat16) for _ in range(2)]
    g = [pf.ones(count, dtype=pf.bfloat16) for _ in range(2)]
    ups = []
    for _ in range(2):
        for x in xs:
            x.fill_(1)
        _ops._sgd(xs, g, [], -(2.0**-8), 0.0, 0.0, 0.0, False, False, True, None, True)
        ups += [wide(x) > 1 for x in xs]
    ups += [np.roll(ups[0], k) for k in (1, 2, 7, 8, 9, 128)]
    for a, b in itertools.combinations(ups, 2):
        assert abs((a == b).mean() - 0.5) < 0.05
    m, v = ([pf.ones(count, dtype=pf.bfloat16)] for _ in range(2))  # and arrays of one step
    x = [pf.ones(count, dtype=pf.bfloat16)]
    _ops._adamw(x, g[:1], m, v, 2.0**-8, 0.5, 0.5, 0.0, 1.0, 1, True, True, None, None, True)
    assert not (bits(m[0]) == bits(v[0])).all() or not (bits(m[0]) == bits(x[0])).all()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_values_of_the_dtype_stay(dtype):
    """All 65536 of them: infinities, subnormal and largest ones, both zeros."""
    x = pf.tensor(np.arange(-32768, 32768).astype(np.int16), dtype=pf.int16).view(dtype)
    before = bits(x)
    nan = np.isnan(wide(x))
    _ops._sgd([x], [pf.zeros(65536, dtype=dtype)], [], 1.0, 0.0, 0.0, 0.0, False, False, True, None, True)  # fmt: skip
    assert (bits(x) == before)[~nan].all()
    assert np.isnan(wide(x))[nan].all()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_beyond_the_largest(dtype):
    top = pf.finfo(dtype).max
    step = step_size(top, dtype)
    for sign in (1.0, -1.0):
        # As to the nearest: less than half a step stays, more is infinite.
        assert (rounded(sign * top, sign * step * 0.49, dtype, 1000) == sign * top).all()
        assert (rounded(sign * top, sign * step * 0.51, dtype, 1000) == sign * np.inf).all()
        assert (rounded(sign * np.inf, 1.0, dtype, 1000) == sign * np.inf).all()
        between = rounded(sign * top, -sign * step * 0.5, dtype, 1000)
        assert set(np.abs(between)) == {top, top - step}
    assert np.isnan(rounded(np.nan, 1.0, dtype, 9)).all()
    if dtype == pf.float16:
        assert (rounded(0.0, 1e30, dtype, 9) == np.inf).all()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("states", ["float32", "own"])
def test_the_same_bits_everywhere(device, dtype, states):
    """On the CPU and here, for any number of threads, and however the tensors lie."""
    start = [RNG.standard_normal(s) for s in (*SHAPES, (3, 8, 5, 7), (41, 33))]
    slopes = [[RNG.standard_normal(a.shape) for a in start] for _ in range(3)]

    def run(device, lie=lambda t: t, threads=None):
        before = pf.get_num_threads()
        pf.set_num_threads(threads or before)
        try:
            pf.manual_seed(8)
            on = {"dtype": dtype, "device": device}
            ps = [nn.Parameter(lie(pf.tensor(a, **on))) for a in start]
            o = pf.optim.AdamW(ps, lr=0.1, stochastic_rounding=True,
                               state_dtype=dtype if states == "own" else None)  # fmt: skip
            for many in slopes:
                for p, a in zip(ps, many):
                    p.grad = lie(pf.tensor(a, **on))
                o.step()
            return [bits(t.contiguous().cpu()) for p in ps for t in (p, o.state[p]["exp_avg_sq"])]
        finally:
            pf.set_num_threads(before)

    def across(t):
        if t.dim() == 4:
            return t.contiguous(memory_format=pf.channels_last)
        return t.t().contiguous().t() if t.dim() == 2 else t

    want = run("cpu", threads=1)
    for got in (run("cpu", threads=3), run("cpu", across), run(device), run(device, across)):
        assert all((a == b).all() for a, b in zip(want, got, strict=True))


# ---- optimizers ---------------------------------------------------------------------------------


def problem(dtype, way, optimizer, steps=400):
    """The loss of a small regression behind `steps` steps whose changes are mostly below half a
    step of bfloat16."""
    pf.manual_seed(0)
    x = pf.randn(256, 32)
    y = x @ pf.randn(32, 1)
    w = nn.Parameter(pf.full((32, 1), 2.0, dtype=dtype))
    o = optimizer([w], **way)
    for _ in range(steps):
        o.zero_grad()
        loss = F.mse_loss(x.to(dtype) @ w, y.to(dtype)).float()
        loss.backward()
        o.step()
    return float(F.mse_loss(x @ w.detach().float(), y))


@pytest.mark.parametrize("name, optimizer", [
    ("sgd", lambda p, **how: pf.optim.SGD(p, lr=1e-3, momentum=0.9, **how)),
    ("adamw", lambda p, **how: pf.optim.AdamW(p, lr=1e-2, weight_decay=0.0, betas=(0.9, 0.99), **how)),
])  # fmt: skip
def test_it_learns_where_plain_bfloat16_stands_still(name, optimizer):
    exact = problem(pf.float32, {}, optimizer, 1200)
    stalled = problem(pf.bfloat16, {}, optimizer, 1200)
    ways = [*WAYS, {"stochastic_rounding": True, "state_dtype": pf.bfloat16}]
    for way in ways:
        assert problem(pf.bfloat16, way, optimizer, 1200) < exact + 0.02, way
    if name == "sgd":
        assert stalled > exact + 0.1


def model():
    pf.manual_seed(5)
    return nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Dropout(0.2), nn.Linear(9, 3)).bfloat16()


def train(m, o, steps, seed=2):
    pf.manual_seed(seed)
    for i in range(steps):
        o.zero_grad()
        x = pf.tensor(np.random.default_rng(i).standard_normal((6, 7)), dtype=pf.bfloat16)
        m(x).float().square().mean().backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        o.step()


def everything(m, o):
    states = [v for s in o.state.values() for v in s.values() if isinstance(v, pf.Tensor)]
    return [bits(t) for t in (*m.parameters(), *states)]


def same(a, b):
    return all((x == y).all() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("way", [*WAYS, {"stochastic_rounding": True, "state_dtype": "bfloat16"}])
@pytest.mark.parametrize("model_first", [False, True])
def test_resumed_bit_for_bit(tmp_path, make, way, model_first):
    m = model()
    o = make(m.parameters(), **way)
    train(m, o, 3)
    pf.save({"model": m.state_dict(), "optimizer": o.state_dict()}, tmp_path / "state.pt")
    train(m, o, 3, seed=7)
    again = model()
    resumed = make(again.parameters(), **way)
    state = pf.load(tmp_path / "state.pt")
    if model_first:
        again.load_state_dict(state["model"])
    resumed.load_state_dict(state["optimizer"])
    if not model_first:
        again.load_state_dict(state["model"])
    train(again, resumed, 3, seed=7)
    assert same(everything(m, o), everything(again, resumed))


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_masters_follow_what_is_written(make):
    m = model()
    o = make(m.parameters(), master_weights=True)
    train(m, o, 3)
    w = m[0].weight
    before = o.state[w]["master"].clone()
    with pf.no_grad():
        w[2].copy_(pf.ones(7))  # one row; masters of the others keep what the weight has not
    w.data[3, 3] = 5.0
    m[0].bias.data = pf.zeros(9, dtype=pf.bfloat16)
    o.zero_grad()
    for p in m.parameters():
        p.grad = pf.zeros_like(p)
    for group in o.param_groups:
        group.update(lr=0.0)
    o.step()
    after = o.state[w]["master"]
    want = wide(before)
    want[2], want[3, 3] = 1.0, 5.0
    assert (wide(after) == want).all()
    assert (wide(o.state[m[0].bias]["master"]) == 0).all()
    assert (bits(w) == bits(after.bfloat16())).all()
    assert (wide(after) != wide(w)).any()  # it holds more than the weight


def test_states(device):
    ps = [nn.Parameter(pf.ones(3, 2, dtype=d)) for d in (pf.bfloat16, pf.float32, pf.float16)]
    ps.append(nn.Parameter(pf.ones(0, 4, dtype=pf.bfloat16)))
    for way, dtypes in (
        (WAYS[0], [pf.float32] * 4),
        (WAYS[1], [pf.float32] * 4),
        ({"stochastic_rounding": True, "state_dtype": pf.float32}, [pf.float32] * 4),
    ):
        o = pf.optim.AdamW(ps, **way)
        for p in ps:
            p.grad = pf.ones_like(p)
        o.step()
        assert [o.state[p]["exp_avg"].dtype for p in ps] == dtypes
        has = ["master" in o.state[p] for p in ps]
        assert has == ([True, False, True, True] if "master_weights" in way else [False] * 4)
        assert all(o.state[p]["exp_avg"].device == p.device for p in ps)
        assert [p.dtype for p in ps] == [pf.bfloat16, pf.float32, pf.float16, pf.bfloat16]
    one = pf.optim.SGD(ps[:1], momentum=0.9, stochastic_rounding=True, state_dtype=pf.bfloat16)
    ps[0].grad = pf.ones_like(ps[0])
    one.step()
    assert one.state[ps[0]]["momentum_buffer"].dtype == pf.bfloat16
    assert "state_dtype: bfloat16" in repr(one) and "master" not in repr(pf.optim.SGD(ps))


def test_a_state_of_an_ordinary_run_goes_on_with_masters():
    m = model()
    plain = pf.optim.AdamW(m.parameters(), lr=1e-2)
    train(m, plain, 2)
    o = pf.optim.AdamW(m.parameters(), lr=1e-2, master_weights=True)
    o.load_state_dict(plain.state_dict())
    train(m, o, 2)
    s = o.state[m[0].weight]
    assert s["step"] == 4 and s["exp_avg"].dtype == s["master"].dtype == pf.float32
    assert (bits(m[0].weight) == bits(s["master"].bfloat16())).all()


@pytest.mark.parametrize("make", OPTIMIZERS[:3])
@pytest.mark.parametrize("way", WAYS)
def test_captured(make, way):
    """A captured step has the numbers of the step: of dropout and of rounding, in turn."""

    def run(wrap):
        m = model()
        o = make(m.parameters(), **way)

        def step(x):
            o.zero_grad()
            loss = m(x).float().square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(m.parameters(), 0.5)
            o.step()
            return loss.detach() + pf.rand(())

        step = wrap(step)
        pf.manual_seed(2)
        losses = [float(step(pf.ones(6, 7, dtype=pf.bfloat16) * i)) for i in range(8)]
        replays = step._step.replays if hasattr(step, "_step") else 0
        return losses, everything(m, o), replays

    losses, want, _ = run(lambda f: f)
    captured, got, replays = run(lambda f: pf.compile(f, mode="reduce-overhead"))
    assert replays >= 3
    assert losses == captured
    assert same(want, got)


def test_accumulated_gradients_and_scaler():
    m = model()
    o = pf.optim.AdamW(m.parameters(), lr=1e-2, master_weights=True)
    scaler = pf.amp.GradScaler(init_scale=4.0)
    x = pf.randn(6, 7, dtype=pf.bfloat16)
    for i in range(3):
        o.zero_grad()
        for half in x.chunk(2):
            scaler.scale(
                m(half).float().square().mean() * (float("inf") if i == 1 else 1.0)
            ).backward()
        assert m[0].weight.grad.dtype == pf.bfloat16
        before = bits(m[0].weight)
        scaler.step(o)
        scaler.update()
        assert (bits(m[0].weight) == before).all() == (i == 1)
    assert o.state[m[0].weight]["step"] == 2


def test_copied_and_pickled():
    m = model()
    o = pf.optim.AdamW(m.parameters(), lr=1e-2, master_weights=True)
    train(m, o, 2)
    for other in (copy.deepcopy(o), pickle.loads(pickle.dumps(o))):
        assert other.param_groups[0]["master_weights"] is True
        mine, theirs = (list(x.state.values())[0]["master"] for x in (o, other))
        assert (bits(mine) == bits(theirs)).all()


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "LAMB", "LBFGS", "Lion", "Muon", "NAdam",
    "RAdam", "RMSprop", "Rprop", "SparseAdam",
])  # fmt: skip
def test_the_others_say_which_do(name):
    w = nn.Parameter(pf.ones(2, 2, dtype=pf.bfloat16))
    for way in WAYS:
        with pytest.raises(pf.NotSupportedError, match="Adam, AdamW and SGD"):
            getattr(pf.optim, name)([w], **way)
        with pytest.raises(pf.NotSupportedError, match="Adam, AdamW and SGD"):
            getattr(pf.optim, name)([{"params": [w], **way}])


def test_options_that_do_not_go_together():
    w = nn.Parameter(pf.ones(2, dtype=pf.bfloat16))
    for make in (pf.optim.AdamW, pf.optim.Adam, pf.optim.SGD):
        with pytest.raises(ValueError, match="expected one of them"):
            make([w], master_weights=True, stochastic_rounding=True)
        with pytest.raises(pf.NotSupportedError, match="differentiable"):
            make([w], master_weights=True, differentiable=True)
        with pytest.raises(ValueError, match="state_dtype='float32' alone"):
            make([w], state_dtype=pf.float32)
        with pytest.raises(ValueError, match="expected float32"):
            make([w], master_weights=True, state_dtype=pf.bfloat16)
        with pytest.raises(ValueError, match="bfloat16 or float32"):
            make([w], stochastic_rounding=True, state_dtype="float16")


def test_states_that_do_not_fit():
    w = nn.Parameter(pf.ones(2, dtype=pf.bfloat16))
    kept = pf.optim.AdamW([w], master_weights=True).state_dict()
    other = pf.optim.AdamW([w], stochastic_rounding=True)
    with pytest.raises(ValueError, match="expected one of them"):
        other.load_state_dict(kept)
    assert "master_weights" not in other.param_groups[0]
    with pytest.raises(pf.NotSupportedError, match="Adam, AdamW and SGD"):
        pf.optim.NAdam([w]).load_state_dict(kept)


def test_lists_that_do_not_fit():
    h, f, d = (
        [pf.ones(3, dtype=t)] for t in (pf.bfloat16, pf.float32, pf.float64)
    )  # fmt: skip

    def adamw(p, g, m, v, *last):
        _ops._adamw(p, g, m, v, 0.1, 0.9, 0.9, 1e-8, 0.0, 1, True, False, None, *last)

    with pytest.raises(pf.DTypeError, match="16 bits beside float32"):
        adamw(h, h, h, h, h)
    with pytest.raises(pf.DTypeError, match="gradient"):
        adamw(f, f, f, f, h)
    with pytest.raises(pf.DTypeError, match="exp_avg"):
        adamw(f, h, h, h, h)
    with pytest.raises(pf.DTypeError, match="exp_avg_sq"):
        adamw(h, h, f, h, None, True)
    with pytest.raises(pf.DTypeError, match="rounded at random"):
        adamw(f, f, f, f, None, True)
    with pytest.raises(pf.DTypeError, match="exp_avg"):
        adamw(d, d, f, f)
    with pytest.raises(ValueError, match="masters and rounding at random"):
        adamw(f, h, f, f, h, True)
    with pytest.raises(pf.ShapeError, match="master"):
        adamw([pf.ones(4)], h, [pf.ones(4)], [pf.ones(4)], h)


def test_sparse_gradients():
    table = nn.Embedding(5, 3, sparse=True, dtype=pf.bfloat16)
    table(pf.tensor([1, 2])).float().sum().backward()
    with pytest.raises(pf.NotSupportedError, match="sparse gradient"):
        pf.optim.SGD(table.parameters(), lr=0.1, master_weights=True).step()
