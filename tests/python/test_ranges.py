"""Statistics, norms and reductions at the ends of what a dtype can hold, against float64: numbers
far from 0, sums and squares beyond the range of 16 bits, and a single rounding at the end."""

import re

import numpy as np
import pytest
from rows_helpers import values_of

import pyflame as pf

F = pf.nn.functional
EPS = {pf.float32: 2.0**-23, pf.bfloat16: 2.0**-7, pf.float16: 2.0**-10}


def far(mean, *shape):
    """float32 numbers about `mean` with a deviation of 1, and what they are in float64."""
    a = (np.random.default_rng(1).standard_normal(shape) + mean).astype(np.float32)
    return pf.tensor(a), a.astype(np.float64)


def close(got, want, bound):
    got, want = values_of(got), np.asarray(want, np.float64)
    assert got.shape == want.shape
    error = np.abs(got - want) / np.maximum(np.abs(want), np.abs(want).max() * 1e-3)
    assert error.max(initial=0) <= bound, error.max()


FAR = {
    "var": (lambda t: t.var(-1), lambda a: a.var(-1, ddof=1)),
    "std": (lambda t: t.std(-1), lambda a: a.std(-1, ddof=1)),
    "var of columns": (lambda t: t.var(0), lambda a: a.var(0, ddof=1)),
    "var of all": (lambda t: t.var(), lambda a: a.var(ddof=1)),
    "var of outer and inner": (
        lambda t: t.view(3, 2, -1).var((0, 2)),
        lambda a: a.reshape(3, 2, -1).var((0, 2), ddof=1),
    ),
    "var of a turned tensor": (lambda t: t.t().var(0), lambda a: a.T.var(0, ddof=1)),
    "var_mean": (lambda t: pf.var_mean(t, -1)[0], lambda a: a.var(-1, ddof=1)),
    "std_mean": (lambda t: pf.std_mean(t, -1)[0], lambda a: a.std(-1, ddof=1)),
    "cov": (lambda t: pf.cov(t[:, :400]).diagonal(), lambda a: np.cov(a[:, :400]).diagonal()),
    "weighted cov": (
        lambda t: pf.cov(t[0], fweights=pf.arange(t.shape[1])),
        lambda a: np.cov(a[0], fweights=np.arange(a.shape[1])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("mean", [0, 1e3, 1e6])
def test_numbers_far_from_zero(name, mean):
    ours, reference = FAR[name]
    for n in (7, 768, 5000):
        t, a = far(mean, 6, n)
        close(ours(t), reference(a), 2e-6)


@pytest.mark.parametrize("n", [7, 768, 5000])
def test_rows_far_from_zero(n):
    """layer_norm and its gradients; PyTorch's are 10% off there."""
    rng = np.random.default_rng(2)
    for mean in (0, 1e3, 1e6):
        t, a = far(mean, 5, n)
        w, b, g = (rng.standard_normal(n).astype(np.float32) for _ in range(3))
        leaves = [
            t.requires_grad_(),
            pf.tensor(w, requires_grad=True),
            pf.tensor(b, requires_grad=True),
        ]
        y = F.layer_norm(leaves[0], (n,), leaves[1], leaves[2])
        deviation = np.sqrt(a.var(-1, keepdims=True) + 1e-5)
        hat = (a - a.mean(-1, keepdims=True)) / deviation
        close(y, hat * w + b, 1e-4)
        y.backward(pf.tensor(g).expand(5, n))
        h = np.broadcast_to(g * w, a.shape).astype(np.float64)
        dx = h - h.mean(-1, keepdims=True) - hat * (h * hat).mean(-1, keepdims=True)
        np.testing.assert_allclose(values_of(leaves[0].grad), dx / deviation, rtol=0, atol=2e-5)
        np.testing.assert_allclose(values_of(leaves[1].grad), (g * hat).sum(0), rtol=0, atol=1e-4)
        x = pf.tensor(a, dtype=pf.float32, requires_grad=True)  # formulas of second derivatives
        y = F.layer_norm(x, (n,), leaves[1].detach(), leaves[2].detach())
        (slope,) = pf.autograd.grad((y * pf.tensor(g)).sum(), x, create_graph=True)
        np.testing.assert_allclose(values_of(slope), dx / deviation, rtol=0, atol=2e-5)


def test_gradients_of_deviations_far_from_zero():
    t, a = far(1e6, 3, 768)
    t.requires_grad_()
    (grad,) = pf.autograd.grad(t.std(-1).sum(), t)
    want = (a - a.mean(-1, keepdims=True)) / a.std(-1, ddof=1, keepdims=True) / 767
    np.testing.assert_allclose(values_of(grad), want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_equal_numbers_have_no_variance():
    for value in (0.1, 1e-3, 12345.678, 1e18, 1e30):
        for shape in ((768,), (30, 71), (3, 777), (99_999,), (100_000,)):
            x = pf.full(shape, value)
            assert x.var().item() == 0 and x.std(0).max().item() == 0
            assert F.layer_norm(x, shape[-1:]).abs().max().item() == 0


# Every operation of these families, with arguments; `None`: nothing is calculated.
WIDE = {
    "sum": "x.sum(-1)", "mean": "x.mean(-1)", "prod": "(x / 256).prod(-1)", "amax": "x.amax(-1)",
    "amin": "x.amin(-1)", "max": "x.max(-1)[0]", "min": "x.min(-1)[0]", "median": "x.median(-1)[0]",
    "var": "x.var(-1)", "std": "x.std(-1)", "var_mean": "pf.var_mean(x, -1)[1]",
    "std_mean": "pf.std_mean(x, -1)[0]", "logsumexp": "x.logsumexp(-1)",
    "norm": ["x.norm(2, -1)", "x.norm(3, -1)", "x.norm(0.5, -1)", "x.norm(1, -1)", "x.norm(-2, -1)"],
    "all": None, "any": None, "argmax": None, "argmin": None, "count_nonzero": None,
    "aminmax": "pf.aminmax(x, dim=-1)[1]", "corrcoef": "pf.corrcoef(x)", "cov": "pf.cov(x / 16)",
    "histc": None, "sum_to_size": "x.sum_to_size(x.shape[0], 1)",
    "mode": "x.mode(-1)[0]", "nanmean": "x.nanmean(-1)", "nanmedian": "x.nanmedian(-1)[0]",
    "nanquantile": "x.nanquantile(0.3, -1)", "nansum": "x.nansum(-1)",
    "quantile": ["x.quantile(0.3, -1)", "x.quantile(0.5, -1, interpolation='midpoint')"],
    "trapezoid": "pf.trapezoid(x / 8)", "trapz": "pf.trapz(x / 8, dx=0.5)",
    "cdist": "pf.cdist(x, -x)", "cosine_similarity": "F.cosine_similarity(x, x.flip(1), -1)",
    "dist": "pf.dist(x, x.flip(0))", "normalize": "F.normalize(x, dim=-1)",
    "pairwise_distance": "F.pairwise_distance(x, x.flip(0))", "pdist": "F.pdist(x)",
    "linalg_norm": "pf.linalg.norm(x, dim=-1)", "linalg_vector_norm": "pf.linalg.vector_norm(x, 3, -1)",
    "linalg_matrix_norm": ["pf.linalg.matrix_norm(x / 8)", "pf.linalg.matrix_norm(x / 8, 1)"],
    "linalg_cross": None, "linalg_diagonal": None, "linalg_matmul": None, "linalg_matrix_power": None,
    "linalg_multi_dot": None, "linalg_vecdot": None,
    "layer_norm": "F.layer_norm(x, x.shape[-1:])", "rms_norm": "F.rms_norm(x, x.shape[-1:])",
    "batch_norm": "F.batch_norm(x, None, None, training=True)", "group_norm": "F.group_norm(x, 3)",
    "instance_norm": "F.instance_norm(x.unsqueeze(0))",
    "local_response_norm": "F.local_response_norm(x.unsqueeze(-1), 3)",
    "softmax": "x.softmax(-1)", "log_softmax": "(x / 64).log_softmax(-1)", "softmin": "F.softmin(x, -1)",
    "glu": None,
}  # fmt: skip
FAMILIES = {
    "reduction", "statistics", "distance", "linear algebra", "normalization",
    "channel normalization", "softmax",
}  # fmt: skip
# Of float32 and float64 alone, or tested with their decompositions (test_linalg.py).
WITHOUT = re.compile(
    "linalg_|_binned_sums$|cholesky|(log|slog)?det$|geqrf$|(pinv|inv)erse$|lu(_solve|_unpack)?$|matrix_exp$|"
    "orgqr$|ormqr$|qr$|svd$|triangular_solve$"
)


def test_every_operation_of_the_families_is_here():
    names = {r["name"] for r in pf.ops.table() if r["family"] in FAMILIES}
    assert {n for n in names if n in WIDE or not WITHOUT.match(n)} == set(WIDE)


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("name", [n for n in WIDE if WIDE[n]])
def test_large_numbers(name, dtype):
    """Squares and sums of these are beyond float16; results are not, and come within a unit."""
    whole = np.random.default_rng(3).integers(-1200, 1200, (6, 24))
    whole[0, :2] = 100, 900
    x = pf.tensor(whole, dtype=pf.float64).to(dtype)
    for text in WIDE[name] if isinstance(WIDE[name], list) else [WIDE[name]]:
        got = eval(text, {"x": x, "pf": pf, "F": F})
        want = values_of(eval(text, {"x": x.to(pf.float64), "pf": pf, "F": F}))
        assert got.dtype == dtype
        got = values_of(got)
        # One rounding, half a unit, of what a few steps in float32 give.
        over = np.abs(want) > pf.finfo(dtype).max
        assert np.isinf(got[over]).all(), text
        bound = 0.51 * EPS[dtype] * np.abs(want) + 4 * EPS[pf.float32] * np.abs(want[~over]).max(
            initial=0
        )
        with np.errstate(invalid="ignore"):
            error = np.abs(got - want)[~over] / bound[~over]
        assert np.nanmax(error, initial=0) <= 1, (text, np.nanmax(error))
        assert (np.isnan(got) == np.isnan(want)).all(), text


def test_float16_deviation_of_two_numbers():
    x = pf.tensor([100.0, 900.0], dtype=pf.float16)
    want = np.float16(np.std([100.0, 900.0], ddof=1))
    assert x.std().item() == want
    x.requires_grad_()
    x.std().backward()
    np.testing.assert_allclose(values_of(x.grad), [-(0.5**0.5), 0.5**0.5], rtol=2e-3)
