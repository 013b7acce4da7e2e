"""vmap: a function of one sample over all samples of a batch at once."""

import functools

from .. import _C
from .._grad_mode import no_grad
from ..utils._pytree import _kind, tree_flatten, tree_unflatten

Tensor = _C.Tensor


def _name(func):
    return getattr(func, "__name__", type(func).__name__)


def _spread(prefix, spec):
    """A value for each leaf of a tree: `prefix` is built alike, or ends early. None: it does not fit."""
    if spec.is_leaf() or prefix is None or isinstance(prefix, int):
        return [prefix] * spec.num_leaves
    kind = _kind(prefix)
    if kind is None:
        return None
    children, context = kind[1][0](prefix)
    rows = (list, tuple)
    alike = kind[0] in rows and isinstance(spec.type, type) and issubclass(spec.type, rows)
    if kind[0] is not spec.type and not alike:
        return None
    if isinstance(prefix, dict):
        if set(context) != set(spec.context):
            return None
        children = [prefix[k] for k in spec.context]
    if len(children) != len(spec.children_specs):
        return None
    out = []
    for c, s in zip(children, spec.children_specs):
        part = _spread(c, s)
        if part is None:
            return None
        out += part
    return out


def _shape(spec):
    """A tree as text, in errors."""
    if spec.is_leaf():
        return "*"
    name = getattr(spec.type, "__name__", spec.type)
    return f"{name}({', '.join(map(_shape, spec.children_specs))})"


def _dims_of_inputs(name, in_dims, args):
    leaves, spec = tree_flatten(args)
    dims = _spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, spec)
    if dims is None:
        raise _C.ValueError(
            f"pf.vmap({name}): got in_dims {in_dims} for {len(args)} inputs of structure {_shape(spec)}; "
            "expected an int or None, or a tuple with one of these for each input (nested as "
            "the inputs are)"
        )
    for i, (x, d) in enumerate(zip(leaves, dims)):
        if d is None:
            continue
        if not isinstance(d, int) or isinstance(d, bool):
            raise _C.ValueError(
                f"pf.vmap({name}): got {d!r} in in_dims; expected an int or None for each input"
            )
        if not isinstance(x, Tensor):
            raise _C.ValueError(
                f"pf.vmap({name}): got in_dim {d} for an input of type {type(x).__name__}; "
                "expected a Tensor; pass None in in_dims for what is the same for all samples"
            )
        if not -x.dim() <= d < x.dim():
            raise _C.ValueError(
                f"pf.vmap({name}): got in_dim {d} for an input of shape {list(x.shape)}; expected "
                f"{-x.dim()} <= in_dim < {x.dim()}"
            )
        dims[i] = d % x.dim()
    return leaves, dims, spec


def _batch_size(name, leaves, dims):
    sizes = {x.shape[d] for x, d in zip(leaves, dims) if d is not None}
    if not sizes:
        raise _C.ValueError(
            f"pf.vmap({name}): got no input to go over; expected at least one Tensor whose in_dim "
            "is not None"
        )
    if len(sizes) > 1:
        shapes = [(list(x.shape), d) for x, d in zip(leaves, dims) if d is not None]
        raise _C.ValueError(
            f"pf.vmap({name}): got inputs of shape and in_dim {shapes}; expected the same size in "
            "each of these dimensions"
        )
    return sizes.pop()


class Level:
    """One vmap that runs: what is hidden in it, and how it comes out."""

    def __init__(self, size, randomness="error"):
        self.size, self.randomness = size, randomness

    def __enter__(self):
        self.id = _C._vmap_begin(self.size, self.randomness)
        return self

    def __exit__(self, *unused):
        _C._vmap_end()

    def hide(self, x, dim):
        return x if dim is None else _C._hide(x, dim, self.id)

    def hidden_in(self, x):
        return any(level == self.id for level, _ in _C._hidden_levels(x))

    def show(self, x, dim=0):
        return _C._show(x, dim, self.id, self.size)


def _out(level, name, x, dim):
    if not isinstance(x, Tensor):
        raise _C.ValueError(
            f"pf.vmap({name}): got a result of type {type(x).__name__}; expected Tensors only"
        )
    if dim is None:
        if level.hidden_in(x):
            raise _C.ValueError(
                f"pf.vmap({name}): got out_dim None for a result that differs from sample to "
                "sample; expected an int: where its samples go"
            )
        return x
    if not isinstance(dim, int) or not -x.dim() - 1 <= dim <= x.dim():
        raise _C.ValueError(
            f"pf.vmap({name}): got out_dim {dim!r} for a result of shape {list(x.shape)} a sample; "
            f"expected {-x.dim() - 1} <= out_dim <= {x.dim()}, or None"
        )
    return level.show(x, dim)


def _run(func, name, size, leaves, dims, spec, out_dims, randomness, kwargs):
    with Level(size, randomness) as level:
        args = tree_unflatten([level.hide(x, d) for x, d in zip(leaves, dims)], spec)
        results, out_spec = tree_flatten(func(*args, **kwargs))
        wanted = tuple(out_dims) if isinstance(out_dims, list) else out_dims
        if (
            isinstance(wanted, tuple)
            and len(wanted) == 1
            and len(results) == 1
            and out_spec.is_leaf()
        ):
            wanted = wanted[0]
        outs = _spread(wanted, out_spec)
        if outs is None or (isinstance(wanted, tuple) and out_spec.is_leaf()):
            raise _C.ValueError(
                f"pf.vmap({name}): got out_dims {out_dims} for results of structure {_shape(out_spec)}; "
                "expected an int, or a tuple with one for each result"
            )
        shown = [_out(level, name, x, d) for x, d in zip(results, outs)]
    return tree_unflatten(shown, out_spec), outs


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that runs `func`, which is written for one sample, over a batch of samples.

    Within `func` tensors have the shape of one sample; operations run over all samples at once. What
    has no way to do that runs once for each sample (pf.explain says which).

    Args:
        func: takes tensors (also in nested lists, tuples, dicts), gives tensors. It may call
            operations, layers, other transforms of pf.func and itself be one. Values cannot be
            read (item(), if) where they differ from sample to sample.
        in_dims: which dimension of each input has the samples: an int for all, or a structure as
            that of the inputs with ints, and None for inputs that are the same for all, as keyword
            arguments are.
        out_dims: where the results have them: an int, or a structure as that of the results; None
            for results that are the same for all.
        randomness: of random operations: "error", "same" numbers for all samples, or "different".
        chunk_size: so many samples at a time, in place of all.

    Returns: the function of the batch. ValueError when in_dims, out_dims or sizes do not fit.
    """
    if randomness not in ("error", "same", "different"):
        raise _C.ValueError(
            f"pf.vmap: got randomness {randomness!r}; expected 'error', 'same' or 'different'"
        )
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise _C.ValueError(
            f"pf.vmap: got chunk_size {chunk_size!r}; expected a number of samples, at least 1"
        )

    @functools.wraps(func)
    def over_samples(*args, **kwargs):
        name = _name(func)
        leaves, dims, spec = _dims_of_inputs(name, in_dims, args)
        size = _batch_size(name, leaves, dims)
        if chunk_size is None or size <= chunk_size:
            return _run(func, name, size, leaves, dims, spec, out_dims, randomness, kwargs)[0]
        parts, outs = [], None
        for start in range(0, size, chunk_size):
            n = min(chunk_size, size - start)

            def part(x, d, start=start, n=n):
                return x.narrow(d, start, n) if isinstance(x, Tensor) and d is not None else x

            result, outs = _run(
                func,
                name,
                n,
                [part(x, d) for x, d in zip(leaves, dims)],
                dims,
                spec,
                out_dims,
                randomness,
                kwargs,
            )
            flat, out_spec = tree_flatten(result)
            parts.append(flat)
        cat = _C._functions["cat"]
        joined = [p[0] if d is None else cat(list(p), d) for d, p in zip(outs, zip(*parts))]
        return tree_unflatten(joined, out_spec)

    return over_samples


def debug_unwrap(tensor, *, recurse=True):
    """The samples of a tensor inside of vmap, as its first dimensions, to look at while debugging.

    Those of the innermost vmap, or of all of them with `recurse`. Other tensors come back as they are.
    """
    levels = _C._hidden_levels(tensor)
    with no_grad():
        for ident, size in reversed(levels if recurse else levels[-1:]):
            tensor = _C._show(tensor, 0, ident, size)
    return tensor
