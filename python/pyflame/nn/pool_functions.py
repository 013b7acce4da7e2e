"""Pooling as torch.nn.functional has it: `return_indices`, sizes that stay, windows at random places,
and what is made of other operations. All become names of nn.functional.
"""

import math

from .. import _ops
from .._named_errors import name_errors as _name_errors

__all__ = []


def _list(value):
    return [] if value is None else value


def _each(value, dims, name, what):
    """One whole number for each dimension."""
    values = [value] * dims if isinstance(value, int) else list(value)
    if len(values) != dims:
        raise ValueError(f"pf.{name}: got {what} {value!r}; expected one number, or {dims}")
    return values


def _export(fn, name, doc):
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    fn.__module__ = "pyflame.nn.functional"
    globals()[name] = fn
    __all__.append(name)


def _make_max(dims):
    alone = getattr(_ops, f"max_pool{dims}d")
    both = getattr(_ops, f"max_pool{dims}d_with_indices")

    def max_pool(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False,
    ):  # fmt: skip
        op = both if return_indices else alone
        return op(input, kernel_size, _list(stride), padding, dilation, ceil_mode)

    def with_indices(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False,
    ):  # fmt: skip
        return both(input, kernel_size, _list(stride), padding, dilation, ceil_mode)

    text = alone.__doc__ + " With return_indices also their places, as int64."
    _export(max_pool, f"max_pool{dims}d", text)
    _export(with_indices, f"max_pool{dims}d_with_indices", both.__doc__)


def _make_average(dims):
    op = getattr(_ops, f"avg_pool{dims}d")
    if dims == 1:

        def avg_pool(
            input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
        ):
            return op(input, kernel_size, _list(stride), padding, ceil_mode, count_include_pad)
    else:

        def avg_pool(
            input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
            divisor_override=None, *, out=None,
        ):  # fmt: skip
            return op(
                input, kernel_size, _list(stride), padding, ceil_mode, count_include_pad,
                divisor_override, out=out,
            )  # fmt: skip

    _export(avg_pool, f"avg_pool{dims}d", op.__doc__)


def _make_adaptive(dims):
    average = getattr(_ops, f"adaptive_avg_pool{dims}d")
    largest = getattr(_ops, f"adaptive_max_pool{dims}d")

    def size_of(input, output_size, name):
        # None: the size stays.
        if output_size is None or isinstance(output_size, int):
            output_size = [output_size] * dims
        if len(output_size) != dims or input.dim() < dims:
            raise ValueError(
                f"pf.{name}: got output_size {output_size!r} for input of shape "
                f"{tuple(input.shape)}; expected one number, or {dims}"
            )
        return [s if o is None else o for o, s in zip(output_size, input.shape[-dims:])]

    def adaptive_avg_pool(input, output_size):
        return average(input, size_of(input, output_size, f"adaptive_avg_pool{dims}d"))

    def adaptive_max_pool(input, output_size, return_indices=False):
        values, places = largest(input, size_of(input, output_size, f"adaptive_max_pool{dims}d"))
        return (values, places) if return_indices else values

    def with_indices(input, output_size, return_indices=False):
        return adaptive_max_pool(input, output_size, True)

    none = " None for a size keeps it."
    _export(adaptive_avg_pool, f"adaptive_avg_pool{dims}d", average.__doc__ + none)
    _export(adaptive_max_pool, f"adaptive_max_pool{dims}d", largest.__doc__ + none)
    _export(
        with_indices,
        f"adaptive_max_pool{dims}d_with_indices",
        f"adaptive_max_pool{dims}d with return_indices=True.",
    )


def _make_unpool(dims):
    name = f"max_unpool{dims}d"

    def max_unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel = _each(kernel_size, dims, name, "kernel_size")
        steps = kernel if stride is None else _each(stride, dims, name, "stride")
        around = _each(padding, dims, name, "padding")
        space = input.shape[-dims:]
        sizes = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(space, steps, around, kernel)]
        if output_size is not None:
            asked = list(output_size)[-dims:]
            fits = len(asked) == dims and all(
                abs(a - n) < s for a, n, s in zip(asked, sizes, steps)
            )
            if not fits:
                raise ValueError(
                    f"pf.{name}: got output_size {tuple(output_size)}; expected each less than a "
                    f"stride {tuple(steps)} away from {tuple(sizes)}"
                )
            sizes = asked
        if indices.shape != input.shape or input.dim() not in (dims + 1, dims + 2):
            raise ValueError(
                f"pf.{name}: got input of shape {tuple(input.shape)} and indices of shape "
                f"{tuple(indices.shape)}; expected [N, C, ...] or [C, ...] of both alike"
            )
        if min(sizes) < 1:
            raise ValueError(
                f"pf.{name}: the result would have shape {tuple(sizes)}; expected 1 or more"
            )
        first = input.dim() - dims
        count = 1
        for n in sizes:
            count *= n
        flat = _ops.zeros((*input.shape[:first], count), dtype=input.dtype, device=input.device)
        flat = flat.scatter(first, indices.flatten(first), input.flatten(first))
        return flat.view(*input.shape[:first], *sizes)

    _export(
        max_unpool, name,
        "Values at the places that a max_pool gave, zeros elsewhere. Without an output_size the "
        "smallest size that the pool may have had. Places outside are an IndexError.",
    )  # fmt: skip


def _make_lp(dims):
    average = globals()[f"avg_pool{dims}d"]
    name = f"lp_pool{dims}d"

    def lp_pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        kernel = _each(kernel_size, dims, name, "kernel_size")
        if norm_type in (math.inf, -math.inf):  # the largest, or the smallest
            most = globals()[f"max_pool{dims}d"]
            sign = 1 if norm_type > 0 else -1
            return most(input.abs() * sign, kernel, stride, 0, 1, ceil_mode) * sign
        count = 1
        for k in kernel:
            count *= k
        mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
        # relu: where all elements are 0 the root's infinite slope is not taken.
        return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)

    _export(
        lp_pool, name,
        "(sum of x ** norm_type over each window) ** (1 / norm_type), a root of what is positive; the "
        "largest or smallest magnitude for infinities.",
    )  # fmt: skip


def _make_fractional(dims):
    name = f"fractional_max_pool{dims}d"

    def fractional_max_pool(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None,
    ):  # fmt: skip
        kernel = _each(kernel_size, dims, name, "kernel_size")
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"pf.{name}: expected one of output_size and output_ratio, and not both"
            )
        space = list(input.shape[-dims:])
        if output_size is None:
            ratios = [output_ratio] * dims if isinstance(output_ratio, float) else output_ratio
            if len(ratios) != dims or not all(0 < r < 1 for r in ratios):
                raise ValueError(
                    f"pf.{name}: got output_ratio {output_ratio!r}; expected numbers between 0 "
                    f"and 1, one or {dims}"
                )
            sizes = [int(n * r) for n, r in zip(space, ratios)]
        else:
            sizes = _each(output_size, dims, name, "output_size")
        if any(o < 1 or k < 1 or o + k - 1 > n for n, k, o in zip(space, kernel, sizes)):
            raise ValueError(
                f"pf.{name}: got windows of {tuple(kernel)} and results of {tuple(sizes)} for "
                f"input of shape {tuple(input.shape)}; expected output_size + kernel_size - 1 of "
                "at most the input's size"
            )
        batched = input if input.dim() == dims + 2 else input.unsqueeze(0)
        planes = batched.shape[:2]
        at = _random_samples
        if at is None:
            at = _ops.rand((*planes, dims), dtype=input.dtype, device=input.device)
        at = at.double()
        place = None
        for d in range(dims):
            n, k, o = space[d], kernel[d], sizes[d]
            # As PyTorch reads them: of two dimensions the width's first.
            u = at[..., dims - 1 - d if dims == 2 else d].unsqueeze(-1)
            steps = _ops.arange(o, device=input.device).double()
            alpha = (n - k) / (o - 1) if o > 1 else 0.0
            start = ((steps + u) * alpha).floor() - (u * alpha).floor()
            start = _ops.where(steps == o - 1, float(n - k), start).long()
            taps = start.unsqueeze(-1) + _ops.arange(k, device=input.device)  # [N, C, o, k]
            shape = [*planes] + [1] * (2 * dims)
            shape[2 + d], shape[2 + dims + d] = o, k
            taps = taps.view(*shape)
            place = taps if place is None else place * n + taps
        count = 1
        for k in kernel:
            count *= k
        flat = batched.flatten(2)
        seen = flat.gather(2, place.flatten(2)).view(*planes, *sizes, count)
        values, which = seen.max(-1)
        places = place.flatten(2 + dims).gather(-1, which.unsqueeze(-1)).squeeze(-1)
        if input.dim() == dims + 1:
            values, places = values.squeeze(0), places.squeeze(0)
        return (values, places) if return_indices else values

    def with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None,
    ):  # fmt: skip
        return fractional_max_pool(
            input, kernel_size, output_size, output_ratio, True, _random_samples
        )

    doc = (
        "The largest element of windows at random places (Graham 2015) that make results of "
        "output_size, or of output_ratio times the input's. _random_samples: [N, C, "
        f"{dims}] numbers from 0 to 1 that say where."
    )
    _export(fractional_max_pool, name, doc)
    _export(with_indices, name + "_with_indices", doc)


for _dims in (1, 2, 3):
    _make_max(_dims)
    _make_average(_dims)
    _make_adaptive(_dims)
    _make_unpool(_dims)
    _make_lp(_dims)
for _dims in (2, 3):
    _make_fractional(_dims)

_name_errors(__name__)
