"""Operations over lists of tensors: torch._foreach_add and its like.

`_foreach_NAME(tensors, ...)` gives a list of `NAME(tensor, ...)`, and with _ at the end of the name it
writes the results into the tensors. What stands beside the list is one for all, or a list with one
for each. They run one after the other; the optimizers have kernels over all parameters.
"""

import functools

from . import _C

_UNARY = (
    "abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero"
).split()
_BINARY = "add sub mul div pow maximum minimum clamp_max clamp_min copy lerp".split()
_NAMES = {*_UNARY, *_BINARY, "addcdiv", "addcmul", "norm", "max"}


def named(name):
    """The function torch.`name`, such as _foreach_add_; AttributeError where there is none."""
    plain = name.removeprefix("_foreach_")
    inplace = plain.endswith("_")
    plain = plain.rstrip("_")
    never = plain in (("norm", "max", "clone") if inplace else ("zero",))
    if plain not in _NAMES or never:
        raise AttributeError(name)
    return _made(plain, inplace)


def _each(values, i):
    """What the i-th tensor has beside it."""
    if isinstance(values, (list, tuple)):
        return values[i]
    return values


def _method(plain, inplace):
    if plain in ("maximum", "minimum") and inplace:
        largest = "clamp_min_" if plain == "maximum" else "clamp_max_"
        return getattr(_C.Tensor, largest)
    if plain in ("copy", "zero"):
        return getattr(_C.Tensor, plain + "_")
    if plain == "norm":
        from . import linalg

        return lambda t, ord=2, dtype=None: linalg.vector_norm(t, ord, dtype=dtype)
    return getattr(_C.Tensor, plain + ("_" if inplace else ""))


@functools.cache
def _made(plain, inplace):
    call = _method(plain, inplace)
    copies = plain == "copy" and not inplace

    def foreach(self, *args, **kwargs):
        tensors = list(self)
        for values in args:
            if isinstance(values, (list, tuple)) and len(values) != len(tensors):
                raise _C.ValueError(
                    f"pf.{foreach.__name__}: got {len(tensors)} tensors and a list of {len(values)} "
                    "beside them; expected as many"
                )
        results = []
        for i, t in enumerate(tensors):
            mine = [_each(a, i) for a in args]
            if plain in ("addcdiv", "addcmul") and len(mine) == 3:
                value = mine.pop()
                results.append(call(t, *mine, value=value))
                continue
            named = {k: _each(v, i) for k, v in kwargs.items()}
            if plain in ("add", "sub") and isinstance(mine[-1] if mine else None, list):
                mine[-1] = mine[-1][i]
            results.append(call(t.clone() if copies else t, *mine, **named))
        return None if inplace else results

    foreach.__name__ = foreach.__qualname__ = f"_foreach_{plain}{'_' if inplace else ''}"
    foreach.__doc__ = f"{plain} of each tensor of a list" + (
        ", in place." if inplace else ", as a list."
    )
    return foreach
