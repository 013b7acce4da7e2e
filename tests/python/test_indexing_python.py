"""x[...] and x[...] = v against NumPy, for every kind of index and their mixtures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyflame as pf

A = np.arange(3 * 4 * 5).reshape(3, 4, 5)
MASK = A % 3 == 0

KEYS = [
    0,
    -1,
    (1, 2),
    (1, 2, 3),
    slice(None),
    slice(1, 3),
    slice(0, 10, 2),
    slice(5, 2),
    slice(-2, None),
    (slice(None), 1),
    (slice(None), slice(1, 3), slice(None, None, 2)),
    (Ellipsis, 0),
    (0, Ellipsis),
    (Ellipsis, slice(1, 2)),
    Ellipsis,
    None,
    (None, 0),
    (slice(None), None, 1),
    (Ellipsis, None),
    (0, None, Ellipsis, None, 2),
    (),
    [0, 2],
    ([[0, 1], [2, 0]],),
    ([0, 1], [1, 2]),
    ([0, 1], slice(None), [1, 2]),
    (slice(None), [0, 1], [1, 2]),
    (slice(None), [3, 0]),
    ([0, 1], 1),
    (0, [0, 1]),
    ([[0], [1]], [0, 1, 2]),
    (Ellipsis, [0, 1]),
    (None, [0, 1]),
    ([0, 1], None),
    ([-1, -2],),
    [],
    True,
    False,
    (True, 0),
    np.array([0, 2]),
    np.array([True, False, True]),
    MASK,
    MASK[:, :, 0],
    (MASK[:, :, 0], slice(1, 3)),
    (slice(None), MASK[0]),
    (slice(None), MASK[0, :, 0]),
    (MASK[:, 0, 0], [0]),
    (np.int64(1), np.int32(2)),
    [True, False, True],
]


def ours(key):
    """The key with NumPy's arrays as tensors."""
    if isinstance(key, tuple):
        return tuple(ours(k) for k in key)
    return pf.tensor(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("convert", [lambda k: k, ours], ids=["numpy", "tensor"])
def test_read(key, convert):
    want = A[key]
    got = pf.tensor(A)[convert(key)]
    assert isinstance(got, pf.Tensor) and got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_write(key):
    for value in (7, "same", "one"):
        a, x = A.copy(), pf.tensor(A)
        part = a[key]
        if value == "same":
            new = np.arange(part.size).reshape(part.shape) - 100
        elif value == "one":
            new = np.array(-3)
        else:
            new = value
        a[key] = new
        x[ours(key)] = pf.tensor(new) if isinstance(new, np.ndarray) else new
        np.testing.assert_array_equal(x.numpy(), a)


def test_views_stay_views():
    x = pf.arange(12).reshape(3, 4)
    for view in (x[0], x[:, 1], x[..., None], x[None], x[1:, ::2], x[...], x[:]):
        assert view._shares_storage(x)
    x[0][1] = 100
    x[:, 2][0] = 50
    assert x[0].tolist() == [0, 100, 50, 3]
    row = x[1]
    row += 1
    assert x[1].tolist() == [5, 6, 7, 8]
    assert not x[[0, 1]]._shares_storage(x) and not x[x > 3]._shares_storage(x)


def test_write_converts_and_broadcasts():
    x = pf.zeros(2, 3)
    x[0] = pf.tensor([1, 2, 3])
    x[1] = [4, 5, 6]
    x[:, 0] = np.array([7, 8])
    assert x.tolist() == [[7, 2, 3], [8, 5, 6]]
    x[0] = pf.ones(1, 1, 3)
    x[1, 1:] = 2.5
    x[x == 1] = -1
    assert x.tolist() == [[-1, -1, -1], [8, 2.5, 2.5]]
    x[pf.tensor([0, 1]), pf.tensor([0, 1])] = pf.tensor([10, 20])
    assert x[0, 0].item() == 10 and x[1, 1].item() == 20
    x[...] = 0
    x[pf.tensor(1)] = 3
    assert x.tolist() == [[0, 0, 0], [3, 3, 3]]
    y = pf.tensor(5.0)
    y[()] = 2
    assert y.item() == 2 and y[()].item() == 2 and y[None].shape == (1,)


def test_integers_select_first():
    """As in PyTorch, and unlike NumPy, an int beside index lists is no index list."""
    x = pf.tensor(A)
    np.testing.assert_array_equal(x[0, :, [0, 1]].numpy(), A[0][:, [0, 1]])
    x[0, :, [0, 1]] = -1
    assert (x[0, :, :2] == -1).all() and (x[1:] >= 0).all()


def test_repeated_indices():
    x = pf.zeros(3)
    x.index_put_((pf.tensor([0, 0, 2]),), pf.tensor([1.0, 2.0, 3.0]), accumulate=True)
    assert x.tolist() == [3, 0, 3]


@pytest.mark.parametrize(
    "key, error",
    [
        (3, pf.IndexError),
        (-4, pf.IndexError),
        ((0, 4), pf.IndexError),
        ((0, 0, 0, 0), pf.IndexError),
        (slice(None, None, 0), (pf.ValueError, ValueError)),
        ("a", TypeError),
        (1.5, IndexError),
        ([1.5], pf.IndexError),
        ([True, False], pf.IndexError),
        (np.ones((2, 2), bool), pf.IndexError),
        ([5], pf.IndexError),
        ([-4], pf.IndexError),
        (([0, 1], [0, 1, 2]), pf.PyFlameError),
    ],
    ids=str,
)
def test_bad_keys(key, error):
    x = pf.tensor(A)
    with pytest.raises(error):
        x[key]
        pf.synchronize()
    with pytest.raises(error):
        x[key] = 0
        pf.synchronize()
    np.testing.assert_array_equal(pf.tensor(A).numpy(), A)


def test_bad_values():
    x = pf.zeros(2, 3)
    with pytest.raises(pf.ShapeError):
        x[0] = pf.ones(2)
    with pytest.raises(TypeError):
        x[0] = "a"
    with pytest.raises(TypeError):
        del x[0]
    with pytest.raises(pf.IndexError):
        pf.tensor(1.0)[0]
    with pytest.raises(IndexError):  # Python's own class, too
        x[5]


def test_gradients():
    x = pf.randn(4, 5, dtype=pf.float64, requires_grad=True)
    rows = pf.tensor([0, 2, 2])
    for key in (1, slice(1, 3), (slice(None), 2), rows, (rows, rows), x.detach() > 0, None):
        assert pf.autograd.gradcheck(lambda v, key=key: v[key] * 2, x)

    def write(v, w):
        y = v * 1
        y[1] = w
        y[pf.tensor([0, 2, 3]), 0] = w[:3]
        y[y > 100] = 0
        return y * y

    w = pf.randn(5, dtype=pf.float64, requires_grad=True)
    assert pf.autograd.gradcheck(write, (x, w))


indices = st.one_of(
    st.integers(-4, 3),
    st.slices(4),
    st.none(),
    st.just(Ellipsis),
    st.lists(st.integers(-4, 3), min_size=3, max_size=3),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(indices, max_size=4))
def test_random_keys(keys):
    key = tuple(slice(k.start, k.stop, k.step or None) if isinstance(k, slice) else k for k in keys)
    kinds = [type(k) for k in key]
    if kinds.count(type(Ellipsis)) > 1 or sum(k is not None and k is not Ellipsis for k in key) > 3:
        return
    # Where PyTorch and NumPy differ: ints beside lists, an Ellipsis of no dimensions between lists.
    if list in kinds and (int in kinds or (type(Ellipsis) in kinds and kinds.count(list) > 1)):
        return
    a = np.arange(64).reshape(4, 4, 4)
    x = pf.tensor(a)
    np.testing.assert_array_equal(x[key].numpy(), a[key])
    value = np.arange(a[key].size).reshape(a[key].shape)
    a[key] = value
    x[key] = pf.tensor(value)
    np.testing.assert_array_equal(x.numpy(), a)
    a[key] = -1
    x[key] = -1
    np.testing.assert_array_equal(x.numpy(), a)


def test_slices_backwards():
    """NumPy's, which PyTorch refuses: a copy, written to as ever, with gradients."""
    a = np.arange(24.0).reshape(2, 3, 4)
    x = pf.tensor(a, requires_grad=True)
    keys = [
        np.s_[::-1],
        np.s_[1, ::-2, 3:0:-1],
        np.s_[:, [2, 0], ::-1],
        np.s_[0:1:-1],
    ]
    for key in keys:
        np.testing.assert_array_equal(x.detach()[key], a[key])
        (grad,) = pf.autograd.grad((x[key] * pf.tensor(a[key])).sum(), x)
        want = np.zeros_like(a)
        want[key] = a[key]
        np.testing.assert_array_equal(grad, want)
        value, y = -1 - np.arange(a[key].size).reshape(a[key].shape), a.copy()
        y[key] = value
        z = x * 1
        z[key] = pf.tensor(value)
        np.testing.assert_array_equal(z.detach(), y)
        (grad,) = pf.autograd.grad(z.sum(), x)
        np.testing.assert_array_equal(grad, (y >= 0).astype(a.dtype))
    mask = a[::-1] > 3
    a[::-1][mask] = 7
    y = x.detach()
    y[::-1, :, :][pf.tensor(mask)] = 7  # a copy: nothing is written
    np.testing.assert_array_equal(y, np.arange(24.0).reshape(2, 3, 4))
    assert x.detach()[:1][::-1].shape == (1, 3, 4) and pf.tensor([])[::-1].shape == (0,)
    assert pf.arange(3)[:: -(2**63)].tolist() == [2]
    assert pf.func.vmap(lambda v: v[::-1])(pf.arange(6).reshape(2, 3)).tolist() == [
        [2, 1, 0],
        [5, 4, 3],
    ]


def test_indices_of_64_bits_without_a_sign():
    x = pf.arange(10)
    assert x[pf.tensor([3, 9], dtype=pf.uint64)].tolist() == [3, 9]
    assert x[pf.tensor(9, dtype=pf.uint64)].item() == 9
    for index in ([2**64 - 1], 2**64 - 1, [0, 2**63]):  # none counts from the end
        index = pf.tensor(index, dtype=pf.uint64)
        with pytest.raises(pf.IndexError):
            x[index].tolist()
        with pytest.raises(pf.IndexError):
            x.clone()[index] = 5
            pf.synchronize()


def test_sequences_whose_length_cannot_be_told():
    class Broken(list):
        def __len__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pf.arange(3)[Broken()]
    with pytest.raises(ZeroDivisionError):
        pf.arange(3)[(Broken([0]),)]


@pytest.mark.parametrize(
    "key, plain",
    [
        ((..., ...), ...),
        ((0, ..., ...), 0),
        ((..., 1, ...), (..., 1)),
        ((..., None, ...), (..., None)),
        ((..., ..., ...), ...),
        ((..., [1, 0], ...), (..., [1, 0])),
    ],
    ids=str,
)
def test_a_second_ellipsis_stands_for_nothing(key, plain):
    """As in PyTorch; NumPy refuses it."""
    x = pf.tensor(A)
    np.testing.assert_array_equal(x[key].numpy(), A[plain])
    x[key] = 0
    want = A.copy()
    want[plain] = 0
    np.testing.assert_array_equal(x.numpy(), want)
