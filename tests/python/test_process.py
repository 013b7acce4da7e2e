"""What could end the process, or bend its memory: exports, signals, forks, threads at exit and too
many of them, caches, mapped files. The attacks of tests/soak, for a moment each, and what is sure."""

import faulthandler
import importlib
import io
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hangs import HANG

import pyflame as pf

SOAK = pathlib.Path(__file__).resolve().parents[1] / "soak"
pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module")
def attacks():
    sys.path.insert(0, str(SOAK))
    yield lambda name: importlib.import_module(f"attacks.{name}")
    sys.path.remove(str(SOAK))


def program(code, *args, status=0, **env):
    """A process of its own; what it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "name",
    ["exports", "forks_under_threads", "signals_at_import", "signals_in_loops", "threads_at_exit"],
)
def test_attack(attacks, name):
    attacks(name).run(1, 1.0)


# ---- exports --------------------------------------------------------------------------------------
EXPORTS = {
    "numpy": lambda t: t.numpy(),
    "memoryview": lambda t: memoryview(t),
    "dlpack": lambda t: np.from_dlpack(t),
    "tensor": lambda t: pf.from_dlpack(t),
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_keeps_the_memory(kind):
    def churn():
        for i in range(20):
            pf.full((1000,), float(i)).sum().item()

    x = pf.ones(1000)
    seen = EXPORTS[kind](x)
    x.data = pf.zeros(5)
    churn()
    assert (np.asarray(seen if kind != "tensor" else seen.tolist()) == 1).all()
    m = pf.nn.Linear(40, 25)
    m.weight.requires_grad_(False)
    before = np.array(m.weight.tolist(), dtype=np.float32)
    seen = EXPORTS[kind](m.weight)
    m.double()
    churn()
    np.testing.assert_array_equal(seen if kind != "tensor" else seen.tolist(), before)


def test_an_export_still_shares():
    x = pf.zeros(6).reshape(2, 3)
    n, view = x.numpy(), memoryview(x)
    x.add_(1)
    n[0, 0] = 5
    assert x.tolist() == [[5, 1, 1], [1, 1, 1]] and view[0, 0] == 5
    del x
    n[1, 1] = 7
    assert view[1, 1] == 7 and view.shape == (2, 3)


# ---- limits of memory ------------------------------------------------------------------------------
LIMITED = """
import resource, sys
import pyflame as pf
pf.ones(3).sum().item()
name, room = sys.argv[1], int(sys.argv[2]) << 20
line = {"DATA": "VmData", "AS": "VmSize"}[name]
used = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(line)) << 10
resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (used + room, resource.RLIM_INFINITY))
calls = {
    "product": lambda: pf.randn(300, 300) @ pf.randn(300, 300),
    "convolution": lambda: pf.nn.functional.conv2d(pf.randn(2, 3, 32, 32), pf.randn(8, 3, 3, 3)),
    "svd": lambda: pf.linalg.svd(pf.randn(60, 60)),
    "solve": lambda: pf.linalg.solve(pf.randn(60, 60), pf.randn(60)),
    "fft": lambda: pf.fft.fft(pf.randn(1000)),
    "large": lambda: pf.ones(1 << 30),
    "sort": lambda: pf.sort(pf.randn(200000)),
}
for what, call in calls.items():
    try:
        call()
        pf.synchronize()
    except pf.OutOfMemoryError as e:
        assert f"RLIMIT_{name}, ulimit" in str(e) or "limit" not in str(e), e
        print(what, "RLIMIT" in str(e))
assert (pf.ones(1000) + 1).sum().item() == 2000
"""


@pytest.mark.parametrize("name", ["DATA", "AS"])
@pytest.mark.parametrize("room", [30, 60, 100, 280, 400, 520, 600, 640, 680, 760, 900])
def test_little_memory(name, room):
    """Whatever is left: results, or an error that names the limit. Libraries end the process, or ask
    for ever."""
    assert "large True" in program(LIMITED, name, room)


# ---- import ---------------------------------------------------------------------------------------
AGAIN = """
import pyflame as pf
x = pf.nn.Parameter(pf.ones(3))
import importlib, sys
importlib.reload(pf)
def leave_out(names):
    kept = {n: sys.modules.pop(n) for n in names}
    try:
        import pyflame
    except ImportError as e:
        assert "in this process already" in str(e), e
    else:
        raise AssertionError("imported twice")
    for n in [n for n in sys.modules if n.partition(".")[0] == "pyflame"]:
        del sys.modules[n]
    sys.modules.update(kept)
mine = [n for n in sys.modules if n.partition(".")[0] == "pyflame"]
others = {n: sys.modules[n] for n in mine}
leave_out(mine)
sys.modules.update(others)
leave_out([n for n in mine if n != "pyflame._C"])
sys.modules.update(others)
leave_out(["pyflame"])
sys.modules.update(others)
(x * 2).sum().backward()
assert x.grad.tolist() == [2, 2, 2] and isinstance(x, pf.nn.Parameter)
"""


def test_a_second_import_is_refused():
    program(AGAIN)


def test_another_interpreter_is_refused():
    interpreters = pytest.importorskip("_xxsubinterpreters")
    assert interpreters
    program(
        """
        import _xxsubinterpreters as interpreters
        import sys
        import pyflame as pf
        x = pf.ones(3)
        one = interpreters.create()
        code = f"import sys; sys.path[:] = {sys.path!r}\\n"
        code += "try:\\n    import pyflame\\nexcept ImportError as e:\\n    assert 'pyflame' in str(e) or '_C' in str(e), e\\n"
        code += "else:\\n    raise AssertionError('imported')"
        interpreters.run_string(one, code)
        interpreters.destroy(one)
        assert (x + 1).tolist() == [2, 2, 2]
        """
    )


def test_a_module_that_is_freed_before_it_is_initialized():
    """What a KeyboardInterrupt does between importlib's two steps."""
    program(
        """
        import importlib.util, pathlib, sys
        package = pathlib.Path(sys.argv[1])
        path = next(package.glob("_C*.so"))
        for _ in range(3):
            spec = importlib.util.spec_from_file_location("pyflame._C", path)
            module = importlib.util.module_from_spec(spec)
            del module
        import pyflame as pf
        assert (pf.ones(3) + 1).tolist() == [2, 2, 2]
        """,
        pathlib.Path(pf._C.__file__).parent,
    )


def test_a_signal_while_the_module_is_initialized():
    """One that has come is raised before anything is bound; then it can be imported."""
    program(
        """
        import importlib.util, pathlib, signal, sys
        path = next(pathlib.Path(sys.argv[1]).glob("_C*.so"))
        spec = importlib.util.spec_from_file_location("pyflame._C", path)
        module = importlib.util.module_from_spec(spec)

        def trip(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, trip)
        try:
            signal.raise_signal(signal.SIGINT), spec.loader.exec_module(module)
            raise SystemExit("no KeyboardInterrupt")
        except KeyboardInterrupt:
            pass
        del module
        import pyflame as pf
        assert (pf.ones(3) + 1).tolist() == [2, 2, 2]
        """,
        pathlib.Path(pf._C.__file__).parent,
    )


# ---- numbers of threads ---------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, -1, 1025, 100000, 2**31, 2**63, -(2**70), 10**400])
def test_numbers_of_threads_that_cannot_be(n):
    before = pf.get_num_threads()
    with pytest.raises(pf.ValueError, match="expected 1 to 1024"):
        pf.set_num_threads(n)
    assert pf.get_num_threads() == before


@pytest.mark.parametrize("n", [1.5, "3", True, [2]])
def test_what_is_no_number_of_threads(n):
    with pytest.raises(TypeError, match="set_num_threads: got an object of type"):
        pf.set_num_threads(n)


@pytest.mark.parametrize(
    "text, threads, said",
    [
        ("3", 3, ""),
        ("5,2", 5, ""),
        ("100000", 1024, "taken as 1024"),
        ("99999999999999999999", 1024, "taken as 1024"),
        ("-4", None, "is ignored"),
        ("many", None, "is ignored"),
        ("", None, ""),
    ],
)
@pytest.mark.parametrize("name", ["PYFLAME_NUM_THREADS", "OMP_NUM_THREADS"])
def test_threads_by_the_environment(name, text, threads, said):
    others = {"PYFLAME_NUM_THREADS": "", "OMP_NUM_THREADS": ""} | {name: text}
    out = program("import pyflame as pf; print(pf.get_num_threads())", **others)
    # libgomp has words of its own for what it cannot read.
    ours = "\n".join(line for line in out.splitlines() if "libgomp" not in line)
    assert re.search(rf"^{threads or '[0-9]+'}$", ours, re.M), out
    assert said in ours and (name in ours) == bool(said)


# ---- caches ---------------------------------------------------------------------------------------
def test_many_structures_take_bounded_memory():
    """Every product of unary operations is a plan of its own: 1.2 KB, if they were kept."""
    out = program(
        """
        import gc, itertools, math, random, sys
        import pyflame as pf

        names = "sin cos tanh exp neg abs square sigmoid relu sqrt erf floor".split()
        fns = [getattr(pf, n) for n in names]
        dice = random.Random(1)
        x = pf.tensor([0.25, 1.5])

        def one(chain):
            y = x
            for i in chain:
                y = fns[i](y)
            return y.tolist()

        def rss():
            gc.collect()
            return int(open("/proc/self/statm").read().split()[1]) * 4096

        chains = itertools.product(range(len(fns)), repeat=5)
        first = [next(chains) for _ in range(8000)]
        want = {c: one(c) for c in first[:50]}
        for c in first[50:]:
            one(c)
        begin = rss()
        for c in itertools.islice(chains, 60000):
            one(c)
        grown = rss() - begin
        for c, values in want.items():  # forgotten meanwhile, and made again
            assert str(one(c)) == str(values)
        print(grown)
        """
    )
    assert int(out.split()[-1]) < 24 << 20, out


def test_leaves_of_a_region_that_is_never_left():
    class Count:
        alive = 0

    with pf.autocast("cpu", dtype=pf.bfloat16):
        w = pf.randn(8, 8)
        before = pf.memory_allocated() if hasattr(pf, "memory_allocated") else None
        for _ in range(2000):
            leaf = pf.ones(64, 8, requires_grad=True)
            (leaf @ w).sum().item()
        if before is not None:
            assert pf.memory_allocated() - before < 1 << 20


# ---- signals in products ------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 2])
def test_signals_while_products_run(threads):
    """oneDNN's kernels may have a heap address in the stack pointer when a handler's frame is made."""
    out = program(
        """
        import signal, sys, time
        import pyflame as pf

        count = 0

        def handler(*_):
            global count
            count += 1

        signal.signal(signal.SIGALRM, handler)
        pf.set_num_threads(int(sys.argv[1]))
        a = pf.randn(100, 3000)
        others = [pf.randn(3000, n) for n in (2, 17, 48)]
        want = [(a @ b).tolist() for b in others]
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        end = time.monotonic() + 1.5
        while count <= 10 or time.monotonic() < end:
            for _ in range(10):
                results = [a @ b for b in others]
            assert [r.tolist() for r in results] == want
            [bytes(1000) for _ in range(50)]
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert count > 10
        print("done")
        """,
        threads,
    )
    assert out == "done\n"


# ---- mapped files ---------------------------------------------------------------------------------
@pytest.fixture
def mapped(tmp_path):
    path = tmp_path / "x.safetensors"
    x = pf.arange(100000, dtype=pf.float32)
    pf.save({"x": x, "y": pf.ones(5)}, path)
    other = tmp_path / "other.safetensors"
    pf.save({"x": x}, other)
    return path, pf.load(path, mmap=True), pf.load(other, mmap=True)


READS = {
    "sum": lambda t: t.sum(),
    "item": lambda t: t[-1].item(),
    "tolist": lambda t: t.tolist(),
    "add": lambda t: t + 1,
    "sort": lambda t: pf.sort(t),
    "product": lambda t: t.reshape(100, 1000) @ pf.ones(1000, 2),
    "into": lambda t: pf.zeros(100000).copy_(t),
    "to a file object": lambda t: pf.save({"t": t}, io.BytesIO()),
    "to a device": lambda t: t.to("paranoid").cpu(),
    "into one of a device": lambda t: pf.zeros(100000, device="paranoid").copy_(t).cpu(),
}


def test_saving_a_mapped_file_that_somebody_cut_keeps_the_old_one(mapped, tmp_path):
    path, tree, other = mapped
    os.truncate(path, 0)
    for _ in range(2):  # zeros by then
        with pytest.raises(pf.FileError, match="became shorter"):
            pf.save(tree, tmp_path / "other.safetensors")
    assert pf.load(tmp_path / "other.safetensors")["x"].tolist() == other["x"].tolist()


@pytest.mark.parametrize("how", READS)
def test_a_mapped_file_that_somebody_cuts(mapped, how):
    path, tree, other = mapped
    faulthandler.enable()  # takes SIGBUS, too
    assert tree["x"][:3].tolist() == [0, 1, 2]
    again = pf.load(path, mmap=True)
    os.truncate(path, 8192)
    for t in (tree["x"], again["x"]):
        for _ in range(2):
            with pytest.raises(pf.FileError, match="x.safetensors' became shorter"):
                READS[how](t)
    READS[how](other["x"])
    assert other["x"].sum().item() == pytest.approx(100000 * 99999 / 2, rel=1e-5)
    with pytest.raises(pf.FileError):
        pf.load(path)
    path.unlink()


@pytest.mark.parametrize("show", [pf.Tensor.numpy, np.asarray, np.from_dlpack, memoryview])
def test_what_was_cut_is_not_shown_to_others(mapped, show):
    path, tree, _ = mapped
    x = tree["x"]
    os.truncate(path, 8192)
    assert show(x[:100])[3] == 3 and show(x[:0]).shape == (0,)  # these are there
    with pytest.raises((pf.FileError, BufferError), match="became shorter"):
        show(x[-10:])
    with pytest.raises((pf.FileError, BufferError), match="became shorter"):
        show(x.reshape(100, 1000)[:, ::3])


def test_numpy_reads_zeros_of_what_was_cut(mapped):
    path, tree, _ = mapped
    n = tree["x"].numpy()
    os.truncate(path, 8192)
    assert n[3] == 3 and n[-1] == 0
    with pytest.raises(pf.FileError, match="became shorter"):
        tree["x"].sum()


def whole(path, shape=(64, 1024), dtype="i4"):
    values = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    np.savez(path, x=values) if path.suffix == ".npz" else np.save(path, values)
    return values


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_arrays_of_a_file_that_somebody_cuts(name, tmp_path):
    values = whole(tmp_path / name)
    data = pf.datasets.NumPyArrays(tmp_path / name)
    assert data[63][0].tolist() == values[63].tolist()
    os.truncate(tmp_path / name, 8192)
    for _ in range(2):
        with pytest.raises(
            pf.FileError, match=f"pf.datasets.NumPyArrays: .*{name}.* became shorter"
        ):
            data[63]
    other = pickle.loads(pickle.dumps(pf.datasets.NumPyArrays(whole_again(tmp_path))))
    assert other[1][0].tolist() == values[1].tolist()  # a copy: nothing to be cut


def whole_again(folder):
    whole(folder / "again.npy")
    return folder / "again.npy"


@pytest.mark.parametrize("name", ["x.npy", "x.bin"])
def test_tokens_of_a_file_that_somebody_cuts(name, tmp_path):
    from pyflame.training import token_files

    values = np.arange(60000, dtype="u2")
    np.save(tmp_path / name, values) if name == "x.npy" else values.tofile(tmp_path / name)
    data = pf.datasets.Tokens(tmp_path / name, 16)
    spans = token_files.TokenData(str(tmp_path / name), 16)
    assert data[3000][0][0].item() == 48000
    os.truncate(tmp_path / name, 4096)
    with pytest.raises(pf.FileError, match="pf.datasets.Tokens: .*became shorter"):
        data[3000]
    with pytest.raises(pf.FileError, match="became shorter"):
        spans.held_out.windows([0])
    with pytest.raises(pf.FileError, match="became shorter"):
        token_files._fingerprint(data)


@pytest.mark.parametrize("shared", [True, False])
def test_from_file_of_a_file_that_somebody_cuts(shared, tmp_path):
    name = tmp_path / "numbers"
    np.arange(40000, dtype="f4").tofile(name)
    x = pf.from_file(str(name), shared=shared, size=40000)
    assert x[39999].item() == 39999
    os.truncate(name, 4096)
    with pytest.raises(pf.FileError, match="numbers' became shorter"):
        x.sum().item()
    with pytest.raises(pf.FileError, match="has 4096 bytes; expected 160000"):
        pf.from_file(str(name), shared=False, size=40000)


def test_from_file_gets_its_room_at_once(tmp_path):
    x = pf.from_file(str(tmp_path / "new"), shared=True, size=1 << 20)
    assert os.stat(tmp_path / "new").st_blocks * 512 >= 4 << 20  # no hole that a full disk leaves
    x.fill_(3)
    assert np.fromfile(tmp_path / "new", "f4").sum() == 3 << 20
    with pytest.raises((pf.FileError, pf.ValueError), match="room|size"):
        pf.from_file(str(tmp_path / "large"), shared=True, size=1 << 58)
    for missing in (tmp_path / "none", tmp_path / "new" / "none", tmp_path / "loop"):
        if missing.name == "loop":
            missing.symlink_to(missing)
        with pytest.raises(pf.FileError, match="pf.from_file: .* cannot be opened"):
            pf.from_file(str(missing), size=1)
    with pytest.raises(FileNotFoundError):
        pf.from_file(str(tmp_path / "none"), size=1)
    with pytest.raises(pf.ValueError, match="pf.from_file: .* with a NUL in it"):
        pf.from_file("a\0b", size=1)


def test_replaced_by_rename_a_mapped_file_stays(mapped):
    path, tree, _ = mapped
    pf.save({"x": pf.zeros(3)}, path)
    assert tree["x"].sum().item() == pytest.approx(100000 * 99999 / 2, rel=1e-5)


def test_other_bus_errors_are_not_ours(tmp_path):
    pf.save({"x": pf.ones(5)}, tmp_path / "x.safetensors")
    program(
        """
        import mmap, os, sys
        import pyflame as pf
        folder = sys.argv[1]
        kept = pf.load(folder + "/x.safetensors", mmap=True)
        with open(folder + "/other", "wb+") as f:
            f.write(bytes(20000))
            f.flush()
            m = mmap.mmap(f.fileno(), 0)
            os.truncate(folder + "/other", 0)
            m[15000]
        """,
        tmp_path,
        status=-signal.SIGBUS,
    )


@pytest.mark.parametrize("what", ["m[15000]", "os.kill(os.getpid(), signal.SIGBUS)"])
def test_other_handlers_end_the_process_once(tmp_path, what):
    """faulthandler between two mapped files puts our handler back and raises the signal again."""
    pf.save({"x": pf.ones(5)}, tmp_path / "x.safetensors")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                f"""
                import faulthandler, mmap, os, signal, sys
                import pyflame as pf
                folder = sys.argv[1]
                kept = [pf.load(folder + "/x.safetensors", mmap=True)]
                faulthandler.enable()
                kept += [pf.load(folder + "/x.safetensors", mmap=True)]
                with open(folder + "/other", "wb+") as f:
                    f.write(bytes(20000))
                    f.flush()
                    m = mmap.mmap(f.fileno(), 0)
                    os.truncate(folder + "/other", 0)
                {what}
                """
            ),
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == -signal.SIGBUS
    assert done.stderr.count("Fatal Python error: Bus error") == 1


# ---- tensors that other threads give other memory --------------------------------------------------
@pytest.mark.parametrize("how", ["numpy", "copy"])
def test_another_thread_gives_a_tensor_other_memory(how):
    out = program(
        """
        import sys, threading
        import pyflame as pf
        copies = sys.argv[1] == "copy"
        n = 4_000_000 if copies else 300_000
        x, stop, others = pf.zeros(n), threading.Event(), []

        def rebind():
            while not stop.is_set():
                x.data = pf.ones(n)
                others[:] = [pf.full((n,), 7.0).sum().item()]  # takes what was given back

        thread = threading.Thread(target=rebind)
        thread.start()
        wrong = 0
        for _ in range(12 if copies else 150):
            x.data = pf.ones(n) * 1
            y = x.to("paranoid").cpu().numpy() if copies else x.numpy()
            wrong += not (y == 1).all()
        stop.set()
        thread.join()
        print(wrong)
        """,
        how,
    )
    assert out == "0\n"


# ---- workers --------------------------------------------------------------------------------------
class Numbers(pf.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return float(i)


def test_workers_do_not_run_the_programs_handlers(tmp_path):
    """SIGTERM ends a worker, whatever the main process does at one."""
    out = program(
        """
        import signal, sys
        import pyflame as pf

        def handler(*_):
            print("handler", flush=True)

        signal.signal(signal.SIGTERM, handler)

        class Numbers(pf.utils.data.Dataset):
            def __len__(self):
                return 64

            def __getitem__(self, i):
                return float(i)

        for _ in range(3):
            for batch in pf.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2):
                break
        print("done")
        """
    )
    assert out == "done\n"


# ---- lazy modules ---------------------------------------------------------------------------------
def test_a_fork_waits_for_a_thread_that_imports():
    program(
        """
        import os, signal, threading, time
        import pyflame as pf

        class Slow:  # a finder that takes its time
            def find_spec(self, name, path=None, target=None):
                if name == "pyflame.optim":
                    started.set()
                    time.sleep(0.3)

        import sys
        started = threading.Event()
        sys.meta_path.insert(0, Slow())
        threading.Thread(target=lambda: pf.optim, daemon=True).start()
        started.wait()
        pid = os.fork()
        if pid == 0:
            signal.alarm(600)
            pf.optim.SGD([pf.ones(3, requires_grad=True)], lr=0.1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """
    )


def test_threads_that_import_each_others_modules():
    program(
        """
        import importlib, sys, threading, time
        import pyflame as pf

        class Slow:  # keeps the lock of pyflame.cuda for a while
            def find_spec(self, name, path=None, target=None):
                if name == "pyflame.cuda":
                    started.set()
                    time.sleep(0.3)

        started = threading.Event()
        sys.meta_path.insert(0, Slow())
        by_statement = threading.Thread(
            target=lambda: importlib.import_module("pyflame.cuda"), daemon=True
        )
        by_statement.start()
        started.wait()
        by_name = threading.Thread(target=lambda: pf.cuda, daemon=True)
        by_name.start()
        for thread in (by_statement, by_name):
            thread.join(600)
            assert not thread.is_alive()
        """
    )
