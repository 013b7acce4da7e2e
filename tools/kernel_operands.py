"""Operands of tools/kernel_calls.py, whose memory nobody touches."""

import math

import pyflame as pf

HALVES = [pf.float16, pf.bfloat16]
FLOATS = [pf.float32, *HALVES, pf.float64]
INTEGERS = [pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8, pf.bool]
STORED = [getattr(pf, n) for n in dir(pf) if isinstance(getattr(pf, n), pf.dtype)]
STORED = [d for d in dict.fromkeys(STORED) if d not in FLOATS + INTEGERS]
LAYOUTS = ("plain", "odd", "gaps", "turned")


def empty(*shape, dtype=pf.float32, layout="plain", grad=False):
    """A tensor whose memory nobody touches: from an odd address, with gaps, or turned."""
    if dtype is pf.int4 or not shape:
        layout = "plain"
    if layout == "odd":
        t = pf.empty(math.prod(shape) + 1, dtype=dtype)[1:].view(shape)
    elif layout == "gaps":
        t = pf.empty(*shape[:-1], 2 * shape[-1], dtype=dtype)[..., ::2]
    elif layout == "turned" and len(shape) > 1:
        t = pf.empty(*shape[:-2], shape[-1], shape[-2], dtype=dtype).transpose(-1, -2)
    else:
        t = pf.empty(shape, dtype=dtype)
    return t.requires_grad_() if grad and dtype.is_floating_point else t


def channels_last(t):
    kind = {4: pf.channels_last, 5: pf.channels_last_3d}[t.dim()]
    last = t.detach().contiguous(memory_format=kind)
    return last.requires_grad_() if t.requires_grad else last


def tensors_of(out):
    return [
        t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, pf.Tensor)
    ]


def both_ways(out):
    outs = [t for t in tensors_of(out) if t.requires_grad]
    if outs:
        pf.autograd.backward(outs, [empty(*t.shape, dtype=t.dtype) for t in outs])
