"""Decompositions of low rank by random projections (Halko, Martinsson and Tropp, 2009)."""

from . import _C
from ._named_errors import name_errors as _name_errors

_qr = _C._special["linalg_qr"]
_svd = _C._special["linalg_svd"]


def _range(a, q, niter):
    """Orthonormal columns [..., m, q] whose span holds most of A's."""
    random = _C._functions["randn"](a.shape[-1], q, dtype=a.dtype, device=a.device)
    basis = _qr(a @ random).Q
    for _ in range(niter):
        basis = _qr(a.mH @ basis).Q
        basis = _qr(a @ basis).Q
    return basis


@_C._asking
def svd_lowrank(A, q=6, niter=2, M=None):  # noqa: N803 (PyTorch's names)
    """U [..., m, q], S [..., q] and V [..., n, q] with U diag(S) V^H close to A - M [..., m, n].

    q: how many singular values, a little more than are wanted; niter: iterations of the subspace.
    """
    if not 0 < q <= min(A.shape[-2:]):
        raise _C.ValueError(
            f"pf.svd_lowrank: got q {q} for shape {list(A.shape)}; expected 1 to "
            f"{min(A.shape[-2:])}; correct it"
        )
    if niter < 0:
        raise _C.ValueError(f"pf.svd_lowrank: got niter {niter}; expected at least 0; correct it")
    a = A if M is None else A - M
    if a.shape[-2] < a.shape[-1]:
        v, s, u = svd_lowrank(a.mH, q, niter)
        return u, s, v
    basis = _range(a, q, niter)
    u, s, vh = _svd(basis.mH @ a, full_matrices=False)
    return basis @ u, s, vh.mH


@_C._asking
def pca_lowrank(A, q=None, center=True, niter=2):  # noqa: N803 (PyTorch's names)
    """svd_lowrank of the rows of A [..., m, n] less their mean (center): the columns of V are the
    principal directions. q is min(6, m, n) by default.
    """
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


_name_errors(__name__)
