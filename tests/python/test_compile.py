"""pf.compile: captured steps give the bits of uncaptured ones, and know what they depend on."""

import copy
import gc
import os
import threading

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn
from pyflame.compiler import CaptureError

CAPTURED = {"mode": "reduce-overhead"}


def model(dropout=0.25, seed=1):
    pf.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(13, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 5)
    )


def batches(n, rows=6):
    return [(pf.randn(rows, 13), pf.randint(0, 5, (rows,))) for _ in range(n)]


def same(a, b):
    return all(
        np.array_equal(x.detach().cpu().numpy(), y.detach().cpu().numpy()) for x, y in zip(a, b)
    )


def calls(compiled):
    step = compiled._step
    return step.replays, step.always


# ---- whole steps ------------------------------------------------------------------------------


def train(wrap, optimizer, schedule=None, steps=9, clip=False):
    m = model()
    o = optimizer(m.parameters())
    scheduler = schedule(o) if schedule else None

    def step(x, y):
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        o.step()
        if scheduler:
            scheduler.step()
        return loss

    step = wrap(step)
    pf.manual_seed(3)
    data = batches(steps)
    losses = [step(x, y).item() for x, y in data]
    gradients = [p.grad for p in m.parameters()]
    return losses, list(m.parameters()), gradients, step


OPTIMIZERS = {
    "sgd": lambda p: pf.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: pf.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: pf.optim.RMSprop(p, lr=0.01),
    "lamb": lambda p: pf.optim.LAMB(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whole_step_gives_the_same_bits(name):
    """Dropout's numbers, the optimizer's count of steps and a schedule go on as they would."""
    schedule = lambda o: pf.optim.lr_scheduler.CosineAnnealingLR(o, 7)  # noqa: E731
    want = train(lambda f: f, OPTIMIZERS[name], schedule, clip=name == "adamw")
    got = train(
        lambda f: pf.compile(f, **CAPTURED), OPTIMIZERS[name], schedule, clip=name == "adamw"
    )
    assert want[0] == got[0]
    assert same(want[1], got[1]) and same(want[2], got[2])
    assert calls(got[3]) == (6, 2)  # as always, captured, compared with Python once, replayed
    assert "launches" in got[3].report()


def test_gradients_that_add_up():
    """Two backward passes for each step of the optimizer: whether there is a gradient already is part
    of what a capture depends on."""

    def run(wrap):
        m = model()
        o = pf.optim.SGD(m.parameters(), lr=0.1)

        def micro(x, y):
            loss = F.cross_entropy(m(x), y) / 2
            loss.backward()
            return loss

        micro = wrap(micro)
        pf.manual_seed(3)
        for i, (x, y) in enumerate(batches(14)):
            micro(x, y)
            if i % 2:
                o.step()
                o.zero_grad()
        return list(m.parameters()), micro

    want, _ = run(lambda f: f)
    got, step = run(lambda f: pf.compile(f, **CAPTURED))
    assert same(want, got)
    assert calls(step)[0] >= 7


def test_gradients_as_results():
    """They lie in the capture's memory for the optimizer, and in memory of their own for the caller."""
    w = pf.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad, w.grad[1:], (w * 1).detach()

    c = pf.compile(step, **CAPTURED)
    kept = []
    for i in range(7):
        g, part, _ = c(pf.full((3,), float(i)))
        kept.append(g)
        assert w.grad.tolist() == g.tolist() == [float(i)] * 3 and part.tolist() == [float(i)] * 2
    assert [g[0].item() for g in kept] == list(range(7)) and calls(c)[0] == 4


def test_what_optimizers_are_given():
    """A closure, or a loss for a schedule, is this call's: such a step runs as always."""
    m = model(0.0)
    o = pf.optim.SGD(m.parameters(), lr=0.1)
    plateau = pf.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1)

    def step(x, y):
        def closure():
            o.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            return loss

        o.step(closure)
        return x * 1

    def scheduled(x, y):
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        plateau.step(loss.detach())
        return loss

    for f, what in ((step, "gets a function"), (scheduled, "gets a Tensor")):
        c = pf.compile(f, **CAPTURED)
        for x, y in batches(4):
            c(x, y)
        assert calls(c) == (0, 4) and what in c.report()


def test_gradient_scaler_within():
    def run(wrap):
        m = model()
        o = pf.optim.SGD(m.parameters(), lr=0.1)
        scaler = pf.amp.GradScaler(m[0].weight.device.type, init_scale=64.0, growth_interval=3)

        def step(x, y):
            o.zero_grad()
            loss = F.cross_entropy(m(x), y)
            scaler.scale(loss).backward()
            scaler.step(o)
            scaler.update()
            return loss

        step = wrap(step)
        pf.manual_seed(3)
        return [step(x, y).item() for x, y in batches(9)], list(m.parameters()), scaler.get_scale()

    want, got = run(lambda f: f), run(lambda f: pf.compile(f, **CAPTURED))
    assert want[0] == got[0] and same(want[1], got[1]) and want[2] == got[2]


# ---- modules -----------------------------------------------------------------------------------


class Net(nn.Module):
    """Statistics that are written in the forward pass, a branch by mode, two results."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.out = nn.Linear(3, 4)

    def forward(self, x, scale=1.0):
        h = F.relu(self.norm(self.conv(x)))
        pooled = h.mean((2, 3))
        return {"logits": self.out(pooled) * scale, "features": (pooled.detach(), h)}


def run_module(wrap, steps=8):
    pf.manual_seed(1)
    m = Net()
    o = pf.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    c = wrap(m)
    pf.manual_seed(3)
    losses = []
    for _ in range(steps):
        o.zero_grad()
        x = pf.randn(4, 2, 6, 5, requires_grad=True)
        r = c(x)
        (r["logits"].square().sum() + r["features"][1].sum()).backward()
        o.step()
        losses.append((r["logits"].detach().clone(), x.grad, r["features"][0].clone()))
    return losses, [*m.parameters(), *m.buffers()], c


def test_module_trained_from_outside():
    want, got = run_module(lambda m: m), run_module(lambda m: pf.compile(m, **CAPTURED))
    assert all(same(a, b) for a, b in zip(want[0], got[0]))
    assert same(want[1], got[1])
    assert calls(got[2]) == (5, 2)
    assert "forward and backward" in got[2].report()


def test_inference_follows_weights_and_mode():
    pf.manual_seed(1)
    m = Net().eval()
    c = pf.compile(m, **CAPTURED)
    x = pf.randn(4, 2, 6, 5)
    with pf.no_grad():
        for _ in range(5):
            assert same([m(x)["logits"]], [c(x)["logits"]])
        assert calls(c)[0] == 2
        m.out.weight.mul_(2)  # in place: read where it is
        assert same([m(x)["logits"]], [c(x)["logits"]])
        assert calls(c)[0] == 3
        m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()})
        assert same([m(x)["logits"]], [c(x)["logits"]])
        m.out.weight.data = pf.randn(4, 3)  # other memory
        for _ in range(4):
            assert same([m(x)["logits"]], [c(x)["logits"]])
        m.out = nn.Linear(3, 7)  # another layer
        for _ in range(4):
            assert same([m(x)["logits"]], [c(x)["logits"]])
        m.norm.train()  # another branch
        twin = copy.deepcopy(m)
        for _ in range(4):
            assert same([twin(x)["logits"]], [c(x)["logits"]])
        m.eval()
        for scale in (1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 2.0, 1.0):
            assert same([m(x, scale=scale)["logits"]], [c(x, scale=scale)["logits"]])
        for rows in (4, 1, 3, 4, 1, 3, 4, 1, 3, 0, 0, 0, 0):
            assert same([m(x[:rows].clone())["logits"]], [c(x[:rows].clone())["logits"]])


def test_results_have_memory_of_their_own():
    c = pf.compile(lambda x: (x * 2, x), **CAPTURED)
    xs = [pf.randn(5) for _ in range(6)]
    results = [c(x) for x in xs]
    for x, (y, z) in zip(xs, results):
        assert same([x * 2], [y]) and z is x


def test_views_constants_and_containers():
    weight = pf.randn(4, 4)

    def f(pair, table, flag=True):
        a, b = pair
        h = (a @ weight + pf.tensor([1.0, 2.0, 3.0, 4.0])).reshape(2, -1)
        h += pf.arange(h.shape[1])
        return {
            "t": h.t(),
            "again": h,
            "n": 3,
            "b": b[1:] if flag else None,
            "w": weight,
            "s": table["k"] + 1,
        }

    c = pf.compile(f, **CAPTURED)
    for i in range(6):
        args = (pf.randn(2, 4), pf.randn(3)), {"k": pf.full((2,), float(i))}
        want, got = f(*args), c(*args)
        assert want.keys() == got.keys() and got["n"] == 3
        for k in ("t", "again", "b", "w", "s"):
            assert same([want[k]], [got[k]]), k
        assert (
            got["t"].data_ptr() == got["again"].data_ptr()
            and got["t"].stride() == want["t"].stride()
        )
    assert calls(c)[0] == 3


def test_in_place_writes_to_arguments_and_states():
    state = pf.zeros(3)

    def f(x):
        x.add_(1)
        state.add_(x)
        return state * 1

    c = pf.compile(f, **CAPTURED)
    total = np.zeros(3)
    for i in range(6):
        x = pf.full((3,), float(i))
        y = c(x)
        total += i + 1
        assert x.tolist() == [i + 1.0] * 3 and y.tolist() == total.tolist() == state.tolist()
    version = state._version
    c(pf.zeros(3))
    assert state._version > version
    saved = (state * pf.ones(3, requires_grad=True)).sum()  # the state is kept for the gradient
    c(pf.zeros(3))
    with pytest.raises(pf.AutogradError, match="changed in place|modified"):
        saved.backward()


def test_random_numbers_go_on():
    def f(x):
        return F.dropout(x, 0.5) + pf.rand_like(x) + pf.randint(0, 9, (3,))

    c = pf.compile(f, **CAPTURED)
    x = pf.ones(3)
    pf.manual_seed(9)
    want = [f(x) for _ in range(7)]
    pf.manual_seed(9)
    got = [c(x) for _ in range(7)]
    assert same(want, got)
    pf.manual_seed(4)
    want = f(x)
    pf.manual_seed(4)
    assert same([want], [c(x)])


def test_seeding_within_runs_as_always():
    def seeded(x):
        pf.manual_seed(5)
        return pf.rand_like(x)

    generator = pf.Generator()
    generator.manual_seed(5)
    for f in (seeded, lambda x: pf.rand(3, generator=generator)):
        c = pf.compile(f, **CAPTURED)
        results = {tuple(c(pf.ones(3)).tolist()) for _ in range(5)}
        assert len(results) == (1 if f is seeded else 5)
        assert calls(c)[0] == 0 and "random: " in c.report()


def test_numbers_drawn_again_within():
    """Checkpointing runs a part again in the backward pass, with the random numbers that it had."""

    def run(wrap):
        m = model(0.5)
        o = pf.optim.SGD(m.parameters(), lr=0.1)

        def step(x, y):
            o.zero_grad()
            h = pf.utils.checkpoint.checkpoint(m, x, use_reentrant=False)
            loss = F.cross_entropy(h, y)
            loss.backward()
            o.step()
            return loss

        step = wrap(step)
        pf.manual_seed(3)
        return [step(x, y).item() for x, y in batches(8)], list(m.parameters()), step

    want, got = run(lambda f: f), run(lambda f: pf.compile(f, **CAPTURED))
    assert want[0] == got[0] and same(want[1], got[1]) and calls(got[2])[0] == 5


def test_autocast_and_grad_mode_are_looked_at():
    m = model(0.0).eval()
    c = pf.compile(m, **CAPTURED)
    x = pf.randn(3, 13)
    kind = x.device.type
    for _ in range(5):
        with pf.no_grad():
            assert c(x).dtype == pf.float32 and not c(x).requires_grad
        assert c(x).requires_grad
        with pf.no_grad(), pf.autocast(kind, dtype=pf.bfloat16):
            got = c(x)
            assert got.dtype == pf.bfloat16 and same([m(x).float()], [got.float()])
            m[0].weight.add_(0.01)  # casts of weights are made anew
    assert calls(c)[0] > 8


# ---- the backward pass of a module -------------------------------------------------------------


def test_forward_passes_that_wait_for_their_backward():
    """Two forward passes before a backward pass: the second runs as always."""
    pf.manual_seed(1)
    m = nn.Linear(4, 3)
    c = pf.compile(m, **CAPTURED)
    for _ in range(6):
        a, b = pf.randn(2, 4), pf.randn(2, 4)
        m.zero_grad()
        (m(a) * m(b)).sum().backward()
        want = m.weight.grad.clone()
        m.zero_grad()
        (c(a) * c(b)).sum().backward()
        assert same([want], [m.weight.grad])
    dropped = c(a)  # nobody asks for its gradient
    del dropped
    before = calls(c)[0]
    c(a).sum().backward()
    assert calls(c)[0] == before + 1


def test_backward_twice_or_behind_a_change_is_an_error():
    m = nn.Linear(4, 3)
    c = pf.compile(m, **CAPTURED)
    x = pf.randn(2, 4, requires_grad=True)
    for _ in range(3):
        c(x).sum().backward()
    loss = c(x).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(CaptureError, match="second time"):
        loss.backward()
    loss = c(x).sum()
    with pf.no_grad():
        m.weight.mul_(2)
    with pytest.raises(pf.AutogradError, match="changed in place"):
        loss.backward()
    del loss
    y = c(x)
    with pytest.raises(CaptureError, match="create_graph"):
        pf.autograd.grad(y.sum(), x, create_graph=True)


def test_unused_results_and_parameters():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.idle = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(2, 2)

        def forward(self, x):
            return self.a(x), self.b(x), (x > 0).sum()

    m = Two()
    c = pf.compile(m, **CAPTURED)
    for _ in range(6):
        x = pf.randn(2, 3)
        m.zero_grad()
        a, _, n = c(x)
        assert not n.requires_grad and n.item() == (x > 0).sum().item()
        a.sum().backward()
        assert m.idle.weight.grad is None
        want = x.sum(0).expand(3, 3)
        assert np.allclose(m.a.weight.grad.cpu().numpy(), want.cpu().numpy(), atol=1e-6)


# ---- what cannot be captured -------------------------------------------------------------------


def reads(x):
    return x * (2 if x.sum().item() > 0 else 3)


def test_values_that_the_host_reads():
    c = pf.compile(reads, **CAPTURED)
    for s in (1.0, -1.0, 1.0, -1.0, 1.0):
        x = pf.full((3,), s)
        assert same([reads(x)], [c(x)])
    assert calls(c)[0] == 0 and "the host reads a value" in c.report()
    full = pf.compile(reads, fullgraph=True, **CAPTURED)
    full(pf.ones(2))
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"cannot be captured: (item|copy): the host reads"):
            full(pf.ones(2))


def test_hooks_run_as_always():
    m = nn.Linear(3, 3)
    seen = []
    handle = m.register_forward_hook(lambda *a: seen.append(1))
    c = pf.compile(m, **CAPTURED)
    for _ in range(5):
        c(pf.randn(2, 3))
    assert len(seen) == 5 and "hooks" in c.report()
    handle.remove()
    n = nn.Linear(3, 3)
    c = pf.compile(n, **CAPTURED)
    for _ in range(4):
        c(pf.randn(2, 3)).sum().backward()
    before = calls(c)
    n.register_forward_hook(lambda *a: seen.append(2))  # behind the capture
    c(pf.randn(2, 3)), c(pf.randn(2, 3))
    assert seen[-2:] == [2, 2] and calls(c)[0] == before[0]
    p = nn.Linear(3, 3)
    p.weight.register_hook(lambda g: g * 2)
    c = pf.compile(p, **CAPTURED)
    for _ in range(5):
        p.zero_grad()
        c(pf.ones(1, 3)).sum().backward()
        assert p.weight.grad.tolist() == [[2.0] * 3] * 3
    assert "hooks of parameters" in c.report()


class Odd:
    def __init__(self, tensor):
        self.tensor = tensor


def test_classes_that_nobody_knows():
    c = pf.compile(lambda x: Odd(x + 1), **CAPTURED)
    for i in range(4):
        assert c(pf.full((1,), float(i))).tensor.item() == i + 1
    assert "class Odd" in c.report()
    d = pf.compile(lambda o: o.tensor + 1, **CAPTURED)
    for i in range(4):
        assert d(Odd(pf.full((1,), float(i)))).item() == i + 1
    assert "class Odd" in d.report()


def test_arguments_that_share_memory():
    def f(a, b):
        a.add_(1)
        return a + b

    c = pf.compile(f, **CAPTURED)
    for _ in range(5):
        base = pf.zeros(2, 16)
        assert c(base[0], base[0]).tolist() == [2.0] * 16  # two views of the same
    assert calls(c)[0] == 0
    for _ in range(5):
        x = pf.zeros(3)
        assert c(x, x).tolist() == [2.0] * 3  # one tensor twice
    assert calls(c)[0] == 2
    for _ in range(5):
        a, b = pf.zeros(3), pf.ones(3)
        assert c(a, b).tolist() == [2.0] * 3
    w = pf.zeros(4)
    d = pf.compile(lambda x: x + w, **CAPTURED)
    for _ in range(4):
        assert d(pf.ones(4)).tolist() == [1.0] * 4
        assert d(w).tolist() == [0.0] * 4  # an argument that the step reads besides


def test_memory_of_others():
    c = pf.compile(lambda x: x * 2, **CAPTURED)
    for i in range(5):
        array = np.full(4, float(i), dtype=np.float32)
        assert c(pf.from_numpy(array)).tolist() == [2.0 * i] * 4
    for offset in (1, 2, 3):
        x = pf.arange(10.0)[offset:]
        assert c(x).tolist() == (x * 2).tolist()


def test_a_number_that_changes_is_an_error():
    rate = [0.5]
    other = [pf.ones(3)]

    def f(x):
        return x * rate[0] + other[0]

    c = pf.compile(f, options={"verify_every": 4}, **CAPTURED)
    for _ in range(4):
        assert c(pf.ones(3)).tolist() == [1.5] * 3
    rate[0] = 0.25
    with pytest.raises(CaptureError, match=r"a number of '\w+' is 0\.25, and was 0\.5"):
        for _ in range(4):
            c(pf.ones(3))
    for _ in range(4):
        assert c(pf.ones(3)).tolist() == [1.25] * 3
    other[0] = pf.zeros(3)  # another tensor: seen at the next check, and captured anew
    for _ in range(8):
        last = c(pf.ones(3))
    assert last.tolist() == [0.25] * 3
    # At once where it changes at every call.
    count = [0]

    def counting(x):
        count[0] += 1
        return x * count[0]

    c = pf.compile(counting, **CAPTURED)
    c(pf.ones(1)), c(pf.ones(1))
    with pytest.raises(CaptureError, match="has changed"):
        c(pf.ones(1))


def test_errors_of_the_program_and_of_kernels():
    def f(x, i):
        if x.shape[0] == 3:
            raise KeyError("mine")
        return x[i]

    c = pf.compile(f, **CAPTURED)
    for _ in range(3):
        with pytest.raises(KeyError):
            c(pf.ones(3), pf.tensor([0]))
    x = pf.arange(4.0)
    for _ in range(5):
        assert c(x, pf.tensor([1, 3])).tolist() == [1.0, 3.0]
    with pytest.raises(pf.IndexError):
        c(x, pf.tensor([1, 4])).tolist()
        pf.synchronize()
    assert c(x, pf.tensor([2, 0])).tolist() == [2.0, 0.0]
    # One capture at a time, and none left behind.
    assert not pf.compiler.is_compiling()


def test_too_many_kinds_of_arguments():
    c = pf.compile(lambda x: x + 1, **CAPTURED)
    for _ in range(3):
        for n in range(1, 24):
            assert c(pf.zeros(n)).tolist() == [1.0] * n
    assert "more than 16 kinds" in c.report()
    full = pf.compile(lambda x: x + 1, fullgraph=True, **CAPTURED)
    with pytest.raises(CaptureError, match="more than 16"):
        for n in range(1, 24):
            full(pf.zeros(n))


def test_out_of_memory_and_failing_launches():
    """A call that fails leaves a capture that serves the next."""
    if pf.zeros(1).device.type != "paranoid":
        pytest.skip("faults are made on the test backend")
    c = pf.compile(lambda x: (x @ x).softmax(-1), **CAPTURED)
    x = pf.randn(40, 40)
    want = c(x).tolist()
    for _ in range(3):
        c(x)
    for call, kind, error in (
        ("kernel_launch", "launch", pf.BackendError),
        ("program_launch", "launch", pf.BackendError),
        ("allocate", "oom", pf.OutOfMemoryError),
    ):
        pf._C._inject_fault("paranoid:0", call, 1, kind)
        try:
            for _ in range(3):
                c(x)
            pf.synchronize()
        except error:
            pass
        finally:
            pf._C._inject_fault("paranoid:0", call, 0, kind)
        assert c(x).tolist() == want


# ---- threads, processes, memory ----------------------------------------------------------------


def test_two_threads():
    weight = pf.randn(8, 8)
    c = pf.compile(lambda x: (x @ weight).relu(), **CAPTURED)
    d = pf.compile(lambda x: (x @ weight).tanh(), **CAPTURED)
    failures = []

    def work(f, g, seed):
        x = pf.full((3, 8), float(seed))
        for _ in range(20):
            if not same([g(x @ weight)], [f(x)]):
                failures.append(seed)

    threads = [
        threading.Thread(target=work, args=(f, g, i))
        for i, (f, g) in enumerate([(c, pf.relu), (d, pf.tanh), (c, pf.relu), (d, pf.tanh)])
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.cpu_only  # a fork leaves other devices behind
def test_after_a_fork():
    c = pf.compile(lambda x: (x * 2).sum(), **CAPTURED)
    for _ in range(4):
        c(pf.ones(4))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if c(pf.full((4,), 2.0)).item() == 16 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_memory_goes_with_the_capture():
    def used():
        gc.collect()
        pf.synchronize()
        return pf.memory.memory_allocated(pf.zeros(1).device)

    x = pf.randn(200, 300)
    c = pf.compile(lambda x: (x + 1).relu() @ x.t(), **CAPTURED)
    before = used()
    for _ in range(4):
        c(x)
    y = c(x)
    del c
    assert used() - before <= y.numel() * 4 + 4096
    assert same([y], [(x + 1).relu() @ x.t()])


def test_streams_that_take_turns():
    device = pf.zeros(1).device
    if device.type == "cpu":
        pytest.skip("the CPU has one stream")
    w = pf.randn(64, 64)
    c = pf.compile(lambda x: (x @ w).relu() @ w, **CAPTURED)
    x = pf.randn(8, 64)
    for _ in range(4):
        want = c(x)
    streams = [pf.cuda.Stream(device) for _ in range(2)]
    pf.synchronize()
    results = []
    for i in range(12):
        with pf.cuda.stream(streams[i % 2]):
            results.append(c(x))
    pf.synchronize()
    assert all(same([want], [r]) for r in results)


def test_reset_and_stance():
    c = pf.compile(lambda x: x + 1, **CAPTURED)
    for _ in range(4):
        c(pf.ones(2))
    before = calls(c)
    with pf.compiler.set_stance("force_eager"):
        assert c(pf.ones(2)).tolist() == [2.0, 2.0]
    assert calls(c) == before
    pf.compiler.reset()
    assert c(pf.ones(2)).tolist() == [2.0, 2.0] and calls(c) == (before[0], before[1] + 1)


# ---- graphs of torch.cuda ------------------------------------------------------------------------


def test_cuda_graph():
    m = model()
    x = pf.zeros(4, 13)
    pf.manual_seed(2)
    for _ in range(2):
        m(x)
    g = pf.cuda.CUDAGraph()
    with pf.cuda.graph(g):
        assert pf.cuda.is_current_stream_capturing()
        y = m(x).detach()
    assert not pf.cuda.is_current_stream_capturing()
    for seed in range(4):
        x.copy_(pf.randn(4, 13))
        pf.manual_seed(seed)
        g.replay()
        pf.manual_seed(seed)
        assert same([m(x)], [y])
    g.reset()
    with pytest.raises(pf.ValueError, match="not captured"):
        g.replay()


def test_cuda_graph_of_a_training_step():
    def run(captured):
        m = model()
        o = pf.optim.AdamW(m.parameters(), lr=0.01)
        x, y = pf.zeros(6, 13), pf.zeros(6, dtype=pf.int64)

        def step():
            o.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            o.step()
            return loss.detach()

        pf.manual_seed(3)
        data = batches(7)
        losses, loss, graph = [], None, pf.cuda.CUDAGraph()
        for i, (a, b) in enumerate(data):
            x.copy_(a), y.copy_(b)
            if not captured or i < 2:
                loss = step()
            elif i == 2:
                with pf.cuda.graph(graph):
                    loss = step()
            else:
                graph.replay()
            losses.append(loss.item())
        return losses, list(m.parameters()), [p.grad for p in m.parameters()]

    want, got = run(False), run(True)
    assert want[0] == got[0] and same(want[1], got[1]) and same(want[2], got[2])


def test_cuda_graph_of_what_cannot_be_captured():
    g = pf.cuda.CUDAGraph()
    with pytest.raises(pf.NotSupportedError, match="the host reads a value"):
        with pf.cuda.graph(g):
            pf.ones(2).sum().item()
    with pytest.raises(KeyError):
        with pf.cuda.graph(g):
            raise KeyError
    with pytest.raises(pf.ValueError, match="without capture_begin"):
        g.capture_end()
    g.capture_begin()
    with pytest.raises(pf.ValueError, match="another capture"):
        pf.cuda.CUDAGraph().capture_begin()
    y = pf.ones(2) * 3
    g.capture_end()
    y.zero_()
    g.replay()
    assert y.tolist() == [3.0, 3.0]


def test_graphed_callables():
    m, f = model(0.0), lambda x: x * 2
    m2, f2 = pf.cuda.make_graphed_callables((m, f), ((pf.zeros(2, 13),), (pf.zeros(2),)))
    assert m2 is m
    for _ in range(5):
        x = pf.randn(2, 13)
        m.zero_grad()
        m(x).sum().backward()
        assert m[0].weight.grad is not None and same([f2(x)], [x * 2])
    assert m.__dict__["forward"].replays == 2


# ---- the interface -------------------------------------------------------------------------------


def test_default_mode_is_python_at_every_call():
    count = []

    @pf.compile
    def f(x):
        """Doubles."""
        count.append(1)
        return x * len(count)

    assert [f(pf.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert f.__name__ == "f" and f.__doc__ == "Doubles." and "mode='default'" in f.report()


def test_compiled_module_is_the_module():
    m = model()
    c = pf.compile(m, **CAPTURED)
    assert isinstance(c, nn.Module) and c._orig_mod is m
    assert list(c.state_dict()) == ["_orig_mod." + k for k in m.state_dict()]
    assert c[0] is m[0] if hasattr(type(c), "__getitem__") else c._orig_mod[0] is m[0]
    c.eval()
    assert not m.training and not c.training
    m.extra = 3
    assert c.extra == 3
    c.extra = 4
    assert m.extra == 4
    assert [p is q for p, q in zip(c.parameters(), m.parameters())] == [True] * 6
    n = model(0.0).eval()
    n.compile(**CAPTURED)
    x = pf.randn(2, 13)
    with pf.no_grad():
        want = [n(x) for _ in range(6)]
    assert same(want[:1] * 5, want[1:])
    assert n.__dict__["forward"].replays == 3


def test_wrong_arguments():
    with pytest.raises(
        pf.ValueError, match="mode='fast'; expected one of default, reduce-overhead"
    ):
        pf.compile(lambda x: x, mode="fast")
    with pytest.raises(pf.ValueError, match="backend='tvm'"):
        pf.compile(lambda x: x, backend="tvm")
    with pytest.raises(pf.NotSupportedError, match="function as backend"):
        pf.compile(lambda x: x, backend=lambda g, x: g)
    with pytest.raises(TypeError, match="expected a Module or a function"):
        pf.compile(3)

    def f(x):
        return x

    assert pf.compile(f, disable=True) is f
    assert pf.compile(mode="reduce-overhead")(f)(pf.ones(1)).item() == 1


def test_backend_of_the_environment(monkeypatch):
    monkeypatch.setenv("PYFLAME_COMPILE_BACKEND", "cudagraphs")
    c = pf.compile(lambda x: x + 1)
    for _ in range(4):
        c(pf.ones(1))
    assert calls(c)[0] == 1 and pf.compiler.get_default_backend() == "cudagraphs"
    monkeypatch.setenv("PYFLAME_COMPILE_BACKEND", "eager")
    assert "mode='default'" in pf.compile(lambda x: x + 1, **CAPTURED).report()


def test_disabled_functions_break_a_capture():
    @pf.compiler.disable
    def inner(x):
        return x + 1

    c = pf.compile(lambda x: inner(x) * 2, **CAPTURED)
    for _ in range(4):
        assert c(pf.ones(1)).item() == 4
    assert "is not to be compiled" in c.report()


def test_compiled_calls_within_compiled_calls():
    inner = pf.compile(lambda x: x + 1, **CAPTURED)
    outer = pf.compile(lambda x: inner(x) * 2, **CAPTURED)
    for i in range(5):
        assert outer(pf.full((1,), float(i))).item() == 2 * (i + 1)
    assert calls(outer)[0] == 2
