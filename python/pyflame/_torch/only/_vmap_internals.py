"""torch._vmap_internals: vmap under the name that older libraries import."""

from ...func import vmap as _over


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    """func.vmap."""
    return _over(func, in_dims, out_dims)


vmap = _vmap
