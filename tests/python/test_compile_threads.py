"""pf.compile: threads that share a captured step, processes that fork while one captures, and numbers that
nobody can look at."""

import copy
import os
import random
import threading
import time

import numpy as np
import pytest
from captured_steps import CAPTURED, batches, calls, classifier_step, model, same
from conftest import DEVICE
from hangs import HANG

import pyflame as pf
import pyflame.nn.functional as F


def together(work, n=4):
    """Runs work(number) in n threads from the same moment on; what they raise is raised."""
    start, failures = threading.Barrier(n), []

    def run(number):
        pf.set_device(DEVICE)
        try:
            start.wait()
            work(number)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_threads_from_the_first_call_on():
    """Whoever comes while another captures, compares or replays runs as always."""
    m = model(0.0)
    c = pf.compile(lambda x: m(x).square(), **CAPTURED)
    xs = [pf.full((3, 13), 0.1 * i) for i in range(4)]
    wants = [m(x).square().detach() for x in xs]

    def work(number):
        for _ in range(40):
            with pf.no_grad():
                assert same([wants[number]], [c(xs[number])])

    together(work)
    assert calls(c)[0] > 10, c.report()


@pytest.mark.usefixtures("hasty_switches")
@pytest.mark.parametrize("kinds", [1, 2])
def test_calls_of_all_threads_are_counted(kinds):
    """Those without Python, too, while others find that one is at it or call with other arguments."""
    weight = pf.randn(640, 640)
    c = pf.compile(lambda x: x @ weight, **CAPTURED)
    xs = [pf.randn(64 + i, 640) for i in range(kinds)]

    def work(number):
        with pf.no_grad():
            for i in range(100):
                c(xs[(i // 7 + number) % kinds])

    for x in 5 * xs:  # what others call while one captures or compares is in no count
        with pf.no_grad():
            c(x)
    before = sum(calls(c))
    together(work)
    assert sum(calls(c)) == before + 4 * 100, c.report()


def test_threads_that_want_gradients():
    """Backward passes of a module that threads share belong to their own forward passes."""
    m = model(0.0)
    c = pf.compile(m, **CAPTURED)
    parameters = list(m.parameters())
    data = [batches(1)[0] for _ in range(4)]

    def gradients(f, x, y):
        return pf.autograd.grad(F.cross_entropy(f(x), y), parameters)

    wants = [gradients(m, *d) for d in data]

    def work(number):
        for _ in range(30):
            assert same(wants[number], gradients(c, *data[number]))

    together(work)


def test_threads_that_train_models_of_their_own():
    """By one function, whose argument the model is: each is a kind of its own."""

    def make():
        m = model(0.0)
        return m, pf.optim.AdamW(m.parameters(), lr=0.01)

    def step(m, o, x, y):
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        return loss

    c = pf.compile(step, **CAPTURED)
    data = batches(12)
    pf.manual_seed(1)
    m, o = make()
    want = [step(m, o, x, y).item() for x, y in data]
    owned = [make() for _ in range(4)]

    def work(number):
        assert [c(*owned[number], x, y).item() for x, y in data] == want

    together(work)
    for mine, _ in owned:
        assert same(m.parameters(), mine.parameters())


def test_a_change_by_another_thread():
    """Between two calls of this one."""
    held = {"scale": 1.0, "array": np.ones(2)}
    c = pf.compile(lambda x: x * held["scale"] * float(held["array"][0]), **CAPTURED)
    for _ in range(6):
        assert c(pf.ones(2)).tolist() == [1.0, 1.0]
    for change in (lambda: held.update(scale=2.0), lambda: held["array"].__setitem__(0, 3.0)):
        other = threading.Thread(target=change)
        other.start()
        other.join()
        want = held["scale"] * held["array"][0]
        for _ in range(5):
            assert c(pf.ones(2)).tolist() == [want] * 2


def in_a_child(work):
    """Whether work() is true in a process that was forked, within 20 s."""
    pid = os.fork()
    if pid == 0:
        try:
            good = work()
        except BaseException:
            good = False
        os._exit(0 if good else 1)
    for _ in range(100 * HANG):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False


def trains(wrap=lambda f: f, m=None):
    m = m or model(0.0)
    o, step = classifier_step(m)
    return m, o, wrap(step)


@pytest.mark.cpu_only  # a fork leaves other devices behind
def test_a_child_goes_on_training():
    """With the capture that it has, and the parent with its own."""
    data = batches(12)
    m, o, step = trains(lambda f: pf.compile(f, **CAPTURED))
    for x, y in data[:6]:
        step(x, y)
    twin = copy.deepcopy(m)
    other = pf.optim.AdamW(twin.parameters(), lr=0.01)
    other.load_state_dict(o.state_dict())

    def rest():
        for x, y in data[6:]:
            step(x, y)
            other.zero_grad()
            F.cross_entropy(twin(x), y).backward()
            other.step()
        return same(m.parameters(), twin.parameters())

    assert in_a_child(rest)
    assert rest() and calls(step)[0] == 3 + 6, step.report()


@pytest.mark.cpu_only
@pytest.mark.parametrize("when", ["captures", "compares"])
def test_a_fork_while_a_thread_captures(when):
    """The child's calls are right, of that step and of others, though nobody there ends that capture."""
    inside, go_on = threading.Event(), threading.Event()
    waits = {"at": 2 if when == "captures" else 3}
    weight = pf.randn(4, 4)
    count = iter(range(1, 1000))

    def slow(x):
        if next(count) == waits["at"]:
            inside.set()
            go_on.wait(HANG)
        return (x @ weight).relu()

    c = pf.compile(slow, **CAPTURED)
    d = pf.compile(lambda x: (x @ weight).tanh(), **CAPTURED)
    x = pf.ones(2, 4)
    want, other = (x @ weight).relu(), (x @ weight).tanh()
    found = []
    thread = threading.Thread(target=lambda: found.extend(c(x) for _ in range(4)))
    thread.start()
    assert inside.wait(HANG)

    def child():
        go_on.set()
        good = all(same([want, other], [c(x), d(x)]) for _ in range(8))
        m, _, step = trains(lambda f: pf.compile(f, **CAPTURED))
        n, _, plain = trains()
        for a, b in batches(6):
            good &= same([step(a, b)], [plain(a, b)])
        return good and same(m.parameters(), n.parameters())

    good = in_a_child(child)
    go_on.set()
    thread.join()
    assert good and len(found) == 4 and all(same([want], [f]) for f in found)


@pytest.mark.parametrize("draw", [random.random, np.random.random, time.perf_counter])
def test_numbers_of_others(draw):
    """The third call finds that they change, before any has run without Python."""
    c = pf.compile(lambda x: x * draw(), **CAPTURED)
    c(pf.ones(2)), c(pf.ones(2))
    with pytest.raises(pf.compiler.CaptureError, match="a number of 'mul' is"):
        c(pf.ones(2))


def test_what_a_step_prints_and_writes(tmp_path, capsys):
    """Is done by the calls that Python runs, and by no others."""
    path = tmp_path / "log"

    def step(x):
        print("called")
        with path.open("a") as f:
            f.write("called\n")
        return x + 1

    c = pf.compile(step, **CAPTURED)
    for _ in range(8):
        assert c(pf.ones(2)).tolist() == [2.0, 2.0]
    done = sum(calls(c)) - calls(c)[0] + 1  # one is captured
    assert capsys.readouterr().out.count("called") == done == path.read_text().count("called")
