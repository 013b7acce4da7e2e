"""What single operations promise about shapes, dtypes, `out=` and arguments that make no sense."""

import numpy as np
import pytest
from finite import check_grad, same

import pyflame as pf

F = pf.nn.functional


def test_cosine_similarity_of_shapes_that_broadcast_along_the_vectors():
    rng = np.random.default_rng(0)
    for one, two, dim in (
        ((2, 1), (1, 3), 1),
        ((3,), (2, 3), 0),
        ((4, 1, 3), (5, 1), 1),
        ((), (3,), 0),
    ):
        x, y = rng.standard_normal(one), rng.standard_normal(two)
        a, b = np.broadcast_arrays(x, y)
        length = np.sqrt((a * a).sum(dim) * (b * b).sum(dim))
        same(
            F.cosine_similarity(pf.tensor(x), pf.tensor(y), dim),
            (a * b).sum(dim) / length,
            rtol=1e-12,
        )
        check_grad(lambda s, t, d=dim: F.cosine_similarity(s, t, d), x, y)


def test_normalize_writes_out():
    out, x = pf.zeros(2, 3), pf.tensor([[3.0, 0, 4], [0, 0, 2]])
    assert F.normalize(x, out=out) is out
    same(out, [[0.6, 0, 0.8], [0, 0, 1]], rtol=1e-6)
    with pytest.raises(pf.ShapeError, match="out="):
        F.normalize(x, out=pf.zeros(2))


def test_no_difference_adds_nothing():
    x, more = pf.tensor([1.0, 2.0]), pf.tensor([5.0])
    same(pf.diff(x, n=0, append=more, prepend=more), [1, 2])
    same(pf.diff(x, n=1, append=more, prepend=more), [-4, 1, 3])


@pytest.mark.parametrize("dtype", [pf.int64, pf.int32, pf.float32, pf.float16])
def test_means_of_scattered_numbers(dtype):
    start, index = pf.tensor([7, 7, 7], dtype=dtype), pf.tensor([0, 0, 1, 1, 1])
    source = pf.tensor([-3, -4, 5, 5, 6], dtype=dtype)
    for with_self in (False, True):
        got = start.scatter_reduce(0, index, source, "mean", include_self=with_self)
        want = np.array([-3.5, 16 / 3, 7]) if not with_self else np.array([0, 23 / 4, 7])
        same(got.double(), want if dtype.is_floating_point else np.floor(want), rtol=1e-3)
    many = pf.ones(5000, dtype=dtype)  # float16 cannot count to 5000 by ones
    index = pf.zeros(5000, dtype=pf.int64)
    assert start.scatter_reduce(0, index, many * 0, "mean", include_self=False)[0].item() == 0


def test_weights_of_cov():
    x, often = pf.tensor([[1.0, 2.0, 4.0]]), pf.tensor([1, 2, 1])
    much = pf.tensor([0.5, 1.0, 2.0], dtype=pf.float64)
    assert pf.cov(x, fweights=often).dtype == pf.float32
    assert pf.cov(x, aweights=much).dtype == pf.float64
    assert pf.cov(pf.tensor([1, 2, 4]), aweights=much).dtype == pf.float64
    for weights, error, word in (
        (dict(fweights=pf.tensor([1, -2, 1])), pf.ValueError, "negative"),
        (dict(aweights=pf.tensor([0.5, -1.0, 1.0])), pf.ValueError, "negative"),
        (dict(fweights=pf.tensor([1.0, 2.0, 1.0])), pf.DTypeError, "aweights"),
        (dict(aweights=often), pf.DTypeError, "fweights"),
    ):
        with pytest.raises(error, match=word):
            pf.cov(x, **weights)


def test_powers_of_bools_are_integers():
    b = pf.tensor([True, False])
    for got in (b.square(), pf.square(b), b**2, b**3, b.pow(2)):
        assert got.dtype == pf.int64 and got.tolist() == [1, 0]


def test_prelu_of_one_number():
    for weight in (pf.tensor([0.25]), pf.tensor(0.25)):
        assert F.prelu(pf.tensor(-1.0), weight).shape == ()
        assert F.prelu(pf.tensor([-1.0, 2.0]), weight).tolist() == [-0.25, 2]
    check_grad(lambda x, w: F.prelu(x, w), np.array(-1.5), np.array([0.25]))


def test_an_endless_slope_below_zero_is_none_at_zero():
    x = pf.tensor([-1.0, -0.0, 0.0, 1.0])
    for alpha in (float("inf"), float("nan")):
        assert F.elu(x, alpha)[1:].tolist() == F.celu(x, alpha)[1:].tolist() == [0, 0, 1]
    assert F.elu(x, float("inf"))[0].item() == -float("inf")


@pytest.mark.parametrize("dtype", [pf.float16, pf.bfloat16])
def test_decimals_of_sixteen_bits_are_rounded_once(dtype):
    x = pf.tensor([1.2345, -3.14159, 60000.0, 1e-3]).to(dtype)
    for decimals in (2, -3):
        want = x.float().round(decimals=decimals).to(dtype)
        assert x.round(decimals=decimals).tolist() == want.tolist()


def test_an_expanded_view_changes_its_shape_in_place():
    x = pf.ones(3, 1).expand(3, 4)
    assert x.t_().shape == (4, 3) and x.unsqueeze_(0).shape == (1, 4, 3)
    assert x.squeeze_().transpose_(0, 1).shape == (3, 4)
    with pytest.raises(ValueError, match="more than once"):
        x.add_(1)


REFUSED = {
    "a greatest uint8 below 0": lambda x: x.to(pf.uint8).clamp_max(-2),
    "bounds of uint8 below 0": lambda x: x.to(pf.uint8).clamp(-3, -2),
    "hardtanh": lambda x: F.hardtanh(x, 2.0, 1.0),
    "hardtanh in place": lambda x: F.hardtanh(x, 2.0, 1.0, inplace=True),
    "softshrink": lambda x: F.softshrink(x, -1.0),
    "isclose": lambda x: pf.isclose(x, x, rtol=-1e-3),
    "allclose": lambda x: pf.allclose(x, x, atol=-1e-3),
    "cross": lambda x: pf.linalg.cross(pf.ones(3), pf.ones(2, 3)),
    "a part as out=": lambda x: pf.add(x[:-1], 1, out=x[1:]),
    "a part of a list as out=": lambda x: pf.cat([x[1:], x[:1]], out=x),
    "the index as out=": lambda x: (lambda i: pf.take(pf.arange(4), i, out=i))(pf.tensor([1, 0])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises((pf.ValueError, pf.ShapeError), match="expected"):
        REFUSED[name](pf.arange(4.0))


def test_out_may_be_an_operand():
    x = pf.arange(4.0).view(2, 2)
    assert pf.mm(x, x, out=x).tolist() == [[2, 3], [6, 11]]
    x = pf.arange(6)
    pf.add(x[::2], 1, out=x[1::2])  # between each other
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    pf.take(x, pf.tensor([5, 4, 3, 2, 1, 0]), out=x)
    assert x.tolist() == [5, 4, 3, 2, 1, 0]
