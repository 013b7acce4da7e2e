"""Small launches are handed to the driver together, as a graph: everything that they might be in order
with still is. On AMD that has to be asked for."""

import re
from pathlib import Path

import pytest
import standin

pytestmark = standin.MARKS
vendors = pytest.mark.parametrize(
    "vendor",
    [
        pytest.param(standin.AS_NVIDIA, marks=standin.NEEDS_CUDA, id="nvidia"),
        pytest.param({"PYFLAME_LAUNCH_BATCHES": "1"}, id="amd"),
    ],
)
cache, run = standin.cache, standin.run  # fixtures

START = """
pf.set_device("gpu")

def graphs():
    s = pf.debug.device_statistics("gpu")
    return s["graphs"], s["kernels_in_graphs"]

def chain(x, w, n):
    for _ in range(n):
        x = x @ w  # one launch each
    return x

rng = np.random.default_rng(0)
eye = np.roll(np.eye(8, dtype="f4"), 1, 1)  # a product with it moves columns: exact
start = rng.standard_normal((8, 8)).astype("f4")
x, w = pf.tensor(start), pf.tensor(eye)
chain(x, w, 2).numpy()  # compiled now

def expected(n):
    return np.roll(start, n, 1)
"""


@vendors
@pytest.mark.parametrize("batches", ["1", "0", ""])
@pytest.mark.parametrize("blocking", ["0", "1"])
def test_chains_of_any_length(run, vendor, batches, blocking):
    on = (batches or str(int(vendor is standin.AS_NVIDIA))) == "1" and blocking == "0"
    run(
        START
        + f"""
on = {on}
before = graphs()
for n in [*range(1, 40), 100]:
    assert np.array_equal(chain(x, w, n).numpy(), expected(n)), n
count, kernels = (b - a for a, b in zip(before, graphs()))
assert (count > 50 and 4 < kernels / count <= 16) if on else count == 0, (count, kernels)
""",
        **{**vendor, "PYFLAME_LAUNCH_BATCHES": batches},
        CUDA_LAUNCH_BLOCKING=blocking,
        HIP_LAUNCH_BLOCKING=blocking,
    )


@vendors
def test_order_with_everything_else(run, vendor):
    run(
        START
        + """
pf.manual_seed(0)
side = pf.cuda.Stream()
large = pf.ones(1 << 21)
host = pf.empty(8, 8, device="cpu", pin_memory=True)
for n in (1, 2, 3, 5, 17):
    # A fill and a copy from the host over what small launches still read, and what they wrote.
    y = x.clone()
    z = chain(y, w, n)
    y.zero_()
    pf.flush()
    again = chain(y, w, n)
    y.copy_(pf.tensor(start, device="cpu"))
    third = chain(y, w, n)
    assert np.array_equal(z.numpy(), expected(n)) and not again.numpy().any()
    assert np.array_equal(third.numpy(), expected(n))
    # A copy to the host that waits for nothing; an event behind it.
    done = pf.cuda.Event()
    host.copy_(chain(x, w, n), non_blocking=True)
    done.record()
    done.synchronize()
    assert np.array_equal(host.numpy(), expected(n))
    # A query alone must get things going.
    z = chain(x, w, n)
    pf.flush()
    done = pf.cuda.Event()
    done.record()
    import time
    limit = time.time() + 600
    while not done.query():
        assert time.time() < limit
        time.sleep(0.001)
    z = chain(x, w, n)
    pf.flush()
    while not pf.cuda.current_stream().query():
        assert time.time() < limit
        time.sleep(0.001)
    assert np.array_equal(z.numpy(), expected(n))
    # Another stream in turns, and a large launch between small ones.
    y = chain(x, w, n)
    side.wait_stream(pf.cuda.current_stream())
    with pf.cuda.stream(side):
        y = chain(y, w, n)
    pf.cuda.current_stream().wait_stream(side)
    y = chain(y, w, n)
    big = large * 2
    y = y + big[0]
    assert np.array_equal(y.numpy(), expected(3 * n) + 2)
    # Memory that goes back to the driver while launches that use it wait.
    y = chain(x, w, n)
    del z
    pf.debug.empty_cache("gpu")
    assert np.array_equal(y.numpy(), expected(n))
assert graphs()[0] > 10
""",
        **vendor,
    )


@vendors
def test_threads(run, vendor):
    run(
        START
        + """
import threading
wrong = []

def work(seed):
    pf.set_device("gpu")
    for n in range(1, 30):
        if not np.array_equal(chain(x, w, n).numpy(), expected(n)):
            wrong.append((seed, n))

threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong, wrong
assert graphs()[0] > 10
""",
        **vendor,
    )


@vendors
@pytest.mark.parametrize("streams", [2, 3, 8])
def test_streams_in_turns_keep_their_batches(run, vendor, streams):
    run(
        START
        + f"""
streams = [pf.cuda.current_stream()] + [pf.cuda.Stream() for _ in range({streams} - 1)]
values = [x.clone() for _ in streams]
for s in streams[1:]:
    s.wait_stream(streams[0])

def rounds(n):
    for _ in range(n):
        for i, s in enumerate(streams):
            with s:
                values[i] = values[i] @ w

rounds(28)  # batches grow: 4, 8, 16
before = graphs()
rounds(160)
count, kernels = (b - a for a, b in zip(before, graphs()))
assert kernels > 140 * len(streams) and kernels > 15 * count, (count, kernels)
for value, s in zip(values, streams):
    with s:
        assert np.array_equal(value.numpy(), expected(188))
""",
        **vendor,
    )


@vendors
def test_a_batch_that_is_left_behind_goes_out(run, vendor):
    """When its stream is not touched again, others take care of it."""
    run(
        START
        + """
side = pf.cuda.Stream()
side.wait_stream(pf.cuda.current_stream())
large = pf.ones(1 << 21)
pf.synchronize()
for others in (lambda: large.flip(0), lambda: chain(x, w, 16)):
    others()
    pf.synchronize()
    before = graphs()
    with side:
        y = chain(x, w, 3)
    for _ in range(17):
        others()
    count, kernels = (b - a for a, b in zip(before, graphs()))
    assert kernels % 4 == 3, (count, kernels)  # the others' are of 4, 8 and 16
    side.synchronize()
    assert np.array_equal(y.numpy(), expected(3))
""",
        **vendor,
    )


@vendors
def test_two_devices_in_turns(run, vendor):
    run(
        START
        + """
x1, w1 = x.to("gpu:1"), w.to("gpu:1")
for n in (1, 3, 9):
    for _ in range(5):
        a, b = chain(x, w, n), chain(x1, w1, n)
        c = chain(a.to("gpu:1"), w1, n)
        assert np.array_equal(a.numpy(), expected(n)) and np.array_equal(b.numpy(), expected(n))
        assert np.array_equal(c.numpy(), expected(2 * n))
assert graphs()[0] > 10
""",
        PYFLAME_STANDIN_DEVICES="2",
        **vendor,
    )


@vendors
def test_who_has_an_address_need_not_ask_us(run, vendor):
    """After data_ptr() operations are on the device's queue when their calls return: another library
    that waits for the device sees them."""
    run(
        START
        + """
import time

def becomes(address, value):
    limit = time.time() + 600
    while ctypes.c_float.from_address(address).value != value:
        assert time.time() < limit, ctypes.c_float.from_address(address).value
        time.sleep(0.001)

y = chain(x, w, 3)
becomes(y.data_ptr(), float(expected(3)[0, 0]))  # nothing else is said to us
z = pf.ones(5)
address = z.data_ptr()
becomes(address, 1)
z += 1  # in place: a group
becomes(address, 2)
pf.add(z, z, out=z)
becomes(address, 4)
z.copy_(pf.full((5,), 7.0).cumsum(0) - 6)  # a kernel that runs at once
becomes(address, 1)
z.zero_()
becomes(address, 0)
""",
        **vendor,
    )


@standin.NEEDS_CUDA
@pytest.mark.parametrize("sm", ["90", "80"])
@pytest.mark.parametrize("asked", ["", "0"])
def test_launches_that_begin_early(run, sm, asked):
    """From Hopper on kernels wait by themselves for those before them, which the stand-in looks at."""
    early = sm == "90" and not asked
    run(
        START
        + f"""
# One by itself, and the edges of a graph: what is not asked for cannot fail.
big = pf.ones(1 << 21)
(big + 1).sum().item()
for call, work in (("cuLaunchKernelEx", lambda: (big + 1).sum().item()),
                   ("cuGraphAddDependencies_v2", lambda: chain(x, w, 13).numpy())):
    fault(call, 1, 1)
    failed = False
    try:
        work()
    except pf.BackendError as e:
        failed = True
    assert failed == (not faults_left(call)) == {early}, (call, failed)
""",
        **{**standin.AS_NVIDIA, "PYFLAME_STANDIN_SM": sm},
        PYFLAME_EARLY_LAUNCHES=asked,
    )


def test_kernels_that_let_the_next_one_start_do_so_first():
    """What comes before it would get a wait in front, and what is to be read early would not be."""
    late = []
    for path in sorted((Path(__file__).resolve().parents[2] / "kernels").glob("*.h")):
        for kernel in re.split(r"^PF_KERNEL\(", path.read_text(), flags=re.M)[1:]:
            body = kernel[kernel.index("{") + 1 :] if "{" in kernel else ""
            body = body.split("\n}\n")[0]
            if "pf_next_may_start()" in body and not body.lstrip().startswith(
                "pf_next_may_start()"
            ):
                late.append(f"{path.name}: {kernel.split(',')[0]}")
    assert not late
