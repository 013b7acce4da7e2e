"""Memory that kernels of the CPU have while they run: counted, limited, given back."""

import contextlib
import gc
import threading

import numpy as np
import pytest
from conftest import DEVICE

import pyflame as pf

pytestmark = pytest.mark.skipif(
    DEVICE.split(":")[0] not in ("cpu", "paranoid"), reason="kernels of the CPU"
)
F = pf.nn.functional
KIB = 1 << 10


def _grad(f, *inputs):
    leaves = [x.detach().requires_grad_() for x in inputs]
    f(*leaves).sum().backward()
    return [x.grad for x in leaves]


def _clip(x):
    p = x.detach().requires_grad_()
    p.grad = x.clone()
    return pf.nn.utils.clip_grad_norm_([p], 1e9)


def _many_tiles(x):
    y = [x * float(i) for i in range(12)]
    z = y[0]
    for a in y[1:]:
        z = pf.sin(z) * a + z
    return z


def _written(x, i):
    y = x.clone()
    y[i, i] = 1.0
    return y


# Name: bytes that it takes at least (with one thread), what it computes, the shapes or tensors that it takes.
FAMILIES = {
    "sort": (2 * 8 * 20000, lambda x: pf.sort(x)[1], (20000,)),
    "sort of rows": (8 * 800, lambda x: pf.sort(x, -1)[1], (20, 800)),
    "topk": (8 * 3 * 900, lambda x: pf.topk(x, 900)[0], (20000,)),
    "median": (8 * 20000, lambda x: pf.median(x), (20000,)),
    "softmax": (8 * 20000, lambda x: pf.softmax(x, -1), (4, 20000)),
    "log_softmax": (4 * 20000, lambda x: pf.log_softmax(x, -1), (4, 20000)),
    "layer_norm": (8 * 5001, lambda x, w: F.layer_norm(x, (5001,), w), (4, 5001), (5001,)),
    "its gradient": (
        8 * 5001,
        lambda x, w: _grad(lambda x, w: F.layer_norm(x, (5001,), w) ** 2, x, w)[1],
        (40, 5001),
        (5001,),
    ),
    "sum of columns": (64 * KIB, lambda x: x.sum(0), (3000, 2000)),
    "sum of all": (4 * 300, lambda x: x.sum(), (1000, 1000)),
    "sum of strided": (4 * 2000, lambda x: x[:, ::2].sum(1), (8, 20000)),
    "prod of columns": (4 * 500, lambda x: x.prod(0), (50, 500)),
    "amax of strided": (4 * 2048, lambda x: x[:, ::2].amax(1), (8, 20000)),
    "argmax": (2 * 4 * 8, lambda x: x.argmax(1), (2, 200000)),
    "product of bfloat16": (
        64 * KIB,  # where instructions take bfloat16; several times that elsewhere
        lambda x, y: x.to(pf.bfloat16) @ y.to(pf.bfloat16),
        (500, 600),
        (600, 400),
    ),
    "product of integers": (
        4 * 20000,
        lambda x, y: x.to(pf.int32) @ y.to(pf.int32),
        (3, 4),
        (4, 20000),
    ),
    "attention": (
        4 * 2 * 256 * 64,
        lambda q: F.scaled_dot_product_attention(q, q, q),
        (2, 256, 64),
    ),
    "its gradient of attention": (
        4 * 2 * 256 * 64,
        lambda q: _grad(lambda q: F.scaled_dot_product_attention(q, q, q) ** 2, q)[0],
        (2, 256, 64),
    ),
    "cross_entropy": (
        8 * 5000,
        lambda x: F.cross_entropy(x, pf.zeros(5000, dtype=pf.int64)),
        (5000, 7),
    ),
    "index": (8 * 5000, lambda x: x[pf.arange(5000) % 10, pf.arange(5000) % 7], (10, 7)),
    "index_put": (16 * 5000, lambda x: _written(x, pf.arange(5000) % 7), (10, 7)),
    "randperm": (16 * 30000, lambda: pf.randperm(30000, dtype=pf.int32)),
    "multinomial": (8 * 9000, lambda x: pf.multinomial(x.abs(), 10), (2, 9000)),
    "cdist": (4 * 64 * 8, lambda x, y: pf.cdist(x, y), (100, 50), (90, 50)),
    "its gradient of cdist": (
        4 * 90 * 50,
        lambda x, y: _grad(pf.cdist, x, y)[0],
        (100, 50),
        (90, 50),
    ),
    "group in pieces": (4 * 2 * 1024, lambda x: pf.softmax(x * 2 + 1, -1) * 3, (256, 1024)),
    "sum of a group": (4 * 16 * 512, lambda x: (x * 2).sum(0), (4096, 512)),
    "program of many tiles": (64 * KIB, lambda x: _many_tiles(x.to(pf.float64)), (4096,)),
    "norm of gradients": (8, _clip, (100, 1000)),
    "gradient of an overlapping view": (
        4 * 3000,
        lambda x: _grad(lambda x: x.as_strided((2000, 3), (1, 1)) * 2, x.to(pf.bfloat16))[0],
        (3000,),
    ),
}


class Case:
    def __init__(self, name):
        self.name = name
        self.bytes, self.f, *shapes = FAMILIES[name]
        random = np.random.default_rng(3)
        self.inputs = [pf.tensor(random.standard_normal(s).astype("f4")) for s in shapes]

    def __call__(self):
        pf.manual_seed(5)
        y = self.f(*self.inputs)
        pf.synchronize()
        return y

    def values(self):
        y = self()
        return (y.float() if y.dtype == pf.bfloat16 else y).numpy().copy()


@pytest.fixture(params=FAMILIES)
def case(request):
    c = Case(request.param)
    c()
    _settle()
    yield c
    pf.memory.set_memory_limit(0, "cpu")


@pytest.fixture(autouse=True, scope="module")
def _nothing_of_others():
    gc.collect()  # once: in the middle of a whole suite it takes a third of a second


def _settle():
    pf.synchronize()


def _allocated():
    _settle()
    return pf.memory.memory_allocated("cpu")


def test_statistics_see_it(case):
    before = _allocated()
    pf.memory.reset_peak_memory_stats("cpu")
    result = case()
    stats = pf.memory.memory_stats("cpu")
    peak, now = (stats[f"allocated_bytes.all.{which}"] for which in ("peak", "current"))
    assert peak - min(before, now) >= case.bytes  # what tests before left may go meanwhile
    # Beside the result there was something that is gone.
    assert peak > now
    del result
    assert _allocated() <= before


def test_a_size_taken_again_asks_the_system_for_nothing(case):
    for _ in range(3):
        case()
    before = pf.memory.memory_stats("cpu")["num_device_alloc"]
    for _ in range(5):
        case()
    assert pf.memory.memory_stats("cpu")["num_device_alloc"] == before


@pytest.mark.skipif(DEVICE != "cpu", reason="copies of results take more than kernels")
def test_a_limit_holds_for_it(case):
    want = case.values()
    before = _allocated()
    refused = []

    def fits(room):
        pf.memory.empty_cache("cpu")
        pf.memory.set_memory_limit(pf.memory.memory_reserved("cpu") + room, "cpu")
        try:
            np.testing.assert_array_equal(case.values(), want)
        except pf.OutOfMemoryError as error:
            refused.append(str(error))
        else:
            return True
        finally:
            pf.memory.set_memory_limit(0, "cpu")
            with contextlib.suppress(pf.OutOfMemoryError):  # what was pending failed, too
                pf.synchronize()
            _settle()
        return False

    low, high = 0, 1 << 26
    assert fits(high)
    while high - low > min(case.bytes, 4096) // 8:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    # Values that a group keeps out of memory leave room for it.
    if "group" not in case.name:
        assert any("workspace" in text and "asked for" in text for text in refused), refused[-1]
    np.testing.assert_array_equal(case.values(), want)
    assert _allocated() == before


@pytest.mark.parametrize("kind", ["oom", "launch"])
def test_any_allocation_may_fail(case, kind):
    want = case.values()
    before = _allocated()
    failed = 0
    for n in range(1, 200):
        pf.memory.empty_cache("cpu")
        asked = pf.memory.memory_stats("cpu")["num_device_alloc"]
        with pf.debug.fault("allocate", n, kind, "cpu"):
            try:
                got = case.values()
            except (pf.BackendError, pf.OutOfMemoryError):
                failed += 1
            else:
                np.testing.assert_array_equal(got, want)
                del got
        _settle()
        if pf.memory.memory_stats("cpu")["num_device_alloc"] - asked < n - 1:
            break
    else:
        pytest.fail("more allocations than a case has")
    assert (failed > 0) == (kind == "launch")  # out of memory is tried once more
    np.testing.assert_array_equal(case.values(), want)
    assert _allocated() == before


@pytest.mark.skipif(DEVICE != "cpu", reason="the CPU's scratch")
def test_a_thread_without_the_pool_takes_for_itself_alone():
    x = pf.randn(32, 60000)
    before = pf.get_num_threads()
    peaks = []

    def sort():
        start = _allocated()
        pf.memory.reset_peak_memory_stats("cpu")
        pf.sort(x)[0].sum().item()
        peaks.append(pf.memory.memory_stats("cpu")["allocated_bytes.all.peak"] - start)

    def alone():
        other = threading.Thread(target=sort)
        other.start()
        other.join()

    try:
        pf.set_num_threads(1)
        sort()
        pf.set_num_threads(32)
        pf.sort(x)  # this thread has the pool
        alone()
    finally:
        pf.set_num_threads(before)
    assert peaks[1] <= peaks[0] + 2**20
