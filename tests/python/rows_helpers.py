"""Layouts, references and finite differences for the tests of reductions, norms and losses."""

import numpy as np

import pyflame as pf

TOLERANCE = {pf.float64: 1e-12, pf.float32: 3e-6, pf.bfloat16: 1.6e-2, pf.float16: 2e-3}
FLOATS = list(TOLERANCE)
LAYOUTS = ["plain", "transposed", "sliced", "broadcast"]


def in_layout(values, layout, dtype=None):
    """A tensor with these values in some memory layout."""
    t = pf.tensor(values)
    if dtype is not None:
        t = t.to(dtype)
    n = t.dim()
    if n == 0 or layout == "plain":
        return t
    if layout == "transposed":
        order = list(range(n))[::-1]
        return t.permute(*order).contiguous().permute(*order)
    if layout == "sliced":
        wide = pf.zeros([s * 2 + 1 for s in t.shape], dtype=t.dtype)
        at = tuple(slice(1, None, 2) for _ in t.shape)
        wide[at] = t
        return wide[at]
    if layout == "broadcast":
        return t[:1].expand(*t.shape)
    raise ValueError(layout)


def values_of(t):
    """float64 (or bool, int64) NumPy values of a tensor."""
    if t.dtype in TOLERANCE:
        return t.detach().to(pf.float64).numpy()
    return t.numpy()


def check(got, want, dtype=pf.float32, scale=1.0):
    a = values_of(got)
    want = np.asarray(want)
    assert a.shape == want.shape, (a.shape, want.shape)
    finite = np.abs(want[np.isfinite(want)]) if want.dtype.kind == "f" else np.abs(want)
    bound = TOLERANCE[dtype] * scale * max(1.0, float(finite.max(initial=0)))
    np.testing.assert_allclose(a, want, rtol=0, atol=bound, equal_nan=True)


def gradcheck(fn, *arrays, tol=2e-7, eps=1e-6, second=True):
    """Gradients of sum(fn * w) against central differences in float64; second derivatives too."""
    rng = np.random.default_rng(3)
    leaves = [pf.tensor(a.copy(), dtype=pf.float64, requires_grad=True) for a in arrays]
    out = fn(*leaves)
    w = pf.tensor(rng.standard_normal(tuple(out.shape)), dtype=pf.float64)

    def numeric(f, i):
        g = np.zeros(arrays[i].shape)
        for at in np.ndindex(*arrays[i].shape):
            sides = []
            for d in (eps, -eps):
                moved = [a.copy() for a in arrays]
                moved[i][at] += d
                sides.append(f(moved))
            g[at] = (sides[0] - sides[1]) / (2 * eps)
        return g

    def value(moved):
        ts = [pf.tensor(a, dtype=pf.float64) for a in moved]
        return float((fn(*ts) * w).sum().item())

    plain = pf.autograd.grad((out * w).sum(), leaves, retain_graph=True)
    for i, g in enumerate(plain):
        want = numeric(value, i)
        np.testing.assert_allclose(g.numpy(), want, rtol=0, atol=tol * max(1, np.abs(want).max()))
    if not second:
        return
    vs = [pf.tensor(rng.standard_normal(a.shape), dtype=pf.float64) for a in arrays]

    def slope(moved):
        ts = [pf.tensor(a, dtype=pf.float64, requires_grad=True) for a in moved]
        gs = pf.autograd.grad((fn(*ts) * w).sum(), ts)
        return float(sum((g * v).sum().item() for g, v in zip(gs, vs, strict=True)))

    graph = pf.autograd.grad((out * w).sum(), leaves, create_graph=True)
    for g, p in zip(graph, plain, strict=True):  # both ways of writing the gradient agree
        np.testing.assert_allclose(g.detach().numpy(), p.numpy(), rtol=0, atol=1e-9)
    total = sum((g * v).sum() for g, v in zip(graph, vs, strict=True))
    if not total.requires_grad:
        return
    again = pf.autograd.grad(total, leaves, allow_unused=True)
    for i, g in enumerate(again):
        want = numeric(slope, i)
        got = np.zeros_like(want) if g is None else g.numpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=20 * tol * max(1, np.abs(want).max()))
