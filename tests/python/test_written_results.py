"""Results that are written into a tensor: in-place forms made of other operations, and out=."""

import numpy as np
import pytest
import scipy.special as sp

import pyflame as pf

IN_PLACE = {
    "lgamma_": (lambda x: x.lgamma_(), sp.digamma),
    "digamma_": (lambda x: x.digamma_(), lambda x: sp.polygamma(1, x)),
    "polygamma_": (lambda x: x.polygamma_(1), lambda x: sp.polygamma(2, x)),
    "erfinv_": (
        lambda x: x.erfinv_(),
        lambda x: np.exp(sp.erfinv(x) ** 2) * np.sqrt(np.pi) / 2,
    ),
    "logit_": (lambda x: x.logit_(0.1), lambda x: 1 / (x * (1 - x))),
    "nan_to_num_": (lambda x: x.nan_to_num_(1.0), np.ones_like),
    "addmm_": (lambda x: x.addmm_(pf.ones(2, 3).double(), pf.ones(3, 2).double(), beta=3),
               lambda x: 3 * np.ones_like(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_gradient_of_a_form_in_place_reads_the_old_value(name):
    write, slope = IN_PLACE[name]
    values = np.array([[0.2, 0.4], [0.6, 0.8]])
    leaf = pf.tensor(values, requires_grad=True)
    x = leaf.clone()
    assert write(x) is x
    x.sum().backward()
    np.testing.assert_allclose(leaf.grad.detach().cpu().numpy(), slope(values), rtol=1e-9)


@pytest.mark.parametrize("name", ["lgamma_", "digamma_", "erfinv_", "logit_"])
def test_a_float_result_is_not_stored_in_integers(name):
    x = pf.tensor([[0, 1], [1, 0]])
    with pytest.raises(pf.DTypeError, match="without loss"):
        IN_PLACE[name][0](x)
    assert x.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.int64], ids=str)
def test_out_without_elements_takes_the_shape(dtype):
    a = pf.tensor([[1, 2], [3, 4]])
    out = pf.empty(0, dtype=dtype)
    assert pf.add(a, a, out=out) is out
    assert out.dtype == dtype and out.tolist() == [[2, 4], [6, 8]]
    pf.mul(a, 3, out=out)  # it fits now
    assert out.tolist() == [[3, 6], [9, 12]]


SEVERAL = {  # by name, with what out= begins as
    "max": (lambda x, **k: pf.max(x, 1, **k), "fi"),
    "sort": (lambda x, **k: pf.sort(x, dim=0, descending=True, **k), "fi"),
    "topk": (lambda x, **k: pf.topk(x, 2, **k), "fi"),
    "cummin": (lambda x, **k: pf.cummin(x, 1, **k), "fi"),
    "aminmax": (lambda x, **k: pf.aminmax(x, dim=0, **k), "ff"),
    "qr": (lambda x, **k: pf.linalg.qr(x, **k), "ff"),
    "svd": (lambda x, **k: pf.linalg.svd(x, **k), "fff"),
    "frexp": (lambda x, **k: pf.frexp(x, **k), "fn"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL)
def test_out_of_several_results(name):
    call, kinds = SEVERAL[name]
    x = pf.tensor([[3.0, 1.0, 2.0], [0.5, -4.0, 7.0]])
    want = call(x)
    dtypes = {"f": pf.float32, "i": pf.int64, "n": pf.int32}
    for make in (
        lambda w, d: pf.empty(0, dtype=d),
        lambda w, d: pf.zeros(w.shape, dtype=d),
        lambda w, d: pf.zeros(*w.shape, 2, dtype=d)[..., 1],
    ):
        outs = [make(w, dtypes[d]) for w, d in zip(want, kinds)]
        got = call(x, out=tuple(outs))
        assert type(got) is type(want) and all(g is o for g, o in zip(got, outs))
        assert [o.tolist() for o in outs] == [w.tolist() for w in want]


def test_out_of_several_results_refused():
    x, v, i = pf.ones(2, 3), pf.zeros(2), pf.zeros(2, dtype=pf.int64)
    for out, what in [
        (v, "tuple of 2"), ((v,), "tuple of 2"), ((v, i, i), "tuple of 2"), ((v, 3), "out"), ((), "tuple of 2"),
        ((v, v.bool()), "int64"), ((v, i[:1]), "shape"), ((v, x[0, :2]), "int64|memory"),
    ]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=what):
            pf.max(x, 1, out=out)
        assert v.tolist() == [0, 0] and x.tolist() == [[1] * 3] * 2
    with pytest.raises(TypeError, match="one tensor"):
        pf.add(v, v, out=(v,))
    with pytest.raises(ValueError, match="memory"):
        pf.max(x, 1, out=(x[0, :2], i))
    fresh = pf.empty(0)  # gets memory only where all fit
    for other in (i[:1], i.bool()):
        with pytest.raises(pf.PyFlameError, match="out="):
            pf.max(x, 1, out=(fresh, other))
        assert fresh.shape == (0,)


def test_out_of_another_shape_is_refused():
    a, out = pf.ones(3), pf.zeros(2)
    with pytest.raises(pf.ShapeError, match="out="):
        pf.add(a, a, out=out)
    assert out.tolist() == [0.0, 0.0]
    leaf = pf.empty(0, requires_grad=True)
    with pytest.raises(pf.PyFlameError):
        pf.add(a, a, out=leaf)
    assert leaf.numel() == 0


@pytest.mark.parametrize("call", [
    lambda x, k: pf.add(x, x, alpha=k),
    lambda x, k: pf.sub(x, x, alpha=k),
    lambda x, k: x.clone().add_(x, alpha=k),
    lambda x, k: pf.addmm(x, x, x, alpha=k),
    lambda x, k: pf.addmm(x, x, x, beta=k),
    lambda x, k: pf.addr(x, x[0], x[1], alpha=k),
    lambda x, k: pf.baddbmm(x[None], x[None], x[None], beta=k),
    lambda x, k: pf.addmv(x[0], x, x[1], alpha=k),
])  # fmt: skip
def test_fractions_of_integers_are_refused(call):
    x = pf.tensor([[1, 2], [3, 4]])
    with pytest.raises(pf.ValueError, match="whole number"):
        call(x, 0.5)
    assert call(x, 2.0).dtype == pf.int64
    assert call(x, 2.0).tolist() == call(x, 2).tolist()
    assert call(x.double(), 0.5).dtype == pf.float64


def test_bounds_count_like_operands():
    x, mask = pf.tensor([-3, 1, 4]), pf.tensor([True, False])
    for result in (x.clamp(max=2.5), x.clamp_max(2.5), pf.clip(x, max=2.5)):
        assert result.dtype == pf.float32 and result.tolist() == [-3.0, 1.0, 2.5]
    assert x.clamp(0, 2).dtype == pf.int64 and x.clamp(0.0, 2).dtype == pf.float32
    assert mask.clamp(max=1).dtype == pf.int64 and mask.clamp(max=True).dtype == pf.bool
    with pytest.raises(pf.DTypeError, match="without loss"):
        x.clamp_(max=2.5)
    # Those of hardtanh and threshold are cut to integers.
    assert pf.nn.functional.hardtanh(x, -1.5, 1.5).tolist() == [-1, 1, 1]
    r = pf.nn.functional.threshold(x, 1.5, -7.5)
    assert r.dtype == pf.int64 and r.tolist() == [-7, -7, 4]


def test_a_number_is_copied_everywhere():
    x = pf.zeros(2, 2)
    assert x.copy_(3) is x and x.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert pf.add(pf.ones(2), 2, 3).tolist() == [7.0, 7.0]  # alpha by position


def test_a_tensor_without_dimensions_is_an_operand():
    bound = pf.tensor(0.5, dtype=pf.float64)
    assert pf.tensor(2).clamp(max=bound).dtype == pf.float64


def test_running_sums_in_the_dtype_that_is_asked_for():
    assert pf.cumsum(pf.tensor([1, 2, 3]), 0, dtype=pf.int8).dtype == pf.int8
    assert pf.cumsum(pf.tensor([1, 2, 125]), 0, dtype=pf.int8).tolist() == [1, 3, -128]


def test_sums_have_the_shape_of_the_product():
    with pytest.raises(pf.ShapeError, match="broadcasts"):
        pf.addmv(pf.ones(3, 2), pf.ones(2, 4), pf.ones(4))
