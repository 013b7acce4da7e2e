"""Threads that each do what a program does, drawn at random, beside each other: everybody's results are those
of the same work done alone. A switch of threads after every few steps of Python's makes rare orders common.

`PYFLAME_THREAD_PROGRAMS=2000` draws so many, from PYFLAME_THREAD_PROGRAMS_FIRST on.
"""

import copy
import gc
import io
import os
import random
import threading

import pytest
from captured_steps import CAPTURED, model, same
from conftest import DEVICE
from hangs import HANG
from test_compile_threads import in_a_child, together

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import _hooks, _typed, fx, nn
from pyflame.nn.utils import parametrizations, parametrize
from pyflame.utils.checkpoint import checkpoint

COUNT = int(os.environ.get("PYFLAME_THREAD_PROGRAMS", "24"))
FIRST = int(os.environ.get("PYFLAME_THREAD_PROGRAMS_FIRST", "0"))
THREADS, STEPS = 4, 7
pytestmark = pytest.mark.usefixtures("hasty_switches")
OPTIMIZERS = [
    lambda p: pf.optim.AdamW(p, lr=0.01),
    lambda p: pf.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: pf.optim.RMSprop(p, lr=0.01),
    lambda p: pf.optim.Adam(p, lr=0.01, foreach=False),
]


class Shared:
    """What all threads of a program use, and change nothing of."""

    def __init__(self):
        self.model = model(0.0, seed=7)
        self.compiled = pf.compile(self.model, **CAPTURED)
        self.step = pf.compile(train_once, **CAPTURED)
        self.normed = parametrizations.weight_norm(nn.Linear(13, 5))
        self.x = pf.randn(6, 13)
        self.trained = []  # models of threads
        self.handles = []  # of hooks, which whoever comes removes


def train_once(m, o, x, y):
    o.zero_grad()
    loss = F.cross_entropy(m(x), y)
    loss.backward()
    o.step()
    return loss


class Work:
    """One thread's. The tensors that it needs are made by the main thread."""

    def __init__(self, draw, shared):
        self.shared = shared
        self.m = model(0.0, seed=draw.randrange(1000))
        self.o = draw.choice(OPTIMIZERS)(self.m.parameters())
        rows = (
            [6] * STEPS if draw.random() < 0.6 else [draw.choice([1, 3, 6]) for _ in range(STEPS)]
        )
        self.data = [(pf.randn(n, 13), pf.randint(0, 5, (n,))) for n in rows]
        self.found = []

    def keep(self, *tensors):
        self.found += [t.detach().clone() for t in tensors]

    def end(self):
        self.keep(*self.m.parameters())


def eager(w):
    schedule = pf.optim.lr_scheduler.StepLR(w.o, 2)
    for x, y in w.data:
        w.keep(train_once(w.m, w.o, x, y))
        schedule.step()


def captured(w):
    step = pf.compile(lambda x, y: train_once(w.m, w.o, x, y), **CAPTURED)
    for i, (x, y) in enumerate(w.data):
        w.keep(step(x, y))
        if i == 4:
            pf.compiler.report(step)


def captured_by_all(w):
    for x, y in w.data:
        w.keep(w.shared.step(w.m, w.o, x, y))


def compiled_module(w):
    w.m.compile(**CAPTURED)
    eager(w)


def dynamic(w):
    step = pf.compile(lambda x: w.m(x).tanh(), dynamic=True, recompile_limit=2, **CAPTURED)
    for x, y in w.data:
        w.o.zero_grad()
        loss = F.cross_entropy(step(x), y)
        loss.backward()
        w.o.step()
        w.keep(loss)


def scaled(w):
    scaler = pf.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
    for x, y in w.data:
        w.o.zero_grad()
        with pf.autocast("cpu", dtype=pf.bfloat16):
            loss = F.cross_entropy(w.m(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(w.o)
        nn.utils.clip_grad_norm_(w.m.parameters(), 1.0)
        scaler.step(w.o)
        scaler.update()
        w.keep(loss, pf.tensor(scaler.get_scale()))


def checkpointed(w):
    for i, (x, y) in enumerate(w.data):
        w.o.zero_grad()
        x = x.clone().requires_grad_()
        out = checkpoint(w.m[:3], x, use_reentrant=bool(i % 2))
        loss = F.cross_entropy(w.m[3:](out), y)
        loss.backward()
        w.o.step()
        w.keep(loss, x.grad)


def runs_twice(x, **how):
    """A checkpoint that draws numbers, as others do meanwhile: again it draws those that it has drawn."""
    x, runs = x.clone().requires_grad_(), []

    def part(x):
        x = F.dropout(x, 0.4)
        pf.rand(3)
        return x * checkpoint(lambda x: F.dropout(x.exp(), 0.3), x, use_reentrant=False)

    def whole(x):
        runs.append((part(x) + part(F.dropout(x))).detach())
        return runs[-1] * x.sin()

    checkpoint(whole, x, **how).sum().backward()
    assert len(runs) == 2 and same(runs[:1], runs[1:])
    assert same([x.grad], [runs[0] * x.cos()])


def dropped_and_checkpointed(w):
    for i, (x, y) in enumerate(w.data):
        runs_twice(x, use_reentrant=bool(i % 2), early_stop=False)
        w.keep(train_once(w.m, w.o, x, y))


def loader(w):
    n = len(w.data)
    data = pf.utils.data.TensorDataset(
        pf.cat([x[:1] for x, _ in w.data]), pf.cat([y[:1] for _, y in w.data])
    )
    g = pf.Generator().manual_seed(3)
    for _ in range(2):
        for x, y in pf.utils.data.DataLoader(data, batch_size=n // 2, shuffle=True, generator=g):
            w.keep(train_once(w.m, w.o, x, y))


def inference(w):
    for x, _ in w.data:
        with pf.no_grad():
            w.keep(w.shared.model(x), w.shared.compiled(x))
        with pf.inference_mode():
            w.keep(w.shared.model(w.shared.x))
        with pf.no_grad(), pf.autocast("cpu", dtype=pf.bfloat16):
            w.keep(w.shared.model(w.shared.x).float(), w.shared.compiled(w.shared.x).float())


def shared_gradients(w):
    parameters = list(w.shared.model.parameters())
    for x, y in w.data:
        for m in w.shared.model, w.shared.compiled:
            w.keep(*pf.autograd.grad(F.cross_entropy(m(x), y), parameters))


def copies(w):
    for x, y in w.data[:4]:
        twin = copy.deepcopy(w.shared.model)
        twin.load_state_dict(w.m.state_dict())
        file = io.BytesIO()
        pf.save({"model": twin.state_dict(), "optimizer": w.o.state_dict()}, file)
        file.seek(0)
        read = pf.load(file)
        twin.load_state_dict(read["model"])
        w.o.load_state_dict(read["optimizer"])
        w.keep(train_once(w.m, w.o, x, y), twin(x))
        pf.compiler.report(w.shared.compiled)


def forgets(w):
    for x, _ in w.data:
        w.keep(w.shared.compiled(x))
        w.shared.compiled._step.forget()
        w.shared.step._step.forget()


def resets(w):
    step = pf.compile(lambda x: w.m(x).square(), **CAPTURED)
    for x, _ in w.data:
        w.keep(step(x))
    pf.compiler.reset()
    assert not step._step.variants
    for x, _ in w.data:
        w.keep(step(x))


def parametrized(w):
    layer = parametrizations.weight_norm(nn.Linear(5, 4)).requires_grad_(True)
    layer.load_state_dict({k: pf.ones_like(v) for k, v in layer.state_dict().items()})
    o = pf.optim.SGD(layer.parameters(), lr=0.1)
    for i, (x, _) in enumerate(w.data):
        o.zero_grad()
        if i % 2:
            with parametrize.cached():
                out = layer(w.m(x)) + layer(w.m(x))
        else:
            out = layer(w.m(x)) * 2
        out.square().sum().backward()
        o.step()
        w.keep(out, *layer.parameters())
        with pf.no_grad(), parametrize.cached():
            w.keep(w.shared.normed(x), w.shared.normed(x))
        w.keep(w.shared.normed(x))


def hooked(w):
    """A hook of every module, which counts calls of this thread's."""
    count = []

    def hook(module, args, result):
        if module is w.m:
            count.append(len(count))

    for x, _ in w.data:
        handle = nn.modules.module.register_module_forward_hook(hook)
        w.keep(w.m(x))
        handle.remove()
        w.keep(w.m(x))
    assert len(count) == len(w.data), count


def hooked_by_all(w):
    """Hooks of the model that all share, before and behind each other's; they change nothing."""
    count, first = [], w.shared.model[0]

    def hook(module, args, result=None):
        if args[0] is x:
            count.append(1)

    for i, (x, _) in enumerate(w.data):
        handles = [
            first.register_forward_hook(hook, prepend=bool(i % 2)),
            first.register_forward_pre_hook(hook, prepend=bool(i % 3)),
            first.register_full_backward_hook(lambda module, grad_in, grad_out: None),
        ]
        w.keep(w.shared.model(x), *pf.autograd.grad(w.shared.model(x).sum(), [first.weight]))
        for h in handles:
            h.remove()
        w.keep(w.shared.compiled(x))
    assert len(count) == 4 * len(w.data), count


def hooks_of_others(w):
    """Threads remove each other's hooks, also while the model that has them runs."""
    handles, first = w.shared.handles, w.shared.model[0]
    for x, _ in w.data:
        handles += [
            first.register_forward_hook(lambda *given: None),
            first.register_full_backward_hook(lambda *given: None),
            first.weight.register_hook(lambda g: g),
            first.weight.register_post_accumulate_grad_hook(lambda p: None),
            nn.modules.module.register_module_forward_pre_hook(lambda *given: None),
        ]
        w.keep(w.shared.model(x), *pf.autograd.grad(w.shared.model(x).sum(), [first.weight]))
        for _ in range(5):
            handles.pop(len(handles) // 2).remove()


def fails(w):
    """Backward passes that a hook of the program ends, beside others that go on."""

    def refuse(g):
        raise LookupError("refused")

    for i, (x, y) in enumerate(w.data):
        hidden = w.m[:3](x)
        handle = hidden.register_hook(refuse) if i % 2 else w.m[0].weight.register_hook(refuse)
        with pytest.raises(LookupError, match="refused"):
            w.m[3:](hidden).sum().backward()
        handle.remove()
        w.keep(train_once(w.m, w.o, x, y))


def in_a_thread(work):
    def run():
        pf.set_device(DEVICE)
        found.append(work())

    found = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def outlived(w):
    """Graphs of threads that have ended, whose backward pass is run here, and by another of them."""
    for i, (x, y) in enumerate(w.data):
        w.o.zero_grad()
        loss = in_a_thread(lambda x=x, y=y: F.cross_entropy(w.m(x), y))
        if i % 2:
            in_a_thread(loss.backward)
        else:
            loss.backward()
        w.o.step()
        w.keep(loss)


def saved_by_others(w):
    """The state of a model that its own thread trains is written by others: some state of it, whole."""
    w.shared.trained.append(w.m)
    for x, y in w.data:
        w.keep(train_once(w.m, w.o, x, y))
        for m in list(w.shared.trained):
            file = io.BytesIO()
            pf.save(m.state_dict(), file)
            file.seek(0)
            read = pf.load(file)
            assert all(read[k].shape == v.shape for k, v in m.state_dict().items())
            assert all(pf.isfinite(v).all() for v in read.values())


def workers(w):
    """Processes that a thread forks off while the others do what they do."""
    data = pf.utils.data.TensorDataset(*(pf.cat(parts).cpu() for parts in zip(*w.data)))
    for x, y in pf.utils.data.DataLoader(data, batch_size=9, num_workers=2):
        w.keep(train_once(w.m, w.o, x.to(DEVICE), y.to(DEVICE)))


def switched(w):
    """Switches that belong to a thread are what it has made them."""

    def state():
        return (
            pf.is_grad_enabled(), pf.is_inference_mode_enabled(), pf.is_autocast_enabled("cpu"),
            pf.get_autocast_dtype("cpu"), pf.is_autocast_cache_enabled(), str(pf.get_default_device()),
        )  # fmt: skip

    before = state()
    for i, (x, y) in enumerate(w.data):
        with (
            pf.set_grad_enabled(bool(i % 2)),
            pf.autocast("cpu", enabled=bool(i % 3), dtype=pf.float16, cache_enabled=bool(i % 2)),
            pf.device("meta"),
        ):
            expected = bool(i % 2), False, bool(i % 3), pf.float16, bool(i % 2), "meta"
            for _ in range(5):
                assert w.m(x).requires_grad == expected[0] and state() == expected
            assert pf.ones(1).device.type == "meta"
        assert state() == before
        w.keep(train_once(w.m, w.o, x, y))


def other_counts(w):
    """The process has other numbers of threads meanwhile, which changes no result."""
    before = pf.get_num_threads()
    for i, (x, y) in enumerate(w.data):
        pf.set_num_threads(1 + i % 3)
        w.keep(train_once(w.m, w.o, x, y), (x.repeat(2000, 3) @ x.repeat(5, 3).T).sum(1))
    pf.set_num_threads(before)


def traced(w):
    for x, _ in w.data[:2]:
        traced = fx.symbolic_trace(w.m)
        w.keep(traced(x), w.m(x))


def functional(w):
    def loss(params, x, y):
        return F.cross_entropy(pf.func.functional_call(w.m, params, (x,)), y)

    params = dict(w.m.named_parameters())
    for x, y in w.data[:4]:
        w.keep(*pf.func.grad(loss)(params, x, y).values())
        w.keep(pf.func.vmap(lambda row: w.shared.model(row))(x))
        w.keep(pf.func.jvp(w.shared.model, (x,), (pf.ones_like(x),))[1])


def profiled(w):
    with pf.profiler.profile() as p:
        for x, y in w.data:
            with pf.profiler.record_function("step"):
                w.keep(train_once(w.m, w.o, x, y))
    assert [e for e in p.key_averages() if e.key == "step"][0].count >= len(w.data)


def sharing(w):
    for x, _ in w.data:
        t = (x * 2).cpu().share_memory_()
        assert t.is_shared() and not x.is_shared()
        w.keep(t + 1)
        del t
        gc.collect(0)


def hooks_of_gradients(w):
    p = list(w.m.parameters())
    for x, y in w.data:
        seen = []
        handle = pf.autograd.graph.register_multi_grad_hook(p, seen.append)
        with pf.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            w.keep(train_once(w.m, w.o, x, y))
        handle.remove()
        assert len(seen) == 1
        w.keep(*seen[0])


def own_generator(w):
    g = pf.Generator().manual_seed(5)
    for x, _ in w.data:
        w.keep(pf.rand(3, generator=g), pf.randperm(9, generator=g))
        w.keep(w.m(x))


WORKS = [
    eager, captured, captured_by_all, compiled_module, dynamic, scaled, checkpointed, loader, inference,
    shared_gradients, copies, forgets, resets, parametrized, hooked, traced, functional, profiled, sharing,
    hooks_of_gradients, own_generator, hooked_by_all, dropped_and_checkpointed, hooks_of_others, fails,
    outlived, saved_by_others, workers, switched, other_counts,
]  # fmt: skip


if "libtsan" in os.environ.get("LD_PRELOAD", ""):
    WORKS.remove(workers)  # it ends forked processes that start threads


def made(seed):
    """(what each thread does, its Work), as often as it is called the same."""
    draw = random.Random(seed)
    pf.manual_seed(seed)
    shared = Shared()
    few = draw.sample(WORKS, draw.choice([1, 2, 4]))
    return [(draw.choice(few), Work(draw, shared)) for _ in range(THREADS)]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_programs(seed):
    alone, beside = made(seed), made(seed)
    for work, w in alone:
        work(w)
        w.end()

    def run(number):
        work, w = beside[number]
        work(w)
        w.end()

    together(run, THREADS)
    for (work, a), (_, b) in zip(alone, beside):
        assert len(a.found) == len(b.found) and same(a.found, b.found), work.__name__


def test_one_class_of_a_name(monkeypatch):
    """Classes that are made when they are asked for are those of all threads."""
    monkeypatch.setattr(_typed, "_made", {})
    found = {}

    def ask(number):
        found[number] = [_typed.typed("HalfTensor", f"module{i}") for i in range(300)]

    together(ask)
    assert all(a is b for i in range(1, 4) for a, b in zip(found[0], found[i]))


@pytest.mark.cpu_only  # a fork leaves other devices behind
def test_a_fork_while_a_thread_adds_a_hook():
    """The child adds and removes its own, though nobody there gives the lock back."""
    inside, go_on = threading.Event(), threading.Event()

    def hold():
        with _hooks._changing:
            inside.set()
            go_on.wait(HANG)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(HANG)

    def child():
        nn.Linear(2, 2).register_forward_hook(print).remove()
        nn.modules.module.register_module_forward_hook(print).remove()
        return True

    good = in_a_child(child)
    go_on.set()
    thread.join()
    assert good


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_others_draw_while_a_checkpoint_runs_again(use_reentrant):
    """It draws what it drew, and they go on where they were."""
    w = pf.ones(64, requires_grad=True)
    runs, others = [], []

    def draw():
        pf.set_device(DEVICE)
        others.append(pf.rand(8))

    def f(x):
        runs.append(x)
        if len(runs) == 2:
            thread = threading.Thread(target=draw)
            thread.start()
            thread.join()
        return F.dropout(x, 0.5).exp()

    pf.manual_seed(3)
    dropped = F.dropout(w, 0.5).detach()
    expected = [pf.rand(8), pf.rand(8)]
    pf.manual_seed(3)
    out = checkpoint(f, w, use_reentrant=use_reentrant)
    out.sum().backward()
    draw()
    assert len(runs) == 2 and same(expected, others)
    assert same([dropped.exp(), dropped.exp() * dropped], [out, w.grad])


def test_threads_share_a_generator():
    """Each number is drawn by one of them."""
    shared, alone = pf.Generator().manual_seed(3), pf.Generator().manual_seed(3)
    found = []

    def work(number):
        for _ in range(100):
            found.append(pf.rand(4, generator=shared).tolist())

    together(work)
    assert sorted(found) == sorted(pf.rand(4, generator=alone).tolist() for _ in range(400))
    assert pf.equal(shared.get_state(), alone.get_state())
