"""pf.compile: captured steps give the bits of uncaptured ones, and follow what may change."""

import copy

import numpy as np
import pytest
from captured_steps import CAPTURED, batches, calls, model, same

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

# ---- whole steps ---------------------------------------------------------------------------


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


# ---- modules -------------------------------------------------------------------------------


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


def test_evaluation_between_steps():
    """A function for each of train() and eval() keeps its captures; one for both is right, too."""
    for two in (True, False):
        m = model()
        train = pf.compile(m, **CAPTURED)
        evaluate = pf.compile(m, **CAPTURED) if two else train
        twin = copy.deepcopy(m)
        for i, (x, _) in enumerate(batches(15)):
            random = pf.get_rng_state()
            train.train()
            train(x).sum().backward()
            pf.set_rng_state(random)
            twin.train()
            twin(x).sum().backward()
            assert same([p.grad for p in twin.parameters()], [p.grad for p in m.parameters()])
            m.zero_grad(), twin.zero_grad()
            if i % 3 == 2:
                m.eval(), twin.eval()
                with pf.no_grad():
                    assert same([twin(x)], [evaluate(x)])
        if two:
            assert (calls(train)[0], calls(evaluate)[0]) == (12, 2)


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


# ---- the backward pass of a module ---------------------------------------------------------


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


def test_backward_passes_that_are_errors_without_a_capture():
    m = nn.Linear(4, 3)
    c = pf.compile(m, **CAPTURED)
    x = pf.randn(2, 4, requires_grad=True)
    for _ in range(7):
        loss = c(x).square().sum()
        loss.backward()
        with pytest.raises(pf.AutogradError, match="second time|freed"):
            loss.backward()
    for _ in range(3):
        loss = c(x).sum()
        with pf.no_grad():
            m.weight.mul_(2)
        with pytest.raises(pf.AutogradError, match="changed in place"):
            loss.backward()
    assert calls(c)[0] >= 5, c.report()


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
