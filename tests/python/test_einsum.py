"""Einstein sums against NumPy."""

import numpy as np
import pytest

import pyflame as pf

RNG = np.random.default_rng(0)

EQUATIONS = [
    ("i->i", (3,)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("iijj->ij", (3, 3, 2, 2)),
    ("ijk->kij", (2, 3, 4)),
    ("...ij->...ji", (2, 3, 4, 5)),
    ("ba", (3, 4)),
    ("i,i", (3,), (3,)),
    ("i,j", (3,), (4,)),
    ("i,j->ji", (3,), (4,)),
    ("i,i->i", (3,), (3,)),
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ij,kj->ik", (3, 4), (5, 4)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("bhqk,bkhd->bqhd", (2, 3, 4, 6), (2, 6, 3, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("...ij,...jk->...ik", (1, 7, 3, 4), (2, 1, 4, 5)),
    ("i...,i...->...", (3, 2, 4), (3, 4)),
    ("btc,dc->btd", (2, 3, 4), (5, 4)),
    ("ab,cd->abcd", (2, 3), (4, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,ki->", (2, 3), (3, 4), (4, 2)),
    ("i,j,k->kji", (2,), (3,), (4,)),
    ("ij,ik,il->jkl", (2, 3), (2, 4), (2, 5)),
    ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    ("ea,fb,abcd,gc,hd->efgh", (2, 2), (2, 2), (2, 2, 2, 2), (2, 2), (2, 2)),
    (" i j , j k -> i k ", (3, 4), (4, 5)),
    ("aB,Bc->ac", (2, 3), (3, 4)),
    ("ij,jk->ik", (0, 4), (4, 5)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ijk,ijl->il", (2, 3, 4), (2, 3, 5)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0].replace(" ", "_"))
def test_matches_numpy(case):
    equation, *shapes = case
    arrays = [RNG.standard_normal(s) for s in shapes]
    got = pf.einsum(equation, *[pf.tensor(a) for a in arrays])
    want = np.einsum(equation.replace(" ", ""), *arrays)
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    # operands in a list, and views as operands
    flipped = [pf.tensor(np.ascontiguousarray(a.T)).permute(*range(a.ndim)[::-1]) for a in arrays]
    np.testing.assert_allclose(pf.einsum(equation, flipped).numpy(), want, atol=1e-12)


@pytest.mark.parametrize(
    "case", [c for c in EQUATIONS if 0 not in sum(c[1:], ())], ids=lambda c: c[0].replace(" ", "_")
)
def test_gradients(case):
    equation, *shapes = case
    arrays = [RNG.standard_normal(s) for s in shapes]
    tensors = [pf.tensor(a).requires_grad_() for a in arrays]
    out = pf.einsum(equation, *tensors)
    weights = RNG.standard_normal(tuple(out.shape))
    (out * pf.tensor(weights)).sum().backward()
    plain = equation.replace(" ", "")
    for array, t in zip(arrays, tensors):
        got = t.grad.numpy()
        for at in list(np.ndindex(*array.shape))[:6]:
            before = array[at]
            array[at] = before + 1e-6
            up = (np.einsum(plain, *arrays) * weights).sum()
            array[at] = before - 1e-6
            down = (np.einsum(plain, *arrays) * weights).sum()
            array[at] = before
            assert abs(got[at] - (up - down) / 2e-6) < 1e-6 * max(1, abs(got[at]))


def test_size_one_broadcasts():
    a, b = RNG.standard_normal((3, 1)), RNG.standard_normal((4, 5))
    got = pf.einsum("ij,jk->ik", pf.tensor(a), pf.tensor(b))
    np.testing.assert_allclose(got.numpy(), np.broadcast_to(a, (3, 4)) @ b, atol=1e-12)


def test_tensordot():
    a, b = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((3, 4, 5))
    np.testing.assert_allclose(
        pf.tensordot(pf.tensor(a), pf.tensor(b)).numpy(), np.tensordot(a, b), atol=1e-12
    )
    np.testing.assert_allclose(
        pf.tensordot(pf.tensor(a), pf.tensor(b), dims=([2, 1], [1, 0])).numpy(),
        np.tensordot(a, b, axes=([2, 1], [1, 0])),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        pf.tensordot(pf.tensor(a), pf.tensor(b), dims=0).numpy(), np.tensordot(a, b, 0), atol=1e-12
    )


def test_errors_say_what_to_do():
    a = pf.zeros(2, 3)
    with pytest.raises(pf.ShapeError, match="2 letters"):
        pf.einsum("ij", pf.zeros(2, 3, 4))
    with pytest.raises(pf.ShapeError, match=r"sizes 3 and 2 for 'j'"):
        pf.einsum("ij,jk->ik", a, a)
    with pytest.raises(ValueError, match="2 subscripts for 1 operands"):
        pf.einsum("ij,jk", a)
    with pytest.raises(ValueError, match="output has 'z'"):
        pf.einsum("ij->iz", a)
    with pytest.raises(ValueError, match="repeats 'i'"):
        pf.einsum("ij->ii", a)
    with pytest.raises(ValueError, match="character '1'"):
        pf.einsum("i1", a)
    with pytest.raises(pf.DTypeError):
        pf.einsum("ij,ij", a, pf.zeros(2, 3, dtype=pf.float64))
