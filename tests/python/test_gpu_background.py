"""Programs are compiled by threads of their own while launches queue up behind them
(src/gpu/builder.h): order, errors, the end of the process, forks, several threads."""

import pytest
import standin

pytestmark = standin.MARKS
cache, run = standin.cache, standin.run  # fixtures

NOWHERE = "/proc/nowhere"  # no cache: everything is compiled

# Launches, fills, copies of every kind, streams and events, none of which waits.
WORK = """
def work(device="rocm"):
    pf.manual_seed(7)
    other = pf.Stream(device)
    x = pf.arange(600, device=device).float()
    host = pf.tensor(np.arange(600, dtype="f4") / 600, device="cpu").pin_memory()
    y = host.to(device, non_blocking=True) * 3 - 1
    z = pf.zeros(600, device=device)
    z[100:200] = 5.0
    z += y.reshape(20, 30).t().reshape(600)
    done = pf.Event(device)
    done.record()
    with other:
        other.wait_event(done)
        w = pf.softmax((x + z).reshape(30, 20), 1) @ y[:40].reshape(20, 2)
        back = pf.Event(device)
        back.record()
    back.wait()
    w = w + pf.tensor([[0.5, -0.5]], device=device)
    tables = [pf.full((33,), 2.0, device=device), pf.full((7,), 3.0, device=device)]
    for t in tables:
        t.grad = t * t
    norm = pf.nn.utils.clip_grad_norm_(tables, 1.0)
    return [w.sum(0), z, norm, tables[0].grad, pf.cat([z[::2], w.flatten()]), w.argmax()]

def numbers():
    return [t.cpu().numpy().tobytes() for t in work()]
"""


def test_what_waits_keeps_its_order(run, tmp_path):
    save = "open(os.environ['OUT'], 'wb').write(b'|'.join(numbers()))\n"
    results = []
    for threads in (0, 1, 4):
        out = tmp_path / str(threads)
        run(WORK + save, XDG_CACHE_HOME=NOWHERE, PYFLAME_COMPILE_THREADS=threads, OUT=out)
        results.append(out.read_bytes())
    assert results[0] and results[0] == results[1] == results[2]


def test_the_caller_goes_on(run):
    """The error of a program is known once it was compiled: a launch does not wait for that."""
    run(
        """
        x = pf.tensor([1.0, 2.0], device="rocm")
        pf.synchronize()
        rtc.standin_fail_compile(ctypes.c_int64(1))
        y = pf.softmax(x, 0)
        pf.flush()
        z = x + 1
        text = raises(pf.BackendError, "could not be compiled for gfx942", lambda: z.cpu())
        assert "launched for 'softmax'" in text
        assert pf.softmax(x, 0).sum().item() == 1 and (x + 1).tolist() == [2, 3]
        """,
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=1,
    )
    run(
        """
        x = pf.tensor([1.0, 2.0], device="rocm")
        rtc.standin_fail_compile(ctypes.c_int64(1))
        y = pf.softmax(x, 0)
        raises(pf.BackendError, "could not be compiled for gfx942", lambda: y.cpu())
        raises(pf.BackendError, "could not be compiled for gfx942", lambda: y + 1)
        """,
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=0,
    )


def test_the_library_of_products_is_opened_before_there_are_products(run):
    """By one of the threads, where there are some and products are to run there."""
    code = """
    import time
    pf.ones(4, device="rocm").tolist()
    is_open = lambda: "libhipblaslt" in open("/proc/self/maps").read()
    end = time.monotonic() + {wait}
    while not is_open() and time.monotonic() < end:
        time.sleep(0.01)
    assert is_open() == {opened}
    if {opened}:
        assert (pf.eye(3, device="rocm") @ pf.ones(3, 2, device="rocm")).sum().item() == 6
    """
    library = {"PYFLAME_HIPBLASLT_LIBRARY": standin.HIP.parent / "products/libhipblaslt.so"}
    run(code.format(wait=600, opened=True), PYFLAME_COMPILE_THREADS=1, **library)
    run(code.format(wait=0, opened=False), PYFLAME_COMPILE_THREADS=0, **library)
    run(code.format(wait=1, opened=False), PYFLAME_GPU_GEMM="own", **library)
    # Whose setting is wrong, or whose library is none, is told when it is needed.
    run("pf.ones(4, device='rocm').sum().item()", PYFLAME_GPU_GEMM="other", **library)


def test_groups_that_gather_share_a_program(run, tmp_path):
    """And each is found in the cache by itself."""
    code = """
    x = pf.tensor([0.5, 2.0], device="rocm")
    y = pf.tensor([[1.0], [3.0]], device="rocm")
    results = []
    for f in (lambda: x * 2 - 1, lambda: (x + 1).exp(), lambda: y * 3, lambda: x.log() * x,
              lambda: (y - 1).abs().sqrt(), lambda: x > 1, lambda: -(x * x)):
        results.append(f())
        pf.flush()
    got = [r.tolist() for r in results]
    assert got[0] == [0, 3] and got[2] == [[3], [9]] and got[6] == [-0.25, -4], got
    """
    few = """
    made = pf.debug.device_statistics("rocm")["kernels_compiled"]
    assert 1 <= int(made) < 7, made
    """
    one = """
    x = pf.tensor([0.5, 2.0], device="rocm")
    rtc.standin_fail_compile(ctypes.c_int64(1))
    assert (-(x * x)).tolist() == [-0.25, -4]
    """
    run(code + few, XDG_CACHE_HOME=tmp_path, PYFLAME_COMPILE_THREADS=3)
    run(one, XDG_CACHE_HOME=tmp_path)
    # Where they cannot be compiled together each is tried alone.
    run(
        """
    import time
    x = pf.tensor([0.5, 2.0], device="rocm")
    pf.synchronize()
    rtc.standin_fail_compile(ctypes.c_int64(2))
    rtc.standin_hold_compile(b"PF_KERNEL")  # until all are there
    results = []
    for f in (lambda: x * 2, lambda: x + 1, lambda: x.exp(), lambda: x - 3):
        results.append(f())
        pf.flush()
        if len(results) == 1:
            time.sleep(0.3)  # until the thread, which may be opening a library, has it alone
    rtc.standin_hold_compile(None)
    assert results[1].tolist() == [1.5, 3] and results[3].tolist() == [-2.5, -1]
    """,
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=1,
    )


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "raise SystemExit"])
def test_the_process_may_end_before_its_programs(run, end):
    run(WORK + f"kept = work()\n{end}\n", XDG_CACHE_HOME=NOWHERE, PYFLAME_COMPILE_THREADS=2)


def test_fork_while_programs_are_compiled(run):
    run(
        WORK
        + """
kept = work()
pid = os.fork()
if pid == 0:
    raises(pf.DeviceError, "forked", lambda: kept[0].cpu())
    assert (pf.ones(3, device="cpu") * 2).sum().item() == 6
    sys.exit(0)  # the threads of the parent are not waited for
assert os.waitpid(pid, 0)[1] == 0
assert np.isfinite(kept[1].cpu().numpy()).all()
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=2,
    )


def test_threads_that_need_programs_at_once(run):
    run(
        WORK
        + """
import threading
results, errors = {}, []
def one(i):
    try:
        x = pf.full((64,), float(i), device="rocm")
        for k in range(6):
            x = (x * 0.5 + k).reshape(8, 8).t().reshape(64)
            x = x + pf.softmax(x.reshape(4, 16), 1).sum()
        results[i] = x.cpu().numpy()
    except Exception as e:
        errors.append(e)
threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert not errors, errors
again = dict(results)
for i in range(4):
    one(i)
    assert (results[i] == again[i]).all()
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=3,
    )


def test_an_event_behind_a_program_is_not_over(run):
    run(
        """
        import time
        x = pf.arange(100, device="rocm").float()
        pf.synchronize()
        event = pf.Event("rocm")
        y = x.exp()
        event.record()
        while not event.query():  # polling gets there too
            time.sleep(0.001)
        event.synchronize()
        assert pf.streams.current_stream("rocm").query()
        assert y[0].item() == 1
        """,
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=1,
    )


def test_an_unknown_source_of_products_is_told(run):
    code = "(pf.eye(3, device='rocm') @ pf.ones(3, 2, device='rocm')).sum().item()"
    assert "PYFLAME_GPU_GEMM='Own' is ignored: expected own" in run(code, PYFLAME_GPU_GEMM="Own")
    assert "is ignored" not in run(code, PYFLAME_GPU_GEMM="auto")
