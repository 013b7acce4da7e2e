"""Operations that rearrange into fresh memory."""

import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

pytestmark = pytest.mark.kernels(0.8)

RNG = np.random.default_rng(6)


def grid(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)


CASES = {
    "contiguous": ((3, 4), lambda t: t.contiguous(), lambda a: a),
    "clone": ((3, 4), lambda t: t.clone(), lambda a: a),
    "flip": ((3, 4), lambda t: t.flip(0), lambda a: a[::-1]),
    "flip_both": ((3, 4, 2), lambda t: t.flip((0, -1)), lambda a: a[::-1, :, ::-1]),
    "flip_empty": ((0, 4), lambda t: t.flip(0), lambda a: a),
    "fliplr": ((3, 4), pf.fliplr, np.fliplr),
    "flipud": ((3, 4), pf.flipud, np.flipud),
    "roll": ((3, 4), lambda t: t.roll(1), lambda a: np.roll(a, 1)),
    "roll_dim": ((3, 4), lambda t: t.roll(-3, 1), lambda a: np.roll(a, -3, 1)),
    "roll_dims": ((3, 4), lambda t: t.roll((5, 1), (0, 1)), lambda a: np.roll(a, (5, 1), (0, 1))),
    "rot90": ((3, 4), lambda t: t.rot90(), np.rot90),
    "rot90_back": ((3, 4), lambda t: t.rot90(-1), lambda a: np.rot90(a, -1)),
    "rot90_twice": ((3, 4), lambda t: t.rot90(2), lambda a: np.rot90(a, 2)),
    "repeat": ((2, 3), lambda t: t.repeat(3, 1, 2), lambda a: np.tile(a, (3, 1, 2))),
    "repeat_zero": ((2, 3), lambda t: t.repeat(0, 1), lambda a: np.tile(a, (0, 1))),
    "tile": ((2, 3), lambda t: t.tile(2), lambda a: np.tile(a, 2)),
    "repeat_interleave": (
        (2, 3),
        lambda t: t.repeat_interleave(2, dim=1),
        lambda a: np.repeat(a, 2, 1),
    ),
    "repeat_interleave_flat": ((2, 3), lambda t: t.repeat_interleave(3), lambda a: np.repeat(a, 3)),
    "repeat_interleave_each": (
        (2, 3),
        lambda t: t.repeat_interleave(pf.tensor([2, 0, 1]), dim=1),
        lambda a: np.repeat(a, [2, 0, 1], 1),
    ),
    "tril": ((3, 4), lambda t: t.tril(), np.tril),
    "tril_up": ((2, 3, 4), lambda t: t.tril(1), lambda a: np.tril(a, 1)),
    "triu": ((3, 4), lambda t: t.triu(), np.triu),
    "triu_down": ((4, 3), lambda t: t.triu(-2), lambda a: np.triu(a, -2)),
    "triu_far": ((3, 3), lambda t: t.triu(9), lambda a: np.triu(a, 9)),
    "pad": (
        (2, 3),
        lambda t: pf.nn.functional.pad(t, (1, 2)),
        lambda a: np.pad(a, ((0, 0), (1, 2))),
    ),
    "pad_two": (
        (2, 3),
        lambda t: pf.nn.functional.pad(t, (0, 1, 2, 0), value=1.0),
        lambda a: np.pad(a, ((2, 0), (0, 1)), constant_values=1),
    ),
    "pad_cut": (
        (4, 5),
        lambda t: pf.nn.functional.pad(t, (-1, 2, 1, -2)),
        lambda a: np.pad(a[:2, 1:], ((1, 0), (0, 2))),
    ),
    "pad_reflect": (
        (3, 4),
        lambda t: pf.nn.functional.pad(t, (3, 1), mode="reflect"),
        lambda a: np.pad(a, ((0, 0), (3, 1)), mode="reflect"),
    ),
    "pad_replicate": (
        (3, 4),
        lambda t: pf.nn.functional.pad(t, (3, 1, 0, 2), mode="replicate"),
        lambda a: np.pad(a, ((0, 2), (3, 1)), mode="edge"),
    ),
    "pad_circular": (
        (3, 4),
        lambda t: pf.nn.functional.pad(t, (3, 1), mode="circular"),
        lambda a: np.pad(a, ((0, 0), (3, 1)), mode="wrap"),
    ),
}


@pytest.mark.races("roll_dims")
@pytest.mark.parametrize("name", CASES)
def test_values(name):
    shape, op, ref = CASES[name]
    a = grid(*shape)
    for t in layouts(a):
        got = op(t)
        same(got, ref(a))
        assert got.is_contiguous() or name == "clone" or "rot90" in name
    for dtype in [np.int8, np.int64]:
        same(op(pf.tensor(a.astype(dtype))), ref(a.astype(dtype)))
    for dtype in [pf.bfloat16, pf.float16, pf.bool]:
        same(
            op(pf.tensor(a).to(dtype)).to(pf.float64),
            ref(pf.tensor(a).to(dtype).to(pf.float64).cpu().numpy()),
        )


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    shape, op, _ = CASES[name]
    check_grad(lambda t: op(t) ** 2, grid(*shape) / 7)


@pytest.mark.races
def test_large_copies():
    a = np.random.default_rng(0).standard_normal((513, 1025)).astype(np.float32)
    t = pf.tensor(a)
    same(t.t().contiguous(), a.T)
    same(pf.cat([t, t.flip(0)], 1), np.concatenate([a, a[::-1]], 1))
    same(t[::2, 1::3].clone(), a[::2, 1::3])


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat_and_stack(dim):
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal(s) for s in [(2, 3, 4), (2, 3, 4), (2, 3, 4)]]
    for turn in zip(*[layouts(p) for p in parts]):
        same(pf.cat(turn, dim), np.concatenate(parts, dim))
        same(pf.stack(turn, dim), np.stack(parts, dim))
    check_grad(lambda a, b: pf.cat([a, b * b], dim), rng.random((2, 3, 2)), rng.random((2, 3, 2)))
    check_grad(lambda a, b: pf.stack([a, b * b], dim), rng.random((2, 3)), rng.random((2, 3)))


def test_cat_uneven_and_empty():
    a, b = grid(2, 3), grid(2, 0)
    same(pf.cat([pf.tensor(a), pf.tensor(b)], 1), a)
    same(pf.cat([pf.tensor([]), pf.tensor(a)]), a)
    same(pf.cat([pf.zeros(0, 3), pf.zeros(0, 3)]), np.zeros((0, 3), np.float32))
    got = pf.cat([pf.tensor([1, 2]), pf.tensor([1.5])])
    assert got.dtype == pf.float32
    same(got, np.array([1, 2, 1.5], np.float32))
    for bad in [
        lambda: pf.cat([]),
        lambda: pf.cat([pf.zeros(2, 3), pf.zeros(3, 2)]),
        lambda: pf.cat([pf.zeros(()), pf.zeros(())]),
        lambda: pf.stack([pf.zeros(2), pf.zeros(3)]),
    ]:
        with pytest.raises((ValueError, RuntimeError)):
            bad()


def test_stacks():
    a, b = grid(3), grid(3) + 10
    for name in ["hstack", "vstack", "dstack", "column_stack"]:
        same(getattr(pf, name)([pf.tensor(a), pf.tensor(b)]), getattr(np, name)([a, b]))
        m, n = grid(2, 3), grid(2, 3) + 10
        same(getattr(pf, name)([pf.tensor(m), pf.tensor(n)]), getattr(np, name)([m, n]))


def test_in_place_triangles():
    x = pf.tensor(grid(3, 3), requires_grad=True)
    y = x * 1
    y.tril_()
    y.sum().backward()
    same(y, np.tril(grid(3, 3)))
    same(x.grad, np.tril(np.ones((3, 3))))


def test_contiguous_is_itself():
    t = pf.zeros(2, 3)
    assert t.contiguous() is t
    assert t.t().contiguous() is not t
    assert pf.zeros(0, 3).t().is_contiguous()


MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", MODES)
def test_padding_that_cuts(mode):
    a = grid(2, 5, 6)
    for before in range(-3, 4):
        for after in range(-2, 4):
            cut = a[..., max(0, -before) : a.shape[-1] - max(0, -after)]
            if mode in ("reflect", "replicate"):  # these show what is cut, too
                place = np.arange(-before, 6 + after)
                edge = np.clip(place, 0, 5)
                want = a[..., edge if mode == "replicate" else 5 - abs(5 - abs(place))]
            elif max(before, after) > cut.shape[-1]:
                continue
            else:
                ends = [(0, 0)] * 2 + [(max(0, before), max(0, after))]
                want = np.pad(cut, ends, MODES[mode])
            same(pf.nn.functional.pad(pf.tensor(a), (before, after), mode=mode), want)
    got = pf.nn.functional.pad(pf.tensor(a), (-1, 2, 1, -1), mode=mode)
    assert got.shape == (2, 5, 7)


@pytest.mark.parametrize("dtype", ["i1", "f2", "i4", "f8"])
@pytest.mark.parametrize("shape", [(9000, 3), (500, 20), (40, 5, 7), (2, 9, 1), (0, 3), (7, 1, 0)])
def test_roll_of_short_rows(shape, dtype):
    a = RNG.integers(0, 100, shape).astype(dtype)
    for dim in range(1, len(shape)):
        for shift in (*range(-2, min(12, shape[dim] + 2)), shape[dim] - 1):
            same(pf.tensor(a).roll(shift, dim), np.roll(a, shift, dim))
    wide = np.repeat(a, 2, axis=-1)
    same(pf.tensor(wide)[..., ::2].roll(1, -1), np.roll(a, 1, -1))


def test_ends_of_arguments():
    with pytest.raises(pf.ShapeError, match="leaves 1"):
        pf.nn.functional.pad(pf.zeros(1, 4), (2, -3), mode="circular")
    with pytest.raises(pf.IndexError, match="0 dimensions"):
        pf.roll(pf.tensor(1.0), 1, 0)
    with pytest.raises(pf.ShapeError, match="0 dimensions"):
        pf.flipud(pf.tensor(1.0))
    assert pf.roll(pf.tensor(1.0), 1).item() == 1
    assert pf.arange(12)[::2].ravel().is_contiguous()
    same(pf.arange(12)[::2].ravel(), np.arange(12)[::2])
    t = pf.zeros(2, 3)
    assert t.ravel().data_ptr() == t.data_ptr()


def test_repeats_that_no_size_holds():
    """Where another size is 0 there are no elements to count."""
    for call in (
        lambda: pf.repeat_interleave(pf.zeros(0, 4), 2**62, dim=1),
        lambda: pf.zeros(0, 4).repeat(1, 2**62),
        lambda: pf.repeat_interleave(pf.tensor([2**63 - 1])),
        lambda: pf.repeat_interleave(pf.zeros(2), pf.tensor([2**62, 2**62])),
    ):
        with pytest.raises(pf.ShapeError, match="pf.repeat.*(2.61|2.63)"):
            call()


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
def test_cat_of_many(count, dim, dtype):
    rng = np.random.default_rng(count)
    for even in (1, 8):  # rows of whole words, and others
        parts = []
        for _ in range(count):
            shape = [3, 2, 8]
            shape[dim] = int(rng.integers(0, 9)) * even
            parts.append((rng.standard_normal(shape) * 50).astype(dtype))
        want = np.concatenate(parts, dim)
        same(pf.cat([pf.tensor(p) for p in parts], dim), want)
        turned = [pf.tensor(np.moveaxis(p, -1, 0)).permute(1, 2, 0) for p in parts]
        same(pf.cat([pf.tensor(parts[0]), *turned[1:]], dim), want)
        whole = pf.tensor(np.concatenate([p.ravel() for p in parts]))  # parts that begin anywhere
        pieces = whole.split([p.size for p in parts])
        same(pf.cat([t.view(p.shape) for t, p in zip(pieces, parts)], dim), want)
