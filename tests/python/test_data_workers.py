"""Worker processes of DataLoader. Datasets hold NumPy arrays: workers are processes of the CPU."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import pyflame as pf
from pyflame.utils import data as D

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
    with pytest.raises(RuntimeError, match="killed by SIGKILL"):
        values(D.DataLoader(Deadly(), batch_size=4, num_workers=2))
    with pytest.raises(RuntimeError, match="within 0.2 s"):
        values(D.DataLoader(Rows(3.0), batch_size=4, num_workers=1, timeout=0.2))


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


def test_workers_end_with_an_interrupt():
    program = textwrap.dedent("""
        import os, signal, time, numpy as np
        from pyflame.utils import data as D
        class Slow(D.Dataset):
            def __len__(self): return 1000
            def __getitem__(self, i):
                time.sleep(0.01)
                return np.float32(i)
        loader = D.DataLoader(Slow(), batch_size=10, num_workers=2)
        pids = []
        try:
            for k, _ in enumerate(loader):
                if k == 2:
                    import multiprocessing
                    pids = [p.pid for p in multiprocessing.active_children()]
                    os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pass
        assert len(pids) == 2
        def alive(pid):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return False
            return True
        print("left", sum(alive(p) for p in pids))
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "left 0" and "Traceback" not in done.stderr


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

        end = time.monotonic() + 20
        while pids and time.monotonic() < end:
            pids = [pid for pid in pids if alive(pid)]
            time.sleep(0.01)
        print("left", len(pids))
        os._exit(0)  # which ends no children
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
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
