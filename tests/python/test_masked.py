"""pf.masked against NumPy's masked arrays, and against PyTorch where it is there."""

import importlib
import math

import numpy as np
import pytest

import pyflame as pf
from pyflame import masked as M

RNG = np.random.default_rng(5)
SHAPES = [((3, 4), (3, 4)), ((2, 3, 4), (3, 1)), ((2, 3, 4), None), ((5,), (5,)), ((), ())]
REDUCE = ["sum", "prod", "mean", "amax", "amin", "logsumexp", "norm", "var", "std"]
ALONG = ["cumsum", "cumprod", "softmax", "log_softmax", "softmin", "normalize"]


def drawn(shape, mask_shape):
    x = np.asarray(RNG.standard_normal(shape), "float32")
    if mask_shape is None:
        return x, None
    mask = np.asarray(RNG.random(mask_shape) > 0.5)
    if mask.ndim == 2:
        mask[0] = False  # a row without anything
    return x, mask


def masked_array(x, mask):
    return np.ma.array(x.astype("float64"), mask=~np.broadcast_to(mask, x.shape))


@pytest.mark.parametrize(
    "name, empty",
    [("sum", 0), ("prod", 1), ("mean", math.nan), ("amax", -math.inf), ("amin", math.inf)],
)
def test_reductions_are_numpys(name, empty):
    x, mask = drawn((3, 4), (3, 4))
    numpys = {"amax": "max", "amin": "min"}.get(name, name)
    want = np.ma.filled(getattr(masked_array(x, mask), numpys)(1), empty)
    got = getattr(M, name)(pf.tensor(x), 1, mask=pf.tensor(mask))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
    whole = getattr(M, name)(pf.tensor(x), mask=pf.tensor(mask))
    np.testing.assert_allclose(whole.item(), getattr(masked_array(x, mask), numpys)(), rtol=1e-5)


def test_what_is_masked_takes_no_part():
    x = pf.tensor([1.0, math.nan, 3.0, math.inf], requires_grad=True)
    mask = pf.tensor([True, False, True, False])
    for function, value, slope in [
        (M.sum, 4, [1, 0, 1, 0]), (M.mean, 2, [0.5, 0, 0.5, 0]), (M.var, 2, [-2, 0, 2, 0]),
        (M.prod, 3, [3, 0, 1, 0]), (M.amax, 3, [0, 0, 1, 0]), (M.norm, math.sqrt(10), None),
    ]:  # fmt: skip
        x.grad = None
        result = function(x, mask=mask)
        assert result.item() == pytest.approx(value)
        result.backward()
        want = [1 / math.sqrt(10), 0, 3 / math.sqrt(10), 0] if slope is None else slope
        assert x.grad.tolist() == pytest.approx(want)
    assert M.softmax(x, 0, mask=mask)[[1, 3]].tolist() == [0, 0]
    assert M.argmax(x, 0, mask=mask) == 2 and M.argmin(x, 0, mask=mask) == 0


def test_median():
    x = pf.tensor([[5.0, math.nan, 1.0, 3.0], [math.inf, 2.0, -1.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    mask = pf.tensor([[True, False, True, True], [True, True, False, False], [False] * 4])
    assert M.median(x, mask=mask)[:2].tolist() == [3, 2]
    assert math.isnan(M.median(x, mask=mask)[2])
    assert math.isnan(M.median(x)[0]) and M.median(x)[2] == 2
    assert M.median(x, 1, keepdim=True, mask=mask).shape == (3, 1)
    y = x.detach().requires_grad_()
    M.median(y, 0, mask=mask)[3].backward()
    assert y.grad.tolist() == [[0, 0, 0, 1], [0] * 4, [0] * 4]


@pytest.mark.parametrize("shape, mask_shape", SHAPES)
def test_beside_pytorch(shape, mask_shape):
    torch = pytest.importorskip("torch")
    from torch import masked as theirs

    x, mask = drawn(shape, mask_shape)
    for name in REDUCE + ALONG:
        for dim in (None, -1, 0) if name in REDUCE else (-1, 0):
            args = (2.0, dim) if name in ("norm", "normalize") else (dim,)
            for options in ({}, {"keepdim": True}) if name in REDUCE else ({},):
                a, b = torch.tensor(x, requires_grad=True), pf.tensor(x, requires_grad=True)
                masks = [None if mask is None else lib.tensor(mask) for lib in (torch, pf)]
                want = getattr(theirs, name)(a, *args, mask=masks[0], **options)
                got = getattr(M, name)(b, *args, mask=masks[1], **options)
                assert got.shape == tuple(want.shape)
                np.testing.assert_allclose(
                    got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=name
                )
                if want.isfinite().all() and not (name in ("std", "norm") and 0 in want):
                    want.square().sum().backward()
                    got.square().sum().backward()
                    np.testing.assert_allclose(
                        b.grad.numpy(), a.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name
                    )


def test_integers_and_dtypes():
    x, mask = pf.tensor([[3, -2], [7, 9]], dtype=pf.int32), pf.tensor([[True, False], [False] * 2])
    assert M.sum(x, 1, mask=mask).tolist() == [3, 0]
    assert M.amax(x, 1, mask=mask).tolist() == [3, -(2**31)]
    assert M.cumsum(x, 1, mask=mask).dtype == pf.int32
    assert M.mean(x, 1, dtype=pf.float64).tolist() == [0.5, 8]
    assert M.amin(pf.tensor([True, False]), 0, mask=pf.tensor([True, False])).item() is True
    assert M.logaddexp(pf.zeros(2), pf.zeros(2), other_mask=pf.tensor([True, False])).tolist() == (
        pytest.approx([math.log(2), 0])
    )


def test_bad_arguments():
    x = pf.ones(2, 3)
    for mask in (pf.ones(2), pf.ones(1, 2, 3)):
        with pytest.raises(pf.ShapeError, match=r"pf.masked.sum: got a mask of shape"):
            M.sum(x, mask=mask)
    with pytest.raises(TypeError, match="pf.masked.amax: got list as the input"):
        M.amax([1.0])
    with pytest.raises(TypeError, match="got list as the mask"):
        M.amax(x, mask=[True])
    with pytest.raises(TypeError, match="pf.masked.mean: got pyflame.int64"):
        M.mean(x.long())
    with pytest.raises(ValueError, match="unbiased and correction"):
        M.var(x, 1, True, correction=1)
    with pytest.raises(IndexError):
        M.sum(x, 2)


# ---- masked tensors -----------------------------------------------------------------------------

MASKED = {
    "sum": lambda T, a: a.sum(1), "sum of all": lambda T, a: a.sum(), "mean": lambda T, a: a.mean(1),
    "amax": lambda T, a: a.amax(1), "amin": lambda T, a: T.amin(a, 0), "argmax": lambda T, a: a.argmax(1),
    "prod": lambda T, a: a.prod(1), "std": lambda T, a: a.std(), "root": lambda T, a: T.sqrt(a * a),
    "numbers": lambda T, a: 2 * a + 1 - a / 4, "two": lambda T, a: a + a * a, "row": lambda T, a: a[0],
    "part": lambda T, a: a[:, 1:], "reshape": lambda T, a: a.reshape(3, 2), "softmax": lambda T, a: T.softmax(a, 1),
    "turned": lambda T, a: a.transpose(0, 1), "compare": lambda T, a: a > 1, "double": lambda T, a: a.double(),
    "where": lambda T, a: T.where(T.tensor([[True, True, False]] * 2), a, a * 2),
    "negative": lambda T, a: abs(-a),
}  # fmt: skip


def masked_pair(T, module, requires_grad=False):
    data = T.tensor([[1.0, float("nan"), -3.0], [4.0, 5.0, float("inf")]])
    mask = T.tensor([[True, False, True], [False, False, False]])
    return module.masked_tensor(data, mask, requires_grad=requires_grad)


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", MASKED)
def test_masked_tensors_beside_pytorch(name):
    torch = pytest.importorskip("torch")
    sides = []
    for T, module in ((torch, importlib.import_module("torch.masked")), (pf, pf.masked)):
        out = MASKED[name](T, masked_pair(T, module))
        assert module.is_masked_tensor(out)
        sides.append(
            (
                out.get_mask().tolist(),
                str(out.dtype).split(".")[-1],
                out.to_tensor(7).float().tolist(),
            )
        )
    theirs, ours = sides
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1] or name == "argmax"  # theirs are floats
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-6)


def test_gradients_of_masked_tensors():
    a = masked_pair(pf, pf.masked, True)
    (a * a).sqrt().sum().backward()
    assert a.grad.to_tensor(0.0).tolist() == [[1, 0, -1], [0, 0, 0]]
    assert a.grad.get_data().tolist() == [[1, 0, -1], [0, 0, 0]]
    x = pf.ones(2, requires_grad=True)
    pf.masked.as_masked_tensor(x, pf.tensor([True, False])).mul(3).sum().backward()
    assert x.grad.tolist() == [3, 0]
    assert repr(masked_pair(pf, pf.masked)) == (
        "MaskedTensor(\n  [\n    [  1.0000,       --,  -3.0000],\n    [      --,       --,       --]\n  ]\n)"
    )


def test_what_masked_tensors_refuse():
    a, x = masked_pair(pf, pf.masked), pf.ones(2, 3)
    with pytest.raises(pf.ValueError, match="different masks in add"):
        a + pf.masked.masked_tensor(x, x > 0)
    with pytest.raises(TypeError, match="expected bool"):
        pf.masked.masked_tensor(x, x)
    with pytest.raises(pf.ValueError, match="expected the same"):
        pf.masked.masked_tensor(x, pf.ones(3).bool())
    with pytest.raises(AttributeError, match="get_data"):
        a.tolist()
    with pytest.raises(TypeError):
        pf.matmul(a, a)
