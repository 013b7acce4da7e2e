"""Reading and writing by index against NumPy."""

import numpy as np
import pytest
from finite import check_grad, layouts, same
from hypothesis import given, settings
from hypothesis import strategies as st

import pyflame as pf

pytestmark = pytest.mark.kernels(0.8)

RNG = np.random.default_rng(0)
DTYPES = [np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]


def grid(*shape, dtype=np.float64):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def tensors(key):
    """A NumPy index with its arrays as tensors."""
    if isinstance(key, tuple):
        return tuple(tensors(k) for k in key)
    return pf.tensor(key) if isinstance(key, np.ndarray) else key


i = np.array
KEYS = {
    "one": i([2, 0, 0, -1]),
    "two_dims": i([[0, 1], [2, 3]]),
    "scalar": i(1),
    "empty": i([], np.int64),
    "pair": (i([0, 1, -1]), i([2, 0, 1])),
    "broadcast": (i([[0], [1]]), i([2, 0, 1])),
    "second": (slice(None), i([2, 0])),
    "last": (Ellipsis, i([1, 0])),
    "apart": (i([0, 1]), slice(None), i([1, 0])),
    "apart_slices": (slice(1, None), i([0, 2]), slice(None), i([1, 3])),
    "with_int": (i([0, 1]), 1),
    "with_none": (None, i([0, 1])),
    "none_between": (i([0, 1]), None, i([1, 2])),
    "mask": grid(4, 3, 5, 4) % 3 == 0,
    "mask_rows": i([True, False, True, False]),
    "mask_two": grid(4, 3) % 2 == 0,
    "mask_and_slice": (slice(1, 3), i([True, False, True])),
    "mask_and_index": (i([True, False, True, True]), i([0, 2, 1])),
    "mask_none": np.zeros(4, bool),
    "step": (slice(None, None, 2), i([1, 0, 2])),
}
SHAPE = (4, 3, 5, 4)


@pytest.mark.parametrize("name", KEYS)
def test_reading(name):
    key = KEYS[name]
    a = grid(*SHAPE)
    for t in layouts(a):
        same(t[tensors(key)], a[key])
    for dtype in DTYPES:
        same(pf.tensor(a.astype(dtype))[tensors(key)], a.astype(dtype)[key])


@pytest.mark.parametrize("name", KEYS)
def test_writing(name):
    key = KEYS[name]
    a = grid(*SHAPE)
    values = RNG.random(a[key].shape)
    for fill in [values, 7.0, values[..., :1]]:
        for t in layouts(a):
            want = a.copy()
            want[key] = fill
            t[tensors(key)] = pf.tensor(fill) if isinstance(fill, np.ndarray) else fill
            same(t, want)


@pytest.mark.parametrize("name", KEYS)
def test_gradients_of_reading_and_writing(name):
    key = tensors(KEYS[name])
    a = RNG.random(SHAPE)
    x = pf.tensor(a, requires_grad=True)
    y = x[key]
    weights = RNG.random(tuple(y.shape))
    (y * pf.tensor(weights)).sum().backward()
    want = np.zeros_like(a)
    np.add.at(want, KEYS[name], weights)
    same(x.grad, want, rtol=1e-12)
    if name in ("one", "scalar"):  # repeated indices: which one wins is not differentiable
        return
    x = pf.tensor(a, requires_grad=True)
    v = pf.tensor(weights, requires_grad=True)
    z = x * 1
    z[key] = v
    (z * z).sum().backward()
    want = 2 * a
    want[KEYS[name]] = 0
    same(x.grad, want, rtol=1e-12)
    same(v.grad, 2 * weights, rtol=1e-12)


def test_integers_select_before_tensors_index():
    """As in PyTorch; NumPy would count the integer as one of the index arrays."""
    a = grid(4, 3, 5)
    same(pf.tensor(a)[1, :, pf.tensor([0, 1])], a[1][:, [0, 1]])


def test_the_padding_row_gets_no_gradient():
    w = pf.ones(3, 2, requires_grad=True)
    y = pf.nn.functional.embedding(pf.tensor([2, 0, 2]), w, padding_idx=2)
    (g,) = pf.autograd.grad((y * y).sum(), [w], create_graph=True)
    same(g, [[2, 2], [0, 0], [0, 0]])
    g.sum().backward()
    same(w.grad, [[2, 2], [0, 0], [0, 0]])


def test_finite_differences():
    a = RNG.random((3, 4))
    idx = pf.tensor([2, 0, 2])
    mask = pf.tensor(RNG.random((3, 4)) > 0.5)
    square = pf.tensor([[0, 1, 1], [2, 0, 0]])
    check_grad(lambda t: t[idx] ** 2, a)
    check_grad(lambda t: t[:, idx] ** 2, a)
    check_grad(lambda t: t[mask] ** 2, a)
    check_grad(lambda t: t.index_select(1, idx) ** 2, a)
    check_grad(lambda t: t.gather(0, square) ** 2, a)
    check_grad(lambda t: t.take(square) ** 2, a)
    check_grad(lambda t: pf.nn.functional.embedding(idx, t) ** 2, a)
    check_grad(lambda t: t.masked_select(mask) ** 2, a)
    check_grad(lambda t, s: t.scatter_add(0, square, s) ** 2, a, RNG.random((2, 3)))
    check_grad(
        lambda t, s: t.scatter(1, pf.tensor([[1, 3], [0, 2]]), s) ** 2, a, RNG.random((2, 2))
    )
    check_grad(lambda t: t.scatter(1, pf.tensor([[1], [0]]), 3.0) ** 2, a)
    check_grad(lambda t, s: t.index_add(0, idx, s, alpha=2) ** 2, a, RNG.random((3, 4)))
    check_grad(lambda t, s: t.index_copy(0, pf.tensor([1, 0]), s) ** 2, a, RNG.random((2, 4)))
    check_grad(lambda t: t.index_fill(1, pf.tensor([1]), 2.0) ** 2, a)
    check_grad(lambda t, s: t.masked_scatter(mask, s) ** 2, a, RNG.random(12))
    check_grad(lambda t, s: t.index_put((idx,), s, accumulate=True) ** 2, a, RNG.random((3, 4)))


@pytest.mark.races
def test_accumulating_writes():
    a = grid(3, 2)
    t = pf.tensor(a)
    t.index_put_((pf.tensor([0, 0, 2]),), pf.ones(3, 2, dtype=pf.float64), accumulate=True)
    want = a.copy()
    np.add.at(want, [0, 0, 2], 1)
    same(t, want)
    many = pf.zeros(2, dtype=pf.bfloat16)
    many.index_put_(
        (pf.zeros(1000, dtype=pf.int64),), pf.ones(1000, dtype=pf.bfloat16), accumulate=True
    )
    assert many[0].item() == 1000  # accumulated in float32


def test_in_place_add_to_an_element():
    y = pf.zeros(3)
    y[1] += 2
    y[pf.tensor([0, 2])] -= 1
    same(y, np.array([-1, 2, -1], np.float32))


def test_mask_write_of_a_number_does_not_wait():
    x = pf.zeros(4, 5)
    x[pf.tensor(grid(4, 5) > 10)] = 3
    same(x, np.where(grid(4, 5) > 10, 3, 0).astype(np.float32))
    x[pf.tensor([True, False, False, True])] = float("nan")
    assert np.isnan(x.cpu().numpy()[[0, 3]]).all() and not np.isnan(x.cpu().numpy()[1:3]).any()
    g = pf.tensor(grid(4), requires_grad=True)
    z = g * 1
    z[pf.tensor([True, False, True, False])] = 0.0
    z.sum().backward()
    same(g.grad, [0, 1, 0, 1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_gather(dtype, dim):
    a = (RNG.random((4, 3, 5)) * 100).astype(dtype)
    index = RNG.integers(0, a.shape[dim], (4, 3, 5))
    for t in layouts(a):
        for ix in layouts(index):
            same(t.gather(dim, ix), np.take_along_axis(a, index, dim))
    small = index[:2, :2, :2] % 3
    same(
        pf.tensor(a).gather(dim, pf.tensor(small)),
        np.take_along_axis(
            a[tuple(slice(None) if d == dim % 3 else slice(2) for d in range(3))], small, dim
        ),
    )
    same(pf.take_along_dim(pf.tensor(a), pf.tensor(index), dim), np.take_along_axis(a, index, dim))


def scatter_reference(a, dim, index, src, combine):
    out = a.copy()
    for at in np.ndindex(index.shape):
        to = list(at)
        to[dim] = index[at]
        out[tuple(to)] = combine(out[tuple(to)], src[at])
    return out


@pytest.mark.parametrize("dim", [0, 1])
def test_scatter(dim):
    a, src = RNG.random((5, 6)), RNG.random((4, 6))
    index = RNG.integers(0, 5, (3, 5))
    assign = scatter_reference(a, dim, index, src, lambda x, y: y)
    for t in layouts(a):
        for s in layouts(src):
            same(t.scatter(dim, pf.tensor(index), s), assign)
            same(
                t.scatter_add(dim, pf.tensor(index), s),
                scatter_reference(a, dim, index, src, lambda x, y: x + y),
                rtol=1e-12,
            )
    t, ix, s = pf.tensor(a), pf.tensor(index), pf.tensor(src)
    same(t.scatter(dim, ix, 9.0), scatter_reference(a, dim, index, src, lambda x, y: 9.0))
    same(
        t.scatter(dim, ix, s, reduce="multiply"),
        scatter_reference(a, dim, index, src, lambda x, y: x * y),
        rtol=1e-12,
    )
    same(t.scatter_reduce(dim, ix, s, "amax"), scatter_reference(a, dim, index, src, max))
    same(t.scatter_reduce(dim, ix, s, "amin"), scatter_reference(a, dim, index, src, min))
    zero = scatter_reference(a, dim, index, src, lambda x, y: 0.0)
    same(
        t.scatter_reduce(dim, ix, s, "sum", include_self=False),
        scatter_reference(zero, dim, index, src, lambda x, y: x + y),
        rtol=1e-12,
    )
    t.scatter_(dim, ix, s)
    same(t, assign)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_scatter_reduce_gradients(reduce, include_self):
    index = pf.tensor([[0, 1, 0], [2, 2, 0]])
    a, src = RNG.random((3, 4)), RNG.random((3, 3))
    check_grad(
        lambda t, s: t.scatter_reduce(0, index, s, reduce, include_self=include_self) ** 2, a, src
    )


def test_ties_share_the_gradient():
    x, s = pf.zeros(1, requires_grad=True), pf.zeros(3, requires_grad=True)
    x.scatter_reduce(0, pf.tensor([0, 0, 0]), s, "amax").sum().backward()
    same(x.grad, np.array([0.25], np.float32))
    same(s.grad, np.full(3, 0.25, np.float32))


@pytest.mark.races
def test_scatter_add_is_the_same_for_any_threads():
    index = pf.tensor(RNG.integers(0, 3, (2000, 40)))
    src = pf.tensor(RNG.standard_normal((2000, 40)).astype(np.float32))
    before = pf.get_num_threads()
    got = []
    for n in (1, 4):
        pf.set_num_threads(n)
        got.append(pf.zeros(3, 40).scatter_add(0, index, src).cpu().numpy())
    pf.set_num_threads(before)
    same(got[0], got[1])


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
@pytest.mark.parametrize("shape", [(3, 5000), (5000, 3), (40, 300), (300, 40), (2, 17, 2049)])
@pytest.mark.parametrize("dim", [0, -1])
def test_what_meets_is_combined_in_order(shape, dim, dtype):
    """Lanes of every length that has a way of its own, bit for bit."""
    sizes = [n if d != dim % len(shape) else 7 for d, n in enumerate(shape)]
    a = (RNG.standard_normal(sizes) * 9).astype(dtype)
    src = (RNG.standard_normal(shape) * 9).astype(dtype)
    index = RNG.integers(-7, 7, shape)
    grid = list(np.indices(shape))
    grid[dim] = index % 7
    grid = tuple(grid)
    moved = [np.moveaxis(x, dim, 0) for x in (*grid, src)]
    t, ix, s = pf.tensor(a), pf.tensor(index), pf.tensor(src)
    assign, plus, most = a.copy(), a.copy(), a.copy()
    for *at, value in zip(*moved):
        at = tuple(at)
        assign[at] = value
        plus[at] += value
        most[at] = np.maximum(most[at], value)
    same(t.scatter(dim, ix, s), assign)
    same(t.scatter_add(dim, ix, s), plus)
    same(t.scatter_reduce(dim, ix, s, "amax"), most)


@pytest.mark.parametrize("points, size", [(40, 9), (3000, 50), (3000, 200_000), (9000, 9000)])
@pytest.mark.parametrize("columns", [1, 5])
def test_the_last_point_stays(points, size, columns):
    a = RNG.standard_normal((size, columns)).astype(np.float32)
    values = RNG.standard_normal((points, columns)).astype(np.float32)
    index = RNG.integers(-size, size, points)
    want, total = a.copy(), a.copy()
    for i, v in zip(index, values):
        want[i] = v
        total[i] += v
    t, ix, v = pf.tensor(a), pf.tensor(index), pf.tensor(values)
    same(t.index_copy(0, ix % size, v), want)
    same(t.index_put((ix,), v), want)
    same(t.index_put((ix,), v, accumulate=True), total)
    same(t.T.clone().T.index_put((ix,), v), want)
    if columns == 1:
        same(t.put(ix, v), want)
    with pytest.raises(IndexError):
        t.index_put((pf.where(pf.arange(points) == 7, size, ix),), v).sum().item()


@pytest.mark.parametrize("lanes", [1, 33, 70, 72])
@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16, pf.float64, pf.int32], ids=str)
def test_places_that_many_points_write(dtype, lanes):
    """Long groups of equal indices beside short ones: combined in their order on any device."""
    order = RNG.permutation(np.repeat(np.arange(8), [1, 127, 128, 129, 130, 700, 0, 3]))
    a, src = (RNG.integers(-99, 99, (n, lanes)) / 16 for n in (8, len(order)))
    t, index, s = pf.tensor(a).to(dtype), pf.tensor(order), pf.tensor(src).to(dtype)
    wide, exact = (x.to(pf.float64).cpu().numpy().copy() for x in (s, t))
    np.add.at(exact, order, wide)
    got = t.index_add(0, index, s)
    if dtype is not pf.bfloat16:  # whose sums round at every step
        same(got.to(pf.float64), exact, rtol=1e-5)
    host = [x.cpu() for x in (t, index, s)]
    last = t.to(pf.float64).cpu().numpy().copy()
    last[order] = wide
    largest = t.to(pf.float64).cpu().numpy().copy()
    np.maximum.at(largest, order, wide)
    for _ in range(3):
        again = t.index_add(0, index, s)
        same(again.to(pf.float64), got.to(pf.float64).cpu().numpy())
        same(again.to(pf.float64), host[0].index_add(0, *host[1:]).to(pf.float64).numpy())
        written = t.clone()
        written[index] = s
        same(written.to(pf.float64), last)
        columns = index[:, None].expand(len(order), lanes)
        same(t.scatter_reduce(0, columns, s, "amax").to(pf.float64), largest)


def test_embedding_of_equal_indices():
    src = RNG.standard_normal((3000, 40)).astype(np.float32)
    for rows in (1, 2):
        index = np.arange(3000) // 1500 if rows == 2 else np.zeros(3000, dtype=np.int64)
        w = pf.zeros(3, 40, requires_grad=True)
        (pf.nn.functional.embedding(pf.tensor(index), w) * pf.tensor(src)).sum().backward()
        want = np.zeros((3, 40))
        np.add.at(want, index, src.astype(np.float64))
        np.testing.assert_allclose(w.grad.cpu().numpy(), want, rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_functions(dtype):
    a = (RNG.random((4, 3, 2)) * 50).astype(dtype)
    src = (RNG.random((4, 5, 2)) * 50).astype(dtype)
    index = np.array([2, 0, 2, 1, 0])
    t, ix = pf.tensor(a), pf.tensor(index)
    same(t.index_select(1, ix), a[:, index])
    want = a.copy()
    if dtype != np.bool_:
        np.add.at(want, (slice(None), index), src)
        same(t.index_add(1, ix, pf.tensor(src)), want, rtol=1e-6)
    want = a.copy()
    want[:, [2, 1]] = src[:, :2]
    same(t.index_copy(1, pf.tensor([2, 1]), pf.tensor(src[:, :2])), want)
    want[:] = a
    want[:, [0, 2]] = 1
    same(t.index_fill(1, pf.tensor([0, -1]), 1), want)
    t.index_fill_(1, pf.tensor([0, 2], dtype=pf.int32), 1)
    same(t, want)


@pytest.mark.races
def test_take_and_embedding():
    a = grid(3, 4)
    same(pf.tensor(a).take(pf.tensor([[0, -1], [5, 5]])), np.take(a, [[0, -1], [5, 5]]))
    same(pf.nn.functional.embedding(pf.tensor([[0, 2], [1, 1]]), pf.tensor(a)), a[[[0, 2], [1, 1]]])
    w = pf.tensor(a.astype(np.float32)).to(pf.bfloat16).requires_grad_()
    pf.nn.functional.embedding(pf.zeros(1000, dtype=pf.int64), w).sum().backward()
    assert w.grad[0, 0].item() == 1000
    same(
        pf.nn.functional.embedding(pf.zeros(0, 2, dtype=pf.int64), pf.tensor(a)),
        np.zeros((0, 2, 4)),
    )


@pytest.mark.races
def test_masks():
    a = RNG.integers(-1, 2, (3, 4, 5))
    for t in layouts(a):
        same(t.nonzero(), np.argwhere(a))
        same(pf.argwhere(t), np.argwhere(a))
        for got, want in zip(t.nonzero(as_tuple=True), np.nonzero(a)):
            same(got, want)
        for got, want in zip(pf.where(t != 0), np.nonzero(a)):
            same(got, want)
    assert tuple(pf.zeros(3, 0).nonzero().shape) == (0, 2)
    assert tuple(pf.tensor(1.0).nonzero().shape) == (1, 0)
    x, m = RNG.random((3, 4)), RNG.random((3, 4)) > 0.5
    for t in layouts(x):
        for mask in layouts(m):
            same(t.masked_select(mask), x[m])
            same(t[mask], x[m])
    same(pf.tensor(x).masked_select(pf.tensor(m[0])), x[:, m[0]].ravel())
    want = x.copy()
    want[m] = np.arange(m.sum())
    same(pf.tensor(x).masked_scatter(pf.tensor(m), pf.arange(12, dtype=pf.float64)), want)
    with pytest.raises((ValueError, RuntimeError)):
        pf.tensor(x).masked_scatter(pf.ones(3, 4, dtype=pf.bool), pf.zeros(5, dtype=pf.float64))


@pytest.mark.races
@pytest.mark.parametrize("share", [0.0, 0.003, 0.5, 1.0])
def test_masks_of_any_length(share):
    """Lengths about those of a warp's and a block's part of a GPU's kernels, at odd addresses too."""
    for n in (1, 31, 65, 511, 513, 1025, 4095, 4097, 8200, 20_001):
        m, x = RNG.random(n + 1) < share, RNG.random(n + 1)
        if share < 1:
            m[-1] = m[0] = True
        for mask, values, t, v in (
            (m, x, pf.tensor(m), pf.tensor(x)),
            (m[1:], x[1:], pf.tensor(m)[1:], pf.tensor(x)[1:]),
            (m[::-1], x[::-1], pf.tensor(m).flip(0), pf.tensor(x).flip(0)),
            (m[::3], x[::3], pf.tensor(m)[::3], pf.tensor(x)[::3]),
        ):
            same(t.nonzero(), np.argwhere(mask))
            same(v[t], values[mask])
            source = RNG.random(len(mask))
            want = values.copy()
            want[mask] = source[: mask.sum()]
            same(v.masked_scatter(t, pf.tensor(source)), want)
    m = RNG.random((70, 3, 41)) < share
    x = RNG.random(m.shape)
    same(pf.tensor(m).nonzero(), np.argwhere(m))
    same(pf.tensor(x.T).T[pf.tensor(m)], x[m])
    same(
        pf.tensor(x)[pf.tensor(m[:, 0, :1])[:, :, None].expand(70, 3, 41)],
        x[np.broadcast_to(m[:, 0, :1, None], m.shape)],
    )
    odd = np.where(
        m, RNG.choice([-np.inf, np.nan, 1e4, -1e-40], m.shape), RNG.choice([0.0, -0.0], m.shape)
    )
    for dtype in (pf.float64, pf.float32, pf.bfloat16):
        t = pf.tensor(odd).to(dtype)
        same(t.nonzero(), np.argwhere(np.asarray(t.to(pf.float64).cpu())))


def test_sources_may_be_the_written_tensor():
    t = pf.arange(4)
    t.masked_scatter_(pf.tensor([False, True, True, True]), t)
    same(t, [0, 0, 1, 2])
    t = pf.arange(6)
    t.index_copy_(0, pf.tensor([1, 2, 3]), t[:3])
    same(t, [0, 0, 1, 2, 4, 5])
    t = pf.arange(6)
    t[pf.tensor([1, 2])] = t[:2]
    same(t, [0, 0, 1, 3, 4, 5])
    t = pf.arange(6.0)
    t[1:] = t[:-1]
    same(t, np.array([0, 0, 1, 2, 3, 4], np.float32))


def test_masked_scatter_of_enough_or_few():
    for n in (1, 1024, 5001):
        x, mask = RNG.random(n), RNG.random(n) < 0.4
        for size in (n, n + 7, int(mask.sum())):  # a full source needs no count
            for m in (mask, np.zeros(n, bool), np.ones(n, bool)):
                if m.sum() > size:
                    continue
                source, want = RNG.random(size), x.copy()
                want[m] = source[: m.sum()]
                same(pf.tensor(x).masked_scatter(pf.tensor(m), pf.tensor(source)), want)
    empty = pf.zeros(0, 3)
    assert empty.masked_scatter(pf.zeros(0, 3, dtype=pf.bool), pf.zeros(0)).shape == (0, 3)
    t = pf.arange(4.0)
    same(t.masked_scatter_(pf.zeros(4, dtype=pf.bool), t[:0]), np.arange(4, dtype=np.float32))


def test_one_value_added_at_many_places():
    index = RNG.integers(-7, 7, (301, 3))
    for shape in ((301, 3), (1, 1), ()):
        for values in (RNG.random(shape), RNG.integers(0, 9, shape)):
            want = np.zeros(7, values.dtype)
            np.add.at(want, index, values)
            got = pf.zeros(7, dtype=pf.tensor(values).dtype)
            got.index_put_((pf.tensor(index),), pf.tensor(values).expand(301, 3), accumulate=True)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    t = pf.zeros(7, requires_grad=True)
    t[pf.tensor(index)].sum().backward()
    same(t.grad, np.bincount(index.ravel() % 7, minlength=7).astype(np.float32))


@pytest.mark.races
def test_counting_and_searching():
    t = pf.tensor([0, 3, 1, 1])
    same(pf.nn.functional.one_hot(t), np.eye(4, dtype=np.int64)[[0, 3, 1, 1]])
    assert tuple(pf.nn.functional.one_hot(t, 6).shape) == (4, 6)
    same(pf.bincount(t), [1, 2, 0, 1])
    same(pf.bincount(t, minlength=6), [1, 2, 0, 1, 0, 0])
    same(pf.bincount(t, pf.tensor([0.5, 1.0, 2.0, 3.0])), np.array([0.5, 5, 0, 1], np.float32))
    edges, x = np.array([0.0, 1.0, 1.0, 2.5]), np.array([[-1.0, 0.0, 1.0], [2.0, 2.5, 9.0]])
    for right in (False, True):
        side = "right" if right else "left"
        same(
            pf.bucketize(pf.tensor(x), pf.tensor(edges), right=right),
            np.searchsorted(edges, x, side),
        )
        same(
            pf.searchsorted(pf.tensor(edges), pf.tensor(x), side=side),
            np.searchsorted(edges, x, side),
        )
    rows = np.sort(RNG.random((2, 6)), 1)
    got = pf.searchsorted(pf.tensor(rows), pf.tensor(x))
    same(got, np.stack([np.searchsorted(r, v) for r, v in zip(rows, x)]))
    assert pf.searchsorted(pf.tensor(edges), 2.0, out_int32=True).dtype == pf.int32


@pytest.mark.parametrize("bins", [1, 3, 255, 2048, 2049, 70_000])
def test_counts(bins):
    for n in (0, 1, 31, 5000, 40_001):
        x = RNG.integers(0, bins, n)
        for v in (x, np.sort(x), np.full(n, bins - 1), np.repeat(x[: n // 64], 64)):
            same(pf.bincount(pf.tensor(v), minlength=bins), np.bincount(v, minlength=bins))
        same(pf.bincount(pf.tensor(x)[::3], minlength=bins), np.bincount(x[::3], minlength=bins))
        w = RNG.random(n)
        same(
            pf.bincount(pf.tensor(x), pf.tensor(w), minlength=bins),
            np.bincount(x, w, minlength=bins),
        )
    same(pf.bincount(pf.tensor([3, 3, 0], dtype=pf.uint8)), [1, 0, 0, 2])
    for bad in ([-1, 2], [2, -(2**63)]):
        with pytest.raises(ValueError, match="bincount"):
            pf.bincount(pf.tensor(bad))


def test_wrong_indices():
    t = pf.zeros(3, 4)
    for bad in [
        lambda: t[pf.tensor([3])],
        lambda: t[pf.tensor([-4])],
        lambda: t[:, pf.tensor([0, 4])],
        lambda: t.gather(1, pf.tensor([[4]])),
        lambda: t.index_select(0, pf.tensor([7])),
        lambda: t.scatter(0, pf.tensor([[3]]), 1.0),
        lambda: pf.nn.functional.embedding(pf.tensor([3]), t),
        lambda: pf.nn.functional.embedding(pf.tensor([-1]), t),
        lambda: pf.nn.functional.one_hot(pf.tensor([2]), 2),
        lambda: t[pf.tensor([True, False])],
        lambda: t[0, 0, 0],
        lambda: pf.zeros(0, 4)[pf.tensor([0])],
        lambda: t.__setitem__(pf.tensor([3]), 1.0),
    ]:
        with pytest.raises(IndexError):
            bad()
            pf.synchronize()
    for bad in [
        lambda: t[pf.tensor([0.5])],
        lambda: t.gather(0, pf.zeros(2, 5, dtype=pf.int64)),
        lambda: t.gather(0, pf.tensor([0])),
        lambda: t[pf.tensor([0, 1]), pf.tensor([0, 1, 2])],
        lambda: t.__setitem__(pf.tensor([0, 1]), pf.zeros(3, 4)),
    ]:
        with pytest.raises((ValueError, RuntimeError, IndexError, TypeError)):
            bad()
    same(t, np.zeros((3, 4), np.float32))


@pytest.mark.large
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_indices(data):
    shape = (4, 3, 5)
    a = grid(*shape)
    width = data.draw(st.sampled_from([(), (1,), (2,), (3, 1), (3, 2), (0,)]))
    key = []
    for n in shape[: data.draw(st.integers(1, 3))]:
        kind = data.draw(st.sampled_from(["slice", "tensor", "tensor1"]))
        if kind == "slice":
            key.append(slice(data.draw(st.integers(-n, n)), None, data.draw(st.integers(1, 3))))
        else:
            size = width if kind == "tensor" else (1,) * len(width)
            count = int(np.prod(size))
            flat = data.draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count))
            key.append(np.array(flat, np.int64).reshape(size))
    if data.draw(st.booleans()):
        key.insert(data.draw(st.integers(0, len(key))), None)
    key = tuple(key)
    want = a[key]
    same(pf.tensor(a)[tensors(key)], want)
    values = data.draw(st.integers(0, 9))
    t, b = pf.tensor(a), a.copy()
    t[tensors(key)] = values
    b[key] = values
    same(t, b)


@pytest.mark.parametrize("padding", [None, 2])
def test_rows_are_added_to_the_gradient_that_a_table_has_already(padding):
    """A table that is the last layer's weight, too: its rows' gradient goes into the other one."""
    pf.manual_seed(3)
    index = pf.tensor([[1, 2, 1], [4, 0, 2]])
    w = pf.randn(6, 4, requires_grad=True)
    kept = []

    class Keeps(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            kept.append(g * 2)
            return kept[-1]

    def loss(x, head):
        rows = pf.nn.functional.embedding(index, x, padding_idx=padding)
        return (pf.nn.functional.linear(rows, head(x)) ** 3).sum()

    def want(x):
        rows = pf.eye(6, dtype=pf.float64)[index.reshape(-1)]
        picked = rows @ (
            x if padding is None else pf.where(pf.arange(6).unsqueeze(1) == 2, x.detach(), x)
        )
        return ((picked @ x.T) ** 3).sum()

    wide = w.detach().double().requires_grad_()
    (expected,) = pf.autograd.grad(want(wide), wide)
    for _ in range(2):
        loss(w, lambda x: x).backward()
    np.testing.assert_allclose(
        w.grad.cpu().numpy(), 2 * expected.cpu().numpy(), rtol=1e-4, atol=1e-4
    )
    (g,) = pf.autograd.grad(loss(w, lambda x: x), w, create_graph=True)
    np.testing.assert_allclose(
        g.detach().cpu().numpy(), expected.cpu().numpy(), rtol=1e-4, atol=1e-4
    )
    # What somebody else has is not written.
    pf.autograd.grad(loss(w, Keeps.apply), w)
    rows = pf.nn.functional.embedding(index, w.detach(), padding_idx=padding)
    (alone,) = pf.autograd.grad((pf.nn.functional.linear(rows, w * 2) ** 3).sum(), w)
    np.testing.assert_allclose(kept[0].cpu().numpy(), alone.cpu().numpy(), rtol=1e-5, atol=1e-5)
