"""Sparse tensors beside dense ones in float64, and beside PyTorch where it is installed. Those that
embeddings have as gradients: test_sparse_gradients.py; the kernels: test_sparse_kernels.py."""

import copy
import io
import pickle

import numpy as np
import pytest

import pyflame as pf
from pyflame.sparse import check_sparse_tensor_invariants

F64 = pf.float64


def random_coo(rng, shape, nnz, dtype=F64, dense=(), device=None, requires_grad=False):
    """A sparse tensor with places that are there twice, and its elements."""
    indices = (
        np.stack([rng.integers(0, n, nnz) for n in shape])
        if nnz
        else np.zeros((len(shape), 0), int)
    )
    values = rng.normal(size=(nnz, *dense))
    whole = np.zeros((*shape, *dense))
    np.add.at(whole, tuple(indices), values)
    t = pf.sparse_coo_tensor(
        indices, pf.tensor(values, dtype=dtype), (*shape, *dense), requires_grad=requires_grad
    )
    return t, whole


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def close(got, want, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(got.detach().cpu()), want, tolerance, tolerance)


# ---- what they are --------------------------------------------------------------------------------


def test_attributes():
    t = pf.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 4))
    assert isinstance(t, pf.Tensor) and t.is_sparse and not t.is_sparse_csr
    assert t.layout == pf.sparse_coo and t.shape == (2, 4) and t.size(1) == 4 and t.dim() == 2
    assert t.dtype == pf.float32 and t._nnz() == 3 and t.sparse_dim() == 2 and t.dense_dim() == 0
    assert not t.is_coalesced() and t.is_leaf and not t.requires_grad and t.numel() == 8
    assert t._indices().tolist() == [[0, 1, 1], [2, 0, 2]] and t._values().tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match="uncoalesced"):
        t.values()
    with pytest.raises(RuntimeError, match="pf.sparse_csr"):
        t.crow_indices()
    c = t.to_sparse_csr()
    assert c.layout == pf.sparse_csr and c.is_sparse_csr and not c.is_sparse
    assert c.crow_indices().tolist() == [0, 1, 3] and c.col_indices().tolist() == [2, 0, 2]
    assert c.values().tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match="pf.sparse_coo"):
        c.indices()
    assert pf.ones(2).layout == pf.strided and not pf.ones(2).is_sparse_csr
    x = pf.ones(2)
    assert x.to_dense() is x and x.to_dense(pf.float64).dtype == F64


def test_the_size_is_what_indices_ask_for():
    assert pf.sparse_coo_tensor([[0, 4], [1, 0]], [1.0, 2.0]).shape == (5, 2)
    assert pf.sparse_coo_tensor([[3]], [[1.0, 2.0]]).shape == (4, 2)
    assert pf.sparse_csr_tensor([0, 1, 2], [4, 0], [1.0, 2.0]).shape == (2, 5)
    empty = pf.sparse_coo_tensor((2, 3), dtype=F64)
    assert empty._nnz() == 0 and empty.dtype == F64 and empty.is_coalesced()
    assert pf.sparse_coo_tensor(size=(2, 3)).to_dense().tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize(
    "shape, dense", [((5,), ()), ((4, 6), ()), ((3, 1, 5), ()), ((4, 3), (2,)), ((6,), (2, 3))]
)
@pytest.mark.parametrize("nnz", [0, 1, 40])
def test_to_dense_and_back(rng, shape, dense, nnz):
    t, whole = random_coo(rng, shape, nnz, dense=dense)
    close(t.to_dense(), whole)
    c = t.coalesce()
    assert c.is_coalesced() and c._nnz() == len(np.argwhere(np.any(whole.reshape(*shape, -1), -1)))
    close(c.to_dense(), whole)
    assert c.coalesce() is c
    again = pf.tensor(whole).to_sparse(len(shape))
    assert again.is_coalesced() and again.sparse_dim() == len(shape)
    assert again.indices().tolist() == c.indices().tolist()
    close(again.values(), np.asarray(c.values()))


def test_large_shapes_coalesce(rng):
    indices = np.stack([rng.integers(0, 3, 50) * 10**8, rng.integers(0, 4, 50)])
    values = rng.normal(size=50)
    t = pf.sparse_coo_tensor(indices, values, (10**9, 5)).coalesce()
    want = {}
    for i, j, v in zip(*indices, values):
        want[int(i), int(j)] = want.get((int(i), int(j)), 0) + v
    assert [tuple(p) for p in t.indices().t().tolist()] == sorted(want)
    close(t.values(), [want[k] for k in sorted(want)])


def test_layouts(rng):
    t, whole = random_coo(rng, (5, 7), 20)
    csr = t.to_sparse_csr()
    close(csr.to_dense(), whole)
    close(csr.to_sparse_coo().to_dense(), whole)
    assert csr.to_sparse_coo().is_coalesced() and csr.to_sparse_csr() is csr
    close(pf.tensor(whole).to_sparse_csr().to_dense(), whole)
    close(pf.tensor(whole).to_sparse(layout=pf.sparse_csr).to_dense(), whole)
    unsorted = pf.sparse_csr_tensor([0, 3, 3], [2, 0, 2], [1.0, 2.0, 4.0], (2, 3))
    assert unsorted.to_dense().tolist() == [[2, 0, 5], [0, 0, 0]]
    assert not unsorted.to_sparse_coo().is_coalesced()
    assert unsorted.to_sparse_coo().coalesce()._nnz() == 2
    same = pf.sparse_compressed_tensor([0, 1], [0], [1.0], layout=pf.sparse_csr)
    assert same.layout == pf.sparse_csr


def test_dtypes_and_copies(rng):
    t, whole = random_coo(rng, (4, 5), 9)
    assert t.float().dtype == pf.float32 and t.to(pf.float16).dtype == pf.float16
    assert t.long().to_dense().dtype == pf.int64 and t.to(F64) is t
    b = pf.sparse_coo_tensor([[0, 0], [1, 1]], [True, True], (2, 2))
    assert b.to_dense().tolist() == [[False, True], [False, False]]
    z = pf.sparse_coo_tensor([[0], [1]], [1 + 2j], (2, 2))
    assert z.to_dense()[0, 1].item() == 1 + 2j
    for twin in (
        t.clone(),
        t.detach(),
        copy.copy(t),
        copy.deepcopy(t),
        pickle.loads(pickle.dumps(t)),
    ):
        assert type(twin) is type(t) and twin is not t
        close(twin.to_dense(), whole)
    other = pf.sparse_coo_tensor((4, 5), dtype=F64)
    other.copy_(t)
    close(other.to_dense(), whole)
    other.zero_()
    assert other._nnz() == 0 and other.to_dense().sum() == 0
    close(t.to_dense(), whole)


@pytest.mark.parametrize("layout", [pf.sparse_coo, pf.sparse_csr])
def test_saved(rng, layout, tmp_path):
    t, whole = random_coo(rng, (4, 5), 9)
    t = t.to_sparse(layout=layout)
    pf.save({"a": t, "b": [t.coalesce() if t.is_sparse else t]}, tmp_path / "x")
    found = pf.load(tmp_path / "x")
    for s in (found["a"], found["b"][0]):
        assert s.layout == layout
        close(s.to_dense(), whole)
    buffer = io.BytesIO()
    pf.save(t, buffer)
    buffer.seek(0)
    close(pf.load(buffer).to_dense(), whole)

    class Net(pf.nn.Module):
        def __init__(self, adjacency):
            super().__init__()
            self.register_buffer("adjacency", adjacency)

    net, other = Net(t), Net(pf.tensor(whole * 2).to_sparse(layout=layout))
    other.load_state_dict(net.state_dict())
    close(other.adjacency.to_dense(), whole)
    assert net.double().to("cpu").adjacency.layout == layout


@pytest.mark.parametrize(
    "change",
    [
        {0: [2]}, {0: [3, -4]}, {0: None}, {0: [2**40, 2**40]}, {1: None}, {1: 7}, {2: 3}, {3: None},
        {1: pf.tensor([[1, 0], [0, 0]])}, {1: pf.tensor([[0, 3], [0, 0]])},
        {1: pf.tensor([[0, -1], [0, 0]])}, {1: pf.tensor([[0.5, 1.0], [0.0, 1.0]])}, {3: pf.ones(3)},
        {2: pf.tensor([0, 5, 1, 2]), 1: pf.tensor([0, 1])}, {2: pf.tensor([0, 1, 2, 2]), 1: pf.tensor([0, 9])},
    ],
    ids=str,
)  # fmt: skip
def test_files_with_parts_that_do_not_fit(change):
    from pyflame._kinds import Maker

    good = [[3, 4], pf.tensor([[0, 1], [0, 0]]), None, pf.ones(2), True]
    assert Maker("'x'")("sparse", good)._nnz() == 2
    bad = [change.get(i, part) for i, part in enumerate(good)]
    with pytest.raises(pf.FileError, match="cannot be made"):
        Maker("'x'")("sparse", bad)


def test_printed():
    t = pf.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 4), device="cpu")
    assert repr(t) == (
        "tensor(indices=tensor([[0, 1],\n                       [2, 0]]),\n"
        "       values=tensor([3., 4.]),\n       size=(2, 4), nnz=2, layout=pyflame.sparse_coo)"
    )
    text = repr(t.double().to_sparse_csr().requires_grad_())
    assert (
        "crow_indices=tensor([0, 1, 2])" in text
        and "dtype=" in text
        and "requires_grad=True" in text
    )
    assert "grad_fn=<" in repr(t.requires_grad_() * 2) and str(t) == f"{t}"


# ---- products -------------------------------------------------------------------------------------


def sparse_forms(rng, m, n, nnz, **kwargs):
    t, whole = random_coo(rng, (m, n), nnz, **kwargs)
    return [(t, whole), (t.coalesce(), whole), (t.to_sparse_csr(), whole)]


@pytest.mark.parametrize(
    "m, n, k, nnz",
    [(7, 5, 3, 12), (1, 4, 70, 3), (6, 2, 1, 0), (3, 4, 0, 5), (0, 4, 2, 0), (40, 30, 33, 900)],
)
def test_products(rng, m, n, k, nnz):
    for t, whole in sparse_forms(rng, m, n, nnz):
        x, y = rng.normal(size=(n, k)), rng.normal(size=(k, m))
        v, w = rng.normal(size=n), rng.normal(size=m)
        base = rng.normal(size=(m, k))
        tx = pf.tensor(x)
        for product in (
            pf.mm(t, tx),
            t @ tx,
            pf.sparse.mm(t, tx),
            pf.spmm(t, tx),
            t.mm(tx),
            pf.matmul(t, tx),
        ):
            close(product, whole @ x)
        close(pf.tensor(y) @ t, y @ whole)
        close(pf.mv(t, pf.tensor(v)), whole @ v)
        close(t @ pf.tensor(v), whole @ v)
        close(pf.tensor(w) @ t, w @ whole)
        close(
            pf.sparse.addmm(pf.tensor(base), t, tx, beta=0.5, alpha=2), 0.5 * base + 2 * whole @ x
        )
        close(pf.addmm(pf.tensor(base), t, tx), base + whole @ x)
        close(t.t() @ pf.tensor(base), whole.T @ base)
        close(pf.nn.functional.linear(pf.tensor(x.T), t), x.T @ whole.T)


def test_product_of_transposed_and_strided_operands(rng):
    t, whole = random_coo(rng, (6, 5), 14)
    x = pf.tensor(rng.normal(size=(8, 10)))[::2, ::2].t()
    close(t @ x, whole @ np.asarray(x))


@pytest.mark.parametrize(
    "dtype", [pf.float32, pf.float16, pf.bfloat16, pf.int64, pf.int32, pf.complex128]
)
def test_products_of_dtypes(rng, dtype):
    indices = np.stack([rng.integers(0, 6, 15), rng.integers(0, 5, 15)])
    values, x = rng.integers(-3, 4, 15), rng.integers(-3, 4, (5, 9))
    whole = np.zeros((6, 5))
    np.add.at(whole, tuple(indices), values)
    t = pf.sparse_coo_tensor(indices, pf.tensor(values).to(dtype), (6, 5))
    got = t @ pf.tensor(x).to(dtype)
    assert got.dtype == dtype
    assert got.to(pf.complex128 if dtype.is_complex else F64).tolist() == (whole @ x).tolist()
    assert (t.to_sparse_csr() @ pf.tensor(x).to(dtype)).tolist() == got.tolist()


def test_many_elements_coalesce(rng):
    for shape in ((900,), (30, 40), (10**6,), (10**5, 10**4)):
        at = np.stack([rng.choice(rng.integers(0, n, 60), 4000) for n in shape])
        for width in ((), (5,)):
            values = rng.normal(size=(4000, *width))
            t = pf.sparse_coo_tensor(at, pf.tensor(values), (*shape, *width)).coalesce()
            places, group = np.unique(at, axis=1, return_inverse=True)
            want = np.zeros((places.shape[1], *width))
            np.add.at(want, group.reshape(-1), values)
            assert t.indices().tolist() == places.tolist()
            close(t.values(), want)


def test_sparse_times_sparse(rng):
    for a, left in sparse_forms(rng, 6, 5, 12):
        for b, right in sparse_forms(rng, 5, 8, 14):
            c = a @ b
            assert c.layout == a.layout
            close(c.to_dense(), left @ right)
    empty = pf.sparse_coo_tensor((5, 8), dtype=F64)
    assert (a @ empty).to_dense().abs().sum() == 0


def test_nan_and_infinity_stay_in_their_rows():
    t = pf.sparse_coo_tensor([[0, 1], [1, 0]], [float("nan"), 2.0], (3, 2))
    got = t @ pf.tensor([[1.0, float("inf")], [3.0, 4.0]])
    assert got.isnan().tolist() == [[True, True], [False, False], [False, False]]
    assert got[1].tolist() == [2, float("inf")] and got[2].tolist() == [0, 0]


# ---- gradients ------------------------------------------------------------------------------------


def test_gradients_of_products(rng):
    for form in range(3):
        t, whole = sparse_forms(rng, 6, 5, 14)[form]
        t = t.detach().requires_grad_()
        x, g = rng.normal(size=(5, 4)), rng.normal(size=(6, 4))
        y = pf.tensor(x, requires_grad=True)
        ((t @ y) * pf.tensor(g)).sum().backward()
        close(y.grad, whole.T @ g)
        assert t.grad.layout == t.layout and t.grad._nnz() == t._nnz()
        at = np.asarray(pf._C._sparse_coordinates(t))
        close(t.grad._values(), (g @ x.T)[tuple(at)])


def test_gradients_to_values_that_others_made(rng):
    indices = pf.tensor([[0, 1, 1], [2, 0, 2]])
    w = pf.tensor([1.0, 2.0, 3.0], dtype=F64, requires_grad=True)
    x = pf.tensor(rng.normal(size=(3, 4)))
    t = pf.sparse_coo_tensor(indices, w, (2, 3))
    assert t.requires_grad and not t.is_leaf and t.grad_fn is not None
    (t @ x).sum().backward()
    close(w.grad, np.asarray(x.sum(1))[[2, 0, 2]])
    w.grad = None
    pf.sparse_coo_tensor(indices, w * w, (2, 3)).to_dense()[1].sum().backward()
    assert w.grad.tolist() == [0, 4, 6]


def test_second_derivatives(rng):
    indices = pf.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    v = pf.tensor(rng.normal(size=4), requires_grad=True)
    x = pf.tensor(rng.normal(size=(3, 2)), requires_grad=True)

    def product(v, x):
        return pf.sparse_coo_tensor(indices, v, (2, 3)) @ x

    def cubed(v, x):
        return (product(v, x) ** 3).sum()

    assert pf.autograd.gradcheck(product, (v, x))
    assert pf.autograd.gradgradcheck(cubed, (v, x))

    def by_rows(v, x):
        t = pf.sparse_coo_tensor(indices, v, (2, 3)).coalesce().to_sparse_csr()
        return (t @ x).exp().sum() + (x.t() @ t.t()).sin().sum()

    assert pf.autograd.gradcheck(by_rows, (v, x))
    assert pf.autograd.gradgradcheck(by_rows, (v, x))

    def of_two(v, x):
        a = pf.sparse_coo_tensor(indices, v, (2, 3))
        return ((a @ a.t()).to_dense() ** 2).sum() + pf.sparse.softmax(a, 1).to_dense()[
            :, 2
        ].sum() * x.sum()

    assert pf.autograd.gradcheck(of_two, (v, x))


def test_gradients_of_complex_products(rng):
    indices = pf.tensor([[0, 1, 1], [2, 0, 2]])
    v = pf.tensor(rng.normal(size=3) + 1j * rng.normal(size=3), requires_grad=True)
    x = pf.tensor(rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2)), requires_grad=True)

    def loss(product):
        return (product.abs() ** 2).sum()

    loss(pf.sparse_coo_tensor(indices, v, (2, 3)) @ x).backward()
    got = v.grad.clone(), x.grad.clone()
    v.grad = x.grad = None
    loss(pf.zeros(2, 3, dtype=pf.complex128).index_put((indices[0], indices[1]), v) @ x).backward()
    close(got[0], np.asarray(v.grad))
    close(got[1], np.asarray(x.grad))


def test_gradients_through_conversions(rng):
    x = pf.tensor(rng.normal(size=(4, 5)) * (rng.random((4, 5)) < 0.5), requires_grad=True)
    w = pf.tensor(rng.normal(size=(4, 5)))
    for t in (x.to_sparse(), x.to_sparse_csr(), x.to_sparse(1)):
        x.grad = None
        (t.to_dense() * w).sum().backward()
        there = np.asarray(x.detach() != 0)
        if t.is_sparse and t.sparse_dim() == 1:
            there = np.broadcast_to(there.any(1, keepdims=True), there.shape)
        close(x.grad, np.asarray(w) * there)


def test_gradients_asked_for(rng):
    t, whole = random_coo(rng, (4, 5), 9)
    t.requires_grad_()
    x = pf.tensor(rng.normal(size=(5, 3)), requires_grad=True)
    of_t, of_x = pf.autograd.grad((t @ x).sum(), (t, x), create_graph=True)
    assert of_t.layout == pf.sparse_coo and of_t.requires_grad and t.grad is None
    close(of_t._values(), np.asarray(x.detach().sum(1))[np.asarray(t._indices()[1])])
    close(of_x, whole.sum(0)[:, None].repeat(3, 1))
    pf.autograd.backward(t * 3, t.detach())
    close(t.grad._values(), 3 * np.asarray(t._values()))
    t.grad = None
    (t * 3).backward(t.detach())
    close(t.grad._values(), 3 * np.asarray(t._values()))
    seen = []
    t.grad = None
    handle = t.register_hook(lambda g: seen.append(g) or g * 2)
    t.to_dense().sum().backward()
    handle.remove()
    assert type(seen[0]) is type(t) and t.grad._values().tolist() == [2] * 9


def test_sampled_products(rng):
    for t, whole in sparse_forms(rng, 5, 6, 12)[1:]:
        a, b = (
            pf.tensor(rng.normal(size=(5, 3)), requires_grad=True),
            pf.tensor(rng.normal(size=(3, 6))),
        )
        got = pf.sparse.sampled_addmm(t, a, b, beta=0.5, alpha=2)
        close(got.to_dense(), 0.5 * whole + 2 * np.asarray(a.detach() @ b) * (whole != 0))
        got.to_dense().sum().backward()
        close(a.grad, 2 * (whole != 0) @ np.asarray(b).T)


# ---- elements -------------------------------------------------------------------------------------


def test_sums_and_differences(rng):
    (a, left), (b, right) = random_coo(rng, (4, 5), 9), random_coo(rng, (4, 5), 7)
    dense = rng.normal(size=(4, 5))
    for x, y in ((a, b), (a.to_sparse_csr(), b), (a.coalesce(), b.to_sparse_csr())):
        close((x + y).to_dense(), left + right)
        close((x - y).to_dense(), left - right)
        close(pf.add(x, y, alpha=3).to_dense(), left + 3 * right)
    assert (a.coalesce() + b.coalesce()).is_coalesced()
    close(a + pf.tensor(dense), left + dense)
    close(pf.tensor(dense) + a, left + dense)
    close(pf.tensor(dense) - a, dense - left)
    c = a.clone()
    c += b
    close(c.to_dense(), left + right)
    d = pf.tensor(dense)
    d.add_(a, alpha=2)
    close(d, dense + 2 * left)
    mixed = pf.eye(2) + pf.sparse_coo_tensor([[0, 0], [1, 1]], pf.ones(2), (2, 2), dtype=pf.int64)
    assert mixed.dtype == pf.float32 and mixed.tolist() == [[1, 2], [0, 1]]


def test_products_of_elements(rng):
    (a, left), (b, right) = random_coo(rng, (4, 5), 9), random_coo(rng, (4, 5), 11)
    for x, y in ((a, b), (a.to_sparse_csr(), b.to_sparse_csr())):
        close((x * 3).to_dense(), left * 3)
        close((2.5 * x).to_dense(), left * 2.5)
        close((x * pf.tensor(2.0, dtype=F64)).to_dense(), left * 2)
        close((x / 4).to_dense(), left / 4)
        close((-x).to_dense(), -left)
        close((x * y).to_dense(), left * right)
        dense = rng.normal(size=(4, 5))
        close((x * pf.tensor(dense)).to_dense(), left * dense)
        close((pf.tensor(dense[:, :1]) * x).to_dense(), left * dense[:, :1])
        close((x / pf.tensor(dense)).to_dense(), left / dense)
        close(x.abs().to_dense(), abs(left))
        close(x.sin().to_dense(), np.sin(left))
        close((x**2).to_dense(), left**2)
        close(pf.relu(x).to_dense(), np.maximum(left, 0))
    c = a.clone()
    c *= 2
    close(c.to_dense(), left * 2)
    assert c.neg_() is c
    close(c.to_dense(), left * -2)
    close(a.to_dense(), left)


@pytest.mark.parametrize("dense", [(), (2,)])
def test_sums(rng, dense):
    t, whole = random_coo(rng, (4, 5), 9, dense=dense)
    close(t.sum(), whole.sum())
    close(pf.sparse.sum(t), whole.sum())
    for dim in (0, 1, -1, (0,), [0, 1], (0, 1, *range(2, 2 + len(dense)))):
        got = pf.sparse.sum(t, dim)
        all_sparse = {d % t.dim() for d in ([dim] if isinstance(dim, int) else dim)} >= {0, 1}
        assert got.is_sparse != all_sparse
        close(got.to_dense(), whole.sum(dim if isinstance(dim, int) else tuple(dim)))
    close(t.sum(1, keepdim=True).to_dense(), whole.sum(1, keepdims=True))
    close(t.mean(0).to_dense(), whole.mean(0))
    close(t.norm(), np.sqrt((whole**2).sum()))
    if not dense:
        close(t.to_sparse_csr().sum(0).to_dense(), whole.sum(0))
    s = t.detach().requires_grad_()
    (pf.sparse.sum(s, 0).to_dense() ** 2).sum().backward()
    at = np.asarray(s._indices())
    close(s.grad._values(), (2 * whole.sum(0))[at[1]])


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_over_what_is_stored(rng, dim):
    for t, whole in sparse_forms(rng, 6, 5, 14):
        there = whole != 0
        e = np.where(there, np.exp(whole), 0)
        total = e.sum(dim, keepdims=True)
        want = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
        close(pf.sparse.softmax(t, dim).to_dense(), want)
        close(
            pf.sparse.log_softmax(t, dim).to_dense(),
            np.where(there, np.log(np.where(there, want, 1)), 0),
        )
    wide = pf.sparse_coo_tensor([[0, 0, 10**8], [0, 10**8, 5]], [1.0, 1.0, 2.0])
    assert pf.sparse.softmax(wide, 1).values().tolist() == [0.5, 0.5, 1.0]
    big = pf.sparse_coo_tensor([[0, 0], [0, 1]], [1000.0, 1000.0])
    assert pf.sparse.softmax(big, 1).values().tolist() == [0.5, 0.5]
    hybrid, whole = random_coo(rng, (4,), 3, dense=(5,))
    close(
        pf.sparse.softmax(hybrid, 1).coalesce().values().sum(1), np.ones(hybrid.coalesce()._nnz())
    )


def test_shapes(rng):
    t, whole = random_coo(rng, (4, 5), 9)
    close(t.t().to_dense(), whole.T)
    close(t.T.to_dense(), whole.T)
    close(t.transpose(0, 1).to_dense(), whole.T)
    assert t.to_sparse_csr().t().layout == pf.sparse_csr
    close(t.to_sparse_csr().t().to_dense(), whole.T)
    h, of_h = random_coo(rng, (3, 4), 9, dense=(2, 5))
    close(h.permute(1, 0, 3, 2).to_dense(), of_h.transpose(1, 0, 3, 2))
    close(h.select(0, 1).to_dense(), of_h[1])
    close(h.select(3, -1).to_dense(), of_h[..., -1])
    close(t[2].to_dense(), whole[2])
    close(t[1, 3], whole[1, 3])
    index = [3, 0, 0, 2]
    close(t.index_select(0, pf.tensor(index)).to_dense(), whole[index])
    close(t.index_select(1, pf.tensor(index)).to_dense(), whole[:, index])
    close(pf.cat([t, t], 0).to_dense(), np.concatenate([whole, whole]))
    close(pf.cat([t, t.coalesce()], 1).to_dense(), np.concatenate([whole, whole], 1))
    close(t.unsqueeze(1).to_dense(), whole[:, None])
    assert pf.zeros_like(t)._nnz() == 0 and pf.zeros_like(t).shape == t.shape
    assert pf.equal(t, t.coalesce()) and not pf.equal(t, t * 2)
    mask = pf.tensor(whole).to_sparse()
    dense = rng.normal(size=(4, 5))
    close(pf.tensor(dense).sparse_mask(mask).to_dense(), dense * (whole != 0))
    d = pf.sparse.spdiags(pf.tensor([[1.0, 2, 3], [4, 5, 6]]), pf.tensor([0, 1]), (3, 3))
    assert d.to_dense().tolist() == [[1, 5, 0], [0, 2, 6], [0, 0, 3]]


# ---- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, words, make",
    [
        (pf.IndexError, "index 5 in dimension 0 of size 3", lambda: pf.sparse_coo_tensor([[5], [0]], [1.0], (3, 3))),
        (pf.IndexError, "index -1 in dimension 1", lambda: pf.sparse_coo_tensor([[0], [-1]], [1.0], (3, 3))),
        (pf.DTypeError, "whole numbers", lambda: pf.sparse_coo_tensor([[0.5], [0.0]], [1.0], (3, 3))),
        (pf.ShapeError, "sparse dimensions", lambda: pf.sparse_coo_tensor([0, 1], [1.0, 2.0], (3,))),
        (pf.ShapeError, "2 indices and 3 values", lambda: pf.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (3,))),
        (pf.ShapeError, "size", lambda: pf.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 3))),
        (pf.ShapeError, "size", lambda: pf.sparse_coo_tensor([[0]], [[1.0, 2.0]], (3, 3))),
        (pf.ShapeError, "negative", lambda: pf.sparse_coo_tensor([[0]], [1.0], (-3,))),
        (pf.ValueError, "is_coalesced", lambda: pf.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True)),
        (TypeError, "no values", lambda: pf.sparse_coo_tensor([[0, 1]])),
        (pf.ValueError, "fall from 2 to 1", lambda: pf.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2))),
        (pf.ValueError, "from 0 to 3 for 2", lambda: pf.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2))),
        (pf.IndexError, "column 2 of 2", lambda: pf.sparse_csr_tensor([0, 1, 2], [0, 2], [1.0, 2.0], (2, 2))),
        (pf.IndexError, "column -1", lambda: pf.sparse_csr_tensor([0, 1, 2], [0, -1], [1.0, 2.0], (2, 2))),
        (pf.ShapeError, "crow_indices", lambda: pf.sparse_csr_tensor([0, 1], [0], [1.0], (2, 2))),
        (pf.ShapeError, "one value", lambda: pf.sparse_csr_tensor([0, 1], [0], [1.0, 2.0], (1, 2))),
        (pf.ValueError, "not in order", lambda: pf.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], check_invariants=True)),
        (pf.NotSupportedError, "layout", lambda: pf.sparse_compressed_tensor([0], [], [], layout="sparse_csc")),
        (pf.NotSupportedError, "one dimension", lambda: pf.sparse_coo_tensor(())),
        (pf.ValueError, "sparse_dim=3", lambda: pf.ones(2, 2).to_sparse(3)),
        (pf.NotSupportedError, "matrix", lambda: pf.ones(2).to_sparse_csr()),
        (pf.NotSupportedError, "to_sparse_csr", lambda: pf.eye(2).to_sparse_csc()),
        (pf.NotSupportedError, "to_sparse_csr", lambda: pf.eye(2).to_sparse().to_sparse_bsr((1, 1))),
        (pf.NotSupportedError, "to_sparse_csr", lambda: pf.eye(2).to_sparse_csr().to_sparse_bsc(1)),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit(error, words, make):
    with check_sparse_tensor_invariants(), pytest.raises(error, match=words):
        make()


def test_parts_on_the_cpu_are_always_looked_at():
    index, column = pf.tensor([[5]], device="cpu"), pf.tensor([5], device="cpu")
    one, starts = pf.ones(1, device="cpu"), pf.tensor([0, 1], device="cpu")
    with pytest.raises(pf.IndexError, match="index 5"):
        pf.sparse_coo_tensor(index, one, (3,))
    with pytest.raises(pf.IndexError, match="column 5"):
        pf.sparse_csr_tensor(starts, column, one, (1, 3))


@pytest.mark.parametrize(
    "error, words, call",
    [
        (pf.ShapeError, "columns of the first", lambda t: t @ pf.ones(2, 2)),
        (pf.DTypeError, "one dtype", lambda t: t @ pf.ones(3, 2, dtype=F64)),
        (pf.ShapeError, "one shape", lambda t: t + pf.ones(3)),
        (pf.NotSupportedError, "number", lambda t: t + 1),
        (pf.ShapeError, "broadcasts", lambda t: t * pf.ones(2, 2)),
        (pf.NotSupportedError, "divisor", lambda t: 1 / t),
        (pf.NotSupportedError, "exponent", lambda t: t**-1),
        (pf.NotSupportedError, r"pf\.exp", lambda t: t.exp()),
        (pf.NotSupportedError, "to_dense", lambda t: pf.sparse_coo_tensor([[0]], [1.0]).item()),
        (pf.NotSupportedError, "to_dense", lambda t: t.tolist()),
        (pf.NotSupportedError, "to_dense", lambda t: pf.einsum("ij->i", t)),
        (pf.NotSupportedError, "whole numbers", lambda t: t[0:1]),
        (pf.IndexError, "dimension 5", lambda t: pf.sparse.sum(t, 5)),
        (TypeError, "sparse", lambda t: pf.sparse.softmax(pf.ones(2, 2), 0)),
        (TypeError, "to_dense", lambda t: t.numpy()),
        (pf.ShapeError, "matrix", lambda t: pf.sparse_coo_tensor([[0]], [[1.0]]) @ pf.ones(1, 1)),
        (pf.ShapeError, "copy_", lambda t: t.copy_(pf.ones(2, 3))),
        (pf.NotSupportedError, "mode 'max'", lambda t: pf.nn.EmbeddingBag(3, 2, mode="max", sparse=True)(pf.tensor([[1]]))),
        (pf.NotSupportedError, "scale_grad_by_freq", lambda t: pf.nn.Embedding(3, 2, scale_grad_by_freq=True, sparse=True)(pf.tensor([1]))),
        (TypeError, "sparse_coo_tensor", lambda t: type(t)(pf.ones(2))),
    ],
)  # fmt: skip
def test_what_cannot_be_done_says_so(error, words, call):
    t = pf.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], (2, 3))
    with pytest.raises(error, match=words):
        call(t)
    assert t.to_dense().tolist() == [[0, 1, 0], [0, 0, 2]]


def test_invariants_are_a_switch():
    wrong = ([0, 2], [1, 0], [1.0, 2.0])
    assert not check_sparse_tensor_invariants.is_enabled()
    pf.sparse_csr_tensor(*wrong)
    with check_sparse_tensor_invariants():
        assert check_sparse_tensor_invariants.is_enabled()
        with pytest.raises(pf.ValueError):
            pf.sparse_csr_tensor(*wrong)
        with check_sparse_tensor_invariants(False):
            pf.sparse_csr_tensor(*wrong)
        pf.sparse_csr_tensor(*wrong, check_invariants=False)

    @check_sparse_tensor_invariants(True)
    def made():
        return pf.sparse_csr_tensor(*wrong)

    with pytest.raises(pf.ValueError):
        made()
    check_sparse_tensor_invariants.enable()
    try:
        with pytest.raises(pf.ValueError):
            pf.sparse_csr_tensor(*wrong)
    finally:
        check_sparse_tensor_invariants.disable()


def test_unchecked_parts_raise_in_products_and_write_nothing_else():
    bad = pf.sparse_coo_tensor([[0, 1], [1, 7]], [1.0, 2.0], (2, 3), check_invariants=False)
    with pytest.raises(pf.IndexError):
        (bad @ pf.ones(3, 2)).tolist()
    bad = pf.sparse_csr_tensor([0, 90, 2], [1, 2], [1.0, 2.0], (2, 3), check_invariants=False)
    assert (bad @ pf.ones(3, 2)).shape == (2, 2)
    bad = pf.sparse_csr_tensor([0, 1, 2], [1, -2], [1.0, 2.0], (2, 3), check_invariants=False)
    with pytest.raises(pf.IndexError):
        (bad @ pf.ones(3, 2)).tolist()


def test_indices_that_are_changed_are_seen():
    t = pf.sparse_coo_tensor(pf.tensor([[0, 1], [1, 2]]), [1.0, 2.0], (2, 3), is_coalesced=True)
    x = pf.tensor([[1.0], [10.0], [100.0]])
    assert (t @ x).tolist() == [[10], [200]]
    t.indices()[1, 0] = 0
    assert (t @ x).tolist() == [[1], [200]]


# ---- beside PyTorch -------------------------------------------------------------------------------


def pairs(torch, text):
    """The same expression of both."""
    return [eval(text, {"torch": t, "F": t.nn.functional}) for t in (pf, torch)]


MADE = "torch.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], [1.0, -2.0, 4.0], (3, 4))"
SAME = [
    "{}.is_coalesced()", "{}._nnz()", "{}.coalesce().values()", "{}.coalesce().indices()", "{}.sum()",
    "{}.to_dense()", "{}.t().to_dense()", "{}.to_sparse_csr().crow_indices()", "{}.coalesce()._nnz()",
    "{}.to_sparse_csr().col_indices()", "torch.sparse.sum({}, 0).to_dense()", "torch.sparse.sum({}, (0, 1))",
    "torch.sparse.sum({}, 1).layout == torch.sparse_coo", "({} + {}).to_dense()", "({} * 2).to_dense()",
    "torch.sparse.softmax({}, 1).to_dense()", "torch.sparse.log_softmax({}, 0).to_dense()",
    "({} * {}).to_dense()", "{}.size()", "{}.sparse_dim()", "torch.mm({}, torch.ones(4, 2))",
    "torch.spmm({}, torch.ones(4, 2))", "({} @ {}.t()).to_dense()", "{} @ torch.ones(4)",
    "torch.sparse.addmm(torch.ones(3, 2), {}, torch.ones(4, 2), beta=2, alpha=3)", "{}.abs().to_dense()",
    "torch.ones(3, 4) + {}", "torch.eye(3).to_sparse()._nnz()", "torch.eye(3).to_sparse(1).dense_dim()",
    "torch.eye(3).to_sparse().is_coalesced()", "{}.transpose(0, 1).is_coalesced()", "{}.select(0, 2).to_dense()",
    "({} / 2).to_dense()", "{}.is_sparse", "{}.requires_grad", "{}.index_select(0, torch.tensor([2, 2])).to_dense()",
    "torch.cat([{}, {}]).to_dense()", "{}.dtype == torch.float32", "{}.is_leaf", "{}.double().dtype == torch.float64",
    "torch.sparse_coo_tensor([[0]], [1.0]).is_coalesced()", "torch.sparse_coo_tensor((2, 3)).is_coalesced()",
    "torch.sparse_coo_tensor((2, 3))._nnz()", "{}.coalesce().t().is_coalesced()", "({} + {}).is_coalesced()",
    "{}.norm()", "{}.neg().is_coalesced()", "torch.zeros_like({})._nnz()", "{}.clone().is_coalesced()",
]  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_beside_pytorch(text):
    torch = pytest.importorskip("torch")
    ours, theirs = pairs(torch, text.replace("{}", MADE))
    if isinstance(theirs, torch.Tensor):
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
        np.testing.assert_allclose(np.asarray(ours), theirs.numpy(), 1e-6, 1e-6)
    else:
        assert ours == theirs


def test_names_of_layouts():
    dense, coo = pf.zeros(2), pf.eye(2).to_sparse()
    assert dense.layout is pf.strided and isinstance(dense.layout, pf.layout)
    assert coo.layout is pf.sparse_coo and pf.eye(2).to_sparse_csr().layout is pf.sparse_csr
    assert coo.layout not in {pf.strided, pf.sparse_csc, pf.sparse_bsr, pf.sparse_bsc, pf.jagged}
    assert repr(pf.strided) == str(pf.strided) == "pyflame.strided" and pf.strided == "strided"
    for of in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        assert of(pf.sparse_coo) is pf.sparse_coo
    assert pf.ones(2, layout=pf.strided).sum() == 2
    with pytest.raises(pf.NotSupportedError, match="strided"):
        pf.ones(2, layout=pf.sparse_coo)
    with pytest.raises(ValueError, match="expected one of"):
        pf.layout("dense")
