"""Weights by norm and direction, of spectral norm 1, orthogonal: parametrizations of torch.nn.utils."""

from ... import _ops, linalg
from ..._named_errors import name_errors as _name_errors
from ...autograd import no_grad
from ..module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except(v, dim):
    """The norm of v over all dimensions but one, which keeps its size; over all with dim -1."""
    if dim == -1:
        return v.norm()
    dims = [d for d in range(v.dim()) if d != dim % v.dim()]
    return _ops.norm(v, 2, dims, True) if dims else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """`name` as a norm for each entry of dimension `dim` (one for all with None) times a direction."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def old_names(state_dict, prefix, *rest):
        g, v = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if g in state_dict and v in state_dict:
            state_dict[f"{prefix}parametrizations.{name}.original0"] = state_dict.pop(g)
            state_dict[f"{prefix}parametrizations.{name}.original1"] = state_dict.pop(v)

    module._register_load_state_dict_pre_hook(old_names)
    return module


# ---- spectral norm -------------------------------------------------------------------------------


def as_matrix(weight, dim):
    """Dimension `dim` as rows, all else as columns."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.shape[0], -1)


def unit(x, eps):
    return _ops.normalize(x, dim=0, eps=eps)


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError(
                f"pf.nn.utils.spectral_norm: got n_power_iterations {n_power_iterations}; expected at "
                "least 1"
            )
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.dim() > 1:
            with no_grad():
                matrix = as_matrix(weight.detach(), self.dim)
                new = {"dtype": matrix.dtype, "device": matrix.device}
                self.register_buffer("_u", unit(_ops.randn(matrix.shape[0], **new), eps))
                self.register_buffer("_v", unit(_ops.randn(matrix.shape[1], **new), eps))
                self._iterate(matrix, 15)

    def _iterate(self, matrix, times):
        with no_grad():
            matrix = matrix.detach()
            for _ in range(times):
                self._u.copy_(unit(matrix.mv(self._v), self.eps))
                self._v.copy_(unit(matrix.t().mv(self._u), self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return _ops.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next step changes them
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value):
        return value


def default_dim(module):
    """The dimension of outputs: 1 for transposed convolutions, else 0."""
    return 1 if type(module).__name__.startswith(("ConvTranspose", "ParametrizedConvTrans")) else 0


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """`name` divided by its largest singular value, which power iterations follow during training."""
    weight = getattr(module, name, None)
    if weight is None:
        raise ValueError(f"pf.nn.utils.spectral_norm: {type(module).__name__} has no '{name}'")
    dim = default_dim(module) if dim is None else dim
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps)
    )


# ---- orthogonal matrices -------------------------------------------------------------------------


def _exp(a):
    """The exponential of square matrices: a Taylor series of what is small, squared."""
    size = a.detach().abs().sum(-2).max().item() if a.numel() else 0.0
    squarings = 0
    while size > 0.5 and squarings < 60:
        size, squarings = size / 2, squarings + 1
    a = a / 2**squarings
    result = term = _ops.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    for k in range(1, 19):
        term = term @ a / k
        result = result + term
    for _ in range(squarings):
        result = result @ result
    return result


def _householder_product(vectors, tau):
    """(I - tau_1 v_1 v_1') (I - tau_2 v_2 v_2') ... [..., rows, columns]; v_i is 0 above row i, 1 in
    it, and column i of `vectors` below."""
    rows, columns = vectors.shape[-2:]
    eye = _ops.eye(rows, columns, dtype=vectors.dtype, device=vectors.device)
    q = eye.expand(vectors.shape)
    v = vectors.tril(-1) + eye
    for i in reversed(range(columns)):
        column = v[..., i : i + 1]
        q = q - tau[..., i : i + 1].unsqueeze(-1) * column * (column.transpose(-2, -1) @ q)
    return q


def _orthonormal(a):
    """The Q of a = Q R whose R has a positive diagonal: columns made orthogonal one by one."""
    columns = []
    for i in range(a.shape[-1]):
        c = a[..., i]
        for _ in range(2):  # what rounding left goes with the second time
            for q in columns:
                c = c - (c * q).sum(-1, keepdim=True) * q
        columns.append(c / c.norm(2, -1, True))
    return _ops.stack(columns, -1)


def _reflections(q):
    """Vectors below the diagonal and signs on it whose Householder product, its columns times the
    signs, is the orthonormal q."""
    rows, columns = q.shape[-2:]
    rest, parts, signs = q.clone(), [], []
    for i in range(columns):
        x = rest[..., i:, i]
        size = x.norm(2, -1)
        sign = _ops.where(x[..., 0] >= 0, 1.0, -1.0).to(q.dtype)
        first = x[..., 0] + sign * size  # not 0: no cancellation
        v = _ops.cat([_ops.ones_like(x[..., :1]), x[..., 1:] / first.unsqueeze(-1)], -1)
        tau = 2 / (v * v).sum(-1)
        below = rest[..., i:, :]
        product = v.unsqueeze(-2) @ below
        moved = below - (tau.unsqueeze(-1) * v).unsqueeze(-1) * product
        rest = _ops.cat([rest[..., :i, :], moved], -2)
        parts.append(_ops.pad(v[..., 1:], (i + 1, 0)))
        signs.append(-sign)
    return _ops.stack(parts, -1), _ops.stack(signs, -1)


class _Orthogonal(Module):
    def __init__(self, weight, orthogonal_map, use_trivialization):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("pf.nn.utils.orthogonal: 'householder' is for real matrices")
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)
        self.shape = weight.shape

    def forward(self, x):
        n, k = x.shape[-2:]
        turned = n < k
        if turned:
            x = x.transpose(-2, -1)
            n, k = k, n
        if self.orthogonal_map == "householder":
            a = x.tril(-1)
            tau = 2.0 / (1.0 + (a * a).sum(-2))
            q = _householder_product(a, tau)
            q = q * x.diagonal(dim1=-2, dim2=-1).sign().detach().unsqueeze(-2)
        else:
            a = x.tril()
            if n != k:  # a square matrix whose first columns are wanted
                a = _ops.cat([a, _ops.zeros((*a.shape[:-2], n, n - k), dtype=a.dtype,
                                            device=a.device)], -1)  # fmt: skip
            a = a - a.transpose(-2, -1)
            if self.orthogonal_map == "matrix_exp":
                q = _exp(a)
            else:
                eye = _ops.eye(n, dtype=a.dtype, device=a.device)
                q = linalg.solve(eye - a / 2, eye + a / 2)
            if n != k:
                q = q[..., :k]
        base = self._buffers.get("base")
        if base is not None:
            q = base @ q
        return q.transpose(-2, -1) if turned else q

    def right_inverse(self, q):
        if q.shape != self.shape:
            raise ValueError(
                f"pf.nn.utils.orthogonal: got a matrix of shape {list(q.shape)}; expected "
                f"{list(self.shape)}"
            )
        turned = q.shape[-2] < q.shape[-1]
        if turned:
            q = q.transpose(-2, -1)
        n, k = q.shape[-2:]
        q = _orthonormal(q.detach())
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "pf.nn.utils.orthogonal: without use_trivialization a matrix can be assigned with "
                    "orthogonal_map 'householder' alone"
                )
            vectors, signs = _reflections(q)
            x = vectors.tril(-1) + _ops.diag_embed(signs) if n == k else self._tall(vectors, signs)
            return x.transpose(-2, -1) if turned else x
        if n == k:
            base = q
        else:  # any orthonormal columns behind those of q
            more = _ops.randn((*q.shape[:-2], n, n - k), dtype=q.dtype, device=q.device)
            base = _orthonormal(_ops.cat([q, more], -1))
        self._buffers["base"] = base
        # What all maps make the identity of.
        x = -_ops.eye(n, k, dtype=q.dtype, device=q.device).expand(q.shape)
        return (x.transpose(-2, -1) if turned else x).contiguous()

    @staticmethod
    def _tall(vectors, signs):
        n, k = vectors.shape[-2:]
        return vectors.tril(-1) + _ops.pad(_ops.diag_embed(signs), (0, 0, 0, n - k))


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """`name` with orthonormal rows or columns, whichever are fewer.

    orthogonal_map: "matrix_exp" (of a skew-symmetric matrix; for square ones by default), "cayley" or
    "householder" (for others). With use_trivialization the map is taken around the matrix that was
    last assigned, at the start the one made orthogonal.
    """
    weight = getattr(module, name, None)
    if weight is None:
        raise ValueError(f"pf.nn.utils.orthogonal: {type(module).__name__} has no '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"pf.nn.utils.orthogonal: got '{name}' of shape {list(weight.shape)}; expected a matrix"
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f"pf.nn.utils.orthogonal: got orthogonal_map {orthogonal_map!r}; expected 'matrix_exp', "
            "'cayley' or 'householder'"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


_name_errors(__name__)
