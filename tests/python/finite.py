"""Helpers: one array in many memory layouts, and gradients against finite differences."""

import numpy as np

import pyflame as pf


def layouts(a):
    """Tensors with the values of `a`: contiguous, with turned dimensions, every second element of a
    larger one, and starting inside their storage."""
    a = np.asarray(a)
    yield pf.tensor(a)
    if a.ndim == 0:
        return
    order = tuple(reversed(range(a.ndim)))
    yield pf.tensor(np.ascontiguousarray(a.transpose(order))).permute(*order)
    wide = np.zeros(a.shape[:-1] + (2 * a.shape[-1] + 1,), a.dtype)
    wide[..., 1::2] = a
    yield pf.tensor(wide)[..., 1::2]
    tall = np.concatenate([np.zeros((2,) + a.shape[1:], a.dtype), a])
    yield pf.tensor(tall)[2:]


def same(got, want, **tolerance):
    """Shapes and values equal; within a tolerance when one is given. NaN equals NaN."""
    got = got.detach().cpu().numpy() if isinstance(got, pf.Tensor) else np.asarray(got)
    want = np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    if tolerance:
        np.testing.assert_allclose(got, want, **tolerance)
    else:
        np.testing.assert_array_equal(got, want)


def check_grad(fn, *arrays, second=True, eps=1e-6, tol=1e-6):
    """Gradients of fn(*tensors) (one float tensor) by central differences in float64; then, with
    `second`, those of the gradient itself."""
    arrays = [np.asarray(a, np.float64) for a in arrays]
    rng = np.random.default_rng(5)
    weights = rng.standard_normal(fn(*[pf.tensor(a) for a in arrays]).shape)

    def loss(*tensors):
        return (fn(*tensors) * pf.tensor(weights)).sum()

    def gradients(f, values, create_graph=False):
        tensors = [pf.tensor(a, requires_grad=True) for a in values]
        out = f(*tensors)
        if not out.requires_grad:
            return [np.zeros_like(a) for a in values]
        got = pf.autograd.grad(out, tensors, allow_unused=True, create_graph=create_graph)
        return [np.zeros_like(a) if g is None else g.cpu().numpy() for a, g in zip(values, got)]

    def numeric(f, values):
        out = []
        for k, a in enumerate(values):
            g = np.zeros_like(a)
            for i in np.ndindex(a.shape):
                ends = []
                for sign in (eps, -eps):
                    moved = [v.copy() for v in values]
                    moved[k][i] += sign
                    ends.append(float(f(*[pf.tensor(v, requires_grad=True) for v in moved])))
                g[i] = (ends[0] - ends[1]) / (2 * eps)
            out.append(g)
        return out

    def compare(f):
        for got, want in zip(gradients(f, arrays), numeric(f, arrays)):
            scale = max(1.0, np.abs(want).max(initial=0))
            np.testing.assert_allclose(got, want, atol=tol * scale, rtol=0)

    compare(loss)
    if not second:
        return
    shakes = [rng.standard_normal(a.shape) for a in arrays]

    def inner(*tensors):
        got = pf.autograd.grad(loss(*tensors), tensors, allow_unused=True, create_graph=True)
        total = pf.zeros((), dtype=pf.float64)
        for g, s in zip(got, shakes):
            if g is not None:
                total = total + (g * g * pf.tensor(s)).sum()
        return total

    compare(inner)
