"""Several backward passes into one `.grad`: what is added follows what made it, so that gradients of all leaves
never lie beside those that they are added to. Hooks see what they always saw."""

import os
import re
import threading

import numpy as np
import pytest
from captured_steps import CAPTURED

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
ON_CPU = DEVICE == "cpu"
WIDE = 320  # a weight of WIDE x WIDE is more than 256 KiB


def leaf(*shape):
    return pf.randn(*shape, device=DEVICE).requires_grad_()


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    a, b = (t.detach().float().cpu().numpy() for t in (a, b))
    assert a.tobytes() == b.tobytes()


class Tied(nn.Module):
    """A table that is the last layer's weight, too, norms, biases, and a weight that is used twice."""

    def __init__(self, words=400, width=192):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.twice = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.table.weight

    def forward(self, index):
        x = self.table(index)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.head(self.twice(F.relu(self.twice(x))))


def made(cls=Tied):
    pf.manual_seed(3)
    return cls().to(DEVICE)


def batches(n, words=400, rows=24):
    rng = np.random.default_rng(5)
    return [pf.tensor(rng.integers(0, words, (2, rows))).to(DEVICE) for _ in range(n)]


def loss_of(model, index):
    return F.cross_entropy(model(index[:, :-1]).flatten(0, 1), index[:, 1:].flatten())


def accumulated(model, data, held=None):
    for index in data:
        loss_of(model, index).backward()
        if held is not None:
            held.extend(p.grad for p in model.parameters())
    return [p.grad for p in model.parameters()]


def test_sums_are_those_of_passes_one_by_one():
    data = batches(4)
    sums = accumulated(made(), data)
    alone = [accumulated(made(), [index]) for index in data]
    for i, s in enumerate(sums):
        expected = sum(a[i].cpu().numpy().astype(np.float64) for a in alone)
        np.testing.assert_allclose(s.cpu().numpy(), expected, rtol=2e-4, atol=2e-6)


def test_bits_are_those_of_operations_one_by_one():
    data = batches(4)
    fused = accumulated(made(), data)
    with pf.debug.eager():
        alone = accumulated(made(), data)
    for a, b in zip(fused, alone, strict=True):
        same(a, b)


def test_looking_at_a_graph_changes_no_bits():
    data, model = batches(3), made()
    node = loss_of(model, data[0]).grad_fn
    waiting = [node]
    while waiting:
        node = waiting.pop()
        leaf = getattr(node, "variable", None)
        assert leaf is None or leaf.is_leaf
        waiting += [n for n, _ in node.next_functions if n is not None]
    del node, leaf
    for a, b in zip(accumulated(made(), data), accumulated(model, data), strict=True):
        same(a, b)


def test_gradients_that_somebody_has_are_added_to_in_place():
    data, held = batches(3), []
    model = made()
    sums = accumulated(model, data, held)
    n = len(sums)
    for i, s in enumerate(sums):
        for h in held[i::n]:
            assert h.data_ptr() == s.data_ptr()
            same(h, s)
    for a, b in zip(sums, accumulated(made(), data), strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), rtol=2e-4, atol=2e-6)


def test_captured_steps_have_the_same_bits():
    def steps(compiled):
        model = made()
        opt = pf.optim.SGD(model.parameters(), lr=0.1)

        def step(*data):
            opt.zero_grad()
            for index in data:
                loss_of(model, index).backward()
            opt.step()
            return model.table.weight.detach().sum()

        call = pf.compile(step, **CAPTURED) if compiled else step
        for _ in range(5):
            call(*batches(3))
        return list(model.parameters())

    for a, b in zip(steps(False), steps(True), strict=True):
        same(a, b)


def chain(layers):
    model = nn.Sequential(*[nn.Linear(WIDE, WIDE, bias=False) for _ in range(layers)]).to(DEVICE)
    return model, pf.randn(4, WIDE, device=DEVICE)


def groups_of(report, what):
    """How many groups a report has that were `what`."""
    return sum(
        int(n) for n in re.findall(r"(\d+)x (?:cast -> )?" + re.escape(what), report.to_text())
    )


def peak_of(fn):
    pf.synchronize()
    before = pf.memory.memory_stats(DEVICE)["allocated_bytes.all.current"]
    pf.memory.reset_peak_memory_stats(DEVICE)
    fn()
    pf.synchronize()
    return pf.memory.memory_stats(DEVICE)["allocated_bytes.all.peak"] - before


def test_gradients_do_not_wait_beside_their_sums():
    model, x = chain(12)
    model(x).sum().backward()
    more = peak_of(lambda: model(x).sum().backward())
    assert more < 4 * 4 * WIDE * WIDE  # of twelve


def test_a_hook_that_uses_a_gradient_up_leaves_no_others():
    """A step within the backward pass, so that gradients of all leaves are never there."""
    model, x = chain(12)
    order = []

    def use(p):
        order.append(p)
        with pf.no_grad():
            p -= 0.01 * p.grad
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(use)
    more = peak_of(lambda: model(x).sum().backward())
    assert [id(p) for p in order] == [id(p) for p in reversed(list(model.parameters()))]
    assert more < 5 * 4 * WIDE * WIDE


@pytest.mark.skipif(DEVICE == "paranoid", reason="joins nothing")
def test_what_is_added_follows_what_made_it():
    model = made()
    data = batches(2)
    loss_of(model, data[0]).backward()
    loss = loss_of(model, data[1])
    loss.item()
    with pf.explain() as report:
        loss.backward()
        pf.synchronize()
    text = report.to_text()
    assert text.count("[matmul] -> add") >= 3, (
        text
    )  # up, down, the table; `twice` has two gradients
    assert "[sum] -> add" in text, text
    assert "embedding" not in text.replace("embedding_backward", ""), text


@pytest.mark.skipif(
    DEVICE in ("cpu", "paranoid"), reason="there gradients of activations come first"
)
def test_gradients_of_activations_follow_their_products_still():
    layers = [
        nn.Linear(WIDE, WIDE),
        nn.GELU(),
        nn.Linear(WIDE, WIDE),
        nn.GELU(),
        nn.Linear(WIDE, 8),
    ]
    model, x = nn.Sequential(*layers).to(DEVICE), pf.randn(64, WIDE, device=DEVICE)
    for lower in (False, True):
        counts = []
        for _ in range(2):
            with pf.autocast(pf.device(DEVICE).type, dtype=pf.bfloat16, enabled=lower):
                loss = model(x).float().sum()
            loss.item()
            with pf.explain() as report:
                loss.backward()
                pf.synchronize()
            counts.append(groups_of(report, "[matmul] -> gelu_backward"))
        assert counts == [2, 2], report.to_text()
        assert groups_of(report, "[matmul] -> add") == 3, report.to_text()
        model.zero_grad()


def test_a_leaf_is_told_once_of_all_its_gradients():
    w, seen, flowed = leaf(WIDE, WIDE), [], []
    x = pf.randn(3, WIDE, device=DEVICE)
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    for k in range(3):
        ((x @ w) @ w).sum().backward()
        assert len(seen) == k + 1
        same(seen[-1], w.grad)
    w.register_hook(lambda g: flowed.append(g.clone()))
    before = w.grad.clone()
    ((x @ w) @ w).sum().backward()
    assert len(flowed) == 1 and len(seen) == 4
    same(before + flowed[0], w.grad)


def test_hooks_of_nodes_see_the_gradients():
    w, x = leaf(WIDE, WIDE), pf.randn(3, WIDE, device=DEVICE)
    (x @ w).sum().backward()
    seen = []
    y = x @ w
    y.grad_fn.register_hook(lambda gi, go: seen.append([g is not None for g in gi]))
    y.sum().backward()
    assert len(seen) == 1 and seen[0][:2] == [False, True]


def test_a_gradient_that_is_saved_stays_as_it_was():
    """`p.grad` as a number of the next loss, of a leaf that is used beside it."""
    w, x = leaf(WIDE, WIDE), pf.randn(3, WIDE, device=DEVICE)
    (x @ w).sum().backward()
    first = w.grad.clone()
    slope = (w * w.grad).sum()  # recorded first, and so its gradient is made last
    ((x @ w).sum() + slope).backward()
    np.testing.assert_allclose(w.grad.cpu().numpy(), 3 * first.cpu().numpy(), rtol=1e-5)


def test_gradients_with_histories_are_sums_with_histories():
    w, x = leaf(WIDE, WIDE), pf.randn(3, WIDE, device=DEVICE)
    for _ in range(2):
        ((x @ w) ** 2).sum().backward(create_graph=True)
    (g,) = pf.autograd.grad(w.grad.sum(), w)
    expected = 4 * (x.t() @ x).sum(1, keepdim=True)  # d/dw of twice the sum of 2 x'x w
    np.testing.assert_allclose(
        g.cpu().numpy(), expected.expand(WIDE, WIDE).cpu().numpy(), rtol=1e-3, atol=1e-2
    )


def test_gradients_of_some_leaves_alone():
    w, v, x = leaf(WIDE, WIDE), leaf(WIDE, WIDE), pf.randn(3, WIDE, device=DEVICE)
    (x @ w @ v).sum().backward()
    w0, v0 = w.grad.clone(), v.grad.clone()
    (g,) = pf.autograd.grad((x @ w @ v).sum(), w)
    same(w.grad, w0)
    (x @ w @ v).sum().backward(inputs=[v])
    same(w.grad, w0)
    same(v.grad, v0 + v0)
    same(g, w0)


@pytest.mark.parametrize("padding", [None, 7])
def test_rows_are_added_to_a_gradient(padding):
    pf.manual_seed(0)
    table = nn.Embedding(500, WIDE, padding_idx=padding).to(DEVICE)
    index = [pf.tensor([[1, 7, 1], [499, 0, 7]]).to(DEVICE), pf.tensor([[7, 3, 1]]).to(DEVICE)]
    weight = pf.randn(500, WIDE, device=DEVICE)
    # What nobody has is added to without a tensor of the table's size.
    (table.weight * weight).sum().backward()
    table(index[0]).sum().backward()
    if ON_CPU:
        assert peak_of(lambda: table(index[1]).sum().backward()) < 4 * 500 * WIDE
    else:
        table(index[1]).sum().backward()
    expected = weight.cpu().numpy().astype(np.float64)
    for i in index:
        for row in i.cpu().numpy().ravel():
            expected[row] += row != padding
    np.testing.assert_allclose(table.weight.grad.cpu().numpy(), expected, rtol=1e-6, atol=1e-6)


def test_rows_wait_for_hooks_and_other_dtypes():
    pf.manual_seed(0)
    table = nn.Embedding(50, 8).to(DEVICE)
    index = pf.tensor([1, 2, 1]).to(DEVICE)
    table(index).sum().backward()
    before, seen, told = table.weight.grad.clone(), [], []
    handle = table.weight.register_hook(lambda g: seen.append(g.clone()))
    table(index).sum().backward()
    same(seen[0], before)
    handle.remove()
    table.weight.register_post_accumulate_grad_hook(lambda p: told.append(p.grad.clone()))
    table(index).sum().backward()
    same(told[0], before * 3)
    low = nn.Embedding(50, 8).to(DEVICE).to(pf.bfloat16)
    for _ in range(2):
        low(index).sum().backward()
    same(low.weight.grad, (before * 2).to(pf.bfloat16))


def test_products_of_lower_precision():
    """The gradient of a weight that autocast converts comes in the weight's dtype."""
    pf.manual_seed(0)
    model, x = nn.Linear(WIDE, WIDE).to(DEVICE), pf.randn(8, WIDE, device=DEVICE)

    def passes():
        model.zero_grad()
        for _ in range(3):
            with pf.autocast(device_type=pf.device(DEVICE).type, dtype=pf.bfloat16):
                y = F.gelu(model(x)).float().sum()
            y.backward()
        return [p.grad for p in model.parameters()]

    fused = [g.clone() for g in passes()]
    with pf.debug.eager():
        alone = passes()
    for a, b in zip(fused, alone, strict=True):
        assert a.dtype == pf.float32
        same(a, b)


def test_threads_that_end_at_one_leaf():
    w, table = leaf(WIDE, WIDE), nn.Embedding(300, WIDE).to(DEVICE)
    x, index = pf.ones(2, WIDE, device=DEVICE), pf.arange(300, device=DEVICE)
    n, times, failed = 4, 8, []

    def work():
        try:
            for _ in range(times):
                ((x @ w).sum() + table(index).sum()).backward()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert (w.grad.cpu().numpy() == 2 * n * times).all()
    assert (table.weight.grad.cpu().numpy() == n * times).all()


def test_a_pass_that_fails_can_be_made_again():
    class Fails(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("no gradient")

    w, v = leaf(WIDE, WIDE), leaf(WIDE, WIDE)
    x = pf.ones(2, WIDE, device=DEVICE)
    with pytest.raises(RuntimeError, match="no gradient"):
        (Fails.apply(x @ v) @ w).sum().backward()
    assert v.grad is None
    w.grad = None
    for _ in range(2):
        (x @ w).sum().backward()
    assert (w.grad.cpu().numpy() == 4).all()
