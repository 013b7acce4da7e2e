"""cdist and pdist: values, gradients and layouts against differences taken in float64."""

import numpy as np
import pytest
from finite import check_grad, same

import pyflame as pf
from pyflame.nn import functional as F

pytestmark = pytest.mark.kernels

INF = float("inf")
NORMS = [0.0, 1.0, 2.0, 2.5, INF]
RNG = np.random.default_rng(5)


def reference(a, b, p):
    return np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, axis=-1)


def points(*shape):
    """Some rows coincide, some differ in one coordinate."""
    a = RNG.standard_normal(shape)
    if len(shape) >= 2 and shape[-2] > 2 and shape[-1] > 0:
        a[..., 1, :] = a[..., 0, :]
        a[..., 2, 0] = a[..., 0, 0]
    return a


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize(
    "first, second",
    [
        ((5, 3), (7, 3)),
        ((1, 1), (1, 1)),
        ((2, 67, 17), (2, 65, 17)),
        ((2, 1, 9, 33), (3, 20, 33)),
        ((4, 600), (33, 600)),
        ((3, 0), (4, 0)),
        ((0, 3), (4, 3)),
    ],
)
def test_cdist(first, second, p):
    a, b = points(*first), points(*second)
    for dtype, tol in ((pf.float64, 1e-12), (pf.float32, 1e-5), (pf.bfloat16, 2e-2)):
        x, y = pf.tensor(a).to(dtype), pf.tensor(b).to(dtype)
        got = pf.cdist(x, y, p)
        assert got.dtype == dtype
        want = reference(x.double().cpu().numpy(), y.double().cpu().numpy(), p)
        same(got.double(), want, rtol=tol, atol=tol)


@pytest.mark.parametrize("p", NORMS)
def test_gradients(p):
    a, b = RNG.standard_normal((2, 5, 3)), RNG.standard_normal((2, 4, 3))
    check_grad(lambda x, y: pf.cdist(x, y, p), a, b, tol=1e-5)
    check_grad(lambda x: F.pdist(x, p), a[0], tol=1e-5)
    # A broadcast operand gets the sum.
    check_grad(lambda x, y: pf.cdist(x, y, p), a, b[0], tol=1e-5)


@pytest.mark.parametrize("p", [1.0, 2.0, INF])
def test_second_derivatives(p):
    a, b = RNG.standard_normal((4, 3)), RNG.standard_normal((5, 3))

    def slope_of(distance):
        def f(*given):
            given = [t if t.requires_grad else t.detach().requires_grad_() for t in given]
            (g,) = pf.autograd.grad(distance(*given).sin().sum(), given[0], create_graph=True)
            return g

        return f

    check_grad(slope_of(lambda x, y: pf.cdist(x, y, p)), a, b, tol=1e-5)
    check_grad(slope_of(lambda x: F.pdist(x, p)), a, tol=1e-5)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 40, 70, 300])
def test_pdist_is_the_triangle_of_cdist(rows, p):
    a = points(rows, 19)
    i, j = np.triu_indices(rows, 1)
    x, y = (pf.tensor(a, requires_grad=True) for _ in range(2))
    close, all_pairs = F.pdist(x, p), pf.cdist(y, y, p)
    same(close, reference(a, a, p)[i, j], rtol=1e-12, atol=1e-12)
    weights = RNG.standard_normal(i.size)
    square = np.zeros((rows, rows))
    square[i, j] = weights
    close.backward(pf.tensor(weights))
    all_pairs.backward(pf.tensor(square))
    same(x.grad, y.grad, rtol=1e-11, atol=1e-11)


def test_layouts():
    a, b = points(18, 7), points(12, 7)
    x, y = pf.tensor(a.T.copy()).t(), pf.tensor(np.repeat(b, 2, axis=0))[::2]
    same(pf.cdist(x, y), reference(a, b, 2), rtol=1e-12)
    same(F.pdist(x), reference(a, a, 2)[np.triu_indices(18, 1)], rtol=1e-12)
    one = pf.tensor(b[:1]).expand(5, 7)
    same(pf.cdist(one, x, 1.0), reference(np.repeat(b[:1], 5, 0), a, 1), rtol=1e-12)


@pytest.mark.parametrize("p", NORMS)
def test_special_values(p):
    a = np.array([[0.0, 1], [np.nan, 0], [np.inf, 2], [-np.inf, 2], [1e200, 0]])
    with np.errstate(all="ignore"):
        want = reference(a, a, p)
    same(pf.cdist(pf.tensor(a), pf.tensor(a), p), want, rtol=1e-12)
    # Where points coincide, the gradient is 0 and not NaN.
    x = pf.zeros(3, 4, requires_grad=True)
    (pf.cdist(x, x, p).sum() + F.pdist(x, p).sum()).backward()
    same(x.grad, np.zeros((3, 4)))


@pytest.mark.cpu_only
def test_threads_change_no_bit():
    x, y = pf.randn(130, 300), pf.randn(70, 300)
    g = pf.randn(130, 70)
    before = pf.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        pf.set_num_threads(threads)
        a = x.clone().requires_grad_()
        d = pf.cdist(a, y)
        d.backward(g)
        results.append((d.detach().numpy().tobytes(), a.grad.numpy().tobytes()))
    pf.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_bad_arguments():
    with pytest.raises(pf.ValueError, match="expected at least 0"):
        pf.cdist(pf.ones(2, 3), pf.ones(2, 3), -1.0)
    with pytest.raises(pf.ValueError, match="expected at least 0"):
        F.pdist(pf.ones(2, 3), -1.0)
    with pytest.raises(pf.ShapeError, match="matrix whose rows"):
        F.pdist(pf.ones(2, 3, 4))


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5, INF])
@pytest.mark.parametrize("dtype", [pf.float16, pf.bfloat16], ids=str)
def test_gradients_of_16_bits(dtype, p):
    """The largest difference is found again in the gradient, whatever the result was rounded to."""
    a, b = (pf.tensor(RNG.standard_normal(s)).to(dtype) for s in ((6, 5), (7, 5)))

    def gradients(x, y):
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        d, e = pf.cdist(x, y, p), F.pdist(x, p)
        assert d.dtype == e.dtype == x.dtype
        return pf.autograd.grad(d.sum() + e.sum(), [x, y])

    for got, want in zip(gradients(a, b), gradients(a.double(), b.double())):
        assert got.dtype == dtype
        same(got.double(), want.cpu().numpy(), rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("distance", [lambda x: pf.cdist(x, x), F.pdist, lambda x: x.norm(dim=1)])
def test_derivative_by_the_cotangent_where_points_coincide(distance):
    x = pf.zeros(3, 4, requires_grad=True)
    d = distance(x)
    weights = pf.ones(*d.shape, requires_grad=True)
    (g,) = pf.autograd.grad(d, x, weights, create_graph=True)
    (slope,) = pf.autograd.grad(g.sum(), weights)
    same(slope, np.zeros(tuple(d.shape)))


def test_distance_from_a_mask():
    mask = pf.tensor([True, False, True])
    assert pf.dist(pf.tensor([1.0, 3.0, 1.0]), mask).item() == 3


@pytest.mark.parametrize("batch", [(), (2,)])
def test_norms_without_a_kernel_go_piece_by_piece(batch):
    """Differences of more rows than a piece holds: values and both gradients as of all at once."""
    n, m, d = 10, 900, 1200  # three rows of x are a piece
    x = pf.randn(*batch, n, d, dtype=pf.float64, requires_grad=True)
    y = pf.randn(*batch, m, d, dtype=pf.float64, requires_grad=True)
    grad = pf.randn(*batch, n, m, dtype=pf.float64)
    got = pf.cdist(x, y, 3.0)
    got.backward(grad)
    some = [0, 2, 3, 9]  # of the first piece, the second and the last
    at = (-1,) if batch else ()
    a, b = x.detach().cpu().numpy()[at], y.detach().cpu().numpy()[at]
    diff = a[some][:, None] - b[None]
    far = (np.abs(diff) ** 3).sum(-1) ** (1 / 3)
    same(got.detach()[at][some], far, rtol=1e-12)
    slope = np.sign(diff) * np.abs(diff / far[..., None]) ** 2
    same(
        x.grad[at][some],
        (grad[at][some].cpu().numpy()[..., None] * slope).sum(1),
        rtol=1e-9,
        atol=1e-11,
    )
    few = [0, 899]
    diff = a[:, None] - b[few][None]
    slope = np.sign(diff) * np.abs(diff / got.detach()[at][:, few].cpu().numpy()[..., None]) ** 2
    want = -(grad[at][:, few].cpu().numpy()[..., None] * slope).sum(0)
    same(y.grad[at][few], want, rtol=1e-9, atol=1e-11)


@pytest.mark.cpu_only
def test_second_derivatives_piece_by_piece():
    x, y = (pf.randn(n, 3000, dtype=pf.float64, requires_grad=True) for n in (2, 800))

    def penalty(a, b):
        (slope,) = pf.autograd.grad(pf.cdist(a, b, 3.0).sin().sum(), a, create_graph=True)
        return slope.square().sum()

    in_pieces = pf.autograd.grad(penalty(x, y), (x, y))
    at_once = [0, 0]
    for i in range(2):  # a row is a piece, and what is below a piece goes at once
        half = [pf.cat([x[i : i + 1]]), y]
        parts = [half[1][:400], half[1][400:]]
        (slope,) = pf.autograd.grad(
            sum(pf.cdist(half[0], part, 3.0).sin().sum() for part in parts), half[0],
            create_graph=True,
        )  # fmt: skip
        found = pf.autograd.grad(slope.square().sum(), (x, y))
        at_once = [a + f for a, f in zip(at_once, found)]
    for got, want in zip(in_pieces, at_once):
        same(got, want.cpu().numpy(), rtol=1e-9, atol=1e-11)


def test_no_batches_of_norms_without_a_kernel():
    x, y = pf.zeros(0, 5, 3, requires_grad=True), pf.zeros(0, 4, 3, requires_grad=True)
    d = pf.cdist(x, y, 3.0)
    d.sum().backward()
    assert d.shape == (0, 5, 4) and x.grad.shape == (0, 5, 3) and y.grad.shape == (0, 4, 3)


def test_pdist_of_other_orders_takes_the_differences_in_pieces():
    rows, columns = 150, 400  # 4.5 million differences
    x = np.random.default_rng(5).standard_normal((rows, columns))
    by = np.random.default_rng(6).standard_normal(rows * (rows - 1) // 2)
    upper = np.triu_indices(rows, 1)
    a, b = (pf.tensor(x, requires_grad=True) for _ in range(2))
    near, far = F.pdist(a, 3.0), pf.cdist(b, b, 3.0)[upper]
    same(near.detach(), far.detach(), rtol=1e-12)
    (near * pf.tensor(by)).sum().backward()
    (far * pf.tensor(by)).sum().backward()
    same(a.grad, b.grad, rtol=1e-9)
