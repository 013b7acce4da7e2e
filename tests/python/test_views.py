"""View operations: values against NumPy, shared memory, gradients."""

import numpy as np
import pytest
from finite import check_grad, layouts, same
from hypothesis import given, settings
from hypothesis import strategies as st

import pyflame as pf

RNG = np.random.default_rng(0)


def grid(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)


CASES = {
    "permute": ((2, 3, 4), lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "transpose": ((2, 3, 4), lambda t: t.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    "swapaxes": ((2, 3, 4), lambda t: t.swapaxes(1, 2), lambda a: a.swapaxes(1, 2)),
    "t": ((2, 3), lambda t: t.t(), lambda a: a.T),
    "T": ((2, 3), lambda t: t.T, lambda a: a.T),
    "mT": ((2, 3, 4), lambda t: t.mT, lambda a: a.swapaxes(1, 2)),
    "squeeze": ((1, 3, 1), lambda t: t.squeeze(), lambda a: a.squeeze()),
    "squeeze_dim": ((1, 3, 1), lambda t: t.squeeze(-1), lambda a: a.squeeze(-1)),
    "squeeze_nothing": ((2, 3), lambda t: t.squeeze(0), lambda a: a),
    "squeeze_dims": ((1, 3, 1), lambda t: t.squeeze((0, 2)), lambda a: a.squeeze()),
    "unsqueeze": ((2, 3), lambda t: t.unsqueeze(1), lambda a: a[:, None]),
    "unsqueeze_end": ((2, 3), lambda t: t.unsqueeze(-1), lambda a: a[..., None]),
    "expand": ((3, 1), lambda t: t.expand(2, 3, 4), lambda a: np.broadcast_to(a, (2, 3, 4))),
    "expand_keep": ((3, 1), lambda t: t.expand(-1, 5), lambda a: np.broadcast_to(a, (3, 5))),
    "broadcast_to": (
        (1, 3),
        lambda t: pf.broadcast_to(t, (2, 3)),
        lambda a: np.broadcast_to(a, (2, 3)),
    ),
    "flatten": ((2, 3, 4), lambda t: t.flatten(1), lambda a: a.reshape(2, 12)),
    "unflatten": ((2, 12), lambda t: t.unflatten(1, (3, -1)), lambda a: a.reshape(2, 3, 4)),
    "select": ((2, 3, 4), lambda t: t.select(1, -1), lambda a: a[:, -1]),
    "narrow": ((2, 5), lambda t: t.narrow(1, 1, 3), lambda a: a[:, 1:4]),
    "movedim": ((2, 3, 4), lambda t: t.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2)),
    "movedims": (
        (2, 3, 4),
        lambda t: t.movedim((0, 1), (2, 0)),
        lambda a: np.moveaxis(a, (0, 1), (2, 0)),
    ),
    "diagonal": ((4, 5), lambda t: t.diagonal(), lambda a: a.diagonal()),
    "diagonal_up": ((2, 4, 5), lambda t: t.diagonal(1, 1, 2), lambda a: a.diagonal(1, 1, 2)),
    "diagonal_down": ((4, 5), lambda t: t.diagonal(-2), lambda a: a.diagonal(-2)),
    "diagonal_off": ((3, 3), lambda t: t.diagonal(7), lambda a: a.diagonal(7)),
    "ravel": ((2, 3), lambda t: t.ravel(), lambda a: a.ravel()),
    "slice": ((7, 3), lambda t: t[5:1:1], lambda a: a[5:1:1]),
    "slice_step": ((7, 3), lambda t: t[1::3], lambda a: a[1::3]),
    "slice_negative": ((7, 3), lambda t: t[-4:-1, ::2], lambda a: a[-4:-1, ::2]),
    "unfold": (
        (9,),
        lambda t: t.unfold(0, 4, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 4)[::2],
    ),
    "unfold_dim": (
        (2, 6, 2),
        lambda t: t.unfold(1, 3, 1),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, axis=1),
    ),
    "reshape": ((2, 6), lambda t: t.reshape(3, -1), lambda a: a.reshape(3, 4)),
    "reshape_copy": ((2, 6), lambda t: t.t().reshape(3, 4), lambda a: a.T.reshape(3, 4)),
    "view": ((2, 6), lambda t: t.contiguous().view(4, 3), lambda a: a.reshape(4, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    shape, op, ref = CASES[name]
    a = grid(*shape)
    for t in layouts(a):
        same(op(t), ref(a))
    for dtype in [np.int8, np.bool_, np.int16]:
        same(op(pf.tensor(a.astype(dtype))), ref(a.astype(dtype)))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    shape, op, _ = CASES[name]
    check_grad(lambda t: op(t) ** 2, grid(*shape) / 7)


def test_views_share_memory():
    for name, (shape, op, _) in CASES.items():
        if "copy" in name or "expand" in name or "broadcast" in name:
            continue
        base = pf.zeros(shape, dtype=pf.float64)
        v = op(base)
        if v.numel() and "unfold" not in name:
            v.fill_(1)
            assert base.sum().item() == v.numel(), name


def test_split_and_kin():
    a = grid(7, 4)
    t = pf.tensor(a)
    for got, want in [
        (t.split(3), [a[:3], a[3:6], a[6:]]),
        (t.split([2, 5]), [a[:2], a[2:]]),
        (t.split(2, dim=1), [a[:, :2], a[:, 2:]]),
        (t.chunk(3), [a[:3], a[3:6], a[6:]]),
        (t.chunk(5), [a[:2], a[2:4], a[4:6], a[6:]]),
        (t.tensor_split(3), np.array_split(a, 3)),
        (t.tensor_split((1, 5)), np.split(a, (1, 5))),
        (t.unbind(1), list(a.T)),
        (pf.zeros(0, 3).split(2), [np.zeros((0, 3), np.float32)]),
    ]:
        assert isinstance(got, tuple) and len(got) == len(want)
        for g, w in zip(got, want):
            same(g, w)


def test_split_gradients():
    check_grad(lambda t: pf.cat([p * (i + 1) for i, p in enumerate(t.split(2, 1))], 1), grid(3, 5))
    check_grad(lambda t: t.chunk(3)[1] ** 3, grid(6, 2) / 5)
    check_grad(lambda t: t.unbind(0)[1] * t.unbind(0)[0], grid(3, 2) / 5)


def test_as_strided():
    a = grid(10)
    t = pf.tensor(a)
    same(t.as_strided((3, 2), (2, 1), 1), np.lib.stride_tricks.as_strided(a[1:], (3, 2), (16, 8)))
    check_grad(lambda x: x.as_strided((4, 3), (2, 1), 1) ** 2, a / 3)
    check_grad(lambda x: x.as_strided((2, 3), (0, 1)) ** 2, a / 3)
    for offset in (0, 11, 2**40, 2**62):  # nothing there: it may begin anywhere
        x = pf.ones(10, requires_grad=True)
        x.as_strided((0, 2), (1, 1), offset).sum().backward()
        assert x.grad.tolist() == [0.0] * 10
    x = pf.ones(0, 3, requires_grad=True)
    x.as_strided((2, 0), (1, 1), 5).sum().backward()
    assert x.grad.shape == (0, 3)
    for size, stride, offset in [
        ((5,), (3,), 0),
        ((2,), (1,), 9),
        ((2,), (-1,), 3),
        ((1,), (1,), -1),
    ]:
        with pytest.raises((ValueError, RuntimeError)):
            t.as_strided(size, stride, offset)
    with pytest.raises((ValueError, RuntimeError)):
        t.as_strided((2**40, 2**40), (2**40, 2**40))


def test_errors():
    t = pf.zeros(2, 3)
    for bad in [
        lambda: t.view(4, 2),
        lambda: t.t().view(6),
        lambda: t.reshape(-1, -1),
        lambda: t.reshape(5, -1),
        lambda: t.permute(0, 0),
        lambda: t.permute(0),
        lambda: t.expand(2, 4),
        lambda: t.expand(3),
        lambda: t.transpose(0, 2),
        lambda: t.narrow(1, 2, 2),
        lambda: t.select(0, 2),
        lambda: t.split(0),
        lambda: t.split([1, 2, 3]),
        lambda: t.unfold(0, 3, 1),
        lambda: t.diagonal(0, 1, 1),
        lambda: pf.zeros(2, 2, 2).t(),
    ]:
        with pytest.raises((ValueError, RuntimeError, IndexError)):
            bad()


def test_writing_through_views_keeps_gradients():
    x = pf.tensor(grid(2, 3), requires_grad=True)
    y = x * 1
    y.t()[1].mul_(3)
    y.sum().backward()
    same(x.grad, [[1, 3, 1], [1, 3, 1]])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_slices(data):
    a = grid(5, 4, 3)
    key = []
    for n in a.shape[: data.draw(st.integers(0, 3))]:
        bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
        key.append(
            data.draw(
                st.one_of(
                    st.integers(-n, n - 1),
                    st.builds(slice, bound, bound, st.one_of(st.none(), st.integers(1, 4))),
                    st.none(),
                )
            )
        )
    if data.draw(st.booleans()):
        key.append(Ellipsis)
    key = tuple(key)
    same(pf.tensor(a)[key], a[key])
    t = pf.tensor(a, requires_grad=True)
    (t[key] * 2).sum().backward()
    want = np.zeros_like(a)
    want[key] = 2
    same(t.grad, want)


def test_other_dtypes_over_the_same_bytes():
    a = RNG.standard_normal((3, 4)).astype(np.float32)
    t = pf.tensor(a)
    same(t.view(pf.int32), a.view(np.int32))
    same(t.view(pf.uint8), a.view(np.uint8))
    same(t.view(pf.float64), a.view(np.float64))
    same(t[1:].view(pf.int64), a[1:].view(np.int64))
    t.view(pf.int32)[0, 0] = 0
    assert t[0, 0].item() == 0
    for bad in [lambda: t.t().view(pf.uint8), lambda: t[:, 1:].view(pf.float64)]:
        with pytest.raises((ValueError, RuntimeError)):
            bad()


def test_a_dimension_is_squeezed_once():
    x = pf.zeros(1, 2, 1)
    for call in (
        lambda: x.squeeze((0, 0)),
        lambda: x.squeeze((0, -3)),
        lambda: x.squeeze_((2, -1)),
    ):
        with pytest.raises(pf.ValueError, match="twice"):
            call()
