"""Several Python threads at once: own graphs, shared tensors, memory that Python owns."""

import gc
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pyflame as pf


def run(n, fn):
    """fn(i) in n threads; the first exception is raised here."""
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(fn, range(n)))


def test_independent_training():
    def work(i):
        x = pf.full((32, 8), float(i + 1))
        w = pf.ones(8, 8, requires_grad=True)
        for _ in range(30):
            loss = (x @ w).tanh().sum()
            (g,) = pf.autograd.grad(loss, w)
            with pf.no_grad():
                w -= 0.01 * g
        return w.detach().tolist()

    alone = [work(i) for i in range(4)]
    assert run(4, work) == alone


def test_shared_tensor_is_read_by_all():
    base = pf.arange(10000).float()
    pending = base * 2 + 1  # recorded here, run by whoever needs it first

    def work(i):
        return (pending + i).sum().item()

    results = run(8, work)
    total = pending.sum().item()
    assert results == [pytest.approx(total + i * 10000) for i in range(8)]


def test_results_go_home():
    made = run(8, lambda i: pf.full((100,), float(i)) * 2)
    assert [t.sum().item() for t in made] == [200.0 * i for i in range(8)]


def test_backward_of_shared_leaf():
    w = pf.ones(4, requires_grad=True)
    grads = run(4, lambda i: pf.autograd.grad((w * (i + 1)).sum(), w)[0].tolist())
    assert grads == [[i + 1.0] * 4 for i in range(4)]
    lock = threading.Lock()

    def accumulate(i):
        loss = (w * 1.0).sum()
        with lock:
            loss.backward()

    run(8, accumulate)
    assert w.grad.tolist() == [8.0] * 4


@pytest.mark.cpu_only
def test_foreign_memory_dies_in_other_threads():
    refs, tensors = [], []
    for _ in range(50):
        a = np.ones(100)
        refs.append(weakref.ref(a))
        tensors.append([pf.from_numpy(a)])
        del a

    def work(i):
        for box in tensors[i::4]:
            box[0] = (box[0] * 2).sum().item()

    run(4, work)
    assert all(box == [200.0] for box in tensors)
    gc.collect()
    pf.ones(1).sum().item()
    assert all(r() is None for r in refs)


def test_many_short_threads():
    for i in range(50):
        box = []
        t = threading.Thread(target=lambda i=i, box=box: box.append(pf.ones(10) * i))
        t.start()
        t.join()
        assert box[0].sum().item() == 10.0 * i


def test_long_work_releases_the_gil():
    """A thread that only counts goes on while another multiplies."""
    stop = threading.Event()
    count = [0]

    def counter():
        while not stop.is_set():
            count[0] += 1

    x = pf.randn(1024, 1024)
    (x @ x).sum().item()  # libraries are opened, kernels compiled
    began = time.perf_counter()
    (x @ x).sum().item()
    # A GPU needs many to be waited for; each may wait for the interval below.
    products = min(60, 1 + int(0.05 / (time.perf_counter() - began)))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.5)  # without releasing, the counter would not run at all
    t = threading.Thread(target=counter)
    try:
        t.start()
        before = count[0]
        y = x
        for _ in range(products):
            y = x @ (y * 0.03)
        y.sum().item()
        after = count[0]
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        t.join()
    assert after > before


def test_current_device_belongs_to_the_thread(device):
    seen = run(2, lambda i: str(pf.get_device()))
    assert set(seen) == {"cpu"}
    assert pf.get_device() == device
