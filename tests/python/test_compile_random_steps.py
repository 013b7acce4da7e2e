"""pf.compile with numerics='exact': random models, trained in random ways with random changes between calls,
have the bits of Python's run: losses, gradients, parameters, statistics, states of optimizers."""

import contextlib

import numpy as np
import pytest
from captured_steps import CAPTURED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

N = 8


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear, self.scale = nn.LayerNorm(N), nn.Linear(N, N), 0.5

    def forward(self, x):
        return x + F.gelu(self.linear(self.norm(x))) * self.scale


class Mixed(nn.Module):
    """Convolution, statistics and attention over the rows as a picture."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(2, 2, 3, padding=1), nn.BatchNorm1d(2)

    def forward(self, x):
        h = F.relu(self.norm(self.conv(x.reshape(-1, 2, N // 2)))).reshape(-1, N)
        return F.scaled_dot_product_attention(h, x, h)


class Written(nn.Module):
    """In-place writes, of views and of a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", pf.zeros(N))

    def forward(self, x):
        h = x * 1.5
        h[:, 1::2] += h[:, ::2]
        h.t()[0].mul_(0.5)
        if self.training:
            self.mean.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        return h - self.mean


class Noisy(nn.Module):
    def forward(self, x):
        return x + pf.randn_like(x) * 0.1 if self.training else x


class Again(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(N, N), nn.Tanh(), nn.Dropout(0.2))

    def forward(self, x):
        return pf.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, N)

    def forward(self, x):
        return (x @ self.table.weight.t()).softmax(-1) @ self.table.weight + self.table(
            x.detach()[:, :2].sign().long() + 1
        ).sum(1)


LAYERS = {
    "linear": lambda: nn.Linear(N, N), "relu": nn.ReLU, "norm": lambda: nn.LayerNorm(N),
    "dropout": lambda: nn.Dropout(0.3), "statistics": lambda: nn.BatchNorm1d(N), "residual": Residual,
    "mixed": Mixed, "written": Written, "noisy": Noisy, "again": Again, "tied": Tied,
    "in place": lambda: nn.SiLU(inplace=True), "rms": lambda: nn.RMSNorm(N),
}  # fmt: skip
OPTIMIZERS = {
    "sgd": lambda p: pf.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "plain": lambda p: pf.optim.SGD(p, lr=0.05),
    "adam": lambda p: pf.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: pf.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: pf.optim.RMSprop(p, lr=0.01),
    "lion": lambda p: pf.optim.Lion(p, lr=0.01),
    "adagrad": lambda p: pf.optim.Adagrad(p, lr=0.01),
}
SCHEDULES = {
    "none": None,
    "cosine": lambda o: pf.optim.lr_scheduler.CosineAnnealingLR(o, 5),
    "steps": lambda o: pf.optim.lr_scheduler.StepLR(o, 2, 0.5),
    "cycle": lambda o: pf.optim.lr_scheduler.OneCycleLR(
        o, 0.1, total_steps=40, cycle_momentum="betas" in o.defaults
    ),
    "lambda": lambda o: pf.optim.lr_scheduler.LambdaLR(o, lambda n: 1 / (1 + n)),
}
CLIPS = {
    "none": lambda p: None,
    "norm": lambda p: nn.utils.clip_grad_norm_(p, 0.5),
    "highest": lambda p: nn.utils.clip_grad_norm_(p, 0.1, norm_type=float("inf")),
    "value": lambda p: nn.utils.clip_grad_value_(p, 0.02),
}
CHANGES = [
    "nothing", "nothing", "nothing", "rows", "rows", "eval", "train", "rate", "freeze", "thaw", "weights",
    "loaded", "seed", "no gradients", "state", "parameter", "layer's training", "number",
    "array", "method", "layer", "hook", "decay",
]  # fmt: skip


class Trainer:
    def __init__(self, drawn, wrap):
        pf.manual_seed(3)
        names, self.how = drawn["layers"], drawn
        layers = [LAYERS[n]() for n in names]
        self.model = nn.Sequential(nn.Linear(N, N), *layers, nn.Linear(N, 4))
        self.head = self.model[-1]
        self.optimizer = OPTIMIZERS[drawn["optimizer"]](self.model.parameters())
        schedule = SCHEDULES[drawn["schedule"]]
        self.schedule = schedule(self.optimizer) if schedule else None
        self.scale, self.rows = 1.0, 5
        self.array, self.handle = np.ones(3, np.float32), None
        if drawn["whole"] == "step":
            self.run = wrap(self.step)
        else:
            self.run = self.step
            self.called = wrap(self.model if drawn["whole"] == "model" else self.loss)
        pf.manual_seed(4)

    def loss(self, x, y):
        kind = x.device.type
        region = contextlib.nullcontext()
        if self.how["autocast"]:
            region = pf.autocast(kind, dtype=pf.bfloat16)
        with region:
            if self.how["whole"] == "model":
                out = self.called(x)
            else:
                out = self.model(x)
            return F.cross_entropy(out.float() * self.scale * float(self.array[1]), y)

    def step(self, x, y):
        loss_of = self.called if self.how["whole"] == "loss" else self.loss
        if self.how["cleared"] == "first":
            self.optimizer.zero_grad()
        elif self.how["cleared"] == "zeros":
            self.optimizer.zero_grad(set_to_none=False)
        loss = loss_of(x, y)
        loss.backward()
        for _ in range(self.how["more"]):  # adds to the gradients
            (loss_of(x.flip(0), y.flip(0)) * 0.5).backward()
        CLIPS[self.how["clip"]](list(self.model.parameters()))
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()
        if self.how["cleared"] == "last":
            self.optimizer.zero_grad()
        return loss.detach()

    def change(self, what, number):
        first = self.model[0]
        if what == "rows":
            self.rows = 2 + number % 3
        elif what == "eval":
            self.model.eval()
        elif what == "train":
            self.model.train()
        elif what == "layer's training":
            layer = self.model[number % len(self.model)]
            layer.train(not layer.training)
        elif what == "rate":
            for group in self.optimizer.param_groups:
                group["lr"] = 0.001 * (1 + number)
        elif what in ("freeze", "thaw"):
            first.requires_grad_(what == "thaw")
        elif what == "weights":
            with pf.no_grad():
                for p in self.model.parameters():
                    p.mul_(0.9)
        elif what == "loaded":
            self.model.load_state_dict({k: v * 0.5 for k, v in self.model.state_dict().items()})
        elif what == "seed":
            pf.manual_seed(number)
        elif what == "no gradients":
            for p in self.model.parameters():
                p.grad = None if number % 2 else pf.full_like(p, 0.01)
        elif what == "state":
            self.optimizer.load_state_dict(self.optimizer.state_dict())
        elif what == "parameter":
            self.head.bias.data = self.head.bias.detach() + 0.1
        elif what == "number":
            self.scale = 0.5 + number % 2
        elif what == "array":
            self.array[number % 3] = 0.5 + number
        elif what == "method":
            self.loss = lambda x, y: Trainer.loss(self, x, y) * (1 + number)
        elif what == "layer":
            self.model[1] = nn.Tanh() if number % 2 else nn.Linear(N, N)
        elif what == "hook" and self.handle is None:
            self.handle = first.register_forward_hook(lambda m, args, out: out * 1.5)
        elif what == "hook":
            self.handle = self.handle.remove()
        elif what == "decay":
            for group in self.optimizer.param_groups:
                group["weight_decay"] = 0.01 * number

    def all(self):
        found = [*self.model.parameters(), *self.model.buffers()]
        found += [p.grad for p in self.model.parameters()]
        for p in self.model.parameters():
            state = self.optimizer.state.get(p, {})
            found += [state[k] for k in sorted(state)]
        return [bits(t) for t in found]


def bits(t):
    if not isinstance(t, pf.Tensor):
        return t
    t = t.detach()
    return t.cpu().numpy().tobytes()


def train(drawn, wrap):
    t = Trainer(drawn, wrap)
    out = []
    for what, number in drawn["changes"]:
        t.change(what, number)
        x, y = pf.randn(t.rows, N), pf.randint(0, 4, (t.rows,))
        try:
            loss = t.run(x, y)
        except pf.AutogradError as e:  # a program that writes to what its gradient needs
            out.append((type(e), str(e).split(" that ")[0], []))
            break
        out.append((bits(loss), bits(x), t.all()))
    return out, t


def check(drawn):
    reports = []

    def wrap(f):
        compiled = pf.compile(f, options={"verify_every": drawn["every"]}, **CAPTURED)
        reports.append(compiled)
        return compiled

    want, _ = train(drawn, lambda f: f)
    got, _ = train(drawn, wrap)
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        assert a[:2] == b[:2], (i, "loss", reports[0].report())
        for n, (x, y) in enumerate(zip(a[2], b[2], strict=True)):
            assert x == y, (i, n, reports[0].report())
    return reports[0]


programs = st.fixed_dictionaries(
    {
        "layers": st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4),
        "optimizer": st.sampled_from(sorted(OPTIMIZERS)),
        "schedule": st.sampled_from(sorted(SCHEDULES)),
        "clip": st.sampled_from(sorted(CLIPS)),
        "cleared": st.sampled_from(["first", "zeros", "last", "never"]),
        "more": st.integers(0, 2),
        "autocast": st.booleans(),
        "whole": st.sampled_from(["step", "step", "model", "loss"]),
        "every": st.sampled_from([1, 3, 1000]),
        "changes": st.lists(
            st.tuples(st.sampled_from(CHANGES), st.integers(0, 5)), min_size=6, max_size=14
        ),
    }
)


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
@settings(
    max_examples=settings.default.max_examples // 4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs)
def test_random_steps(drawn):
    check(drawn)


QUIET = {
    "layers": ["linear", "relu"], "optimizer": "adamw", "schedule": "none", "clip": "none", "cleared": "first",
    "more": 0, "autocast": False, "whole": "step", "every": 1000, "changes": [("nothing", 0)] * 7,
}  # fmt: skip
EACH = [
    *[("layers", [n, "linear", n]) for n in LAYERS], *[("optimizer", n) for n in OPTIMIZERS],
    *[("schedule", n) for n in SCHEDULES], *[("clip", n) for n in CLIPS],
    *[("cleared", n) for n in ("zeros", "last", "never")], ("more", 2), ("autocast", True),
    ("whole", "model"), ("whole", "loss"), ("every", 1),
]  # fmt: skip


@pytest.mark.parametrize("what, value", EACH)
def test_each_by_itself(what, value):
    """And it is replayed."""
    compiled = check({**QUIET, what: value})
    assert compiled._step.replays >= (2 if what == "every" else 3), compiled.report()


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
@pytest.mark.parametrize("what", sorted(set(CHANGES)))
def test_each_change(what):
    """Behind replays, and once more behind replays of what it made."""
    changes = [("nothing", 0)] * 5 + [(what, 1)] + [("nothing", 0)] * 5 + [(what, 4)]
    for whole in ("step", "model", "loss"):
        check({**QUIET, "layers": ["dropout", "statistics", "written"], "whole": whole,
               "changes": changes + [("nothing", 0)] * 3})  # fmt: skip
