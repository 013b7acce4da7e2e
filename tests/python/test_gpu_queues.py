"""Each stream has a queue of its own (src/gpu/queue.h): what waits for a program holds up its stream
and those that wait for its events, and no other."""

import pytest
import standin

pytestmark = standin.MARKS
cache, run = standin.cache, standin.run  # fixtures
vendors = pytest.mark.parametrize(
    "vendor",
    [pytest.param(standin.AS_NVIDIA, marks=standin.NEEDS_CUDA, id="nvidia"), pytest.param({}, id="amd")],
)  # fmt: skip

NOWHERE = "/proc/nowhere"  # no cache: everything is compiled

# Whatever takes softmax waits until `free()`.
HOLD = """
import contextlib, threading, time
pf.set_device("gpu")

def free():
    rtc.standin_hold_compile(None)

@contextlib.contextmanager
def held():
    rtc.standin_hold_compile(b"softmax")
    try:
        yield
    finally:
        free()  # the end of the process waits for compilers

def becomes(fn):
    limit = time.time() + 600
    while not fn():
        assert time.time() < limit
        time.sleep(0.001)

def event(stream):
    e = pf.Event()
    e.record(stream)
    return e

main = pf.cuda.current_stream()
a, b, c = (pf.cuda.Stream() for _ in range(3))
x = pf.arange(8.0)
(x * 2 + 1).tolist()
for s in (a, b, c):
    s.wait_stream(main)
"""


@vendors
def test_other_streams_go_on(run, vendor):
    run(
        HOLD
        + """
with held():
    with a:
        y = pf.softmax(x * 0, 0) * 8 + x
    last = event(a)
    with b:
        z = x * 2 + 1
        assert z.tolist() == [1, 3, 5, 7, 9, 11, 13, 15]  # read, too
    assert event(b).query() or not b.synchronize() and b.query()
    assert (x * 2 + 1).tolist()[7] == 15
    main.synchronize()
    assert not a.query() and not last.query()
    # Memory of another stream's goes round: the held one's is not among it.
    for n in range(20):
        assert (x + n).tolist()[0] == n
a.synchronize()
assert a.query() and last.query()
assert y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=3,
        **vendor,
    )


@vendors
def test_events_order_queues(run, vendor):
    run(
        HOLD
        + """
with held():
    with a:
        y = pf.softmax(x * 0, 0) * 8 + x  # 1 to 8
    first = event(a)
    with b:
        b.wait_event(first)
        z = y * 2
    second = event(b)
    # It was waited for as what it was: recorded anew it is over, and b is not.
    again = first
    again.record(c)
    becomes(again.query)
    assert not b.query() and not second.query()
    with c:
        c.wait_event(second)
        c.wait_event(first)  # its own
        w = z + 1
    main.wait_stream(c)
    y.add_(100)  # behind all of that
    third = event(main)
    with a:
        a.wait_event(third)  # back where it began
        u = y + w
    assert not any(s.query() for s in (main, a, b, c))
    fourth = event(a)
    waiting = threading.Thread(target=fourth.synchronize)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
waiting.join()
assert fourth.query()
a.synchronize()
assert w.tolist() == [3, 5, 7, 9, 11, 13, 15, 17]
assert u.tolist() == [101 + n + 2 * n + 3 for n in range(8)]
assert y.tolist() == [101 + n for n in range(8)]
# A query alone gets a chain going.
with held():
    with a:
        y = pf.log_softmax(x * 0, 0)
    with b:
        b.wait_stream(a)
        z = y + 1
    last = event(b)
    pf.flush()
    assert not last.query()
becomes(last.query)
becomes(b.query)
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=3,
        **vendor,
    )


def test_a_failure_follows_events(run):
    """It is told by each stream whose values it took, once, and by no other."""
    run(
        HOLD
        + """
main.synchronize()
rtc.standin_fail_compile(ctypes.c_int64(1))
with held():  # a failure that is known at the launch is told there
    with a:
        y = pf.softmax(x, 0)
    first = event(a)
    with b:
        b.wait_event(first)
        z = y + 1
    with c:
        u = x * 2 + 1
        assert u.tolist()[1] == 3
c.synchronize()
main.synchronize()
assert (x * 2 + 1).tolist()[2] == 5
said = "could not be compiled for gfx942"
pf.debug.empty_cache("gpu")  # waits for the device, and tells nobody
text = raises(pf.BackendError, said, first.synchronize)
assert "launched for 'softmax'" in text
raises(pf.BackendError, said, b.synchronize)
b.synchronize()
with a:
    raises(pf.BackendError, said, y.tolist)
    y = pf.softmax(x * 0, 0)
    assert y.tolist() == [0.125] * 8
second = event(a)
second.synchronize()
with b:
    b.wait_event(second)
    assert (y + 1).tolist() == [1.125] * 8
    b.wait_event(first)  # the values that it stood for are still lost
    raises(pf.BackendError, said, b.synchronize)
pf.synchronize()
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=1,
    )


@vendors
def test_a_copy_between_devices_waits_for_its_streams(run, vendor):
    run(
        HOLD
        + """
here, there = x, pf.ones(8, device="gpu:1")
other = pf.cuda.Stream("gpu:1")
pf.synchronize()
with held():
    with a:
        y = pf.softmax(here * 0, 0) * 8
    # Between the default streams, while another one of the sender waits; to both of the receiver.
    assert (here + 1).to("gpu:1").tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    with other:
        assert here.to("gpu:1").tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    # From the one that waits: nobody is held up who does not need it.
    with a, other:
        z = y.to("gpu:1") + 1
    assert (there * 2).sum().item() == 16
    assert not other.query() and not a.query()
    with a:
        y.zero_()  # not before it was sent
    there = pf.zeros(8, device="gpu:1")
    with other:
        other.wait_stream(pf.cuda.current_stream("gpu:1"))
        there.copy_(z)
with other:
    assert z.tolist() == [2] * 8 and there.tolist() == [2] * 8
with a:
    assert y.tolist() == [0] * 8
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=3,
        PYFLAME_STANDIN_DEVICES=2,
        **vendor,
    )


def test_kernels_of_the_users_keep_their_place(run):
    run(
        HOLD
        + '''
scale = pf.kernel("""
extern "C" __global__ void scale(float* y, const float* x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
""")
y = pf.zeros(8)
scale(1, 32, (y, x, 3.0, 8))
assert y.tolist()[2] == 6
pf.synchronize()
with held():
    z = pf.softmax(x * 0, 0)
    scale(1, 32, (y, z, 16.0, 8))
    z = y + 1
    pf.flush()
    assert not main.query()
assert z.tolist() == [3] * 8
''',
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=2,
    )


def test_fork_while_several_queues_wait(run):
    run(
        HOLD
        + """
with held():
    with a:
        y = pf.softmax(x, 0)
    with b:
        b.wait_stream(a)
        z = y + 1
    last = event(b)
    pid = os.fork()
    if pid == 0:
        for touch in (z.cpu, last.query, last.synchronize, b.synchronize, lambda: last.record(a)):
            raises(pf.DeviceError, "forked", touch)
        del y, z, last
        assert (pf.ones(3, device="cpu") * 2).sum().item() == 6
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
b.synchronize()
assert last.query() and abs(z.sum().item() - 9) < 1e-5
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=2,
    )


# Tensors that streams of two devices write in turns, ordered by events alone, against NumPy.
RANDOM = """
import random, threading
pf.set_device("gpu")
ROWS, COLS = 6, 10
programs = [
    (lambda x, y: x + y * 3, lambda x, y: x + y * 3),
    (lambda x, y: pf.maximum(x, y) - 7, lambda x, y: np.maximum(x, y) - 7),
    (lambda x, y: x.flip(1) ^ y, lambda x, y: x[:, ::-1] ^ y),
    (lambda x, y: x.cumsum(1, dtype=pf.int32) + y, lambda x, y: x.cumsum(1, dtype="i4") + y),
    (lambda x, y: pf.where(x > y, x - y, y), lambda x, y: np.where(x > y, x - y, y)),
    (lambda x, y: x.sort(1)[0] + y[:1], lambda x, y: np.sort(x, 1) + y[:1]),
    (lambda x, y: x * 0 + y.amax(0), lambda x, y: x * 0 + y.max(0)),
    (lambda x, y: pf.cat([x[3:], y[:3]]), lambda x, y: np.concatenate([x[3:], y[:3]])),
    (lambda x, y: (x & 15) * (y & 15), lambda x, y: (x & 15) * (y & 15)),
    (lambda x, y: pf.zeros_like(x), lambda x, y: x * 0),
    (lambda x, y: x.index_select(1, pf.tensor(list(range(9, -1, -1)), device=x.device)) - y,
     lambda x, y: x[:, ::-1] - y),
]

class Cell:
    '''A tensor with its values, the event of its last write, and those of the reads since.'''
    def __init__(self, device, value):
        self.device, self.tensor = device, pf.tensor(value, device=device)
        self.value, self.written, self.read = value, None, []

def work(seed, steps):
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    fresh = lambda: numbers.integers(-99, 99, (ROWS, COLS)).astype("i4")
    devices = ["gpu:0", "gpu:1"]
    cells = [Cell(d, fresh()) for d in devices for _ in range(4)]
    for d in devices:
        pf.synchronize(d)
    streams = {d: [pf.cuda.Stream(d) for _ in range(3)] for d in devices}

    def before(stream, reads, write=None):
        for c in reads:
            if c.written:
                stream.wait_event(c.written)
        if write:
            for e in write.read + [write.written] * (write.written is not None):
                stream.wait_event(e)

    def after(stream, reads, write=None):
        e = pf.Event(stream.device)
        e.record(stream)
        for c in reads:
            c.read.append(e)
        if write:
            write.written, write.read = e, []

    for step in range(steps):
        d = rng.choice(devices)
        s = rng.choice(streams[d])
        local = [c for c in cells if c.device == d]
        to = rng.choice(local)
        kind = rng.random()
        if kind < 0.6:
            x, y = rng.choice(local), rng.choice(local)
            ours, theirs = rng.choice(programs)
            before(s, [x, y], to)
            with s:
                to.tensor.copy_(ours(x.tensor, y.tensor))
            to.value = theirs(x.value, y.value).astype("i4")
            after(s, [x, y], to)
        elif kind < 0.8:  # from either device; both of its streams are named
            x = rng.choice(cells)
            t = rng.choice(streams[x.device]) if x.device != d else s
            before(t, [x])
            before(s, [x], to)
            with t, s:
                to.tensor.copy_(x.tensor)
            to.value = x.value.copy()
            after(t, [x])
            after(s, [x], to)
        elif kind < 0.9:
            value = fresh()
            before(s, [], to)
            with s:
                to.tensor.copy_(pf.tensor(value, device="cpu"))
            to.value = value
            after(s, [], to)
        elif kind < 0.97:
            before(s, [to])
            with s:
                got = to.tensor.cpu().numpy()
            assert np.array_equal(got, to.value), (seed, step)
        else:
            rng.choice([s.synchronize, s.query, pf.flush, lambda: pf.debug.empty_cache(d)])()
    pf.synchronize()
    for c in cells:
        assert np.array_equal(c.tensor.cpu().numpy(), c.value), seed
"""


@vendors
@pytest.mark.parametrize("start", ["cold", "warm"])
def test_random_streams_against_a_serial_run(run, vendor, start):
    """Cold, every program is compiled meanwhile; warm, what is kept back are batches."""
    cold = {"XDG_CACHE_HOME": NOWHERE, "PYFLAME_COMPILE_THREADS": 2}
    run(
        RANDOM
        + f"""
wrong = []
def one(seed):
    pf.set_device("gpu")
    try:
        work(seed, {120 if start == "cold" else 500})
    except BaseException as error:
        wrong.append(repr(error))
threads = [threading.Thread(target=one, args=(seed,)) for seed in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong, wrong
one(9)
assert not wrong, wrong
assert pf.debug.device_statistics("gpu")["graphs"] > 0
""",
        PYFLAME_LAUNCH_BATCHES=1,
        PYFLAME_STANDIN_DEVICES=2,
        PYFLAME_STANDIN_DELAY_US=300,
        **{**(cold if start == "cold" else {}), **vendor},
    )


def test_a_failure_is_told_once_to_those_who_wait_for_later_work(run):
    """The stream itself is never waited for."""
    run(
        HOLD
        + """
main.synchronize()
rtc.standin_fail_compile(ctypes.c_int64(1))
with held():
    with a:
        y = pf.softmax(x, 0)
    main.wait_event(event(a))
    z = x * 2 + 1
raises(pf.BackendError, "launched for 'softmax'", z.tolist)
for k in range(3):
    with a:
        z = x * 2 + 1
    main.wait_event(event(a))
    assert (x * 2 + 1).tolist()[2] == z.tolist()[2] == 5
raises(pf.BackendError, "launched for 'softmax'", a.synchronize)
a.synchronize()
""",
        XDG_CACHE_HOME=NOWHERE,
        PYFLAME_COMPILE_THREADS=1,
    )
