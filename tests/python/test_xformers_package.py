"""xformers' attention under `pyflame run`, where that package is installed: here made up, with masks of its
names. The values are the definition's, in NumPy and float64; the package's own masks say what each hides."""

import math

import numpy as np
import pytest
import test_torch_run

import pyflame as pf
from pyflame._torch.extensions import xformers

pytestmark = pytest.mark.kernels(0.5)

BOUND = {pf.float64: 1e-12, pf.float32: 2e-5, pf.bfloat16: 3e-2}
SEEN = {  # of a block of rows and columns: the first and the last diagonal that are seen
    "Mask": lambda m, n: (-m, n),
    "CausalMask": lambda m, n: (-m, 0),
    "CausalFromBottomRightMask": lambda m, n: (-m, n - m),
    "CausalLocalAttentionMask": lambda m, n: (-1, 0),
    "CausalLocalAttentionFromBottomRightMask": lambda m, n: (n - m - 1, n - m),
}
WHOLE = {
    "LowerTriangularMask": lambda m, n: (-m, 0),
    "LowerTriangularFromBottomRightMask": lambda m, n: (-m, n - m),
    "LowerTriangularFromBottomRightLocalAttentionMask": lambda m, n: (n - m - 1, n - m),
    "LocalAttentionFromBottomRightMask": lambda m, n: (n - m - 2, n - m + 1),
}


def object_of(name, **attributes):
    return type(name, (), attributes)()


def band(m, n, diagonals):
    low, high = diagonals
    apart = np.arange(n) - np.arange(m)[:, None]
    return (apart >= low) & (apart <= high)


def hidden(seen):
    return np.where(seen, 0.0, -np.inf)


def reference(q, k, v, mask, scale=None):
    """[B, M, heads, K] each, a mask that broadcasts to [B, heads, M, N]; what sees nothing gives zeros."""
    q, k, v = (np.swapaxes(x.astype(float), 1, 2) for x in (q, k, v))
    s = q @ np.swapaxes(k, -1, -2) * (scale or q.shape[-1] ** -0.5) + mask
    top = np.maximum(s.max(-1, keepdims=True), -1e300)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    return np.swapaxes(p / np.maximum(total, 1e-300) @ v, 1, 2), lse


def draw(rng, *shapes, dtype=pf.float32):
    return [pf.tensor(rng.standard_normal(s)).to(dtype) for s in shapes]


def wide(t):
    return t.detach().to(pf.float64).numpy()


def check(tensors, bias, mask, scale=None):
    """The value, the sums of exponentials, and the gradients by differences along a line."""
    q, k, v = (t.detach().requires_grad_() for t in tensors)
    bound = BOUND[q.dtype]
    y = xformers.memory_efficient_attention(q, k, v, bias, scale=scale)
    out, lse = reference(*map(wide, tensors), mask, scale)
    assert y.dtype == q.dtype and np.abs(wide(y) - out).max() < bound
    forward, sums = xformers.memory_efficient_attention_forward_requires_grad(
        q, k, v, bias, scale=scale
    )
    assert forward.grad_fn is None and np.abs(wide(forward) - out).max() < bound
    seen = np.isfinite(lse)
    assert sums.shape == lse.shape and np.abs(wide(sums)[seen] - lse[seen]).max() < bound
    g = pf.ones_like(y)
    grads = pf.autograd.grad(y, (q, k, v), g)
    back = xformers.memory_efficient_attention_backward(
        g, forward, sums, q, k, v, bias, scale=scale
    )
    for mine, other in zip(grads, back, strict=True):
        assert np.abs(wide(mine) - wide(other)).max() <= bound
    if q.dtype == pf.float64:
        rng = np.random.default_rng(9)
        lines = [rng.standard_normal(t.shape) for t in tensors]
        ends = [
            reference(*(wide(t) + e * d for t, d in zip(tensors, lines, strict=True)), mask, scale)[
                0
            ].sum()
            for e in (1e-5, -1e-5)
        ]
        slope = sum((wide(x) * d).sum() for x, d in zip(grads, lines, strict=True))
        assert abs((ends[0] - ends[1]) / 2e-5 - slope) < 1e-6


@pytest.mark.parametrize("dtype", list(BOUND))
def test_no_mask_and_tensors(dtype):
    rng = np.random.default_rng(0)
    tensors = draw(rng, (2, 5, 3, 8), (2, 9, 3, 8), (2, 9, 3, 4), dtype=dtype)
    check(tensors, None, 0.0, 0.3)
    (bias,) = draw(rng, (2, 3, 5, 9), dtype=dtype)
    check(tensors, bias, wide(bias))
    check(
        tensors,
        object_of("LowerTriangularMaskWithTensorBias", _bias=bias),
        wide(bias) + hidden(band(5, 9, (-5, 0))),
    )


@pytest.mark.parametrize("name", list(WHOLE))
@pytest.mark.parametrize("lengths", [(5, 9), (7, 7), (9, 5)])
def test_masks(name, lengths):
    m, n = lengths
    window = {"_window_size": 2} if "LocalAttentionMask" in name else {}
    window |= {"window_left": 2, "window_right": 1} if name.startswith("Local") else {}
    rng = np.random.default_rng(1)
    tensors = draw(rng, (2, m, 3, 8), (2, n, 3, 8), (2, n, 3, 4), dtype=pf.float64)
    check(tensors, object_of(name, **window), hidden(band(m, n, WHOLE[name](m, n))))


def sequences(lengths, **more):
    starts = pf.tensor(np.cumsum([0, *lengths]), dtype=pf.int32)
    return object_of("Info", seqstart=starts, max_seqlen=max(lengths), **more)


def blocks(rows, columns, used, seen):
    """Whether each row sees each column, in blocks of which so many columns are used."""
    out = np.zeros((sum(rows), sum(columns)), bool)
    at = [0, 0]
    for m, n, some in zip(rows, columns, used, strict=True):
        out[at[0] : at[0] + m, at[1] : at[1] + some] = band(m, some, seen(m, some))
        at = [at[0] + m, at[1] + n]
    return out


@pytest.mark.parametrize("name", list(SEEN))
def test_sequences_one_behind_the_other(name):
    rows, columns = [3, 1, 4], [4, 5, 6]
    rng = np.random.default_rng(2)
    tensors = draw(rng, (1, 8, 3, 8), (1, 15, 3, 8), (1, 15, 3, 4), dtype=pf.float64)
    window = {"_window_size": 2} if "Local" in name else {}
    bias = object_of(
        f"BlockDiagonal{name}", q_seqinfo=sequences(rows), k_seqinfo=sequences(columns), **window
    )
    check(tensors, bias, hidden(blocks(rows, columns, columns, SEEN[name])))
    with pytest.raises(ValueError, match="got 2 samples"):
        xformers.memory_efficient_attention(*(t.expand(2, -1, -1, -1) for t in tensors), bias)


@pytest.mark.parametrize("name", ["PaddedKeysMask", "CausalWithOffsetPaddedKeysMask"])
def test_sequences_with_padding(name):
    rows, columns, used = [2, 3, 1], [5, 5, 5], [4, 3, 5]
    rng = np.random.default_rng(3)
    tensors = draw(rng, (1, 6, 3, 8), (1, 15, 3, 8), (1, 15, 3, 4), dtype=pf.float64)
    keys = sequences(columns, seqlen=pf.tensor(used, dtype=pf.int32))
    bias = object_of(f"BlockDiagonal{name}", q_seqinfo=sequences(rows), k_seqinfo=keys)
    seen = SEEN["Mask" if name == "PaddedKeysMask" else "CausalFromBottomRightMask"]
    check(tensors, bias, hidden(blocks(rows, columns, used, seen)))


def test_a_mask_of_another_class_writes_itself_out():
    rng = np.random.default_rng(4)
    tensors = draw(rng, (2, 5, 3, 8), (2, 9, 3, 8), (2, 9, 3, 4), dtype=pf.float64)
    seen = rng.random((5, 9)) < 0.5

    class Odd:
        def materialize(self, shape, dtype, device):
            assert tuple(shape) == (5, 9)
            return pf.tensor(hidden(seen)).to(dtype).to(device)

    check(tensors, Odd(), hidden(seen))


def test_three_and_five_dimensions():
    rng = np.random.default_rng(5)
    q, k, v, bias = draw(rng, (4, 5, 8), (4, 6, 8), (4, 6, 8), (4, 5, 6), dtype=pf.float64)
    y = xformers.memory_efficient_attention(q, k, v, bias)
    want = reference(*(wide(t)[:, :, None] for t in (q, k, v)), wide(bias)[:, None])[0]
    assert np.abs(wide(y) - want[:, :, 0]).max() < 1e-12
    q, k, v = draw(rng, (2, 5, 2, 4, 8), (2, 6, 2, 1, 8), (2, 6, 2, 1, 8), dtype=pf.float64)
    for grad in (False, True):  # keys of a group are taken once where no gradient is asked for
        heads = [t.detach().expand(-1, -1, 2, 4, -1).requires_grad_(grad) for t in (k, v)]
        y, lse = xformers.memory_efficient_attention_forward_requires_grad(q, *heads)
        full = xformers.memory_efficient_attention(q, *heads)
        flat = [wide(t).reshape(2, t.shape[1], 8, 8) for t in (q, *heads)]
        want, sums = reference(*flat, 0.0)
        for got in (y, full):
            assert np.abs(wide(got).reshape(want.shape) - want).max() < 1e-12
        assert np.abs(wide(lse).reshape(sums.shape) - sums).max() < 1e-12 and lse.shape == (
            2,
            2,
            4,
            5,
        )
    with pytest.raises(ValueError, match=r"got query \[2, 5, 2, 4, 8\], key \[2, 6, 2, 1, 8\]"):
        xformers.memory_efficient_attention(q, k, v)


def test_dropout_and_dtypes():
    ones = pf.ones(2, 200, 2, 8)
    pf.manual_seed(0)
    y = xformers.memory_efficient_attention(ones, ones, ones, p=0.5)
    assert abs(y.mean().item() - 1) < 0.02 and 0.02 < y.std().item() < 0.2
    with pytest.raises(NotImplementedError, match=r"got p=0\.5"):
        xformers.memory_efficient_attention_partial(ones, ones, ones, p=0.5)
    low = ones.to(pf.bfloat16)
    assert xformers.memory_efficient_attention(low, low, low).dtype == pf.bfloat16
    assert (
        xformers.memory_efficient_attention_forward(low, low, low, output_dtype=pf.float32).dtype
        == pf.float32
    )
    part, lse = xformers.memory_efficient_attention_partial(low, low, low)
    assert part.dtype == pf.float32 and abs(lse[0, 0, 0].item() - 8**0.5 - math.log(200)) < 1e-2


PACKAGE = '''
"""Of the package."""
import torch

class LowerTriangularMask:
    pass

def memory_efficient_attention(*args, **kwargs):
    raise NotImplementedError("No operator found")

def merge_attentions():
    return "theirs"
'''
PROGRAM = """
import inspect, sys, torch
assert "xformers" not in sys.modules
import xformers.ops as xops
from xformers.ops import fmha

assert xops.memory_efficient_attention is fmha.memory_efficient_attention
assert fmha.merge_attentions() == "theirs" and fmha.__doc__ == "Of the package."
assert not hasattr(fmha, "memory_efficient_attention_partial") and "class LowerTriangularMask" in inspect.getsource(fmha)
x = torch.arange(24.0).reshape(1, 3, 2, 4) / 10
y = xops.memory_efficient_attention(x, x, x, attn_bias=fmha.LowerTriangularMask(), op=None)
want = torch.nn.functional.scaled_dot_product_attention(*[x.transpose(1, 2)] * 3, is_causal=True).transpose(1, 2)
print(torch.allclose(y, want), tuple(y.shape), torch.mtia.is_available())
"""


@pytest.mark.cpu_only
def test_an_installed_package_gets_our_functions(tmp_path):
    ops = tmp_path / "xformers" / "ops"
    (ops / "fmha").mkdir(parents=True)
    (tmp_path / "xformers" / "__init__.py").write_text("")
    (ops / "__init__.py").write_text("from .fmha import memory_efficient_attention\n")
    (ops / "fmha" / "__init__.py").write_text(PACKAGE)
    assert test_torch_run.run(PROGRAM, cwd=tmp_path) == "True (1, 3, 2, 4) False\n"


@pytest.mark.cpu_only
def test_without_the_package_it_is_not_there(tmp_path):
    text = """
        import importlib.util
        try:
            import xformers.ops
        except ModuleNotFoundError as e:
            print(e)
        print(importlib.util.find_spec("xformers"))
    """
    assert test_torch_run.run(text, cwd=tmp_path) == "No module named 'xformers'\nNone\n"
