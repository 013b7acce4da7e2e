"""Where operations run: floating and placed tensors (docs/devices.md).

`HOME` is the CPU and `AWAY` another device: the one that the suite runs on, or the test backend, which
is always there and whose memory the host cannot read.
"""

import os
import threading

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

HOME, AWAY = "cpu", os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
if AWAY == HOME:
    AWAY = "paranoid"


@pytest.fixture(autouse=True)
def _start_at_home():
    pf.set_device(HOME)
    yield
    pf.set_strict(False)


def moved(fn):
    """What fn() returns, and how many copies it made by itself."""
    before = pf.debug.stats()["moved"]
    result = fn()
    return result, pf.debug.stats()["moved"] - before


def test_an_operation_runs_on_the_current_device_and_leaves_its_operand():
    x = pf.arange(6.0).reshape(2, 3)
    pf.set_device(AWAY)
    y = x * 2
    assert y.device == AWAY and y.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert x.device == HOME and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (x @ x.T).device == AWAY and x.sum().device == AWAY and x.softmax(1).device == AWAY
    pf.set_device(HOME)
    assert (y + 1).device == HOME and (y + 1).tolist() == [[1, 3, 5], [7, 9, 11]]
    assert y.device == AWAY


def test_what_a_device_was_named_for_stays():
    here = [
        pf.ones(3, device="cpu"),
        pf.tensor([1.0, 1, 1], device="cpu"),
        pf.ones(3).to("cpu"),
        pf.ones(3).cpu(),
        pf.from_numpy(np.ones(3, "float32")).to(device="cpu"),
        pf.ones(3, device=pf.device("cpu")),
    ]
    pf.set_device(AWAY)
    for x in here:
        assert (x + 1).device == HOME and (x + 1).tolist() == [2, 2, 2]
        assert ((x + 1).exp() * 2).device == HOME and x[1:].sum().device == HOME
    for x in (pf.ones(3), pf.ones(3, device=pf.get_device()), pf.zeros_like(pf.ones(3))):
        assert x.device == AWAY
        pf.set_device(HOME)
        assert (x + 1).device == HOME
        pf.set_device(AWAY)


def test_a_placed_operand_decides():
    x, w = pf.ones(4, 3), pf.ones(3, device=AWAY)
    for y in (x * w, w * x, x @ w, F.linear(x, w.view(1, 3)), pf.where(w > 0, x, w)):
        assert y.device == AWAY
        y = y + 1  # and what comes of it is placed, too
        assert y.device == AWAY and x.device == HOME
    assert pf.cat([x, w.view(1, 3)]).device == AWAY
    assert pf.stack([pf.ones(3), w]).tolist() == [[1, 1, 1]] * 2
    assert F.embedding(pf.tensor([0, 1], device=AWAY), pf.eye(3)).device == AWAY


def test_two_placed_apart():
    a, b = pf.ones(2, 2, device=HOME), pf.ones(2, 2, device=AWAY)
    for fn in (
        lambda: a + b,
        lambda: a @ b,
        lambda: pf.cat([a, b]),
        lambda: a.add_(b),
        lambda: pf.where(a > 0, a, b),
        lambda: F.layer_norm(a, (2,), b[0], b[1]),
        lambda: F.mse_loss(a, b),
        lambda: pf.einsum("ij,jk->ik", a, b),
        lambda: F.scaled_dot_product_attention(a, b, b),
        lambda: a.gather(0, b.long()),
    ):
        with pytest.raises(pf.DeviceError, match=rf"cpu.*{pf.device(AWAY)}.*one device.*\.to\("):
            fn()


def test_a_number_on_the_cpu_goes_anywhere():
    s, x = pf.tensor(2.0, device="cpu"), pf.ones(3, device=AWAY)
    assert (x * s).device == AWAY and (s - x).tolist() == [1, 1, 1]
    x.mul_(s)
    assert x.tolist() == [2, 2, 2]
    assert (s * 2).device == HOME
    s.requires_grad_()
    (x * s).sum().backward()
    assert s.grad.device == HOME and s.grad.item() == 6
    t = pf.tensor(3.0, device="cpu", requires_grad=True)
    ((t * 2) * x).sum().backward()  # the gradient comes back to where t * 2 was made
    assert t.grad.device == HOME and t.grad.item() == 12


def test_one_copy_serves_until_the_values_change():
    x = pf.arange(4.0)
    pf.set_device(AWAY)
    _, n = moved(lambda: (x + 1, x * 2, x[1:] + 1, x.sum(), x.view(2, 2) @ x.view(2, 2)))
    assert n == 1
    x.add_(1)  # at home
    assert x.device == HOME
    y, n = moved(lambda: x * 10)
    assert n == 1 and y.tolist() == [10, 20, 30, 40]
    x[0] = 7
    y, n = moved(lambda: x * 10)
    assert n == 1 and y.tolist() == [70, 20, 30, 40]
    assert moved(lambda: x * 10)[1] == 0
    pf.set_device(HOME)
    assert moved(lambda: (x * 10, x.tolist(), str(x)))[1] == 0


def test_replicas_go_with_their_storage():
    pf.debug.empty_cache(AWAY)
    before = pf.debug.memory_stats(AWAY)["allocated"]
    x = pf.ones(1 << 20)
    pf.set_device(AWAY)
    x.sum().item()
    assert pf.debug.memory_stats(AWAY)["allocated"] >= before + (4 << 20)
    for _ in range(3):  # one at a time, however often the values change
        x.mul_(1)
        x.sum().item()
    assert pf.debug.memory_stats(AWAY)["allocated"] < before + (6 << 20)
    del x
    assert pf.debug.memory_stats(AWAY)["allocated"] < before + (1 << 20)


def test_a_small_part_of_a_large_storage_travels_alone():
    data = pf.arange(4096.0).reshape(1024, 4)
    pf.set_device(AWAY)
    before = pf.debug.stats()["moved_bytes"]
    assert (data[10:12] * 1).tolist() == [[40, 41, 42, 43], [44, 45, 46, 47]]
    assert (data[:, 1][::512] * 1).tolist() == [1, 2049]
    assert pf.debug.stats()["moved_bytes"] - before == 2 * 4 * 4 + 2 * 4


def test_memory_of_others_is_never_remembered():
    a = np.ones(3, "float32")
    x = pf.from_numpy(a)
    pf.set_device(AWAY)
    assert (x * 2).tolist() == [2, 2, 2]
    a[:] = 5
    assert (x * 2).tolist() == [10, 10, 10]
    y = pf.ones(3)
    pf.set_device(HOME)
    z = pf.ones(3)
    shared = z.numpy()
    pf.set_device(AWAY)
    assert (z + y).tolist() == [2, 2, 2]
    shared[0] = 9
    assert (z + y).tolist() == [10, 2, 2]


WRITES = {
    "add_": lambda x, row, far: x.add_(far),
    "of a view": lambda x, row, far: row.mul_(far),
    "copy_": lambda x, row, far: x.copy_(far),
    "clamp_": lambda x, row, far: x.clamp_(0, 1),
    "slice": lambda x, row, far: x.__setitem__((0, slice(1, 3)), far[1:]),
    "index_add_": lambda x, row, far: x.index_add_(0, pf.tensor([0]), far.view(1, 3)),
    "masked_fill_": lambda x, row, far: x.masked_fill_(far > 1, 8.0),
    "mask": lambda x, row, far: x.__setitem__(x > 3, 4.0),
    "index_put_": lambda x, row, far: x.__setitem__(pf.tensor([1, 0]), far),
    "scatter_": lambda x, row, far: x.scatter_(1, pf.tensor([[0], [2]]), 9.0),
    "normal_": lambda x, row, far: x.normal_(),
    "out": lambda x, row, far: pf.add(far, 1, out=row),
    "itself": lambda x, row, far: x.sub_(x[:, :1]),
    "addmm_": lambda x, row, far: x.addmm_(pf.ones(2, 1), far.view(1, 3)),
    "fill_diagonal_": lambda x, row, far: x.fill_diagonal_(5),
    "init": lambda x, row, far: nn.init.xavier_uniform_(x),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_happen_at_home(name):
    def run(device):
        pf.manual_seed(1)
        x = pf.arange(6.0).reshape(2, 3)
        row = x[1]
        pf.set_device(device)
        WRITES[name](x, row, pf.arange(3.0))
        pf.set_device(HOME)
        assert x.device == HOME and row.device == HOME and row.tolist() == x.tolist()[1]
        return x.tolist()

    assert run(AWAY) == run(HOME)


def test_a_placed_tensor_takes_only_from_where_it_is():
    x, far = pf.zeros(3, device=HOME), pf.ones(3, device=AWAY)
    with pytest.raises(pf.DeviceError):
        x.add_(far)
    x.copy_(far)  # says it
    assert x.tolist() == [1, 1, 1]
    pf.set_device(AWAY)
    x.add_(pf.ones(3))  # floats: it comes
    assert x.tolist() == [2, 2, 2] and x.device == HOME


def test_views_of_floating_tensors_share_their_memory():
    x = pf.zeros(2, 3)
    pf.set_device(AWAY)
    v = x.view(6)[1:3]
    assert v.device == HOME
    v.add_(1)
    assert x.tolist() == [[0, 1, 1], [0, 0, 0]]
    assert (x.t() + 0).tolist() == [[0, 0], [1, 0], [1, 0]]


def test_placing_shares_memory_and_history():
    x = pf.ones(3)
    y = x.to("cpu")
    y.add_(1)
    assert x.tolist() == [2, 2, 2] and y.to("cpu") is y
    w = pf.ones(3, requires_grad=True)
    (w * 2).to("cpu").sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    leaf = pf.ones(3, requires_grad=True).to("cpu")  # as in PyTorch: still a leaf
    (leaf * 3).sum().backward()
    assert leaf.is_leaf and leaf.grad.tolist() == [3, 3, 3]
    p = nn.Parameter(pf.ones(2))
    p.detach().cpu().numpy()  # looking at a parameter does not place it
    pf.set_device(AWAY)
    assert (p * 1).device == AWAY and (leaf * 1).device == HOME


def test_gradients_come_home():
    w = pf.full((3,), 2.0, requires_grad=True)
    h = w * w  # before the change of device
    pf.set_device(AWAY)
    x = pf.arange(3.0)
    seen = []
    w.register_hook(lambda g: seen.append(g.device) or None)
    loss = (h * x + w).sum()
    assert loss.device == AWAY
    loss.backward()
    assert w.grad.device == HOME and w.grad.tolist() == [1, 5, 9] and seen == [pf.device(HOME)]
    (w * x).sum().backward()
    assert w.grad.device == HOME and w.grad.tolist() == [1, 6, 11]
    (g,) = pf.autograd.grad((w * w * x).sum(), w, create_graph=True)
    assert g.device == HOME and g.tolist() == [0, 4, 8]
    (gg,) = pf.autograd.grad((g * g).sum(), w)
    assert gg.device == HOME and gg.tolist() == [0, 8 * 2, 32 * 2]


def test_backward_runs_where_forward_ran():
    x = pf.ones(3, requires_grad=True)
    with pf.device(AWAY):
        loss = (x.exp() * x).sum()
    _, n = moved(loss.backward)
    assert n == 1 and x.grad.device == HOME  # the one that comes home
    assert np.allclose(x.grad.numpy(), 2 * np.e)


def test_gradients_of_mixed_operands():
    w, x = pf.ones(3, requires_grad=True), pf.full((3,), 2.0, device=AWAY, requires_grad=True)
    (w * x * x).sum().backward()
    assert w.grad.device == HOME and w.grad.tolist() == [4, 4, 4]
    assert x.grad.device == AWAY and x.grad.tolist() == [4, 4, 4]


def make_model(seed=0):
    pf.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4, bias=False), nn.RMSNorm(4)
    )
    model.register_buffer("scale", pf.full((4,), 0.5))
    return model


def train(model, make_optimizer, data, steps=4):
    x, y = data
    optimizer = make_optimizer(model.parameters())
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x) * model.scale, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.scale.mul_(1.1)  # a buffer that changes
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: pf.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: pf.optim.AdamW(p, lr=0.01),
        lambda p: pf.optim.Adam(p, lr=0.01, amsgrad=True),
    ],
)
@pytest.mark.parametrize("order", ["model first", "device first", "half", "to", "data placed"])
def test_a_model_trains_the_same_wherever_it_was_made(order, optimizer):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 6)).astype("float32"), rng.integers(0, 4, 5)
    data = pf.tensor(x), pf.tensor(y)
    expected = train(make_model(), optimizer, data)
    if order == "device first":
        pf.set_device(AWAY)
    model = make_model()
    data = pf.tensor(x), pf.tensor(y)
    if order == "model first":
        pf.set_device(AWAY)
    elif order == "half":  # one half of the parameters here, the other there
        pf.set_device(AWAY)
        for name, p in make_model().named_parameters():
            if name.endswith("weight"):
                model.get_submodule(name.split(".")[0]).weight = nn.Parameter(p.detach())
    elif order == "to":
        assert model.to(AWAY) is model
        data = tuple(t.to(AWAY) for t in data)
    elif order == "data placed":
        data = tuple(t.to(AWAY) for t in data)
    homes = [p.device for p in model.parameters()]
    got = train(model, optimizer, data)
    assert np.allclose(got, expected, rtol=2e-5)
    assert (
        homes
        == [p.device for p in model.parameters()]
        == [p.grad.device for p in model.parameters()]
    )
    assert model(data[0]).device == (AWAY if order != "device first" else AWAY)


def test_state_of_an_optimizer_that_the_model_left_behind():
    p = nn.Parameter(pf.ones(4))
    optimizer = pf.optim.AdamW([p], lr=0.1)
    (p * p).sum().backward()
    optimizer.step()
    here = p.detach().clone()
    p.data = p.data.to(AWAY)
    p.grad = None
    (p * p).sum().backward()
    optimizer.step()  # moments are at home still
    assert p.device == AWAY and (p.cpu() < here.cpu()).all()


def test_each_thread_has_its_own_current_device():
    x = pf.ones(3)
    seen = {}

    def work(name):
        if name:
            pf.set_device(name)
        seen[name] = (x + 1).device, pf.get_device()

    threads = [threading.Thread(target=work, args=(n,)) for n in (None, AWAY, HOME) for _ in "12"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == {n: (pf.device(n or HOME), pf.device(n or HOME)) for n in (None, AWAY, HOME)}
    assert pf.get_device() == HOME


def test_names_for_the_current_device():
    x = pf.ones(2)
    with pf.device(AWAY) as d:
        assert d == AWAY and pf.get_device() == AWAY and pf.get_default_device() == AWAY
        assert pf.ones(2).device == AWAY and (x + 1).device == AWAY
        with pf.device(HOME):
            assert (x + 1).device == HOME
        assert (x + 1).device == AWAY
    assert (x + 1).device == HOME
    pf.set_default_device(AWAY)
    assert pf.get_device() == AWAY and pf.ones(2).device == AWAY
    pf.set_default_device(None)
    assert pf.get_device() == HOME


def test_the_device_of_a_floating_tensor_means_the_current_one():
    idx = pf.tensor([[1, 2, 0]])
    pf.set_device(AWAY)
    position = pf.arange(3, device=idx.device)  # as models write it
    table = pf.ones(5, 4)
    assert (F.embedding(idx, table) + F.embedding(position, table)).device == AWAY
    assert (pf.zeros(3, device=idx.device) + 1).device == AWAY


def test_copies_keep_what_they_are():
    import copy

    x = pf.arange(3.0)
    pf.set_device(AWAY)
    assert copy.deepcopy(x).tolist() == [0, 1, 2]
    assert x.to(pf.float64).tolist() == [0, 1, 2] and x.half().device == AWAY
    assert x.to(pf.ones(1)).device == AWAY
    assert x.numpy().tolist() == [0, 1, 2] and x.item is not None
    assert pf.tensor(x).tolist() == [0, 1, 2]
    assert [v.item() for v in x] == [0, 1, 2] and x[2].item() == 2


def test_files_float(tmp_path):
    pf.save({"w": pf.ones(3)}, tmp_path / "w.pf")
    w = pf.load(tmp_path / "w.pf")["w"]
    far = pf.load(tmp_path / "w.pf", map_location=AWAY)["w"]
    pf.set_device(AWAY)
    assert w.device == HOME and (w + 1).device == AWAY and moved(lambda: w * 2)[1] == 0
    pf.set_device(HOME)
    assert (far + 1).device == AWAY


def test_strict_mode_refuses_what_nobody_asked_for():
    x, far = pf.ones(4, 3), pf.ones(3, device=AWAY)
    pf.set_strict(True)
    assert pf.is_strict()
    for name, fn in (
        ("mul", lambda: x * far),
        ("linear", lambda: F.linear(x, far.view(1, 3))),
        ("softmax", lambda: x.softmax(1)),
        ("add", lambda: x.add_(far)),
    ):
        if name == "softmax":
            pf.set_device(AWAY)
        with pytest.raises(pf.DeviceError, match=rf"{name}.*(4, 3|\[4, 3\]|3).*strict.*\.to\("):
            fn()
        pf.set_device(HOME)
    x.to(AWAY) * far  # said
    far.cpu() * x
    far * pf.tensor(2.0)  # a number
    pf.set_strict(False)
    assert (x * far).device == AWAY


@pytest.mark.parametrize("value, strict", [("1", True), ("0", False), ("", False)])
def test_strict_mode_from_the_environment(value, strict):
    import os
    import subprocess
    import sys

    code = "import pyflame as pf; print(pf.is_strict())"
    env = {**os.environ, "PYFLAME_STRICT": value}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert out.stdout.strip() == str(strict), out.stderr


def test_autocast_goes_by_where_the_operation_runs():
    """The region of the placed operand's device counts, not that of the current one."""
    kind = AWAY.split(":")[0]
    weight = pf.randn(4, 3, requires_grad=True)
    bias = pf.randn(4, requires_grad=True)
    x = pf.randn(5, 3, device=AWAY)
    with pf.autocast(kind, dtype=pf.bfloat16):
        y = F.linear(x, weight, bias)
        assert y.dtype == pf.bfloat16 and y.device == AWAY
        assert (x.bfloat16() * weight[0].bfloat16()).exp().dtype == pf.float32
        assert pf.pow(weight[0].bfloat16(), x.bfloat16()).dtype == pf.float32
        assert pf.dot(weight[0].bfloat16(), x[0]).dtype == pf.float32  # the widest
        assert F.linear(x.cpu(), weight).dtype == pf.float32  # runs at home
        y.float().sum().backward()
    assert weight.grad.dtype == pf.float32 and weight.grad.device == HOME
    assert bias.grad.tolist() == [5] * 4
    with pf.autocast(HOME, dtype=pf.bfloat16):  # and not by where the weight is
        assert F.linear(x, weight).dtype == pf.float32
        assert F.linear(x.cpu(), weight).dtype == pf.bfloat16
        assert pf.pow(weight[0].bfloat16(), x.bfloat16()).dtype == pf.bfloat16
    # A parameter is brought and converted once in a region, as one that is there.
    with pf.autocast(kind, dtype=pf.bfloat16):
        (_, first), (_, second) = (moved(lambda: F.linear(x, weight)) for _ in range(2))
    assert first <= 1 and second == 0
