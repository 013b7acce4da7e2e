"""A few extreme eigenvalues beside SciPy's of the whole matrix."""

import numpy as np
import pytest
import scipy.linalg

import pyflame as pf


def symmetric(m, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(m, m)) + (1j * rng.normal(size=(m, m)) if "complex" in dtype else 0)
    return (a + a.conj().T).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("m, k, n", [(60, 3, 5), (90, 1, None), (30, 2, 10)])
@pytest.mark.parametrize("largest", [True, False])
def test_values_and_vectors(dtype, m, k, n, largest):
    a = symmetric(m, dtype)
    values, vectors = pf.lobpcg(pf.tensor(a), k, n=n, largest=largest)
    want = np.linalg.eigvalsh(a)[:: -1 if largest else 1][:k]
    near = 1e-4 if dtype == "float32" else 1e-10
    assert np.allclose(values.cpu().numpy(), want, rtol=near, atol=near)
    v = vectors.cpu().numpy()
    assert v.shape == (m, k) and v.dtype == a.dtype
    assert np.allclose(v.conj().T @ v, np.eye(k), atol=near)
    assert np.abs(a @ v - v * want).max() < (0.02 if dtype == "float32" else 2e-6)


def test_of_two_matrices():
    a, b = symmetric(60), symmetric(60, seed=1)
    b = b @ b + 60 * np.eye(60)
    values, vectors = pf.lobpcg(pf.tensor(a), 3, pf.tensor(b), tol=1e-10, method="basic")
    want = scipy.linalg.eigh(a, b, eigvals_only=True)[::-1][:3]
    v = vectors.cpu().numpy()
    assert np.allclose(values.cpu().numpy(), want) and np.allclose(v.T @ b @ v, np.eye(3))
    assert np.allclose(a @ v, b @ v * want, atol=1e-6)


def test_a_sparse_matrix_with_a_preconditioner_and_a_tracker():
    d, i = pf.arange(1, 2001, dtype=pf.float64), pf.arange(2000)
    a, inverse = (pf.sparse_coo_tensor(pf.stack([i, i]), x, (2000, 2000)) for x in (d, 1 / d))
    steps = []

    def tracker(t):
        assert t.X.shape == (2000, 4) and t.R.shape == (2000, 4) and t.tvars["rerr"].shape == (4,)
        steps.append(t.ivars["istep"])

    values, _ = pf.lobpcg(a, 2, n=4, iK=inverse, largest=False, niter=-1, tracker=tracker)
    assert np.allclose(values.cpu().numpy(), [1, 2]) and steps == list(range(len(steps)))
    assert len(steps) < 60

    def stop(t):
        t.bvars["force_stop"] = t.ivars["istep"] == 2
        steps.append(t.ivars["istep"])

    steps.clear()
    pf.lobpcg(a, 2, tracker=stop)
    pf.lobpcg(a, 2, tracker=lambda t: steps.append(t.ivars["istep"]), niter=1)
    assert steps == [0, 1, 2, 0, 1]


def test_batches_and_starts():
    a = np.stack([symmetric(24, seed=s) for s in range(6)]).reshape(2, 3, 24, 24)
    start = pf.randn(2, 3, 24, 2, dtype=pf.float64)
    values, vectors = pf.lobpcg(pf.tensor(a), X=start)
    assert values.shape == (2, 3, 2) and vectors.shape == (2, 3, 24, 2)
    assert np.allclose(values.cpu().numpy(), np.linalg.eigvalsh(a)[..., :-3:-1])
    exact = pf.eye(9, dtype=pf.float64)  # where nothing is left to improve
    values, _ = pf.lobpcg(exact * 2, X=exact[:, :2].contiguous())
    assert values.tolist() == [2, 2]


def test_gradients():
    start = pf.randn(2, 7, 2, dtype=pf.float64)

    def of(a):
        values, vectors = pf.lobpcg(a + a.mT, 2, X=start, tol=1e-12)
        return values, vectors @ vectors.mT

    a = pf.tensor(np.stack([symmetric(7), symmetric(7, seed=1)]))
    assert pf.autograd.gradcheck(of, (a.requires_grad_(),))


def test_what_is_refused():
    a = pf.eye(12)
    bad = [
        (dict(A=pf.ones(3, 4)), pf.ShapeError, "square"),
        (dict(A=pf.ones(12, 12).long()), pf.ShapeError, "floats"),
        (dict(A=a, k=0), pf.ValueError, "k 0"),
        (dict(A=a, k=5), pf.ValueError, "three times"),
        (dict(A=a, k=3, n=2), pf.ValueError, "k 3"),
        (dict(A=a, B=pf.eye(11)), pf.ShapeError, "B of shape"),
        (dict(A=a, iK=pf.eye(11)), pf.ShapeError, "iK of shape"),
        (dict(A=a, X=pf.ones(11, 2)), pf.ShapeError, "X of shape"),
        (dict(A=a, X=pf.ones(12, 2)), pf.ValueError, "independent"),
        (dict(A=a, method="new"), pf.ValueError, "method"),
        (dict(A=a.clone().requires_grad_(), B=a), pf.NotSupportedError, "gradient"),
    ]
    for arguments, error, says in bad:
        with pytest.raises(error, match=says):
            pf.lobpcg(**arguments)
