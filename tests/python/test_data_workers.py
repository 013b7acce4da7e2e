"""Worker processes of DataLoader. Datasets hold NumPy arrays: workers are processes of the CPU."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from hangs import HANG

import pyflame as pf
from pyflame.utils import data as D
from pyflame.utils.data.dataloader import _Fetch
from pyflame.utils.data.workers import Pool

DATA = np.arange(46.0).reshape(23, 2)


class Rows(D.Dataset):
    """Rows of DATA; slower ones first, so that workers finish out of order."""

    def __init__(self, wait=0.0):
        self.wait = wait

    def __len__(self):
        return len(DATA)

    def __getitem__(self, i):
        time.sleep(self.wait * (i % 3 == 0))
        return DATA[i], i


class Bad(Rows):
    def __getitem__(self, i):
        if i == 9:
            return missing_name  # noqa: F821
        return super().__getitem__(i)


class Deadly(Rows):
    def __getitem__(self, i):
        if i == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


class Stream(D.IterableDataset):
    def __iter__(self):
        info = D.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, 10, step))


def values(loader):
    return [(x.tolist(), i.tolist()) for x, i in loader]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_same_batches_in_the_same_order(workers):
    plain = values(D.DataLoader(Rows(), batch_size=4))
    assert values(D.DataLoader(Rows(0.01), batch_size=4, num_workers=workers)) == plain

    def shuffled(n):
        pf.manual_seed(5)
        loader = D.DataLoader(Rows(), batch_size=4, shuffle=True, num_workers=n, drop_last=True)
        return values(loader), values(loader)

    assert shuffled(workers) == shuffled(0)


class Ending(Rows):
    def __getitem__(self, i):
        if i == 9:
            raise StopIteration
        return i


@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}]
)
def test_a_dataset_that_raises_stop_iteration_ends_the_pass(options):
    loader = D.DataLoader(Ending(), batch_size=None, **options)
    assert [list(loader) for _ in range(2)] == [list(range(9))] * 2


def test_options():
    one_by_one = D.DataLoader(Rows(), batch_size=None, num_workers=2, prefetch_factor=1)
    assert [i for _, i in one_by_one] == list(range(23))
    first = next(iter(D.DataLoader(Rows(), batch_size=3, num_workers=2, collate_fn=len)))
    assert first == 3
    loader = D.DataLoader(Rows(), batch_size=8, num_workers=2, persistent_workers=True)
    for _ in loader:
        break  # given up: the next pass begins at the beginning
    a = iter(loader)
    assert next(a)[1].tolist() == list(range(8))
    pids = [p.pid for p in loader._pool.processes]
    b = iter(loader)  # beside it, with workers of its own
    assert next(b)[1].tolist() == list(range(8)) and next(a)[1].tolist() == list(range(8, 16))
    del a, b
    assert len(values(loader)) == 3 and [p.pid for p in loader._pool.processes] == pids
    for bad in ({"num_workers": -1}, {"prefetch_factor": 2}, {"persistent_workers": True}):
        with pytest.raises(ValueError, match="DataLoader"):
            D.DataLoader(Rows(), **bad)


def test_iterable_datasets_ask_for_their_part():
    got = [b.tolist() for b in D.DataLoader(Stream(), batch_size=2, num_workers=2)]
    assert got == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    assert D.get_worker_info() is None


def test_each_worker_has_its_own_seed():
    def pass_over(loader):
        return [tuple(np.round(x, 9)) for x in loader]

    class Noise(Rows):
        def __getitem__(self, i):
            return np.random.rand(), pf.rand(1).item()

    pf.manual_seed(3)
    loader = D.DataLoader(Noise(), batch_size=None, num_workers=2)
    first, second = pass_over(loader), pass_over(loader)
    pf.manual_seed(3)
    loader = D.DataLoader(Noise(), batch_size=None, num_workers=2)
    assert pass_over(loader) == first and first != second
    assert len(set(first)) == len(first)


def test_init_function_and_tensors():
    def init(number):
        os.environ["WORKER"] = str(number)

    class Named(Rows):
        def __getitem__(self, i):
            return {
                "w": os.environ["WORKER"],
                "x": pf.tensor(DATA[i]),
                "id": D.get_worker_info().id,
            }

    batches = list(D.DataLoader(Named(), batch_size=6, num_workers=2, worker_init_fn=init))
    assert [b["w"][0] for b in batches] == ["0", "1", "0", "1"]
    assert [b["id"][0].item() for b in batches] == [0, 1, 0, 1]
    np.testing.assert_array_equal(pf.cat([b["x"] for b in batches]).cpu().numpy(), DATA)


def test_errors_come_with_their_traceback():
    loader = D.DataLoader(Bad(), batch_size=4, num_workers=2)
    seen = []
    with pytest.raises(NameError, match="worker process 0") as error:
        for _, i in loader:
            seen.append(i.tolist())
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert "__getitem__" in str(error.value) and "missing_name" in str(error.value)
    with pytest.raises(Exception, match="pickle"):
        list(D.DataLoader(Rows(), num_workers=1, collate_fn=lambda batch: lambda: 0))
    with pytest.raises(KeyError) as error:
        list(D.DataLoader(Rows(), batch_size=4, num_workers=1, collate_fn=no_such_key))
    assert "\nOriginal Traceback" in str(error.value) and "no_such_key" in str(error.value)


def no_such_key(batch):
    return {}["name"]


def nothing_left(before):
    """Neither processes nor open files nor shared memory."""
    assert not multiprocessing.active_children()
    assert resources() == before


def resources():
    gc.collect()
    with open("/proc/self/maps") as f:
        mapped = sum("pyflame-batch" in line for line in f)
    shared = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return len(os.listdir("/proc/self/fd")), mapped, sorted(shared)


@pytest.mark.cpu_only
def test_a_worker_that_is_killed():
    before = resources()
    with pytest.raises(D.WorkerError, match="worker 0 .* was killed by SIGKILL"):
        values(D.DataLoader(Deadly(), batch_size=4, num_workers=2))
    nothing_left(before)
    loader = D.DataLoader(Pictures(), batch_size=1, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    first = next(batches)
    victim = loader._pool.processes[1].pid
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(D.WorkerError, match=rf"worker 1 \(pid {victim}\) was killed by SIGKILL"):
        list(batches)
    assert first["x"].sum().item() == 0  # what came is the caller's
    assert len(list(loader)) == 24  # with new workers
    del batches, first, loader
    nothing_left(before)


class Large(Rows):
    """Ends in the middle of a message: more than a pipe holds is not shared but sent."""

    def __getitem__(self, i):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return "x" * 30_000_000


def test_a_worker_that_dies_within_a_message():
    pool = Pool(1, _Fetch(Large(), D.default_convert, False), None, None, 0)
    pool._send(0, (1, 0, None))
    pool._send(0, (1, None, 0))
    pool.epoch = 1
    pool.processes[0].join(HANG)  # nobody reads meanwhile
    with pytest.raises(D.WorkerError, match="SIGKILL"):
        pool._receive(0)
    pool.close()


class Hangs(Rows):
    def __getitem__(self, i):
        if i == 5:
            wait_for_ever()
        return super().__getitem__(i)


def wait_for_ever():
    while True:
        time.sleep(0.05)


@pytest.mark.cpu_only
def test_a_worker_that_hangs():
    before = resources()
    with pytest.raises(D.WorkerError, match=r"worker 1 \(pid \d+\) .* within 5 s") as error:
        values(D.DataLoader(Hangs(), batch_size=4, num_workers=2, timeout=5))
    assert "wait_for_ever" in str(error.value) and "__getitem__" in str(error.value)
    nothing_left(before)

    class Stopped(Rows):
        def __getitem__(self, i):
            os.kill(os.getpid(), signal.SIGSTOP)

    with pytest.raises(D.WorkerError, match="does not say where"):
        values(D.DataLoader(Stopped(), batch_size=4, num_workers=1, timeout=5))
    nothing_left(before)


def test_large_requests_and_batches_do_not_block():
    class Wide(D.Dataset):
        def __len__(self):
            return 400_000

        def __getitem__(self, i):
            return i

    sizes = [len(b) for b in D.DataLoader(Wide(), batch_size=100_000, num_workers=1)]
    assert sizes == [100_000] * 4


class Counted(D.Dataset):
    """Lists of `size` numbers in a row from i, and from i + 1."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return 48

    def __getitem__(self, i):
        row = pf.tensor(list(range(i, i + self.size)))
        return row, row + 1


@pytest.mark.parametrize("size", [1, 64, 65, 1000])
def test_tensors_have_their_values_when_they_arrive(size):
    """Through the pipe (1), through shared memory in small batches and in large ones."""
    for i, (x, y) in enumerate(D.DataLoader(Counted(size), batch_size=16, num_workers=1)):
        first = np.arange(16 * i, 16 * i + 16)[:, None]
        assert np.array_equal(x.numpy(), first + np.arange(size))
        assert np.array_equal(y.numpy(), first + np.arange(size) + 1)


class Pictures(D.Dataset):
    """Batches large enough to go through shared memory."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return {"x": pf.full((3, 32, 32), float(i)), "name": str(i), "y": np.arange(5000) + i}


def test_batches_in_shared_memory():
    plain = list(D.DataLoader(Pictures(), batch_size=4))
    loader = D.DataLoader(Pictures(), batch_size=4, num_workers=2, persistent_workers=True)
    kept = list(loader)  # all at once: segments that are held are not used again
    for a, b in zip(plain, kept, strict=True):
        assert pf.equal(a["x"], b["x"]) and pf.equal(a["y"], b["y"]) and a["name"] == b["name"]
    held = [r.segments for r in loader._pool.receivers]
    assert all(len(h) >= 3 for h in held)
    numbers = sum(map(len, held))
    kept[0]["x"].add_(1)  # the caller's own
    assert pf.equal(plain[0]["x"] + 1, kept[0]["x"]) and pf.equal(plain[1]["x"], kept[1]["x"])
    del kept, a, b
    for _ in range(3):
        for a, b in zip(plain, loader, strict=True):
            assert pf.equal(a["x"], b["x"])
    assert sum(map(len, held)) == numbers  # segments came back and were used again


@pytest.mark.cpu_only
def test_shared_batches_are_not_copied_and_outlive_their_loader():
    loader = D.DataLoader(Pictures(), batch_size=4, num_workers=1)
    batch = next(iter(loader))
    with open("/proc/self/maps") as f:
        ranges = [line.split()[0] for line in f if "pyflame-batch" in line]
    address = batch["x"].data_ptr()
    assert any(int(a, 16) <= address < int(b, 16) for a, b in (r.split("-") for r in ranges))
    del loader
    again = batch["x"] * 2
    assert again[1, 0, 0, 0].item() == 2
    w = pf.ones(3, 32, 32, requires_grad=True)
    (batch["x"] * w).sum().backward()
    assert w.grad[0, 0, 0].item() == 0 + 1 + 2 + 3


def test_what_no_shared_memory_carries():
    class Odd(D.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            whole = pf.arange(40000, dtype=pf.float32).reshape(200, 200)
            return {
                "turned": whole.t(), "part": whole[::2], "same": (whole, whole),
                "bools": whole > 5, "needs": whole.clone().requires_grad_(), "none": pf.zeros(0, 3),
                "narrow": whole.bfloat16(), "parameter": pf.nn.Parameter(whole),
            }  # fmt: skip

    plain = list(D.DataLoader(Odd(), batch_size=None))
    for a, b in zip(plain, D.DataLoader(Odd(), batch_size=None, num_workers=1), strict=True):
        for name in a:
            if name != "same":
                assert pf.equal(a[name], b[name]), name
                assert a[name].requires_grad == b[name].requires_grad
                assert type(a[name]) is type(b[name])
        assert pf.equal(a["same"][1], b["same"][1])


def test_shares_of_processes():
    parts = [list(D.DistributedSampler(range(10), 3, rank, seed=4)) for rank in range(3)]
    assert all(len(p) == 4 for p in parts)
    assert set(sum(parts, [])) == set(range(10))
    sampler = D.DistributedSampler(range(10), 3, 1, seed=4)
    assert list(sampler) == parts[1] and len(sampler) == 4
    sampler.set_epoch(1)
    assert list(sampler) != parts[1]
    even = [list(D.DistributedSampler(range(10), 3, r, False, drop_last=True)) for r in range(3)]
    assert even == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert list(D.DistributedSampler(range(2), 5, 4, shuffle=False)) == [0]
    with pytest.raises(ValueError, match="rank 3"):
        D.DistributedSampler(range(10), 3, 3)
    with pytest.raises(RuntimeError, match="process group"):
        D.DistributedSampler(range(10))


def test_prefetch():
    batches = [{"x": pf.full((2,), float(i)), "i": i} for i in range(5)]
    for ahead in (1, 3, 9):
        got = list(D.prefetch(iter(batches), pf.get_device(), ahead))
        assert [b["i"] for b in got] == list(range(5))
        assert [b["x"].tolist() for b in got] == [[i, i] for i in range(5)]
    assert list(D.prefetch([], "cpu")) == []
    with pytest.raises(pf.PyFlameError, match="ahead"):
        list(D.prefetch(batches, "cpu", 0))


@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_batches(workers):
    loader = D.DataLoader(Pictures(), batch_size=4, num_workers=workers, pin_memory=True)
    names = [n for b in loader for n in b["name"]]
    assert names == [str(i) for i in range(24)]
    for batch in loader:
        if workers:  # which make batches on the CPU
            assert batch["x"].is_pinned() == (pf.get_device().type != "cpu")
        break  # what is under way ends
    with pytest.raises(NameError, match="missing_name"):
        list(D.DataLoader(Bad(), batch_size=4, num_workers=2, pin_memory=True))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_workers_end_with_their_parent(name):
    """Ctrl-C comes to all processes of the terminal; a kill to the parent alone."""
    program = textwrap.dedent("""
        import multiprocessing, numpy as np, pyflame as pf, signal, time
        from pyflame.utils import data as D
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell began this
        class Slow(D.Dataset):
            def __len__(self): return 100000
            def __getitem__(self, i):
                time.sleep(0.002)
                return np.zeros((3, 64, 64), np.float32)
        for k, _ in enumerate(D.DataLoader(Slow(), batch_size=10, num_workers=2)):
            if k == 2:
                print(*[p.pid for p in multiprocessing.active_children()], flush=True)
    """)
    shared = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    workers = parent.stdout.readline().split()
    assert len(workers) == 2
    (os.killpg if name == "SIGINT" else os.kill)(parent.pid, signal.Signals[name])
    errors = parent.communicate(timeout=HANG)[1]  # ends when the last that could write has ended
    assert parent.returncode != 0
    if name == "SIGINT":
        assert errors.count("Traceback") == 1 and errors.endswith("KeyboardInterrupt\n"), errors
    else:
        assert not errors
    end = time.monotonic() + HANG
    while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
    assert (os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []) == shared


@pytest.mark.cpu_only
def test_an_interrupt_ends_persistent_workers():
    """It may come within a message, so what comes behind it could be anything."""
    before = resources()
    loader = D.DataLoader(Rows(), batch_size=4, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    next(batches)
    receive = loader._pool._receive

    def interrupted(worker):
        raise KeyboardInterrupt

    loader._pool._receive = interrupted
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    del receive, batches
    assert len(values(loader)) == 6
    del loader
    nothing_left(before)


def twice(x):
    return x * 2


class Doubled(Rows):
    def __getitem__(self, i):
        return twice(np.full((64, 64), i, np.float32))


@pytest.mark.cpu_only
def test_start_methods():
    plain = list(D.DataLoader(Doubled(), batch_size=8))
    for context in ("spawn", multiprocessing.get_context("spawn")):
        loader = D.DataLoader(
            Doubled(), batch_size=8, num_workers=1, multiprocessing_context=context
        )
        assert all(pf.equal(a, b) for a, b in zip(plain, loader, strict=True))
    arrays = D.TensorDataset(pf.tensor(DATA), np.arange(23))
    loader = D.DataLoader(arrays, 8, num_workers=1, multiprocessing_context="spawn")
    assert [len(x) for x, _ in loader] == [8, 8, 7]
    with pytest.raises(ValueError, match="set num_workers"):
        D.DataLoader(Rows(), multiprocessing_context="fork")
    with pytest.raises(ValueError, match="'threads'"):
        D.DataLoader(Rows(), num_workers=1, multiprocessing_context="threads")
    with pytest.raises(TypeError, match="is a int"):
        D.DataLoader(Rows(), num_workers=1, multiprocessing_context=3)


@pytest.mark.cpu_only
def test_interrupts_at_any_time_leave_no_child():
    """Another thread takes the signal, so no mask keeps it from the main thread; some come while
    workers are started or ended. Not even a dead child that nobody has waited for is left."""
    program = textwrap.dedent("""
        import gc, os, random, signal, sys, threading, time, numpy as np
        from pyflame.utils import data as D
        signal.signal(signal.SIGINT, signal.default_int_handler)
        wrong = []
        sys.unraisablehook = lambda what: wrong.append(what.exc_value)
        rows, draw = np.zeros((60, 3), np.float32), random.Random(0)

        def one_pass():
            for _ in D.DataLoader(rows, batch_size=5, num_workers=2):
                pass

        for _ in range(40):
            shot = threading.Timer(draw.uniform(0, 0.05), os.kill, (os.getpid(), signal.SIGINT))
            try:
                try:
                    shot.start()
                    one_pass()
                finally:
                    shot.join()
                time.sleep(0.001)
            except KeyboardInterrupt:
                pass
        gc.collect()
        try:
            os.waitpid(-1, 0)
            print("a child is left")
        except ChildProcessError:
            print("no child", [e for e in wrong if not isinstance(e, KeyboardInterrupt)])
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG
    )
    assert done.stdout == "no child []\n", done.stdout + done.stderr


def test_a_worker_that_nobody_waits_for_ends():
    """An interrupt between the fork and its note leaves a process that no list has."""
    program = textwrap.dedent("""
        import multiprocessing.process, os, time, numpy as np
        from pyflame.utils import data as D
        start = multiprocessing.process.BaseProcess.start
        pids = []

        def interrupted(self):
            start(self)
            pids.append(self.pid)
            if len(pids) == 2:
                raise KeyboardInterrupt

        multiprocessing.process.BaseProcess.start = interrupted
        loader = D.DataLoader(np.zeros((100, 3), np.float32), batch_size=10, num_workers=3)
        try:
            next(iter(loader))
        except KeyboardInterrupt:
            pass

        def alive(pid):
            try:
                return os.waitpid(pid, os.WNOHANG) == (0, 0)
            except ChildProcessError:  # waited for
                return False

        end = time.monotonic() + 600
        while pids and time.monotonic() < end:
            pids = [pid for pid in pids if alive(pid)]
            time.sleep(0.01)
        print("left", len(pids))
        os._exit(0)  # which ends no children
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG
    )
    assert done.stdout.strip() == "left 0", done.stderr


def test_more_datasets_and_samplers():
    both = D.StackDataset(Rows(), Rows())
    assert len(both) == 23 and both[3][1][1] == 3
    assert D.StackDataset(a=Rows())[2]["a"][1] == 2
    chain = Stream() + Stream()
    assert list(chain) == [*range(10), *range(10)]
    picked = list(D.SubsetRandomSampler([3, 5, 7]))
    assert sorted(picked) == [3, 5, 7]
    drawn = list(D.WeightedRandomSampler([0.0, 1.0, 0.0, 3.0], 200))
    assert set(drawn) == {1, 3} and drawn.count(3) > drawn.count(1)
    assert sorted(D.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]
    assert isinstance(D.default_convert([np.ones(2), "x"])[0], pf.Tensor)
    with pytest.raises(ValueError, match="StackDataset"):
        D.StackDataset()
