"""Graphs of the device: captured steps that are one launch, on the stand-ins, each call failing in turn."""

import pytest
import standin
from standin import cache, run  # noqa: F401

pytestmark = standin.MARKS

# A training step beside the same step run by Python: the same bits, whatever happens to graphs.
STEPS = """
device = os.environ.get("TEST_DEVICE", "rocm")
pf.set_device(device)
from pyflame import nn
import pyflame.nn.functional as F

def training(compiled, steps=9, dropout=0.25, between=lambda i, model, optimizer: None, late=None):
    pf.manual_seed(1)
    model = nn.Sequential(nn.Linear(13, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 5))
    optimizer = pf.optim.AdamW(model.parameters(), lr=0.01)
    schedule = pf.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    call = pf.compile(step, mode="reduce-overhead") if compiled else step
    pf.manual_seed(3)
    losses = []
    for i in range(steps):
        between(i, model, optimizer)
        if compiled and late and i == 6:
            fault(*late)
        losses.append(call(pf.randn(6, 13), pf.randint(0, 5, (6,))))
    state = [*losses, *model.parameters(), *[p.grad for p in model.parameters()]]
    return [t.detach().cpu().numpy() for t in state], call

def check(**options):
    want, _ = training(False, **options)
    got, call = training(True, **options)
    for a, b in zip(want, got):
        np.testing.assert_array_equal(a, b)
    return call._step.report()

def graphs():
    return pf.debug.device_statistics(device)["graphs"]
"""

WIDTHS = [("gfx942:sramecc+:xnack-", 64), ("gfx1100", 32)]


@pytest.mark.parametrize("target,warp", WIDTHS)
def test_one_launch_with_the_same_bits(run, target, warp):  # noqa: F811
    """Fresh inputs, results in memory of their own, random numbers, the optimizer's and the schedule's
    numbers: all in one graph a step."""
    run(
        STEPS
        + """
before = graphs()
report = check(steps=12)
assert "1 graphs of the device" in report and "one by one" not in report, report
assert "2 calls of optimizers or schedules" in report, report
assert graphs() - before == 8, graphs() - before  # captured at the second call, compared at the third
""",
        PYFLAME_STANDIN_ARCH=target,
    )


@standin.NEEDS_CUDA
def test_under_nvidias_names(run):  # noqa: F811
    run(
        STEPS
        + """
report = check(steps=12)
assert "1 graphs of the device" in report and "one by one" not in report, report
""",
        TEST_DEVICE="cuda",
        **standin.AS_NVIDIA,
    )


NVIDIA = {"TEST_DEVICE": "cuda", **standin.AS_NVIDIA}


@pytest.mark.parametrize(
    "gpu",
    [{"PYFLAME_STANDIN_ARCH": "gfx942"}, pytest.param(NVIDIA, marks=standin.NEEDS_CUDA)],
    ids=["amd", "nvidia"],
)
def test_a_small_network_has_few_nodes(run, gpu):  # noqa: F811
    """A small loss with its gradient is one launch, the gradient of an activation goes with the product in
    front of it, and no launch waits for another's memory."""
    run(
        STEPS
        + """
def training(compiled, rows=32):
    pf.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(40, 24), nn.ReLU(), nn.Linear(24, 17), nn.GELU(), nn.Linear(17, 10)
    )
    optimizer = pf.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    call = pf.compile(step, mode="reduce-overhead") if compiled else step
    pf.manual_seed(3)
    losses = [call(pf.randn(rows, 40), pf.randint(0, 10, (rows,))) for _ in range(7)]
    state = [*losses, *model.parameters(), *[p.grad for p in model.parameters()]]
    return [t.detach().cpu().numpy() for t in state], call

# Three products and a loss; for each layer sums of the bias and a product of the weight; two of what
# is in front; the optimizer. (8 threads have a row, a block of 256 all of up to 32 rows.)
for rows, nodes in ((32, 13), (1, 13), (33, 15)):
    report = check(rows=rows)
    assert f"1 graphs of the device with {nodes} nodes" in report, (rows, report)
""",
        **gpu,
    )


CALLS = [
    "cuGraphCreate",
    "cuGraphAddKernelNode",
    "cuGraphInstantiateWithFlags",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphLaunch",
]


@pytest.mark.parametrize("target,warp", WIDTHS)
def test_each_call_fails_in_turn(run, target, warp):  # noqa: F811
    """Out of memory, or an error: the step is launched one by one, or its graph made anew, with the same
    bits; the reason is kept. A device that is lost raises."""
    run(
        STEPS
        + f"""
for call in {CALLS}:
    for error in (OOM, 1):
        for nth in (1, 3):
            if call in ("cuGraphLaunch", "cuGraphExecKernelNodeSetParams"):
                report = check(steps=14, late=(call, nth, error))
            else:
                fault(call, nth, error)
                report = check(steps=10)
            gone = faults_left(call) == 0
            assert gone or nth > 1, (call, nth, report)
            if call == "cuGraphExecKernelNodeSetParams":
                assert "1 graphs" in report and "one by one" not in report, report  # made anew
            elif gone:
                assert "launched one by one: " in report and "Graph" in report, (call, nth, report)
            hip.standin_reset()
""",
        PYFLAME_STANDIN_ARCH=target,
    )


def test_a_lost_device_raises(run):  # noqa: F811
    run(
        STEPS
        + f"""
for call in {CALLS}:
    late = call in ("cuGraphLaunch", "cuGraphExecKernelNodeSetParams")
    if not late:
        fault(call, 1, LOST)
    raises(pf.DeviceError, "Graph", lambda: training(True, late=late and (call, 1, LOST)))
    hip.standin_reset()
""",
    )


def test_libraries_and_copies_are_captured_by_the_driver(run):  # noqa: F811
    """Products of hipBLASLt, fills and copies from the host are nodes too; each of the calls that capture
    them fails in turn."""
    code = (
        STEPS
        + """
def outcome(compiled, steps=9):
    pf.manual_seed(1)
    w = pf.randn(64, 64, requires_grad=True)
    scale = pf.ones(64)

    def step(x):
        w.grad = None
        h = x @ w + pf.tensor([1.0, 2.0] * 32)
        z = pf.zeros(64, 64)
        z += h * scale
        loss = z.square().mean()
        loss.backward()
        return loss, z

    call = pf.compile(step, mode="reduce-overhead") if compiled else step
    pf.manual_seed(3)
    kept = []
    for i in range(steps):
        if i == 6 and compiled == "late":
            fault(*late)
        kept += call(pf.randn(64, 64))
    return [t.detach().cpu().numpy() for t in (*kept, w.grad)], call

def same(compiled):
    (want, _), (got, call) = outcome(False), outcome(compiled)
    for a, b in zip(want, got):
        np.testing.assert_array_equal(a, b)
    return call._step.report()

report = same(True)
assert "1 graphs of the device" in report and "one by one" not in report, report
for call in ("cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphAddChildGraphNode", "cuGraphGetNodes"):
    for error in (OOM, 1, 900):
        for nth in (1, 2):
            fault(call, nth, error)
            report = same(True)
            assert faults_left(call) == 0
            assert "launched one by one: " in report and ("Graph" in report or "Capture" in report), report
late = ("cuGraphExecChildGraphNodeSetParams", 1, 910)
report = same("late")
assert faults_left(late[0]) == 0
assert "1 graphs of the device" in report and "one by one" not in report, report
"""
    )
    blas = standin.FOLDER / "standin" / "products" / "libhipblaslt.so"
    run(code, PYFLAME_HIPBLASLT_LIBRARY=blas, PYFLAME_GPU_GEMM="library")


def test_states_that_are_loaded_or_cleared(run):  # noqa: F811
    """The optimizer's tensors are others: that step is launched one by one, and the next ones captured
    anew."""
    run(
        STEPS
        + """
def load(i, model, optimizer):
    if i == 6:
        optimizer.load_state_dict(optimizer.state_dict())
    if i == 12:
        optimizer.state.clear()
    if i == 15:
        optimizer.param_groups[0]["weight_decay"] = 0.3
        optimizer.param_groups[0]["betas"] = (0.8, 0.99)
report = check(steps=22, between=load)
assert "1 graphs of the device" in report and "captured again 2 times" in report, report

def lag(i, model, optimizer):
    if i == 6:  # two calls of the kernel in place of one
        optimizer.state[model[0].weight]["step"] += 3
report = check(steps=14, between=lag)
assert "1 graphs of the device" in report, report

seen = []
def hook(i, model, optimizer):  # which reads what the launches before it have written
    if i == 6:
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append(model[3].bias.grad.sum().item()))
check(steps=12, between=hook)
assert len(seen) == 12 and seen[:6] == seen[6:], seen
""",
    )


def test_streams_threads_and_memory(run):  # noqa: F811
    run(
        STEPS
        + """
import gc, threading
c = pf.compile(lambda x, s: (x * 2 + s).cos().sum(0) * (x.sin() + 1) @ s, mode="reduce-overhead")
s = pf.randn(8)
plain = lambda x: (x * 2 + s).cos().sum(0) * (x.sin() + 1) @ s
def both(x):
    np.testing.assert_array_equal(plain(x).cpu().numpy(), c(x, s).cpu().numpy())

# Two streams by turns, which write the same memory.
turns = [pf.streams.Stream(), pf.streams.Stream()]
for i in range(12):
    with pf.streams.stream(turns[i // 3 % 2]):
        both(pf.randn(8, 8))
# Memory of inputs comes and goes, and the caches with it.
for i in range(6):
    both(pf.randn(8, 8))
    pf.accelerator.empty_cache()
# Threads: one replays, the others run as always or by a capture of their own.
errors = []
def work(seed):
    try:
        pf.set_device(device)
        mine = pf.compile(lambda x: ((x + 1).exp().sum(1) * 2).log() - x.mean(), mode="reduce-overhead")
        for _ in range(8):
            x = pf.randn(8, 8)
            both(x)
            want = ((x + 1).exp().sum(1) * 2).log() - x.mean()
            np.testing.assert_array_equal(want.cpu().numpy(), mine(x).cpu().numpy())
    except BaseException as e:
        errors.append(repr(e))
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not errors, errors
# Captures that end while their graph runs, and are not missed.
for i in range(4):
    mine = pf.compile(lambda x: ((x + i).exp().sum(1) * 2).log() - x.mean(), mode="reduce-overhead")
    for _ in range(6):
        y = mine(pf.ones(8, 8))
    mine = None
    pf.compiler.reset(); gc.collect()
    assert y.shape == (8,) and bool(pf.isfinite(y).all())
# A child of fork has no graph, and says so.
pid = os.fork()
if pid == 0:
    try:
        c(pf.zeros(8, 8), s)
    except pf.DeviceError as e:
        os._exit(0 if "fork" in str(e) else 1)
    except BaseException as e:
        print(repr(e)); os._exit(2)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
both(pf.randn(8, 8))
# Arguments of two devices are no step of one.
for i in range(5):
    x = pf.randn(8, 8, device="cpu")
    np.testing.assert_allclose(plain(x).cpu().numpy(), c(x, s).cpu().numpy(), rtol=1e-5)
""",
    )


def test_what_has_no_graph_says_why(run):  # noqa: F811
    run(
        STEPS
        + "report = check()\nassert 'one by one: ' in report and 'GRAPHS=0' in report, report",
        PYFLAME_DEVICE_GRAPHS="0",
    )
    run(
        STEPS + "report = check()\nassert 'launches are to block' in report, report",
        HIP_LAUNCH_BLOCKING="1",
    )


def test_wrong_indices_are_still_told(run):  # noqa: F811
    run(
        STEPS
        + """
table = pf.randn(7, 4)
c = pf.compile(lambda i: F.embedding(i, table).exp().sum(0) * table.mean(), mode="reduce-overhead")
for k in range(6):
    c(pf.tensor([1, 2, k]))
pf.synchronize()
raises(pf.IndexError, "out of bounds", lambda: c(pf.tensor([1, 9, 2])).tolist())
assert np.isfinite(c(pf.tensor([1, 6, 2])).cpu().numpy()).all()
"""
    )
