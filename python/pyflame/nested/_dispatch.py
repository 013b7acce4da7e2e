"""What operations of dense tensors do with nested ones."""

import functools
import math

from .. import _C, _ops
from ..overrides import _name_of
from ._rows import Ragged
from ._tensor import NestedTensor, make, plain, refuse

Tensor = _C.Tensor

# Operations of each element beside those of the table of rows.
_ELEMENTS = """
    absolute alpha_dropout arccos arccosh arcsin arcsinh arctan arctan2 arctanh bernoulli clip clone conj
    contiguous copy data detach digamma divide dropout exponential fill fix float_power greater greater_equal
    i0 imag ldexp less less_equal lgamma masked_fill multiply negative nextafter normal not_equal
    polygamma positive prelu real rrelu rsub sgn subtract true_divide uniform zero
    zeros_like ones_like empty_like full_like rand_like randn_like randint_like
    to type type_as cpu cuda pin_memory float double half bfloat16 long int short char byte bool cfloat
    cdouble requires_grad
""".split()
_WRONG_SIZES = "cannot call binary pointwise function {} with inputs of shapes {} and {}"


@functools.cache
def _elements():
    names = {row["python"] for row in _C._pointwise_rows()} - {""}
    return names | set(_ELEMENTS)


def _is_nested(value):
    return isinstance(value, NestedTensor)


def _each(value):
    """The tensors of arguments, lists looked into."""
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from _each(v)
    else:
        yield value


def _nested_of(args, kwargs):
    return [v for v in _each([*args, *kwargs.values()]) if _is_nested(v)]


# ---- padding ------------------------------------------------------------------------------------


def to_padded(nested, padding, output_size=None):
    """The components beside each other, with `padding` where one has nothing."""
    rows, at = nested._rows, nested._ragged_idx
    width = rows.longest
    values = plain(nested).movedim(at - 1, 0)
    flat = values.new_full((rows.count * width, *values.shape[1:]), padding)
    if rows.total:
        flat = flat.index_copy(0, rows.flat(width), values)
    result = flat.unflatten(0, (rows.count, width)).movedim(1, at)
    if output_size is None:
        return result
    more = [n - s for n, s in zip(output_size, result.shape)]
    if len(output_size) != result.dim() or min(more) < 0:
        raise _C.ShapeError(
            f"pf.nested.to_padded_tensor: got output_size {list(output_size)}; expected at least "
            f"{list(result.shape)}"
        )
    return _ops.pad(result, [n for m in reversed(more) for n in (0, m)], "constant", padding)


def from_padded(padded, like):
    """The elements of a dense tensor [components, at least longest, ...] where `like` has some."""
    rows, at = like._rows, like._ragged_idx
    moved = padded.movedim(at, 1)
    taken = moved.flatten(0, 1).index_select(0, rows.flat(moved.shape[1]))
    return like._with(taken.movedim(0, at - 1))


# ---- element by element -------------------------------------------------------------------------


def _together(name, nested):
    """The first of several nested tensors, which must be alike."""
    first = nested[0]
    for other in nested[1:]:
        alike = (other._ragged_idx, other.dim()) == (first._ragged_idx, first.dim())
        if not alike or not first._rows.same(other._rows):
            raise _C.ShapeError(
                f"pf.{name}: {_WRONG_SIZES.format(name, first._sizes(), other._sizes())}; expected the same "
                "components; make both of the same offsets"
            )
    return first


def _beside(name, dense, nested):
    """A dense tensor as it stands beside the values."""
    if dense.dim() == 0:
        return dense
    at, count = nested._ragged_idx, nested._rows.count
    missing = nested.dim() - dense.dim()
    full = dense[(None,) * missing] if missing > 0 else dense
    if missing >= 0 and full.shape[0] in (1, count):
        if full.shape[at] == 1:
            if full.shape[0] == 1 and (count != 1 or missing):
                return full.squeeze(0)
            return full.squeeze(at).index_select(0, nested._rows.row).movedim(0, at - 1)
        if not missing and full.shape[at] == nested._rows.longest:
            return plain(from_padded(full.expand(count, *full.shape[1:]), nested))
    raise _C.ShapeError(
        f"pf.{name}: {_WRONG_SIZES.format(name, nested._sizes(), tuple(dense.shape))}; expected 1 in the "
        "place of the ragged dimension"
    )


def _values(v):
    return plain(v) if _is_nested(v) else v


def _with_values(func, args, kwargs, value=_values):
    """`func` of what `value` makes of each argument."""
    return func(*map(value, args), **{k: value(v) for k, v in kwargs.items()})


def _elementwise(name, func, args, kwargs):
    first = _together(name, _nested_of(args, kwargs))

    def value(v):
        return (
            _beside(name, v, first) if isinstance(v, Tensor) and not _is_nested(v) else _values(v)
        )

    if name == "copy_" and not _is_nested(args[0]):
        refuse("a nested tensor to be copied into a dense one", "a nested one")
    only_dtype = name in ("to", "type_as")  # the other operand's, which may be the nested one
    result = _with_values(func, args, kwargs, _values if only_dtype else value)
    if only_dtype and not _is_nested(args[0]):
        return result
    if name.endswith("_") and not name.startswith("_") and _is_nested(args[0] if args else None):
        return args[0]
    if not isinstance(result, Tensor):
        return result
    return make(result, first._rows.to(result.device), first._ragged_idx, first._kind)


# ---- reductions ---------------------------------------------------------------------------------

_REDUCTIONS = """
    sum mean amax amin prod any all nansum nanmean count_nonzero max min argmax argmin var std logsumexp
    norm median
""".split()


def _wrapped(result, nested, ragged):
    if isinstance(result, Tensor):
        return nested._with(result, ragged)
    fields = [nested._with(r, ragged) for r in result]
    return type(result)(fields)


def _reduce(name, func, input, *args, **kwargs):
    if args and name == "norm":
        kwargs["p"], args = args[0], args[1:]
    if args:
        kwargs["dim"], args = args[0], args[1:]
    if args:
        kwargs["keepdim"] = args[0]
    dim = kwargs.pop("dim", None)
    values, at = plain(input), input._ragged_idx
    if dim is None:
        return func(values, **kwargs)
    one = isinstance(dim, int)
    dims = sorted({input._dim(d) for d in ([dim] if one else dim)})
    keep = bool(kwargs.get("keepdim", False))
    if 0 in dims:
        if at not in dims:
            refuse(f"{name} over dimension 0 without the ragged one", "both, or another")
        result = func(values, dim=[d - 1 for d in dims if d], **kwargs)
        return result.unsqueeze(0) if keep else result
    if at not in dims:
        inner = [d - 1 for d in dims]
        result = func(values, dim=inner[0] if one else inner, **kwargs)
        return _wrapped(result, input, at if keep else at - sum(d < at for d in dims))
    rows = input._rows
    if name in ("sum", "mean"):
        result = _sum_of_rows(func, values, rows, dims, at, kwargs, name == "mean")
        return result if keep else result.squeeze(dims)
    inner = [d - 1 for d in dims]
    parts = [func(c, dim=inner[0] if one else inner, **kwargs) for c in input.unbind()]
    if isinstance(parts[0], Tensor):
        return _ops.stack(parts)
    return type(parts[0])([_ops.stack(list(column)) for column in zip(*parts)])


def _sum_of_rows(func, values, rows, dims, at, kwargs, mean):
    """Sums over the packed dimension, and others, all kept: each row is added to its component's place."""
    others = [d - 1 for d in dims if d != at]
    dtype = kwargs.get("dtype")
    if others:
        values = func(values, dim=others, keepdim=True, dtype=dtype)
    elif mean and dtype is not None:
        values = values.to(dtype)
    if not mean:
        has_fractions = values.dtype.is_floating_point or values.dtype.is_complex
        values = values.to(dtype or (values.dtype if has_fractions else _C.int64))
    values = values.movedim(at - 1, 0)
    sums = values.new_zeros((rows.count, *values.shape[1:])).index_add(0, rows.row, values)
    if mean:
        sums = sums / rows.lengths.to(sums.dtype).reshape(-1, *[1] * (sums.dim() - 1))
    return sums.unsqueeze(at)


def _softmax(name, func, input, dim=None, *args, **kwargs):
    dim = kwargs.pop("dim", dim)
    if dim is None:
        refuse(f"{name} without a dimension", "one", "pass dim=")
    found = input._dim(dim)
    if found == input._ragged_idx:
        if not input._rows.total:
            return input._with(func(plain(input), found - 1, *args, **kwargs))
        return from_padded(func(to_padded(input, -math.inf), found, *args, **kwargs), input)
    return input._with(func(plain(input), input._inner(dim, name), *args, **kwargs))


# ---- layers -------------------------------------------------------------------------------------


def _last(nested, what, count=1):
    if nested._ragged_idx > nested.dim() - 1 - count:
        refuse(f"{what} over the ragged dimension", "dimensions behind it", "transpose it")


def _linear(name, func, input, weight, bias=None):
    if not _is_nested(input) or _is_nested(weight) or _is_nested(bias):
        refuse("a nested weight", "a nested input alone")
    _last(input, name)
    return input._with(func(plain(input), weight, bias))


def _norm(name, func, input, normalized_shape, *args, **kwargs):
    _last(input, name, len(normalized_shape))
    return input._with(func(plain(input), normalized_shape, *args, **kwargs))


def _embedding(name, func, *args, **kwargs):
    return _nested_of(args, kwargs)[0]._with(_with_values(func, args, kwargs))


def _matmul(name, func, a, b):
    if _is_nested(a) and not _is_nested(b) and b.dim() <= 2 and a.dim() > 2:
        _last(a, name)
        return a._with(func(plain(a), b))
    count = (a if _is_nested(a) else b)._rows.count
    if (
        a.dim() != b.dim()
        or a.dim() < 3
        or any(not _is_nested(t) and t.shape[0] != count for t in (a, b))
    ):
        refuse(
            f"{name} of {a.dim()} and {b.dim()} dimensions",
            "a nested tensor and a matrix, or as many components and dimensions in both",
        )
    n = a.dim()
    rows = _is_nested(a) and a._ragged_idx == n - 2
    columns = _is_nested(b) and b._ragged_idx == n - 1
    summed = [t for t, d in ((a, n - 1), (b, n - 2)) if _is_nested(t) and t._ragged_idx == d]
    nested = [t for t in (a, b) if _is_nested(t)]
    if (rows and columns) or any(t._ragged_idx < n - 2 for t in nested) or len(summed) == 1:
        refuse(
            f"{name} whose result would be ragged in two dimensions, or that sums over one which is ragged "
            "in one operand alone, or differs in the batch", "one ragged dimension of the result",
        )  # fmt: skip
    if len(summed) == 2 and not a._rows.same(b._rows):
        raise _C.ShapeError(f"pf.{name}: got components of different lengths; expected the same")
    parts = [_ops.matmul(x, y) for x, y in zip(a.unbind(), b.unbind())]
    if rows or columns:
        source, at = (a, n - 2) if rows else (b, n - 1)
        return source._with(_ops.cat(parts, at - 1), at)
    return _ops.stack(parts)


def _attention(
    name, func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
    enable_gqa=False,
):  # fmt: skip
    """Of [components, heads, j, E] each, or [components, j, E]."""
    if attn_mask is not None or not all(map(_is_nested, (query, key, value))):
        refuse(
            "a mask, or a dense operand, beside nested tensors in scaled_dot_product_attention",
            "nested query, key and value without a mask",
        )
    n = query.dim()
    if any(t.dim() != n or t._ragged_idx != n - 2 for t in (query, key, value)) or n not in (3, 4):
        refuse(
            f"operands of {[t._sizes() for t in (query, key, value)]} in scaled_dot_product_attention",
            "[components, heads, lengths, E]", "transpose(1, 2)",
        )  # fmt: skip
    if not key._rows.same(value._rows):
        raise _C.ShapeError(
            f"pf.{name}: got keys and values of different lengths; expected the same"
        )
    q, k, v = (plain(t) if n == 4 else plain(t).unsqueeze(0) for t in (query, key, value))
    mine, theirs = query._rows, key._rows
    out, _ = _ops.flash_attention(
        q, k, v, dropout_p=dropout_p, scale=scale, right=0 if is_causal else -1, enable_gqa=enable_gqa,
        cu_seqlens_q=mine.starts, cu_seqlens_k=theirs.starts, max_seqlen_q=mine.longest,
        max_seqlen_k=theirs.longest,
    )  # fmt: skip
    return query._with(out if n == 4 else out.squeeze(0))


# ---- dimensions ---------------------------------------------------------------------------------


def _transpose(name, func, input, dim0, dim1):
    a, b = input._dim(dim0), input._dim(dim1)
    if 0 in (a, b) and a != b:
        refuse("transpose of dimension 0", "others")
    at = {a: b, b: a}.get(input._ragged_idx, input._ragged_idx)
    return input._with(plain(input).transpose(max(a, 1) - 1, max(b, 1) - 1), at)


def _permute(name, func, input, *dims):
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [input._dim(d) for d in dims]
    if sorted(order) != list(range(input.dim())) or order[0] != 0:
        refuse(f"permute to {list(dims)}", "each dimension once, 0 the first")
    return input._with(
        plain(input).permute([d - 1 for d in order[1:]]), order.index(input._ragged_idx)
    )


def _unsqueeze(name, func, input, dim):
    n = input.dim() + 1
    at = dim % n if -n <= dim < n else -1
    if at < 1:
        refuse(f"unsqueeze at dimension {dim}", f"1 to {n - 1}")
    return input._with(
        plain(input).unsqueeze(at - 1), input._ragged_idx + (at <= input._ragged_idx)
    )


def _squeeze(name, func, input, dim):
    at = input._inner(dim, name)
    values = plain(input)
    if values.shape[at] != 1:
        return input
    return input._with(values.squeeze(at), input._ragged_idx - (at + 1 < input._ragged_idx))


def _component(input, index):
    count = input._rows.count
    if not -count <= index < count:
        raise _C.IndexError(
            f"pf.nested: got component {index} of {count}; expected {-count} to {count - 1}"
        )
    host = input._rows.host
    return plain(input).narrow(
        input._ragged_idx - 1, host[index % count], input._rows.host_lengths[index]
    )


def _select(name, func, input, dim, index):
    if input._dim(dim) == 0:
        return _component(input, index)
    at = input._inner(dim, name)
    return input._with(
        plain(input).select(at, index), input._ragged_idx - (at + 1 < input._ragged_idx)
    )


def _getitem(name, func, input, key):
    key = key if isinstance(key, tuple) else (key,)
    if Ellipsis in [k for k in key if not isinstance(k, Tensor)]:
        at = next(i for i, k in enumerate(key) if k is Ellipsis)
        used = sum(k is not None for k in key) - 1
        key = key[:at] + (slice(None),) * (input.dim() - used) + key[at + 1 :]
    first, *rest = key or (slice(None),)
    if isinstance(first, int):
        found = _component(input, first)
        return found[tuple(rest)] if rest else found
    place, ragged, whole = 1, input._ragged_idx, slice(None)
    basic = all(k is None or isinstance(k, (int, slice)) for k in rest) and first == whole
    for k in rest if basic else ():
        if k is None:
            ragged += place <= input._ragged_idx
        elif place == input._ragged_idx and k != whole:
            basic = False
        else:
            ragged -= isinstance(k, int) and place < input._ragged_idx
        place += k is not None
    if not basic:
        refuse(
            f"the index {list(key)}",
            "a component's number, or slices and numbers behind the ragged dimension",
        )
    return input._with(plain(input)[tuple(rest)], ragged) if rest else input


def _along(name, func, input, *args, **kwargs):
    """split, chunk, narrow: parts along a dimension that is the same in all components."""
    names = ("dim", "start", "length") if name == "narrow" else ("sizes", "dim")
    given = dict(zip(names, args))
    given |= {
        "sizes" if k in ("split_size_or_sections", "split_size", "chunks") else k: v
        for k, v in kwargs.items()
    }
    at = input._inner(given.get("dim", 0), name)
    if name == "narrow":
        return input._with(plain(input).narrow(at, given["start"], given["length"]))
    return tuple(map(input._with, func(plain(input), given["sizes"], at)))


def _joined(name, func, tensors, dim=0):
    first = _together(name, [t for t in tensors if _is_nested(t)])
    if not all(map(_is_nested, tensors)):
        refuse(f"a dense tensor in {name}", "nested ones")
    if name == "stack":
        at = dim % (first.dim() + 1)
        if at == 0:
            refuse("stack along dimension 0", "another")
        values = _ops.stack([plain(t) for t in tensors], at - 1)
        return first._with(values, first._ragged_idx + (at <= first._ragged_idx))
    return first._with(_ops.cat([plain(t) for t in tensors], first._inner(dim, name)))


def _view(name, func, input, *shape, **kwargs):
    shape = kwargs.get("shape", kwargs.get("size", shape))
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = shape[0]
    sizes, at = input._sizes(), input._ragged_idx
    head = list(shape[: at + 1])
    fits = len(head) == at + 1 and all(
        s == old or (s == -1 and (isinstance(old, Ragged) or i == 0))
        for i, (s, old) in enumerate(zip(head, sizes))
    )
    if not fits or any(isinstance(s, Ragged) for s in shape[at + 1 :]):
        refuse(
            f"{name} to {tuple(shape)} from {sizes}", "the dimensions up to the ragged one as they are",
            "transpose it to the front",
        )  # fmt: skip
    values = plain(input)
    return input._with(func(values, (*values.shape[:at], *shape[at + 1 :])))


def _unflatten(name, func, input, dim, sizes):
    at = input._inner(dim, name)
    more = len(sizes) - 1 if at + 1 < input._ragged_idx else 0
    return input._with(plain(input).unflatten(at, sizes), input._ragged_idx + more)


def _flatten(name, func, input, start_dim=0, end_dim=-1):
    a, b = input._dim(start_dim), input._dim(end_dim)
    if a == 0 or a <= input._ragged_idx <= b:
        if a == b:
            return input
        refuse(f"flatten of dimensions {a} to {b}", "those on one side of the ragged one")
    less = b - a if b < input._ragged_idx else 0
    return input._with(plain(input).flatten(a - 1, b - 1), input._ragged_idx - less)


# ---- the rest -----------------------------------------------------------------------------------


def _equal(name, func, a, b):
    same = (
        _is_nested(a) and _is_nested(b) and a._ragged_idx == b._ragged_idx and a._rows.same(b._rows)
    )
    return same and _ops.equal(plain(a), plain(b))


def _new(name, func, input, *args, **kwargs):
    return func(plain(input), *args, **kwargs)


def _expand_as(name, func, input, other):
    dense = input if not _is_nested(input) else plain(input)
    if _is_nested(input) or not _is_nested(other):
        refuse("expand_as of a nested tensor", "a dense one")
    shaped = _beside(name, dense, other).expand(Tensor.size(other))
    return other._with(shaped)


_TABLE = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "_softmax"), _softmax),
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
    **dict.fromkeys(("matmul", "bmm"), _matmul),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transpose),
    **dict.fromkeys(("split", "chunk", "narrow", "tensor_split"), _along),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack"), _joined),
    **dict.fromkeys(("view", "reshape"), _view),
    **dict.fromkeys(("embedding", "one_hot"), _embedding),
    **dict.fromkeys(
        ("new_zeros", "new_ones", "new_full", "new_empty", "is_floating_point", "is_complex", "item", "numel"),
        _new,
    ),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "linear": _linear, "scaled_dot_product_attention": _attention, "permute": _permute,
    "unsqueeze": _unsqueeze, "squeeze": _squeeze, "select": _select, "__getitem__": _getitem,
    "unflatten": _unflatten, "flatten": _flatten, "equal": _equal, "expand_as": _expand_as,
}  # fmt: skip


def call(func, args, kwargs):
    """What `func`, an operation of dense tensors, does with nested ones among its arguments."""
    name = _name_of(func)
    if name in ("max", "min") and any(isinstance(v, Tensor) for v in args[1:]):
        return _elementwise(name, func, args, kwargs)
    if found := _TABLE.get(name):
        if "input" in kwargs and not args:
            kwargs = dict(kwargs)
            args = (kwargs.pop("input"),)
        return found(name, func, *args, **kwargs)
    plain_name = name[:-1] if name.endswith("_") and not name.startswith("_") else name
    if name in _elements() or plain_name in _elements():
        return _elementwise(name, func, args, kwargs)
    first = args[0] if args else None
    if _is_nested(first) and (method := NestedTensor.__dict__.get(name)) and callable(method):
        return method(*args, **kwargs)
    refuse(f"a nested tensor in pf.{name}", "what is said in docs/nested.md")
