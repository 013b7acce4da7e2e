"""Sparse gradients of embeddings, and what optimizers make of them, beside dense ones and PyTorch."""

import numpy as np
import pytest

import pyflame as pf

F64 = pf.float64


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def close(got, want, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(got.detach().cpu()), want, tolerance, tolerance)


def tables(rng, padding_idx=None, **kwargs):
    weight = pf.tensor(rng.normal(size=(7, 3)))
    if padding_idx is not None:
        weight[padding_idx] = 0
    return [
        pf.nn.Embedding(7, 3, sparse=s, padding_idx=padding_idx, _weight=weight.clone(), dtype=F64)
        for s in (True, False)
    ]


@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_gradients_of_embeddings(rng, padding_idx):
    sparse, dense = tables(rng, padding_idx)
    index = pf.tensor([[1, 2, 1], [6, 0, 2]])
    w = pf.tensor(rng.normal(size=(2, 3, 3)))
    for _ in range(2):  # gradients add up
        for e in (sparse, dense):
            (e(index) * w).sum().backward()
    g = sparse.weight.grad
    assert g.is_sparse and g.shape == (7, 3) and g.sparse_dim() == 1 and g.dense_dim() == 1
    assert not dense.weight.grad.is_sparse
    close(g.to_dense(), np.asarray(dense.weight.grad))
    if padding_idx is not None:
        assert padding_idx % 7 not in g._indices()[0].tolist()
    sparse.zero_grad()
    assert sparse.weight.grad is None
    sparse(index[:0]).sum().backward()
    assert sparse.weight.grad._nnz() == 0


def test_dense_and_sparse_gradients_of_one_table(rng):
    sparse, dense = tables(rng)
    index = pf.tensor([1, 1, 4])
    for e in (sparse, dense):
        ((e(index) ** 2).sum() + (e.weight**3).sum()).backward()
        (e(index) ** 2).sum().backward()
        (e.weight**3).sum().backward()
    assert not sparse.weight.grad.is_sparse
    close(sparse.weight.grad, np.asarray(dense.weight.grad))


def test_a_table_that_is_a_result(rng):
    w = pf.tensor(rng.normal(size=(5, 3)), requires_grad=True)
    seen = []
    table = w * 2
    table.register_hook(lambda g: seen.append(g.layout))
    pf.nn.functional.embedding(pf.tensor([1, 1, 3]), table, sparse=True).sum().backward()
    assert seen == [pf.sparse_coo] and w.grad.tolist() == [
        [0] * 3,
        [4] * 3,
        [0] * 3,
        [2] * 3,
        [0] * 3,
    ]


def test_higher_derivatives_of_embeddings(rng):
    w = pf.tensor(rng.normal(size=(5, 3)), requires_grad=True)
    out = pf.nn.functional.embedding(pf.tensor([1, 1, 3]), w, sparse=True)
    (g,) = pf.autograd.grad((out**3).sum(), w, create_graph=True)
    assert g.is_sparse and g.requires_grad
    (h,) = pf.autograd.grad((g.to_dense() ** 2).sum(), w)
    want = np.zeros((5, 3))
    count = np.array([0, 2, 0, 1, 0])[:, None]
    x = np.asarray(w.detach())
    want = 2 * (3 * count * x**2) * (6 * count * x)
    close(h.to_dense() if h.is_sparse else h, want)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_of_bags(rng, mode):
    weight = pf.tensor(rng.normal(size=(7, 3)))
    index, offsets = pf.tensor([1, 2, 2, 5, 1]), pf.tensor([0, 2, 2])
    grads = []
    for sparse in (True, False):
        bag = pf.nn.EmbeddingBag(7, 3, mode=mode, sparse=sparse, _weight=weight.clone())
        ((bag(index, offsets)) ** 2).sum().backward()
        ((bag(index.reshape(1, 5))) ** 2).sum().backward()
        grads.append(bag.weight.grad)
    assert grads[0].is_sparse
    close(grads[0].to_dense(), np.asarray(grads[1]))


def test_clipping_and_zeroing(rng):
    sparse, dense = tables(rng)
    index = pf.tensor([1, 1, 4])
    for e in (sparse, dense):
        (e(index) ** 2).sum().backward()
    norms = [pf.nn.utils.clip_grad_norm_(e.parameters(), 0.5) for e in (sparse, dense)]
    assert norms[0].item() == pytest.approx(norms[1].item())
    close(sparse.weight.grad.to_dense(), np.asarray(dense.weight.grad))
    assert sparse.weight.grad.is_sparse
    assert pf.nn.utils.get_total_norm([sparse.weight.grad]).item() == pytest.approx(0.5)
    for e in (sparse, dense):
        pf.nn.utils.clip_grad_value_(e.parameters(), 0.05)
    close(sparse.weight.grad.to_dense(), np.asarray(dense.weight.grad))
    optimizer = pf.optim.SGD(sparse.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert sparse.weight.grad._nnz() == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda p: pf.optim.SGD(p, lr=0.1),
        lambda p: pf.optim.SGD(p, lr=0.1, maximize=True),
        lambda p: pf.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: pf.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    ],
)
def test_optimizers_step_as_with_dense_gradients(rng, make):
    sparse, dense = tables(rng)
    extra = [pf.tensor(rng.normal(size=3)), None]
    extra[1] = extra[0].clone()
    pairs = []
    for e, x in zip((sparse, dense), extra):
        x.requires_grad_()
        pairs.append((e, x, make([e.weight, x])))
    for step in range(3):
        index = pf.tensor([1, 1, 4 + step % 2])
        for e, x, optimizer in pairs:
            optimizer.zero_grad()
            ((e(index) * x) ** 2).sum().backward()
            optimizer.step()
    close(sparse.weight, np.asarray(dense.weight.detach()), 1e-9)
    close(extra[0], np.asarray(extra[1].detach()), 1e-9)


def test_sparse_adam_moves_only_its_rows(rng):
    e, _ = tables(rng)
    before = np.asarray(e.weight.detach().clone())
    optimizer = pf.optim.SparseAdam(e.parameters(), lr=0.1, betas=(0.8, 0.9))
    m, v, want = np.zeros((7, 3)), np.zeros((7, 3)), before.copy()
    for step, rows in enumerate([[1, 1, 4], [4], [1, 0]], 1):
        optimizer.zero_grad()
        (e(pf.tensor(rows)) ** 3).sum().backward()
        count = np.bincount(rows, minlength=7)[:, None]
        g = count * 3 * want**2
        on = count[:, 0] > 0
        m[on] += (g[on] - m[on]) * (1 - 0.8)
        v[on] += (g[on] ** 2 - v[on]) * (1 - 0.9)
        size = 0.1 * np.sqrt(1 - 0.9**step) / (1 - 0.8**step)
        want[on] -= size * m[on] / (np.sqrt(v[on]) + 1e-8)
        optimizer.step()
    close(e.weight, want, 1e-9)
    assert np.array_equal(np.asarray(e.weight.detach())[[2, 3, 5, 6]], before[[2, 3, 5, 6]])
    other = pf.optim.SparseAdam(e.parameters(), lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    assert other.state[e.weight]["step"] == 3


def test_optimizers_that_take_no_sparse_gradients_say_so(rng):
    e, dense = tables(rng)
    e(pf.tensor([1])).sum().backward()
    dense(pf.tensor([1])).sum().backward()
    before = np.asarray(e.weight.detach().clone())
    for cls in (pf.optim.Adam, pf.optim.AdamW, pf.optim.RMSprop, pf.optim.Adadelta):
        with pytest.raises(pf.NotSupportedError, match="sparse gradient"):
            cls(e.parameters()).step()
    with pytest.raises(pf.NotSupportedError, match="weight_decay"):
        pf.optim.Adagrad(e.parameters(), weight_decay=0.1).step()
    with pytest.raises(pf.NotSupportedError, match="dense gradient"):
        pf.optim.SparseAdam(dense.parameters()).step()
    assert np.array_equal(np.asarray(e.weight.detach()), before)


def test_a_gradient_is_nobody_elses_memory(rng):
    e, _ = tables(rng)
    out = e(pf.tensor([1, 4]))
    out.retain_grad()
    out.backward(pf.ones(2, 3, dtype=F64))
    e.weight.grad.mul_(2)
    assert e.weight.grad.to_dense().sum() == 12 and out.grad.sum() == 6
    e.weight.grad.data.mul_(0.5)  # as programs clip by hand
    assert e.weight.grad.to_dense().sum() == 6
    e.weight.data.add_(e.weight.grad, alpha=-1)
    with pf.no_grad():
        e.weight.add_(e.weight.grad, alpha=1)
    with pytest.raises(pf.NotSupportedError, match="Parameter"):
        pf.nn.Parameter(e.weight.grad)


def test_scaled_gradients(rng):
    table = pf.nn.Embedding(6, 3, sparse=True)
    optimizer = pf.optim.SGD(table.parameters(), lr=1.0)
    scaler = pf.amp.GradScaler("cpu", init_scale=8.0)
    before = table.weight.detach().clone()
    scaler.scale(table(pf.tensor([1, 1])).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    close((before - table.weight.detach()).sum(1), [0, 6, 0, 0, 0, 0], 1e-5)
    found = pf.ops.get("_found_nonfinite")(tensors=[pf.eye(3).to_sparse() / 0, pf.ones(2)])
    assert found.item()


# ---- beside PyTorch -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_optimizers_beside_pytorch(name):
    torch = pytest.importorskip("torch")
    start = np.random.default_rng(3).normal(size=(6, 4))
    found = []
    for t in (pf, torch):
        weight = t.nn.Parameter(t.tensor(start))
        optimizer = getattr(t.optim, name)([weight], lr=0.1)
        for rows in ([1, 1, 2], [5], [2, 0, 0]):
            optimizer.zero_grad()
            out = t.nn.functional.embedding(t.tensor(rows), weight, sparse=True)
            (out**3).sum().backward()
            assert weight.grad.is_sparse
            optimizer.step()
        found.append(weight.detach().numpy())
    np.testing.assert_allclose(*found, 1e-9)


def test_gradcheck_of_sparse_tensors():
    check = pf.sparse.as_sparse_gradcheck(pf.autograd.gradcheck)
    ones = pf.ones(2, 3, dtype=pf.float64)
    for layout in (pf.sparse_coo, pf.sparse_csr):
        x = pf.tensor([[0.0, 1], [2, 3]], dtype=pf.float64).to_sparse(layout=layout)
        x = x.requires_grad_(True)
        assert check(lambda x: x @ ones, x)
        assert check(lambda x: x @ ones, x, masked=True)
        assert check(lambda x, y: (x * 3, y.exp()), (x, ones.clone().requires_grad_(True)))
        wrong = lambda x: x.detach() @ ones + (x @ ones) * 0.5  # noqa: E731
        assert not check(wrong, x, raise_exception=False)


def test_a_tensor_of_a_vmap_that_lives_on():
    """Whether a gradient is sparse does not depend on what else there is in the process."""
    kept = []
    pf.vmap(lambda x: kept.append(x * 2) or x)(pf.ones(3))
    table = pf.nn.Embedding(5, 2, sparse=True)
    table(pf.tensor([1, 3])).sum().backward()
    assert table.weight.grad.is_sparse
