"""torch._higher_order_ops.associative_scan: the scan of an associative function."""

from .... import _C, _ops
from ....func import vmap
from ....utils._pytree import tree_flatten, tree_unflatten


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """All of combine_fn(...combine_fn(x0, x1)..., xi) along a dimension, in log2(size) calls.

    xs: a tensor or a tree of tensors with the same size of `dim`. combine_fn(a, b): of two such trees, one.
    "pointwise": it is called with many elements of `dim` at a time; "generic": as if with one, without `dim`.
    """
    leaves, spec = tree_flatten(xs)
    sizes = {t.shape[dim] for t in leaves}
    if combine_mode not in ("pointwise", "generic") or len(sizes) != 1:
        raise _C.ValueError(
            f"torch.associative_scan: got combine_mode={combine_mode!r} and sizes {sorted(sizes)} of "
            f"dimension {dim}; expected 'pointwise' or 'generic', and tensors with one size of it"
        )
    if combine_mode == "generic":
        combine_fn = vmap(combine_fn)
    (n,) = sizes
    leaves = [t.movedim(dim, 0) for t in leaves]
    if reverse:
        leaves = [t.flip(0) for t in leaves]
    step = 1
    while step < n:
        both = [[t[: n - step] for t in leaves], [t[step:] for t in leaves]]
        made, _ = tree_flatten(combine_fn(*(tree_unflatten(part, spec) for part in both)))
        leaves = [_ops.cat([t[:step], m]) for t, m in zip(leaves, made)]
        step *= 2
    if reverse:
        leaves = [t.flip(0) for t in leaves]
    return tree_unflatten([t.movedim(0, dim) for t in leaves], spec)
