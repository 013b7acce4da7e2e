"""A few extreme eigenvalues of large symmetric matrices: LOBPCG (Knyazev, 2001) on an orthonormal
basis of the approximations, the residuals and the last steps (Duersch, Shao, Yang and Gu, 2018)."""

import math

from . import _C, _ops
from ._grad_mode import no_grad
from ._misc import finfo
from ._named_errors import name_errors as _name_errors

_eigh = _C._special["linalg_eigh"]
_NAME = "pf.lobpcg"


class LOBPCG:
    """The state of an iteration, which a tracker gets.

    A, B, iK: the operands; X, E, R, S: the vectors [m, n], their values, residuals, and the basis of the
    next ones. iparams, fparams, bparams: what was given; ivars ("istep", "converged_count"), fvars, bvars
    ("force_stop", which a tracker may set), tvars ("rerr", the relative residuals): what changes.
    """

    def __init__(self, A, B, X, iK, k, niter, tol, largest, method, tracker):  # noqa: N803
        self.A, self.B, self.X, self.iK = A, B, X, iK
        self.E = self.R = self.S = self._steps = None
        self.method, self._tracker = method, tracker
        self.iparams = {"m": X.shape[-2], "n": X.shape[-1], "k": k, "niter": niter}
        self.fparams = {"tol": tol}
        self.bparams = {"largest": largest}
        self.ivars = {"istep": 0, "converged_count": 0}
        self.fvars, self.bvars, self.tvars = {}, {"force_stop": False}, {}

    def _times_b(self, x):
        return x if self.B is None else self.B @ x

    def _against(self, x, basis):
        """x less what it has of orthonormal columns; twice, for the first time rounds."""
        for _ in range(2):
            x = x - basis @ (basis.mH @ self._times_b(x))
        return x

    def _orthonormal(self, x, basis=None):
        """Orthonormal columns, in the product of B, of those that are independent."""
        for _ in range(2):
            if basis is not None:
                x = self._against(x, basis)
            if not x.shape[-1]:
                return x
            size = (x.conj() * self._times_b(x)).sum(0).real.sqrt()
            x = x[:, size > 0] / size[size > 0]
            if not x.shape[-1]:
                return x
            values, vectors = _eigh(x.mH @ self._times_b(x))
            there = values > values[-1] * (x.shape[-1] * finfo(values.dtype).eps)
            x = x @ (vectors[:, there] / values[there].sqrt())
        return x

    def _best(self, basis):
        """Rayleigh and Ritz: the best pairs in the span of an orthonormal basis, and where they are."""
        projected = basis.mH @ (self.A @ basis)
        values, vectors = _eigh((projected + projected.mH) / 2)
        if self.bparams["largest"]:
            values, vectors = values.flip(0), vectors.flip(1)
        n = self.iparams["n"]
        return values[:n], vectors[:, :n]

    def _measure(self):
        ax, bx = self.A @ self.X, self._times_b(self.X)
        self.R = ax - bx * self.E
        sizes = [(t.abs() ** 2).sum(0).sqrt() for t in (self.R, ax, bx)]
        scale = sizes[1] + self.E.abs() * sizes[2]
        error = self.tvars["rerr"] = sizes[0] / _ops.where(scale > 0, scale, 1.0)
        done = 0
        for e in error.tolist():  # the wanted ones come first
            if not e <= self.fparams["tol"]:
                break
            done += 1
        self.ivars["converged_count"] = done

    def _step(self):
        w = self.R if self.iK is None else self.iK @ self.R
        known = self.X
        if self._steps is not None:
            self._steps = self._orthonormal(self._steps, known)
            known = _ops.cat([known, self._steps], 1)
        self.S = _ops.cat([known, self._orthonormal(w, known)], 1)
        n = self.X.shape[-1]
        self.E, where = self._best(self.S)
        x = self.S @ where
        # Against roundings; a step that turns no column into another.
        self.X = 1.5 * x - 0.5 * (x @ (x.mH @ self._times_b(x)))
        self._steps = self.S[:, n:] @ where[n:]

    def run(self):
        """The `k` best values and their vectors."""
        self.X = self._orthonormal(self.X)
        if self.X.shape[-1] < self.iparams["n"]:
            raise _C.ValueError(
                f"{_NAME}: got X with {self.iparams['n']} columns of which {self.X.shape[-1]} are "
                "independent; expected all to be; start from others"
            )
        self.E, where = self._best(self.X)
        self.X = self.X @ where
        while True:
            self._measure()
            if self._tracker is not None:
                self._tracker(self)
            k, niter = self.iparams["k"], self.iparams["niter"]
            if self.bvars["force_stop"] or self.ivars["converged_count"] >= k:
                break
            if 0 <= niter <= self.ivars["istep"]:
                break
            self._step()
            self.ivars["istep"] += 1
        return self.E[:k], self.X[:, :k]


def _differentiable(a, values, vectors):
    """The same pairs as functions of `a`: Rayleigh's quotient, and a step towards the eigenvector, whose
    residual is 0 but for roundings and has a derivative."""
    symmetric = (a + a.mH) / 2
    ax = symmetric @ vectors
    e = (vectors.conj() * ax).sum(-2).real
    with no_grad():
        all_values, basis = _eigh(symmetric.detach())
        gap = all_values.unsqueeze(-1) - values.unsqueeze(-2)
        near = math.sqrt(finfo(values.dtype).eps) * all_values.abs().amax(-1)[..., None, None]
        inverse = _ops.where(gap.abs() > near, 1 / gap, 0.0)
    residual = ax - vectors * e.unsqueeze(-2)
    return e, vectors - basis @ (inverse * (basis.mH @ residual))


def _check(a, b, x, k, n, method):
    if a.dim() < 2 or a.shape[-1] != a.shape[-2] or not (a.is_floating_point() or a.is_complex()):
        raise _C.ShapeError(
            f"{_NAME}: got A of shape {list(a.shape)} and dtype {a.dtype}; expected square matrices of "
            "floats [..., m, m]; correct it"
        )
    m = a.shape[-1]
    for name, t in (("B", b), ("iK", x)):
        if t is not None and tuple(t.shape) != tuple(a.shape):
            raise _C.ShapeError(
                f"{_NAME}: got {name} of shape {list(t.shape)} for A of shape {list(a.shape)}; expected "
                "the same; correct it"
            )
    if not 1 <= k <= n:
        raise _C.ValueError(
            f"{_NAME}: got k {k} for {n} vectors; expected 1 to {n}; give fewer, or a larger n"
        )
    if m < 3 * n:
        raise _C.ValueError(
            f"{_NAME}: got {m} rows for {n} vectors; expected at least three times as many rows; use "
            "linalg.eigh for so small a matrix"
        )
    if method not in ("basic", "ortho"):
        raise _C.ValueError(f"{_NAME}: got method {method!r}; expected 'basic' or 'ortho'")


def lobpcg(
    A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None,  # noqa: N803
    tracker=None, ortho_iparams=None, ortho_fparams=None, ortho_bparams=None,
):  # fmt: skip
    """The `k` largest eigenvalues E [..., k] of A x = e B x, and vectors X [..., m, k] with X^H B X = I.

    A [..., m, m] is symmetric (or Hermitian), B positive definite (None: the identity); both are only
    multiplied with, so a lone matrix may be sparse. m must be at least 3 n.

    Args:
        k: how many; all columns of X by default, or 1.
        X: where to begin, [..., m, n] with n from k on; random by default, of `n` columns (k).
        iK: a preconditioner [..., m, m], near the inverse of A.
        niter: the most iterations (1000); -1: until all `k` have converged.
        tol: the relative residual of a pair that has converged; by default the root of the dtype's eps.
        largest: False for the smallest ones, in ascending order.
        method: "ortho" or "basic", which are one here; so the ortho_ parameters change nothing.
        tracker: called with the :class:`LOBPCG` before each step; may set bvars["force_stop"].

    Gradients flow to a dense A without B. ValueError or ShapeError for arguments that do not fit.
    """
    if X is not None:
        n = X.shape[-1]
    k = (1 if X is None else n) if k is None else k
    n = k if n is None else n
    method = "ortho" if method is None else method
    _check(A, B, iK, k, n, method)
    m = A.shape[-1]
    if X is not None and tuple(X.shape) != (*A.shape[:-1], n):
        raise _C.ShapeError(
            f"{_NAME}: got X of shape {list(X.shape)} for A of shape {list(A.shape)}; expected "
            f"{[*A.shape[:-1], 'n']}; correct it"
        )
    wanted = _C.is_grad_enabled() and any(t is not None and t.requires_grad for t in (A, B, iK, X))
    if wanted and (B is not None or A.is_sparse or A.is_sparse_csr):
        raise _C.NotSupportedError(
            f"{_NAME}: got {'B' if B is not None else 'a sparse A'} and a gradient that is wanted; "
            "expected a dense A without B; detach() it, or use linalg.eigh"
        )
    with no_grad():
        if X is None:
            X = _ops.randn(*A.shape[:-2], m, n, dtype=A.dtype, device=A.device)  # noqa: N806
        tol = math.sqrt(finfo(A.dtype).eps) if tol is None else tol

        def flat(t):
            return [t] if t is None or A.dim() == 2 else list(t.detach().reshape(-1, *t.shape[-2:]))

        a = flat(A)
        b, ik = (flat(t) if t is not None else [None] * len(a) for t in (B, iK))
        pairs = [
            LOBPCG(
                *of, k, 1000 if niter is None else niter, tol, largest is not False, method, tracker
            ).run()
            for of in zip(a, b, flat(X), ik)
        ]
        if A.dim() == 2:
            values, vectors = pairs[0]
        else:
            values = _ops.stack([p[0] for p in pairs]).reshape(*A.shape[:-2], k)
            vectors = _ops.stack([p[1] for p in pairs]).reshape(*A.shape[:-1], k)
    return _differentiable(A, values, vectors) if wanted and A.requires_grad else (values, vectors)


_name_errors(__name__)
