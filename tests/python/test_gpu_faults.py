"""Every call of a GPU's runtime and compiler may fail at any time: a typed error says which one,
and what comes after it is right."""

import pytest
import standin

pytestmark = standin.MARKS
cache, run = standin.cache, standin.run  # fixtures

# Copies in and out, products, reductions, rows, an optimizer over several tensors, random numbers.
TRAINING = """
import pyflame.nn as nn

def train(steps=2):
    pf.manual_seed(3)
    model = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 5))
    model.to("rocm")
    optimizer = pf.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        x = pf.tensor(np.random.default_rng(step).standard_normal((33, 12)).astype("f4"), device="rocm")
        y = (pf.arange(33, device="rocm") * (step + 1)) % 5
        loss = nn.functional.cross_entropy(nn.functional.dropout(model(x), 0.1), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    pf.synchronize()
    return losses, [p.detach().cpu().numpy().tobytes() for p in model.parameters()]

def sweep(arm, left, want, kinds, texts, numbers):
    seen = 0
    for nth in numbers:
        pf.debug.empty_cache("rocm")
        arm(nth)
        try:
            got = train()
        except kinds as error:
            seen += 1
            assert any(t in str(error) for t in texts), error
        else:
            assert got == want
            if left():
                break  # there are no more of these calls
        hip.standin_reset()
        try:
            pf.synchronize()  # the rest of a step that failed
        except kinds:
            pass
        assert train() == want, nth
    return seen
"""


@pytest.mark.parametrize(
    "call, error, kind",
    [
        ("hipModuleLaunchKernel", 1, "BackendError"),
        ("hipMemcpyHtoDAsync", 1, "BackendError"),
        ("hipMemcpyDtoHAsync", 1, "BackendError"),
        ("hipMemsetD8Async", 1, "BackendError"),
        ("hipEventRecord", 1, "BackendError"),
        ("hipEventSynchronize", 1, "BackendError"),
        ("hipStreamSynchronize", 1, "BackendError"),
    ],
)
def test_any_call_may_fail(run, call, error, kind):
    any_call_may_fail(run, call, error, kind)


# Small launches are handed to NVIDIA's driver as graphs.
@standin.NEEDS_CUDA
@pytest.mark.parametrize(
    "call", ["cuGraphCreate", "cuGraphExecKernelNodeSetParams", "cuGraphLaunch"]
)
def test_any_call_for_graphs_may_fail(run, call):
    any_call_may_fail(run, call, 1, "BackendError", **standin.AS_NVIDIA)


def any_call_may_fail(run, call, error, kind, **env):
    run(
        TRAINING
        + f"""
want = train()
text = "launching" if "{call}" == "hipModuleLaunchKernel" else "{call}"
seen = sweep(lambda n: fault("{call}", n, {error}), lambda: faults_left("{call}"), want,
             pf.{kind}, (text, "failed"), [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144])
assert seen or "{call}" == "hipMemsetD8Async", seen
""",
        **env,
    )


def test_any_allocation_may_fail(run):
    """Once: the caches are released and it is tried again. Twice: an error that says what there is."""
    run(
        TRAINING
        + """
want = train()
for nth in range(1, 20):
    pf.debug.empty_cache("rocm")
    fault("hipMalloc", nth, OOM)
    assert train() == want
    if faults_left("hipMalloc"):
        break
assert nth > 1
hip.standin_reset()
seen = sweep(lambda n: fault("hipMalloc", n, OOM, 2), lambda: faults_left("hipMalloc") == 2, want,
             pf.OutOfMemoryError, ("out of memory",), range(1, 20))
assert seen >= nth - 1, (seen, nth)
"""
    )


def test_any_compilation_may_fail(run, tmp_path):
    """And so may the loading of what was compiled."""
    code = """
def numbers():
    x = pf.arange(77, device="rocm").float()
    y = pf.softmax((x * 0.5 + 1).exp().log().reshape(7, 11), 1) @ x[:22].reshape(11, 2)
    return y.sum(0).tolist()

expected = None
for nth in range(1, 40):
    try:
        got = numbers()
        if expected is None:
            expected = got
        assert got == expected
        break
    except pf.BackendError as error:
        assert TEXT in str(error), error
        fail()
assert nth > FEWEST, nth
assert numbers() == expected
"""

    def fails(fewest, text, call, **env):
        """`call` with 1 makes the next attempt fail, with 2 the one after it."""
        run(
            f"""
FEWEST, TEXT = {fewest}, "{text}"
def fail(nth=2):
    {call}
fail(1)
{code}
""",
            **env,
        )

    # Each compilation fails once, and the next attempt gets one further.
    compiling = (
        "could not be compiled for gfx942", "rtc.standin_fail_compile(ctypes.c_int64(nth))",
    )  # fmt: skip
    fails(5, *compiling, XDG_CACHE_HOME="/proc/nowhere", PYFLAME_COMPILE_THREADS=0)
    for call in ("hipModuleLoadData", "hipModuleGetFunction"):
        fails(5, call, f'fault("{call}", nth, 1)', PYFLAME_COMPILE_THREADS=0)
    # In the background the others are compiled meanwhile, so fewer attempts fail.
    fails(1, *compiling, XDG_CACHE_HOME="/proc/nowhere", PYFLAME_COMPILE_THREADS=3)


def test_the_start_may_fail(run):
    """What fails while the device is opened fails its first user; the next one opens it."""
    for call in ("hipStreamCreateWithPriority", "hipHostMalloc", "hipMalloc", "hipMemsetD8Async"):
        run(
            f"""
fault("{call}", 1, 1, 2)
raises(pf.PyFlameError, "{call}", lambda: pf.ones(3, device="rocm").tolist())
hip.standin_reset()
assert (pf.ones(3, device="rocm") + 1).tolist() == [2, 2, 2]
"""
        )
    for call in ("hipInit", "hipGetDeviceCount", "hipGetDeviceProperties"):
        run(
            f"""
fault("{call}", 1, 3)
raises(pf.DeviceError, "as the stand-in was told", lambda: pf.ones(3, device="rocm").tolist())
assert pf.ones(3).tolist() == [1, 1, 1] and not pf.rocm_is_available()
"""
        )


@pytest.mark.parametrize("nth", [1, 2, 7, 30])
def test_a_device_may_be_lost_at_any_kernel(run, nth):
    run(
        TRAINING
        + f"""
train()
fault("kernel", {nth}, LOST)
text = raises(pf.DeviceError, "the device is lost", train)
assert "restart from a checkpoint" in text and "HIP_LAUNCH_BLOCKING=1" in text
raises(pf.DeviceError, "lost", lambda: pf.ones(3, device="rocm").tolist())
raises(pf.DeviceError, "lost", train)
assert pf.ones(2).sum().item() == 2
"""
    )


def test_the_same_bits_twenty_times_under_load(run):
    run(
        TRAINING
        + """
import threading
want = train()
stop = []
def load():
    x = pf.randn(64, 64, device="rocm", generator=pf.Generator().manual_seed(1))
    while not stop:
        x = (x @ x).tanh()
        pf.synchronize()
other = threading.Thread(target=load)
other.start()
try:
    for _ in range(20):
        assert train() == want
finally:
    stop.append(1)
    other.join()
""",
        PYFLAME_STANDIN_DELAY_US=200,
    )
